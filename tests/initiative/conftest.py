"""A simulated Telegram, and a line whose `agent` may start conversations there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from threadline import Threadline
from threadline.core.model import TranscriptRecord
from threadline.core.ports import Store
from threadline.testing.simulation import Simulation


@pytest.fixture(scope="module")
def telegram(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """One simulated Telegram; each test has people of its own."""
    with Simulation("tests.telegram.platform:Platform", tmp_path_factory.mktemp("first")) as made:
        yield made


@pytest.fixture
async def line(store: Store, telegram: Simulation) -> AsyncIterator[Threadline]:
    """A line with the bot connected, granted to `agent`."""
    made = Threadline(store, allow_private=True)
    await made.accounts.connect("telegram", {**telegram.credentials, "api": telegram.url})
    await made.sessions.create("agent")
    await made.consents.grant("agent", "telegram", "7001")
    yield made
    await made.outbox.close()


async def heard(line: Threadline, telegram: Simulation) -> None:
    """Poll until Telegram has nothing left that we did not confirm."""
    stopping = asyncio.Event()
    worker = asyncio.create_task(line.listeners.run(stopping))
    try:
        await asyncio.to_thread(telegram.idle)
    finally:
        stopping.set()
        with contextlib.suppress(asyncio.CancelledError):
            await worker


async def met(line: Threadline, telegram: Simulation, *users: int) -> None:
    """These people wrote once."""
    for one in users:
        telegram.do("write", chat=one, text="hello", user=one)
    await heard(line, telegram)


async def transcript(line: Threadline, ref: str) -> list[TranscriptRecord]:
    """A short transcript."""
    return (await line.conversations.transcript(ref, limit=500)).records


def said(telegram: Simulation, chat: int) -> list[str]:
    """What people in a chat saw of the bot."""
    return [one["text"] for one in telegram.effects("message") if one["place"] == str(chat)]
