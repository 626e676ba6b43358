"""A person at a simulated platform, a server connected to it, and the agent who answers."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.http.conftest import Site
from threadline import Threadline
from threadline.core.model import ConversationRef, InboundMessage, TranscriptRecord
from threadline.core.wire import Heard
from threadline.flows.replay import Handed
from threadline.testing.simulation import Simulation


@dataclass
class Talk(ABC):
    """What every such scene has: say where the person talks, and the rest is here."""

    line: Threadline
    site: Site
    platform: Simulation

    @property
    @abstractmethod
    def ref(self) -> ConversationRef:
        """Where the person talks."""

    async def arrives(self) -> None:
        """Nothing is on its way any more."""
        await asyncio.to_thread(self.platform.idle)

    async def answers(self, text: str, **more: Any) -> Any:
        """The agent says something; what became of it."""
        sent = await self.line.outbound.publish(self.ref, "agent", text, **more)
        return await self.line.outbound.settled(sent, patience=60)

    async def records(self) -> list[TranscriptRecord]:
        """The transcript."""
        return (await self.line.conversations.transcript(self.ref, limit=100)).records


async def connected(site: Site, provider: str, given: dict[str, str]) -> dict[str, Any]:
    """An account connected by the calls that `threadline connect` makes."""
    boss = await site.controller()
    body = {"provider": provider, "given": given, "public_url": site.url}
    made = await boss.post("/v1/accounts", json=body)
    assert made.status_code == 200, made.text
    found: dict[str, Any] = made.json()
    return found


@asynccontextmanager
async def at_work(line: Threadline) -> AsyncIterator[None]:
    """Listening and speaking, until this is left."""
    stopping = asyncio.Event()
    tasks = [
        asyncio.create_task(line.listeners.run(stopping)),
        asyncio.create_task(line.outbox.run(stopping)),
    ]
    try:
        yield
    finally:
        stopping.set()
        await asyncio.gather(*tasks)


async def seen(
    line: Threadline,
    place: ConversationRef,
    enough: Callable[[list[TranscriptRecord]], bool],
    reader: str = "reader",
) -> list[TranscriptRecord]:
    """What a reader of a conversation sees, once it is enough."""
    found: list[TranscriptRecord] = []
    async for item in line.replay.follow(reader, own=True):
        if isinstance(item, Handed) and item.ref == place:
            found.append(item.record)
            if enough(found):
                return found
    raise AssertionError("the conversation ended")


async def furnished(line: Threadline, place: ConversationRef) -> ConversationRef:
    """A conversation that `agent` is bound to and `reader` follows."""
    await line.conversations.ensure(place)
    await line.speakers.bind(place, "agent")
    await line.members.join(place, "reader", policy="all")
    return place


def one(heard: Heard) -> InboundMessage:
    """The only thing that was heard."""
    assert not heard.skipped
    assert not heard.foreign
    [found] = heard.messages
    return found
