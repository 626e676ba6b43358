"""PostgreSQL under faults: what was answered is there once, whatever fails, on any node."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.conftest import CLEANER, Databases, OpenStore
from tests.proxies import Cut, proxy
from tests.stores.stories import Claim, Time, Transcript, said
from threadline.core.errors import (
    ConfigError,
    InvalidInput,
    OutcomeUnknown,
    SchemaNewer,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
    ThreadlineError,
    WrongKey,
)
from threadline.core.ports import EVERYTHING
from threadline.flows.inbound import Append
from threadline.stores.postgres import PostgresStore, open_postgres
from threadline.stores.postgres_bells import EVERYBODY, Intercom, payload
from threadline.stores.postgres_readers import READERS
from threadline.stores.postgres_server import OLDEST, Server
from threadline.stores.wakeups import Wakeups
from threadline.testing.postgres import PostgresServer, postgres_server

NEVER = 3_600.0
SOON = 20.0


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may kill."""
    with postgres_server() as server:
        yield server


@pytest.fixture
async def outside(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of somebody else to the store's database."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


async def until(true: Callable[[], Awaitable[Any]]) -> None:
    """Return as soon as the server says so: each question is a round trip, so nothing spins."""
    async with asyncio.timeout(SOON):
        while not await true():
            pass


async def persistently(node: PostgresStore, story: Append) -> int | None:
    """Say it as a careful client does: again under the same id, until it is answered."""
    async with asyncio.timeout(60):
        while True:
            try:
                return (await node.run(story)).sequence
            except (StoreUnavailable, OutcomeUnknown):
                await asyncio.sleep(0.01)


async def test_what_was_answered_is_there_once_after_the_server_was_killed_under_load(
    own_server: PostgresServer, key: bytes
) -> None:
    node = await open_postgres(own_server.url(), key)
    answered: dict[str, int | None] = {}
    progress = asyncio.Condition()

    async def client(number: int) -> None:
        for turn in range(60):
            text = f"{number}-{turn}"
            answered[text] = await persistently(node, said(f"C{number % 3}", text))
            async with progress:
                progress.notify_all()

    async def killer() -> None:
        for count in (100, 200, 300):
            async with progress:
                while len(answered) < count:
                    await progress.wait()
            await asyncio.to_thread(own_server.kill)
            await asyncio.to_thread(own_server.start)

    await asyncio.gather(killer(), *(client(number) for number in range(8)))

    for name in ("C0", "C1", "C2"):
        found = await node.read(Transcript(name))
        assert [sequence for sequence, _ in found] == list(range(1, len(found) + 1))
        for sequence, text in found:
            assert answered.pop(text) == sequence
    assert answered == {}
    await node.close()


async def test_a_server_that_is_down_is_an_error_and_back_again_without_a_restart_of_ours(
    own_server: PostgresServer, key: bytes
) -> None:
    node = await open_postgres(own_server.url(), key)
    await node.run(said("C1", "before"))
    await asyncio.to_thread(own_server.stop)

    with pytest.raises(StoreUnavailable, match="Start it"):
        await node.run(said("C1", "meanwhile"))
    with pytest.raises(StoreUnavailable, match="Start it"):
        await node.read(Transcript("C1"))

    await asyncio.to_thread(own_server.start)
    await node.run(said("C1", "after"))
    assert await node.read(Transcript("C1")) == [(1, "before"), (2, "after")]
    await node.close()


async def test_two_processes_give_one_order_without_gaps(postgres_url: str, key: bytes) -> None:
    command = [sys.executable, "-m", "tests.stores.stories", postgres_url, key.hex(), "C1"]
    pipe = asyncio.subprocess.PIPE
    nodes = [
        await asyncio.create_subprocess_exec(*command, first, last, stdin=pipe, stdout=pipe)
        for first, last in (("0", "32"), ("32", "64"))
    ]
    for node in nodes:
        assert node.stdout is not None
        assert await node.stdout.readline() == b"ready\n"

    outputs = await asyncio.gather(*(node.communicate(b"go\n") for node in nodes))

    sequences = [sequence for output, _ in outputs for sequence in json.loads(output)]
    assert sorted(sequences) == list(range(1, 65))


async def test_the_same_message_at_two_nodes_is_recorded_once(open_store: OpenStore) -> None:
    nodes = await open_store(2)

    for turn in range(10):
        stories = [said(f"C{turn}", f"m{n}") for n in range(8)]
        answers = await asyncio.gather(*(node.run(it) for it in stories for node in nodes))

        assert sum(not answer.duplicate for answer in answers) == 8
        assert sorted({answer.sequence or 0 for answer in answers}) == list(range(1, 9))


async def test_a_deadlock_is_resolved_by_running_again(
    open_store: OpenStore, outside: asyncpg.Connection
) -> None:
    name = await outside.fetchval("select current_database()")
    await outside.execute(f"alter database {name} set deadlock_timeout = '300ms'")
    await outside.execute("set deadlock_timeout = '60s'")
    [node] = await open_store()
    for room in ("C1", "C2"):
        await node.run(said(room, "first"))
    lower, higher = [
        row["id"] for row in await outside.fetch("select id from conversations order by 1")
    ]
    lock = "select 1 from conversations where id = $1 for update"
    other = outside.transaction()
    await other.start()
    await outside.execute(lock, higher)

    batch = asyncio.create_task(node.run_all([said("C1", "second"), said("C2", "second")]))
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    await until(lambda: outside.fetchval(waiting))
    await outside.execute(lock, lower)
    await other.rollback()

    assert [answer.sequence for answer in await batch if not isinstance(answer, Exception)] == [
        2,
        2,
    ]
    counted = "select deadlocks from pg_stat_database where datname = $1"
    await until(lambda: outside.fetchval(counted, name))


@pytest.mark.parametrize("state", ["40001", "40P01", "55P03", "23505"])
async def test_a_batch_that_lost_a_race_is_run_again_unseen(
    open_store: OpenStore, outside: asyncpg.Connection, state: str
) -> None:
    [node] = await open_store()
    await fail_inserts(outside, "records", state, times=2)

    answers = await node.run_all([said("C1", "one"), said("C1", "two")])

    assert [answer.sequence for answer in answers if not isinstance(answer, Exception)] == [1, 2]
    assert await node.read(Transcript("C1")) == [(1, "one"), (2, "two")]


async def fail_inserts(
    outside: asyncpg.Connection, table: str, state: str, times: int, when: str = "true"
) -> None:
    """Let the server itself fail the next inserts into a table; a rollback does not undo that."""
    await outside.execute(f"""
        create sequence failures;
        create function fail() returns trigger language plpgsql as $$ begin
            if nextval('failures') <= {times} then raise 'as asked' using errcode = '{state}';
            end if;
            return new;
        end $$;
        create trigger fail before insert on {table} for each row when ({when})
            execute function fail();
    """)


async def test_a_lock_that_never_comes_free_is_an_error_in_the_end(
    open_store: OpenStore, outside: asyncpg.Connection
) -> None:
    [node] = await open_store()
    await fail_inserts(outside, "records", "55P03", times=1_000_000)

    with pytest.raises(StoreUnavailable, match="try again"):
        await node.run(said("C1", "one"))


@pytest.mark.parametrize("cut", Cut)
async def test_a_message_whose_commit_was_lost_is_recorded_once_and_answered(
    postgres_url: str, databases: Databases, key: bytes, cut: Cut
) -> None:
    async with proxy(databases.server.port) as line:
        url = postgres_url.replace(str(databases.server.port), str(line.port))
        node = await open_postgres(url, key)
        await node.run(said("C1", "one"))

        line.cut(cut)
        answers = await node.run_all([said("C1", "two"), said("C1", "three")])

        assert line.lost == 1
        assert [it.sequence for it in answers if not isinstance(it, Exception)] == [2, 3]
        assert await node.read(Transcript("C1")) == [(1, "one"), (2, "two"), (3, "three")]
        await node.close()


@pytest.mark.parametrize(("cut", "kept"), [(Cut.BEFORE, []), (Cut.AFTER, [(1, "one")])])
async def test_what_cannot_be_repeated_is_answered_as_unknown_when_its_commit_is_lost(
    postgres_url: str, databases: Databases, key: bytes, cut: Cut, kept: list[tuple[int, str]]
) -> None:
    async with proxy(databases.server.port) as line:
        url = postgres_url.replace(str(databases.server.port), str(line.port))
        node = await open_postgres(url, key)

        line.cut(cut)
        with pytest.raises(OutcomeUnknown):
            await node.run(said("C1", "one", identified=False))

        assert await node.read(Transcript("C1")) == kept
        await node.close()


async def test_a_commit_that_is_lost_again_and_again_is_never_called_not_written(
    postgres_url: str, databases: Databases, key: bytes
) -> None:
    async with proxy(databases.server.port) as line:
        url = postgres_url.replace(str(databases.server.port), str(line.port))
        node = await open_postgres(url, key)

        line.cut(*[Cut.BEFORE] * 100)
        with pytest.raises(OutcomeUnknown):
            await node.run(said("C1", "one"))

        await node.close()


async def test_a_commit_whose_answer_was_lost_still_rings(
    postgres_url: str, databases: Databases, key: bytes
) -> None:
    async with proxy(databases.server.port) as line:
        url = postgres_url.replace(str(databases.server.port), str(line.port))
        node = await open_postgres(url, key, poll=NEVER)
        number = (await node.run(said("C1", "one"))).conversation
        bell = node.bell(conversations=[number])

        line.cut(Cut.AFTER)
        await node.run(said("C1", "two"))

        assert number in await bell.wait(SOON)
        await node.close()


async def test_an_append_rings_the_bell_on_another_node(open_store: OpenStore) -> None:
    one, two = await open_store(2, poll=NEVER)
    number = (await one.run(said("C1", "one"))).conversation
    bell = two.bell(conversations=[number])

    await one.run(said("C1", "two"))

    assert await bell.wait(SOON) == {number: None}


async def test_what_concerns_a_session_rings_its_bell_on_another_node(
    open_store: OpenStore,
) -> None:
    one, two = await open_store(2, poll=NEVER)
    bell = two.bell(session=7)

    await one.run(Claim("ada"))

    assert await bell.wait(SOON) == {EVERYTHING: None}


async def test_a_lost_ring_is_repaired_by_the_slow_poll(open_store: OpenStore) -> None:
    [one] = await open_store(poll=NEVER)
    [two] = await open_store(poll=0.05)
    number = (await one.run(said("C1", "one"))).conversation
    await two._intercom.close()
    bell = two.bell(conversations=[number])

    await one.run(said("C1", "two"))

    assert number in await bell.wait(SOON)


async def test_everybody_is_rung_when_the_line_between_the_nodes_was_cut(
    open_store: OpenStore, outside: asyncpg.Connection
) -> None:
    one, two = await open_store(2, poll=NEVER)
    bell = two.bell(conversations=[1])

    await outside.fetch(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )

    assert await bell.wait(SOON) == {EVERYTHING: None}
    number = (await one.run(said("C1", "one"))).conversation
    other = two.bell(conversations=[number])
    await one.run(said("C1", "two"))
    assert number in await other.wait(SOON)


def test_a_notification_that_would_be_too_long_rings_everybody() -> None:
    assert payload({7}, {3}) == "7,s3"
    assert payload(set(range(10**15, 10**15 + 1_000)), set()) == EVERYBODY


async def test_a_reader_whose_connection_was_cut_reads_again_however_often(
    open_store: OpenStore, outside: asyncpg.Connection
) -> None:
    [node] = await open_store()
    await node.run(said("C1", "one"))

    for _ in range(2 * READERS):
        assert await node.read(Transcript("C1")) == [(1, "one")]
        await outside.fetch(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )

    assert await node.read(Transcript("C1")) == [(1, "one")]


async def test_a_listener_that_is_stopped_while_it_connects_leaves_no_connection(
    postgres_url: str,
) -> None:
    """Between the connection and the first word over it."""
    made: list[asyncpg.Connection] = []
    server = Server(postgres_url)

    async def connect() -> asyncpg.Connection:
        made.append(await server.connect())
        starting.cancel()
        return made[-1]

    async def nothing(*_: Any) -> list[Any]:
        return []

    starting = asyncio.create_task(Intercom(connect, Wakeups(nothing, nothing)).start())
    with pytest.raises(asyncio.CancelledError):
        await starting

    assert [connection.is_closed() for connection in made] == [True]


async def test_a_reader_that_goes_away_in_the_middle_leaves_nothing_behind(
    open_store: OpenStore, outside: asyncpg.Connection
) -> None:
    [node] = await open_store()
    await node.run(said("C1", "one"))
    sleeping = "select count(*) from pg_stat_activity where query = 'select pg_sleep(600)'"

    for _ in range(5):
        task = asyncio.create_task(node.pragma("select pg_sleep(600)"))
        await until(lambda: outside.fetchval(f"{sleeping} and state = 'active'"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert await node.read(Transcript("C1")) == [(1, "one")]


async def test_any_number_of_readers_share_a_few_connections(
    open_store: OpenStore, outside: asyncpg.Connection
) -> None:
    [node] = await open_store()
    await node.run(said("C1", "one"))

    found = await asyncio.gather(*(node.read(Transcript("C1")) for _ in range(500)))

    assert found == [[(1, "one")]] * 500
    own = "select count(*) from pg_stat_activity where datname = current_database()"
    own += f" and application_name <> '{CLEANER}'"
    assert await outside.fetchval(own) <= 1 + 2 + READERS


async def test_a_table_that_changed_under_prepared_statements_does_no_harm(
    open_store: OpenStore, outside: asyncpg.Connection
) -> None:
    [node] = await open_store()
    await node.run(said("C1", "one"))

    await outside.execute("alter table records add column later text")
    await outside.execute("alter table conversations alter column next_sequence type integer")

    assert (await node.run(said("C1", "two"))).sequence == 2
    assert await node.read(Transcript("C1")) == [(1, "one"), (2, "two")]


async def parked(node: PostgresStore) -> list[tuple[str, str]]:
    """The stories that were parked, and their payloads."""
    return [(row[2], row[4]) for row in await node.ask("parked.page", 0, 0, 100)]


@pytest.mark.parametrize("character", ["\0", "\ud800"])
async def test_a_character_no_database_keeps_parks_its_message_and_spares_the_others(
    open_store: OpenStore, character: str
) -> None:
    [node] = await open_store()
    bad = Claim(f"a{character}b")

    good, refused, also_good = await node.run_all([said("C1", "one"), bad, said("C1", "two")])

    assert not isinstance(good, Exception)
    assert not isinstance(also_good, Exception)
    assert isinstance(refused, StoreUnavailable)
    assert "parked" in refused.facts
    [(story, body)] = await parked(node)
    assert story == "Claim"
    assert json.loads(body)["name"].startswith("a")
    assert await node.read(Transcript("C1")) == [(1, "one"), (2, "two")]


async def test_what_has_nothing_to_park_is_answered_with_the_error_that_quotes_nothing(
    open_store: OpenStore,
) -> None:
    [node] = await open_store()

    with pytest.raises(InvalidInput) as caught:
        await node.run(Claim("secret\0", kept=False))

    assert "secret" not in str(caught.value)
    assert await parked(node) == []


async def test_a_name_that_stays_taken_is_parked_and_not_tried_for_ever(
    open_store: OpenStore,
) -> None:
    [node] = await open_store()
    await node.run(Claim("ada"))

    _, refused = await node.run_all([said("C1", "one"), Claim("ada")])

    assert isinstance(refused, StoreUnavailable)
    assert [story for story, _ in await parked(node)] == ["Claim"]
    assert await node.read(Transcript("C1")) == [(1, "one")]


async def test_a_full_disk_is_named_and_nothing_is_parked(
    open_store: OpenStore, outside: asyncpg.Connection
) -> None:
    [node] = await open_store()
    await fail_inserts(outside, "records", "53100", times=1)

    with pytest.raises(StoreFull):
        await node.run(said("C1", "one"))

    assert await parked(node) == []
    assert (await node.run(said("C1", "one"))).sequence == 1


async def test_a_batch_may_be_cut_anywhere(open_store: OpenStore) -> None:
    [node] = await open_store(cut=lambda items: [[item] for item in items])

    answers = await node.run_all([said("C1", f"m{n}") for n in range(5)])

    assert [it.sequence for it in answers if not isinstance(it, Exception)] == [1, 2, 3, 4, 5]


async def test_what_was_taken_is_finished_before_the_store_closes(
    postgres_url: str, key: bytes
) -> None:
    node = await open_postgres(postgres_url, key)
    told = [asyncio.create_task(node.run(said("C1", f"m{n}"))) for n in range(20)]
    await asyncio.sleep(0)

    await node.close()

    assert [answer.sequence for answer in await asyncio.gather(*told)] == list(range(1, 21))
    with pytest.raises(StoreUnavailable, match="closed"):
        await node.run(said("C1", "late"))
    with pytest.raises(StoreUnavailable, match="closed"):
        await node.read(Transcript("C1"))


async def test_the_time_is_the_databases(
    postgres_url: str, key: bytes, outside: asyncpg.Connection
) -> None:
    node = await open_postgres(postgres_url, key)

    before = await outside.fetchval("select clock_timestamp()")
    told = await node.run(Time())
    after = await outside.fetchval("select clock_timestamp()")

    allowed = timedelta(milliseconds=250)
    assert before - allowed < told < after + allowed
    assert told.tzinfo is not None
    await node.close()


async def test_another_key_is_refused(postgres_url: str, key: bytes) -> None:
    await (await open_postgres(postgres_url, key)).close()

    with pytest.raises(WrongKey):
        await open_postgres(postgres_url, bytes(32))


async def test_a_newer_schema_is_refused_and_left_alone(
    postgres_url: str, key: bytes, outside: asyncpg.Connection
) -> None:
    await outside.execute("update meta set value = '999' where name = 'schema'")

    with pytest.raises(SchemaNewer, match="999"):
        await open_postgres(postgres_url, key)

    assert await outside.fetchval("select count(*) from meta") == 1


@pytest.mark.parametrize("table", ["meta", "records"])
async def test_another_programs_tables_are_refused_and_left_alone(
    databases: Databases, key: bytes, table: str
) -> None:
    name = databases.make("template1")
    connection = await asyncpg.connect(databases.server.url(name))
    await connection.execute(f"create table {table} (theirs text)")

    with pytest.raises(StoreDamaged, match="another program"):
        await open_postgres(databases.server.url(name), key)

    count = "select count(*) from pg_tables where schemaname = 'public'"
    assert await connection.fetchval(count) == 1
    await connection.close()
    databases.drop(name)


async def test_nodes_that_start_together_migrate_once(databases: Databases, key: bytes) -> None:
    name = databases.make("template1")

    nodes = await asyncio.gather(
        *(open_postgres(databases.server.url(name), key) for _ in range(4))
    )

    assert len(nodes) == 4
    for node in nodes:
        await node.close()
    databases.drop(name)


async def test_a_server_that_forgets_is_refused_unless_that_is_wanted(key: bytes) -> None:
    with postgres_server(fsync="off") as server:
        with pytest.raises(ConfigError, match="fsync=off"):
            await open_postgres(server.url(), key)

        node = await open_postgres(server.url(), key, allow_unsafe=True)
        assert (await node.run(said("C1", "one"))).sequence == 1
        await node.close()


async def test_a_database_that_does_not_wait_for_the_disk_is_refused(
    postgres_url: str, key: bytes, outside: asyncpg.Connection
) -> None:
    name = await outside.fetchval("select current_database()")
    await outside.execute(f"alter database {name} set synchronous_commit = off")

    with pytest.raises(ConfigError, match="synchronous_commit=off"):
        await open_postgres(postgres_url, key)


@pytest.mark.parametrize(
    ("fact", "error", "says"),
    [
        ({"version": OLDEST - 1, "named": "14.9"}, ConfigError, "14.9 .*needs 15"),
        ({"encoding": "LATIN1"}, ConfigError, "LATIN1"),
        ({"standby": True}, StoreUnavailable, "primary"),
    ],
)
def test_a_server_that_will_not_do_is_refused_by_name(
    fact: dict[str, Any], error: type[ThreadlineError], says: str
) -> None:
    server = Server("postgresql://ada:hush@db.example/ledger")
    facts = {
        "version": 18,
        "named": "18.4",
        "encoding": "UTF8",
        "standby": False,
        "fsync": "on",
        "commits": "on",
    }
    server.judge(facts)

    with pytest.raises(error, match=says):
        server.judge(facts | fact)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:hush@127.0.0.1:1/ledger",
        "postgresql://ada:hu/sh@127.0.0.1:1/ledger",
        "postgresql://ada:hush@127.0.0.1:hush/ledger",
        "mysql://ada:hush@127.0.0.1/ledger",
        "postgresql://ada@127.0.0.1:1/ledger?password=hush",
    ],
)
async def test_no_message_holds_the_password(url: str, key: bytes) -> None:
    with pytest.raises((StoreUnavailable, ConfigError)) as caught:
        await open_postgres(url, key)

    error: BaseException | None = caught.value
    while error is not None:
        assert "hu" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


async def test_a_database_that_is_not_there_is_named(databases: Databases, key: bytes) -> None:
    with pytest.raises(StoreUnavailable, match=r"nowhere.*createdb"):
        await open_postgres(databases.server.url("nowhere"), key)


async def test_the_store_examines_itself(
    open_store: OpenStore, outside: asyncpg.Connection
) -> None:
    [node] = await open_store()
    await node.run_all([said("C1", f"m{n}") for n in range(3)])
    async with node.check() as found:
        assert [sentence async for sentence in found] == []

    await outside.execute("update records set body = replace(body, 'm1', 'm7') where sequence = 2")
    await outside.execute("delete from records where sequence = 3")

    async with node.check() as found:
        sentences = [sentence async for sentence in found]
    assert any("record 2 is not what was written" in sentence for sentence in sentences)
    assert any("counters say (1, 3)" in sentence for sentence in sentences)


async def test_the_question_of_an_engine_is_answered(open_store: OpenStore) -> None:
    [node] = await open_store()

    assert await node.pragma("show fsync") == [("on",)]
