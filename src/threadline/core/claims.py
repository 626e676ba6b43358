"""A claim: the binding that waits until what a session said first is confirmed.

While the send is under way the answer already finds its author (H13). The confirmed one becomes the
binding, or in a group the last addressed; one that failed leaves nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from threadline.core.auditing import audit
from threadline.core.deliveries import Delivery, DeliveryState
from threadline.core.draft import Draft
from threadline.core.ids import public
from threadline.core.joining import heir_of, recipient
from threadline.core.model import ALL, Claim, Conversation, Reason
from threadline.core.people import BY_SYSTEM
from threadline.core.ports import DELIVERY, IN_LANE, QUOTA, SEND, Page, fetch
from threadline.core.rules import allowance, binding, delivery
from threadline.core.seating import heir, seat
from threadline.core.sends import Send, SendState, Tried
from threadline.core.unseating import end_grant

LOOK = 100
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ENDED = {
    DeliveryState.DELIVERED: SendState.DELIVERED,
    DeliveryState.FAILED: SendState.FAILED,
    DeliveryState.EXPIRED: SendState.EXPIRED,
    DeliveryState.CANCELLED: SendState.CANCELLED,
    DeliveryState.UNCERTAIN: SendState.UNCERTAIN,
}


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
    """What the end of a delivery means to the send it belongs to: claim, limits, next channel."""
    if after.send is None:
        return
    # One in doubt that is set aside keeps its state; only then is its send uncertain.
    if before is not None and (before.state, before.parked) == (after.state, after.parked):
        return
    if after.state not in ENDED or (after.state is DeliveryState.UNCERTAIN and not after.parked):
        return
    # What the platform took and then could not hand on reached nobody. It was taken, though, so
    # nothing else is tried.
    taken = bool(after.message_ids)
    undone = before is not None and before.state is DeliveryState.DELIVERED
    out = taken and not (undone and after.state is DeliveryState.FAILED)
    conversation = draft.taken(after.conversation)
    claim = None if conversation is None else conversation.about.claim
    if conversation is not None and claim is not None and claim.session == after.session:
        if out:
            become(draft, conversation, now)
        elif claim.delivery == after.id and after.state is not DeliveryState.UNCERTAIN:
            about = replace(conversation.about, claim=_next_claim(draft, claim, after))
            draft.save(replace(conversation, about=about))
    send = draft.get(SEND, after.send)
    if send is None:
        return
    if not out and _said_elsewhere(send, after):
        # Another channel said it meanwhile: this one changes neither its end nor what it counted.
        tried = tuple(_outcome(one, after, now) for one in send.tried)
        draft.put(SEND, send.id, replace(send, tried=tried, step=send.step + 1))
        return
    clean = not taken and after.state in (DeliveryState.FAILED, DeliveryState.EXPIRED)
    tried = tuple(_outcome(one, after, now) for one in send.tried)
    goes_on = clean and after.state is DeliveryState.FAILED and bool(send.left)
    state = SendState.OPEN if goes_on else ENDED[after.state]
    if out:
        state = SendState.DELIVERED
    send = replace(
        send,
        tried=tried,
        state=state,
        reason=after.reason,
        due_at=now if goes_on else None,
        step=send.step + 1,
    )
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
    if not out and after.state is not DeliveryState.UNCERTAIN:
        give_back(draft, send)


def _said_elsewhere(send: Send, ended: Delivery) -> bool:
    return any(
        one.outcome == DeliveryState.DELIVERED.value
        and (one.conversation, one.delivery) != (ended.conversation, ended.id)
        for one in send.tried
    )


def reopen(draft: Draft, conversation: Conversation, again: Delivery, now: datetime) -> None:
    """A send that somebody lets be said once more counts again, and waits for its answer again."""
    send = None if again.send is None else draft.get(SEND, again.send)
    if send is None:
        return
    about = conversation.about
    free = about.claim is None and about.group is None and binding.current(about, now) is None
    if again.right == delivery.CLAIM and free:
        make(draft, conversation, again.session, again.id, None)
    # First, so that the chain is read before what is counted: another node that counts at the same
    # moment then writes the same number of the chain, and one of the two begins anew.
    audit(
        draft,
        send.scope_id,
        BY_SYSTEM,
        "send.resent",
        now,
        subject=public(send.id),
        delivery=f"{public(again.conversation)}.{public(again.id)}",
    )
    for name in send.reserved:
        quota = draft.get(QUOTA, (send.scope_id, name)) or allowance.Quota()
        if all(mark != send.id for _, mark in quota.taken):
            once_more = allowance.reserve(quota, send.id, now, EPOCH)
            draft.put(QUOTA, (send.scope_id, name), once_more)
    if not _said_elsewhere(send, again):
        tried = tuple(_outcome(one, again, now) for one in send.tried)
        state = SendState.OPEN
        draft.put(SEND, send.id, replace(send, state=state, tried=tried, step=send.step + 1))


def _next_claim(draft: Draft, claim: Claim, ended: Delivery) -> Claim | None:
    """The claim as another send of the same session holds it, None where there is none."""
    rows = draft.page(Page(IN_LANE, (ended.conversation, LOOK)))
    for row in fetch(draft, DELIVERY, [(one.conversation, one.id) for one in rows]):
        own = row is not None and row.id != ended.id and row.session == claim.session
        if row is not None and own and row.in_lane and row.right == delivery.CLAIM:
            return replace(claim, delivery=row.id)
    return None


def _outcome(one: Tried, after: Delivery, now: datetime) -> Tried:
    if (one.conversation, one.delivery) != (after.conversation, after.id):
        return one
    return replace(one, outcome=after.state.value, reason=after.reason, at=now)


def give_back(draft: Draft, send: Send) -> None:
    """Refund what a send that failed had reserved."""
    names = set(send.reserved)
    person = heir_of(draft, send.person)
    if person is not None and send.person is not None and recipient(send.person) in names:
        # Who it was for may have turned out to be somebody else meanwhile.
        names.add(recipient(person.id))
    for name in sorted(names):
        quota = draft.get(QUOTA, (send.scope_id, name))
        if quota is not None:
            draft.put(QUOTA, (send.scope_id, name), allowance.refund(quota, send.id))
