"""Reported failures: files that were locked, damaged, newer, half made, or read beside us."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import psutil
import pytest

from tests.conftest import open_at
from tests.speech import ROOM, followed, handed, numbered, said, transcript
from threadline import Threadline
from threadline.core.errors import (
    SchemaNewer,
    StoreBusy,
    StoreDamaged,
    StoreUnavailable,
    ThreadlineError,
)
from threadline.core.model import ConversationRef, Kind
from threadline.flows.replay import Handed
from threadline.testing.clock import StillClock

ROOT = Path(__file__).parents[2]
HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin immediate")
print("held", flush=True)
sys.stdin.readline()
connection.execute("rollback")
print("free", flush=True)
"""
LOOK = """
import sqlite3, sys
print("ready", flush=True)
sys.stdin.readline()
for turn in range(100):
    connection = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
    counted = connection.execute("select count(*), max(sequence) from records").fetchone()
    assert counted[0] == (counted[1] or 0), counted
    assert connection.execute("pragma journal_mode").fetchone()[0] == "wal"
    connection.close()
print("looked", flush=True)
"""


async def python(code: str, *words: object) -> asyncio.subprocess.Process:
    """A program of its own, with its first line read."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        *(str(word) for word in words),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    assert (await child.stdout.readline()).strip()
    return child


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the SQLite store is."""
    return tmp_path / "threadline.db"


@pytest.mark.case("B166")
async def test_a_file_that_is_locked_for_a_while_delays_and_loses_nothing(
    file: Path, key: bytes
) -> None:
    """B166: the append waits, reading goes on, and afterwards all is as before."""
    store = await open_at(f"sqlite:{file}", key)
    line = Threadline(store)
    await line.inbound.receive(said("0", "m0"))
    child = await python(HOLD, file)

    waiting = asyncio.create_task(line.inbound.receive(said("1", "m1")))
    for _ in range(20):
        assert await transcript(line) == [(1, "0")]
    blocked = not waiting.done()
    await child.communicate(b"\n")
    first = await waiting
    second = await line.inbound.receive(said("2", "m2"))

    assert blocked
    assert (first.sequence, second.sequence) == (2, 3)
    assert await transcript(line) == [(1, "0"), (2, "1"), (3, "2")]
    await store.close()


@pytest.mark.case("B166")
async def test_a_table_that_is_locked_for_a_while_delays_and_loses_nothing(
    postgres_url: str, key: bytes
) -> None:
    """B166: the same on PostgreSQL."""
    store = await open_at(postgres_url, key)
    line = Threadline(store)
    await line.inbound.receive(said("0", "m0"))
    outside = await asyncpg.connect(postgres_url)
    lock = outside.transaction()
    await lock.start()
    await outside.execute("lock table records in exclusive mode")

    waiting = asyncio.create_task(line.inbound.receive(said("1", "m1")))
    for _ in range(20):
        assert await transcript(line) == [(1, "0")]
    blocked = not waiting.done()
    await lock.rollback()
    first = await waiting
    second = await line.inbound.receive(said("2", "m2"))

    assert blocked
    assert (first.sequence, second.sequence) == (2, 3)
    await outside.close()
    await store.close()


class Refusing(apsw.VFS):
    """A disk that fails a number of times as it is told to, and then works again."""

    def __init__(self, error: type[apsw.Error]) -> None:
        self.error = error
        self.left = 0
        super().__init__("refusing", "")

    def xOpen(self, name: Any, flags: list[int]) -> RefusingFile:
        """Every file refuses together."""
        file = RefusingFile("", name, flags)
        file.disk = self
        return file


class RefusingFile(apsw.VFSFile):
    """A file on that disk."""

    disk: Refusing

    def xWrite(self, data: Any, offset: int) -> None:
        """Write, unless it is the disk's turn to refuse."""
        if self.disk.left:
            self.disk.left -= 1
            raise self.disk.error("as asked")
        super().xWrite(data, offset)


@pytest.mark.case("B166")
async def test_an_error_that_passes_is_never_remembered_as_having_no_store(
    file: Path, key: bytes
) -> None:
    """B166: a full disk is named, nothing of the message stays, and the next one is stored."""
    disk = Refusing(apsw.FullError)
    store = await open_at(f"sqlite:{file}", key, vfs="refusing")
    line = Threadline(store)
    await line.inbound.receive(said("0", "m0"))

    disk.left = 1
    with pytest.raises(ThreadlineError) as refused:
        await line.inbound.receive(said("1", "m1"))
    again = await line.inbound.receive(said("1", "m1"))

    assert refused.value.code == "store_full"
    assert (again.sequence, again.duplicate) == (2, False)
    assert await transcript(line) == [(1, "0"), (2, "1")]
    await store.close()


@pytest.mark.case("B169")
async def test_others_that_look_into_the_file_harm_nothing(file: Path, key: bytes) -> None:
    """B169: a hundred read-only connections from elsewhere beside a hundred appends."""
    store = await open_at(f"sqlite:{file}", key)
    line = Threadline(store)
    await line.inbound.receive(said("0", "m0"))
    lookers = [await python(LOOK, file) for _ in range(2)]

    looking = [asyncio.create_task(one.communicate(b"\n")) for one in lookers]
    for message in numbered(1, 100):
        await line.inbound.receive(message)
    looked = await asyncio.gather(*looking)

    assert [out for out, _ in looked] == [b"looked\n", b"looked\n"]
    assert [n for n, _ in await transcript(line)] == list(range(1, 102))
    async with store.check() as findings:
        assert [finding async for finding in findings] == []
    await store.close()


@pytest.mark.case("B169")
async def test_a_second_server_on_the_file_is_refused_with_the_name_of_the_first(
    file: Path, key: bytes
) -> None:
    """B169: a hundred times, while the first one works on."""
    store = await open_at(f"sqlite:{file}", key)
    line = Threadline(store)

    for message in numbered(1, 100):
        with pytest.raises(StoreBusy) as refused:
            await open_at(f"sqlite:{file}", key)
        await line.inbound.receive(message)

    assert str(psutil.Process().pid) in str(refused.value)
    assert len(await transcript(line)) == 100
    async with store.check() as findings:
        assert [finding async for finding in findings] == []
    await store.close()
    await (await open_at(f"sqlite:{file}", key)).close()


Harm = Callable[[Path], object]


def _newer(file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("pragma user_version=999")
    connection.close()


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:5000])


HARM: dict[str, tuple[Harm, type[ThreadlineError]]] = {
    "newer": (_newer, SchemaNewer),
    "cut off": (_truncate, StoreDamaged),
    "cut off in the header": (lambda file: file.write_bytes(b"SQLite format 3\0"), StoreDamaged),
    "no database": (lambda file: file.write_bytes(b"%PDF-1.7" * 100), StoreDamaged),
    "scribbled on": (
        lambda file: file.write_bytes(file.read_bytes()[:100] + b"\xa5" * 20_000),
        StoreDamaged,
    ),
}


@pytest.mark.case("B171")
@pytest.mark.parametrize("harm", HARM)
async def test_a_file_that_cannot_be_opened_is_refused_and_left_as_it_is(
    file: Path, key: bytes, harm: str
) -> None:
    """B171: byte for byte; nothing is made anew in its place."""
    store = await open_at(f"sqlite:{file}", key)
    await Threadline(store).inbound.receive(said("1", "m1"))
    await store.close()
    do_harm, refusal = HARM[harm]
    do_harm(file)
    before = file.read_bytes()

    for _ in range(2):
        with pytest.raises(refusal) as refused:
            await open_at(f"sqlite:{file}", key)

    assert file.read_bytes() == before
    assert "." in str(refused.value)


@pytest.mark.case("B171")
async def test_another_programs_database_is_refused_and_left_as_it_is(
    file: Path, key: bytes
) -> None:
    """B171: it is a database, and not ours."""
    connection = apsw.Connection(str(file))
    connection.execute("create table records (x); insert into records values (1)")
    connection.close()
    before = file.read_bytes()

    with pytest.raises(StoreDamaged):
        await open_at(f"sqlite:{file}", key)

    assert file.read_bytes() == before


class ReadOnly(apsw.VFS):
    """A disk that lets nobody write."""

    name = "readonly"

    def __init__(self) -> None:
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        """As a file without the right to write opens."""
        wanted = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        given = [flags[0] & ~wanted | apsw.SQLITE_OPEN_READONLY, flags[1]]
        file = apsw.VFSFile("", name, given)
        flags[1] = given[1]
        return file


@pytest.mark.case("B171")
async def test_a_file_that_may_only_be_read_is_refused_and_left_as_it_is(
    file: Path, key: bytes
) -> None:
    """B171: with the reason, and not as an empty store."""
    store = await open_at(f"sqlite:{file}", key)
    await Threadline(store).inbound.receive(said("1", "m1"))
    await store.close()
    before = file.read_bytes()
    disk = ReadOnly()

    with pytest.raises((StoreUnavailable, StoreDamaged)) as refused:
        await open_at(f"sqlite:{file}", key, vfs=disk.name)

    assert str(refused.value)
    assert file.read_bytes() == before


@pytest.mark.case("B172")
async def test_a_migration_that_is_killed_leaves_the_old_schema_or_the_new_one(
    file: Path, key: bytes
) -> None:
    """B172: killed at every write of it; opening again gives a whole store that works."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.acceptance.apart",
        "make",
        f"sqlite:{file}",
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )

    out, _ = await child.communicate()

    runs = [json.loads(line) for line in out.splitlines()]
    assert [run["killed"] for run in runs] == [True] * (len(runs) - 1) + [False]
    assert len(runs) > 20
    tables = set()
    for run in runs:
        store = await open_at(run["url"], key)
        line = Threadline(store)
        assert (await line.inbound.receive(said("1", "m1"))).sequence == 1
        async with store.check() as findings:
            assert [finding async for finding in findings] == []
        schema = "select count(*) from sqlite_schema"
        [[count]] = await store.pragma(schema)
        tables.add(count)
        await store.close()
    assert len(tables) == 1


LOAD = """
import asyncio, random, signal, sys
import psutil
from tests.conftest import KEY, open_at
from tests.speech import numbered, said
from threadline import Threadline
from threadline.core.model import ConversationRef
from threadline.flows.inbound import Append

ROOMS, RECORDS, LATER = 1_000, 20, 8_000

def resident():
    return psutil.Process().memory_info().rss // 1024

async def main():
    store = await open_at(sys.argv[1], KEY)
    line = Threadline(store)
    rooms = [ConversationRef("slack", "T1", f"C{n}") for n in range(ROOMS)]
    for n in range(RECORDS):
        await store.run_all([Append(said("x" * 400, f"m{n}", conversation=room)) for room in rooms])
    sizes = []
    dice = random.Random(7)
    for turn in range(3):
        for start in range(0, LATER, 500):
            batch = [
                Append(said("y" * 400, f"t{turn}-{start + n}", conversation=dice.choice(rooms)))
                for n in range(500)
            ]
            await store.run_all(batch)
        sizes.append(resident())
    print(*sizes, flush=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    said_so_far = 0
    print("loaded", flush=True)
    while not stop.is_set():
        answers = await store.run_all(
            [Append(said("z", f"z{said_so_far + n}", conversation=rooms[0])) for n in range(50)]
        )
        said_so_far += len(answers)
    await store.close()
    print(said_so_far, flush=True)

asyncio.run(main())
"""


@pytest.mark.case("B175")
async def test_memory_stays_flat_and_stopping_under_load_keeps_what_was_answered(
    store_url: str, key: bytes
) -> None:
    """B175: a thousand rooms and random traffic; then the signal to stop in the middle of it."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LOAD, store_url, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    first, second, third = [int(size) for size in (await child.stdout.readline()).split()]
    assert await child.stdout.readline() == b"loaded\n"

    child.send_signal(signal.SIGTERM)
    out, _ = await child.communicate()

    assert child.returncode == 0
    assert third < 300 * 1024
    assert third - second < 20 * 1024, (first, second, third)
    store = await open_at(store_url, key)
    line = Threadline(store)
    page = await line.conversations.transcript("slack/T1/C0", order="desc", limit=500)
    kept = [one for one in page.records if one.text == "z"]
    head = (await line.conversations.show("slack/T1/C0")).head
    assert len(kept) == min(int(out), 500)
    assert head >= int(out)
    await store.close()


@pytest.mark.case("B178")
async def test_chatter_that_addresses_nobody_wakes_nobody_and_hides_no_direct_message(
    tl: Threadline,
) -> None:
    """B178: everything is stored, and the direct message reaches its slow session."""
    dm = ConversationRef("slack", "T1", "D1", kind=Kind.DM)
    for session, where in (("helper", ROOM), ("helper", dm)):
        await tl.conversations.ensure(where)
        await tl.members.join(where, session)
    await tl.speakers.participant(ROOM, "helper", "helper")
    await tl.speakers.group(ROOM, mode="mention")
    await tl.speakers.bind(dm, "helper")
    messages = [*numbered(1, 2_000)]
    messages.insert(1_000, said("please help", "d1", conversation=dm))

    answers = await asyncio.gather(*(tl.inbound.receive(one) for one in messages))

    woken = [one.ref for one in answers if one.record is not None and one.record.wakes]
    assert woken == [dm]
    assert len(await transcript(tl)) == 2_000
    items = [one for one in await followed(tl, "helper") if isinstance(one, Handed)]
    assert [one.record.text for one in items if one.wake] == ["please help"]
    assert len(items) == 2_001


@pytest.mark.case("B180")
async def test_a_session_that_takes_its_time_in_one_room_delays_no_other(
    tl: Threadline, clock: StillClock
) -> None:
    """B180: 200 rooms of one account; in the first one nothing is acknowledged for ten minutes."""
    rooms = [ConversationRef("whatsapp", "15550001", f"chat{n}") for n in range(200)]
    await tl.speakers.default_route("whatsapp", "15550001", "agent")
    for room in rooms:
        await tl.conversations.ensure(room)
        await tl.members.join(room, "agent")
    await tl.inbound.receive(said("slow", "m1", conversation=rooms[0]))
    stream = tl.replay.follow("agent", patience=30)
    while not isinstance(first := await anext(stream), Handed):
        continue

    clock.move(minutes=10)
    answers = await asyncio.gather(
        *(tl.inbound.receive(said("now", "m2", conversation=room)) for room in rooms[1:])
    )
    seen: set[ConversationRef] = set()
    while len(seen) < 199:
        item = await anext(stream)
        if isinstance(item, Handed):
            seen.add(item.ref)

    assert handed([first]) == [1]
    assert {one.sequence for one in answers} == {1}
    assert seen == set(rooms[1:])
    await stream.aclose()  # type: ignore[attr-defined]


@pytest.mark.case("B180")
async def test_a_room_that_another_node_holds_delays_no_other_node_elsewhere(
    postgres_url: str, key: bytes
) -> None:
    """B180: the scope of a lock is the conversation."""
    one, two = [await open_at(postgres_url, key) for _ in range(2)]
    first, second = Threadline(one), Threadline(two)
    await first.inbound.receive(said("1", "m1"))
    outside = await asyncpg.connect(postgres_url)
    lock = outside.transaction()
    await lock.start()
    await outside.execute("select 1 from conversations for update")

    blocked = asyncio.create_task(first.inbound.receive(said("2", "m2")))
    rooms = [ConversationRef("slack", "T1", f"X{n}") for n in range(20)]
    others = [await second.inbound.receive(said("x", "x", conversation=room)) for room in rooms]
    waits = not blocked.done()
    await lock.rollback()

    assert waits
    assert [taken.sequence for taken in others] == [1] * 20
    assert (await blocked).sequence == 2
    await outside.close()
    for store in (one, two):
        await store.close()
