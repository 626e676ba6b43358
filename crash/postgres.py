"""`kill -9` of the PostgreSQL server under load: what was answered is there, once.

One node works on while its database is killed and started again. Whoever was not answered says the
same again under the same ids.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time

import asyncpg

from crash import workload
from crash.laws import QUERIES, Judge, Rows, codec_of
from crash.ledger import Journal, Ledger
from crash.outcome import Outcome
from crash.workload import KEY, LIMITS, Workload
from threadline import Threadline
from threadline.testing.postgres import PostgresServer, postgres_server

LOAD_SECONDS = (0.2, 0.8)


class _Watched(list[object]):
    """A journal's lines, and when the last one came."""

    def __init__(self) -> None:
        super().__init__()
        self.came = asyncio.Event()

    def append(self, line: object) -> None:
        """Take a line and wake who waits for one."""
        super().append(line)
        self.came.set()


async def read_postgres(url: str) -> Rows:
    """All rows, on one snapshot."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            found = {
                name: [tuple(row) for row in await connection.fetch(query)]
                for name, query in QUERIES.items()
            }
    finally:
        await connection.close()
    return Rows(**found)


def run(outcome: Outcome, *, kills: int, judged_every: int = 1) -> None:
    """So many kills; the recovery times are said."""
    began = time.monotonic()
    with postgres_server() as server:
        asyncio.run(_under_load(outcome, server, kills, judged_every))
    outcome.seconds = time.monotonic() - began


async def _under_load(
    outcome: Outcome, server: PostgresServer, kills: int, judged_every: int
) -> None:
    chance = random.Random(outcome.seed)
    ledger, lines = Ledger(), _Watched()
    journal = Journal(into=lines)
    recoveries: list[float] = []
    restarts: list[float] = []
    async with Threadline.open(server.url(), key=KEY, limits=LIMITS) as line:
        await workload.prepare(line, journal)
        work = Workload(line, journal, ledger, "p.", outcome.seed)
        work.tolerant = True
        working = asyncio.ensure_future(work.run())
        for number in range(1, kills + 1):
            await asyncio.sleep(chance.uniform(*LOAD_SECONDS))
            if working.done():
                break
            restarted, answered = await _kill(server, lines)
            restarts.append(restarted)
            recoveries.append(answered)
            outcome.states += 1
            if number % judged_every and number != kills:
                continue
            await work.pause()
            ledger.take_all(lines)
            lines.clear()
            judge = Judge(await read_postgres(server.url()), codec_of(KEY))
            where = f"kill {number}"
            if outcome.violate(where, [*judge.structure(), *judge.kept(ledger)]):
                break
            judge.settle(ledger)
            work.resume()
        if not working.done():
            await work.pause()
        working.cancel()
        [ended] = await asyncio.gather(working, return_exceptions=True)
        if not isinstance(ended, asyncio.CancelledError):
            outcome.violate("the load", [f"ended with {ended!r}"])
        async with line.store.check() as findings:
            outcome.violate("in the end", [finding async for finding in findings])
    outcome.acknowledged = ledger.acknowledged
    slowest = max(recoveries, default=0.0)
    median = statistics.median(recoveries or [0.0])
    outcome.notes.append(
        f"from kill to the next answer: median {median:.2f} s, slowest {slowest:.2f} s, of which "
        f"the server's own start {statistics.median(restarts or [0.0]):.2f} s; "
        f"{work.refused} refused and said again"
    )


async def _kill(server: PostgresServer, lines: _Watched) -> tuple[float, float]:
    """Kill, start, and wait for the next answer; seconds from the kill to both."""
    server.kill()
    began = time.monotonic()
    await asyncio.to_thread(server.start)
    restarted = time.monotonic() - began
    lines.came.clear()
    await asyncio.wait_for(lines.came.wait(), 60)
    return restarted, time.monotonic() - began
