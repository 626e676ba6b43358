"""Where is measured: two engines, each on the disk there is and on one that syncs a millisecond
later, as an ordinary cloud disk does.

SQLite's slower disk is a VFS, PostgreSQL's a library the server is started with, compiled from
`slow_sync.c`; where there is no C compiler its rows are left out.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import apsw
import asyncpg

from bench.raw import RawPostgres, RawSqlite, RawStore
from threadline import Threadline
from threadline.stores.postgres_server import SETTINGS
from threadline.testing.postgres import PostgresServer, postgres_server

KEY = bytes(range(32))
REAL = "real"
SLOW = "+1 ms a sync"
SLOW_SECONDS = 0.001


class Site(Protocol):
    """An engine on a disk. A place on it is an empty store, opened as often as one likes."""

    engine: ClassVar[str]

    @property
    def disk(self) -> str:
        """Which disk it is on."""

    async def place(self) -> str:
        """The URL of a new, empty store."""

    def open(self, url: str, **options: Any) -> AbstractAsyncContextManager[Threadline]:
        """Open threadline on a store; without the text index unless that is asked for."""

    def raw(self, url: str) -> AbstractAsyncContextManager[RawStore]:
        """The driver alone on the same tables, made beforehand by opening the store once."""


class _SlowFile(apsw.VFSFile):
    """A file that is synced a millisecond later."""

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        time.sleep(SLOW_SECONDS)


class _SlowDisk(apsw.VFS):
    """The usual disk with slower syncs."""

    NAME = "bench-slow"

    def __init__(self) -> None:
        super().__init__(self.NAME, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _SlowFile("", name, flags)


@dataclass(frozen=True)
class SqliteSite:
    """Files in a folder."""

    folder: Path
    disk: str
    vfs: str | None = None
    engine: ClassVar[str] = "sqlite"
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def place(self) -> str:
        """See `Site.place`."""
        url = f"sqlite:{self.folder / f'{next(self.numbers)}.db'}"
        async with self.open(url):
            return url

    def open(self, url: str, **options: Any) -> AbstractAsyncContextManager[Threadline]:
        """See `Site.open`."""
        return Threadline.open(url, key=KEY, **{"indexing": False, "vfs": self.vfs} | options)

    @asynccontextmanager
    async def raw(self, url: str) -> AsyncIterator[RawStore]:
        """See `Site.raw`."""
        raw = RawSqlite(url.removeprefix("sqlite:"), self.vfs)
        try:
            yield raw
        finally:
            await raw.close()


@dataclass(frozen=True)
class PostgresSite:
    """Databases of a server."""

    server: PostgresServer
    disk: str
    engine: ClassVar[str] = "postgres"
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def place(self) -> str:
        """See `Site.place`."""
        admin = await asyncpg.connect(self.server.url())
        name = f"bench_{next(self.numbers)}"
        await admin.execute(f"create database {name}")
        await admin.close()
        url = self.server.url(name)
        async with self.open(url):
            return url

    def open(self, url: str, **options: Any) -> AbstractAsyncContextManager[Threadline]:
        """See `Site.open`."""
        return Threadline.open(url, key=KEY, **{"indexing": False} | options)

    @asynccontextmanager
    async def raw(self, url: str) -> AsyncIterator[RawStore]:
        """See `Site.raw`."""
        raw = RawPostgres(await asyncpg.connect(url, server_settings=SETTINGS))
        try:
            yield raw
        finally:
            await raw.close()


@dataclass(frozen=True)
class Sites:
    """The sites there are, and why others are not."""

    sites: list[Site]
    left_out: list[str]

    def on(self, disk: str) -> list[Site]:
        """The sites with this disk."""
        return [site for site in self.sites if site.disk == disk]


@contextmanager
def sites(folder: Path, *, slow: bool = True) -> Iterator[Sites]:
    """All sites, as long as they are held."""
    with ExitStack() as stack:
        real = folder / "real"
        real.mkdir()
        found: list[Site] = [
            SqliteSite(real, REAL),
            PostgresSite(stack.enter_context(postgres_server()), REAL),
        ]
        left_out = []
        if slow:
            disk = _SlowDisk()
            stack.callback(disk.unregister)
            later = folder / "slow"
            later.mkdir()
            found.append(SqliteSite(later, SLOW, disk.NAME))
            shim = compiled(folder)
            if shim is None:
                left_out.append(f"PostgreSQL, {SLOW}: there is no C compiler here.")
            else:
                server = stack.enter_context(postgres_server(preload=shim))
                found.append(PostgresSite(server, SLOW))
        yield Sites(found, left_out)


def compiled(folder: Path) -> Path | None:
    """`slow_sync.c` as a library that any user may load; None where nothing can compile it."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    folder.chmod(0o755)
    library = folder / "slow_sync.so"
    source = Path(__file__).with_name("slow_sync.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
    return library
