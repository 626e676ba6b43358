"""The doorbells of one node: a wake-up is a doorbell, never a parcel.

A commit rings its conversations. A bell for conversations is rung at once; a bell for a session is
rung after one indexed query, off the append's path, that finds which connected sessions belong to
the rung conversations. Rings that come while that query runs are gathered into the next one. A
slow poll, one query over all connected sessions, repairs what was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterable

from threadline.core.ports import EVERYTHING

POLL_SECONDS = 5.0
REMEMBERED = 1_000
PAIRS = 20_000

Pairs = list[tuple[int, int]]
Behind = list[tuple[int, int, int]]


class Doorbell:
    """See `core.ports.Bell`."""

    __slots__ = ("_close", "_rung", "_waiter", "conversations", "session")

    def __init__(
        self,
        conversations: frozenset[int],
        session: int | None,
        close: Callable[[Doorbell], None],
    ) -> None:
        self.conversations = conversations
        self.session = session
        self._close = close
        self._rung: dict[int, int | None] = {}
        self._waiter: asyncio.Future[None] | None = None

    def ring(self, conversation: int, head: int | None = None) -> None:
        """Note a ring and wake whoever waits."""
        if len(self._rung) >= REMEMBERED:
            self._rung = {EVERYTHING: None}
        if EVERYTHING not in self._rung:
            self._rung[conversation] = head
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, patience: float) -> dict[int, int | None]:
        """See `core.ports.Bell.wait`."""
        if not self._rung:
            loop = asyncio.get_running_loop()
            self._waiter = waiter = loop.create_future()
            timer = loop.call_later(patience, _end, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiter = None
        rung, self._rung = self._rung, {}
        return rung

    @property
    def disturbed(self) -> bool:
        """See `core.ports.Bell.disturbed`."""
        return EVERYTHING in self._rung

    def close(self) -> None:
        """See `core.ports.Bell.close`."""
        self._close(self)


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Wakeups:
    """All bells of a node. `belonging` and `behind` are the store's two indexed queries."""

    def __init__(
        self,
        belonging: Callable[[list[int], list[int]], Awaitable[Pairs]],
        behind: Callable[[list[tuple[int]]], Awaitable[Behind]],
        poll: float = POLL_SECONDS,
    ) -> None:
        self._belonging = belonging
        self._behind = behind
        self._poll_seconds = poll
        self._rooms: dict[int, set[Doorbell]] = {}
        self._seats: dict[int, set[Doorbell]] = {}
        self._all: set[Doorbell] = set()
        self._rung: set[int] = set()
        self._finder: asyncio.Task[None] | None = None
        self._poller: asyncio.Task[None] | None = None
        self._closed = False

    def bell(
        self,
        *,
        conversations: Iterable[int] = (),
        session: int | None = None,
        everything: bool = False,
    ) -> Doorbell:
        """A bell on these doors, armed at once."""
        bell = Doorbell(frozenset(conversations), session, self._remove)
        if everything:
            self._all.add(bell)
        for number in bell.conversations:
            self._rooms.setdefault(number, set()).add(bell)
        if session is not None:
            self._seats.setdefault(session, set()).add(bell)
        if self._poller is None and not self._closed:
            self._poller = asyncio.ensure_future(self._poll())
        return bell

    def _remove(self, bell: Doorbell) -> None:
        self._all.discard(bell)
        for doors, numbers in (
            (self._rooms, bell.conversations),
            (self._seats, [] if bell.session is None else [bell.session]),
        ):
            for number in numbers:
                bells = doors.get(number)
                if bells is not None:
                    bells.discard(bell)
                    if not bells:
                        del doors[number]

    def ring(self, conversations: Iterable[int], sessions: Iterable[int] = ()) -> None:
        """Something was committed to these conversations, or concerns these sessions."""
        for number in conversations:
            for bell in self._rooms.get(number, ()):
                bell.ring(number)
            for bell in self._all:
                bell.ring(number)
            if self._seats:
                self._rung.add(number)
        for number in sessions:
            for bell in self._seats.get(number, ()):
                bell.ring(EVERYTHING)
        if self._rung and self._finder is None and not self._closed:
            self._finder = asyncio.ensure_future(self._find())

    def ring_all(self) -> None:
        """Nobody knows what was committed: let everybody look."""
        for doors in (self._rooms, self._seats):
            for bells in doors.values():
                for bell in bells:
                    bell.ring(EVERYTHING)
        for bell in self._all:
            bell.ring(EVERYTHING)

    async def _find(self) -> None:
        try:
            while self._rung and self._seats:
                rung, self._rung = self._rung, set()
                rooms, seats = list(rung), list(self._seats)
                stride = max(1, PAIRS // len(seats))
                for start in range(0, len(rooms), stride):
                    part = rooms[start : start + stride]
                    for room, seat in await self._belonging(part, seats):
                        for bell in self._seats.get(seat, ()):
                            bell.ring(room)
        except Exception:
            self.ring_all()
        finally:
            self._finder = None

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._poll_seconds * random.uniform(0.8, 1.2))
            with contextlib.suppress(Exception):
                for seat, room, head in await self._behind([(seat,) for seat in self._seats]):
                    for bell in self._seats.get(seat, ()):
                        bell.ring(room, head)
            for number, bells in self._rooms.items():
                for bell in bells:
                    bell.ring(number)

    async def close(self) -> None:
        """End the poll and the query that is under way."""
        self._closed = True
        for task in (self._poller, self._finder):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
