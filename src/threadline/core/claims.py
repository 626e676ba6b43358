"""A claim: the binding that waits until what a session said first is confirmed.

While the send is under way the answer already finds its author (H13). The confirmed one becomes the
binding, or in a group the last addressed; one that failed leaves nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from threadline.core.auditing import audit
from threadline.core.deliveries import OPEN_STATES, Delivery, DeliveryState
from threadline.core.draft import Draft
from threadline.core.ids import public
from threadline.core.joining import heir_of, recipient
from threadline.core.meeting import contact_of
from threadline.core.model import ALL, Claim, Conversation, Reason
from threadline.core.people import BY_SYSTEM
from threadline.core.ports import (
    CHAIN,
    CONVERSATION,
    DELIVERIES_OF,
    DELIVERY,
    IN_LANE,
    QUOTA,
    SEND,
    Page,
    fetch,
)
from threadline.core.rules import allowance, binding, delivery
from threadline.core.seating import heir, seat
from threadline.core.sends import Send, SendState, Tried
from threadline.core.unseating import end_grant

LOOK = 100
LATEST = 1 << 62
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ACCOUNT = "account:"
ENDED = {
    DeliveryState.DELIVERED: SendState.DELIVERED,
    DeliveryState.FAILED: SendState.FAILED,
    DeliveryState.EXPIRED: SendState.EXPIRED,
    DeliveryState.CANCELLED: SendState.CANCELLED,
    DeliveryState.UNCERTAIN: SendState.UNCERTAIN,
}
UNSAID = frozenset({DeliveryState.FAILED, DeliveryState.EXPIRED, DeliveryState.CANCELLED})


def become(draft: Draft, conversation: Conversation, now: datetime) -> Conversation:
    """Make the claim what it waited to be: the binding, or the last addressed of the group."""
    claim = conversation.about.claim
    if claim is None:
        return conversation
    about = replace(conversation.about, claim=None)
    session = heir(draft, claim.session)
    if session is None:
        dropped = replace(conversation, about=about)
        draft.save(dropped)
        return dropped
    if claim.handle is not None:
        about = replace(about, last_addressed_handle=claim.handle)
        kept = replace(conversation, about=about)
        draft.save(kept)
        return kept
    old = conversation.about.binding
    bound = binding.current(about, now)
    if bound is not None and bound.session != session.id:
        # Somebody bound it meanwhile: that costs the context, never the record.
        kept = replace(conversation, about=about)
        draft.save(kept)
        return kept
    about = binding.bind(about, session.id, holder=session.name, expires_at=binding.KEEP, now=now)
    conversation = replace(conversation, about=about)
    draft.save(conversation)
    if old is not None and old.session != session.id:
        conversation = end_grant(draft, conversation, old.session, now)
    conversation, _ = seat(draft, conversation, session.id, by=Reason.BINDING, policy=ALL, now=now)
    return conversation


def make(
    draft: Draft, conversation: Conversation, session: int, delivery: int, handle: str | None
) -> Conversation:
    """Write the claim of a delivery that is under way."""
    claim = Claim(session, delivery, handle)
    claimed = replace(conversation, about=replace(conversation.about, claim=claim))
    draft.save(claimed)
    return claimed


def settle(draft: Draft, before: Delivery | None, after: Delivery, now: datetime) -> None:
    """What the end of a delivery means to the send it belongs to: claim, limits, next channel.

    A send is what all its deliveries are together: none of them ends it while another one is under
    way, and none takes back what another one said.
    """
    if after.send is None or (before is not None and _standing(before) == _standing(after)):
        return
    # One in doubt that is set aside keeps its state; only then is its send uncertain.
    ends = after.state in ENDED and not after.in_lane
    if not ends and (before is None or before.in_lane):
        return
    send = counted(draft, after)
    out = _taken(after)
    conversation = draft.taken(after.conversation)
    claim = None if conversation is None else conversation.about.claim
    if conversation is not None and claim is None and out and before is not None:
        if before.state in UNSAID and after.right == delivery.CLAIM and _free(conversation, now):
            # Its end took the claim away, and was wrong.
            become(draft, make(draft, conversation, after.session, after.id, None), now)
    elif conversation is not None and claim is not None and claim.session == after.session and ends:
        if out:
            become(draft, conversation, now)
        elif claim.delivery == after.id and after.state is not DeliveryState.UNCERTAIN:
            about = replace(conversation.about, claim=_next_claim(draft, claim, after))
            draft.save(replace(conversation, about=about))
    if send is None:
        return
    tried = tuple(_outcome(one, after, now) for one in send.tried)
    send = replace(send, tried=tried, step=send.step + 1)
    others = _others(draft, send, after)
    if (not out or not ends) and any(_taken(one) for one in others):
        # Another channel said it meanwhile: this one changes neither its end nor what it counted.
        draft.put(SEND, send.id, send)
        return
    if not ends:
        # It goes on, and what was to be tried next waits for what becomes of it.
        draft.put(SEND, send.id, replace(send, state=SendState.OPEN, due_at=None))
        return
    waits = any(one.in_lane for one in others)
    doubtful = any(one.state is DeliveryState.UNCERTAIN for one in others)
    if not out and (waits or doubtful):
        # The others may still say it, so nothing is tried besides them and nothing given back.
        state = SendState.OPEN if waits else SendState.UNCERTAIN
        draft.put(SEND, send.id, replace(send, state=state, due_at=None))
        return
    clean = not after.message_ids and after.state in (DeliveryState.FAILED, DeliveryState.EXPIRED)
    goes_on = clean and after.state is DeliveryState.FAILED and bool(send.left)
    state = SendState.OPEN if goes_on else ENDED[after.state]
    if out:
        state = SendState.DELIVERED
    send = replace(send, state=state, reason=after.reason, due_at=now if goes_on else None)
    draft.put(SEND, send.id, send)
    audit(
        draft,
        send.scope_id,
        BY_SYSTEM,
        f"send.{state.value if not goes_on else 'failed'}",
        now,
        subject=public(send.id),
        delivery=f"{public(after.conversation)}.{public(after.id)}",
        reason=after.reason,
    )
    if out:
        # It may have been given back, before it was known to have been said.
        count_again(draft, send, after, now)
    elif after.state is not DeliveryState.UNCERTAIN:
        give_back(draft, send)


def counted(draft: Draft, delivery: Delivery) -> Send | None:
    """The send of a delivery, read after the chain is held: whoever counts, or steps on, does it
    alone in its scope, and sees what the one before did."""
    there = draft.taken(delivery.conversation)
    if there is None or delivery.send is None:
        return None
    fetch(draft, CHAIN, [there.ref.scope_id], hold=True)
    return draft.get(SEND, delivery.send)


def has_another(draft: Draft, delivery: Delivery) -> bool:
    """Whether another channel would be tried, if this one failed now."""
    send = counted(draft, delivery)
    if send is None or not send.left or delivery.message_ids:
        return False
    others = _others(draft, send, delivery)
    return not any(_taken(one) or one.state in OPEN_STATES for one in others)


def _standing(delivery: Delivery) -> tuple[DeliveryState, bool, bool]:
    return delivery.state, delivery.parked, bool(delivery.message_ids)


def _taken(delivery: Delivery) -> bool:
    """Whether the platform took any of it, and did not say later that it reached nobody."""
    undone = delivery.state is DeliveryState.FAILED and delivery.part > delivery.parts
    return bool(delivery.message_ids) and not undone


def _others(draft: Draft, send: Send, delivery: Delivery) -> list[Delivery]:
    """The other deliveries of a send."""
    keys = [
        (one.conversation, one.delivery)
        for one in send.tried
        if one.conversation is not None and one.delivery is not None
    ]
    own = (delivery.conversation, delivery.id)
    rows = fetch(draft, DELIVERY, [one for one in dict.fromkeys(keys) if one != own])
    return [one for one in rows if one is not None]


def reopen(draft: Draft, conversation: Conversation, again: Delivery, now: datetime) -> None:
    """A send that somebody lets be said once more, and that is open again, counts again, and waits
    for its answer again."""
    send = counted(draft, again)
    if send is None:
        return
    if again.right == delivery.CLAIM and _free(conversation, now):
        make(draft, conversation, again.session, again.id, None)
    audit(
        draft,
        send.scope_id,
        BY_SYSTEM,
        "send.resent",
        now,
        subject=public(send.id),
        delivery=f"{public(again.conversation)}.{public(again.id)}",
    )
    if not any(_taken(one) for one in _others(draft, send, again)):
        count_again(draft, send, again, now)


def _free(conversation: Conversation, now: datetime) -> bool:
    """Whether an answer here would be nobody's."""
    about = conversation.about
    return about.claim is None and about.group is None and binding.current(about, now) is None


def count_again(draft: Draft, send: Send, said: Delivery, now: datetime) -> None:
    """Reserve what was given back, of the account that this delivery leaves through."""
    there = draft.taken(said.conversation)
    if there is None:
        return
    account = f"{ACCOUNT}{there.ref.provider}/{there.ref.account_id}"
    counted = _counted_as(draft, send)
    names = [*(one for one in counted if not one.startswith(ACCOUNT)), account]
    if account not in send.reserved:
        draft.put(SEND, send.id, replace(send, reserved=(*send.reserved, account)))
    for name in names:
        quota = draft.get(QUOTA, (send.scope_id, name)) or allowance.Quota()
        if all(mark != send.id for _, mark in quota.taken):
            once_more = allowance.reserve(quota, send.id, now, EPOCH)
            draft.put(QUOTA, (send.scope_id, name), once_more)


def _next_claim(draft: Draft, claim: Claim, ended: Delivery) -> Claim | None:
    """The claim as another send of the same session holds it, None where there is none.

    One in doubt that is set aside is behind those in the lane: it may have been said.
    """
    pages = (
        Page(IN_LANE, (ended.conversation, LOOK)),
        Page(DELIVERIES_OF, (ended.conversation, LATEST, 0, 0, LOOK)),
    )
    for page in pages:
        rows = draft.page(page)
        for row in fetch(draft, DELIVERY, [(one.conversation, one.id) for one in rows]):
            own = row is not None and row.id != ended.id and row.session == claim.session
            if row is None or not own or row.right != delivery.CLAIM:
                continue
            if row.state in OPEN_STATES:
                return replace(claim, delivery=row.id)
    return None


def _outcome(one: Tried, after: Delivery, now: datetime) -> Tried:
    if (one.conversation, one.delivery) != (after.conversation, after.id):
        return one
    return replace(one, outcome=after.state.value, reason=after.reason, at=now)


def give_back(draft: Draft, send: Send) -> None:
    """Refund what a send that failed had reserved."""
    for name in _counted_as(draft, send):
        quota = draft.get(QUOTA, (send.scope_id, name))
        if quota is not None:
            draft.put(QUOTA, (send.scope_id, name), allowance.refund(quota, send.id))


def _counted_as(draft: Draft, send: Send) -> list[str]:
    """What it is counted under. Who it is for may have turned out to be somebody else meanwhile,
    and so may the place: what was counted is counted there too."""
    names, places = set(send.reserved), _places(draft, send)
    if send.person is not None and recipient(send.person) in names:
        met = [contact_of(draft, one) for one in places]
        ids = [send.person, *(one.person for one in met if one is not None)]
        subjects = [heir_of(draft, one) for one in ids]
        names.update(recipient(one.id) for one in subjects if one is not None)
    for place in places:
        if recipient(place.id) in names and place.about.moved_to is not None:
            names.add(recipient(place.about.moved_to))
    return sorted(names)


def _places(draft: Draft, send: Send) -> list[Conversation]:
    """Where it was tried."""
    numbers = [one.conversation for one in send.tried if one.conversation is not None]
    rows = fetch(draft, CONVERSATION, list(dict.fromkeys(numbers)))
    return [one for one in rows if one is not None]
