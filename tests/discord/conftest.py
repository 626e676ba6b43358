"""A simulated Discord for each module, calm and with fresh rooms for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from threadline import Threadline
from threadline.core.model import ConversationRef
from threadline.testing.simulation import Simulation


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """The simulator's process."""
    with Simulation("discord", tmp_path_factory.mktemp("discord")) as made:
        yield made


@pytest.fixture
def discord(platform: Simulation) -> Simulation:
    """The simulator without trouble."""
    platform.calm()
    platform.do("content", allowed=True)
    platform.do("left", sessions=1000)
    platform.do("beat", millis=41_250)
    return platform


@pytest.fixture
def room(discord: Simulation) -> dict[str, Any]:
    """A channel of one's own."""
    made: dict[str, Any] = discord.do("channel")
    return made


def ref(channel: str) -> ConversationRef:
    """A channel's conversation."""
    return ConversationRef("discord", "700", channel)


@asynccontextmanager
async def connected(url: str, key: bytes, discord: Simulation) -> AsyncIterator[Threadline]:
    """A line on a store, its account connected as a person would, with nobody listening yet."""
    async with Threadline.open(url, key=key, allow_private=True) as made:
        given = {"token": discord.credentials["token"], "api": f"{discord.url}/api/v10"}
        await made.accounts.connect("discord", given)
        yield made


@pytest.fixture
async def line(sqlite_url: str, key: bytes, discord: Simulation) -> AsyncIterator[Threadline]:
    """A line that is connected to the simulator."""
    async with connected(sqlite_url, key, discord) as made:
        yield made
