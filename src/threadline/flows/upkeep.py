"""What has to be done from time to time: windows that ran out, grants that expired, floors.

Nothing here decides what a reader may see: every read judges expiry and windows by itself. Upkeep
only tidies, so it may be late, run twice, or run on several nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from threadline.core.draft import Draft
from threadline.core.model import ALL, SINCE_JOIN, Conversation, Kind, Membership, Reason
from threadline.core.ports import (
    DUE,
    MEMBER,
    PARTICIPANT,
    SESSION,
    SWEEPABLE,
    SWEPT,
    Changes,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
    fetch,
)
from threadline.core.rules import binding, hydration, membership, visibility
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.rules.speaking import fold
from threadline.core.seating import members_of, seats_of, unseat
from threadline.core.threads import parent_of
from threadline.core.unseating import drop_binding
from threadline.flows.files import Files
from threadline.flows.hydration import Hydration
from threadline.flows.initiative import Initiative
from threadline.flows.links import Links
from threadline.flows.logins import Logins
from threadline.flows.outbound import Outbound
from threadline.flows.people import People
from threadline.flows.uploads import Uploads

CHUNK = 500
SWEEP = 10_000


@dataclass(slots=True)
class Tidied:
    """What one round of upkeep did, and what it found that it does not repair by itself."""

    windows: int = 0
    bindings: int = 0
    swept: int = 0
    keys: int = 0
    guests: int = 0
    files: int = 0
    codes: int = 0
    intents: int = 0
    repaired: int = 0
    findings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReadDue(Story[list[Conversation]]):
    """Conversations with something due."""

    limit: int = CHUNK

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[Conversation]]:
        """By the store's clock."""
        epoch = datetime(1970, 1, 1, tzinfo=now.tzinfo)
        until = (now - epoch) // timedelta(microseconds=1)
        return Changes(), loaded.page(Page(DUE, (until, self.limit)))


@dataclass(frozen=True, slots=True)
class EndExpired(Story[bool]):
    """End a binding that expired, with the membership it granted."""

    conversation: int

    def needs(self) -> Needs:
        """The conversation, locked."""
        return Needs(take_ids=(self.conversation,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, bool]:
        """Answers whether there was one."""
        draft = Draft(loaded)
        conversation = draft.taken(self.conversation)
        if conversation is None:
            return draft.changes, False
        bound = conversation.about.binding
        if bound is None or binding.current(conversation.about, now) is not None:
            return draft.changes, False
        conversation = drop_binding(draft, conversation, bound.session)
        member = draft.get(MEMBER, (conversation.id, bound.session))
        if member is not None and Reason.BINDING in member.grants:
            unseat(draft, conversation, membership.revoke(member, Reason.BINDING, now))
        return draft.changes, True


@dataclass(frozen=True, slots=True)
class ReadSweepable(Story[list[Conversation]]):
    """A page of conversations with a retention bound."""

    after: int
    limit: int = CHUNK

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[Conversation]]:
        """Ordered by id."""
        return Changes(), loaded.page(Page(SWEEPABLE, (self.after, self.limit)))


@dataclass(frozen=True, slots=True)
class Sweep(Story[int]):
    """Move a conversation's floor as its retention says; answers how many numbers it passed."""

    conversation: int

    def needs(self) -> Needs:
        """The conversation, locked."""
        return Needs(take_ids=(self.conversation,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, int]:
        """Ids outlive the sweep: what was swept is known for ever (B15)."""
        draft = Draft(loaded)
        conversation = draft.taken(self.conversation)
        if conversation is None or hydration.is_gated(conversation):
            return draft.changes, 0
        about = conversation.about
        floor = conversation.earliest_sequence
        if about.max_retained_entries is not None:
            floor = max(floor, conversation.next_sequence - about.max_retained_entries)
        if about.max_age is not None:
            epoch = datetime(1970, 1, 1, tzinfo=now.tzinfo)
            oldest = (now - about.max_age - epoch) // timedelta(microseconds=1)
            page = Page(SWEPT, (conversation.id, conversation.earliest_sequence, oldest))
            [(last,)] = draft.page(page)
            if last is not None:
                floor = max(floor, last + 1)
        floor = min(floor, conversation.earliest_sequence + SWEEP)
        passed = floor - conversation.earliest_sequence
        if passed <= 0:
            return draft.changes, 0
        draft.changes.swept.append((conversation.id, floor))
        draft.save(replace(conversation, earliest_sequence=floor))
        draft.changes.conversations.add(conversation.id)
        return draft.changes, passed


@dataclass(frozen=True, slots=True)
class Reconcile(Story[list[str]]):
    """Make memberships equal participants and binding again; explicit removals are kept."""

    conversation: int

    def needs(self) -> Needs:
        """The conversation, locked."""
        return Needs(take_ids=(self.conversation,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[str]]:
        """Answers a sentence for each thing that had drifted or dangles."""
        draft = Draft(loaded)
        conversation = draft.taken(self.conversation)
        if conversation is None:
            return draft.changes, []
        said: list[str] = []
        wanted = _wanted(draft, conversation, now, said)
        fetch(draft, MEMBER, [(conversation.id, number) for number in wanted], hold=True)
        for number, due in wanted.items():
            member = draft.get(MEMBER, (conversation.id, number))
            whole = _whole(member, due, conversation, number, now)
            if whole is None or whole == member:
                continue
            conversation, _ = unseat(draft, conversation, whole)
            said.append(f"{conversation.ref}: a membership was missing and is repaired")
        enrolled = _enrolled(draft, conversation, now)
        everybody = [member.session for member in members_of(draft, conversation.id)]
        now_there = fetch(draft, MEMBER, [(conversation.id, one) for one in everybody], hold=True)
        for member in now_there:
            if member is None:
                continue
            due = wanted.get(member.session, _Due())
            after = member
            for reason in {Reason.GROUP, Reason.BINDING} & set(member.grants):
                if reason not in due.by and (member.session, reason) not in enrolled:
                    after = membership.revoke(after, reason, now)
            if after is not member:
                after = replace(after, handles=due.handles)
                conversation, _ = unseat(draft, conversation, after)
                said.append(f"{conversation.ref}: a membership had no reason left and ended")
        keys = [(conversation.id, number) for number in dict.fromkeys((*everybody, *wanted))]
        there = [one for one in fetch(draft, MEMBER, keys) if one is not None]
        count = sum(one.closed_at is None for one in there)
        if count != conversation.about.members:
            said.append(f"{conversation.ref}: {count} members were counted as another number")
            about = replace(conversation.about, members=count)
            draft.save(replace(conversation, about=about))
        return draft.changes, said


@dataclass(frozen=True, slots=True)
class _Due:
    """What participants and binding give a session."""

    by: frozenset[Reason] = frozenset()
    handles: tuple[str, ...] = ()
    expires_at: datetime | None = None


def _wanted(
    draft: Draft, conversation: Conversation, now: datetime, said: list[str]
) -> dict[int, _Due]:
    """Who belongs here by participants and binding; sessions that are gone belong nowhere."""
    names = [name for name, _ in seats_of(draft, conversation.id)]
    wanted: dict[int, _Due] = {}
    for seat in fetch(draft, PARTICIPANT, [(conversation.id, name) for name in names]):
        if seat is not None:
            due = wanted.get(seat.session, _Due())
            known = fold(seat.handle) in {fold(one) for one in due.handles}
            handles = due.handles if known else (*due.handles, seat.handle)
            wanted[seat.session] = replace(due, by=due.by | {Reason.GROUP}, handles=handles)
    bound = binding.current(conversation.about, now)
    if bound is not None:
        due = wanted.get(bound.session, _Due())
        by = due.by | {Reason.BINDING}
        wanted[bound.session] = replace(due, by=by, expires_at=bound.expires_at)
    sessions = fetch(draft, SESSION, wanted)
    for number, session in zip(list(wanted), sessions, strict=True):
        if session is None or session.retired_at is not None:
            said.append(f"{conversation.ref}: a binding or handle points at a gone session")
            del wanted[number]
    return wanted


def _enrolled(draft: Draft, conversation: Conversation, now: datetime) -> set[tuple[int, Reason]]:
    """Whom a thread has from its room, and why. They are kept; every append adds who is missing."""
    room = parent_of(draft, conversation) if conversation.kind is Kind.THREAD else None
    if room is None:
        return set()
    found = {(session, Reason.GROUP) for _, session in seats_of(draft, room.id)}
    bound = binding.current(room.about, now)
    return found if bound is None else found | {(bound.session, Reason.BINDING)}


def _whole(
    member: Membership | None, due: _Due, conversation: Conversation, session: int, now: datetime
) -> Membership | None:
    """The membership as participants and binding want it; None where it was ended by name."""
    if member is not None and member.evicted:
        return None
    for reason in sorted(due.by):
        if member is None or reason not in member.grants or not visibility.is_active(member, now):
            member = membership.join(
                member,
                conversation,
                session,
                by=reason,
                policy=ALL if reason is Reason.GROUP else SINCE_JOIN,
                now=now,
                expires_at=due.expires_at if reason is Reason.BINDING else None,
            )
    if member is not None and set(due.handles) != set(member.handles):
        member = replace(member, handles=due.handles)
    return member


class Upkeep:
    """Rounds of tidying."""

    def __init__(
        self,
        store: Store,
        hydration: Hydration,
        outbound: Outbound,
        limits: Limits = LIMITS,
        *,
        files: Files | None = None,
        uploads: Uploads | None = None,
        people: People | None = None,
        initiative: Initiative | None = None,
    ) -> None:
        self._people = people
        self._initiative = initiative
        self._files = files
        self._uploads = uploads
        self._links = Links(store, limits)
        self._logins = Logins(store)
        self._store = store
        self._hydration = hydration
        self._outbound = outbound
        self._limits = limits

    async def round(self) -> Tidied:
        """Drain windows that ran out, end expired bindings, move floors, remove guests and logins
        that are over. Safe at any time."""
        done = Tidied()
        for conversation in await self._store.read(ReadDue()):
            if conversation.about.window is not None:
                await self._hydration.drain(conversation.id)
                done.windows += 1
            if conversation.about.binding is not None and await self._store.run(
                EndExpired(conversation.id)
            ):
                done.bindings += 1
        done.swept = await self.sweep()
        done.keys = await self._outbound.forget_keys()
        done.guests = await self._links.tidy() + await self._logins.forget()
        if self._files is not None:
            done.files = await self._files.tidy()
        if self._uploads is not None:
            done.files += await self._uploads.tidy()
        if self._people is not None:
            done.codes = await self._people.forget_codes()
        if self._initiative is not None:
            done.intents = await self._initiative.forget_intents()
        return done

    async def sweep(self) -> int:
        """Move every floor that its retention asks to move; answers how many numbers passed."""
        passed, after = 0, -1
        while rows := await self._store.read(ReadSweepable(after)):
            after = rows[-1].id
            for row in rows:
                while moved := await self._store.run(Sweep(row.id)):
                    passed += moved
        return passed

    async def reconcile(self, conversation: int) -> list[str]:
        """Repair drift of one conversation's memberships and say what was found."""
        return await self._store.run(Reconcile(conversation))
