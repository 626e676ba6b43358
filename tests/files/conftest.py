"""A platform that keeps files and may lie about them, and a line that is connected to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Store
from threadline import Threadline
from threadline.core.files import Bounds
from threadline.core.model import Actor, Attachment, ConversationRef, Event, InboundMessage
from threadline.testing.simulation import Simulation

KIB = 1024
TOKEN = "MTE3.Gx9-canary_4417.kQ2v"
BOUNDS = Bounds(file=64 * KIB, kept=256 * KIB, seconds=20.0)
ROOM = ConversationRef.parse("discord/700/800")
ADA = Actor("ada", "Ada")
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
WHO = (
    b'{"id": "700", "flags": 262144, "verify_key": "",'
    b' "bot": {"id": "900", "username": "bot", "bot": true}}'
)

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


def http(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """An answer as it goes over the wire."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    head = {"content-length": str(len(body)), "connection": "close"} | named
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in head.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass
class Platform:
    """What answers as Discord does to who we are, and whatever a test wants to all else.

    `asked` holds the path and the headers of every request for a file.
    """

    url: str = ""
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    at_work: set[asyncio.Task[Any]] = field(default_factory=set)

    def paths(self) -> list[str]:
        """What was asked for."""
        return [path for path, _ in self.asked]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        task = asyncio.current_task()
        assert task is not None
        self.at_work.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.split("\r\n")
                path = first.split(" ")[1]
                headers = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in lines if line)
                }
                if "applications/@me" in path:
                    writer.write(http(WHO))
                else:
                    self.asked.append((path, headers))
                    answer = self.answers.get(path, http(b"{}", "404 Not Found"))
                    if isinstance(answer, bytes):
                        writer.write(answer)
                    else:
                        await answer(writer)
                await writer.drain()
        finally:
            self.at_work.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def served(platform: Platform) -> AsyncIterator[Platform]:
    """The platform on a socket of its own."""
    server = await asyncio.start_server(platform.serve, "127.0.0.1", 0)
    platform.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield platform
    finally:
        server.close()
        work = list(platform.at_work)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


@dataclass
class Scene:
    """A connected line, its platform, and where it keeps files."""

    line: Threadline
    platform: Platform
    folder: Path

    async def says(self, *files: Attachment, text: str = "see", **more: Any) -> int:
        """Somebody says something with files; its sequence."""
        message = InboundMessage(
            conversation=ROOM, text=text, actor=ADA, attachments=files, signed=True, **more
        )
        taken = await self.line.inbound.append(message)
        assert taken.record is not None
        return taken.record.sequence

    async def deletes(self, message_id: str) -> None:
        """Somebody takes a message back."""
        await self.line.inbound.append(
            InboundMessage(
                conversation=ROOM,
                actor=ADA,
                event=Event.DELETE,
                revises=message_id,
                message_id=f"no {message_id}",
                signed=True,
            )
        )

    async def shares(self, path: str, answer: Answer, **more: Any) -> int:
        """Somebody shares a file that is at this path."""
        self.platform.answers[path] = answer
        return await self.says(Attachment(id=path, url=self.platform.url + path, **more))

    def kept(self) -> list[Path]:
        """Every file with bytes on the disk."""
        return sorted((self.folder / "blobs").glob("*")) if self.folder.exists() else []


@asynccontextmanager
async def scene_on(store: Store, folder: Path, **bounds: Any) -> AsyncIterator[Scene]:
    """A scene on a store."""
    async with served(Platform()) as platform:
        limits = replace(BOUNDS, folder=str(folder), **bounds)
        line = Threadline(store, allow_private=True, files=limits)
        await line.accounts.connect("discord", {"token": TOKEN, "api": platform.url})
        try:
            yield Scene(line, platform, folder)
        finally:
            await line.outbox.close()


@pytest.fixture
async def scene(store: Store, tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene, once on each engine."""
    async with scene_on(store, tmp_path / "files") as made:
        yield made


@pytest.fixture(scope="session")
def telegram(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """One simulated Telegram; each test has a person of its own."""
    with Simulation("telegram", tmp_path_factory.mktemp("telegram")) as made:
        yield made


@pytest.fixture(scope="session")
def discord(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """One simulated Discord; each test has a channel of its own."""
    with Simulation("discord", tmp_path_factory.mktemp("discord")) as made:
        yield made


@pytest.fixture(scope="session")
def meta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """One simulated WhatsApp; each test has a person of its own."""
    with Simulation("whatsapp", tmp_path_factory.mktemp("meta")) as made:
        yield made


@pytest.fixture(scope="session")
def twilio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """One simulated Twilio; each test has a person of its own."""
    with Simulation("twilio", tmp_path_factory.mktemp("twilio")) as made:
        yield made
