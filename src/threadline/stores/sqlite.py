"""SQLite: one file, one writer thread, readers beside it.

WAL with `synchronous=FULL`, so what was answered is on the disk; `secure_delete`, so what was
erased is not. The writer takes whatever stories have gathered while it was committing and makes
one transaction of them: a message alone is a batch of one, and throughput forms by itself. No read
transaction lives longer than one story.

How the file is locked, looked at and migrated before that is in `sqlite_file.py`.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar, TypeVar

import apsw

from threadline.core.errors import (
    NO_SPACE,
    InvalidInput,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
    ThreadlineError,
)
from threadline.core.ports import Clock, Hit, Story, Witness
from threadline.stores import findings
from threadline.stores.codec import Codec, Row
from threadline.stores.engine import Batch, Operation, Work
from threadline.stores.gathering import Waiting, parked, settle
from threadline.stores.rows import Cache
from threadline.stores.statements import migrations, statements
from threadline.stores.wakeups import Behind, Doorbell, Pairs, Wakeups

T = TypeVar("T")

BATCH = 512
FAR = 1 << 62
READERS = 2
READ_BATCH = 64
BUSY_MILLISECONDS = 30_000
CHECKPOINT_PAGES = 4_000

_INFRASTRUCTURE = (
    apsw.FullError,
    apsw.IOError,
    apsw.BusyError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.NoMemError,
)
_SYNC_FAILED = (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC)


def now() -> datetime:
    """The process's clock, in UTC."""
    return datetime.now(UTC)


def translated(error: Exception) -> ThreadlineError:
    """A driver's error in threadline's words: each says what to do."""
    match error:
        case ThreadlineError():
            return error
        case apsw.FullError():
            return StoreFull("Free some space, then try again.")
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreDamaged(
                f"({error}) Run `threadline doctor`; restore a backup if it confirms this."
            )
        case apsw.BusyError():
            return StoreUnavailable("another program keeps the database locked; try again.")
        case apsw.ReadOnlyError() | apsw.CantOpenError():
            return StoreUnavailable(f"the database file cannot be written: {error}")
        case apsw.IOError():
            return StoreUnavailable(f"the disk failed: {error}. Check the disk, then restart.")
        case OverflowError():
            return InvalidInput("a number is larger than can be kept.")
    return StoreUnavailable(f"{type(error).__name__}: {error}")


class SqliteStore:
    """See `core.ports.Store`. Made by `open_sqlite`.

    `batches` counts its commits, `batched` the stories in them.
    """

    kind: ClassVar[str] = "sqlite"

    def __init__(
        self,
        path: Path,
        codec: Codec,
        *,
        clock: Clock = now,
        vfs: str | None = None,
        synchronous: str = "FULL",
        cut: Callable[[list[Any]], list[list[Any]]] | None = None,
        poll: float = 5.0,
    ) -> None:
        self._path = path
        self._codec = codec
        self._clock = clock
        self._vfs = vfs
        self._synchronous = synchronous
        self._cut = cut
        self._texts = statements("sqlite")
        self._cache = Cache()
        self._waiting: deque[Waiting] = deque()
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        self._flushing = False
        self._asked: deque[Waiting] = deque()
        self._asking = False
        self.schema = migrations("sqlite")[-1][0]
        self.witness: Witness | None = None
        self.batches = 0
        self.batched = 0
        self._closed = False
        self._broken: ThreadlineError | None = None
        self._logged = 0
        self._errno = 0
        self._loop = asyncio.get_running_loop()
        self._local = threading.local()
        self._connections: list[apsw.Connection] = []
        self._readers = ThreadPoolExecutor(READERS, "threadline-reader")
        self._wakeups = Wakeups(self._belonging, self._behind, poll)
        self._writer = self._connect()
        self._release: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._write, name="threadline-writer", daemon=True)

    # --- opening -----------------------------------------------------------------------------

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(str(self._path), vfs=self._vfs, statementcachesize=256)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.execute(f"pragma synchronous={self._synchronous}")
        connection.execute("pragma secure_delete=on")
        connection.execute("pragma wal_autocheckpoint=0")
        connection.execute("pragma cache_size=-65536")
        connection.execute("pragma temp_store=memory")
        self._connections.append(connection)
        return connection

    def start(
        self, prepare: Callable[[apsw.Connection], None], release: Callable[[], None]
    ) -> None:
        """Prepare the file, then start the writer thread. `release` is called after closing."""
        try:
            prepare(self._writer)
        except BaseException:
            self._readers.shutdown()
            self._writer.close()
            raise
        self._release = release
        self._writer.set_wal_hook(self._grown)
        self._thread.start()

    def _grown(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._logged = pages
        return apsw.SQLITE_OK

    # --- writing -----------------------------------------------------------------------------

    async def run(self, story: Story[T]) -> T:
        """See `core.ports.Store.run`."""
        item = self._submit(story)
        return await item.future  # type: ignore[no-any-return]

    async def run_all(self, stories: Iterable[Story[T]]) -> list[T | Exception]:
        """See `core.ports.Store.run_all`."""
        items = [self._submit(story) for story in stories]
        futures = [item.future for item in items]
        answers: list[Any] = await asyncio.gather(*futures, return_exceptions=True)
        return answers

    def _submit(self, story: Story[Any]) -> Waiting:
        if self._closed:
            raise StoreUnavailable("the store was closed.")
        item = Waiting(story, self._loop.create_future(), self.witness)
        self._waiting.append(item)
        if not self._flushing:
            # One token per turn of the loop: whoever is ready in this turn is in the batch.
            self._flushing = True
            self._loop.call_soon(self._flush)
        return item

    def _flush(self) -> None:
        self._flushing = False
        self._tokens.put(True)

    def _write(self) -> None:
        while self._tokens.get():
            while self._waiting:
                items: list[Waiting] = []
                while self._waiting and len(items) < BATCH:
                    items.append(self._waiting.popleft())
                for part in self._cut(items) if self._cut else [items]:
                    self._transact(part)

    def _transact(self, items: list[Waiting]) -> None:
        rung: tuple[set[int], set[int]] = (set(), set())
        began = time.perf_counter_ns()
        try:
            if self._broken is not None:
                raise self._broken
            rung = self._commit(items)
        except _INFRASTRUCTURE as error:
            answer = self._fault(error)
            for item in items:
                item.answer = answer
        except ThreadlineError as error:
            for item in items:
                item.answer = error
        except Exception as error:
            if len(items) > 1:
                for item in items:
                    self._transact([item])
                return
            items[0].answer = self._park(items[0].story, error)
        with suppress(RuntimeError):
            took = time.perf_counter_ns() - began
            self._loop.call_soon_threadsafe(self._answer, items, *rung, took)
        if self._logged >= CHECKPOINT_PAGES:
            self._checkpoint()

    def _fault(self, error: Exception) -> ThreadlineError:
        """What a driver's error means for its stories, and for this store from now on."""
        answer = translated(error)
        if isinstance(error, apsw.IOError):
            synced = getattr(error, "extendedresult", 0) not in _SYNC_FAILED
            if synced and self._errno in NO_SPACE:
                # A quota or a limit: SQLite says "full" for a full disk only.
                return translated(apsw.FullError())
            # A disk that failed to sync once may have dropped the pages: never try again.
            self._broken = answer
        return answer

    def _checkpoint(self) -> None:
        """Move the log into the database. SQLite's own checkpoints keep quiet about a failed sync,
        and the next one would find nothing to sync: that would lose what was answered."""
        self._logged = 0
        try:
            self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            self._errno = self._writer.system_errno
            self._fault(error)

    def _commit(self, items: list[Waiting]) -> tuple[set[int], set[int]]:
        execute = self._writer.execute
        batch = Batch(self._codec, self._clock(), self._cache)
        try:
            execute("begin immediate")
            answers = self._drive(self._writer, batch.work([item.story for item in items]))
            execute("commit")
        except BaseException:
            self._errno = self._writer.system_errno
            self._cache.forget()
            if not self._writer.get_autocommit():
                execute("rollback")
            raise
        self._cache.trim()
        self.batches += 1
        self.batched += len(items)
        for item, answer in zip(items, answers, strict=True):
            item.answer = answer
        return batch.conversations, batch.sessions

    def _drive(self, connection: apsw.Connection, work: Work) -> list[Any]:
        texts = self._texts
        try:
            operation = next(work)
            while True:
                sql = texts[operation.statement].sql
                operation = work.send(self._execute(connection, sql, operation))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _execute(self, connection: apsw.Connection, sql: str, operation: Operation) -> list[Row]:
        if operation.args is not None:
            return connection.execute(sql, operation.args).fetchall()
        return connection.executemany(sql, operation.rows).fetchall()

    def _park(self, story: Story[Any], error: Exception) -> Exception:
        payload = story.payload
        if payload is None:
            return translated(error)
        row = parked(story, error, self._clock())
        try:
            with self._writer:
                self._writer.execute(self._texts["parked.add"].sql, row)
        except Exception as second:
            return self._fault(second)
        return StoreUnavailable(f"the message was parked: {error}", parked=row[0])

    def _answer(
        self, items: list[Waiting], conversations: set[int], sessions: set[int], took: int
    ) -> None:
        settle(items)
        if conversations or sessions:
            self._wakeups.ring(conversations, sessions)
        if self.witness is not None:
            self.witness.settled(items, took)

    @property
    def broken(self) -> ThreadlineError | None:
        """See `core.ports.Store.broken`."""
        return self._broken

    # --- reading -----------------------------------------------------------------------------

    async def read(self, story: Story[T]) -> T:
        """See `core.ports.Store.read`."""
        if self._closed:
            raise StoreUnavailable("the store was closed.")
        item = Waiting(story, self._loop.create_future())
        self._asked.append(item)
        if not self._asking:
            # Whoever asks in this turn of the loop is answered from one committed state.
            self._asking = True
            self._loop.call_soon(self._ask_all)
        return await item.future  # type: ignore[no-any-return]

    def _ask_all(self) -> None:
        self._asking = False
        while self._asked:
            items = [self._asked.popleft() for _ in range(min(len(self._asked), READ_BATCH))]
            self._readers.submit(self._read, items)

    def _reader(self) -> apsw.Connection:
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
        return connection

    def _read(self, items: list[Waiting]) -> None:
        try:
            connection = self._reader()
            connection.execute("begin")
            try:
                batch = Batch(self._codec, self._clock(), reading=True)
                answers = self._drive(connection, batch.work([item.story for item in items]))
            finally:
                connection.execute("commit")
        except Exception as error:
            if len(items) > 1:
                for item in items:
                    self._read([item])
                return
            answers = [translated(error)]
        for item, answer in zip(items, answers, strict=True):
            item.answer = answer
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(settle, items)

    async def ask(self, statement: str, *args: Any, rows: Sequence[Row] = ()) -> list[Any]:
        """Run one read statement by name, beside the writer. For the indexer and `doctor`."""
        operation = Operation(statement, rows, None if rows else args)

        def query() -> list[Any]:
            return self._execute(self._reader(), self._texts[statement].sql, operation)

        try:
            return await self._loop.run_in_executor(self._readers, query)
        except apsw.Error as error:
            raise translated(error) from error

    async def _belonging(self, rooms: list[int], sessions: list[int]) -> Pairs:
        # One statement, not one a pair: between two the thread would wait for its turn again.
        return await self.ask("members.rung", json.dumps(rooms), json.dumps(sessions))

    async def _behind(self, sessions: list[tuple[int]]) -> Behind:
        return await self.ask("members.behind", rows=sessions) if sessions else []

    async def find(
        self, words: str, conversations: Sequence[int] | None, before: Hit | None, limit: int
    ) -> list[Hit]:
        """See `core.ports.Store.find`."""
        quoted = ['"' + word.replace('"', '""') + '"' for word in words.split()]
        match = f"words : ({' '.join(quoted)})"
        if conversations is not None:
            match += f" AND place : ({' OR '.join(f'c{number}' for number in conversations)})"
        place = FAR if before is None else before[2]
        return await self.ask("search.find", match, place, limit)

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
        yield findings.examine(self, self._codec, "pragma quick_check")

    async def pragma(self, sql: str) -> list[Row]:
        """Run a pragma on a reader and return its rows."""

        def query() -> list[Row]:
            return self._reader().execute(sql).fetchall()

        return await self._loop.run_in_executor(self._readers, query)

    async def close(self) -> None:
        """Finish what was taken, then close. Nothing that was answered is lost."""
        self._closed = True
        await self._wakeups.close()
        self._tokens.put(True)
        self._tokens.put(False)
        await asyncio.to_thread(self._thread.join)
        self._readers.shutdown()
        try:
            for connection in self._connections:
                connection.close()
        finally:
            self._release()
