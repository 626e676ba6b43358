"""Full text: an index that trails the transcripts, and a question that sees only what one may read.

The index is built behind the appends, never in them. A hit is judged against the conversation, the
membership and the record as they are now, so nothing that was deleted, swept or taken from a
session is ever found.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput
from threadline.core.ids import public
from threadline.core.model import (
    CONTROLLER,
    Caller,
    Conversation,
    ConversationRef,
    Event,
    Provenance,
    SessionCaller,
    TranscriptRecord,
)
from threadline.core.ports import (
    CONVERSATION,
    INDEXED,
    MEMBER,
    MEMBERSHIPS_OF,
    RECORD,
    RECORDS_AFTER,
    RECORDS_BEFORE,
    UNINDEXED,
    Bell,
    Changes,
    Hit,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
    fetch,
)
from threadline.core.rules import authority, hydration, visibility
from threadline.core.rules.limits import LIMITS, Limits, clamp
from threadline.core.seating import session_named

CHUNK = 200
FAR = 1 << 62
MAX_WORDS = 500
IN_THE_INDEX = 500
REST = 0.02
AGAIN = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A record that was found, and where."""

    conversation: str
    ref: ConversationRef
    record: TranscriptRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A page of hits, newest first. `indexed_through` is how far the index had come, or None."""

    hits: list[Found]
    next: str | None
    indexed_through: datetime | None


@dataclass(frozen=True, slots=True)
class Index(Story[bool]):
    """Index one chunk of a conversation on either side; answers whether more is left."""

    conversation: int

    def needs(self) -> Needs:
        """The conversation, locked so that no delete comes in between, and its cursor."""
        return Needs(take_ids=(self.conversation,), rows=[(INDEXED, self.conversation)])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, bool]:
        """Newer records first, then those that were imported in front."""
        draft = Draft(loaded)
        conversation = draft.taken(self.conversation)
        if conversation is None:
            return draft.changes, False
        floor, head = conversation.earliest_sequence, conversation.head
        cursor = draft.get(INDEXED, self.conversation)
        low, high = cursor if cursor is not None else (floor, floor - 1)
        low, high = max(low, floor), max(high, floor - 1)
        if high < head:
            rows = draft.page(Page(RECORDS_AFTER, (self.conversation, high, FAR, 0, -1, CHUNK)))
            high = rows[-1].sequence if len(rows) == CHUNK else head
        else:
            rows = draft.page(Page(RECORDS_BEFORE, (self.conversation, -FAR, low, 0, -1, CHUNK)))
            low = rows[-1].sequence if len(rows) == CHUNK else floor
        for row in rows:
            if row.text and row.event in (Event.MESSAGE, Event.EDIT) and row.refused is None:
                at = row.recorded_at
                draft.changes.indexed.append((self.conversation, row.sequence, at, row.text))
        draft.put(INDEXED, self.conversation, (low, high))
        return draft.changes, high < head or low > floor


@dataclass(frozen=True, slots=True)
class ReadUnindexed(Story[list[int]]):
    """A page of conversations that have records the index has not."""

    after: int

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[int]]:
        """Ordered by id."""
        rows = loaded.page(Page(UNINDEXED, (self.after, 1_000)))
        return Changes(), [row[0] for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReach(Story[tuple[int, list[int] | None]]):
    """A session's id and its conversations, None where they are too many for the index."""

    session: str
    scope: str

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, tuple[int, list[int] | None]]:
        """Membership is judged again for every hit; this only narrows the question."""
        session = session_named(Draft(loaded), self.scope, self.session)
        rooms: list[int] = []
        for number in (session.id, *session.predecessors):
            page = Page(MEMBERSHIPS_OF, (number, -1, IN_THE_INDEX + 1))
            rooms += [row[0] for row in loaded.page(page)]
        return Changes(), (session.id, rooms if len(rooms) <= IN_THE_INDEX else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge(Story[list[Found]]):
    """Which hits the caller may see, as everything stands now."""

    hits: tuple[Hit, ...]
    caller: Caller
    scope: str
    session: str | None

    def needs(self) -> Needs:
        """The conversations and the records."""
        rows = [(CONVERSATION, hit[0]) for hit in self.hits]
        return Needs(rows=[*rows, *((RECORD, (hit[0], hit[1])) for hit in self.hits)])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[Found]]:
        """A blanked, swept or foreign record is no hit."""
        numbers: tuple[int, ...] | None = None
        if self.session is not None:
            session = session_named(Draft(loaded), self.scope, self.session)
            numbers = (session.id, *session.predecessors)
            keys = dict.fromkeys((hit[0], one) for hit in self.hits for one in numbers)
            fetch(loaded, MEMBER, keys)
        found: list[Found] = []
        for number, sequence, _ in self.hits:
            conversation = loaded.get(CONVERSATION, number)
            record = loaded.get(RECORD, (number, sequence))
            if conversation is None or record is None or record.blanked:
                continue
            if not authority.owns(self.caller, conversation.ref):
                continue
            if numbers is not None and not _may_see(loaded, conversation, record, numbers, now):
                continue
            found.append(Found(conversation=public(number), ref=conversation.ref, record=record))
        return Changes(), found


def _may_see(
    loaded: Loaded,
    conversation: Conversation,
    record: TranscriptRecord,
    sessions: tuple[int, ...],
    now: datetime,
) -> bool:
    if hydration.is_gated(conversation):
        return False
    for number in sessions:
        member = loaded.get(MEMBER, (conversation.id, number))
        if member is None or not visibility.is_active(member, now):
            continue
        if record.sequence < visibility.visible_from(member, conversation, now):
            continue
        imported = record.provenance is Provenance.HYDRATED
        if not (imported and visibility.live_only(member, conversation, now)):
            return True
    return False


class Search:
    """Asking the transcripts, and keeping the index close behind them.

    `trouble` is the kind of error that keeps the index from following, None while it follows.
    """

    def __init__(self, store: Store, limits: Limits = LIMITS) -> None:
        self._store = store
        self._limits = limits
        self._through: datetime | None = None
        self._task: asyncio.Task[None] | None = None
        self.trouble: str | None = None

    async def find(
        self,
        query: str,
        *,
        session: str | None = None,
        after: str | None = None,
        limit: int | None = None,
        caller: Caller = CONTROLLER,
    ) -> Results:
        """Records that hold all words of `query`, newest first.

        A session caller finds only what it may read; a controller may look through a session's
        eyes. `after` is a page's `next`. `limit` is 100 where absent and at most 500.
        """
        if isinstance(caller, SessionCaller) and session is None:
            session = caller.session
        authority.may_read(caller, session)
        authority.unbound(caller)
        if not query.strip() or len(query) > MAX_WORDS or "\x00" in query:
            raise InvalidInput(f"a query has 1 to {MAX_WORDS} characters and no NUL.")
        scope = authority.scope_of(caller)
        rooms = None
        if session is not None:
            _, rooms = await self._store.read(ReadReach(session=session, scope=scope))
        size = clamp(limit, self._limits)
        before = None if after is None else _place(after)
        hits: list[Found] = []
        for _ in range(20):
            rows = [] if rooms == [] else await self._store.find(query, rooms, before, size)
            judge = Judge(hits=tuple(rows), caller=caller, scope=scope, session=session)
            hits += await self._store.read(judge) if rows else []
            before = rows[-1] if rows else before
            if len(rows) < size or len(hits) >= size:
                break
        more = before is not None and (len(rows) == size or len(hits) > size)
        if len(hits) > size:
            hits = hits[:size]
            last = hits[-1]
            before = next(
                row
                for row in rows
                if (public(row[0]), row[1]) == (last.conversation, last.record.sequence)
            )
        token = ".".join(str(part) for part in before) if more and before is not None else None
        return Results(hits=hits, next=token, indexed_through=self._through)

    async def catch_up(self) -> None:
        """Index everything that is committed by now."""
        after = -1
        while rooms := await self._store.read(ReadUnindexed(after)):
            for room in rooms:
                await self._index(room)
            after = rooms[-1]

    async def _index(self, room: int) -> None:
        more = True
        while more:
            more = await self._store.run(Index(room))

    def start(self) -> None:
        """Keep the index behind the commits of this process until `stop`."""
        self._task = asyncio.ensure_future(self._trail())

    async def stop(self) -> None:
        """End the trailing task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _trail(self) -> None:
        bell = self._store.bell(everything=True)
        try:
            while True:
                try:
                    await self._keep_up(bell)
                except Exception as error:
                    # A full disk or a database that restarts: what was missed is found later.
                    self.trouble = type(error).__name__
                    await asyncio.sleep(AGAIN)
        finally:
            bell.close()

    async def _keep_up(self, bell: Bell) -> None:
        while True:
            await self.catch_up()
            self.trouble = None
            self._through = await self._store.read(Now())
            while rung := await bell.wait(60.0):
                if 0 in rung:
                    break
                started = await self._store.read(Now())
                for room in rung:
                    await self._index(room)
                self._through = started
                await asyncio.sleep(REST)


@dataclass(frozen=True, slots=True)
class Now(Story[datetime]):
    """The store's clock."""

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, datetime]:
        """Needs nothing."""
        return Changes(), now


def _place(after: str) -> Hit:
    try:
        conversation, sequence, place = (int(part) for part in after.split("."))
    except ValueError:
        raise InvalidInput("`after` is what an earlier page gave as `next`.", after=after) from None
    return conversation, sequence, place
