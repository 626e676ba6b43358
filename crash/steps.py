"""`kill -9` before every single step of a scenario: write, cut, sync, open, removal, of any file.

The first run dies before its first step, the second before its second, until one survives. After
each death the store is opened as after any stop, judged, and the scenario is done again: in the
end everything is as if nothing had happened.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw

from crash.disk import Disk, Steps, stepping
from crash.forks import live, scratch
from crash.laws import Judge, read_sqlite
from crash.ledger import Journal, Ledger
from crash.outcome import Outcome
from crash.scenarios import SCENARIOS, Scenario
from crash.workload import LIMITS
from threadline import Threadline
from threadline.app import load_key
from threadline.stores.codec import Codec

READY_SECONDS = 2.0
STORE = "t.db"


@asynccontextmanager
async def opened(
    folder: Path, ahead_minutes: int = 0, vfs: str | None = None
) -> AsyncIterator[Threadline]:
    """The store in a folder, its key beside it."""

    def clock() -> datetime:
        return datetime.now(UTC) + timedelta(minutes=ahead_minutes)

    url = f"sqlite:{folder / STORE}"
    async with Threadline.open(url, limits=LIMITS, clock=clock, vfs=vfs, indexing=False) as line:
        yield line


def die() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def run(outcome: Outcome, *, stride: int = 1, names: tuple[str, ...] = ()) -> None:
    """Every scenario at every step, or with a `stride` at every so many, from a random one on."""
    chance = random.Random(outcome.seed)
    began = time.monotonic()
    slowest = 0.0
    for name, scenario in SCENARIOS.items():
        if names and name not in names:
            continue
        with scratch() as folder:
            base = folder / "base"
            base.mkdir()
            _prepare(base, scenario)
            number = chance.randint(1, stride)
            survived = False
            while not survived:
                work = folder / "work"
                shutil.copytree(base, work)
                survived, ready = _one(outcome, name, scenario, work, number)
                slowest = max(slowest, ready)
                shutil.rmtree(work)
                number += stride
    outcome.seconds = time.monotonic() - began
    outcome.notes.append(
        f"{len(names or SCENARIOS)} scenarios, slowest reopening {slowest * 1000:.0f} ms"
    )


def _prepare(base: Path, scenario: Scenario) -> None:
    """The store a scenario begins with, made in a child that may end without closing it."""
    if scenario.prepare is None:
        return
    prepare = scenario.prepare

    async def work() -> None:
        async with opened(base) as line:
            await prepare(line)
            if scenario.unclosed:
                die()

    life = live(lambda _: asyncio.run(work()))
    if life.code not in (0, -signal.SIGKILL):
        raise RuntimeError(f"preparing ended with {life.code}")


def _act(folder: Path, scenario: Scenario, chosen: int) -> Callable[[int], None]:
    async def work(pipe: int) -> None:
        steps = Steps(chosen, die)
        disk = Disk(steps)
        with stepping(steps.step):
            async with opened(folder, scenario.ahead_minutes, disk.name) as line:
                await scenario.act(line, Journal(pipe))

    return lambda pipe: asyncio.run(work(pipe))


def _one(
    outcome: Outcome, name: str, scenario: Scenario, folder: Path, number: int
) -> tuple[bool, float]:
    where = f"{name}, step {number}"
    ledger = Ledger()
    life = live(_act(folder, scenario, number))
    ledger.take_bytes(life.written)
    outcome.acknowledged += ledger.acknowledged
    if not life.killed and life.code:
        outcome.violate(where, [f"the process ended by itself with {life.code}"])
        return True, 0.0
    outcome.states += life.killed
    began = time.monotonic()
    try:
        ready = asyncio.run(_open_again(folder, scenario))
        found = _judge(folder, ledger)
        found += asyncio.run(_do_again(folder, scenario, ledger))
        found += _judge(folder, ledger)
    except Exception as error:
        ready, found = time.monotonic() - began, [f"{type(error).__name__}: {error}"]
    if ready > READY_SECONDS:
        found.append(f"opening again took {ready:.1f} s")
    outcome.violate(where, dict.fromkeys(found))
    return not life.killed, ready


async def _open_again(folder: Path, scenario: Scenario) -> float:
    began = time.monotonic()
    async with opened(folder, scenario.ahead_minutes):
        return time.monotonic() - began


async def _do_again(folder: Path, scenario: Scenario, ledger: Ledger) -> list[str]:
    """The whole scenario once more; whoever was not answered tries again."""
    lines: list[object] = []
    async with opened(folder, scenario.ahead_minutes) as line:
        await scenario.act(line, Journal(into=lines))
        found = await scenario.check(line)
        async with line.store.check() as findings:
            found += [finding async for finding in findings]
    ledger.take_all(lines)
    return found


def _judge(folder: Path, ledger: Ledger) -> list[str]:
    codec = Codec(load_key(folder / f"{STORE}.key", True))
    connection = apsw.Connection(str(folder / STORE))
    try:
        judge = Judge(read_sqlite(connection), codec)
    finally:
        connection.close()
    return [*judge.structure(), *judge.kept(ledger)]
