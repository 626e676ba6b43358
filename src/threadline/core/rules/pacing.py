"""How often and how long a delivery is tried: back-off, rate limits, time to live, doubt.

Every function takes a delivery and gives it back as it is after what happened. Chance is an
argument, as the clock is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from threadline.core.adapters import Capabilities
from threadline.core.deliveries import Delivery, DeliveryState, Failure, Step, Wait
from threadline.core.errors import InvalidInput
from threadline.core.wire import Bucket, Refused

TRAIL = 40
REASON = 500
LATE = timedelta(minutes=1)
LONGEST_LIFE = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The spans of the outbox.

    Failures that pass end nothing while a message may live: an outage shorter than `time_to_live`
    drops nothing. Only where another channel is left does one give way to it, after `max_failures`.

    `lease` outlasts the longest call. Without a stated wait a rate limit waits `unstated`; a second
    limit of an unknown bucket elsewhere within `elsewhere` is taken for the account's. `looks` are
    how long after it became uncertain a message is looked for, where the provider can be asked.
    """

    time_to_live: timedelta = timedelta(hours=1)
    lease: timedelta = timedelta(seconds=60)
    first_wait: timedelta = timedelta(seconds=1)
    longest_wait: timedelta = timedelta(minutes=5)
    max_failures: int = 12
    unstated: timedelta = timedelta(seconds=5)
    elsewhere: timedelta = timedelta(seconds=10)
    no_adapter: timedelta = timedelta(seconds=30)
    looks: tuple[timedelta, ...] = tuple(timedelta(seconds=one) for one in (2, 10, 45))


PACE = Pace()


def stepped(delivery: Delivery, state: DeliveryState, now: datetime, note: str = "") -> Delivery:
    """The delivery in a state, with the step in its trail; the middle of a long one is left out."""
    trail = (*delivery.trail, Step(now, state, note[:REASON]))
    if len(trail) > TRAIL:
        trail = (*trail[: TRAIL // 2], *trail[-TRAIL // 2 :])
    return replace(delivery, state=state, trail=trail)


def ended(
    delivery: Delivery,
    state: DeliveryState,
    now: datetime,
    reason: str,
    failure: Failure | None = None,
) -> Delivery:
    """The delivery at a terminal state. Its words are kept: a person may resend them."""
    reason = reason[:REASON]
    return replace(
        stepped(delivery, state, now, reason),
        settled_at=now,
        reason=reason,
        failure=failure,
        due_at=None,
        parked=False,
    )


def backoff(failures: int, chance: float, pace: Pace) -> timedelta:
    """How long to wait after so many failures; `chance` from 0 to 1 spreads it over its half.

    >>> [backoff(n, 1.0, PACE).total_seconds() for n in (1, 2, 3, 30)]
    [1.0, 2.0, 4.0, 300.0]
    >>> backoff(2, 0.0, PACE).total_seconds()
    1.0
    """
    whole: timedelta = min(pace.longest_wait, pace.first_wait * 2 ** min(failures - 1, 32))
    return whole * (0.5 + min(max(chance, 0.0), 1.0) / 2)


def stated(wait: float | None, pace: Pace) -> timedelta:
    """A provider's wait as a span: nonsense is the unstated one, the end of time is a century.

    >>> [stated(wait, PACE).total_seconds() for wait in (30, 0, -1, None, float("nan"))]
    [30.0, 5.0, 5.0, 5.0, 5.0]
    """
    if wait is None or math.isnan(wait) or wait <= 0:
        return pace.unstated
    return timedelta(seconds=min(wait, 3_155_760_000.0))


def is_expired(delivery: Delivery, now: datetime) -> bool:
    """Whether it is too old to be said."""
    return delivery.expires_at is not None and now >= delivery.expires_at


def expired(delivery: Delivery, now: datetime) -> Delivery:
    """What was not said in its time is not said at all; it says what kept it from being said."""
    reason = "it is older than its time to live; it was not sent."
    if delivery.failure is Failure.TRANSIENT:
        reason += f" {delivery.failures} attempts failed, the last one: {delivery.reason}"
    elif delivery.reason:
        reason += f" {delivery.reason}"
    return ended(delivery, DeliveryState.EXPIRED, now, reason, delivery.failure)


def lifetime(given: timedelta | None, pace: Pace) -> Pace:
    """The pace of a message that may live so long. Raises `InvalidInput`."""
    if given is None:
        return pace
    if not timedelta(seconds=1) <= given <= LONGEST_LIFE:
        raise InvalidInput("a message lives for 1 second to 30 days.", field="time_to_live")
    return replace(pace, time_to_live=given)


def is_late(delivery: Delivery) -> bool:
    """Whether its last attempt came so late that its readers are told when it was written.

    By our own clock, which both times are from: a platform's may say anything.
    """
    called = (one.at for one in reversed(delivery.trail) if one.state is DeliveryState.SENDING)
    last = next(called, None)
    return last is not None and last - delivery.created_at >= LATE


def refused(
    delivery: Delivery,
    refusal: Refused,
    now: datetime,
    chance: float,
    pace: Pace,
    *,
    another: bool = False,
) -> Delivery:
    """What a refusal makes of it: it waits, or it has failed. It certainly was not said.

    What passes is waited for as long as the message may live. Where there is `another` channel for
    it, that one is tried after so many failures.
    """
    reason = refusal.reason or refusal.failure.value
    match refusal.failure:
        case Failure.RATE_LIMITED:
            return waiting(delivery, now + stated(refusal.wait, pace), now, reason)
        case Failure.TRANSIENT:
            failures = delivery.failures + 1
            if another and failures >= pace.max_failures:
                return ended(
                    replace(delivery, failures=failures),
                    DeliveryState.FAILED,
                    now,
                    f"{failures} attempts failed, the last one: {reason}",
                    Failure.TRANSIENT,
                )
            wait = backoff(failures, chance, pace)
            if refusal.wait is not None:
                wait = max(wait, stated(refusal.wait, pace))
            back = stepped(delivery, DeliveryState.PENDING, now, reason)
            return replace(
                back,
                failures=failures,
                failure=Failure.TRANSIENT,
                reason=reason[:REASON],
                due_at=_no_later(now + wait, delivery.expires_at),
            )
        case _:
            return ended(delivery, DeliveryState.FAILED, now, reason, refusal.failure)


def waiting(delivery: Delivery, until: datetime, now: datetime, reason: str) -> Delivery:
    """Behind a rate limit, which costs no attempt; one that outlasts its time to live ends it."""
    if delivery.expires_at is not None and until >= delivery.expires_at:
        return ended(
            delivery,
            DeliveryState.EXPIRED,
            now,
            f"the provider asks to wait until {until:%Y-%m-%d %H:%M:%S} UTC, which is past its "
            f"time to live ({reason})",
            Failure.RATE_LIMITED,
        )
    back = stepped(delivery, DeliveryState.PENDING, now, f"until {until:%H:%M:%S} UTC: {reason}")
    return replace(back, failure=Failure.RATE_LIMITED, reason=reason[:REASON], due_at=until)


def _no_later(at: datetime, end: datetime | None) -> datetime:
    return at if end is None else min(at, end)


def doubted(
    delivery: Delivery,
    reason: str,
    now: datetime,
    chance: float,
    can: Capabilities,
    pace: Pace,
) -> Delivery:
    """It may have been said: it waits for what settles it, and is repeated only where that is safe.

    `due_at` is when its lane may look at it again.
    """
    failures = delivery.failures + 1
    doubtful = replace(
        stepped(delivery, DeliveryState.UNCERTAIN, now, reason),
        uncertain_at=delivery.uncertain_at or now,
        failures=failures,
        reason=reason[:REASON],
        failure=None,
    )
    again = now + backoff(failures, chance, pace)
    if may_repeat(doubtful, again, can, pace):
        return replace(doubtful, due_at=again)
    return replace(doubtful, due_at=now + can.settle_within)


def may_repeat(delivery: Delivery, now: datetime, can: Capabilities, pace: Pace) -> bool:
    """Whether the provider's own key makes a second call harmless."""
    if not can.idempotent or is_expired(delivery, now):
        return False
    if can.idempotent_for is None or delivery.called_at is None:
        return True
    return now < delivery.called_at + can.idempotent_for


def looks_at(delivery: Delivery, now: datetime, can: Capabilities, pace: Pace) -> datetime | None:
    """When the provider is asked whether an uncertain message is there; None where it is not."""
    if delivery.state is not DeliveryState.UNCERTAIN or delivery.uncertain_at is None:
        return None
    if delivery.looks >= len(pace.looks) or may_repeat(delivery, now, can, pace):
        return None
    return delivery.uncertain_at + pace.looks[delivery.looks]


def park(delivery: Delivery, now: datetime) -> Delivery:
    """Set aside: its lane goes on, a receipt or a person settles it."""
    note = "parked: nothing settled it in time, its lane goes on"
    return replace(stepped(delivery, DeliveryState.UNCERTAIN, now, note), parked=True, due_at=None)


def limited(
    account: Wait, refusal: Refused, conversation: int, now: datetime, pace: Pace
) -> tuple[Bucket, Wait]:
    """Which bucket a rate limit fills, and the account's row after it.

    An unknown one is the conversation's; a second one elsewhere shortly after is the account's.
    """
    bucket = refusal.bucket
    if bucket is None:
        elsewhere = (
            account.limited_at is not None
            and account.limited_in != conversation
            and now - account.limited_at < pace.elsewhere
        )
        bucket = Bucket.ACCOUNT if elsewhere else Bucket.CONVERSATION
        account = replace(account, limited_at=now, limited_in=conversation)
    if bucket is Bucket.ACCOUNT:
        account = later(account, now + stated(refusal.wait, pace))
    return bucket, account


def later(wait: Wait, until: datetime) -> Wait:
    """A bucket that waits at least until then."""
    return wait if wait.until is not None and wait.until >= until else replace(wait, until=until)
