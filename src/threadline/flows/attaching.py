"""Attaching: one at a time runs a session's agent, and each run is written down before it starts.

The lease keeps two machines from running the same agent. It does not have to keep them from saying
something twice: a reply is said under the key of its run, and a key says things once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from threadline.core import attaching
from threadline.core.attaching import LEASE_SECONDS, MAX_SECONDS, MIN_SECONDS, Lease, Run
from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput
from threadline.core.ids import public
from threadline.core.model import CONTROLLER, Caller, ConversationRef, Session
from threadline.core.ports import (
    INTENT,
    LEASE,
    NAME,
    RUN,
    SESSION,
    Changes,
    Loaded,
    Needs,
    Store,
    Story,
)
from threadline.core.rules import authority, visibility
from threadline.core.rules.authority import Where
from threadline.core.seating import numbers_of, session_named
from threadline.flows.looking import found, member_of, peeking, where_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
    """Who runs a session's agent. `fence` is what the holder shows with everything it does."""

    session_id: str
    name: str
    fence: int
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """A run that may start now, with the records it is about.

    `key` is what its reply is said under. `delivery` is the reply's, where it was said already:
    then nothing is to be run, and the records up to `last` are to be acknowledged. `starts` counts
    how often it was begun, `failures` how often the agent failed in it.
    """

    conversation: str
    first: int
    last: int
    key: str
    delivery: str | None
    starts: int
    failures: int


def _state(lease: Lease, session: Session) -> LeaseState:
    return LeaseState(
        session_id=session.name,
        name=lease.name,
        fence=lease.fence,
        expires_at=lease.expires_at,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfSession:
    """A story about one session, whose row is locked: the lease changes hands under it."""

    session: str
    scope: str

    def needs(self) -> Needs:
        """The session's name."""
        return Needs(rows=[(NAME, (self.scope, self.session))])

    def more(self, loaded: Loaded) -> Needs:
        """The session, locked."""
        number = loaded.get(NAME, (self.scope, self.session))
        return Needs() if number is None else Needs(hold=[(SESSION, number)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach(_OfSession, Story[LeaseState]):
    """Take the lease, or with `fence` keep it."""

    holder: str
    name: str
    seconds: float
    fence: int | None = None

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, LeaseState]:
        """See `core.attaching`."""
        draft = Draft(loaded)
        session = session_named(draft, self.scope, self.session)
        lease = draft.get(LEASE, session.id)
        if self.fence is not None:
            lease = attaching.renew(lease, self.fence, self.seconds, now)
        else:
            lease = attaching.take(lease, session.id, self.holder, self.name, self.seconds, now)
        draft.put(LEASE, session.id, lease)
        return draft.changes, _state(lease, session)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detach(_OfSession, Story[LeaseState]):
    """Give the lease back: it ends now, and its fence stays where it is."""

    fence: int

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, LeaseState]:
        """A second time changes nothing."""
        draft = Draft(loaded)
        session = session_named(draft, self.scope, self.session)
        lease = attaching.held(draft.get(LEASE, session.id), self.fence)
        lease = replace(lease, expires_at=min(lease.expires_at, now))
        draft.put(LEASE, session.id, lease)
        return draft.changes, _state(lease, session)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLease(Story[LeaseState | None]):
    """Who holds the lease now, None where nobody does."""

    session: str
    scope: str

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, LeaseState | None]:
        """One that ran out is nobody's."""
        draft = Draft(loaded)
        session = session_named(draft, self.scope, self.session)
        lease = draft.get(LEASE, session.id)
        gone = lease is None or lease.expires_at <= now
        return Changes(), None if gone or lease is None else _state(lease, session)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin(_OfSession, Story[RunState]):
    """Write a run down before it starts; an open one is begun again with its own records."""

    where: Where
    caller: Caller
    fence: int
    first: int
    last: int
    failures: int

    def needs(self) -> Needs:
        """The conversation, only read, and the session's name."""
        return peeking(self.where, (self.scope, self.session))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, RunState]:
        """Whether it was answered is read from what its key stands for."""
        draft = Draft(loaded)
        conversation = found(loaded, self.where, self.caller)
        session, member = member_of(draft, conversation, self.session, now, caller=self.caller)
        attaching.held(draft.get(LEASE, session.id), self.fence)
        run = attaching.begin(
            draft.get(RUN, (conversation.id, session.id)),
            Run(
                conversation=conversation.id,
                session=session.id,
                first=self.first,
                last=self.last,
                began_at=now,
                failures=self.failures,
            ),
            cursor=visibility.cursor(member, conversation, now),
            head=conversation.head,
            failures=self.failures,
        )
        draft.put(RUN, (conversation.id, session.id), run)
        key = attaching.key_of(public(conversation.id), run.first)
        return draft.changes, RunState(
            conversation=public(conversation.id),
            first=run.first,
            last=run.last,
            key=key,
            delivery=_said(draft, session, key),
            starts=run.starts,
            failures=run.failures,
        )


def _said(draft: Draft, session: Session, key: str) -> str | None:
    """The delivery that stands under a key, whoever of the session's line said it."""
    for number in numbers_of(session):
        intent = draft.get(INTENT, (number, draft.id_key("key", key)))
        if intent is not None:
            return f"{public(intent.conversation)}.{public(intent.delivery)}"
    return None


class Attaching:
    """Who runs a session's agent, and what it was started for."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def attach(
        self,
        session: str,
        *,
        holder: str,
        name: str,
        seconds: float = LEASE_SECONDS,
        fence: int | None = None,
        caller: Caller = CONTROLLER,
    ) -> LeaseState:
        """Become the one who runs the session's agent, for `seconds` (5 to 3,600).

        `holder` is a secret word of the caller's: whoever shows it again after a crash gets the
        lease at once. `name` is what others are told. With the `fence` of an earlier answer the
        lease is kept for longer. Raises `AlreadyAttached` with who holds it and until when,
        `AttachmentLost` for a fence that is not the newest, `SessionNotFound`.
        """
        authority.may_read(caller, session)
        authority.unbound(caller)
        if not MIN_SECONDS <= seconds <= MAX_SECONDS:
            raise InvalidInput(
                f"a lease is {MIN_SECONDS:.0f} to {MAX_SECONDS:.0f} seconds.", field="seconds"
            )
        return await self._store.run(
            Attach(
                session=session,
                scope=authority.scope_of(caller),
                holder=attaching.checked_word(holder, "holder"),
                name=attaching.checked_word(name, "name"),
                seconds=seconds,
                fence=fence,
            )
        )

    async def detach(self, session: str, fence: int, *, caller: Caller = CONTROLLER) -> LeaseState:
        """Give the lease back. Raises `AttachmentLost` for a fence that is not the newest."""
        authority.may_read(caller, session)
        authority.unbound(caller)
        scope = authority.scope_of(caller)
        return await self._store.run(Detach(session=session, scope=scope, fence=fence))

    async def show(self, session: str, *, caller: Caller = CONTROLLER) -> LeaseState | None:
        """Who runs the session's agent now, None where nobody does."""
        authority.may_read(caller, session)
        authority.unbound(caller)
        scope = authority.scope_of(caller)
        return await self._store.read(ReadLease(session=session, scope=scope))

    async def begin(
        self,
        session: str,
        where: ConversationRef | str,
        *,
        fence: int,
        first: int,
        last: int,
        failures: int = 0,
        caller: Caller = CONTROLLER,
    ) -> RunState:
        """Write a run about the unread records `first` to `last` down, before it starts.

        While an earlier run of the conversation is open, which it is until its records are
        acknowledged, the answer is that run. `failures` is how often the agent failed in it so
        far. Raises `AttachmentLost`, `InvalidInput`, `MembershipNotFound`, `NotFound`.
        """
        authority.may_read(caller, session)
        authority.unbound(caller)
        return await self._store.run(
            Begin(
                session=session,
                scope=authority.scope_of(caller),
                where=where_of(where),
                caller=caller,
                fence=fence,
                first=first,
                last=last,
                failures=failures,
            )
        )
