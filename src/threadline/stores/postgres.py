"""PostgreSQL: one database, any number of nodes.

Each node has one connection that writes. It takes whatever stories have gathered while it was
committing and makes one transaction of them, as on SQLite; more connections would be slower. The
nodes share nothing but the database: every conversation an append touches is locked, in one order,
and what another node changed is seen after the lock.

What is connected to, refused and meant by an error is in `postgres_server.py`; how the nodes ring
each other in `postgres_bells.py`, the connections that read in `postgres_readers.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar

import asyncpg

from threadline.core.errors import OutcomeUnknown, StoreUnavailable, ThreadlineError
from threadline.core.ports import Clock, Hit, Story, Witness
from threadline.stores import findings
from threadline.stores.codec import Codec, Row
from threadline.stores.engine import Batch, Operation, Work
from threadline.stores.gathering import Waiting, parked, settle
from threadline.stores.postgres_bells import Intercom, hang_up
from threadline.stores.postgres_readers import ATTEMPTS, Readers, pause, roll_back
from threadline.stores.postgres_server import (
    Fate,
    Server,
    ServerClock,
    fate_of,
    is_verdict,
    prepare,
)
from threadline.stores.statements import migrations, statements, together
from threadline.stores.wakeups import Behind, Doorbell, Pairs, Wakeups

T = TypeVar("T")

BATCH = 512
FAR = 1 << 62
READ_BATCH = 64
RACES = 3
PATIENCE_SECONDS = 15.0
REMEMBERED = 50_000

# What nearly every batch writes: different tables, so one statement and one round trip will do.
TOGETHER = frozenset({"conversations.advance", "records.add", "ids.add"})

_SNAPSHOT = "begin isolation level repeatable read, read only"


class _InDoubt(Exception):
    """The connection was lost while committing: it may have been kept or not."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self.batch = batch


async def open_postgres(
    url: str, key: bytes, *, allow_unsafe: bool = False, **options: Any
) -> PostgresStore:
    """Open a database, making or migrating its tables.

    `key` is 32 secret bytes kept outside the database, the same on every node. `allow_unsafe`
    accepts a server that does not sync what it commits. Raises `StoreUnavailable`, `ConfigError`,
    `SchemaNewer`, `WrongKey`, `StoreDamaged`.
    """
    server = Server(url, allow_unsafe=allow_unsafe)
    try:
        writer = await server.connect_writer()
        try:
            codec = Codec(key)
            await prepare(writer, codec, server.where)
            store = PostgresStore(server, codec, writer, **options)
            await store.start()
        except BaseException:
            writer.terminate()
            raise
    except ThreadlineError:
        raise
    except Exception as error:
        raise server.translated(error) from error
    return store


class PostgresStore:
    """See `core.ports.Store`. Made by `open_postgres`.

    `batches` counts its commits, `batched` the stories in them.
    """

    kind: ClassVar[str] = "postgres"

    def __init__(
        self,
        server: Server,
        codec: Codec,
        writer: asyncpg.Connection,
        *,
        clock: Clock | None = None,
        cut: Callable[[list[Any]], list[list[Any]]] | None = None,
        poll: float = 5.0,
    ) -> None:
        self._server = server
        self._codec = codec
        self._writer: asyncpg.Connection = writer
        self._server_clock = ServerClock()
        self._clock: Clock = clock or self._server_clock
        self._cut = cut
        self._texts = statements("postgres")
        # An address is given to a conversation once and for ever.
        self._addresses: dict[str, int] = {}
        self._waiting: deque[Waiting] = deque()
        self._arrived = asyncio.Event()
        self.schema = migrations("postgres")[-1][0]
        self.witness: Witness | None = None
        self.batches = 0
        self.batched = 0
        self._closed = False
        self._down = False
        self._loop = asyncio.get_running_loop()
        self._readers = Readers(server)
        self._asked: deque[Waiting] = deque()
        self._looking: set[asyncio.Task[None]] = set()
        self._wakeups = Wakeups(self._belonging, self._behind, poll)
        self._intercom = Intercom(self._connect_intercom, self._wakeups)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look at the clock, listen to the other nodes, and begin to take stories."""
        await self._server_clock.look(self._writer)
        await self._intercom.start()
        self._task = asyncio.create_task(self._write())

    def _connect_intercom(self) -> Any:
        # A ring is a hint: it need not be on the disk.
        return self._server.connect(synchronous_commit="off")

    # --- writing -----------------------------------------------------------------------------

    async def run(self, story: Story[T]) -> T:
        """See `core.ports.Store.run`."""
        return await self._submit(story).future  # type: ignore[no-any-return]

    async def run_all(self, stories: Iterable[Story[T]]) -> list[T | Exception]:
        """See `core.ports.Store.run_all`."""
        items = [self._submit(story) for story in stories]
        return await asyncio.gather(*(item.future for item in items), return_exceptions=True)  # type: ignore[no-any-return]

    def _submit(self, story: Story[Any]) -> Waiting:
        if self._closed:
            raise StoreUnavailable("the store was closed.")
        item = Waiting(story, self._loop.create_future(), self.witness)
        self._waiting.append(item)
        self._arrived.set()
        return item

    async def _write(self) -> None:
        while self._waiting or not self._closed:
            self._arrived.clear()
            if not self._waiting:
                # Whoever is ready in the turn that wakes this task is in the batch.
                await self._arrived.wait()
            items: list[Waiting] = []
            while self._waiting and len(items) < BATCH:
                items.append(self._waiting.popleft())
            for part in self._cut(items) if self._cut else [items]:
                began = time.perf_counter_ns()
                try:
                    await self._transact(part)
                except Exception as error:
                    self._refuse(part, self._server.translated(error))
                if self.witness is not None:
                    self.witness.settled(part, time.perf_counter_ns() - began)

    async def _transact(self, items: list[Waiting]) -> None:
        """Run a batch until its outcome is known, then answer."""
        began, attempts, races, doubted = time.monotonic(), 0, 0, False
        while items:
            attempts += 1
            try:
                self._answer(items, await self._commit(items))
                return
            except _InDoubt as doubt:
                # A ring for nothing does no harm; a repetition may find nothing left to ring for.
                self._ring(doubt.batch)
                items = self._give_up_unrepeatable(items)
                error: Exception = doubt
                fate, doubted = Fate.LOST, True
            except Exception as caught:
                error, fate = caught, fate_of(caught)
            if fate is Fate.RACE:
                races += 1
                fate = Fate.AGAIN if races < RACES else Fate.DATA
            if fate is Fate.DATA:
                await self._alone(items, error)
                return
            over = self._down or attempts >= ATTEMPTS or time.monotonic() - began > PATIENCE_SECONDS
            if fate is Fate.FAULT or over:
                self._down = fate is Fate.LOST
                self._refuse(items, _unknown() if doubted else self._server.translated(error))
                return
            await pause(attempts)

    async def _commit(self, items: list[Waiting]) -> Batch:
        writer = await self._connected()
        batch = Batch(self._codec, self._clock(), addresses=self._addresses)
        try:
            await writer.execute("begin")
            answers = await self._drive(writer, batch.work([item.story for item in items]))
        except BaseException:
            await roll_back(writer)
            raise
        try:
            await writer.execute("commit")
        except BaseException as error:
            if isinstance(error, Exception) and is_verdict(error):
                raise
            writer.terminate()
            raise _InDoubt(batch) from error
        for item, answer in zip(items, answers, strict=True):
            item.answer = answer
        if len(self._addresses) > REMEMBERED:
            self._addresses.clear()
        self._addresses |= batch.addresses()
        self.batches += 1
        self.batched += len(items)
        return batch

    async def _connected(self) -> asyncpg.Connection:
        if self._writer.is_closed():
            # It may be another server that answers now, restored to an earlier day.
            self._addresses.clear()
            self._writer = await self._server.connect_writer()
            await self._server_clock.look(self._writer)
        elif self._server_clock.stale:
            await self._server_clock.look(self._writer)
        return self._writer

    async def _drive(self, connection: asyncpg.Connection, work: Work) -> list[Any]:
        written: dict[str, Operation] = {}
        try:
            operation = next(work)
            while True:
                if operation.statement in TOGETHER and operation.statement not in written:
                    written[operation.statement] = operation
                    operation = work.send([])
                    continue
                await self._execute_together(connection, written)
                operation = work.send(await self._execute(connection, operation))
        except StopIteration as stop:
            await self._execute_together(connection, written)
            return stop.value  # type: ignore[no-any-return]

    async def _execute_together(
        self, connection: asyncpg.Connection, written: dict[str, Operation]
    ) -> None:
        """Run what was put off, in one round trip."""
        if written:
            texts = [self._texts[name].sql for name in written]
            columns = [column for it in written.values() for column in zip(*it.rows, strict=True)]
            written.clear()
            await connection.fetch(together(*texts), *columns)

    async def _execute(self, connection: asyncpg.Connection, operation: Operation) -> list[Any]:
        args: Sequence[Any]
        if operation.args is not None:
            args = operation.args
        elif operation.rows:
            args = list(zip(*operation.rows, strict=True))
        else:
            return []
        return await connection.fetch(self._texts[operation.statement].sql, *args)

    def _give_up_unrepeatable(self, items: list[Waiting]) -> list[Waiting]:
        self._refuse([item for item in items if not item.story.repeatable], _unknown())
        return [item for item in items if item.story.repeatable]

    async def _alone(self, items: list[Waiting], error: Exception) -> None:
        if len(items) > 1:
            for item in items:
                await self._transact([item])
        else:
            self._refuse(items, await self._park(items[0].story, error))

    async def _park(self, story: Story[Any], error: Exception) -> Exception:
        reason = self._server.translated(error)
        try:
            if story.payload is None:
                return reason
            row = parked(story, error, self._clock())
            await self._execute(await self._connected(), Operation("parked.add", [row]))
        except Exception as second:
            return self._server.translated(second)
        return StoreUnavailable(f"the message was parked: {reason}", parked=row[0])

    def _refuse(self, items: list[Waiting], error: Exception) -> None:
        for item in items:
            item.answer = error
        settle(items)

    def _answer(self, items: list[Waiting], batch: Batch) -> None:
        self._down = False
        settle(items)
        self._ring(batch)

    def _ring(self, batch: Batch) -> None:
        if batch.conversations or batch.sessions:
            self._wakeups.ring(batch.conversations, batch.sessions)
            self._intercom.announce(batch.conversations, batch.sessions)

    @property
    def broken(self) -> ThreadlineError | None:
        """See `core.ports.Store.broken`. A lost connection is made anew by the next write."""
        return None

    # --- reading -----------------------------------------------------------------------------

    async def read(self, story: Story[T]) -> T:
        """See `core.ports.Store.read`."""
        if self._closed:
            raise StoreUnavailable("the store was closed.")
        item = Waiting(story, self._loop.create_future())
        self._asked.append(item)
        if len(self._asked) == 1:
            # Whoever asks in this turn of the loop is answered from one snapshot.
            self._loop.call_soon(self._ask_all)
        return await item.future  # type: ignore[no-any-return]

    def _ask_all(self) -> None:
        while self._asked:
            items = [self._asked.popleft() for _ in range(min(len(self._asked), READ_BATCH))]
            task = self._loop.create_task(self._look(items))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)

    async def _look(self, items: list[Waiting]) -> None:
        async def look(reader: asyncpg.Connection) -> list[Any]:
            await reader.execute(_SNAPSHOT)
            batch = Batch(self._codec, self._clock(), reading=True, addresses=self._addresses)
            return await self._drive(reader, batch.work([item.story for item in items]))

        try:
            answers = await self._use(look)
        except StoreUnavailable as error:
            self._refuse(items, error)
        except Exception as error:
            if len(items) == 1:
                self._refuse(items, error)
            for item in items if len(items) > 1 else ():
                await self._look([item])
        else:
            for item, answer in zip(items, answers, strict=True):
                item.answer = answer
            settle(items)

    def _use(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> Awaitable[T]:
        return self._readers.use(work, attempts=1 if self._down else ATTEMPTS)

    async def ask(self, statement: str, *args: Any, rows: Sequence[Row] = ()) -> list[Any]:
        """Run one read statement by name, beside the writer. For the indexer and `doctor`."""
        operation = Operation(statement, rows, None if rows else args)
        found = await self._use(lambda reader: self._execute(reader, operation))
        return [tuple(row) for row in found]

    async def pragma(self, sql: str) -> list[Row]:
        """Run a statement of PostgreSQL's own on a reader and return its rows."""
        return [tuple(row) for row in await self._use(lambda reader: reader.fetch(sql))]

    async def _belonging(self, rooms: list[int], sessions: list[int]) -> Pairs:
        return await self.ask("members.rung", rooms, sessions)

    async def _behind(self, sessions: list[tuple[int]]) -> Behind:
        return await self.ask("members.behind", rows=sessions) if sessions else []

    async def find(
        self, words: str, conversations: Sequence[int] | None, before: Hit | None, limit: int
    ) -> list[Hit]:
        """See `core.ports.Store.find`."""
        quoted = " ".join('"' + word.replace('"', " ") + '"' for word in words.split())
        conversation, sequence, place = before or (FAR, FAR, FAR)
        numbers = None if conversations is None else list(conversations)
        return await self.ask("search.find", quoted, place, limit, conversation, sequence, numbers)

    def bell(
        self,
        *,
        conversations: Iterable[int] = (),
        session: int | None = None,
        everything: bool = False,
    ) -> Doorbell:
        """See `core.ports.Store.bell`."""
        return self._wakeups.bell(
            conversations=conversations, session=session, everything=everything
        )

    @asynccontextmanager
    async def check(self) -> AsyncIterator[AsyncIterator[str]]:
        """See `core.ports.Store.check`."""
        yield findings.examine(self, self._codec, None)

    async def close(self) -> None:
        """Finish what was taken, then close. Nothing that was answered is lost."""
        self._closed = True
        self._arrived.set()
        if self._task is not None:
            await self._task
        await self._wakeups.close()
        await self._intercom.close()
        self._ask_all()
        await asyncio.gather(*self._looking)
        await self._readers.close()
        await hang_up(self._writer)


def _unknown() -> ThreadlineError:
    return OutcomeUnknown("Look whether it is there before you try again.")
