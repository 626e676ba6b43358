"""Large stores, made quickly: rows straight into the tables of a store that nobody has open."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import apsw
import asyncpg

from bench.raw import room as room_row
from bench.sites import KEY, Site
from bench.speech import body
from threadline import ConversationRef
from threadline.stores.codec import Codec
from threadline.stores.postgres_server import SETTINGS
from threadline.stores.statements import statements

CHUNK = 20_000

_HEAD = "update conversations set next_sequence = {0} where address = {1}"


async def filled(site: Site, url: str, rooms: list[tuple[ConversationRef, int]]) -> None:
    """Give these known, empty rooms transcripts of so many records."""
    async with _tables(site, url) as tables:
        for ref, length in rooms:
            number = await tables.number(ref.text)
            for first in range(1, length + 1, CHUNK):
                last = min(first + CHUNK - 1, length)
                await tables.add("records.add", _records(number, first, last))
                await tables.add("ids.add", _ids(number, first, last))
            await tables.advance(ref.text, length + 1)


async def founded(site: Site, url: str, count: int) -> list[ConversationRef]:
    """Give the store so many rooms."""
    rows = [room_row(number) for number in range(count)]
    async with _tables(site, url) as tables:
        for first in range(0, count, CHUNK):
            part = rows[first : first + CHUNK]
            await tables.add("conversations.create", part)
            await tables.add("addresses.save", [(row[2], row[0]) for row in part])
    return [ConversationRef.parse(row[2]) for row in rows]


def _records(number: int, first: int, last: int) -> list[tuple[Any, ...]]:
    text, codec = body().replace("123,", "{},", 1), Codec(KEY)
    before, after = text.split("{}", 1)
    rows = []
    for sequence in range(first, last + 1):
        made = f"{before}{sequence}{after}"
        digest = codec.digest(number, sequence, made)
        rows.append((number, sequence, 0, None, sequence, digest, made))
    return rows


def _ids(number: int, first: int, last: int) -> Iterator[tuple[Any, ...]]:
    for sequence in range(first, last + 1):
        yield number, os.urandom(16), sequence, 0


class _Tables:
    """The tables of one store. Speed is all: a store that is lost here is made again."""

    def __init__(self, driver: apsw.Connection | asyncpg.Connection, engine: str) -> None:
        self._driver: Any = driver
        self._sqlite = engine == "sqlite"
        self._texts = statements(engine)

    async def add(self, name: str, rows: Any) -> None:
        """Write rows with one of the store's own statements."""
        sql = self._texts[name].sql
        if self._sqlite:
            with self._driver:
                self._driver.executemany(sql, rows).fetchall()
        else:
            await self._driver.fetch(sql, *zip(*rows, strict=True))

    async def number(self, address: str) -> int:
        """The conversation at this address."""
        sql = self._texts["addresses.load"].sql
        if self._sqlite:
            return int(self._driver.execute(sql, (address,)).fetchall()[0][1])
        return int((await self._driver.fetch(sql, [address]))[0][1])

    async def advance(self, address: str, to: int) -> None:
        """Set a conversation's counter."""
        if self._sqlite:
            self._driver.execute(_HEAD.format("?", "?"), (to, address))
        else:
            await self._driver.execute(_HEAD.format("$1", "$2"), to, address)


@asynccontextmanager
async def _tables(site: Site, url: str) -> AsyncIterator[_Tables]:
    if site.engine == "sqlite":
        file = apsw.Connection(url.removeprefix("sqlite:"))
        file.execute("pragma synchronous=off")
        yield _Tables(file, site.engine)
        file.execute("pragma wal_checkpoint(truncate)").fetchall()
        file.close()
    else:
        server = await asyncpg.connect(url, server_settings=SETTINGS)
        await server.execute("set synchronous_commit = off")
        yield _Tables(server, site.engine)
        await server.execute("vacuum analyze")
        await server.close()
