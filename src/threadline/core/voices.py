"""Setting the scene for `rules.speaking.route`, and writing down what it chose.

A thread without group or binding of its own is routed by its room's; its last-addressed cursor is
its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from threadline.core.claims import become
from threadline.core.draft import Draft
from threadline.core.ids import number_of, public
from threadline.core.model import (
    ALL,
    Conversation,
    Direction,
    Event,
    Group,
    InboundMessage,
    Kind,
    Participant,
    Reason,
)
from threadline.core.ports import (
    KNOWN,
    MEMBER,
    PARTICIPANT,
    RECORD,
    ROUTE,
    SESSION,
    Key,
    Loaded,
)
from threadline.core.rules import binding, speaking
from threadline.core.rules.limits import Limits
from threadline.core.seating import heir, seat
from threadline.core.threads import parent_of
from threadline.core.unseating import end_grant


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is recorded of a choice: the session's name and id, the step, whom it wakes.

    `spent` is the notice for an exchange of machines that reached its bound.
    """

    name: str | None = None
    session: str | None = None
    route: str | None = None
    wakes: tuple[str, ...] = ()
    spent: str = ""


NOBODY = Chosen()
UNNAMED = speaking.Named()
UNADDRESSED = Chosen(route="none")
UNADDRESSED_BOT = Chosen(route="bot")
# The steps that find a session by its claim.
CLAIMED = frozenset({"claim", "last_addressed"})


def stage(
    conversation: Conversation, room: Conversation | None, now: datetime | None = None
) -> tuple[Conversation | None, Conversation]:
    """Whose group decides (None: nobody's), and whose binding; an expired one is none."""
    about = conversation.about
    if about.group is not None:
        return conversation, conversation
    own = about.binding if now is None else binding.current(about, now)
    if own is not None or about.claim is not None or room is None:
        return None, conversation
    return (room if room.about.group is not None else None), room


def wanted(loaded: Loaded, conversation: Conversation, message: InboundMessage) -> list[Key]:
    """The rows `choose` will look at, as far as they are known beforehand."""
    about = conversation.about
    above = about.parent
    if about.group is None and about.binding is None and about.claim is None and above is None:
        if conversation.kind is not Kind.DM:
            return []
        ref = conversation.ref
        return [(ROUTE, (ref.scope_id, ref.provider, ref.account_id))]
    room = None if above is None else loaded.peeked(above)
    owner, holder = stage(conversation, room)
    rows: list[Key] = []
    if owner is not None:
        group = owner.about.group or Group()
        handles = speaking.named(message).handles()
        for one in (group.default_handle, conversation.about.last_addressed_handle):
            if one is not None:
                handles.add(speaking.fold(one))
        rows += [(PARTICIPANT, (owner.id, handle)) for handle in handles]
    elif holder.about.binding is not None:
        rows.append((SESSION, holder.about.binding.session))
    return rows


def choose(
    draft: Draft,
    conversation: Conversation,
    message: InboundMessage,
    now: datetime,
    limits: Limits,
) -> tuple[Conversation, Chosen]:
    """Choose the speaker of a live message, move the cursor, spend the budget."""
    said_by_people = message.direction is Direction.INBOUND and not message.actor.is_self
    if message.event is not Event.MESSAGE or not said_by_people:
        return conversation, NOBODY
    if conversation.about.budget and not message.actor.is_bot:
        conversation = replace(conversation, about=replace(conversation.about, budget={}))
    claim = conversation.about.claim
    if claim is not None and heir(draft, claim.session) is None:
        # Of a session that was retired: nobody waits for the answer.
        conversation = become(draft, conversation, now)
    room = parent_of(draft, conversation) if conversation.kind is Kind.THREAD else None
    owner, holder = stage(conversation, room, now)
    bound = None if owner is not None else speaker_of(holder, now)
    nobody = owner is None and bound is None and conversation.kind is Kind.ROOM
    if nobody and message.explicit_target is None:
        # A room that belongs to nobody needs no scene.
        return conversation, UNADDRESSED_BOT if message.actor.is_bot else UNADDRESSED
    choice = speaking.route(scene_of(draft, conversation, message, owner, bound))
    target = heir(draft, choice.session)
    if target is None:
        step = choice.step if choice.session is None else "dangling"
        return conversation, Chosen(route=step)
    about = conversation.about
    if choice.cursor is not None and choice.cursor != about.last_addressed_handle:
        conversation = replace(
            conversation, about=replace(about, last_addressed_handle=choice.cursor)
        )
    if choice.bind:
        conversation = _bind_by_route(draft, conversation, target.id, target.name, now)
    if conversation.about.claim is not None and choice.step in CLAIMED:
        # Who is answered has its place at once: the claim was kept by the person.
        conversation = become(draft, conversation, now)
    seen = public(target.id)
    awake, spent = False, ""
    if speaking.wakes(message, choice, now, limits):
        conversation, awake, spent = _spend(conversation, message, limits)
    return conversation, Chosen(target.name, seen, choice.step, (seen,) if awake else (), spent)


def speaker_of(holder: Conversation, now: datetime) -> int | None:
    """The session a conversation belongs to: the claim's, else the binding's."""
    claim, bound = holder.about.claim, binding.current(holder.about, now)
    if claim is not None and claim.handle is None:
        return claim.session
    return None if bound is None else bound.session


def scene_of(
    draft: Draft,
    conversation: Conversation,
    message: InboundMessage,
    owner: Conversation | None,
    bound: int | None,
) -> speaking.Scene:
    """All that the choice looks at, as the conversation stands."""
    group = owner.about.group if owner is not None else None

    def find(handle: str | None) -> Participant | None:
        if owner is None or handle is None:
            return None
        return draft.get(PARTICIPANT, (owner.id, handle))

    def seats(session: int | None) -> tuple[str, ...]:
        if owner is None or session is None:
            return ()
        member = draft.get(MEMBER, (owner.id, session))
        return member.handles if member is not None and member.closed_at is None else ()

    seat_of_bound = None if bound is None else draft.get(SESSION, bound)
    names = () if seat_of_bound is None else (seat_of_bound.name, *seat_of_bound.aliases)
    claim = conversation.about.claim
    route = None
    if owner is None and bound is None and conversation.kind is Kind.DM:
        ref = conversation.ref
        route = draft.get(ROUTE, (ref.scope_id, ref.provider, ref.account_id))
        seat_here = None if route is None else draft.get(MEMBER, (conversation.id, route))
        if seat_here is not None and seat_here.evicted:
            route = None  # Only somebody's explicit grant brings it back (C13).
    return speaking.Scene(
        message=message,
        named=speaking.named(message)
        if owner is not None or message.explicit_target is not None
        else UNNAMED,
        find=find,
        seats=seats,
        grouped=group is not None,
        mode=(group or Group()).mode,
        default_handle=None
        if group is None or group.default_handle is None
        else speaking.fold(group.default_handle),
        last_addressed=conversation.about.last_addressed_handle
        if claim is None or claim.handle is None
        else claim.handle,
        replied=_said_by(draft, conversation, message.id_space, message.reply_to),
        thread=conversation.kind is Kind.THREAD,
        root_said_by=_said_by(draft, conversation, message.id_space, conversation.about.thread_root)
        if conversation.kind is Kind.THREAD
        else None,
        bound=bound,
        claimed=claim is not None and claim.handle is None and claim.session == bound,
        bound_names=frozenset(speaking.fold(name) for name in names),
        default_route=route,
    )


def _said_by(
    draft: Draft, conversation: Conversation, space: str, message_id: str | None
) -> int | None:
    """The session that said a message, or who took over from it."""
    if message_id is None:
        return None
    known = draft.get(KNOWN, (conversation.id, draft.id_key(space, message_id)))
    if known is None or known.sequence is None:
        return None
    record = draft.get(RECORD, (conversation.id, known.sequence))
    if record is None or record.source is None:
        return None
    found = heir(draft, number_of(record.source))
    return None if found is None else found.id


def _bind_by_route(
    draft: Draft, conversation: Conversation, session: int, name: str, now: datetime
) -> Conversation:
    old = conversation.about.binding
    about = binding.bind(conversation.about, session, holder=name, expires_at=binding.KEEP, now=now)
    conversation = replace(conversation, about=about)
    if old is not None and old.session != session:
        conversation = end_grant(draft, conversation, old.session, now)
    conversation, _ = seat(
        draft,
        conversation,
        session,
        by=Reason.BINDING,
        policy=ALL,
        now=now,
    )
    return conversation


def _spend(
    conversation: Conversation, message: InboundMessage, limits: Limits
) -> tuple[Conversation, bool, str]:
    """Spend the budget of what no human caused; past it the message wakes nobody."""
    if not message.actor.is_bot:
        return conversation, True, ""
    origin = message.origin
    root = (origin.root if origin is not None else "") or "here"
    spent = conversation.about.budget.get(root, 0)
    if (origin is not None and origin.hops >= limits.max_hops) or spent >= limits.max_bot_wakes:
        if spent > limits.max_bot_wakes:
            return conversation, False, ""
        budget = {**conversation.about.budget, root: limits.max_bot_wakes + 1}
        conversation = replace(conversation, about=replace(conversation.about, budget=budget))
        return conversation, False, "Machines answered each other often enough; nobody was woken."
    budget = {**conversation.about.budget, root: spent + 1}
    if len(budget) > 256:
        budget.pop(next(iter(budget)))
    return replace(conversation, about=replace(conversation.about, budget=budget)), True, ""
