"""Real stores for every test: an empty SQLite file, an empty database on a real PostgreSQL 18.

Each test process starts one server at its first PostgreSQL test. A database is cloned from a
template whose tables were made by the store itself, and lent to one test after the other: it is
emptied in between, which costs a fiftieth of a new one. One whose tables a test has changed is
thrown away, and so is one that was lent often, lest it differ from a new one by its dead rows.

Where the machine has room in memory, stores lie there: they sync as ever, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any, TypeVar

import apsw
import asyncpg
import pytest
from hypothesis import HealthCheck, settings

from threadline import Threadline
from threadline.stores.postgres import PostgresStore, open_postgres
from threadline.stores.sqlite import SqliteStore
from threadline.stores.sqlite_file import open_sqlite
from threadline.testing.clock import StillClock
from threadline.testing.postgres import PostgresServer, postgres_server

# How long a busy machine takes is no finding.
settings.register_profile("ours", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ours")

T = TypeVar("T")

KEY = bytes(range(32))
TEMPLATE = "threadline_template"
CLEANER = "cleaner"
MEMORY = Path("/dev/shm")
ROOM = 3 << 30
LENT_AT_MOST = 50

# Everything of a database that is not rows: its relations with their columns, constraints,
# triggers, functions and settings. Objects made later have other numbers, also under old names.
SHAPE = """
select md5(concat_ws(';',
    (select string_agg(concat_ws(',', oid, relname, relkind, relpersistence, reloptions), ';'
        order by oid) from pg_class where oid >= 16384),
    (select string_agg(concat_ws(',', attrelid, attnum, attname, atttypid, attnotnull), ';'
        order by attrelid, attnum) from pg_attribute where attrelid >= 16384),
    (select string_agg(concat_ws(',', oid, convalidated), ';' order by oid)
        from pg_constraint where oid >= 16384),
    (select string_agg(concat_ws(',', oid, tgenabled), ';' order by oid)
        from pg_trigger where oid >= 16384),
    (select string_agg(oid::text, ';' order by oid) from pg_proc where oid >= 16384),
    (select string_agg(oid::text, ';' order by oid) from pg_namespace where oid >= 16384),
    (select string_agg(setconfig::text, ';' order by setrole) from pg_db_role_setting
        where setdatabase = (select oid from pg_database where datname = current_database()))))
"""
TABLES = """
select format('delete from %I.%I', relnamespace::regnamespace, relname) from pg_class
where relkind = 'r' and oid >= 16384 and relnamespace <> 'pg_toast'::regnamespace
"""
META = "select format('insert into meta values (%L, %L)', name, value) from meta"
OTHERS = """
select pg_terminate_backend(pid, 60000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
"""

Store = SqliteStore | PostgresStore
OpenStore = Callable[..., Awaitable[list[PostgresStore]]]


class Databases:
    """Makes and drops databases from outside of any test's event loop."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self._numbers = itertools.count(1)
        self._clean: list[str] = []
        self._lent: Counter[str] = Counter()
        self._cleaners: dict[str, asyncpg.Connection] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._admin = self.wait(asyncpg.connect(server.url()))
        self.wait(self._make_template())

    def wait(self, work: Awaitable[T]) -> T:
        """Await something in this object's own loop."""

        async def awaited() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()

    async def _make_template(self) -> None:
        await self._admin.execute(f"create database {TEMPLATE}")
        url = self.server.url(TEMPLATE)
        await (await open_postgres(url, KEY)).close()
        connection = await asyncpg.connect(url)
        await connection.execute("delete from meta where name = 'key'")
        self._shape = await connection.fetchval(SHAPE)
        steps = await connection.fetch(f"{TABLES} union all {META}")
        self._empty = ";".join(step for (step,) in steps)
        await connection.close()

    def make(self, template: str = TEMPLATE) -> str:
        """The name of a new database; of an empty one with `template1`."""
        name = f"test_{next(self._numbers)}"
        self.wait(self._admin.execute(f"create database {name} template {template}"))
        return name

    def drop(self, name: str) -> None:
        """Remove a database, whoever is still connected."""
        if cleaner := self._cleaners.pop(name, None):
            self.wait(cleaner.close())
        self.wait(self._admin.execute(f"drop database {name} with (force)"))

    def lend(self) -> str:
        """The name of a database that is as a new one."""
        name = self._clean.pop() if self._clean else self.make()
        self._lent[name] += 1
        return name

    def take_back(self, name: str) -> None:
        """Make a database that was lent as new, or throw it away."""
        if self._lent[name] < LENT_AT_MOST and self.wait(self._emptied(name)):
            self._clean.append(name)
        else:
            self.drop(name)

    async def _emptied(self, name: str) -> bool:
        """Whether only its rows were a test's, and are gone. The connection is kept for the next
        time: a new one costs more than all the rest."""
        cleaner = self._cleaners.get(name)
        if cleaner is None or cleaner.is_closed():
            about = {"application_name": CLEANER}
            cleaner = await asyncpg.connect(self.server.url(name), server_settings=about)
            self._cleaners[name] = cleaner
        await cleaner.execute(OTHERS)
        if await cleaner.fetchval(SHAPE) != self._shape:
            await self._cleaners.pop(name).close()
            return False
        await cleaner.execute(self._empty)
        return True

    def close(self) -> None:
        """End the connections and the loop."""
        for connection in (self._admin, *self._cleaners.values()):
            self.wait(connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def roomy() -> bool:
    """Whether there is a folder in memory with room for what the tests write."""
    return os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM


def pytest_configure() -> None:
    """Every `tmp_path` is in memory where there is room."""
    if roomy():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is skipped proves nothing, so it fails."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    """This process's PostgreSQL server, and databases on it."""
    place = MEMORY if roomy() else None
    with postgres_server(parent=place, max_wal_size="128MB", min_wal_size="32MB") as server:
        made = Databases(server)
        yield made
        made.close()


@pytest.fixture
def key() -> bytes:
    """The key every store of a test is made with."""
    return KEY


@pytest.fixture
def clock() -> StillClock:
    """The time, as long as the test does not move it."""
    return StillClock()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite store that belongs to no key yet."""
    file = tmp_path_factory.mktemp("template") / "threadline.db"

    async def made() -> None:
        await (await open_sqlite(file, KEY)).close()

    asyncio.run(made())
    with closing(apsw.Connection(str(file))) as connection:
        connection.execute("delete from meta where name = 'key'")
    return file


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    """An empty SQLite store; its tables are there."""
    return f"sqlite:{shutil.copy(sqlite_template, tmp_path / 'threadline.db')}"


@pytest.fixture
def postgres_url(databases: Databases) -> Iterator[str]:
    """An empty PostgreSQL store."""
    name = databases.lend()
    yield databases.server.url(name)
    databases.take_back(name)


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty store, once on each engine."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


async def open_at(url: str, key: bytes, **options: Any) -> Store:
    """Open the store a URL names."""
    if url.startswith("sqlite:"):
        return await open_sqlite(Path(url.removeprefix("sqlite:")), key, **options)
    return await open_postgres(url, key, **options)


@pytest.fixture
async def store(store_url: str, key: bytes, clock: StillClock) -> AsyncIterator[Store]:
    """An open, empty store under the still clock, once on each engine."""
    opened = await open_at(store_url, key, clock=clock)
    yield opened
    await opened.close()


@pytest.fixture
async def open_store(postgres_url: str, key: bytes, clock: StillClock) -> AsyncIterator[OpenStore]:
    """Opens any number of nodes on one PostgreSQL database: `one, two = await open_store(2)`."""
    async with AsyncExitStack() as stack:

        async def nodes(count: int = 1, **options: Any) -> list[PostgresStore]:
            opened = []
            for _ in range(count):
                node = await open_postgres(postgres_url, key, **({"clock": clock} | options))
                stack.push_async_callback(node.close)
                opened.append(node)
            return opened

        yield nodes


@pytest.fixture
def tl(store: Store) -> Threadline:
    """Everything on an empty store under the still clock, once on each engine."""
    return Threadline(store)
