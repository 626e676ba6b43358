"""A person at a simulated platform, a server connected to it, and the agent who answers."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.http.conftest import Served, Site
from threadline import Threadline
from threadline.core.deliveries import DeliveryState
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


Connected = Callable[[str, bytes, Simulation], AbstractAsyncContextManager[Threadline]]


async def killed_while_it_spoke(
    folder: Path,
    platform: Simulation,
    connected: Connected,
    place: ConversationRef,
    words: int,
) -> list[TranscriptRecord]:
    """A server dies while the platform has taken what it says and not answered; a person wrote so
    many words before that and writes as many after it. What the next life's reader sees of it all,
    and nothing is wrong with what was said: one effect, proven by its own id."""
    channel = place.conversation_id
    served = Served(folder, settings={"THREADLINE_ADAPTERS_ALLOW_PRIVATE": "true"})
    served.home.mkdir()
    url, key = f"sqlite:{served.home / 'threadline.db'}", bytes(range(32))
    (served.home / "threadline.db.key").write_text(key.hex() + "\n")
    async with connected(url, key, platform) as line:
        await furnished(line, place)
        sent = await line.outbound.publish(place, "agent", "Once.")
    platform.fault("slow", place=channel)
    served.start()
    try:
        await asyncio.to_thread(platform.do, "attended")
        for number in range(words):
            platform.do("say", text=f"before {number}", channel=channel)
        await asyncio.to_thread(platform.effects, "message", place=channel, at_least=1)
    finally:
        served.kill()
    platform.release()
    for number in range(words):
        platform.do("say", text=f"after {number}", channel=channel)

    def complete(found: list[TranscriptRecord]) -> bool:
        return len(found) >= 2 * words + 1

    async with connected(url, key, platform) as line:
        # Where a platform tells us what we said, that may have been the proof already.
        proven = {DeliveryState.SENDING, DeliveryState.DELIVERED}
        assert (await line.deliveries.show(sent.id)).state in proven
        async with at_work(line):
            found = await seen(line, place, complete)
        delivery = await line.deliveries.show(sent.id)

    [mine] = [it for it in found if it.source_session_id == "agent"]
    [effect] = platform.effects("message", place=channel)
    assert (mine.text, mine.message_id) == ("Once.", effect["id"])
    assert delivery.message_ids == (effect["id"],)
    return found


def before_and_after(words: int) -> list[str]:
    """What that person wrote."""
    return [f"{when} {number}" for when in ("before", "after") for number in range(words)]
