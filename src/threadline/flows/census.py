"""How much is there, how much of it waits, and who lags behind.

Nothing is counted at once: a walk goes over conversations, memberships and sessions a page at a
time and says what it found when it was everywhere. A small store is walked while somebody waits, a
large one in many steps, and then the answer is as old as it says.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from threadline.core.ids import public
from threadline.core.model import CONTROLLER, Caller, Controller
from threadline.core.ports import (
    CONVERSATION,
    META,
    SESSION,
    Changes,
    Loaded,
    Page,
    Query,
    Store,
    Story,
    fetch,
)
from threadline.core.rules import authority

ROWS = 1_000
PAGES = 20
MOST = 10_000
LAGS = 20
SMALL = 5
FRESH = timedelta(seconds=1)
DAY = timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_CONVERSATIONS: Query[tuple[int, str, int, int]] = Query("census.conversations")
_MEMBERS: Query[tuple[int, int, str, bool, int]] = Query("census.members")
_SESSIONS: Query[tuple[int, str]] = Query("census.sessions")
_HELD: Query[tuple[int]] = Query("census.held")
_PARKED: Query[tuple[int]] = Query("census.parked")
_OPEN: Query[tuple[str, str, int]] = Query("census.open")
_RECENT: Query[tuple[str, str, int]] = Query("census.recent")

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Lagging:
    """One membership and how many entries came since it last read, or since it joined."""

    conversation: str
    ref: str
    session_id: str
    behind: int


@dataclass(slots=True)
class Counts:
    """What a walk found in one scope. `unread` are conversations with records and no reader."""

    conversations: int = 0
    records: int = 0
    unread: int = 0
    sessions: int = 0
    members: int = 0
    behind: int = 0
    lag: int = 0
    top: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def lag_max(self) -> int:
        """The lag of whoever is furthest behind."""
        return max((lag for lag, _, _ in self.top), default=0)

    def joined(self, lag: int, conversation: int, session: int) -> None:
        """Count one open membership."""
        self.members += 1
        if lag > 0:
            self.behind += 1
            self.lag += lag
            self._keep(lag, conversation, session)

    def add(self, other: Counts) -> None:
        """Count another scope in."""
        for name in ("conversations", "records", "unread", "sessions", "members", "behind", "lag"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for one in other.top:
            self._keep(*one)

    def _keep(self, *one: int) -> None:
        lag, conversation, session = one
        if len(self.top) < LAGS:
            heapq.heappush(self.top, (lag, conversation, session))
        else:
            heapq.heappushpop(self.top, (lag, conversation, session))


@dataclass(frozen=True, slots=True)
class Outstanding:
    """What waits, over all scopes; of each sort at most `MOST` are counted."""

    held: int = 0
    parked: int = 0
    deliveries: tuple[tuple[str, str, int], ...] = ()
    recent: tuple[tuple[str, str, int], ...] = ()

    @property
    def open(self) -> int:
        """Deliveries that are not at their end."""
        return sum(number for _, _, number in self.deliveries)


@dataclass(slots=True)
class Walk:
    """One walk: where it is, and what it found so far."""

    began: datetime
    pages: int = 0
    phase: int = 0
    after: tuple[int, ...] = (-1,)
    scopes: dict[str, Counts] = field(default_factory=dict)
    complete: bool = False

    def of(self, scope: str) -> Counts:
        """The counts of one scope."""
        return self.scopes.setdefault(scope, Counts())


@dataclass(frozen=True, slots=True)
class Summary:
    """What is shown: everything a caller's scope holds, and how old the answer is."""

    as_of: datetime
    complete: bool
    counts: Counts
    lagging: list[Lagging]
    deliveries: dict[str, int]
    recent: dict[str, int]
    held: int
    parked: int


@dataclass(frozen=True, slots=True)
class _Ask(Story[tuple[list[Row], datetime]]):
    """One page of a walk, and the store's clock."""

    query: Query[Any]
    args: tuple[Any, ...]

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, tuple[list[Row], datetime]]:
        """The rows as they are."""
        return Changes(), ([tuple(row) for row in loaded.page(Page(self.query, self.args))], now)


@dataclass(frozen=True, slots=True)
class _Names(Story[list[Lagging]]):
    """Whose lag it is."""

    top: tuple[tuple[int, int, int], ...]

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[Lagging]]:
        """What was removed meanwhile is left out."""
        rooms = fetch(loaded, CONVERSATION, [room for _, room, _ in self.top])
        sessions = fetch(loaded, SESSION, [session for _, _, session in self.top])
        found = []
        for (lag, number, _), room, session in zip(self.top, rooms, sessions, strict=True):
            if room is not None and session is not None:
                found.append(Lagging(public(number), str(room.ref), session.name, lag))
        return Changes(), found


@dataclass(frozen=True, slots=True)
class ReadSchema(Story[int | None]):
    """The schema a shared database says it has; None where only this process could change it."""

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, int | None]:
        """A real read, however small."""
        found = dict(loaded.page(Page(META)))
        return Changes(), int(found["schema"]) if "schema" in found else None


def _conversation(walk: Walk, row: Row) -> tuple[int, ...]:
    number, scope, records, read = row
    counts = walk.of(scope)
    counts.conversations += 1
    counts.records += records
    counts.unread += bool(records and not read)
    return (number,)


def _member(walk: Walk, row: Row) -> tuple[int, ...]:
    conversation, session, scope, is_open, lag = row
    if is_open:
        walk.of(scope).joined(lag, conversation, session)
    return conversation, session


def _session(walk: Walk, row: Row) -> tuple[int, ...]:
    number, scope = row
    walk.of(scope).sessions += 1
    return (number,)


Phase = tuple[Query[Any], tuple[int, ...], Callable[[Walk, Row], tuple[int, ...]]]
PHASES: tuple[Phase, ...] = (
    (_CONVERSATIONS, (-1,), _conversation),
    (_MEMBERS, (-1, -1), _member),
    (_SESSIONS, (-1,), _session),
)


class Census:
    """Counts of the store, as old as they say."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = asyncio.Lock()
        self._walk: Walk | None = None
        self._last: Walk | None = None
        self._total = Counts()
        self.waiting = Outstanding()

    @property
    def total(self) -> Counts:
        """What the newest complete walk found, over all scopes; nothing before the first one."""
        return self._total

    @property
    def timestamp(self) -> float:
        """When that walk began, in seconds since 1970; 0 before the first one."""
        return 0.0 if self._last is None else self._last.began.timestamp()

    async def step(self, pages: int = PAGES) -> bool:
        """Walk on by at most so many pages of 1,000 rows; answers whether a walk came to its end.

        Raises store errors; the walk goes on where it was.
        """
        async with self._turn:
            self.waiting = await self._outstanding()
            for _ in range(pages):
                if await self._page():
                    return True
        return False

    async def complete(self) -> None:
        """Walk until a whole walk is done. For `doctor`: it takes as long as the store is large."""
        while not await self.step():
            pass

    async def summary(self, *, caller: Caller = CONTROLLER) -> Summary:
        """What the caller's scope holds; a controller of every scope is told the sum.

        A small store is walked for this answer. Of a large one the last complete walk is told, and
        another one begins at most once a second. Raises `Unauthorized` for anybody else.
        """
        authority.may_control(caller)
        now, last = await self._now(), self._last
        if last is None or last.pages <= SMALL or now - last.began > FRESH:
            await self.step()
        walk = self._last or self._walk or Walk(now)
        scope = caller.scope_id if isinstance(caller, Controller) else None
        chosen = walk.scopes if scope is None else {scope: walk.of(scope)}
        counts = _sum(chosen.values())
        top = tuple(sorted(counts.top, reverse=True))
        return Summary(
            as_of=walk.began,
            complete=walk.complete,
            counts=counts,
            lagging=await self._store.read(_Names(top)) if top else [],
            deliveries=_by_state(self.waiting.deliveries, scope),
            recent=_by_state(self.waiting.recent, scope),
            held=self.waiting.held,
            parked=self.waiting.parked,
        )

    async def _page(self) -> bool:
        walk = self._walk or Walk(await self._now())
        self._walk = walk
        query, _, count = PHASES[walk.phase]
        rows, _ = await self._store.read(_Ask(query, (*walk.after, ROWS)))
        walk.pages += 1
        for row in rows:
            walk.after = count(walk, row)
        if len(rows) < ROWS:
            walk.phase += 1
            if walk.phase == len(PHASES):
                walk.complete, self._last, self._walk = True, walk, None
                self._total = _sum(walk.scopes.values())
                return True
            walk.after = PHASES[walk.phase][1]
        return False

    async def _outstanding(self) -> Outstanding:
        since = (await self._now() - DAY - EPOCH) // timedelta(microseconds=1)
        [(held,)] = await self._rows(_HELD, -1)
        [(parked,)] = await self._rows(_PARKED, -1)
        return Outstanding(
            held=held,
            parked=parked,
            deliveries=tuple(await self._rows(_OPEN, -1)),
            recent=tuple(await self._rows(_RECENT, since)),
        )

    async def _rows(self, query: Query[Any], after: int) -> list[Any]:
        rows, _ = await self._store.read(_Ask(query, (after, MOST)))
        return rows

    async def _now(self) -> datetime:
        _, now = await self._store.read(_Ask(_SESSIONS, (-1, 0)))
        return now


def _sum(scopes: Iterable[Counts]) -> Counts:
    total = Counts()
    for one in scopes:
        total.add(one)
    return total


def _by_state(rows: tuple[tuple[str, str, int], ...], scope: str | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for of, state, number in rows:
        if scope is None or of == scope:
            found[state] = found.get(state, 0) + number
    return found
