"""A server as an agent's test holds it: `threadline serve` in an empty home, started and killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from threadline.core.model import ConversationRef
from threadline.testing.held import Held
from threadline.testing.simulation import Simulation

PATIENCE = 60.0
# A server of a test listens where it likes and may call this machine; nothing else is set.
SETTINGS = {"THREADLINE_ADAPTERS_ALLOW_PRIVATE": "1", "NO_COLOR": "1"}


class ServerRefused(Exception):
    """The server does not start, or answers a request of the test with a problem."""


@dataclass(frozen=True, slots=True)
class Connected:
    """An account connected to a simulated platform."""

    platform: Simulation
    provider: str
    account_id: str

    def ref(self, conversation: str, below: str | None = None) -> str:
        """The address of a conversation by the platform's id, of a thread with its room's."""
        return str(ConversationRef(self.provider, self.account_id, conversation, below))


class Server(Held):
    """One server with its home in `folder`, told nothing of the environment but `environment`.

    with Server(tmp_path) as server:
        account = server.connect(simulation)
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = {
            name: value for name, value in environment.items() if name[:11] != "THREADLINE_"
        }
        self._environment |= SETTINGS | {"THREADLINE_HOME": str(folder / "home")}
        self._process: subprocess.Popen[str] | None = None
        self._client = httpx.Client(timeout=PATIENCE, trust_env=False, verify=False)
        self._port = 0
        self.url = self.token = ""

    def start(self) -> None:
        """Start it, or start it again on the same port with all it remembers."""
        command = [sys.executable, "-m", "threadline.entrypoints.cli", "serve", "--json"]
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                [*command, "--port", str(self._port)],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.kill()
            raise ServerRefused((self._folder / "log").read_text("utf-8", "replace"))
        said = json.loads(line)
        self.url, self._port = said["url"], int(said["url"].rpartition(":")[2])
        self.token = Path(said["token_file"]).read_text("utf-8").strip()

    def kill(self) -> None:
        """`kill -9`."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it as an administrator would."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def close(self) -> None:
        """See `Held.close`."""
        self.kill()
        self._client.close()

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """What the server answers to its controller. Raises `ServerRefused` for a problem."""
        headers = {"authorization": f"Bearer {self.token}"}
        answer = self._client.request(method, self.url + path, json=body, headers=headers)
        if not answer.is_success:
            raise ServerRefused(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.content else None

    def connect(self, platform: Simulation, **given: str) -> Connected:
        """Connect the account of a simulated platform. `given` are further answers by name."""
        known = {**platform.credentials, "api": platform.api, "public_url": self.url, **given}
        asks = self.request("GET", f"/v1/providers/{platform.name}")["asks"]
        answers = {one["name"]: known[one["name"]] for one in asks if one["name"] in known}
        body = {"provider": platform.name, "given": answers, "public_url": self.url}
        made = self.request("POST", "/v1/accounts", body)
        return Connected(platform, made["state"]["provider"], made["state"]["account_id"])

    def conversation(self, ref: str) -> str:
        """The path of a conversation's routes, `/v1/conversations/ID`; it is there afterwards."""
        one = ConversationRef.parse(ref)
        body = {
            "provider": one.provider,
            "account_id": one.account_id,
            "conversation_id": one.conversation_id,
            "parent_conversation_id": one.parent_conversation_id,
        }
        return f"/v1/conversations/{self.request('POST', '/v1/conversations', body)['id']}"

    def bind(self, ref: str, session: str) -> None:
        """Give a conversation to a session, which reads all of it and answers."""
        body = {"session_id": session, "policy": "all"}
        self.request("PUT", f"{self.conversation(ref)}/binding", body)

    def transcript(self, ref: str) -> list[dict[str, Any]]:
        """The records of a conversation, oldest first."""
        page = self.request("GET", f"{self.conversation(ref)}/transcript?limit=500&after=0")
        found: list[dict[str, Any]] = page["records"]
        return found
