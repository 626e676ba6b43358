"""Who speaks: bindings, groups, participants, default routes. Never who reads.

A binding and its membership, a handle and its membership are written in one transaction, so
neither ever exists without the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from threadline.core.draft import Draft
from threadline.core.errors import HandleConflict, InvalidInput, NotFound
from threadline.core.ids import public
from threadline.core.model import (
    ALL,
    CONTROLLER,
    SINCE_JOIN,
    BackfillPolicy,
    Binding,
    Caller,
    Conversation,
    ConversationRef,
    FanOut,
    Group,
    GroupMode,
    Membership,
    Participant,
    Policy,
    Reason,
)
from threadline.core.ports import (
    BOUND_TO,
    MEMBER,
    NAME,
    PARTICIPANT,
    PARTICIPANTS_OF,
    ROUTE,
    SESSION,
    Changes,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
    fetch,
)
from threadline.core.rules import admission, authority, binding, membership, visibility
from threadline.core.rules.authority import Where
from threadline.core.rules.binding import KEEP, Keep
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.rules.speaking import checked_handle, fold
from threadline.core.seating import ensure_session, seat, session_named, unseat
from threadline.core.unseating import drop_handle, end_grant
from threadline.flows.looking import found, membership_rows, peeking, taking, where_of

MAX_ALIASES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A binding as it is shown."""

    conversation: str
    ref: ConversationRef
    session_id: str
    generation: int
    expires_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def _shown(conversation: Conversation, bound: Binding, name: str) -> Bound:
    return Bound(
        conversation=public(conversation.id),
        ref=conversation.ref,
        session_id=name,
        generation=bound.generation,
        expires_at=bound.expires_at,
        metadata=bound.metadata,
    )


def _name(draft: Draft, session: int) -> str:
    found_session = draft.get(SESSION, session)
    return found_session.name if found_session is not None else public(session)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind(Story[Bound]):
    """Bind a conversation to a session and grant it membership (E6)."""

    where: Where
    session: str
    scope: str
    caller: Caller
    policy: Policy | None = None
    expires_at: datetime | Keep | None = KEEP
    metadata: Mapping[str, Any] | None = None

    def needs(self) -> Needs:
        """The conversation, locked, and the session's name."""
        return taking(self.where, (self.scope, self.session))

    def more(self, loaded: Loaded) -> Needs:
        """The membership, locked."""
        return membership_rows(loaded, self.where, self.session)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Bound]:
        """Raises `BindingConflict` where another session holds it."""
        draft = Draft(loaded)
        conversation = found(draft, self.where, self.caller, take=True)
        scope = conversation.ref.scope_id
        session = ensure_session(draft, scope, self.session, now, caller=self.caller)
        old = conversation.about.binding
        about = binding.bind(
            conversation.about,
            session.id,
            holder="" if old is None else _name(draft, old.session),
            expires_at=self.expires_at,
            now=now,
            metadata=self.metadata,
        )
        if old is not None and old.session != session.id:
            conversation = end_grant(draft, conversation, old.session, now)
        bound = about.binding
        assert bound is not None
        about = replace(
            conversation.about,
            binding=bound,
            generation=about.generation,
            roster=conversation.about.roster + (old is None or old.session != session.id),
        )
        conversation = replace(conversation, about=about)
        member = draft.get(MEMBER, (conversation.id, session.id))
        valid = {} if member is None else visibility.valid_grants(member, now)
        granted = valid.get(Reason.BINDING)
        policy = self.policy or (granted.policy if granted is not None else SINCE_JOIN)
        draft.save(conversation)
        conversation, _ = seat(
            draft,
            conversation,
            session.id,
            by=Reason.BINDING,
            policy=policy,
            now=now,
            expires_at=bound.expires_at,
            replace_grant=True,
        )
        return draft.changes, _shown(conversation, bound, session.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbind(Story[Bound | None]):
    """End a binding and the membership it granted; None where there was none."""

    where: Where
    caller: Caller
    session: int | None = None

    def needs(self) -> Needs:
        """The conversation, locked."""
        return taking(self.where)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Bound | None]:
        """Membership that other reasons grant stays (E4)."""
        draft = Draft(loaded)
        conversation = found(draft, self.where, self.caller, take=True)
        bound = conversation.about.binding
        if bound is None or self.session not in (None, bound.session):
            return draft.changes, None
        about = conversation.about
        ended = replace(binding.unbind(about), roster=about.roster + 1)
        conversation = replace(conversation, about=ended)
        draft.save(conversation)
        conversation = end_grant(draft, conversation, bound.session, now)
        if binding.current(about, now) is None:
            return draft.changes, None
        return draft.changes, _shown(conversation, bound, _name(draft, bound.session))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBinding(Story[Bound | None]):
    """The binding that holds now."""

    where: Where
    caller: Caller

    def needs(self) -> Needs:
        """The conversation."""
        return peeking(self.where)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Bound | None]:
        """An expired binding is a miss (E3)."""
        conversation = found(loaded, self.where, self.caller)
        bound = binding.current(conversation.about, now)
        if bound is None:
            return Changes(), None
        return Changes(), _shown(conversation, bound, _name(Draft(loaded), bound.session))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBound(Story[tuple[int, list[tuple[int, ConversationRef]]]]):
    """A page of the conversations bound to a session."""

    session: str
    scope: str
    after: int
    limit: int = 500

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[int, list[tuple[int, ConversationRef]]]]:
        """The session's id, and ids with refs."""
        session = session_named(Draft(loaded), self.scope, self.session)
        rows = loaded.page(Page(BOUND_TO, (session.id, self.after, self.limit)))
        return Changes(), (session.id, [(row.id, row.ref) for row in rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A group as it is shown, with its participants."""

    conversation: str
    ref: ConversationRef
    mode: GroupMode
    default_handle: str | None
    last_addressed_handle: str | None
    fan_out: FanOut
    metadata: Mapping[str, Any]
    participants: list[Seat] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A participant as it is shown."""

    handle: str
    session_id: str
    public: bool
    aliases: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsureGroup(Story[GroupState]):
    """Make or change a group; what is left out stays as it was (F2)."""

    where: Where
    caller: Caller
    mode: GroupMode | None = None
    default_handle: str | Keep | None = KEEP
    last_addressed_handle: str | Keep | None = KEEP
    fan_out: FanOut | None = None
    metadata: Mapping[str, Any] | None = None

    def needs(self) -> Needs:
        """The conversation, locked."""
        return taking(self.where)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, GroupState]:
        """A cursor must name a participant; a default may be named before it sits down."""
        draft = Draft(loaded)
        conversation = found(draft, self.where, self.caller, take=True)
        group = conversation.about.group or Group()
        group = replace(
            group,
            mode=self.mode or group.mode,
            fan_out=self.fan_out or group.fan_out,
            metadata=membership.merged(group.metadata, self.metadata),
        )
        if not isinstance(self.default_handle, Keep):
            default = self.default_handle
            shown = None if default is None else checked_handle(default)
            group = replace(group, default_handle=shown)
        about = replace(conversation.about, group=group)
        if not isinstance(self.last_addressed_handle, Keep):
            asked = self.last_addressed_handle
            last = None if asked is None else fold(checked_handle(asked))
            if last is not None and draft.get(PARTICIPANT, (conversation.id, last)) is None:
                raise InvalidInput(f"{self.last_addressed_handle!r} is no participant here.")
            about = replace(about, last_addressed_handle=last)
        conversation = replace(conversation, about=about)
        draft.save(conversation)
        return draft.changes, _group(conversation, group, [])


def _group(conversation: Conversation, group: Group, seats: list[Seat]) -> GroupState:
    return GroupState(
        conversation=public(conversation.id),
        ref=conversation.ref,
        mode=group.mode,
        default_handle=group.default_handle,
        last_addressed_handle=conversation.about.last_addressed_handle,
        fan_out=group.fan_out,
        metadata=group.metadata,
        participants=seats,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGroup(Story[GroupState]):
    """The group and up to 500 of its participants."""

    where: Where
    caller: Caller

    def needs(self) -> Needs:
        """The conversation."""
        return peeking(self.where)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, GroupState]:
        """Raises `NotFound` where the conversation has no group."""
        draft = Draft(loaded)
        conversation = found(loaded, self.where, self.caller)
        group = conversation.about.group
        if group is None:
            raise NotFound(f"{conversation.ref} has no group.")
        rows = loaded.page(Page(PARTICIPANTS_OF, (conversation.id, "", 500)))
        fetch(loaded, SESSION, [row.session for row in rows])
        seats = {
            row.handle: Seat(
                handle=row.handle,
                session_id=_name(draft, row.session),
                public=row.public,
                aliases=row.aliases,
                metadata=row.metadata,
            )
            for row in rows
        }
        return Changes(), _group(conversation, group, list(seats.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class PutParticipant(Story[Seat]):
    """Give a session a handle, with the membership that goes with it."""

    where: Where
    handle: str
    session: str
    scope: str
    caller: Caller
    public: bool | None = None
    aliases: tuple[str, ...] | None = None
    metadata: Mapping[str, Any] | None = None

    def needs(self) -> Needs:
        """The conversation, locked, and the session's name."""
        return taking(self.where, (self.scope, self.session))

    def more(self, loaded: Loaded) -> Needs:
        """The membership, locked."""
        return membership_rows(loaded, self.where, self.session)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Seat]:
        """A handle is unique in its group, folded; moving it moves the group grant (F3)."""
        draft = Draft(loaded)
        conversation = found(draft, self.where, self.caller, take=True)
        scope = conversation.ref.scope_id
        session = ensure_session(draft, scope, self.session, now, caller=self.caller)
        handle = checked_handle(self.handle)
        old = draft.get(PARTICIPANT, (conversation.id, fold(handle)))
        if old is not None and fold(old.handle) != fold(handle):
            raise HandleConflict(f"({handle!r} is an alias of {old.handle!r})", handle=old.handle)
        given = old.aliases if self.aliases is None and old is not None else self.aliases or ()
        if len(given) > MAX_ALIASES:
            raise InvalidInput(f"a participant has at most {MAX_ALIASES} aliases.")
        aliases = tuple(checked_handle(alias) for alias in given)
        for alias in aliases:
            other = draft.get(PARTICIPANT, (conversation.id, fold(alias)))
            if other is not None and fold(other.handle) != fold(handle):
                raise HandleConflict(f"({alias!r} means {other.handle!r})", handle=other.handle)
        if old is not None and old.session != session.id:
            conversation = _give_up(draft, conversation, old, now)
        before = Participant(conversation.id, handle, session.id) if old is None else old
        new = Participant(
            conversation.id,
            handle,
            session.id,
            before.public if self.public is None else self.public,
            aliases,
            membership.merged(before.metadata, self.metadata),
        )
        for name in () if old is None else old.aliases:
            draft.put(PARTICIPANT, (conversation.id, fold(name)), None)
        for name in (handle, *aliases):
            draft.put(PARTICIPANT, (conversation.id, fold(name)), new)
        about = conversation.about
        about = replace(about, group=about.group or Group(), roster=about.roster + 1)
        conversation = replace(conversation, about=about)
        draft.save(conversation)
        conversation, member = seat(
            draft, conversation, session.id, by=Reason.GROUP, policy=ALL, now=now
        )
        if fold(handle) not in {fold(one) for one in member.handles}:
            unseat(draft, conversation, replace(member, handles=(*member.handles, handle)))
        return draft.changes, Seat(
            handle=handle,
            session_id=session.name,
            public=new.public,
            aliases=aliases,
            metadata=new.metadata,
        )


def _give_up(
    draft: Draft, conversation: Conversation, old: Participant, now: datetime
) -> Conversation:
    """Take a handle from a session; the group grant goes with its last one."""
    member = draft.get(MEMBER, (conversation.id, old.session))
    if member is None:
        return conversation
    kept = tuple(one for one in member.handles if fold(one) != fold(old.handle))
    after: Membership = replace(member, handles=kept)
    if not kept:
        after = membership.revoke(after, Reason.GROUP, now)
    conversation, _ = unseat(draft, conversation, after)
    return conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class DropParticipant(Story[Seat]):
    """Take a handle away."""

    where: Where
    handle: str
    caller: Caller

    def needs(self) -> Needs:
        """The conversation, locked."""
        return taking(self.where)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Seat]:
        """Raises `NotFound` where nobody has it."""
        draft = Draft(loaded)
        conversation = found(draft, self.where, self.caller, take=True)
        old = draft.get(PARTICIPANT, (conversation.id, fold(self.handle.removeprefix("@"))))
        if old is None:
            raise NotFound(f"nobody is {self.handle!r} here.", handle=self.handle)
        conversation = drop_handle(draft, conversation, old.handle)
        _give_up(draft, conversation, old, now)
        return draft.changes, Seat(
            handle=old.handle,
            session_id=_name(draft, old.session),
            public=old.public,
            aliases=old.aliases,
            metadata=old.metadata,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRoute(Story[None]):
    """The session that an account's new DMs belong to; None removes the route."""

    key: tuple[str, str, str]
    session: str | None

    def needs(self) -> Needs:
        """The route and the session's name."""
        rows: list[Any] = [(ROUTE, self.key)]
        if self.session is not None:
            rows.append((NAME, (self.key[0], self.session)))
        return Needs(rows=rows)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """An unknown session is created."""
        draft = Draft(loaded)
        if self.session is None:
            if draft.get(ROUTE, self.key) is None:
                raise NotFound("this account has no default route.")
            draft.put(ROUTE, self.key, None)
        else:
            session = ensure_session(draft, self.key[0], self.session, now)
            draft.put(ROUTE, self.key, session.id)
        return draft.changes, None


class Speakers:
    """Who answers in public."""

    def __init__(self, store: Store, limits: Limits = LIMITS) -> None:
        self._store = store
        self._limits = limits

    async def bind(
        self,
        where: ConversationRef | str,
        session: str,
        *,
        policy: BackfillPolicy | str | None = None,
        n: int | None = None,
        expires_at: datetime | Keep | None = KEEP,
        metadata: Mapping[str, Any] | None = None,
        caller: Caller = CONTROLLER,
    ) -> Bound:
        """Bind the conversation to a session. The same session again keeps the generation.

        Raises `BindingConflict` naming the holder. Leaving `expires_at` out keeps the old one,
        None clears it. `policy` is what the membership shows (`since_join`).
        """
        place = where_of(where)
        authority.may_write(caller, place)
        if isinstance(expires_at, datetime):
            expires_at = admission.aware(expires_at, "expires_at")
        return await self._store.run(
            Bind(
                where=place,
                session=session,
                scope=authority.scope_of(caller),
                caller=caller,
                policy=None if policy is None else Policy.of(policy, n),
                expires_at=expires_at,
                metadata=admission.metadata(metadata or {}, self._limits),
            )
        )

    async def unbind(
        self, where: ConversationRef | str, *, caller: Caller = CONTROLLER
    ) -> Bound | None:
        """End the binding; answers what was ended, None where there was none."""
        place = where_of(where)
        authority.may_write(caller, place)
        return await self._store.run(Unbind(where=place, caller=caller))

    async def unbind_session(self, session: str, *, caller: Caller = CONTROLLER) -> list[Bound]:
        """End every binding of a session; answers what was ended."""
        authority.may_control(caller)
        ended: list[Bound] = []
        after = -1
        while True:
            scope = authority.scope_of(caller)
            number, rows = await self._store.read(
                ReadBound(session=session, scope=scope, after=after)
            )
            if not rows:
                return ended
            after = rows[-1][0]
            stories = [Unbind(where=row, caller=caller, session=number) for row, _ in rows]
            for answer in await self._store.run_all(stories):
                if isinstance(answer, Exception):
                    raise answer
                if answer is not None:
                    ended.append(answer)

    async def binding(
        self, where: ConversationRef | str, *, caller: Caller = CONTROLLER
    ) -> Bound | None:
        """The binding that holds now, None where there is none."""
        place = where_of(where)
        authority.may_write(caller, place)
        return await self._store.read(ReadBinding(where=place, caller=caller))

    async def group(
        self,
        where: ConversationRef | str,
        *,
        mode: GroupMode | str | None = None,
        default_handle: str | Keep | None = KEEP,
        last_addressed_handle: str | Keep | None = KEEP,
        fan_out: FanOut | None = None,
        metadata: Mapping[str, Any] | None = None,
        caller: Caller = CONTROLLER,
    ) -> GroupState:
        """Make the conversation a group, or change it; what is left out stays."""
        place = where_of(where)
        authority.may_write(caller, place)
        if (
            fan_out is not None
            and min(fan_out.max_peer_triggered_publishes, fan_out.max_total_peer_deliveries) < 0
        ):
            raise InvalidInput("the bounds of a fan-out are at least 0.", field="fan_out")
        return await self._store.run(
            EnsureGroup(
                where=place,
                caller=caller,
                mode=None if mode is None else GroupMode.of(mode),
                default_handle=default_handle,
                last_addressed_handle=last_addressed_handle,
                fan_out=fan_out,
                metadata=admission.metadata(metadata or {}, self._limits),
            )
        )

    async def show_group(
        self, where: ConversationRef | str, *, caller: Caller = CONTROLLER
    ) -> GroupState:
        """The group with its participants. Raises `NotFound` where there is none."""
        place = where_of(where)
        authority.may_write(caller, place)
        return await self._store.read(ReadGroup(where=place, caller=caller))

    async def participant(
        self,
        where: ConversationRef | str,
        handle: str,
        session: str,
        *,
        public: bool | None = None,
        aliases: tuple[str, ...] | None = None,
        metadata: Mapping[str, Any] | None = None,
        caller: Caller = CONTROLLER,
    ) -> Seat:
        """Give a session a handle here; it becomes a member with policy `all`.

        Raises `HandleConflict` where the handle or an alias means another participant.
        """
        place = where_of(where)
        authority.may_write(caller, place)
        return await self._store.run(
            PutParticipant(
                where=place,
                handle=handle,
                session=session,
                scope=authority.scope_of(caller),
                caller=caller,
                public=public,
                aliases=aliases,
                metadata=admission.metadata(metadata or {}, self._limits),
            )
        )

    async def remove_participant(
        self, where: ConversationRef | str, handle: str, *, caller: Caller = CONTROLLER
    ) -> Seat:
        """Take the handle away; membership goes with the session's last handle."""
        place = where_of(where)
        authority.may_write(caller, place)
        return await self._store.run(DropParticipant(where=place, handle=handle, caller=caller))

    async def default_route(
        self, provider: str, account_id: str, session: str | None, *, caller: Caller = CONTROLLER
    ) -> None:
        """Give an account's new DMs to a session, or with None to nobody."""
        authority.may_control(caller)
        scope = authority.scope_of(caller)
        probe = ConversationRef(provider, account_id, "-", scope_id=scope)
        await self._store.run(
            SetRoute(key=(scope, probe.provider, probe.account_id), session=session)
        )
