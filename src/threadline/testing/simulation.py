"""A simulated platform as a test holds it: a process that is started, ordered about and killed.

with Simulation("telegram", tmp_path) as telegram:
    telegram.do("say", chat=9, text="Hello")
    telegram.fault("drop")
    …
    assert [one["text"] for one in telegram.effects("message", at_least=1)] == ["Hi"]
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from threadline.testing.held import Held

PATIENCE = 60.0


class Refusal(Exception):
    """The simulator does not understand an order, or what was waited for did not come."""


class Simulation(Held):
    """One simulator with its file in `folder`. Options are those of `simulators.serving.served`.

    `api` is where an app makes its calls, `credentials` are what it needs for them.
    """

    def __init__(self, name: str, folder: Path, **options: Any) -> None:
        self._options = {"name": name, "state": str(folder / "state.sim"), "port": 0, **options}
        self._process: subprocess.Popen[str] | None = None
        self._client = httpx.Client(timeout=PATIENCE, trust_env=False)
        self.name = name
        self.url = self.api = ""
        self.credentials: dict[str, str] = {}

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, or start it again on the same port with all it remembers."""
        if self._process is not None and self._process.poll() is None:
            raise Refusal(f"the simulator {self.name} is running; end it before it starts again.")
        command = [sys.executable, "-m", "threadline.testing.simulators"]
        self._process = subprocess.Popen(
            [*command, json.dumps(self._options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        about = json.loads(self._process.stdout.readline() or "{}")
        if not about:
            self.kill()
            raise Refusal(f"the simulator {self._options['name']} does not start.")
        self.url, self.api = about["url"], about["api"]
        self.credentials = about["credentials"]
        self._options["port"] = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """`kill -9`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for end in (self._process.stdin, self._process.stdout):
                assert end is not None
                end.close()
            self._process = None

    def close(self) -> None:
        """See `Held.close`."""
        self.kill()
        self._client.close()

    def do(self, command: str, **facts: Any) -> Any:
        """Do what a person does on that platform; what came of it."""
        return self._order("POST", command, facts)

    def fault(self, fault: str, **facts: Any) -> None:
        """Order trouble, as `simulators/faults.py` lists it."""
        self._order("POST", "faults", {"fault": fault, **facts})

    def calm(self) -> None:
        """Order no more trouble; what was held back goes on its way."""
        self._order("DELETE", "faults")

    def release(self) -> None:
        """Let the answers go that `slow` holds."""
        self._order("POST", "release")

    def webhook(self, url: str, secret: str = "") -> None:
        """Send events there, signed with the secret; nowhere with an empty URL."""
        self._order("POST", "webhook", {"url": url, "secret": secret})

    def redeliver(self, number: int | None = None) -> int:
        """Let one event, or all there were, arrive once more; how many."""
        done: int = self._order("POST", "redeliver", {"number": number})["events"]
        return done

    def move(self, **by: float) -> None:
        """Let its clock go on by `days=`, `hours=`, `minutes=`, `seconds=`."""
        self._order("POST", "clock", {"seconds": timedelta(**by).total_seconds()})

    def disconnect(self, code: int = 1000) -> int:
        """Close the sockets; how many there were."""
        done: int = self._order("POST", "disconnect", {"code": code})["closed"]
        return done

    def effects(self, kind: str = "", *, at_least: int = 0, **facts: Any) -> list[dict[str, Any]]:
        """What was really said there, once there is so much of it."""
        asked = {"at_least": at_least, **facts} | ({"kind": kind} if kind else {})
        return self._list("effects", asked)

    def calls(self, route: str = "", *, at_least: int = 0) -> list[dict[str, Any]]:
        """What was asked of it and how it answered, once there are so many."""
        asked = {"at_least": at_least} | ({"route": route} if route else {})
        return self._list("calls", asked)

    def settled(self) -> list[dict[str, Any]]:
        """The events that arrived, were lost or given up."""
        found: list[dict[str, Any]] = self._order("GET", "events")["settled"]
        return found

    def waiting(self) -> list[dict[str, Any]]:
        """The events that are on their way."""
        found: list[dict[str, Any]] = self._order("GET", "events", asked={"under_way": 1})[
            "waiting"
        ]
        return found

    def idle(self) -> list[dict[str, Any]]:
        """Wait until no event is on its way; what became of them."""
        found: list[dict[str, Any]] = self._order("GET", "events", asked={"idle": 1})["settled"]
        return found

    def _list(self, name: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._order("GET", name, asked=asked)
        return found

    def _order(
        self, method: str, name: str, body: Any = None, *, asked: dict[str, Any] | None = None
    ) -> Any:
        url = f"{self.url}/_sim/{name}"
        content = None if body is None else json.dumps(body)
        answer = self._client.request(method, url, content=content, params=asked)
        if answer.status_code != 200:
            raise Refusal(f"{name}: {answer.json()['error']}")
        return answer.json()
