"""What Twilio's error codes mean, in answers and in status callbacks alike."""

from __future__ import annotations

from collections.abc import Mapping

from threadline.adapters.answers import NO_CODE, by_status, code_of, retry_after
from threadline.core.deliveries import Failure
from threadline.core.values import json_object, one_line
from threadline.core.wire import ApiResponse, Bucket, Doubt, Refused, Sent

MAX_ID = 64

# https://www.twilio.com/docs/api/errors
LIMITED = frozenset({14107, 20429, 21611, 63018, 63038})
CODES: Mapping[int, Failure] = {
    **dict.fromkeys((20003, 20005, 20008, 21212, 21408, 21606, 63007, 63020), Failure.AUTH),
    **dict.fromkeys((21211, 21217, 21614, 30005, 30006, 63003, 63015, 63024), Failure.NOT_FOUND),
    **dict.fromkeys((12300, 21620, 21623, 63005, 63019, 63021), Failure.UNSUPPORTED),
    63016: Failure.WINDOW_CLOSED,
}
GONE = ("failed", "undelivered", "canceled")


def sent(answer: ApiResponse) -> Sent | Refused | Doubt:
    """What an answer to a message means. Total."""
    refused = refusal(answer)
    if refused is not None:
        return refused
    said = json_object(answer.body)
    if said.get("status") in GONE:
        return failed(code_of(said.get("error_code")), said.get("error_message"))
    found = said.get("sid")
    if isinstance(found, str) and found.isalnum() and 0 < len(found) <= MAX_ID:
        return Sent(message_id=found)
    return Doubt(reason="Twilio took it and gave no sid.")


def refusal(answer: ApiResponse) -> Refused | Doubt | None:
    """Why an answer is no success; None where it is one."""
    status = answer.status
    if 200 <= status < 300:
        return None
    said = json_object(answer.body)
    code = code_of(said.get("code"))
    reason = reason_of(code, said.get("message")) if said else f"HTTP {status}"
    if code in LIMITED or status == 429:
        return Refused(
            failure=Failure.RATE_LIMITED,
            reason=reason,
            wait=retry_after(answer),
            bucket=Bucket.ACCOUNT if code in LIMITED else None,
        )
    if code in CODES:
        return Refused(failure=CODES[code], reason=reason)
    return by_status(answer, reason=reason, careful=True)


def failed(code: int, words: object = None) -> Refused:
    """Why a message that was taken could not be handed on."""
    reason = reason_of(code, words)
    if code in LIMITED:
        return Refused(failure=Failure.RATE_LIMITED, reason=reason, bucket=Bucket.ACCOUNT)
    return Refused(failure=CODES.get(code, Failure.PERMANENT), reason=reason)


def reason_of(code: int, words: object) -> str:
    """Twilio's words with its code, on one line."""
    said = words if isinstance(words, str) else ""
    line = f"{'' if code == NO_CODE else code} {said}".strip() or "no reason was given"
    return one_line(line)
