"""An export becomes history: one window per conversation, chunks in one transaction each.

A conversation without live traffic is imported gated, oldest first. Where people already talk the
history goes in front, newest first; because an export comes oldest first, such a conversation's
records wait in a temporary file that is then read backwards. Memory stays flat either way.

An export that breaks off fails every window that is open, with the reason: what came stays
readable and says that it is partial. Nothing is called complete that is not.
"""

from __future__ import annotations

import asyncio
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO

import msgspec

from threadline.core.archive import Account, Ended, Place, Tally
from threadline.core.errors import ThreadlineError
from threadline.core.model import CONTROLLER, Caller, ConversationRef, InboundMessage, WindowMode
from threadline.core.recording import Taken
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.rules.recordable import recordable
from threadline.flows.hydration import Hydration

Item = Place | InboundMessage | Ended

CHUNK = 500
IN_FLIGHT = 4
BUFFERED = 4_000

_LENGTH = struct.Struct("<I")


@dataclass(slots=True)
class Summary:
    """What an import took, skipped and why. Counts are of records, by what became of them."""

    conversations: int = 0
    threads: int = 0
    written: int = 0
    known: int = 0
    refused: int = 0
    refusals: list[str] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    failed: str = ""


class _Spool:
    """Messages in a temporary file, read back from the end."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._decode = msgspec.json.Decoder(InboundMessage).decode

    def add(self, message: InboundMessage) -> None:
        """Write one down."""
        body = msgspec.json.encode(message)
        self._file.write(body + _LENGTH.pack(len(body)))

    def backwards(self) -> Iterator[InboundMessage]:
        """The last one first."""
        end = self._file.seek(0, 2)
        while end:
            self._file.seek(end - _LENGTH.size)
            (size,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
            end -= _LENGTH.size + size
            self._file.seek(end)
            yield self._decode(self._file.read(size))

    def close(self) -> None:
        """Give the file back."""
        self._file.close()


@dataclass(slots=True)
class _Open:
    """A conversation's window while its records come."""

    place: Place
    token: str = field(repr=False)
    mode: WindowMode
    waiting: list[InboundMessage] = field(default_factory=list)
    spool: _Spool | None = None


class Importing:
    """Exports into conversations."""

    def __init__(self, hydration: Hydration, limits: Limits = LIMITS) -> None:
        self._hydration = hydration
        self._limits = limits

    async def run(
        self,
        items: Iterable[Item],
        tally: Tally,
        *,
        owner: str,
        account: Account,
        progress: Callable[[int], None] | None = None,
        mode: WindowMode | None = None,
        caller: Caller = CONTROLLER,
    ) -> Summary:
        """Import everything an archive reader yields; importing it again adds only what is new.

        `tally` is the one the reader fills. `progress` is called with the number of records so
        far. Raises what the reader raises (`ArchiveError`), after every open window was failed
        with that reason, and `HydrationPending` where another importer is at work.
        """
        work = _Import(self._hydration, owner, account, progress, mode, caller, tally, self._limits)
        try:
            for item in items:
                await work.take(item)
            await work.finish()
        except asyncio.CancelledError:
            await work.abandon("the import was interrupted")
            raise
        except BaseException as error:
            await work.abandon(str(error) or type(error).__name__)
            raise
        return work.summary


class _Import:
    """One import under way."""

    def __init__(
        self,
        hydration: Hydration,
        owner: str,
        account: Account,
        progress: Callable[[int], None] | None,
        mode: WindowMode | None,
        caller: Caller,
        tally: Tally,
        limits: Limits,
    ) -> None:
        self._limits = limits
        self._hydration = hydration
        self._owner = owner
        self._account = account
        self._progress = progress
        self._mode = mode
        self._caller = caller
        self._open: dict[ConversationRef, _Open] = {}
        self._places: dict[ConversationRef, Place] = {}
        self._buffered = 0
        self.summary = Summary(tally=tally)

    async def take(self, item: Item) -> None:
        """One item of the archive."""
        match item:
            case Place():
                self._places[item.ref] = item
                await self._begin(item)
            case Ended(ref):
                await self._end(ref)
            case InboundMessage():
                window = self._open.get(item.conversation) or await self._begin(
                    self._places.get(item.conversation) or Place(item.conversation)
                )
                if window.mode is WindowMode.PREPENDING:
                    window.spool = window.spool or _Spool()
                    window.spool.add(item)
                    return
                window.waiting.append(item)
                self._buffered += 1
                if len(window.waiting) >= CHUNK:
                    await self._flush([window])
                elif self._buffered >= BUFFERED:
                    await self._flush(list(self._open.values()))

    async def _begin(self, place: Place) -> _Open:
        found = self._open.get(place.ref)
        if found is not None:
            return found
        state = await self._hydration.begin(
            place.ref,
            owner=self._owner,
            mode=self._mode,
            caller=self._caller,
            ensure=True,
            title=place.title[:500],
            parent=place.parent,
            thread_root=place.thread_root,
            metadata=place.metadata,
        )
        assert state.token is not None
        assert state.mode is not None
        opened = self._open[place.ref] = _Open(place, state.token, state.mode)
        if place.parent is None and place.ref.parent is None:
            self.summary.conversations += 1
        else:
            self.summary.threads += 1
        return opened

    async def _flush(self, windows: list[_Open]) -> None:
        chunks = []
        for window in windows:
            if window.waiting:
                chunks.append((window, window.waiting))
                self._buffered -= len(window.waiting)
                window.waiting = []
        for start in range(0, len(chunks), IN_FLIGHT):
            part = chunks[start : start + IN_FLIGHT]
            await asyncio.gather(*(self._write(window, chunk) for window, chunk in part))

    async def _write(self, window: _Open, chunk: list[InboundMessage]) -> None:
        try:
            taken = await self._records(window, chunk)
        except ThreadlineError as error:
            if len(chunk) == 1:
                self._refused(chunk[0], error)
                return
            if error.status >= 500 or error.status == 409:
                raise
            # One malformed record must not take its neighbours with it.
            for one in chunk:
                await self._write(window, [one])
            return
        known = sum(one.duplicate for one in taken)
        self.summary.known += known
        self.summary.written += len(taken) - known
        if self._progress is not None:
            self._progress(self.summary.written + self.summary.known)

    async def _records(self, window: _Open, chunk: list[InboundMessage]) -> list[Taken]:
        shown = [recordable(message, self._limits) for message in chunk]
        return await self._hydration.records(
            window.place.ref, window.token, shown, caller=self._caller
        )

    def _refused(self, message: InboundMessage, error: ThreadlineError) -> None:
        if error.status >= 500 or error.status == 409:
            raise error
        self.summary.refused += 1
        if len(self.summary.refusals) < 100:
            self.summary.refusals.append(f"{message.conversation} {message.message_id}: {error}")

    async def _end(self, ref: ConversationRef) -> None:
        window = self._open.get(ref)
        if window is None:
            return
        await self._flush([window])
        if window.spool is not None:
            chunk: list[InboundMessage] = []
            for message in window.spool.backwards():
                chunk.append(message)
                if len(chunk) >= CHUNK:
                    await self._write(window, chunk)
                    chunk = []
            if chunk:
                await self._write(window, chunk)
            window.spool.close()
        await self._hydration.complete(ref, window.token, caller=self._caller)
        del self._open[ref]

    async def finish(self) -> None:
        """The archive is read: write what waits and close every window."""
        await self._flush(list(self._open.values()))
        for ref in list(self._open):
            await self._end(ref)

    async def abandon(self, reason: str) -> None:
        """The archive broke off: what came is partial, and says why."""
        self.summary.failed = reason
        for ref, window in list(self._open.items()):
            if window.spool is not None:
                window.spool.close()
            try:
                await self._hydration.fail(ref, window.token, reason[:500], caller=self._caller)
            except ThreadlineError:
                # The window ran out by itself and says so; the archive's error matters more.
                continue
            finally:
                self._open.pop(ref, None)
