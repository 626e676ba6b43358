"""Whom a session's own words wake: the peers its group's fan-out allows, the other party, nobody.

A published record reaches every member through its cursor whatever is decided here. Each wake is
one that no person caused, so it spends the budget of its root (law 12).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.ids import number_of, public
from threadline.core.model import (
    Conversation,
    Event,
    FanOut,
    InboundMessage,
    Kind,
    Session,
)
from threadline.core.ports import NAME, PARTICIPANT
from threadline.core.rules import delivery, speaking
from threadline.core.rules.limits import Limits
from threadline.core.seating import active_member, heir, seats_of
from threadline.core.threads import parent_of
from threadline.core.voices import NOBODY, Chosen, stage

BUDGETS = 256
NAMES = 16


def wake_peers(
    draft: Draft,
    conversation: Conversation,
    message: InboundMessage,
    said_by: Session,
    now: datetime,
    limits: Limits,
) -> tuple[Conversation, Chosen]:
    """Decide the wakes of what a session said, and spend their budget."""
    if message.event is not Event.MESSAGE:
        return conversation, NOBODY
    if conversation.ref.provider == delivery.INTERNAL:
        found = _parties(draft, conversation, message, said_by, now)
        return _spend(conversation, message, found, now, limits, limits.max_bot_wakes, True)
    room = parent_of(draft, conversation) if conversation.kind is Kind.THREAD else None
    owner, _ = stage(conversation, room, now)
    group = owner.about.group if owner is not None else None
    if owner is None or group is None or not group.fan_out.enabled:
        return conversation, NOBODY
    fan = group.fan_out
    found, named = _participants(draft, owner, message, said_by, fan)
    # What was said about a peer's words has two hops at least: the person's, the peer's.
    if message.origin is not None and message.origin.hops > 1:
        triggered = f"{message.origin.root}#peer"
        spent = conversation.about.budget.get(triggered, 0)
        if spent >= fan.max_peer_triggered_publishes:
            return conversation, NOBODY
        if found:
            conversation = _count(conversation, triggered, 1)
    return _spend(conversation, message, found, now, limits, fan.max_total_peer_deliveries, named)


def _parties(
    draft: Draft,
    conversation: Conversation,
    message: InboundMessage,
    said_by: Session,
    now: datetime,
) -> list[Session]:
    """Between two sessions the other one; in a named room whom the message names."""
    pair = delivery.pair_of(conversation)
    found: list[Session] = []
    if pair is not None:
        for one in pair:
            party = heir(draft, number_of(one))
            if party is not None and party.id != said_by.id:
                found.append(party)
        return found
    asked = speaking.named(message)
    # Names keep their case, so as written; handles of a group are folded.
    words = [message.explicit_target] if message.explicit_target else []
    words += [one.lstrip("@") for one in message.text.split() if one.startswith("@")]
    numbers = [draft.get(NAME, (said_by.scope_id, word.rstrip(".,:;!?"))) for word in words[:NAMES]]
    for handle in sorted(asked.handles()):
        seat = draft.get(PARTICIPANT, (conversation.id, handle))
        numbers.append(None if seat is None else seat.session)
    for number in dict.fromkeys(numbers):
        party = heir(draft, number)
        if party is None or party.id == said_by.id or party in found:
            continue
        if active_member(draft, conversation, party.id, now) is not None:
            found.append(party)
    return found


def _participants(
    draft: Draft, owner: Conversation, message: InboundMessage, said_by: Session, fan: FanOut
) -> tuple[list[Session], bool]:
    """The participants a publication names, or all where it names none and that is allowed."""
    asked = speaking.named(message)
    spelled = [
        *([(asked.explicit,)] if asked.explicit is not None else []),
        *asked.mentions,
        *([(asked.start,)] if asked.start is not None else []),
    ]
    numbers: list[int] = []
    for spellings in spelled:
        seats = (draft.get(PARTICIPANT, (owner.id, word)) for word in spellings)
        numbers += [seat.session for seat in seats if seat is not None][:1]
    named = bool(numbers)
    if not named:
        if asked.explicit is not None or not fan.allow_untargeted:
            return [], False
        numbers = [session for _, session in seats_of(draft, owner.id)]
    found: list[Session] = []
    for number in dict.fromkeys(numbers):
        peer = heir(draft, number)
        if peer is not None and peer.id != said_by.id and peer not in found:
            found.append(peer)
    return found, named


def _spend(
    conversation: Conversation,
    message: InboundMessage,
    found: list[Session],
    now: datetime,
    limits: Limits,
    bound: int,
    named: bool,
) -> tuple[Conversation, Chosen]:
    """Wake as many as the budget of the root still allows; where none is left, say so once."""
    if not found:
        return conversation, NOBODY
    root = delivery.root_of(conversation, message.origin, now)
    spent = conversation.about.budget.get(root, 0)
    hops = 0 if message.origin is None else message.origin.hops
    left = max(0, min(bound, limits.max_bot_wakes) - spent)
    if hops > limits.max_hops:
        left = 0
    awake = found[: min(left, limits.max_wakes)]
    target = found[0] if named else None
    chosen = Chosen(
        None if target is None else target.name,
        None if target is None else public(target.id),
        "peer",
        tuple(public(one.id) for one in awake),
    )
    if awake:
        return _count(conversation, root, len(awake)), chosen
    if spent > limits.max_bot_wakes:
        return conversation, chosen
    conversation = _count(conversation, root, limits.max_bot_wakes + 1 - spent)
    why = "Sessions woke each other often enough; nobody was woken until a person speaks."
    return conversation, replace(chosen, spent=why)


def _count(conversation: Conversation, root: str, more: int) -> Conversation:
    budget = {**conversation.about.budget, root: conversation.about.budget.get(root, 0) + more}
    while len(budget) > BUDGETS:
        budget.pop(next(iter(budget)))
    return replace(conversation, about=replace(conversation.about, budget=budget))
