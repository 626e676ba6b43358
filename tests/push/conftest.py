"""A store, something to push to, and a loop that pushes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import Store
from tests.push.receiver import Receiver, Waits, receiving
from threadline import Threadline
from threadline.core.push import PushPace
from threadline.entrypoints.http.push import form
from threadline.flows.pushing import Pushing
from threadline.testing.clock import StillClock
from threadline.transports.guarded import Guarded

# The clock of these tests is moved by back-offs: a lease must outlive a good many of them.
PACE = PushPace(lease=timedelta(days=30), scan=timedelta(milliseconds=20))
ROOM = "web/office/lobby"

Running = Callable[..., AbstractAsyncContextManager[Pushing]]


@pytest.fixture
def tl(store: Store) -> Threadline:
    """Everything on an empty store, with loopback allowed."""
    return Threadline(store, outside=Guarded(allow_private=True))


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """What is pushed to."""
    async with receiving() as made:
        yield made


@pytest.fixture
def waits(clock: StillClock) -> Waits:
    """Back-offs that pass at once."""
    return Waits(clock)


@pytest.fixture
def running(waits: Waits) -> Running:
    """Run the loop of a node as long as it is held: `async with running(tl):`."""

    @asynccontextmanager
    async def made(line: Threadline, **options: Any) -> AsyncIterator[Pushing]:
        usual: dict[str, Any] = {"pace": PACE, "wait": waits, "chance": lambda: 1.0}
        pushing = Pushing(line.store, line.push, form, **(usual | options))
        stopping = asyncio.Event()
        task = asyncio.create_task(pushing.run(stopping))
        try:
            yield pushing
        finally:
            stopping.set()
            await task

    return made


@pytest.fixture
async def coder(tl: Threadline) -> str:
    """A session that reads the lobby from its beginning."""
    await tl.conversations.ensure(ROOM)
    await tl.members.join(ROOM, "coder", policy="all")
    return "coder"
