"""What Discord's answers mean: its JSON error codes, its limits, and what stands in front of it."""

from __future__ import annotations

from typing import Any

from threadline.adapters.answers import failure_of as plain_failure
from threadline.adapters.answers import retry_after
from threadline.core.deliveries import Failure
from threadline.core.values import clean, decoded, one_line
from threadline.core.wire import ApiResponse, Bucket, Doubt, Refused

NO_HISTORY = 160002
HAS_THREAD = 160004

# By Discord's own code; the status alone would call a closed direct message a bad credential.
CODES: dict[int, Failure] = {
    **dict.fromkeys((10003, 10004, 10008, 10013, 10015, 10062), Failure.NOT_FOUND),
    **dict.fromkeys((40001, 40002, 50001, 50013, 50014, 50027), Failure.AUTH),
    **dict.fromkeys((20001, 50002, 50008, 50024, 50068, 50083, 160005), Failure.UNSUPPORTED),
    **dict.fromkeys((20016, 20022, 20028, 40003, 40062), Failure.RATE_LIMITED),
    **dict.fromkeys((20009, 40005, 50006, 50007, 50035, 50278, 160006), Failure.PERMANENT),
    **dict.fromkeys((200000, 200001, 240000), Failure.PERMANENT),
    130000: Failure.TRANSIENT,
}
ACCOUNT_WIDE = frozenset({20028, 40003, 40062})


def code_of(answer: ApiResponse) -> int | None:
    """Discord's own code for what went wrong; None where it gives none."""
    match decoded(answer.body):
        case {"code": int(code)} if code:
            return code
    return None


def failure_of(answer: ApiResponse) -> Refused | Doubt:
    """What an answer that is no proof means: every status and every body has one meaning.

    A server error may come from behind the deed, so it is in doubt; the nonce makes it safe to ask
    again for two minutes.
    """
    body = decoded(answer.body)
    said = body if isinstance(body, dict) else {}
    code, status = code_of(answer), answer.status
    reason = _reason(said, code, status)
    if status == 429 or (status < 500 and CODES.get(code or 0) is Failure.RATE_LIMITED):
        return Refused(
            failure=Failure.RATE_LIMITED,
            reason=reason,
            wait=_wait(said, answer),
            bucket=_bucket(said, code, answer),
        )
    if status >= 500 or status in (408, 425):
        if CODES.get(code or 0) is Failure.TRANSIENT:
            return Refused(failure=Failure.TRANSIENT, reason=reason)
        return Doubt(reason=f"{reason}: it may have been said.")
    if status < 300:
        return Doubt(reason="Discord took it and gave no usable answer.")
    if code in CODES:
        return Refused(failure=CODES[code], reason=reason)
    return Refused(failure=plain_failure(status) or Failure.PERMANENT, reason=reason)


def _wait(said: dict[str, Any], answer: ApiResponse) -> float | None:
    """The wait in seconds: the body's fraction, else a header's."""
    stated = said.get("retry_after")
    if isinstance(stated, int | float) and not isinstance(stated, bool) and stated >= 0:
        try:
            return float(stated)
        except OverflowError:
            return None
    if (wait := retry_after(answer)) is not None:
        return wait
    reset = answer.headers.get("x-ratelimit-reset-after", "")
    return retry_after(ApiResponse(status=429, headers={"retry-after": reset}))


def _bucket(said: dict[str, Any], code: int | None, answer: ApiResponse) -> Bucket:
    """Whom a limit is for. One that did not come through Discord itself is for our address."""
    headers = answer.headers
    if "via" not in headers and "x-ratelimit-bucket" not in headers and "retry_after" not in said:
        return Bucket.ACCOUNT
    is_global = said.get("global") is True or headers.get("x-ratelimit-scope") == "global"
    if is_global or "x-ratelimit-global" in headers or code in ACCOUNT_WIDE:
        return Bucket.ACCOUNT
    return Bucket.CONVERSATION


def _reason(said: dict[str, Any], code: int | None, status: int) -> str:
    message = said.get("message")
    plain = one_line(clean(message)) if isinstance(message, str) else ""
    number = f"HTTP {status}" if code is None else f"HTTP {status}, code {code}"
    return f"{plain} ({number})" if plain else number
