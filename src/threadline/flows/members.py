"""Membership: who reads. Join, leave, evict, override, and the lists of both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from threadline.core.auditing import audit, named
from threadline.core.draft import Draft
from threadline.core.errors import MembershipNotFound, NotFound
from threadline.core.ids import public
from threadline.core.lanes import cancel_pending
from threadline.core.model import (
    CONTROLLER,
    BackfillPolicy,
    Caller,
    Controller,
    Conversation,
    ConversationRef,
    Membership,
    Policy,
    Reason,
    Session,
    SessionCaller,
)
from threadline.core.ports import (
    CONVERSATION,
    MEMBER,
    MEMBERS_OF,
    MEMBERSHIPS_OF,
    SESSION,
    Changes,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
    fetch,
)
from threadline.core.rules import admission, authority, membership, visibility
from threadline.core.rules.authority import Where
from threadline.core.rules.binding import KEEP, Keep
from threadline.core.rules.limits import LIMITS, Limits, clamp
from threadline.core.seating import ensure_session, seat, session_named, unseat
from threadline.core.unseating import drop_binding, drop_handles
from threadline.flows.looking import (
    found,
    member_of,
    membership_rows,
    peeking,
    taking,
    where_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A membership as it is shown: computed values beside the stored ones."""

    conversation: str
    ref: ConversationRef
    session_id: str
    policy: Policy
    override: Policy | None
    grants: dict[str, Policy]
    handles: tuple[str, ...]
    joined_at: datetime
    joined_sequence: int
    last_read: int | None
    cursor: int
    visible_from: int
    head: int
    active: bool
    metadata: Mapping[str, Any] = field(default_factory=dict)


def shown(member: Membership, conversation: Conversation, name: str, now: datetime) -> Member:
    """What a caller sees of a membership at this instant."""
    return Member(
        conversation=public(conversation.id),
        ref=conversation.ref,
        session_id=name,
        policy=visibility.effective(member, conversation, now),
        override=member.override,
        grants={by.value: one.policy for by, one in visibility.valid_grants(member, now).items()},
        handles=member.handles,
        joined_at=member.joined_at,
        joined_sequence=member.joined_sequence,
        last_read=member.last_read,
        cursor=visibility.cursor(member, conversation, now),
        visible_from=visibility.visible_from(member, conversation, now),
        head=conversation.head,
        active=visibility.is_active(member, now),
        metadata=member.metadata,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _About(Story[Member]):
    """A story about one session in one conversation."""

    where: Where
    session: str
    scope: str
    caller: Caller

    def needs(self) -> Needs:
        """The conversation, locked, and the session's name."""
        return taking(self.where, (self.scope, self.session))

    def more(self, loaded: Loaded) -> Needs:
        """The membership, locked."""
        return membership_rows(loaded, self.where, self.session)


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(_About):
    """Grant membership by hand; idempotent."""

    policy: Policy
    reason: Reason = Reason.MANUAL
    metadata: Mapping[str, Any] | None = None

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Member]:
        """See `rules.membership.join`."""
        draft = Draft(loaded)
        conversation = found(draft, self.where, self.caller, take=True)
        session = ensure_session(draft, conversation.ref.scope_id, self.session, now)
        conversation, member = seat(
            draft, conversation, session.id, by=self.reason, policy=self.policy, now=now
        )
        if self.metadata:
            data = membership.merged(member.metadata, self.metadata)
            conversation, member = unseat(draft, conversation, replace(member, metadata=data))
        return draft.changes, shown(member, conversation, session.name, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(_About):
    """Take one reason away, or with `evict` all of them for good."""

    reason: Reason | None = None
    evict: bool = False

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Member]:
        """`group` takes the handles with it, `binding` the binding; eviction both."""
        draft = Draft(loaded)
        conversation = found(draft, self.where, self.caller, take=True)
        session = session_named(draft, conversation.ref.scope_id, self.session)
        member = draft.get(MEMBER, (conversation.id, session.id))
        if member is None and isinstance(self.caller, SessionCaller):
            raise NotFound("there is no such conversation.")
        if member is None or (member.closed_at is not None and not self.evict):
            raise MembershipNotFound(f"({self.session!r} in {conversation.ref})")
        if self.evict or self.reason in (None, Reason.GROUP):
            conversation, member = drop_handles(draft, conversation, member)
        if self.evict or self.reason in (None, Reason.BINDING):
            conversation = drop_binding(draft, conversation, session.id)
        if self.evict:
            after = membership.evict(member, now)
        elif self.reason is None:
            after = membership.leave(member, now)
        else:
            after = membership.revoke(member, self.reason, now)
        conversation, after = unseat(draft, conversation, after)
        if self.evict:
            numbers = (session.id, *session.predecessors)
            why = f"{session.name!r} was removed."
            cancel_pending(draft, conversation, numbers, why, now, LIMITS)
            audit(
                draft,
                conversation.ref.scope_id,
                named(self.caller),
                "member.evicted",
                now,
                subject=f"session {session.name}",
                conversation=public(conversation.id),
            )
        return draft.changes, shown(after, conversation, session.name, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(_About):
    """Set or clear the override, and merge metadata."""

    override: Policy | Keep | None = KEEP
    metadata: Mapping[str, Any] | None = None

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Member]:
        """Only this clears an override."""
        draft = Draft(loaded)
        conversation = found(draft, self.where, self.caller, take=True)
        session, member = member_of(draft, conversation, self.session, now, caller=self.caller)
        after = member
        if not isinstance(self.override, Keep):
            after = replace(after, override=self.override)
        if self.metadata:
            after = replace(after, metadata=membership.merged(after.metadata, self.metadata))
        if after != member:
            draft.put(MEMBER, (conversation.id, member.session), after)
            draft.changes.sessions.add(member.session)
        return draft.changes, shown(after, conversation, session.name, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMember(_About):
    """Show one membership."""

    def needs(self) -> Needs:
        """The conversation, only read, and the session's name."""
        return peeking(self.where, (self.scope, self.session))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Member]:
        """Raises `MembershipNotFound` where there is none."""
        draft = Draft(loaded)
        conversation = found(loaded, self.where, self.caller)
        session, member = member_of(draft, conversation, self.session, now, caller=self.caller)
        return Changes(), shown(member, conversation, session.name, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMembers(Story[tuple[list[Member], int | None]]):
    """A page of a conversation's members."""

    where: Where
    caller: Caller
    after: int
    limit: int

    def needs(self) -> Needs:
        """The conversation."""
        return peeking(self.where)

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[list[Member], int | None]]:
        """Ordered by surrogate id; the second answer is where the next page begins."""
        conversation = found(loaded, self.where, self.caller)
        page = Page(MEMBERS_OF, (conversation.id, self.after, self.limit + 1))
        rows = loaded.page(page)
        members = []
        sessions = fetch(loaded, SESSION, [member.session for member in rows[: self.limit]])
        for member, session in zip(rows, sessions, strict=False):
            if session is not None and visibility.is_active(member, now):
                members.append(shown(member, conversation, session.name, now))
        following = rows[self.limit - 1].session if len(rows) > self.limit else None
        return Changes(), (members, following)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOwn(Story[tuple[list[Member], int | None]]):
    """A page of the conversations a session is a member of."""

    session: str
    scope: str
    caller: Caller
    after: int
    limit: int

    def needs(self) -> Needs:
        """The session's name."""
        return Needs(rows=[])

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[list[Member], int | None]]:
        """Gated conversations are left out, as on every path of a session."""
        session: Session = session_named(Draft(loaded), self.scope, self.session)
        rows: list[tuple[int, int, int | None]] = []
        for number in (session.id, *session.predecessors):
            rows += loaded.page(Page(MEMBERSHIPS_OF, (number, self.after, self.limit + 1)))
        rows.sort()
        result = []
        numbers = [row[0] for row in rows[: self.limit]]
        conversations = fetch(loaded, CONVERSATION, numbers)
        owners = (session.id, *session.predecessors)
        fetch(loaded, MEMBER, [(number, owner) for number in numbers for owner in owners])
        for number, conversation in zip(numbers, conversations, strict=True):
            member = None
            for owner in owners:
                member = member or loaded.get(MEMBER, (number, owner))
            if conversation is None or not visibility.is_active(member, now) or member is None:
                continue
            if not isinstance(self.caller, Controller) and membership.gate_of(
                conversation.about.window
            ):
                continue
            result.append(shown(member, conversation, session.name, now))
        following = rows[self.limit - 1][0] if len(rows) > self.limit else None
        return Changes(), (result, following)


class Members:
    """Who reads a conversation."""

    def __init__(self, store: Store, limits: Limits = LIMITS) -> None:
        self._store = store
        self._limits = limits

    async def join(
        self,
        where: ConversationRef | str,
        session: str,
        *,
        policy: BackfillPolicy | str = BackfillPolicy.ALL,
        n: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        caller: Caller = CONTROLLER,
    ) -> Member:
        """Make a session a member; an unknown session is created. Joining again changes nothing.

        `policy` is `all`, `since_join`, or `last_n` with `n` records.
        """
        authority.may_control(caller)
        return await self._store.run(
            Join(
                where=where_of(where),
                session=session,
                scope=authority.scope_of(caller),
                caller=caller,
                policy=Policy.of(policy, n),
                metadata=admission.metadata(metadata or {}, self._limits),
            )
        )

    async def leave(
        self,
        where: ConversationRef | str,
        session: str,
        *,
        reason: Reason | str | None = None,
        evict: bool = False,
        caller: Caller = CONTROLLER,
    ) -> Member:
        """Take a reason away, all of them, or evict. Raises `MembershipNotFound`."""
        if reason is not None or evict:
            authority.may_control(caller)
        else:
            authority.may_read(caller, session)
        return await self._store.run(
            Leave(
                where=where_of(where),
                session=session,
                scope=authority.scope_of(caller),
                caller=caller,
                reason=None if reason is None else Reason.of(reason),
                evict=evict,
            )
        )

    async def update(
        self,
        where: ConversationRef | str,
        session: str,
        *,
        override: BackfillPolicy | str | Keep | None = KEEP,
        n: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        caller: Caller = CONTROLLER,
    ) -> Member:
        """Set the override, or clear it with None; left out it stays."""
        authority.may_control(caller)
        chosen = override
        if isinstance(override, str):
            chosen_policy: Policy | Keep | None = Policy.of(override, n)
        else:
            chosen_policy = chosen if isinstance(chosen, Keep) else None
        return await self._store.run(
            Update(
                where=where_of(where),
                session=session,
                scope=authority.scope_of(caller),
                caller=caller,
                override=chosen_policy,
                metadata=admission.metadata(metadata or {}, self._limits),
            )
        )

    async def show(
        self, where: ConversationRef | str, session: str, *, caller: Caller = CONTROLLER
    ) -> Member:
        """One membership. Raises `MembershipNotFound`."""
        authority.may_read(caller, session)
        scope = authority.scope_of(caller)
        return await self._store.read(
            ReadMember(where=where_of(where), session=session, scope=scope, caller=caller)
        )

    async def of(
        self,
        where: ConversationRef | str,
        *,
        after: int = -1,
        limit: int | None = None,
        caller: Caller = CONTROLLER,
    ) -> tuple[list[Member], int | None]:
        """A page of members, and what to pass as `after` for the next one (None: no more)."""
        authority.may_control(caller)
        size = clamp(limit, self._limits)
        return await self._store.read(
            ReadMembers(where=where_of(where), caller=caller, after=after, limit=size)
        )

    async def conversations_of(
        self,
        session: str,
        *,
        after: int = -1,
        limit: int | None = None,
        caller: Caller = CONTROLLER,
    ) -> tuple[list[Member], int | None]:
        """A page of a session's conversations with its cursor in each."""
        authority.may_read(caller, session)
        authority.unbound(caller)
        return await self._store.read(
            ReadOwn(
                session=session,
                scope=authority.scope_of(caller),
                caller=caller,
                after=after,
                limit=clamp(limit, self._limits),
            )
        )
