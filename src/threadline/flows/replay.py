"""Reading: join and leave, backfill, ack, and one loop that follows.

One cursor, one loop: arm the bell, read until dry, wait. Backfill and live are the same read, so
there is no seam between them to lose or double a record in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.errors import HydrationPending, MembershipNotFound
from threadline.core.ids import public
from threadline.core.model import (
    CONTROLLER,
    Caller,
    Conversation,
    ConversationRef,
    History,
    Membership,
    Session,
    TranscriptRecord,
)
from threadline.core.ports import (
    EVERYTHING,
    MEMBER,
    MEMBERSHIPS_OF,
    NAME,
    RECORDS_AFTER,
    Bell,
    Changes,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
)
from threadline.core.quick import quick
from threadline.core.rules import authority, hydration, visibility
from threadline.core.rules.authority import Where
from threadline.core.rules.limits import LIMITS, Limits, clamp
from threadline.core.seating import session_named
from threadline.flows.lag import Lag, ReadLag
from threadline.flows.looking import (
    found,
    member_of,
    membership_rows,
    peeking,
    where_of,
)

FAR = 1 << 62
PATIENCE = 30.0
HEAD_START = 1_000
FILL = 500


@quick
@dataclass(frozen=True, slots=True)
class Handed:
    """A record as a session gets it: where it stands, and whether this session shall speak."""

    conversation: str
    ref: ConversationRef
    record: TranscriptRecord
    speaker: bool = False
    wake: bool = False


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The conversation's backlog is out; what follows is live."""

    conversation: str
    ref: ConversationRef


@dataclass(frozen=True, slots=True)
class Gap:
    """Retention took these sequences of a conversation before the session read them."""

    first: int
    last: int
    conversation: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """One page of what a member has not read. `more` says whether another page follows.

    `through` is how far the page has looked: the next one of the same connection begins there.
    `until` is when a grant it rests on expires.
    """

    conversation: str
    ref: ConversationRef
    records: list[Handed] = field(default_factory=list)
    history: History
    reason: str = ""
    head: int
    earliest: int
    last_read: int | None
    visible_from: int
    more: bool
    through: int
    gap: Gap | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBackfill(Story[Backfill]):
    """The page behind a member's cursor, or behind `after` within one connection."""

    where: Where
    session: str
    scope: str
    caller: Caller
    limit: int
    after: int | None = None
    own: bool = False
    following: bool = False

    def needs(self) -> Needs:
        """The conversation and the session's name."""
        return peeking(self.where, (self.scope, self.session))

    def more(self, loaded: Loaded) -> Needs:
        """The membership."""
        needs = membership_rows(loaded, self.where, self.session)
        return Needs(rows=[*needs.rows, *needs.hold])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Backfill]:
        """Judge the membership and cut the slice on one committed state (laws 5 and 6)."""
        draft = Draft(loaded)
        conversation = found(loaded, self.where, self.caller)
        session, member = member_of(draft, conversation, self.session, now, caller=self.caller)
        hydration.refuse_gated(conversation)
        start = visibility.cursor(member, conversation, now)
        if self.after is not None:
            start = max(start, self.after)
        mine = {public(number) for number in (session.id, *session.predecessors)}
        rows = self._rows(loaded, member, conversation, start, mine, now)
        records = rows[: self.limit]
        more = len(rows) > self.limit
        through = records[-1].sequence if more else max(start, conversation.head)
        if not self.own:
            records = [one for one in records if one.source is None or one.source not in mine]
        lost = visibility.gap(member, conversation, now, handed=self.after)
        history, reason = hydration.history(conversation)
        return Changes(), Backfill(
            conversation=public(conversation.id),
            ref=conversation.ref,
            records=[handed(conversation, one, session) for one in records],
            history=history,
            reason=reason,
            head=conversation.head,
            earliest=conversation.earliest_sequence,
            last_read=member.last_read,
            visible_from=visibility.visible_from(member, conversation, now),
            more=more,
            through=through,
            gap=None if lost is None else Gap(*lost, public(conversation.id)),
            until=visibility.expires_at(member, now),
        )

    def _rows(
        self,
        loaded: Loaded,
        member: Membership,
        conversation: Conversation,
        start: int,
        mine: set[str],
        now: datetime,
    ) -> list[TranscriptRecord]:
        """What is behind `start`, a record more than the page holds where there is more.

        Followers of one room ask for the same page, so it is read once for all of them; what is
        their own is left out of it afterwards. A page that is asked for is filled: what a
        predecessor said would else make it short, and a page of nothing cannot be acknowledged.
        """
        shared = self.own or self.following
        rows: list[TranscriptRecord] = []
        size = self.limit + 1
        while True:
            asked = slice_of(member, conversation, now, after=start, limit=size, own=shared)
            page = loaded.page(asked)
            rows += page if shared else [one for one in page if one.source not in mine]
            if shared or len(page) < size or len(rows) > self.limit:
                return rows
            start, size = page[-1].sequence, FILL


def slice_of(
    member: Membership,
    conversation: Conversation,
    now: datetime,
    *,
    after: int,
    limit: int,
    own: bool,
) -> Page[TranscriptRecord]:
    """The question for the records behind `after` that this member may read."""
    live_only = 1 if visibility.live_only(member, conversation, now) else 0
    leave_out = -1 if own else member.session
    return Page(RECORDS_AFTER, (conversation.id, after, FAR, live_only, leave_out, limit))


def handed(conversation: Conversation, record: TranscriptRecord, session: Session) -> Handed:
    """A record as this session gets it."""
    speaker = wake = False
    if record.target is not None or record.wakes:
        mine = {public(number) for number in (session.id, *session.predecessors)}
        speaker = record.target in mine
        wake = any(one in mine for one in record.wakes)
    return Handed(public(conversation.id), conversation.ref, record, speaker, wake)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge(Story[Membership]):
    """One session read up to `sequence`. Never moves back."""

    where: Where
    session: str
    scope: str
    caller: Caller
    sequence: int

    def needs(self) -> Needs:
        """The conversation, only read, and the session's name."""
        return peeking(self.where, (self.scope, self.session))

    def more(self, loaded: Loaded) -> Needs:
        """The membership, locked."""
        return membership_rows(loaded, self.where, self.session)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Membership]:
        """See `rules.visibility.ack`."""
        draft = Draft(loaded)
        conversation = found(loaded, self.where, self.caller)
        _, member = member_of(draft, conversation, self.session, now, caller=self.caller)
        hydration.refuse_gated(conversation)
        after = visibility.ack(member, self.sequence, conversation=conversation, now=now)
        if after is not member:
            draft.put(MEMBER, (conversation.id, member.session), after)
        return draft.changes, after


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMemberships(Story[tuple[int, list[tuple[int, int, int | None]]]]):
    """Which conversations a session is in: ids with head and last read, a page of them."""

    session: str
    scope: str
    after: int
    limit: int

    def needs(self) -> Needs:
        """The session's name."""
        return Needs(rows=[(NAME, (self.scope, self.session))])

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[int, list[tuple[int, int, int | None]]]]:
        """The session's surrogate id and one page, its predecessors' rooms included."""
        session = session_named(Draft(loaded), self.scope, self.session)
        rows: list[tuple[int, int, int | None]] = []
        for number in (session.id, *session.predecessors):
            rows += loaded.page(Page(MEMBERSHIPS_OF, (number, self.after, self.limit)))
        return Changes(), (session.id, sorted(set(rows))[: self.limit])


class Replay:
    """A session's reading side."""

    def __init__(self, store: Store, limits: Limits = LIMITS) -> None:
        self._store = store
        self._limits = limits

    async def backfill(
        self,
        where: ConversationRef | str,
        session: str,
        *,
        limit: int | None = None,
        own: bool = False,
        caller: Caller = CONTROLLER,
    ) -> Backfill:
        """The next page behind the session's cursor; the cursor stays where it is.

        `limit` is 100 where absent and at most 500. The session's own records are left out unless
        `own`. Raises `MembershipNotFound`, `HydrationPending`, `NotFound`.
        """
        authority.may_read(caller, session)
        return await self._store.read(
            ReadBackfill(
                where=where_of(where),
                session=session,
                scope=authority.scope_of(caller),
                caller=caller,
                limit=clamp(limit, self._limits),
                own=own,
            )
        )

    async def ack(
        self,
        where: ConversationRef | str,
        session: str,
        sequence: int,
        *,
        caller: Caller = CONTROLLER,
    ) -> Membership:
        """The session has read up to `sequence`. An ack under the cursor is a no-op.

        Raises `InvalidInput` over the head or below min(0, lowest - 1), `MembershipNotFound`.
        """
        authority.may_read(caller, session)
        return await self._store.run(
            Acknowledge(
                where=where_of(where),
                session=session,
                scope=authority.scope_of(caller),
                caller=caller,
                sequence=sequence,
            )
        )

    async def lag(
        self, where: ConversationRef | str, session: str, *, caller: Caller = CONTROLLER
    ) -> Lag:
        """How far the session is behind in this conversation."""
        authority.may_read(caller, session)
        scope = authority.scope_of(caller)
        return await self._store.read(
            ReadLag(where=where_of(where), session=session, scope=scope, caller=caller)
        )

    async def follow(
        self,
        session: str,
        *,
        conversation: ConversationRef | str | None = None,
        own: bool = False,
        patience: float = PATIENCE,
        once: bool = False,
        caller: Caller = CONTROLLER,
    ) -> AsyncIterator[Handed | CaughtUp | Gap]:
        """Hand on every record the session may read, each once in this connection, for ever.

        All its conversations, or one. `CaughtUp` comes once per conversation after its backlog.
        What is not acknowledged comes again in the next connection. `patience` is how many seconds
        the bell is waited for before everything is looked at again; `once` ends when dry.
        """
        authority.may_read(caller, session)
        if conversation is None:
            authority.unbound(caller)
        scope = authority.scope_of(caller)
        number, _ = await self._store.read(
            ReadMemberships(session=session, scope=scope, after=0, limit=1)
        )
        only = where_of(conversation) if conversation is not None else None
        bell = self._store.bell(session=number)
        follower = _Follower(self._store, session, scope, caller, own, self._limits)
        try:
            rung: dict[int, int | None] = {EVERYTHING: None}
            while True:
                async for room, head in self._rooms(session, scope, only, rung):
                    async for item in follower.drain(room, head, bell):
                        yield item
                if once and not bell.disturbed:
                    return
                rung = await bell.wait(patience) or {EVERYTHING: None}
        finally:
            bell.close()

    async def _rooms(
        self, session: str, scope: str, only: Where | None, rung: dict[int, int | None]
    ) -> AsyncIterator[tuple[Where, int | None]]:
        if only is not None:
            yield only, None
            return
        if EVERYTHING not in rung:
            for room, head in rung.items():
                yield room, head
            return
        after = 0
        while True:
            _, rows = await self._store.read(
                ReadMemberships(session=session, scope=scope, after=after, limit=HEAD_START)
            )
            for room, head, _last in rows:
                yield room, head
                after = room
            if len(rows) < HEAD_START:
                return


class _Follower:
    """What one connection has handed on: a cursor per conversation, and who is caught up."""

    def __init__(
        self,
        store: Store,
        session: str,
        scope: str,
        caller: Caller,
        own: bool,
        limits: Limits,
    ) -> None:
        self._store = store
        self._session = session
        self._scope = scope
        self._caller = caller
        self._own = own
        self._limits = limits
        self._cursors: dict[str, int] = {}
        self._caught_up: set[str] = set()
        self._gaps: set[tuple[str, int]] = set()
        self._ids: dict[Where, str] = {}

    async def drain(
        self, room: Where, head: int | None, bell: Bell
    ) -> AsyncIterator[Handed | CaughtUp | Gap]:
        """Read one conversation until it is dry."""
        known = public(room) if isinstance(room, int) else self._ids.get(room)
        limit = self._limits.page
        if head is not None and known in self._caught_up and head <= self._cursors[known]:
            return
        while True:
            try:
                page = await self._store.read(
                    ReadBackfill(
                        where=room,
                        session=self._session,
                        scope=self._scope,
                        caller=self._caller,
                        limit=limit,
                        after=self._cursors.get(known) if known is not None else None,
                        own=self._own,
                        following=True,
                    )
                )
            except (MembershipNotFound, HydrationPending):
                return
            known = self._ids[room] = page.conversation
            if page.until is not None and limit > 1 and page.records:
                # What expires is read record by record: a page would outlive the grant (C14).
                limit = 1
                continue
            if page.gap is not None and (known, page.gap.last) not in self._gaps:
                self._gaps.add((known, page.gap.last))
                yield page.gap
            stale = False
            for item in page.records:
                if bell.disturbed:
                    # Membership changed while the page was on its way: nothing from buffers.
                    stale = True
                    break
                self._cursors[known] = item.record.sequence
                yield item
            if stale:
                return
            self._cursors[known] = max(self._cursors.get(known, -FAR), page.through)
            if page.more:
                continue
            if known not in self._caught_up:
                self._caught_up.add(known)
                yield CaughtUp(known, page.ref)
            return
