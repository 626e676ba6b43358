"""A disk that takes no more: at every write, and then again when there is space. A sync that fails.

While the disk is full every change is refused with `StoreFull`, reads are served, and nothing that
was acknowledged is lost; with space the same open store goes on, its text index too. After a sync
that failed nobody knows what the disk kept: the store refuses every change until it is reopened.
"""

from __future__ import annotations

import asyncio
import random
import resource
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw

from crash.disk import Disk, Steps
from crash.forks import live, scratch
from crash.laws import Judge, codec_of, read_sqlite
from crash.ledger import Journal, Ledger
from crash.outcome import Outcome
from crash.workload import KEY, LIMITS, TALK, said
from threadline import Threadline
from threadline.core.errors import StoreFull, StoreUnavailable, ThreadlineError

STORE = "t.db"
RESUME_SECONDS = 5.0
ROOM = TALK[0]


class Filling(Steps):
    """No space from the chosen write on, until somebody frees some."""

    def __init__(self, chosen: int) -> None:
        super().__init__(chosen, lambda: None)
        self.free = False
        self.met = False

    def step(self) -> None:
        """See `Steps`."""

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Refuse what would need space."""
        self.count += 1
        if self._chosen and self.count >= self._chosen and not self.free:
            self.met = True
            raise apsw.FullError("no space left on this disk")


class SyncFailed(apsw.IOError):
    """What SQLite is told by a disk that failed to sync."""

    extendedresult = apsw.SQLITE_IOERR_FSYNC


class Failing(Steps):
    """The chosen sync fails, the later ones do not: as on a disk that dropped what it had."""

    def __init__(self, chosen: int, only: str = "") -> None:
        super().__init__(chosen, self._fail)
        self._only = only
        self.met = False
        self.armed = True

    def _fail(self) -> None:
        self.met = True
        raise SyncFailed("the disk failed to sync")

    def step(self) -> None:
        """See `Steps`."""

    def sync(self, name: str) -> None:
        """Fail the chosen one."""
        if self.armed and name.endswith(self._only):
            super().step()


@asynccontextmanager
async def opened(
    folder: Path, vfs: str | None, indexing: bool = False
) -> AsyncIterator[Threadline]:
    """The store in a folder, on this disk."""
    url = f"sqlite:{folder / STORE}"
    async with Threadline.open(url, key=KEY, limits=LIMITS, vfs=vfs, indexing=indexing) as line:
        yield line


async def _prepare(folder: Path) -> None:
    async with opened(folder, None) as line:
        await line.inbound.receive_all([said(ROOM, f"old{n}") for n in range(5)])
        await line.members.join(ROOM, "anna")


Change = Callable[[Threadline, Journal, str], Awaitable[None]]


async def _append(line: Threadline, journal: Journal, mark: str) -> None:
    journal.said(ROOM, f"{mark}a", await line.inbound.receive(said(ROOM, f"{mark}a")))


async def _batch(line: Threadline, journal: Journal, mark: str) -> None:
    names = [f"{mark}b{n}" for n in range(20)]
    failed: ThreadlineError | None = None
    answers = await line.inbound.receive_all([said(TALK[1], name) for name in names])
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, ThreadlineError):
            failed = answer
        else:
            journal.said(TALK[1], name, answer)
    if failed is not None:
        raise failed


async def _join(line: Threadline, journal: Journal, mark: str) -> None:
    key = f"seat {ROOM} {mark}"
    journal.attempt(key, True)
    await line.members.join(ROOM, mark)
    journal.ok(key, True)


async def _ack(line: Threadline, journal: Journal, mark: str) -> None:
    page = await line.replay.backfill(ROOM, "anna")
    if page.records:
        sequence = page.records[0].record.sequence
        await line.replay.ack(ROOM, "anna", sequence)
        journal.read(ROOM, "anna", sequence)


CHANGES: tuple[Change, ...] = (_append, _batch, _join, _ack, _append, _batch, _join, _batch)


async def _try(line: Threadline, journal: Journal, mark: str) -> list[Exception]:
    refused: list[Exception] = []
    for number, change in enumerate(CHANGES):
        try:
            await change(line, journal, f"{mark}{number}")
        except ThreadlineError as error:
            refused.append(error)
    return refused


async def _fill(folder: Path, chosen: int, ledger: Ledger) -> tuple[bool, list[str]]:
    """Work until the disk is full, look, free some space, work on. Answers whether it was full."""
    disk_is = Filling(chosen)
    disk = Disk(disk_is)
    lines: list[Any] = []
    journal = Journal(into=lines)
    found: list[str] = []
    async with opened(folder, disk.name, indexing=True) as line:
        refused = await _try(line, journal, "early-")
        found += [
            f"it is full, refused as {error!r}"
            for error in refused
            if not isinstance(error, StoreFull)
        ]
        page = await line.conversations.transcript(ROOM, limit=500)
        texts = {record.text for record in page.records}
        if not {f"old{n}" for n in range(5)} <= texts:
            found.append(f"while it is full, {sorted(texts)} is read")
        disk_is.free = True
        began = time.monotonic()
        refused = await _try(line, journal, "late-")
        found += [f"there is space again, refused as {error!r}" for error in refused]
        wanted = {f"late-{n}a" for n in (0, 4)}
        while not await _finds(line, wanted):
            await asyncio.sleep(0.05)
            if time.monotonic() - began > RESUME_SECONDS:
                found.append("the text index does not go on")
                break
    ledger.take_all(lines)
    return disk_is.met, found + await _reopen(folder, ledger)


async def _finds(line: Threadline, texts: set[str]) -> bool:
    results = await line.search.find("late")
    return texts <= {hit.record.text for hit in results.hits}


async def _fail(folder: Path, chosen: int, ledger: Ledger) -> tuple[bool, list[str]]:
    """Work until a sync fails. From then on nothing is acknowledged, until it is reopened."""
    disk_is = Failing(chosen)
    disk = Disk(disk_is)
    lines: list[Any] = []
    journal = Journal(into=lines)
    found: list[str] = []
    async with opened(folder, disk.name) as line:
        for number, change in enumerate(CHANGES):
            failed = disk_is.met
            try:
                await change(line, journal, f"early-{number}")
            except StoreUnavailable:
                continue
            except ThreadlineError as error:
                found.append(f"a sync failed, refused as {error!r}")
            if disk_is.met:
                found.append(f"{change.__name__} was acknowledged, failed before: {failed}")
        page = await line.conversations.transcript(ROOM, limit=500)
        if len(page.records) < 5:
            found.append(f"after a failed sync {len(page.records)} records are read")
        # Closing syncs too: SQLite itself keeps quiet about that, a watched disk does not.
        disk_is.armed = False
    ledger.take_all(lines)
    return disk_is.met, found + await _reopen(folder, ledger)


async def _reopen(folder: Path, ledger: Ledger) -> list[str]:
    connection = apsw.Connection(str(folder / STORE))
    try:
        judge = Judge(read_sqlite(connection), codec_of(KEY))
    finally:
        connection.close()
    found = [*judge.structure(), *judge.kept(ledger)]
    lines: list[Any] = []
    async with opened(folder, None) as line:
        refused = await _try(line, Journal(into=lines), "again-")
        found += [f"reopened, refused as {error!r}" for error in refused]
        async with line.store.check() as findings:
            found += [finding async for finding in findings]
    return found


def run(outcome: Outcome, *, stride: int = 1) -> None:
    """Full at every write, then a failure of every sync, or at every `stride`th."""
    chance = random.Random(outcome.seed)
    began = time.monotonic()
    with scratch() as folder:
        base = folder / "base"
        base.mkdir()
        asyncio.run(_prepare(base))
        for what, proof, step in (("full", _fill, stride), ("sync", _fail, 1)):
            number, met = chance.randint(1, step), True
            while met:
                work = folder / "work"
                shutil.copytree(base, work)
                ledger = Ledger()
                met, found = asyncio.run(proof(work, number, ledger))
                outcome.states += met
                outcome.acknowledged += ledger.acknowledged
                outcome.violate(f"{what}, {number}", found)
                shutil.rmtree(work)
                number += step
        outcome.states += 1
        outcome.violate("a limit of the file size", _limited(base))
    outcome.seconds = time.monotonic() - began


def _limited(folder: Path) -> list[str]:
    """The kernel itself refuses, as it does for a quota; the limit is lifted again."""
    found: list[str] = []

    async def work(pipe: int) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        async with opened(folder, None) as line:
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
            refused: list[Exception] = []
            for number in range(10):
                refused += await _try(line, Journal(pipe), f"early-{number}-")
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            kinds = {type(error).__name__ for error in refused}
            if kinds != {"StoreFull"}:
                Journal(pipe).line("error", f"refused as {kinds}")
            for error in await _try(line, Journal(pipe), "late-"):
                Journal(pipe).line("error", f"the limit is lifted, refused as {error!r}")

    life = live(lambda pipe: asyncio.run(work(pipe)))
    ledger = Ledger()
    ledger.take_bytes(life.written)
    if life.code:
        found.append(f"the process ended by itself with {life.code}")
    return found + asyncio.run(_reopen(folder, ledger))
