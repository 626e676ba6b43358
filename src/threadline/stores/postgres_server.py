"""A PostgreSQL store's server: how one connects, what is refused, and what its errors mean.

A server that would forget what it answered is refused, and so is one that is too old or whose
schema is newer. Its clock is the only one the nodes share; it is read once a minute.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg

from threadline.core.errors import (
    ConfigError,
    InvalidInput,
    SchemaNewer,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
    ThreadlineError,
    TooLarge,
    WrongKey,
)
from threadline.stores.bodies import EPOCH
from threadline.stores.codec import Codec
from threadline.stores.statements import migrations, statements

OLDEST = 15
CONNECT_SECONDS = 10.0
COMMAND_SECONDS = 60.0
MIGRATION_SECONDS = 3600.0
CLOCK_SECONDS = 60.0
MIGRATION_LOCK = 0x74686C64

SETTINGS = {
    "application_name": "threadline",
    # Every keyed statement joins a small set with an index. The planner cannot know that: a table
    # that was small or not analysed when a plan was cached would be scanned whole, at any size,
    # until the next analyze. So scans and hashes are no choice, and one plan serves all sets.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    # Before PostgreSQL 18 a discouraged plan looks expensive enough to be compiled.
    "jit": "off",
    "lock_timeout": "5s",
    # A node that stands still (SIGSTOP) must not hold its locks for ever.
    "idle_in_transaction_session_timeout": "15s",
}

_FACTS = """
select current_setting('server_version_num')::int / 10000 as version,
    current_setting('server_version') as named, current_setting('fsync') as fsync,
    current_setting('synchronous_commit') as commits,
    current_setting('server_encoding') as encoding, pg_is_in_recovery() as standby,
    set_config('synchronous_commit', current_setting('synchronous_commit'), false) as pinned
"""


class Fate(Enum):
    """What an error means for the batch that met it."""

    AGAIN = "nothing was written, the connection is good"
    LOST = "nothing was written, the connection is gone"
    RACE = "another node created the same row first"
    DATA = "something in the data cannot be saved"
    FAULT = "the server cannot do it"


_STATES = {
    "40001": Fate.AGAIN,
    "40P01": Fate.AGAIN,
    "55P03": Fate.AGAIN,
    "57014": Fate.AGAIN,
    "23505": Fate.RACE,
    "25006": Fate.LOST,
    "25P03": Fate.LOST,
    "53300": Fate.LOST,
    "57P01": Fate.LOST,
    "57P02": Fate.LOST,
    "57P03": Fate.LOST,
    "57P05": Fate.LOST,
}
_CLASSES = {"08": Fate.LOST, "22": Fate.DATA, "23": Fate.DATA, "54": Fate.DATA}


def fate_of(error: Exception) -> Fate:
    """What is to be done after this error, met before the commit."""
    match error:
        case asyncpg.InvalidCachedStatementError():
            return Fate.AGAIN
        case asyncpg.PostgresError():
            state = error.sqlstate or ""
            return _STATES.get(state) or _CLASSES.get(state[:2], Fate.FAULT)
        case ThreadlineError():
            return Fate.FAULT
        case OSError() | TimeoutError() | asyncpg.InternalClientError():
            return Fate.LOST
        case asyncpg.InterfaceError() if not isinstance(error, ValueError):
            return Fate.LOST
    return Fate.DATA


def is_verdict(error: Exception) -> bool:
    """Whether an error that answers COMMIT says for certain that nothing was committed."""
    return isinstance(error, asyncpg.PostgresError) and error.severity_en == "ERROR"


class ServerClock:
    """The database's clock, carried on by the process's own between two looks."""

    def __init__(self) -> None:
        self._offset = 0.0
        self._seen = float("-inf")

    def __call__(self) -> datetime:
        return datetime.fromtimestamp(self._offset + time.monotonic(), UTC)

    @property
    def stale(self) -> bool:
        """Whether it is time to look again."""
        return time.monotonic() - self._seen > CLOCK_SECONDS

    async def look(self, connection: asyncpg.Connection) -> None:
        """Read the database's clock; the answer is taken to be half a round trip old."""
        before = time.monotonic()
        at = await connection.fetchval("select clock_timestamp()")
        self._seen = time.monotonic()
        self._offset = (at - EPOCH) / timedelta(seconds=1) - (before + self._seen) / 2


class Server:
    """Where the database is, and how one connects to it."""

    def __init__(self, url: str, *, allow_unsafe: bool = False) -> None:
        self._url = url
        self._allow_unsafe = allow_unsafe
        self.where = _where(url)

    async def connect(self, **settings: str) -> asyncpg.Connection:
        """A new connection, its statements prepared once and kept."""
        try:
            return await asyncpg.connect(
                self._url,
                timeout=CONNECT_SECONDS,
                command_timeout=COMMAND_SECONDS,
                statement_cache_size=512,
                max_cached_statement_lifetime=0,
                server_settings=SETTINGS | settings,
            )
        except (asyncpg.ClientConfigurationError, ValueError):
            # What the parser says may quote the password.
            raise _unreadable() from None

    async def connect_writer(self) -> asyncpg.Connection:
        """A connection whose commits are on the disk when they are answered.

        Raises `ConfigError` where the server is too old or does not promise that.
        """
        connection = await self.connect()
        try:
            self.judge(await connection.fetchrow(_FACTS))
        except BaseException:
            connection.terminate()
            raise
        return connection

    def judge(self, facts: Any) -> None:
        """Refuse a server on which the store's promises would not hold."""
        if facts["version"] < OLDEST:
            raise ConfigError(
                f"PostgreSQL {facts['named']} at {self.where} is too old; "
                f"threadline needs {OLDEST} or newer."
            )
        if facts["encoding"] != "UTF8":
            raise ConfigError(
                f"the database at {self.where} is encoded as {facts['encoding']}; "
                "make one with `createdb --encoding=UTF8`."
            )
        if facts["standby"]:
            raise StoreUnavailable(
                f"{self.where} is a standby that can only be read; name the primary."
            )
        for name, value in (("fsync", facts["fsync"]), ("synchronous_commit", facts["commits"])):
            if value == "off" and not self._allow_unsafe:
                raise ConfigError(
                    f"PostgreSQL at {self.where} runs with {name}=off and would lose what it "
                    "answered. Switch it on, or open the store with allow_unsafe.",
                    setting=name,
                )

    def translated(self, error: Exception) -> ThreadlineError:
        """A driver's error in threadline's words: each says what to do, none quotes content."""
        match error:
            case ThreadlineError():
                return error
            case asyncpg.DiskFullError():
                return StoreFull("Free some space on the database server, then try again.")
            case asyncpg.DataCorruptedError() | asyncpg.IndexCorruptedError():
                return StoreDamaged(f"(PostgreSQL reports {error.sqlstate}) Restore a backup.")
            case asyncpg.InvalidAuthorizationSpecificationError():
                return StoreUnavailable(
                    f"PostgreSQL at {self.where} refuses the user or the password; check the URL."
                )
            case asyncpg.InvalidCatalogNameError():
                return StoreUnavailable(
                    f"there is no such database at {self.where}. Make it with createdb."
                )
            case asyncpg.TooManyConnectionsError():
                return StoreUnavailable(
                    f"PostgreSQL at {self.where} has no connection left; raise max_connections."
                )
            case asyncpg.PostgresError() if error.sqlstate and error.sqlstate[:2] == "54":
                return TooLarge(f"(PostgreSQL reports {error.sqlstate})")
        match fate_of(error):
            case Fate.LOST:
                return StoreUnavailable(
                    f"no PostgreSQL answers at {self.where}. Start it, or check the URL."
                )
            case Fate.AGAIN:
                return StoreUnavailable("other transactions are in the way; try again.")
            case Fate.DATA if isinstance(error, (asyncpg.PostgresError, ValueError)):
                return InvalidInput("it holds something the database cannot keep.")
        if isinstance(error, asyncpg.PostgresError):
            return StoreUnavailable(f"PostgreSQL reports {error.sqlstate}: {error.message}")
        return StoreUnavailable(f"{type(error).__name__}: {error}")


def _unreadable() -> ConfigError:
    return ConfigError(
        "the store's URL is not of the form postgresql://user:password@host:port/database. "
        "Percent-encode special characters in the password."
    )


def _where(url: str) -> str:
    """What messages may say of the URL: no user, no password, no settings."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("postgresql", "postgres"):
            raise _unreadable()
        hosts = parts.netloc.rpartition("@")[2] or ",".join(parse_qs(parts.query).get("host", []))
        return f"{hosts or 'localhost'}{parts.path}"
    except ValueError:
        raise _unreadable() from None


async def prepare(connection: asyncpg.Connection, codec: Codec, where: str) -> None:
    """Migrate the database and look at its key, one node at a time.

    Raises `SchemaNewer`, `WrongKey`, `StoreDamaged`.
    """
    await connection.execute("set lock_timeout to 0")
    lock = "select pg_advisory_lock($1)"
    await connection.execute(lock, MIGRATION_LOCK, timeout=MIGRATION_SECONDS)
    try:
        await _migrate(connection, where)
        texts = statements("postgres")
        found = dict(await _meta(connection))
        if "key" not in found:
            await connection.execute(texts["meta.save"].sql, ["key"], [codec.fingerprint()])
        elif found["key"] != codec.fingerprint():
            raise WrongKey("Give the key file that was made with this store.")
    finally:
        if not connection.is_closed():
            await connection.execute("select pg_advisory_unlock($1)", MIGRATION_LOCK)
            await connection.execute("reset lock_timeout")


async def _meta(connection: asyncpg.Connection) -> Sequence[Any]:
    return await connection.fetch(statements("postgres")["meta.load"].sql)


async def _migrate(connection: asyncpg.Connection, where: str) -> None:
    steps = migrations("postgres")
    version = 0
    if await connection.fetchval("select to_regclass('meta') is not null"):
        try:
            version = int(dict(await _meta(connection))["schema"])
        except (asyncpg.PostgresError, KeyError, ValueError):
            raise _foreign(where) from None
    newest = steps[-1][0]
    if version > newest:
        raise SchemaNewer(
            f"({where} has schema {version}, this threadline knows {newest}) "
            "Upgrade threadline; the database was left as it is.",
            schema=version,
            known=newest,
        )
    save = statements("postgres")["meta.save"].sql
    for number, _, parts in steps:
        if number <= version:
            continue
        try:
            async with connection.transaction():
                for sql in parts:
                    await connection.execute(sql, timeout=MIGRATION_SECONDS)
                await connection.execute(save, ["schema"], [str(number)])
        except asyncpg.DuplicateTableError:
            raise _foreign(where) from None


def _foreign(where: str) -> StoreDamaged:
    return StoreDamaged(
        f"({where} holds another program's tables) It was left as it is; "
        "give threadline a database of its own."
    )
