"""Real stores for every test: an empty SQLite file, an empty database on a real PostgreSQL 18.

Each test process starts one server at its first PostgreSQL test. A database is cloned from a
template whose tables were made by the store itself, so an empty one costs some 30 ms.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import pytest

from threadline import Threadline
from threadline.stores.postgres import PostgresStore, open_postgres
from threadline.stores.sqlite import SqliteStore
from threadline.stores.sqlite_file import open_sqlite
from threadline.testing.clock import StillClock
from threadline.testing.servers import PostgresServer, postgres_server

T = TypeVar("T")

KEY = bytes(range(32))
TEMPLATE = "threadline_template"
Store = SqliteStore | PostgresStore
OpenStore = Callable[..., Awaitable[list[PostgresStore]]]


class Databases:
    """Makes and drops databases from outside of any test's event loop."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self._numbers = itertools.count(1)
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
        await connection.close()

    def make(self, template: str = TEMPLATE) -> str:
        """The name of a new database; of an empty one with `template1`."""
        name = f"test_{next(self._numbers)}"
        self.wait(self._admin.execute(f"create database {name} template {template}"))
        return name

    def drop(self, name: str) -> None:
        """Remove a database, whoever is still connected."""
        self.wait(self._admin.execute(f"drop database {name} with (force)"))

    def close(self) -> None:
        """End the connection and the loop."""
        self.wait(self._admin.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


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
    with postgres_server() as server:
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


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """An empty SQLite store."""
    return f"sqlite:{tmp_path / 'threadline.db'}"


@pytest.fixture
def postgres_url(databases: Databases) -> Iterator[str]:
    """An empty PostgreSQL store."""
    name = databases.make()
    yield databases.server.url(name)
    databases.drop(name)


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
