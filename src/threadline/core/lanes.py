"""The lane of a conversation: what is said there leaves in its order, one after the other.

Everything here happens under the lock of the conversation. A lane is leased for one attempt; the
fence it was leased under decides whose verdict counts. A proof is taken from whoever brings it,
however late (law 9).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from threadline.core.adapters import Capabilities, Registration
from threadline.core.claims import settle
from threadline.core.deliveries import OPEN_STATES, Delivery, DeliveryState, Lane, Receipt
from threadline.core.draft import Draft
from threadline.core.ids import LENGTH, number_of, public
from threadline.core.model import (
    Actor,
    Conversation,
    ConversationRef,
    Direction,
    InboundMessage,
    Known,
    Session,
)
from threadline.core.ports import (
    ADAPTER,
    DELIVERY,
    IN_LANE,
    KNOWN,
    LANE,
    RECEIPT,
    SESSION,
    Page,
    fetch,
)
from threadline.core.recording import Door, take
from threadline.core.rules import pacing
from threadline.core.rules.limits import Limits
from threadline.core.rules.splitting import parts
from threadline.core.seating import heir

HEADS = 8
CANCELLED = 1_000


def key_of(delivery: Delivery) -> str:
    """What names the part under way, for ever: a provider's idempotency key, an echo's token.

    A resend of what may have been said keeps it, so that a provider with idempotent sends does not
    say it twice; a resend of what certainly was not said has a new one.
    """
    edition = f".{delivery.edition}" if delivery.edition else ""
    return f"{public(delivery.conversation)}.{public(delivery.id)}.{delivery.part}{edition}"


def read_key(key: str) -> tuple[int, int, int] | None:
    """Conversation, delivery and part behind a key, None where it is not one of ours."""
    conversation, _, rest = key.partition(".")
    number, _, rest = rest.partition(".")
    part = rest.partition(".")[0]
    if len(conversation) != LENGTH or len(number) != LENGTH or not part.isdecimal():
        return None
    found = number_of(conversation), number_of(number)
    if found[0] is None or found[1] is None or len(part) > 4 or not int(part):
        return None
    return found[0], found[1], int(part)


def registration_of(draft: Draft, ref: ConversationRef) -> Registration | None:
    """The adapter registered for a conversation's account."""
    return draft.get(ADAPTER, (ref.scope_id, ref.provider, ref.account_id))


def lane_of(draft: Draft, conversation: int) -> Lane:
    """The lane, as it is or as it begins."""
    return draft.get(LANE, conversation) or Lane(conversation=conversation)


def is_leased(lane: Lane, now: datetime) -> bool:
    """Whether somebody is making a call in it."""
    return bool(lane.owner) and lane.due_at is not None and now < lane.due_at


def busy(draft: Draft, lane: Lane) -> bool:
    """Whether a lane is worth a look: something waits in it, or an echo waits for it."""
    there = draft.taken(lane.conversation)
    return lane.waiting > 0 or (there is not None and there.about.echoes > 0)


def enter(draft: Draft, delivery: Delivery, now: datetime) -> None:
    """Put a delivery at the tail of its lane and ring for it."""
    lane = lane_of(draft, delivery.conversation)
    due = now if lane.due_at is None else lane.due_at
    draft.put(LANE, lane.conversation, replace(lane, waiting=lane.waiting + 1, due_at=due))
    draft.put(DELIVERY, (delivery.conversation, delivery.id), delivery)
    draft.changes.conversations.add(delivery.conversation)


def save(draft: Draft, delivery: Delivery, now: datetime) -> None:
    """Write a delivery, and count its lane where it left or entered it."""
    before = draft.get(DELIVERY, (delivery.conversation, delivery.id))
    draft.put(DELIVERY, (delivery.conversation, delivery.id), delivery)
    change = delivery.in_lane - (before is not None and before.in_lane)
    if change:
        lane = lane_of(draft, delivery.conversation)
        lane = replace(lane, waiting=max(0, lane.waiting + change))
        if not is_leased(lane, now):
            lane = replace(lane, owner="", due_at=now if busy(draft, lane) else None)
        draft.put(LANE, lane.conversation, lane)
    draft.changes.conversations.add(delivery.conversation)
    if delivery.send is not None:
        settle(draft, before, delivery, now)


def free(draft: Draft, conversation: int, fence: int, now: datetime) -> None:
    """Give a lease back, if it is still the one under this fence."""
    lane = lane_of(draft, conversation)
    if lane.fence == fence and lane.owner:
        due = now if busy(draft, lane) else None
        draft.put(LANE, conversation, replace(lane, owner="", due_at=due))


def prove(
    draft: Draft,
    conversation: Conversation,
    delivery: Delivery,
    part: int,
    message_id: str,
    now: datetime,
    limits: Limits,
    *,
    space: str = "",
    sent_at: datetime | None = None,
    note: str = "",
) -> Delivery:
    """A part was said: its receipt, and with the last one the record (law 9).

    Whoever brings it, whatever the delivery's state: a fence stops verdicts, never proofs. What is
    proven already stays as it is; a second id for the same part is known as that part's. `space` is
    the id space of `message_id`.
    """
    if space:
        delivery = replace(delivery, id_space=space)
    if part < delivery.part or part > delivery.parts:
        if message_id not in delivery.message_ids:
            _also(draft, conversation, delivery, part, message_id)
        return delivery
    if part > delivery.part:
        # Parts leave one after the other, so the earlier ones were said as well.
        missing = ("",) * (part - delivery.part)
        delivery = replace(delivery, message_ids=(*delivery.message_ids, *missing))
    delivery = replace(delivery, message_ids=(*delivery.message_ids, message_id))
    told = note or (f"part {part} of {delivery.parts}" if delivery.parts > 1 else "")
    if delivery.sequence is not None or delivery.part > delivery.parts:
        done = pacing.ended(delivery, DeliveryState.DELIVERED, now, "")
        if delivery.sequence is not None:
            # A part of it is in the transcript already; what came later is known as its part.
            _also(draft, conversation, delivery, part, message_id)
            if delivery.part <= delivery.parts:
                done = replace(delivery, trail=done.trail)
            else:
                done = _emptied(done)
            save(draft, done, now)
            return done
        done = recorded(draft, conversation, done, now, limits, sent_at=sent_at)
        save(draft, _emptied(done), now)
        return done
    if message_id:
        key = draft.id_key(delivery.id_space, message_id)
        waiting = draft.get(RECEIPT, (conversation.id, key))
        if waiting is not None and waiting.message is not None:
            one_less(draft, conversation.id)
        draft.put(RECEIPT, (conversation.id, key), Receipt(delivery=delivery.id, part=part))
    if delivery.state not in OPEN_STATES:
        # It ended before this was known: what was said of it is in the transcript all the same.
        late = pacing.stepped(delivery, delivery.state, now, told)
        return give_up(draft, conversation, late, now, limits)
    proven = replace(
        pacing.stepped(delivery, DeliveryState.PENDING, now, told),
        failure=None,
        reason="",
        failures=0,
        due_at=None,
        called_at=None,
        uncertain_at=None,
        looks=0,
        parked=False,
    )
    save(draft, proven, now)
    return proven


def _emptied(delivery: Delivery) -> Delivery:
    """Without the words, which the record has."""
    return replace(delivery, text="", attachments=(), metadata={}, failure=None, reason="")


def _also(
    draft: Draft, conversation: Conversation, delivery: Delivery, part: int, message_id: str
) -> None:
    """A further id of a known part: an echo under it must not become a record of its own."""
    if not message_id:
        return
    key = draft.id_key(delivery.id_space, message_id)
    if draft.get(KNOWN, (conversation.id, key)) is not None:
        return
    if delivery.sequence is not None:
        draft.put(KNOWN, (conversation.id, key), Known(delivery.sequence, part - 1))
    elif draft.get(RECEIPT, (conversation.id, key)) is None:
        draft.put(RECEIPT, (conversation.id, key), Receipt(delivery=delivery.id, part=part))


def recorded(
    draft: Draft,
    conversation: Conversation,
    delivery: Delivery,
    now: datetime,
    limits: Limits,
    *,
    sent_at: datetime | None = None,
) -> Delivery:
    """Write the record of what was said of a delivery, in the transaction that settles it.

    Where the id is known already (an echo or an import was first) that record becomes the session's
    and stays the one. While a gated import is open the record is held.
    """
    session = heir(draft, delivery.session) or draft.get(SESSION, delivery.session)
    out = len(delivery.message_ids)
    text = delivery.text if out >= delivery.parts else delivery.text[: delivery.cuts[out - 1]]
    metadata = dict(delivery.metadata)
    if out < delivery.parts:
        metadata["parts"] = f"{out}/{delivery.parts}"
    if delivery.resent:
        metadata["resent"] = delivery.resent
    if delivery.may_be_double:
        metadata["possible_duplicate"] = True
    if pacing.is_late(delivery):
        metadata["written_at"] = delivery.created_at.isoformat()
    if delivery.send is not None:
        metadata["send"] = public(delivery.send)
    first = delivery.message_ids[0] or None
    if first is not None:
        echo = take_echo(draft, conversation.id, delivery.id_space, first)
        sent_at = sent_at or (None if echo is None else echo.sent_at)
    message = InboundMessage(
        conversation=replace(conversation.ref, kind=None),
        text=text,
        actor=actor_of(registration_of(draft, conversation.ref), conversation.ref, session),
        message_id=first,
        id_space=delivery.id_space,
        direction=Direction.OUTBOUND,
        explicit_target=delivery.explicit_target,
        reply_to=delivery.reply_to,
        attachments=delivery.attachments,
        origin=delivery.origin,
        sent_at=sent_at,
        metadata=metadata,
    )
    taken = take(
        draft,
        message,
        now,
        door=Door.HEARD,
        limits=limits,
        said_by=session,
        delivery=delivery.id,
    )
    delivery = replace(delivery, sequence=taken.sequence)
    if taken.sequence is not None:
        know_parts(draft, conversation.id, delivery, taken.sequence)
    return delivery


def know_parts(draft: Draft, conversation: int, delivery: Delivery, sequence: int) -> None:
    """A reply to any part, and an echo of any part, means the one record."""
    for part, message_id in enumerate(delivery.message_ids):
        if not message_id:
            continue
        key = draft.id_key(delivery.id_space, message_id)
        if draft.get(RECEIPT, (conversation, key)) is not None:
            draft.put(RECEIPT, (conversation, key), None)
        if part and draft.get(KNOWN, (conversation, key)) is None:
            draft.put(KNOWN, (conversation, key), Known(sequence, part))


def actor_of(
    registration: Registration | None, ref: ConversationRef, session: Session | None
) -> Actor:
    """Our bot on the platform, under the name of the session that speaks."""
    own = None if registration is None else registration.capabilities.actor
    name = "" if session is None else session.name
    return Actor(ref.account_id if own is None else own.id, name, is_bot=True, is_self=True)


def give_up(
    draft: Draft, conversation: Conversation, delivery: Delivery, now: datetime, limits: Limits
) -> Delivery:
    """Write a terminal delivery; if any part of it is out, that part is in the transcript."""
    if delivery.message_ids and delivery.sequence is None:
        delivery = recorded(draft, conversation, delivery, now, limits)
    save(draft, delivery, now)
    return delivery


def cancel_pending(
    draft: Draft,
    conversation: Conversation,
    sessions: tuple[int, ...],
    reason: str,
    now: datetime,
    limits: Limits,
) -> None:
    """Take back what these sessions have in the lane and nobody sent yet.

    What lies behind the first thousand is cancelled by its attempt, which looks at the right again.
    """
    if not lane_of(draft, conversation.id).waiting:
        return
    rows = draft.page(Page(IN_LANE, (conversation.id, CANCELLED)))
    fetch(draft, DELIVERY, [(row.conversation, row.id) for row in rows])
    for row in rows:
        if row.session in sessions and row.state is DeliveryState.PENDING:
            ended = pacing.ended(row, DeliveryState.CANCELLED, now, reason)
            give_up(draft, conversation, ended, now, limits)


def part_text(delivery: Delivery) -> str:
    """The words of the part under way, as they leave."""
    return parts(delivery.text, delivery.cuts)[delivery.part - 1]


def capabilities_of(registration: Registration | None) -> Capabilities:
    """What the account can do; without its adapter the careful defaults."""
    return Capabilities() if registration is None else registration.capabilities


def heads_of(draft: Draft, conversation: int) -> list[Delivery]:
    """The first deliveries of a lane in their order, as this story left them."""
    rows = draft.page(Page(IN_LANE, (conversation, HEADS)))
    found = fetch(draft, DELIVERY, [(row.conversation, row.id) for row in rows])
    return [one for one in found if one is not None]


def take_echo(
    draft: Draft, conversation: int, space: str, message_id: str
) -> InboundMessage | None:
    """The echo that waited under this id, which no longer does."""
    key = draft.id_key(space, message_id)
    waiting = draft.get(RECEIPT, (conversation, key))
    if waiting is None or waiting.message is None:
        return None
    draft.put(RECEIPT, (conversation, key), None)
    one_less(draft, conversation)
    return waiting.message


def one_less(draft: Draft, conversation: int) -> None:
    """Count one echo less that waits."""
    there = draft.taken(conversation)
    if there is not None and there.about.echoes:
        about = replace(there.about, echoes=there.about.echoes - 1)
        draft.save(replace(there, about=about))
