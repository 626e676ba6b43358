"""The driver alone: the same rows in one transaction, nothing read, nothing decided, nothing made.

The rows are made before the clock runs. SQLite gets them through the same statements, PostgreSQL in
a single one, which is the least a program can do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import apsw
import asyncpg

from threadline.stores.statements import statements

ROOM = 1 << 40

_WRITTEN = """
with r as (
    insert into records (conversation, sequence, hydrated, source, recorded_at, digest, body)
    select k.c, k.s, 0, null, $3, k.d, k.b
    from unnest($1::bigint[], $2::bigint[], $4::bytea[], $5::text[]) as k(c, s, d, b)
), i as (
    insert into ids (conversation, key, sequence, part)
    select k.c, k.i, k.s, 0 from unnest($1::bigint[], $6::bytea[], $2::bigint[]) as k(c, i, s)
)
update conversations set next_sequence = k.s + 1
from unnest($1::bigint[], $2::bigint[]) as k(c, s) where conversations.id = k.c
"""


@dataclass(frozen=True, slots=True)
class Made:
    """One append as it lies in the tables."""

    conversation: int
    sequence: int
    digest: bytes
    body: str
    key: bytes


class Rows:
    """Makes appends of one size, spread evenly over rooms."""

    def __init__(self, rooms: int, body: str) -> None:
        self._rooms = rooms
        self._body = body
        self._made = 0

    def take(self, count: int) -> list[Made]:
        """The next ones."""
        first, self._made = self._made, self._made + count
        return [
            Made(
                ROOM + n % self._rooms,
                1 + n // self._rooms,
                os.urandom(16),
                self._body,
                os.urandom(16),
            )
            for n in range(first, self._made)
        ]


class RawStore(Protocol):
    """A driver on the tables."""

    async def begin(self, rooms: int) -> None:
        """Make the rooms."""

    async def write(self, made: Sequence[Made]) -> None:
        """Write these in one durable transaction."""

    async def version(self) -> str:
        """The engine's version."""


class RawSqlite:
    """apsw, with the store's pragmas."""

    def __init__(self, path: str, vfs: str | None) -> None:
        texts = statements("sqlite")
        self._create = texts["conversations.create"].sql
        self._record = texts["records.add"].sql
        self._id = texts["ids.add"].sql
        self._advance = texts["conversations.advance"].sql
        self._connection = apsw.Connection(path, vfs=vfs, statementcachesize=256)
        for pragma in (
            "synchronous=FULL",
            "secure_delete=on",
            "wal_autocheckpoint=4000",
            "cache_size=-65536",
            "temp_store=memory",
        ):
            self._connection.execute(f"pragma {pragma}")

    async def begin(self, rooms: int) -> None:
        """See `RawStore.begin`."""
        with self._connection:
            self._connection.executemany(self._create, [room(n) for n in range(rooms)])

    async def write(self, made: Sequence[Made]) -> None:
        """See `RawStore.write`."""
        connection = self._connection
        connection.execute("begin immediate")
        connection.executemany(
            self._record,
            [(it.conversation, it.sequence, 0, None, 0, it.digest, it.body) for it in made],
        )
        connection.executemany(self._id, [(it.conversation, it.key, it.sequence, 0) for it in made])
        connection.executemany(
            self._advance, [(it.conversation, it.sequence + 1, 1, 1) for it in made]
        )
        connection.execute("commit")

    async def version(self) -> str:
        """See `RawStore.version`."""
        return apsw.sqlite_lib_version()

    async def close(self) -> None:
        """Close the file."""
        self._connection.close()


class RawPostgres:
    """asyncpg, with the store's settings."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._create = statements("postgres")["conversations.create"].sql
        self._connection: asyncpg.Connection = connection

    async def begin(self, rooms: int) -> None:
        """See `RawStore.begin`."""
        columns = list(zip(*(room(n) for n in range(rooms)), strict=True))
        await self._connection.fetch(self._create, *columns)

    async def write(self, made: Sequence[Made]) -> None:
        """See `RawStore.write`."""
        await self._connection.fetch(
            _WRITTEN,
            [it.conversation for it in made],
            [it.sequence for it in made],
            0,
            [it.digest for it in made],
            [it.body for it in made],
            [it.key for it in made],
        )

    async def version(self) -> str:
        """See `RawStore.version`."""
        return str(await self._connection.fetchval("show server_version"))

    async def close(self) -> None:
        """End the connection."""
        await self._connection.close()


def room(number: int) -> tuple[Any, ...]:
    """A conversation's row, as `conversations.create` wants it."""
    body = '{"created_at":"2026-01-01T00:00:00Z","has_live":true}'
    address = f"slack/T1/R{number:06}"
    return (ROOM + number, "default", address, "room", 1, 1, 1, None, None, 0, body)
