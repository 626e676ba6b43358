"""A simulated Slack for each module, calm and with fresh channels for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from threadline import Threadline
from threadline.core.model import ConversationRef, Kind
from threadline.testing.simulation import Simulation

TEAM = "T0HARBOUR"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """The simulator's process."""
    with Simulation("slack", tmp_path_factory.mktemp("slack"), speed=1000.0) as made:
        yield made


@pytest.fixture
def slack(platform: Simulation) -> Simulation:
    """The simulator without trouble, and without a request URL."""
    platform.calm()
    platform.do("away", away=False)
    platform.do("scopes")
    platform.do("token")
    platform.do("expect")
    platform.webhook("")
    return platform


@pytest.fixture
def room(slack: Simulation) -> str:
    """A channel of one's own."""
    made: str = slack.do("channel")["id"]
    return made


def ref(channel: str, root: str | None = None) -> ConversationRef:
    """A channel's conversation, or that of a thread in it."""
    if root is None:
        return ConversationRef("slack", TEAM, channel, kind=Kind.ROOM)
    return ConversationRef("slack", TEAM, root, channel, kind=Kind.THREAD)


def given(slack: Simulation, *, socket: bool, **more: str) -> dict[str, str]:
    """What `threadline connect slack` is told, for one of the two ways."""
    known = slack.credentials
    name = "app_token" if socket else "signing_secret"
    return {"bot_token": known["bot_token"], name: known[name], "api": f"{slack.url}/api", **more}


@asynccontextmanager
async def connected(url: str, key: bytes, slack: Simulation) -> AsyncIterator[Threadline]:
    """A line on a store, its account connected for Socket Mode, with nobody listening yet."""
    async with Threadline.open(url, key=key, allow_private=True) as made:
        await made.accounts.connect("slack", given(slack, socket=True))
        yield made


@pytest.fixture
async def line(sqlite_url: str, key: bytes, slack: Simulation) -> AsyncIterator[Threadline]:
    """A line that is connected to the simulator."""
    async with connected(sqlite_url, key, slack) as made:
        yield made
