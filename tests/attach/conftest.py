"""A server, conversations, and `threadline attach` with commands of the test's own."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.http.conftest import SECONDS, Served, Site, message, served, site
from tests.warm import PROGRAM, Popen

__all__ = ["Site", "served", "site"]

# What the commands of these tests have in common: they read, do as they are told, and say so.
AGENT = """
import json, os, signal, subprocess, sys, time

given = json.load(sys.stdin)
asked = given["records"][-1]["text"]
texts = [one["text"] for one in given["records"]]


def say(**answer):
    print(json.dumps(answer))


def count(file):
    with open(file, "a") as opened:
        opened.write("x")
    return os.path.getsize(file)

"""


@dataclass
class Room:
    """A conversation, by its id."""

    client: httpx.Client
    id: str

    def say(self, *texts: str, **more: Any) -> None:
        """Somebody says something here."""
        for text in texts:
            answer = self.client.post(
                f"/v1/conversations/{self.id}/transcript", json=message(text, **more)
            )
            assert answer.status_code == 200, answer.text

    @property
    def records(self) -> list[dict[str, Any]]:
        """What was said, oldest first."""
        answer = self.client.get(f"/v1/conversations/{self.id}/transcript", params={"limit": 500})
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["records"]
        return found

    @property
    def replies(self) -> list[str]:
        """What agents said."""
        return [one["text"] for one in self.records if one["direction"] == "outbound"]

    def read_up_to(self, session: str) -> int | None:
        """How far a member has read."""
        answer = self.client.get(f"/v1/conversations/{self.id}/members/{session}")
        assert answer.status_code == 200, answer.text
        found: int | None = answer.json()["last_read"]
        return found


@dataclass
class Running:
    """One `threadline attach`."""

    process: subprocess.Popen[str]
    log: Path
    told: list[dict[str, Any]] = field(default_factory=list)

    def until(self, *events: str) -> dict[str, Any]:
        """Wait until it says that this happened, or one of these."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said: dict[str, Any] = json.loads(line)
            self.told.append(said)
            if said["event"] in events:
                return said
        raise AssertionError(f"it ended before {events}: {self.told}\n{self.log.read_text()}")

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.end()

    def stop(self) -> int:
        """End it as an administrator would; the answer is its exit code."""
        self.process.terminate()
        return self.end()

    def end(self) -> int:
        """Wait until it ended; the answer is its exit code."""
        code = self.process.wait(timeout=SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


class Gate:
    """A way to the server on which a request can be held for ever, as a crash at that moment."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._server]
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.hold: str | None = None
        self.reached = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._open += [near, far]
                for source, sink, asks in ((near, far, True), (far, near, False)):
                    threading.Thread(
                        target=self._pump, args=(source, sink, asks), daemon=True
                    ).start()

    def _pump(self, source: socket.socket, sink: socket.socket, asks: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if asks and self.hold and re.match(self.hold, data.decode("latin-1")):
                    self.reached.set()
                    return
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Cut everything."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@dataclass
class Office:
    """A running server, and what is attached to it."""

    served: Served
    client: httpx.Client
    started: list[Running] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Where the commands run."""
        return self.served.folder

    def room(self, name: str, speaker: str | None = "helper") -> Room:
        """A room that belongs to a session."""
        about = {
            "provider": "web",
            "account_id": "office",
            "conversation_id": name,
            "kind": "room",
        }
        made = Room(self.client, self.client.post("/v1/conversations", json=about).json()["id"])
        if speaker is not None:
            self.post("put", f"/v1/conversations/{made.id}/binding", {"session_id": speaker})
        return made

    def thread(self, room: Room, root: str) -> Room:
        """The thread that hangs on a message of a room."""
        ref = self.client.get(f"/v1/conversations/{room.id}").json()["ref"]
        about = {
            "provider": ref["provider"],
            "account_id": ref["account_id"],
            "conversation_id": root,
            "parent_conversation_id": ref["conversation_id"],
            "kind": "thread",
        }
        return Room(self.client, self.client.post("/v1/conversations", json=about).json()["id"])

    def post(self, method: str, path: str, body: Any) -> Any:
        """Ask something of the server that has to succeed."""
        answer = self.client.request(method.upper(), path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def gate(self) -> Gate:
        """A way to the server that can be closed."""
        made = Gate(self.served.port)
        self.gates.append(made)
        return made

    def pipe(self, name: str) -> str:
        """A named pipe, by which a command and the test wait for each other."""
        path = str(self.folder / name)
        os.mkfifo(path)
        return path

    def script(self, body: str, name: str = "agent.py") -> list[str]:
        """A command of this body, after what all of them begin with."""
        (self.folder / name).write_text(AGENT + body)
        return [sys.executable, name]

    def attach(
        self,
        command: list[str],
        *options: str,
        session: str = "helper",
        env: dict[str, str] | None = None,
        ready: bool = True,
    ) -> Running:
        """Start an attach and wait until it serves."""
        log = self.folder / f"attach-{len(self.started)}.log"
        with log.open("w") as opened:
            process = Popen(
                [PROGRAM, "attach", "--session", session, "--json", *options, "--", *command],
                cwd=self.folder,
                env=self.served.environment | (env or {}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=opened,
                text=True,
            )
        made = Running(process, log)
        self.started.append(made)
        if ready:
            made.until("attached")
        return made

    def close(self) -> None:
        """End what is still running."""
        for one in self.started:
            if one.process.poll() is None:
                one.kill()
            elif one.process.stdout is not None:
                one.process.stdout.close()
        for gate in self.gates:
            gate.close()
        self.client.close()


@pytest.fixture
def office(served: Served) -> Iterator[Office]:
    """A server of the test's own."""
    made = Office(served, served.client())
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """One server for several tests, each of which has a room of its own."""
    server = Served(tmp_path_factory.mktemp("office"))
    server.start()
    made = Office(server, server.client())
    yield made
    made.close()
    server.kill()
