"""Pushing to a session: where to, whether it was proven, and how its answers are read.

A target is told everything again until it acknowledges: it answers `{"ack": n}`, and only that
moves the session's cursor. Whatever else it answers says at most that the batch was delivered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from threadline.core.model import Word
from threadline.core.outside import Answer, Fault
from threadline.core.quick import quick
from threadline.core.values import json_object

MAX_RECORDS = 100
MAX_BYTES = 1024 * 1024


class PushState(Word):
    """What a target gets: nothing unless it was proven, less often while it fails, nothing any more
    once it said that it is gone."""

    UNPROVEN = "unproven"
    PROVEN = "proven"
    FAILING = "failing"
    STOPPED = "stopped"


ACTIVE = frozenset({PushState.PROVEN, PushState.FAILING})


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class PushTarget:
    """Where a session is pushed to. `sealed` is its signing secret under the store's key.

    Whoever pushes holds a lease until `leased_until`; the `fence` rises with each holder and with
    each new target, so that one who was replaced can say nothing more in its name.
    """

    session: int
    url: str
    sealed: str
    set_by: str
    token_id: str | None = None
    created_at: datetime
    proven_at: datetime | None = None
    state: PushState = PushState.UNPROVEN
    failures: int = 0
    last_error: Fault | None = None
    last_error_at: datetime | None = None
    next_attempt_at: datetime | None = None
    fence: int = 0
    leased_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushPace:
    """The spans of pushing. A lease outlasts the longest call, `call`, by far; a wait that a target
    asks for is honoured up to `longest_asked`; `scan` is how often targets are looked for."""

    first_wait: timedelta = timedelta(seconds=1)
    longest_wait: timedelta = timedelta(minutes=5)
    longest_asked: timedelta = timedelta(days=1)
    lease: timedelta = timedelta(seconds=60)
    call: timedelta = timedelta(seconds=20)
    scan: timedelta = timedelta(seconds=2)
    calls: int = 8
    rooms: int = 1_000


PACE = PushPace()


def backoff(failures: int, chance: float, pace: PushPace = PACE) -> timedelta:
    """How long to wait after so many failures in a row; `chance`, 0 to 1, spreads it over its half.

    >>> [backoff(n, 1.0).total_seconds() for n in (1, 2, 3, 99)]
    [1.0, 2.0, 4.0, 300.0]
    >>> backoff(1, 0.0).total_seconds()
    0.5
    """
    whole: timedelta = min(pace.longest_wait, pace.first_wait * 2 ** min(max(failures, 1) - 1, 30))
    return whole * (0.5 + chance / 2)


def asked_wait(value: str | None, now: datetime, pace: PushPace = PACE) -> timedelta | None:
    """What a `Retry-After` asks for, in seconds or as a date; None where it says nothing.

    >>> asked_wait("120", datetime(2026, 1, 1, tzinfo=UTC)).total_seconds()
    120.0
    >>> asked_wait("Thu, 01 Jan 2026 00:01:00 GMT", datetime(2026, 1, 1, tzinfo=UTC)).seconds
    60
    >>> asked_wait("soon", datetime(2026, 1, 1, tzinfo=UTC)) is None
    True
    """
    text = (value or "").strip()
    if text.isascii() and text.isdecimal():
        longest = int(pace.longest_asked.total_seconds())
        return timedelta(seconds=longest if len(text) > 9 else min(int(text), longest))
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return min(max(at - now, timedelta()), pace.longest_asked)


def fault_of(answer: Answer) -> Fault | None:
    """What is wrong with an answer's status, None for a 2xx."""
    match answer.status:
        case 410:
            return Fault.GONE
        case 429:
            return Fault.RATE_LIMITED
        case status if 200 <= status < 300:
            return None
        case status if 300 <= status < 400:
            return Fault.REDIRECT
        case status if status < 500:
            return Fault.CLIENT_ERROR
    return Fault.SERVER_ERROR


def ack_of(answer: Answer, first: int, last: int) -> int | Fault:
    """The sequence an answer acknowledges, or why it acknowledges nothing.

    >>> ack_of(Answer(200, {}, b'{"ack": 2}'), 1, 3)
    2
    >>> str(ack_of(Answer(200, {}, b"ok"), 1, 3))
    'not_acknowledged'
    >>> str(ack_of(Answer(200, {}, b'{"ack": 4}'), 1, 3))
    'wrong_acknowledgement'
    """
    said = said_in(answer, "ack")
    if answer.status != 200 or said is None:
        return Fault.NOT_ACKNOWLEDGED
    if isinstance(said, bool) or not isinstance(said, int) or not first <= said <= last:
        return Fault.WRONG_ACKNOWLEDGEMENT
    return said


def said_in(answer: Answer, name: str) -> object:
    """A field of an answer that is a JSON object, None where it is none."""
    return json_object(answer.body).get(name)


def failed(target: PushTarget, fault: Fault, now: datetime, wait: timedelta) -> PushTarget:
    """The target after a call that went wrong. One that says it is gone is stopped.

    Calls that were under way together fail together: that is one failure, not many.
    """
    until = now + wait
    if fault is Fault.GONE:
        return replace(
            target,
            state=PushState.STOPPED,
            last_error=fault,
            last_error_at=now,
            next_attempt_at=None,
            leased_until=None,
        )
    resting = target.next_attempt_at is not None and target.next_attempt_at > now
    return replace(
        target,
        state=PushState.FAILING,
        failures=target.failures + (0 if resting else 1),
        last_error=fault,
        last_error_at=now,
        next_attempt_at=max(until, target.next_attempt_at or until),
    )


def delivered(target: PushTarget, fault: Fault | None, now: datetime) -> PushTarget:
    """The target after a call that arrived; `fault` says why nothing was acknowledged by it.

    The same object where nothing changed: a target that works costs no write a batch.
    """
    if target.state is PushState.PROVEN and not target.failures and target.last_error is fault:
        return target
    return replace(
        target,
        state=PushState.PROVEN,
        failures=0,
        next_attempt_at=None,
        last_error=fault,
        last_error_at=None if fault is None else now,
    )


def batch_id(session: str, conversation: str, first: int, last: int) -> str:
    """A batch's `webhook-id`: the same for the same batch, whoever sends it and however often."""
    return f"push_{session}_{conversation}_{first}_{last}"
