"""A web server that is pushed to: real sockets, and answers as a test scripts them."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from standardwebhooks import Webhook

from threadline.testing.clock import StillClock

SECONDS = 60.0


@dataclass
class Got:
    """One request as it came."""

    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def texts(self) -> list[str]:
        """What its records say."""
        return [one["text"] for one in self.data["records"]]

    def verified(self, secret: str) -> Any:
        """The body, as the official library lets it through. Raises where it does not."""
        return Webhook(secret).verify(self.body, self.headers)


@dataclass
class Reply:
    """What is answered; with `hold` only once that is set."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hold: asyncio.Event | None = None


Script = Callable[[Got], Reply]


def acks(got: Got) -> Reply:
    """Everything in it was taken."""
    last = got.data["records"][-1]["sequence"]
    return Reply(body=json.dumps({"ack": last}).encode())


def says(status: int = 200, data: Any = None, **headers: str) -> Script:
    """Always the same answer."""
    body = b"" if data is None else json.dumps(data).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda got: Reply(status, body, named)


def echoes(got: Got) -> Reply:
    """The right answer to a challenge."""
    return Reply(body=json.dumps({"challenge": got.data["challenge"]}).encode())


class Receiver:
    """Answers challenges with `challenge`, records with `answers` and then with `otherwise`."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.challenges: list[Got] = []
        self.challenge: Script = echoes
        self.answers: deque[Script] = deque()
        self.otherwise: Script = acks
        self.connections = 0
        self.port = 0
        self.scheme = "http"
        self._new: asyncio.Queue[Got] = asyncio.Queue()
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"{self.scheme}://127.0.0.1:{self.port}/hook"

    async def next(self) -> Got:
        """The next batch, as soon as it is here."""
        return await asyncio.wait_for(self._new.get(), SECONDS)

    async def texts(self, count: int) -> list[str]:
        """What the next records say."""
        found: list[str] = []
        while len(found) < count:
            found += (await self.next()).texts
        return found

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            while head := await _head(reader):
                await self._answer(head, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(
        self, head: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        headers = dict(line.split(": ", 1) for line in head[1:])
        headers = {name.lower(): value for name, value in headers.items()}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        got = Got(head[0].split(" ")[1], headers, body)
        if got.data["type"] == "challenge":
            self.challenges.append(got)
            reply = self.challenge(got)
        else:
            self.got.append(got)
            reply = (self.answers.popleft() if self.answers else self.otherwise)(got)
            self._new.put_nowait(got)
        if reply.hold is not None:
            await reply.hold.wait()
        lines = [f"HTTP/1.1 {reply.status} Said", f"Content-Length: {len(reply.body)}"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + reply.body)
        await writer.drain()

    async def close(self) -> None:
        """Hang up."""
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)


async def _head(reader: asyncio.StreamReader) -> list[str]:
    try:
        block = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return []
    return block.decode("latin-1").rstrip("\r\n").split("\r\n")


@asynccontextmanager
async def receiving(context: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """A receiver on a free port of loopback."""
    made = Receiver()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
    made.port = server.sockets[0].getsockname()[1]
    made.scheme = "http" if context is None else "https"
    try:
        yield made
    finally:
        server.close()
        await made.close()


class Waits:
    """Waits out back-offs by moving the clock; with `held` only when the test says so."""

    def __init__(self, clock: StillClock, *, held: bool = False) -> None:
        self._clock = clock
        self._held = held
        self._asked: asyncio.Queue[tuple[float, asyncio.Event]] = asyncio.Queue()
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """A back-off of so many seconds."""
        self.seconds.append(seconds)
        over = asyncio.Event()
        self._asked.put_nowait((seconds, over))
        if self._held:
            await over.wait()
        self._clock.move(seconds=seconds)
        await asyncio.sleep(0)

    async def next(self) -> tuple[float, asyncio.Event]:
        """The next back-off that is asked for, and what ends it."""
        return await asyncio.wait_for(self._asked.get(), SECONDS)
