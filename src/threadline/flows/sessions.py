"""Lives of sessions: created, named, reassigned, retired.

A name points at a surrogate id and rows point at the id, so a new session under an old name
inherits nothing. `reassign` sets the successor first, which every read and every route follows at
once, and then moves the rows conversation by conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput, SessionNotFound, SessionRetired
from threadline.core.ids import public
from threadline.core.model import (
    CONTROLLER,
    Caller,
    Conversation,
    Grant,
    Membership,
    Reason,
    Session,
)
from threadline.core.ports import (
    BOUND_TO,
    MEMBER,
    MEMBERSHIPS_OF,
    NAME,
    PARTICIPANT,
    ROUTE,
    ROUTES_OF,
    SESSION,
    SESSIONS,
    Changes,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
    fetch,
    take_all,
)
from threadline.core.rules import admission, authority, membership, visibility
from threadline.core.rules.limits import LIMITS, Limits, clamp
from threadline.core.rules.speaking import fold
from threadline.core.seating import checked_name, session_named, unseat
from threadline.core.unseating import drop_binding, drop_handles

AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A session as it is shown."""

    id: str
    session_id: str
    scope_id: str
    created_at: datetime
    retired_at: datetime | None = None
    successor: str | None = None
    aliases: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


def _shown(session: Session) -> SessionState:
    return SessionState(
        id=public(session.id),
        session_id=session.name,
        scope_id=session.scope_id,
        created_at=session.created_at,
        retired_at=session.retired_at,
        successor=None if session.successor is None else public(session.successor),
        aliases=session.aliases,
        metadata=session.metadata,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Create(Story[SessionState]):
    """A session under a new or retired name; an existing one is found."""

    scope: str
    name: str
    metadata: Mapping[str, Any] | None = None

    def needs(self) -> Needs:
        """The name."""
        return Needs(rows=[(NAME, (self.scope, self.name))])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, SessionState]:
        """A retired name is given to somebody new, who inherits nothing (J3)."""
        draft = Draft(loaded)
        number = draft.get(NAME, (self.scope, checked_name(self.name)))
        found = None if number is None else draft.get(SESSION, number)
        if found is None or found.retired_at is not None:
            found = Session(id=draft.fresh(), scope_id=self.scope, name=self.name, created_at=now)
            draft.put(NAME, (self.scope, self.name), found.id)
        data = membership.merged(found.metadata, self.metadata)
        session = replace(found, metadata=data)
        draft.put(SESSION, session.id, session)
        return draft.changes, _shown(session)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias(Story[SessionState]):
    """A further name for a session, or one less."""

    scope: str
    name: str
    alias: str
    remove: bool = False

    def needs(self) -> Needs:
        """Both names."""
        return Needs(rows=[(NAME, (self.scope, self.name)), (NAME, (self.scope, self.alias))])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, SessionState]:
        """An alias that another session has is refused."""
        draft = Draft(loaded)
        session = session_named(draft, self.scope, self.name)
        holder = draft.get(NAME, (self.scope, checked_name(self.alias)))
        if holder not in (None, session.id):
            raise InvalidInput(f"{self.alias!r} is another session's name.", alias=self.alias)
        kept = tuple(one for one in session.aliases if one != self.alias)
        if self.remove:
            if self.alias == session.name:
                raise InvalidInput("a session keeps its own name.", alias=self.alias)
            draft.put(NAME, (self.scope, self.alias), None)
        elif self.alias != session.name:
            kept = (*kept, self.alias)
            draft.put(NAME, (self.scope, self.alias), session.id)
        session = replace(session, aliases=kept)
        draft.put(SESSION, session.id, session)
        return draft.changes, _shown(session)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSession(Story[SessionState]):
    """One session by name; a retired one too."""

    scope: str
    name: str

    def needs(self) -> Needs:
        """The name."""
        return Needs(rows=[(NAME, (self.scope, self.name))])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, SessionState]:
        """Raises `SessionNotFound`."""
        number = loaded.get(NAME, (self.scope, checked_name(self.name)))
        session = None if number is None else loaded.get(SESSION, number)
        if session is None:
            raise SessionNotFound(f"({self.name!r})", session_id=self.name)
        return Changes(), _shown(session)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSessions(Story[tuple[list[SessionState], tuple[str, int] | None]]):
    """A page of a scope's sessions by name."""

    scope: str
    after: tuple[str, int]
    limit: int

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[list[SessionState], tuple[str, int] | None]]:
        """The second answer is where the next page begins."""
        rows = loaded.page(Page(SESSIONS, (self.scope, *self.after, self.limit + 1)))
        last = rows[self.limit - 1] if len(rows) > self.limit else None
        following = None if last is None else (last.name, last.id)
        return Changes(), ([_shown(row) for row in rows[: self.limit]], following)


def _rooms(loaded: Loaded, session: int, limit: int) -> list[int]:
    """Up to `limit` conversations a session is still in, as member or by a binding."""
    rooms = [row[0] for row in loaded.page(Page(MEMBERSHIPS_OF, (session, -1, limit)))]
    bound = [row.id for row in loaded.page(Page(BOUND_TO, (session, -1, limit)))]
    return sorted(set(rooms) | set(bound))[:limit]


def _gather(loaded: Loaded, rooms: list[int], *sessions: int) -> None:
    """Load what moving or ending these rooms needs, in a round per kind of row."""
    take_all(loaded, rooms)
    keys = [(room, session) for room in rooms for session in sessions]
    members = fetch(loaded, MEMBER, keys, hold=True)
    seats = [
        (member.conversation, fold(handle))
        for member in members
        if member is not None
        for handle in member.handles
    ]
    fetch(loaded, PARTICIPANT, seats)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassign(Story[tuple[int, int, bool]]):
    """All of the old session's is the new one's from this commit on."""

    scope: str
    old: str
    new: str

    def needs(self) -> Needs:
        """Both names."""
        return Needs(rows=[(NAME, (self.scope, self.old)), (NAME, (self.scope, self.new))])

    def more(self, loaded: Loaded) -> Needs:
        """The first rooms, then both sessions, locked."""
        names = fetch(loaded, NAME, [(self.scope, name) for name in (self.old, self.new)])
        numbers = [number for number in names if number is not None]
        if names[0] is not None:
            _gather(loaded, _rooms(loaded, names[0], AT_ONCE), *numbers)
        return Needs(hold=[(SESSION, number) for number in numbers])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, tuple[int, int, bool]]:
        """Sets the successor, then moves the first rooms; answers whether more are left."""
        draft = Draft(loaded)
        was = draft.get(NAME, (self.scope, checked_name(self.old)))
        becomes = draft.get(NAME, (self.scope, checked_name(self.new)))
        before = None if was is None else draft.get(SESSION, was)
        if was is None or before is None or becomes is None or before.successor != becomes:
            was, becomes = self._succeed(draft, becomes, now)
        rooms = _rooms(draft, was, AT_ONCE)
        _gather(draft, rooms, was, becomes)
        for room in rooms:
            move(draft, room, was, becomes, now)
        return draft.changes, (was, becomes, len(rooms) == AT_ONCE)

    def _succeed(self, draft: Draft, number: int | None, now: datetime) -> tuple[int, int]:
        """Set the successor. Where that was done and then cut short, only rooms are left."""
        old = session_named(draft, self.scope, self.old)
        new = None if number is None else draft.get(SESSION, number)
        if new is None or new.retired_at is not None:
            new = Session(id=draft.fresh(), scope_id=self.scope, name=self.new, created_at=now)
            draft.put(NAME, (self.scope, self.new), new.id)
        if new.id == old.id:
            raise InvalidInput("old and new are the same session.", session_id=self.old)
        inherited = (*new.predecessors, old.id, *old.predecessors)
        draft.put(SESSION, new.id, replace(new, predecessors=inherited))
        draft.put(SESSION, old.id, replace(old, retired_at=now, successor=new.id))
        for key in draft.page(Page(ROUTES_OF, (old.id,))):
            draft.put(ROUTE, (key[0], key[1], key[2]), new.id)
        draft.changes.sessions |= {old.id, new.id}
        return old.id, new.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Story[bool]):
    """Move a chunk of a session's rooms to its successor; answers whether more are left."""

    old: int
    new: int

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, bool]:
        """One transaction per chunk; safe to run twice."""
        draft = Draft(loaded)
        rooms = _rooms(draft, self.old, AT_ONCE)
        _gather(draft, rooms, self.old, self.new)
        for room in rooms:
            move(draft, room, self.old, self.new, now)
        return draft.changes, len(rooms) == AT_ONCE


def move(draft: Draft, room: int, old: int, new: int, now: datetime) -> None:
    """Move one conversation's membership, handles and binding from one session to another.

    Where both are present: handles and binding are kept, grants united, the cursor is the
    maximum, the stint the earlier one.
    """
    conversation = draft.taken(room)
    if conversation is None:
        return
    about = conversation.about
    if about.binding is not None and about.binding.session == old:
        moved = replace(about, binding=replace(about.binding, session=new), roster=about.roster + 1)
        conversation = replace(conversation, about=moved)
        draft.save(conversation)
    theirs = draft.get(MEMBER, (room, old))
    if theirs is None or theirs.closed_at is not None:
        return
    if not visibility.is_active(theirs, now):
        unseat(draft, conversation, membership.leave(theirs, now))
        return
    mine = draft.get(MEMBER, (room, new))
    for handle in theirs.handles:
        seat = draft.get(PARTICIPANT, (room, fold(handle)))
        if seat is not None:
            for name in (seat.handle, *seat.aliases):
                draft.put(PARTICIPANT, (room, fold(name)), replace(seat, session=new))
    if theirs.handles:
        about = replace(conversation.about, roster=conversation.about.roster + 1)
        conversation = replace(conversation, about=about)
        draft.save(conversation)
    conversation, _ = unseat(draft, conversation, united(theirs, mine, conversation, new, now))
    unseat(draft, conversation, membership.leave(theirs, now))


def united(
    theirs: Membership,
    mine: Membership | None,
    conversation: Conversation,
    session: int,
    now: datetime,
) -> Membership:
    """One membership out of two. A cursor and an override outlive leaving."""
    if mine is None:
        return replace(theirs, session=session)
    read = [one.last_read for one in (theirs, mine) if one.last_read is not None]
    if not visibility.is_active(mine, now):
        return replace(
            theirs,
            session=session,
            last_read=max(read) if read else None,
            override=mine.override or theirs.override,
            metadata={**theirs.metadata, **mine.metadata},
        )
    grants: dict[Reason, Grant] = dict(visibility.valid_grants(mine, now))
    for by, grant in visibility.valid_grants(theirs, now).items():
        held = grants.get(by)
        if held is None or visibility.breadth(
            grant.policy, theirs, conversation
        ) < visibility.breadth(held.policy, mine, conversation):
            grants[by] = grant
    first = min((theirs, mine), key=lambda it: (it.joined_sequence, it.gate is not None))
    return replace(
        mine,
        grants=grants,
        last_read=max(read) if read else None,
        joined_at=min(theirs.joined_at, mine.joined_at),
        joined_sequence=first.joined_sequence,
        gate=first.gate,
        handles=tuple(dict.fromkeys((*mine.handles, *theirs.handles))),
        override=mine.override or theirs.override,
        metadata={**theirs.metadata, **mine.metadata},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire(Story[SessionState]):
    """From this commit on nothing is delivered to the session."""

    scope: str
    name: str

    def needs(self) -> Needs:
        """The name."""
        return Needs(rows=[(NAME, (self.scope, self.name))])

    def more(self, loaded: Loaded) -> Needs:
        """The session, locked."""
        number = loaded.get(NAME, (self.scope, self.name))
        return Needs() if number is None else Needs(hold=[(SESSION, number)])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, SessionState]:
        """The name stays taken until it is created anew; default routes end."""
        draft = Draft(loaded)
        session = session_named(draft, self.scope, self.name)
        retired = replace(session, retired_at=now)
        draft.put(SESSION, session.id, retired)
        for key in draft.page(Page(ROUTES_OF, (session.id,))):
            draft.put(ROUTE, (key[0], key[1], key[2]), None)
        draft.changes.sessions.add(session.id)
        return draft.changes, _shown(retired)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evacuate(Story[bool]):
    """End a chunk of a retired session's rooms; answers whether more are left."""

    session: int

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, bool]:
        """Handles, bindings and memberships go in one transaction per chunk."""
        draft = Draft(loaded)
        rooms = _rooms(draft, self.session, AT_ONCE)
        _gather(draft, rooms, self.session)
        for room in rooms:
            conversation = draft.taken(room)
            if conversation is None:
                continue
            conversation = drop_binding(draft, conversation, self.session)
            member = draft.get(MEMBER, (room, self.session))
            if member is not None and member.closed_at is None:
                conversation, member = drop_handles(draft, conversation, member)
                unseat(draft, conversation, membership.leave(member, now))
        return draft.changes, len(rooms) == AT_ONCE


class Sessions:
    """Agents' seats."""

    def __init__(self, store: Store, limits: Limits = LIMITS) -> None:
        self._store = store
        self._limits = limits

    async def create(
        self,
        name: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        caller: Caller = CONTROLLER,
    ) -> SessionState:
        """Create a session, or find the one of this name. A retired name is begun anew."""
        authority.may_control(caller)
        data = admission.metadata(metadata or {}, self._limits)
        scope = authority.scope_of(caller)
        return await self._store.run(Create(scope=scope, name=name, metadata=data))

    async def show(self, name: str, *, caller: Caller = CONTROLLER) -> SessionState:
        """One session. Raises `SessionNotFound`."""
        authority.may_read(caller, name)
        scope = authority.scope_of(caller)
        return await self._store.read(ReadSession(scope=scope, name=name))

    async def page(
        self,
        *,
        after: tuple[str, int] = ("", 0),
        limit: int | None = None,
        caller: Caller = CONTROLLER,
    ) -> tuple[list[SessionState], tuple[str, int] | None]:
        """A page of sessions by name, and what to pass as `after` for the next one."""
        authority.may_control(caller)
        scope = authority.scope_of(caller)
        size = clamp(limit, self._limits)
        return await self._store.read(ReadSessions(scope=scope, after=after, limit=size))

    async def alias(
        self, name: str, alias: str, *, remove: bool = False, caller: Caller = CONTROLLER
    ) -> SessionState:
        """Give the session a further name, or take it away."""
        authority.may_control(caller)
        scope = authority.scope_of(caller)
        story = Alias(scope=scope, name=name, alias=alias, remove=remove)
        return await self._store.run(story)

    async def reassign(self, old: str, new: str, *, caller: Caller = CONTROLLER) -> SessionState:
        """Bindings, handles, memberships, backlog and cursors of `old` become `new`'s, at once.

        `old` is retired with `new` as its successor; `new` is created where it is unknown. Safe to
        run again where it was cut short.
        """
        authority.may_control(caller)
        scope = authority.scope_of(caller)
        was, becomes, more = await self._store.run(Reassign(scope=scope, old=old, new=new))
        while more:
            more = await self._store.run(Move(old=was, new=becomes))
        return await self._store.read(ReadSession(scope=scope, name=new))

    async def retire(self, name: str, *, caller: Caller = CONTROLLER) -> SessionState:
        """End everything of a session; its records keep its name. Safe to run twice."""
        authority.may_control(caller)
        scope = authority.scope_of(caller)
        try:
            state = await self._store.run(Retire(scope=scope, name=name))
        except SessionRetired:
            state = await self._store.read(ReadSession(scope=scope, name=name))
        number = await self._store.read(ReadNumber(scope=scope, name=name))
        while await self._store.run(Evacuate(session=number)):
            pass
        return state


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadNumber(Story[int]):
    """The surrogate id behind a name."""

    scope: str
    name: str

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, int]:
        """Raises `SessionNotFound`."""
        number = loaded.get(NAME, (self.scope, self.name))
        if number is None:
            raise SessionNotFound(f"({self.name!r})", session_id=self.name)
        return Changes(), number
