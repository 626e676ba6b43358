"""A platform that is another process, and a room on it that `agent` may speak in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import Store
from threadline import Threadline
from threadline.core.model import (
    Actor,
    AdapterCaller,
    ConversationRef,
    Direction,
    InboundMessage,
    Kind,
    TranscriptRecord,
)
from threadline.core.recording import Taken

SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
ROOM = ConversationRef("chat", "A1", "room", kind=Kind.ROOM)
HALL = ConversationRef("chat", "A1", "hall", kind=Kind.ROOM)
ADAPTER = AdapterCaller("default", "chat", "A1")
SIMULATOR = Path(__file__).with_name("simulator.py")


class Platform:
    """The simulator's side, as a test sees it."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "platform.log"
        self.log.touch()
        self.process = subprocess.Popen(
            [sys.executable, str(SIMULATOR), str(self.log), SECRET],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"
        self._client = httpx.Client(base_url=self.url, timeout=90, trust_env=False, verify=False)

    def fault(self, fault: str, **facts: Any) -> None:
        """Make trouble for the next call, or the next ones."""
        self._client.post("/faults", json={"fault": fault, **facts}).raise_for_status()

    def say(self, word: str) -> None:
        """`release` a slow answer, wait until one has `arrived`, be `idempotent`, be `calm`."""
        self._client.post(f"/{word}").raise_for_status()

    def entries(self, kind: str) -> list[dict[str, Any]]:
        """What it wrote down, of one kind."""
        found: list[dict[str, Any]] = self._client.get("/log").json()
        return [one for one in found if one["kind"] == kind]

    @property
    def said(self) -> list[str]:
        """What everybody there sees, in its order."""
        return [one["text"] for one in self.entries("effect")]

    @property
    def calls(self) -> int:
        """How often it was asked to say something."""
        return len(self.entries("call"))

    def close(self) -> None:
        """End it."""
        self._client.close()
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    """A platform of one's own."""
    made = Platform(tmp_path)
    yield made
    made.close()


async def furnished(line: Threadline, platform: Platform, **capabilities: Any) -> Threadline:
    """Its account registered, room and hall bound to `agent`, with a `reader` in both."""
    await line.adapters.register(
        "chat", "A1", platform.url, secret=SECRET, capabilities=capabilities
    )
    for place in (ROOM, HALL):
        await line.conversations.ensure(place)
        await line.speakers.bind(place, "agent")
        await line.members.join(place, "reader", policy="all")
    return line


@pytest.fixture
async def tl(store: Store, platform: Platform) -> AsyncIterator[Threadline]:
    """A line whose room is on the platform, once on each engine."""
    line = await furnished(Threadline(store, allow_private=True), platform)
    yield line
    await line.outbox.close()


async def records(line: Threadline, where: Any = ROOM) -> list[TranscriptRecord]:
    """All records of a short transcript."""
    return (await line.conversations.transcript(where, limit=500)).records


async def texts(line: Threadline, where: Any = ROOM) -> list[str]:
    """What a short transcript says."""
    return [one.text for one in await records(line, where)]


async def hears(
    line: Threadline, text: str, message_id: str, where: ConversationRef = ROOM, **more: Any
) -> Taken:
    """The adapter brings what a person said."""
    message = InboundMessage(
        conversation=where, text=text, actor=Actor("ada", "Ada"), message_id=message_id, **more
    )
    return await line.inbound.receive(message, caller=ADAPTER)


async def echo(line: Threadline, text: str, message_id: str, token: str | None = None) -> Taken:
    """The adapter brings one of our own messages, as the platform shows it."""
    message = InboundMessage(
        conversation=ROOM,
        text=text,
        actor=Actor("A1", "bot", is_bot=True, is_self=True),
        message_id=message_id,
        direction=Direction.OUTBOUND,
        token=token,
    )
    return await line.inbound.receive(message, caller=ADAPTER)
