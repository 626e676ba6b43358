"""A SQLite store that another process of the same user has open, through a socket of its own.

One process serves a SQLite file. So that every command works beside a running server, the server
opens a hatch: a Unix socket next to the file, for its own user only (mode 600, and the kernel says
who is on the other side). Stories are values, so they travel as they are and run where the store
is; both sides have to be the same threadline.

What travels is unpickled, which whoever may send it could abuse to run anything. So neither side
takes a byte before it knows that the other side is the same user, who can run anything anyway.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import struct
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from threadline.core.errors import StoreUnavailable, ThreadlineError
from threadline.core.ports import EVERYTHING, Hit, Store, Story, Witness
from threadline.stores.statements import migrations

T = TypeVar("T")

SUFFIX = ".hatch"
MAX_BYTES = 256 * 1024 * 1024
LENGTH = struct.Struct(">Q")
PEER = struct.Struct("3i")
# What the address of a Unix socket holds on every system.
MAX_PATH = 100


def hatch_of(file: Path) -> Path:
    """Where the hatch of a store's file is."""
    return file.with_name(file.name + SUFFIX)


@asynccontextmanager
async def _short(path: Path) -> AsyncIterator[str]:
    """A name for the socket that is short enough, however deep the folder lies."""
    if len(str(path)) <= MAX_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _is(writer: asyncio.StreamWriter, user: int, path: Path) -> bool:
    """Whether this user is on the other side."""
    if not hasattr(socket, "SO_PEERCRED"):
        # Where the kernel does not say, whose the socket is and its mode are what there is.
        there = path.stat()
        return there.st_uid == user and not there.st_mode & 0o077
    sock = writer.get_extra_info("socket")
    peer = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
    return bool(PEER.unpack(peer)[1] == user)


async def _receive(reader: asyncio.StreamReader) -> Any:
    """One value. Raises `StoreUnavailable` for what is none."""
    (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    if length > MAX_BYTES:
        raise StoreUnavailable("what came through the hatch is larger than it takes.")
    body = await reader.readexactly(length)
    try:
        return pickle.loads(body)
    except Exception as error:  # Whatever unpickling garbage comes to.
        raise StoreUnavailable(
            f"what came through the hatch is nothing we sent ({type(error).__name__})."
        ) from None


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _send(writer: asyncio.StreamWriter, value: Any) -> None:
    body = pickle.dumps(value)
    writer.write(LENGTH.pack(len(body)) + body)
    await writer.drain()


class Hatch:
    """The server's side: runs what comes through."""

    def __init__(self, store: Store, path: Path, *, user: int | None = None) -> None:
        self._store = store
        self._path = path
        self._user = os.getuid() if user is None else user
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen. Whoever holds the store may replace a hatch that a killed process left."""
        with suppress(FileNotFoundError):
            self._path.unlink()
        async with _short(self._path) as name:
            before = os.umask(0o177)
            try:
                self._server = await asyncio.start_unix_server(self._serve, name)
            finally:
                os.umask(before)

    async def close(self) -> None:
        """Stop listening and hang up."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        with suppress(FileNotFoundError):
            self._path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if _is(writer, self._user, self._path):
                await self._answer_all(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        except StoreUnavailable:
            pass  # Whoever sends garbage is hung up on.
        finally:
            self._open.discard(task)
            await _closed(writer)

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs = await _receive(reader)
        if theirs != version("threadline"):
            await _send(writer, ("error", StoreUnavailable(_other(theirs))))
            return
        await _send(writer, ("ok", None))
        bell: Any = None
        try:
            while True:
                word, args = _question(await _receive(reader))
                try:
                    if word == "bell":
                        bell = self._store.bell(**args)
                        answer: Any = None
                    elif word == "wait":
                        answer = await bell.wait(args)
                    else:
                        answer = await self._answer(word, args)
                except ThreadlineError as refusal:
                    await _send(writer, ("error", refusal))
                except Exception as error:  # A defect in one question ends no connection unsaid.
                    failed = ThreadlineError(f"{type(error).__name__} in the server's process.")
                    await _send(writer, ("error", failed))
                else:
                    await _send(writer, ("ok", answer))
        finally:
            if bell is not None:
                bell.close()

    async def _answer(self, word: str, args: Any) -> Any:
        match word:
            case "run" if isinstance(args, Story):
                return await self._store.run(args)
            case "run_all" if all(isinstance(one, Story) for one in args):
                return await self._store.run_all(args)
            case "read" if isinstance(args, Story):
                return await self._store.read(args)
            case "find":
                return await self._store.find(*args)
            case "check":
                async with self._store.check() as findings:
                    return [finding async for finding in findings]
        # What is no story would end the thread that writes for everybody.
        raise StoreUnavailable(f"the hatch does not take that under {word!r}.")


def _question(asked: Any) -> tuple[str, Any]:
    match asked:
        case (str(word), args):
            return word, args
    raise StoreUnavailable("what came through the hatch is no question.")


def _other(theirs: str) -> str:
    ours = version("threadline")
    return f"the server is threadline {ours} and this is {theirs}. Restart the server."


class HatchStore:
    """See `core.ports.Store`: the store of the process that holds the file."""

    kind: ClassVar[str] = "sqlite"

    def __init__(self, path: Path, *, user: int | None = None) -> None:
        self._path = path
        self.schema = migrations("sqlite")[-1][0]
        self.witness: Witness | None = None
        self._user = os.getuid() if user is None else user

    @property
    def broken(self) -> ThreadlineError | None:
        """See `core.ports.Store.broken`."""
        return None

    async def connect(self) -> HatchStore:
        """See whether somebody answers. Raises `StoreUnavailable`."""
        async with self._line():
            return self

    @asynccontextmanager
    async def _line(self) -> AsyncIterator[_Line]:
        try:
            async with _short(self._path) as name:
                reader, writer = await asyncio.open_unix_connection(name)
        except OSError as error:
            raise StoreUnavailable(
                f"nobody answers at {self._path}: {error.strerror or error}."
            ) from None
        line = _Line(reader, writer)
        try:
            if not _is(writer, self._user, self._path):
                raise StoreUnavailable(f"{self._path} belongs to another user.")
            await line.greet()
            yield line
        finally:
            await _closed(writer)

    async def _ask(self, word: str, args: Any) -> Any:
        async with self._line() as line:
            return await line.ask(word, args)

    async def run(self, story: Story[T]) -> T:
        """See `core.ports.Store.run`."""
        answer: T = await self._ask("run", story)
        return answer

    async def run_all(self, stories: Iterable[Story[T]]) -> list[T | Exception]:
        """See `core.ports.Store.run_all`."""
        answers: list[T | Exception] = await self._ask("run_all", list(stories))
        return answers

    async def read(self, story: Story[T]) -> T:
        """See `core.ports.Store.read`."""
        answer: T = await self._ask("read", story)
        return answer

    async def find(
        self, words: str, conversations: Sequence[int] | None, before: Hit | None, limit: int
    ) -> list[Hit]:
        """See `core.ports.Store.find`."""
        hits: list[Hit] = await self._ask("find", (words, conversations, before, limit))
        return hits

    def bell(
        self,
        *,
        conversations: Iterable[int] = (),
        session: int | None = None,
        everything: bool = False,
    ) -> HatchBell:
        """See `core.ports.Store.bell`."""
        asked = {
            "conversations": tuple(conversations),
            "session": session,
            "everything": everything,
        }
        return HatchBell(self, asked)

    @asynccontextmanager
    async def check(self) -> AsyncIterator[AsyncIterator[str]]:
        """See `core.ports.Store.check`."""
        found: list[str] = await self._ask("check", None)

        async def each() -> AsyncIterator[str]:
            for finding in found:
                yield finding

        yield each()

    async def close(self) -> None:
        """Nothing is kept open."""


class HatchBell:
    """See `core.ports.Bell`. It is armed at the first wait, which therefore rings for everything:
    what was committed before is looked at once more instead of being missed."""

    def __init__(self, store: HatchStore, asked: dict[str, Any]) -> None:
        self._store = store
        self._asked = asked
        self._stack: Any = None
        self._line: _Line | None = None

    async def wait(self, patience: float) -> dict[int, int | None]:
        """See `core.ports.Bell.wait`."""
        if self._line is None:
            self._stack = self._store._line()
            self._line = await self._stack.__aenter__()
            await self._line.ask("bell", self._asked)
            return {EVERYTHING: None}
        rung: dict[int, int | None] = await self._line.ask("wait", patience)
        return rung

    @property
    def disturbed(self) -> bool:
        """See `core.ports.Bell.disturbed`."""
        return self._line is None

    def close(self) -> None:
        """See `core.ports.Bell.close`."""
        if self._line is not None:
            self._line.hang_up()
            self._line = None


class _Line:
    """One connection through the hatch: one question at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def greet(self) -> None:
        """Say which threadline this is. Raises `StoreUnavailable` for another one."""
        await self._exchange(version("threadline"))

    async def ask(self, word: str, args: Any) -> Any:
        """Send a question and wait for its answer. Raises what was refused."""
        return await self._exchange((word, args))

    async def _exchange(self, value: Any) -> Any:
        try:
            await _send(self._writer, value)
            kind, answer = await _receive(self._reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise StoreUnavailable("the server that holds the store went away.") from None
        if kind == "error":
            raise answer
        return answer

    def hang_up(self) -> None:
        """Close the connection."""
        self._writer.close()
