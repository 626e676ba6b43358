"""Power loss: every file rebuilt as a disk may hold it, at any moment, then opened and judged.

A process works on a watched disk that writes down every write, cut, sync and removal, and with
them every acknowledgement. Then, for moments all over that log, each file is put together from what
was synced by then and any part of what was not: nothing, all, a beginning, any subset, and writes
torn at any 512 bytes. What was acknowledged by that moment must be there.

The control does the same with `synchronous=NORMAL`, which does not sync at every commit: it has to
lose something, else this proves nothing.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from crash import workload
from crash.disk import Disk
from crash.forks import scratch
from crash.kills import opened
from crash.laws import Judge, codec_of, read_sqlite
from crash.ledger import Journal, Ledger
from crash.outcome import Outcome
from crash.workload import KEY, LIMITS, Workload
from threadline import Threadline

SECTOR = 512
BATCH = 5
PER_LOG = 400
STORE = "t.db"
CHECKPOINT_SECONDS = 0.02


class Log(list[Any]):
    """A watch that writes everything down."""

    def write(self, name: str, offset: int, data: bytes) -> None:
        """See `Watch`."""
        self.append(("write", name, offset, bytes(data)))

    def truncate(self, name: str, size: int) -> None:
        """See `Watch`."""
        self.append(("cut", name, size))

    def sync(self, name: str) -> None:
        """See `Watch`."""

    def synced(self, name: str) -> None:
        """See `Watch`. Only a sync that returned has synced anything."""
        self.append(("sync", name))

    def create(self, name: str) -> None:
        """See `Watch`."""
        self.append(("create", name))

    def delete(self, name: str, synced: bool) -> None:
        """See `Watch`."""
        self.append(("delete", name, synced))


@dataclass(slots=True)
class File:
    """A file on a disk that may lose power: what is safe, and what is not yet."""

    safe: bytearray | None = None
    loose: list[tuple[Any, ...]] = field(default_factory=list)
    fresh: bool = False

    def settle(self) -> None:
        """Everything so far is safe."""
        content = bytearray() if self.safe is None else self.safe
        for change in self.loose:
            content = _changed(content, change)
        self.safe = content
        self.loose = []

    def maybe(self, chance: random.Random) -> bytearray | None:
        """The file as it may be found; None: it is not there."""
        content = None if self.safe is None else bytearray(self.safe)
        for change in _kept(self.loose, chance):
            content = _changed(bytearray() if content is None else content, change)
        return content


def _kept(loose: list[tuple[Any, ...]], chance: random.Random) -> list[tuple[Any, ...]]:
    match chance.randrange(5):
        case 0:
            return []
        case 1:
            return loose
        case 2:
            return loose[: chance.randint(0, len(loose))]
        case 3:
            return [change for change in loose if chance.random() < 0.5]
    return [piece for change in loose for piece in _torn(change, chance)]


def _torn(change: tuple[Any, ...], chance: random.Random) -> list[tuple[Any, ...]]:
    """A write of which each sector arrived or did not."""
    if change[0] != "write":
        return [change] if chance.random() < 0.5 else []
    _, offset, data = change
    pieces, start = [], 0
    while start < len(data):
        end = min(len(data), (offset + start) // SECTOR * SECTOR + SECTOR - offset)
        if chance.random() < 0.7:
            pieces.append(("write", offset + start, data[start:end]))
        start = end
    return pieces


def _changed(content: bytearray, change: tuple[Any, ...]) -> bytearray:
    if change[0] == "write":
        _, offset, data = change
        if len(content) < offset:
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data
    elif change[0] == "cut":
        del content[change[1] :]
    return content


class Machine:
    """All files at one moment of the log.

    SQLite's VFS syncs the folder at the first sync of a new journal or log; until then a file that
    was removed may be back.
    """

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.deleted: dict[str, File] = {}

    def take(self, entry: tuple[Any, ...]) -> None:
        """One entry of the log that is about a file."""
        match entry:
            case ("create", name):
                file = self.files.setdefault(name, File())
                file.fresh = name.endswith(("-wal", "-journal"))
            case ("write" | "cut" as what, name, *rest):
                self.files[name].loose.append((what, *rest))
            case ("sync", name):
                file = self.files[name]
                file.settle()
                if file.fresh:
                    self.deleted.clear()
                    file.fresh = False
            case ("delete", name, synced):
                gone = self.files.pop(name, None)
                if gone is not None and not synced:
                    self.deleted[name] = gone

    def rebuild(self, folder: Path, chance: random.Random) -> None:
        """Write the files as they may be found when the power is back."""
        found: dict[str, bytearray | None] = {}
        for name, file in self.deleted.items():
            found[name] = file.maybe(chance) if chance.random() < 0.5 else None
        for name, file in self.files.items():
            content = file.maybe(chance)
            if content is not None or name not in found:
                found[name] = content
        for old in folder.iterdir():
            old.unlink()
        for name, content in found.items():
            if content is not None:
                (folder / name).write_bytes(content)


async def _work(folder: Path, log: Log, seed: int, rounds: int, options: dict[str, Any]) -> None:
    """Open a new store on a watched disk, work, checkpoint now and then, close, open again."""
    disk = Disk(log)
    journal = Journal(into=log)
    for life in range(2):
        url = f"sqlite:{folder / STORE}"
        async with Threadline.open(url, key=KEY, limits=LIMITS, vfs=disk.name, **options) as line:
            ledger = Ledger()
            if life == 0:
                await workload.prepare(line, journal)
            else:
                ledger.take_all(entry for entry in log if entry[0] in LINES)
            journal.ok("open", True)
            work = Workload(line, journal, ledger, f"{life}.", seed + life, BATCH)
            checkpoints = asyncio.ensure_future(_checkpoint(folder / STORE, disk.name))
            try:
                await work.run(rounds)
            finally:
                checkpoints.cancel()
                await asyncio.gather(checkpoints, return_exceptions=True)


LINES = frozenset({"said", "plain", "read", "try", "ok"})


async def _checkpoint(path: Path, vfs: str) -> None:
    """Move the log into the database while others write: also that may be cut off."""
    modes = ["passive", "passive", "truncate", "restart"]
    number = 0

    def once() -> None:
        connection = apsw.Connection(str(path), vfs=vfs)
        try:
            connection.set_busy_timeout(1_000)
            connection.execute(f"pragma wal_checkpoint({modes[number % len(modes)]})").fetchall()
        finally:
            connection.close()

    while True:
        await asyncio.to_thread(once)
        number += 1
        await asyncio.sleep(CHECKPOINT_SECONDS)


def _judge(path: Path, ledger: Ledger) -> list[str]:
    """Open the rebuilt store as SQLite does after a power cut, and judge its rows."""
    try:
        connection = apsw.Connection(str(path))
        try:
            judge = Judge(read_sqlite(connection), codec_of(KEY))
            found = [*judge.structure(), *judge.kept(ledger)]
            [(word,), *_] = connection.execute("pragma quick_check").fetchall()
            return found if word == "ok" else [*found, f"the database reports: {word}"]
        finally:
            connection.close()
    except apsw.Error as error:
        return [f"{type(error).__name__}: {error}"]


async def _opens(path: Path) -> list[str]:
    """The whole of threadline opens it, and it still takes a message."""
    async with opened(path) as line:
        answer = await line.inbound.receive(workload.said(workload.TALK[0], "after the power cut"))
        async with line.store.check() as findings:
            found = [finding async for finding in findings]
    return found if answer.record is not None else [*found, "it takes no message"]


def run(
    outcome: Outcome,
    *,
    states: int,
    seconds: float,
    rounds: int = 5,
    **options: Any,
) -> None:
    """So many rebuilt disks, as far as the time allows; `options` go to the store."""
    chance = random.Random(outcome.seed)
    began = time.monotonic()
    logs = 0
    while outcome.states < states and time.monotonic() - began < seconds:
        logs += 1
        with scratch() as folder:
            log = Log()
            (folder / "live").mkdir()
            (folder / "found").mkdir()
            seed = chance.getrandbits(32)
            asyncio.run(_work(folder / "live", log, seed, rounds, options))
            end = min(states, outcome.states + PER_LOG)
            _cut(outcome, log, folder / "found", chance, end, began + seconds)
    outcome.seconds = time.monotonic() - began
    outcome.notes.append(f"{logs} logs, {outcome.states / max(outcome.seconds, 0.1):.0f} states/s")


def _cut(
    outcome: Outcome, log: Log, folder: Path, chance: random.Random, end: int, until: float
) -> None:
    """Go through the log once, and cut the power at moments all over it."""
    moments = sum(entry[0] not in ("try", "create") for entry in log)
    share = (end - outcome.states) / moments
    machine, ledger = Machine(), Ledger()
    owed = 0.0
    for number, entry in enumerate(log):
        if entry[0] in LINES:
            ledger.take(entry)
            if entry[0] != "try":
                outcome.acknowledged += 1
        else:
            machine.take(entry)
        if entry[0] in ("try", "create"):
            continue
        owed += share
        while owed >= 1:
            owed -= 1
            if time.monotonic() > until:
                return
            machine.rebuild(folder, chance)
            outcome.states += 1
            found = _judge(folder / STORE, ledger)
            if not found and chance.random() < 0.02:
                found = asyncio.run(_opens(folder / STORE))
            outcome.violate(f"entry {number}", found)


def control(outcome: Outcome, *, states: int, seconds: float) -> None:
    """With `synchronous=NORMAL` something acknowledged must be lost: else this proves nothing."""
    lost = Outcome(outcome.what, outcome.seed)
    run(lost, states=states, seconds=seconds, synchronous="NORMAL")
    outcome.states, outcome.acknowledged = lost.states, lost.acknowledged
    outcome.seconds = lost.seconds
    outcome.notes.append(f"lost something in {lost.violations:,} findings, as it has to")
    if not lost.violations:
        outcome.violate("control", ["NORMAL lost nothing, so this test would notice nothing"])
