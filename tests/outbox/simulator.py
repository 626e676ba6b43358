"""A chat platform behind an out-of-process adapter, as a program: it counts what really happened.

`python simulator.py SECRET` prints its port; `POST /begin {"log": LOG}` makes it a new platform for
the connections that come after it. What was said is written to LOG and synced before anything is
answered, so that its count survives whatever happens to us or to it. It checks every signature, and
makes trouble on command: `POST /faults {"fault": …, "times": 1}`.

| fault | what it does |
|---|---|
| `refuse` | answers `status` (200) with `answer`; nothing is said |
| `status` | answers a bare `status`, with `headers`; nothing is said |
| `drop` | says it, then closes the connection without a word |
| `late_error` | says it, then answers `status` |
| `reset` | resets the connection; nothing is said |
| `slow` | says it, then waits for `POST /release` before it answers |
| `kill` | kills the process `pid` before it says anything, and closes |
| `say_and_kill` | says it, kills the process `pid`, and closes |
| `mute` | answers 200 without a message id; nothing is said |
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError


class Platform:
    """What is said here, and the trouble that was asked for."""

    def __init__(self, log: Path, secret: str) -> None:
        self.lock = threading.Lock()
        self.log = log.open("a", encoding="utf-8")
        self.hook = Webhook(secret)
        self.faults: deque[dict[str, Any]] = deque()
        self.entries = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        self.released = threading.Event()
        self.arrived = threading.Event()
        self.idempotent = False

    def write(self, kind: str, **facts: Any) -> dict[str, Any]:
        """Write an entry down, synced."""
        with self.lock:
            entry = {"kind": kind, **facts}
            self.entries.append(entry)
            self.log.write(json.dumps(entry) + "\n")
            self.log.flush()
            os.fsync(self.log.fileno())
            return entry

    def say(self, body: dict[str, Any]) -> str:
        """Let everybody see it; the platform's id of the message."""
        with self.lock:
            said = [one for one in self.entries if one["kind"] == "effect"]
        if self.idempotent:
            for one in said:
                if one["key"] == body["key"]:
                    return str(one["message_id"])
        name = f"m{len(said) + 1}"
        place = body["conversation"]["conversation_id"]
        self.write("effect", message_id=name, key=body["key"], text=body["text"], place=place)
        return name

    def trouble(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """The next fault that is meant for this call."""
        with self.lock:
            for fault in list(self.faults):
                place = fault.get("place")
                part = fault.get("part")
                if place not in (None, body["conversation"]["conversation_id"]):
                    continue
                if part not in (None, body["part"]):
                    continue
                fault["times"] -= 1
                if fault["times"] <= 0:
                    self.faults.remove(fault)
                return fault
        return None


class Server(ThreadingHTTPServer):
    """With room for everybody who knocks at once: five, as by default, would lose the sixth."""

    request_queue_size = 128


class Handler(BaseHTTPRequestHandler):
    """The adapter's routes, and the test's own."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    newest: Platform
    secret: str

    def setup(self) -> None:
        """A connection stays with the platform it was made to."""
        super().setup()
        self.platform = self.newest

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing on the terminal."""

    def do_GET(self) -> None:
        """The log."""
        with self.platform.lock:
            entries = list(self.platform.entries)
        self.answer(200, entries)

    def do_POST(self) -> None:
        """A signed call, or a word of the test."""
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        match self.path:
            case "/begin":
                Handler.newest = Platform(Path(json.loads(raw)["log"]), self.secret)
                self.answer(200, {})
            case "/faults":
                self.platform.faults.append({"times": 1} | json.loads(raw))
                self.answer(200, {})
            case "/release":
                self.platform.released.set()
                self.answer(200, {})
            case "/arrived":
                self.answer(200, {"arrived": self.platform.arrived.wait(60)})
            case "/calm":
                self.platform.faults.clear()
                self.answer(200, {})
            case "/idempotent":
                self.platform.idempotent = True
                self.answer(200, {})
            case _:
                self.signed(raw)

    def signed(self, raw: bytes) -> None:
        """Only what threadline signed."""
        try:
            self.platform.hook.verify(raw, {k.lower(): v for k, v in self.headers.items()})
        except WebhookVerificationError:
            self.platform.write("forged", path=self.path)
            self.answer(401, {})
            return
        body = json.loads(raw)
        name = self.path.rpartition("/")[2]
        if name == "challenge":
            self.platform.write("challenge")
            self.answer(200, {"challenge": body["challenge"]})
        elif name == "child-conversation":
            self.platform.write("child", key=body["key"], root=body["reply_to"])
            place = body["conversation"]["conversation_id"]
            self.answer(200, {"conversation_id": "t1", "parent_conversation_id": place})
        elif name == "publish":
            self.platform.write("call", **{k: body[k] for k in ("key", "text", "part", "reply_to")})
            self.publish(body)

    def publish(self, body: dict[str, Any]) -> None:
        """Say it, with the trouble that was asked for."""
        fault = self.platform.trouble(body) or {"fault": ""}
        if fault["fault"]:
            self.platform.write("fault", key=body["key"], fault=fault["fault"])
        match fault["fault"]:
            case "refuse":
                self.answer(fault.get("status", 200), fault["answer"])
            case "status":
                self.answer(fault["status"], None, fault.get("headers", {}))
            case "mute":
                self.answer(200, {"ok": True})
            case "drop":
                self.platform.say(body)
                self.hang_up()
            case "late_error":
                self.platform.say(body)
                self.answer(fault["status"], None)
            case "reset":
                self.hang_up(reset=True)
            case "slow":
                name = self.platform.say(body)
                self.platform.arrived.set()
                self.platform.released.wait(60)
                self.answer(200, {"message_id": name})
            case "kill":
                os.kill(fault["pid"], signal.SIGKILL)
                self.hang_up()
            case "say_and_kill":
                self.platform.say(body)
                os.kill(fault["pid"], signal.SIGKILL)
                self.hang_up()
            case _:
                self.answer(200, {"message_id": self.platform.say(body)})

    def hang_up(self, *, reset: bool = False) -> None:
        """End the connection without an answer."""
        if reset:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
        else:
            self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        """Answer with JSON, or with nothing."""
        raw = b"" if body is None else json.dumps(body).encode()
        try:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)
        except OSError:
            self.close_connection = True


def main() -> None:
    """Serve until killed."""
    Handler.secret = sys.argv[1]
    Handler.newest = Platform(Path(os.devnull), Handler.secret)
    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
