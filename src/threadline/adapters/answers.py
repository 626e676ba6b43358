"""What answers have in common, whoever gives them: bare statuses, waits, codes."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any

from threadline.core.deliveries import Failure
from threadline.core.wire import ApiResponse, Doubt, Refused

NO_CODE = -1


def failure_of(status: int) -> Failure | None:
    """What a status that says no stands for; None where it tells neither."""
    match status:
        case 401 | 403 | 407:
            return Failure.AUTH
        case 404 | 410:
            return Failure.NOT_FOUND
        case 405 | 415 | 501:
            return Failure.UNSUPPORTED
        case _ if 300 <= status < 500 and status not in (408, 409, 425):
            return Failure.PERMANENT
    return None


def by_status(answer: ApiResponse, *, reason: str = "", careful: bool = False) -> Refused | Doubt:
    """What a bare status means: every one has exactly one meaning.

    Only 503 promises that nothing was done, and not even that where one has to be `careful`; any
    other 5xx may come from behind the deed.
    """
    status, wait = answer.status, retry_after(answer)
    reason = reason or f"HTTP {status}"
    if status == 429:
        return Refused(failure=Failure.RATE_LIMITED, reason=reason, wait=wait)
    if status == 503 and not careful:
        return Refused(failure=Failure.TRANSIENT, reason=reason, wait=wait)
    failure = failure_of(status)
    if failure is None or (careful and status >= 500):
        return Doubt(reason=f"{reason}: it may have been said.")
    return Refused(failure=failure, reason=reason)


def retry_after(answer: ApiResponse) -> float | None:
    """The stated wait in seconds: a number, a fraction, or a date held against the answer's own.

    >>> retry_after(ApiResponse(status=429, headers={"retry-after": "1.5"}))
    1.5
    >>> retry_after(ApiResponse(status=429, headers={"retry-after": "soon"})) is None
    True
    """
    given = answer.headers.get("retry-after", "").strip()
    if not given:
        return None
    try:
        return seconds(float(given))
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(given)
        at = parsedate_to_datetime(answer.headers.get("date", ""))
        return max(0.0, (until - at).total_seconds())
    except (ValueError, TypeError):
        return None


def seconds(wait: Any) -> float | None:
    """A wait as a body states it; None where it is no number."""
    if isinstance(wait, bool) or not isinstance(wait, int | float):
        return None
    try:
        stated = float(wait)
    except OverflowError:
        return None
    return stated if stated == stated else None


def code_of(value: object) -> int:
    """A code, which comes as a number and sometimes as a word of digits; -1 is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 12:
        return int(value)
    return NO_CODE
