"""`kill -9` at random moments of a process that does everything at once.

A store lives through several lives. Each is a fork that opens the store, works and dies; then the
store is opened again here, in a process of its own past, and judged.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw

from crash import workload
from crash.forks import live, scratch
from crash.laws import Judge, codec_of, read_sqlite
from crash.ledger import Journal, Ledger
from crash.outcome import Outcome
from crash.workload import GATED, KEY, LIMITS, Workload
from threadline import Threadline
from threadline.core.ids import public

LIVES = 8
READY = b'["ok","open",true]'
READY_SECONDS = 2.0
LONGER_THAN_A_GATE = timedelta(minutes=16)


@asynccontextmanager
async def opened(path: Path, ahead: timedelta = timedelta(0)) -> AsyncIterator[Threadline]:
    """The store as a life opens it; `ahead` moves its clock, so that windows run out."""

    def clock() -> datetime:
        return datetime.now(UTC) + ahead

    async with Threadline.open(f"sqlite:{path}", key=KEY, limits=LIMITS, clock=clock) as line:
        yield line


def a_life(path: Path, ledger: Ledger, mark: str, seed: int) -> Callable[[int], None]:
    """What a child does: open, work, say what was acknowledged, for ever."""

    async def work(pipe: int) -> None:
        journal = Journal(pipe)
        async with opened(path) as line:
            if "open" not in ledger.allowed:
                await workload.prepare(line, journal)
            journal.ok("open", True)
            await Workload(line, journal, ledger, mark, seed).run()

    return lambda pipe: asyncio.run(work(pipe))


def judge(path: Path, ledger: Ledger) -> tuple[Judge, list[str]]:
    """The reopened store's rows against the laws and the ledger."""
    connection = apsw.Connection(str(path))
    try:
        judge = Judge(read_sqlite(connection), codec_of(KEY))
    finally:
        connection.close()
    return judge, [*judge.structure(), *judge.kept(ledger)]


def run(outcome: Outcome, *, cycles: int, seconds: float) -> None:
    """So many kills, as far as the time allows."""
    chance = random.Random(outcome.seed)
    began = time.monotonic()
    slowest = 0.0
    while outcome.states < cycles and time.monotonic() - began < seconds:
        with scratch() as folder:
            longest = chance.choice([500, 2_000, 6_000, 15_000])
            slowest = max(slowest, _store(outcome, folder / "t.db", chance, cycles, longest))
    outcome.seconds = time.monotonic() - began
    outcome.notes.append(f"slowest reopening {slowest * 1000:.0f} ms")


def _store(outcome: Outcome, path: Path, chance: random.Random, cycles: int, longest: int) -> float:
    ledger, slowest = Ledger(), 0.0
    for number in range(LIVES):
        if outcome.states >= cycles:
            break
        outcome.states += 1
        where = f"cycle {outcome.states}"
        seed = chance.getrandbits(32)
        told = ledger.acknowledged
        # Now and then it dies while it opens; else after so much was acknowledged.
        work = a_life(path, ledger, f"{number}.", seed)
        if chance.random() < 0.15:
            life = live(work, chance.random() * 0.01)
        else:
            heard = int(chance.random() * longest)
            life = live(work, chance.random() * 0.005, after=READY, heard=heard)
        ledger.take_bytes(life.written)
        outcome.acknowledged += ledger.acknowledged - told
        if not life.killed:
            outcome.violate(where, [f"the process ended by itself with {life.code}"])
            break
        ready, found = asyncio.run(_reopen(path, ledger, chance, last=number == LIVES - 1))
        slowest = max(slowest, ready)
        if ready > READY_SECONDS:
            found.append(f"opening again took {ready:.1f} s")
        if outcome.violate(where, found):
            break
    return slowest


async def _reopen(
    path: Path, ledger: Ledger, chance: random.Random, *, last: bool
) -> tuple[float, list[str]]:
    """Open as after any stop; judge; let windows run out or complete them; judge again."""
    began = time.monotonic()
    fate = "expire" if last else chance.choice(["leave", "leave", "expire", "complete"])
    ahead = LONGER_THAN_A_GATE if fate == "expire" else timedelta(0)
    async with opened(path, ahead) as line:
        ready = time.monotonic() - began
        now, found = judge(path, ledger)
        now.settle(ledger)
        if last or chance.random() < 0.25:
            found += await _damage(line)
        if fate == "expire":
            await line.upkeep.round()
        elif fate == "complete":
            await _complete(line, ledger)
        if fate != "leave":
            for key in ledger.allowed:
                if key.startswith("window"):
                    ledger.allowed[key] = {None}
            now, further = judge(path, ledger)
            found += further
            if now.rows.holds:
                found.append(f"{len(now.rows.holds)} messages wait although no window is open")
        if last:
            found += await _as_read(line, now)
    return ready, list(dict.fromkeys(found))


async def _damage(line: Threadline) -> list[str]:
    async with line.store.check() as findings:
        return [finding async for finding in findings]


async def _complete(line: Threadline, ledger: Ledger) -> None:
    """The importer comes back under its name, gets its own window again and completes it."""
    for key, allowed in list(ledger.allowed.items()):
        if key.startswith("window") and True in allowed:
            room = key.partition(" ")[2]
            mode = "gated" if room in GATED else "prepending"
            state = await line.hydration.begin(room, owner="importer", mode=mode)
            assert state.token is not None
            await line.hydration.complete(room, state.token)


async def _as_read(line: Threadline, judged: Judge) -> list[str]:
    """What a caller lists page by page is what the rows say."""
    found = []
    for number, room in judged.room.items():
        listed: list[int] = []
        after: int | None = None
        while True:
            page = await line.conversations.transcript(public(number), after=after, limit=500)
            listed += [record.sequence for record in page.records]
            if page.next is None:
                break
            after = page.next
        if listed != list(judged.records.get(number, {})):
            found.append(f"{room}: it is listed as {listed[:50]}")
    return found
