"""`kill -9` while something is written first: nothing is said twice, and no limit leaks."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.conftest import open_at
from threadline import Threadline
from threadline.core.errors import LimitReached
from threadline.core.model import Controller
from threadline.core.sends import SendState
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation

ROOT = Path(__file__).parent.parent.parent
HUMAN = Controller(human=True)
STEPS = ("after-opening", "before-intent", "after-intent")


@pytest.fixture
def discord(tmp_path: Path) -> Iterator[Simulation]:
    """A simulated Discord, where a direct message has to be opened."""
    (tmp_path / "discord").mkdir()
    with Simulation("discord", tmp_path / "discord") as made:
        yield made


@asynccontextmanager
async def life(url: str, key: bytes, clock: StillClock) -> AsyncIterator[Threadline]:
    """One life of the line."""
    store = await open_at(url, key, clock=clock)
    line = Threadline(store, allow_private=True)
    yield line
    await line.outbox.close()
    await store.close()


@pytest.mark.acceptance("H3", "H7")
@pytest.mark.parametrize("scheduled", [False, True], ids=["at once", "scheduled"])
@pytest.mark.parametrize("step", STEPS)
async def test_who_dies_while_it_opens_or_writes_leaves_nothing_to_repair(
    store_url: str,
    key: bytes,
    clock: StillClock,
    discord: Simulation,
    step: str,
    scheduled: bool,
) -> None:
    """The next life is asked again, or does what was due: one conversation, one message, and one
    of two places in the limit."""
    dm = discord.do("dm", user="bob")
    user = dm["recipients"][0]["id"]
    async with life(store_url, key, clock) as line:
        given = {"token": discord.credentials["token"], "api": f"{discord.url}/api/v10"}
        await line.accounts.connect("discord", given)
        await line.sessions.create("agent")
        await line.consents.grant("agent", "discord", "700")
        bob = await line.people.make(
            "Bob", contacts=[f"discord:{user}"], verified=True, caller=HUMAN
        )
        await line.consents.set("on", person=bob.id, caller=HUMAN)
        await line.consents.set_limits({"recipient_per_hour": 2})
        to = f"person:{bob.id}"
        if scheduled:
            later = clock() + timedelta(hours=1)
            await line.initiative.send("agent", to, "once", at=later)
    if scheduled:
        clock.move(hours=1)
    asked = {"store": store_url, "key": key.hex(), "now": clock().isoformat(), "step": step}
    if not scheduled:
        asked |= {"to": to, "text": "once"}
    command = [sys.executable, "-m", "tests.initiative.dying", json.dumps(asked)]
    died = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL
    async with life(store_url, key, clock) as line:
        if not scheduled:
            await line.initiative.send("agent", to, "once", key="once")
        for _ in range(2):
            await line.initiative.round()
            await line.outbox.round()
        assert [one["text"] for one in discord.effects("message", place=dm["id"])] == ["once"]
        [sent] = await line.initiative.list()
        assert sent.state is SendState.DELIVERED
        assert [one["outcome"] for one in sent.tried] == ["delivered"]
        await line.initiative.send("agent", to, "another")
        with pytest.raises(LimitReached):
            await line.initiative.send("agent", to, "too much")
        assert (await line.audits.verify()).whole
