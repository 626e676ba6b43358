"""One attempt: what the head of a lane needs before its first byte leaves, and what comes back.

`begin` commits the mark just before the call: a death before it repeats, a death after it is
uncertain. `refuse` and `doubt` are verdicts, refused where the lane was taken over meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from threadline.core.adapters import Account, Adapter, Capabilities, Lookup, Registration
from threadline.core.claims import has_another
from threadline.core.deliveries import Delivery, DeliveryState, Failure, Wait
from threadline.core.draft import Draft
from threadline.core.echoes import release_echoes
from threadline.core.ids import public
from threadline.core.lanes import (
    busy,
    capabilities_of,
    free,
    give_up,
    heads_of,
    is_leased,
    key_of,
    lane_of,
    part_text,
    registration_of,
    save,
)
from threadline.core.model import Conversation, ConversationRef
from threadline.core.ports import DELIVERY, LANE, WAIT, Missing, Needs
from threadline.core.publishing import lost
from threadline.core.rules import pacing
from threadline.core.rules.limits import Limits
from threadline.core.rules.pacing import Pace
from threadline.core.seating import heir
from threadline.core.uploads import lent
from threadline.core.wire import ApiCall, ApiResponse, Bucket, Doubt, OutboundMessage, Refused, Sent

Unsealed = Callable[[Draft, Registration], Account]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A call that was marked: from here on a death leaves it uncertain.

    One that only `looks` asks whether an uncertain message is there, and says nothing.
    """

    conversation: int
    delivery: int
    part: int
    number: int
    fence: int
    provider: str
    account: str
    adapter: Adapter
    call: ApiCall
    looks: bool = False

    def read(self, call: ApiCall, answer: ApiResponse) -> ApiCall | Sent | Refused | Doubt:
        """What an answer means to this attempt."""
        dialect: Any = self.adapter
        step: ApiCall | Sent | Refused | Doubt
        step = dialect.found(call, answer) if self.looks else dialect.read(call, answer)
        return step


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Nothing to be called now. `again` says that the lane has to be looked at once more."""

    until: datetime | None = None
    again: bool = False


def begin(
    draft: Draft,
    conversation: Conversation,
    owner: str,
    now: datetime,
    *,
    ticket: int,
    limits: Limits,
    pace: Pace,
    chance: float,
    dialect: Callable[[Account], Adapter | None],
    account: Unsealed,
) -> Attempt | Rest:
    """Take the lane, settle what stands at its head without a call, and mark the next call."""
    lane = lane_of(draft, conversation.id)
    again = bool(ticket) and lane.ticket == ticket
    if is_leased(lane, now) and not again:
        return Rest(until=lane.due_at)
    if lane.owner and not again:
        # The lease ran out: whoever had it is dead or asleep, and its verdicts count no more.
        lane = replace(lane, owner="", fence=lane.fence + 1)
        draft.put(LANE, conversation.id, lane)
    registration = registration_of(draft, conversation.ref)
    can = capabilities_of(registration)
    release_echoes(draft, conversation.id, now, limits)
    heads = heads_of(draft, conversation.id)
    for head in heads[:SETTLED_AT_ONCE]:
        if again and head.state is DeliveryState.SENDING:
            # This very mark was committed, and nobody knew: no byte left under it yet.
            head = replace(head, state=DeliveryState.PENDING, attempts=head.attempts - 1)
        head = _look(draft, conversation, head, now, can, limits, pace, chance)
        if not head.in_lane:
            continue
        there = None if registration is None else account(draft, registration)
        adapter = None if there is None else dialect(there)
        asking: object = adapter
        at = pacing.looks_at(head, now, can, pace) if isinstance(asking, Lookup) else None
        if at is not None and head.due_at is not None:
            if now >= at:
                return _ask(draft, conversation, head, owner, ticket, now, pace, adapter)
            head = replace(head, due_at=min(at, head.due_at))
        if head.due_at is not None and now < head.due_at:
            return _rest(draft, conversation.id, head, head.due_at, now)
        if adapter is None:
            if head.reason != NO_ADAPTER:
                head = pacing.stepped(head, head.state, now, NO_ADAPTER)
                head = replace(head, reason=NO_ADAPTER, failure=None)
                save(draft, head, now)
            return _rest(draft, conversation.id, head, now + pace.no_adapter, now)
        call = _rendered(adapter, lent(draft, message_of(draft, conversation, head), can, now))
        if isinstance(call, str):
            failed = pacing.ended(head, DeliveryState.FAILED, now, call, Failure.UNSUPPORTED)
            give_up(draft, conversation, failed, now, limits)
            continue
        until = _closed(draft, conversation.ref, call.route, now)
        if until is not None and head.state is DeliveryState.PENDING:
            waits = pacing.waiting(head, until, now, "the account is limited")
            if not waits.in_lane:
                give_up(draft, conversation, waits, now, limits)
                continue
            save(draft, waits, now)
            return _rest(draft, conversation.id, waits, until, now)
        if until is not None:
            return _rest(draft, conversation.id, head, until, now)
        return _mark(draft, conversation, head, owner, ticket, now, pace, adapter, call)
    release_echoes(draft, conversation.id, now, limits)
    lane = lane_of(draft, conversation.id)
    if not heads:
        lane = replace(lane, waiting=0)
    more = busy(draft, lane)
    draft.put(LANE, conversation.id, replace(lane, owner="", due_at=now if more else None))
    return Rest(again=more)


# More of them in one transaction would ask for more rows than a story may in its rounds.
SETTLED_AT_ONCE = 4
SAYS_NOTHING = frozenset({Failure.RATE_LIMITED, Failure.TRANSIENT, Failure.AUTH})
NO_ADAPTER = "nobody speaks for this account at the moment."


def _look(
    draft: Draft,
    conversation: Conversation,
    head: Delivery,
    now: datetime,
    can: Capabilities,
    limits: Limits,
    pace: Pace,
    chance: float,
) -> Delivery:
    """What the head of the lane has become meanwhile, written down where that changed."""
    if head.state is DeliveryState.SENDING:
        reason = "the attempt ended without a word; it may have been said."
        head = pacing.doubted(head, reason, now, chance, can, pace)
        save(draft, head, now)
    if head.state is DeliveryState.UNCERTAIN:
        gone = lost(draft, conversation, head, heir(draft, head.session), now)
        if not gone and pacing.may_repeat(head, now, can, pace):
            return head
        since = head.uncertain_at or now
        if now < since + can.settle_within:
            return replace(head, due_at=since + can.settle_within)
        head = pacing.park(head, now)
        save(draft, head, now)
        return head
    if pacing.is_expired(head, now):
        return give_up(draft, conversation, pacing.expired(head, now), now, limits)
    if reason := lost(draft, conversation, head, heir(draft, head.session), now):
        ended = pacing.ended(head, DeliveryState.CANCELLED, now, reason)
        return give_up(draft, conversation, ended, now, limits)
    return head


def _rest(draft: Draft, conversation: int, head: Delivery, until: datetime, now: datetime) -> Rest:
    """The lane waits for its head, no longer than that may live, nor while echoes may go on."""
    if head.state is DeliveryState.PENDING and head.expires_at is not None:
        until = min(until, head.expires_at)
    lane = lane_of(draft, conversation)
    there = draft.taken(conversation)
    if head.state is DeliveryState.PENDING and there is not None and there.about.echoes:
        until = now
    draft.put(LANE, conversation, replace(lane, owner="", due_at=until))
    return Rest(until=until)


def _rendered(adapter: Adapter, message: OutboundMessage) -> ApiCall | str:
    """The call, or why there is none: a dialect's defect ends one message, not the lane."""
    try:
        return adapter.render(message)
    except Exception as error:
        return f"the adapter cannot render it ({type(error).__name__})."


def _closed(draft: Draft, ref: ConversationRef, route: str, now: datetime) -> datetime | None:
    """Until when the account or this route of it must not be called."""
    found: datetime | None = None
    for name in dict.fromkeys(("", route)):
        wait = draft.get(WAIT, (ref.scope_id, ref.provider, ref.account_id, name))
        if wait is not None and wait.until is not None and now < wait.until:
            found = wait.until if found is None else max(found, wait.until)
    return found


def message_of(draft: Draft, conversation: Conversation, head: Delivery) -> OutboundMessage:
    """What the adapter is asked to say."""
    session = heir(draft, head.session)
    return OutboundMessage(
        conversation=replace(conversation.ref, kind=conversation.kind),
        text=part_text(head),
        key=key_of(head),
        session_id="" if session is None else session.name,
        delivery=f"{public(head.conversation)}.{public(head.id)}",
        reply_to=head.reply_to if head.part == 1 else None,
        attachments=head.attachments if head.part == 1 else (),
        part=head.part,
        parts=head.parts,
        attempt=head.attempts + 1,
        called_at=head.called_at,
        metadata=head.metadata,
    )


def _mark(
    draft: Draft,
    conversation: Conversation,
    head: Delivery,
    owner: str,
    ticket: int,
    now: datetime,
    pace: Pace,
    adapter: Adapter,
    call: ApiCall,
) -> Attempt:
    number = head.attempts + 1
    marked = replace(
        pacing.stepped(head, DeliveryState.SENDING, now, f"attempt {number}"),
        attempts=number,
        due_at=None,
        called_at=head.called_at or now,
    )
    save(draft, marked, now)
    return Attempt(
        conversation=conversation.id,
        delivery=head.id,
        part=head.part,
        number=number,
        fence=_leased(draft, conversation.id, owner, ticket, now, pace),
        provider=conversation.ref.provider,
        account=conversation.ref.account_id,
        adapter=adapter,
        call=call,
    )


def _ask(
    draft: Draft,
    conversation: Conversation,
    head: Delivery,
    owner: str,
    ticket: int,
    now: datetime,
    pace: Pace,
    adapter: Any,
) -> Attempt:
    """Ask whether an uncertain message is there: it stays what it is until that is known."""
    looked = replace(
        pacing.stepped(head, head.state, now, "asked whether it is there"),
        looks=head.looks + 1,
        due_at=None,
    )
    save(draft, looked, now)
    return Attempt(
        conversation=conversation.id,
        delivery=head.id,
        part=head.part,
        number=head.attempts,
        fence=_leased(draft, conversation.id, owner, ticket, now, pace),
        provider=conversation.ref.provider,
        account=conversation.ref.account_id,
        adapter=adapter,
        call=adapter.look_up(message_of(draft, conversation, head)),
        looks=True,
    )


def _leased(
    draft: Draft, conversation: int, owner: str, ticket: int, now: datetime, pace: Pace
) -> int:
    """Lease the lane for one call; answers the fence."""
    lane = lane_of(draft, conversation)
    lane = replace(lane, owner=owner, ticket=ticket, fence=lane.fence + 1, due_at=now + pace.lease)
    draft.put(LANE, conversation, lane)
    return lane.fence


def told(call: ApiCall, outcome: Sent | Refused | Doubt) -> Sent | Refused | Doubt:
    """What an outcome means: where nobody could have seen anything, there is nothing to doubt."""
    if call.unseen and isinstance(outcome, Doubt):
        return Refused(failure=Failure.TRANSIENT, reason=outcome.reason)
    return outcome


def under_way(draft: Draft, attempt: Attempt) -> Delivery | None:
    """The delivery an attempt's verdict is about; None where the verdict does not count any more.

    The lane was taken over, or a proof came first (G14).
    """
    delivery = draft.get(DELIVERY, (attempt.conversation, attempt.delivery))
    lane = lane_of(draft, attempt.conversation)
    if delivery is None or lane.fence != attempt.fence:
        return None
    if delivery.state is not DeliveryState.SENDING or delivery.attempts != attempt.number:
        return None
    return delivery


def refuse(
    draft: Draft,
    conversation: Conversation,
    attempt: Attempt,
    refusal: Refused,
    now: datetime,
    *,
    limits: Limits,
    pace: Pace,
    chance: float,
) -> Delivery | None:
    """The provider said no. None where this verdict came too late to count."""
    delivery = under_way(draft, attempt)
    if delivery is None:
        free(draft, conversation.id, attempt.fence, now)
        return None
    if refusal.failure is Failure.RATE_LIMITED:
        _limit(draft, conversation, attempt.call.route, refusal, now, pace)
    if delivery.uncertain_at is not None and refusal.failure in SAYS_NOTHING:
        # A repeat was turned away before anybody looked at its key: the first call is as doubtful
        # as it was.
        can = capabilities_of(registration_of(draft, conversation.ref))
        after = pacing.doubted(delivery, refusal.reason, now, chance, can, pace)
        if refusal.wait is not None and after.due_at is not None:
            later = max(after.due_at, now + pacing.stated(refusal.wait, pace))
            after = replace(after, due_at=later)
    else:
        # It certainly was not said, so the next attempt of this part is a first one again.
        another = refusal.failure is Failure.TRANSIENT and has_another(draft, delivery)
        after = pacing.refused(delivery, refusal, now, chance, pace, another=another)
        after = replace(after, called_at=None, uncertain_at=None)
    if after.in_lane:
        save(draft, after, now)
    else:
        after = give_up(draft, conversation, after, now, limits)
    free(draft, conversation.id, attempt.fence, now)
    if after.in_lane and after.due_at is not None:
        _rest(draft, conversation.id, after, after.due_at, now)
    return after


def _limit(
    draft: Draft,
    conversation: Conversation,
    route: str,
    refusal: Refused,
    now: datetime,
    pace: Pace,
) -> None:
    """Write down which bucket waits: it survives a restart and holds for all nodes."""
    ref = conversation.ref
    key = (ref.scope_id, ref.provider, ref.account_id, "")
    before = _held_wait(draft, key)
    bucket, account = pacing.limited(before, refusal, conversation.id, now, pace)
    if account != before:
        draft.put(WAIT, key, account)
    if bucket is Bucket.ROUTE:
        own = (*key[:3], route)
        until = now + pacing.stated(refusal.wait, pace)
        draft.put(WAIT, own, pacing.later(_held_wait(draft, own), until))


def _held_wait(draft: Draft, key: tuple[str, str, str, str]) -> Wait:
    try:
        return draft.get(WAIT, key) or Wait()
    except Missing:
        raise Missing(Needs(hold=[(WAIT, key)])) from None


def doubt(
    draft: Draft,
    conversation: Conversation,
    attempt: Attempt,
    reason: str,
    now: datetime,
    *,
    limits: Limits,
    pace: Pace,
    chance: float,
) -> Delivery | None:
    """No answer, or one that tells nothing. None where this verdict came too late to count."""
    delivery = under_way(draft, attempt)
    if delivery is None:
        free(draft, conversation.id, attempt.fence, now)
        return None
    can = capabilities_of(registration_of(draft, conversation.ref))
    after = pacing.doubted(delivery, reason, now, chance, can, pace)
    if after.due_at is not None and after.due_at <= now:
        after = pacing.park(after, now)
    save(draft, after, now)
    free(draft, conversation.id, attempt.fence, now)
    if after.in_lane and after.due_at is not None:
        # Where the provider can be asked whether it is there, that comes first.
        look = pacing.looks_at(after, now, can, pace)
        until = after.due_at if look is None else min(look, after.due_at)
        _rest(draft, conversation.id, after, until, now)
    return after
