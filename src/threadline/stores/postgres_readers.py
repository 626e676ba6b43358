"""The connections that read beside the writer: few, lent one at a time, never in a transaction."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import asyncpg

from threadline.core.errors import StoreUnavailable, ThreadlineError
from threadline.stores.postgres_bells import hang_up
from threadline.stores.postgres_server import Fate, Server, fate_of

T = TypeVar("T")

READERS = 3
ATTEMPTS = 12
PAUSE_SECONDS = (0.01, 0.5)


class Readers:
    """A few connections, made when they are first needed and made again when they were lost."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._free: asyncio.LifoQueue[asyncpg.Connection | None] = asyncio.LifoQueue()
        for _ in range(READERS):
            self._free.put_nowait(None)
        self._tidying: set[asyncio.Task[None]] = set()
        self._closed = False

    async def use(
        self, work: Callable[[asyncpg.Connection], Awaitable[T]], *, attempts: int = ATTEMPTS
    ) -> T:
        """Do some reading. Reading is repeatable, so a lost connection is only a delay.

        Raises store errors.
        """
        for attempt in range(1, attempts + 1):
            try:
                async with self._lent() as reader:
                    return await work(reader)
            except ThreadlineError:
                raise
            except Exception as error:
                again = fate_of(error) in (Fate.AGAIN, Fate.LOST)
                if not again or attempt >= attempts or self._closed:
                    raise self._server.translated(error) from error
            await pause(attempt)
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[asyncpg.Connection]:
        reader = await self._free.get()
        if self._closed:
            self._free.put_nowait(reader)
            raise StoreUnavailable("the store was closed.")
        try:
            if reader is None or reader.is_closed():
                reader = None
                reader = await self._server.connect()
            yield reader
        except asyncio.CancelledError:
            # Whoever asked went away in the middle; what the connection is doing is not known.
            if reader is not None:
                reader.terminate()
            raise
        finally:
            if reader is not None and not reader.is_closed() and reader.is_in_transaction():
                # The answer does not wait for the snapshot to be let go.
                task = asyncio.create_task(self._tidy(reader))
                self._tidying.add(task)
                task.add_done_callback(self._tidying.discard)
            else:
                self._free.put_nowait(reader)

    async def _tidy(self, reader: asyncpg.Connection) -> None:
        await roll_back(reader)
        self._free.put_nowait(reader)

    async def close(self) -> None:
        """Wait until every connection is back, then close them; who still waits is refused."""
        self._closed = True
        for reader in [await self._free.get() for _ in range(READERS)]:
            if reader is not None:
                await hang_up(reader)
            self._free.put_nowait(None)


async def pause(attempt: int) -> None:
    """Wait before the next attempt, each time longer, never as long as everybody else."""
    shortest, longest = PAUSE_SECONDS
    await asyncio.sleep(min(shortest * 2**attempt, longest) * random.uniform(0.5, 1.5))


async def roll_back(connection: asyncpg.Connection) -> None:
    """End a transaction that is not to be kept; a connection that cannot is dropped."""
    try:
        if connection.is_in_transaction():
            await connection.execute("rollback")
    except Exception:
        connection.terminate()
