"""A TCP proxy in front of PostgreSQL that loses the connection around a COMMIT."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import Literal

# A simple query as PostgreSQL's protocol spells it: its letter, its length, its text.
COMMIT = b"Q\x00\x00\x00\x0bcommit\x00"
COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"


class Cut(Enum):
    """When the connection is lost."""

    BEFORE = "COMMIT never reaches the server"
    AFTER = "the server commits, its answer never comes back"


class Proxy:
    """Forwards everything until it is told to cut the next commits. Made by `proxy`."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._cuts: list[Cut] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._away = False
        self.port = 0
        self.lost = 0

    def cut(self, *cuts: Cut) -> None:
        """Lose the connection at each of the next commits."""
        self._cuts += cuts

    async def serve(self, near: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        """Join one client with the server."""
        far, ask = await asyncio.open_connection("127.0.0.1", self._target)
        if self._away:
            # Asked only here: it may leave while this client is being joined.
            answer.close()
            ask.close()
            return
        cut = asyncio.Event()
        both = {answer, ask}
        self._writers |= both

        async def pump(
            source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: Literal["ask", "answer"]
        ) -> None:
            with suppress(OSError):
                while data := await source.read(65_536):
                    if way == "ask" and data == COMMIT and self._cuts:
                        if self._cuts.pop(0) is Cut.BEFORE:
                            self.lost += 1
                            break
                        cut.set()
                    if way == "answer" and cut.is_set() and data.startswith(COMMITTED):
                        self.lost += 1
                        break
                    sink.write(data)
                    await sink.drain()
            for writer in both:
                writer.close()

        await asyncio.gather(pump(near, ask, "ask"), pump(far, answer, "answer"))
        self._writers -= both

    async def leave(self) -> None:
        """Be gone: what is joined is cut, who comes is sent away."""
        self._away = True
        await self.close()

    async def come_back(self) -> None:
        """Join again."""
        self._away = False

    async def close(self) -> None:
        """Cut what is still joined."""
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def proxy(port: int) -> AsyncIterator[Proxy]:
    """A proxy in front of the server at `port` on this machine."""
    made = Proxy(port)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.close()
