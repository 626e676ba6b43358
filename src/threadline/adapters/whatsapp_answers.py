"""What the Cloud API's error codes mean for a message of ours, in answers and in statuses alike.

A code speaks before the HTTP status. Where neither says that nothing was done, it is doubt: the
status webhook will tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from threadline.adapters.answers import NO_CODE, by_status, code_of, retry_after
from threadline.adapters.whatsapp_places import PHONE, Places
from threadline.core.deliveries import Failure
from threadline.core.values import json_object, one_line
from threadline.core.wire import ApiResponse, Bucket, Doubt, Refused, Sent

MAX_ID = 1024

# https://developers.facebook.com/docs/whatsapp/cloud-api/support/error-codes
LIMITS: Mapping[int, Bucket] = {
    4: Bucket.ACCOUNT,
    613: Bucket.ACCOUNT,
    80007: Bucket.ACCOUNT,
    130429: Bucket.ACCOUNT,
    131048: Bucket.ACCOUNT,
    131056: Bucket.CONVERSATION,
}
CODES: Mapping[int, Failure] = {
    **dict.fromkeys((0, 3, 10, 190, 368, 131005, 131031, 131045, 133010), Failure.AUTH),
    **dict.fromkeys(range(200, 300), Failure.AUTH),
    **dict.fromkeys((131021, 131026, 131030), Failure.NOT_FOUND),
    **dict.fromkeys((131051, 131052, 131053, 131062), Failure.UNSUPPORTED),
    131047: Failure.WINDOW_CLOSED,
    # "Temporarily unavailable", "down or overloaded", "in maintenance": it was not taken.
    **dict.fromkeys((2, 131016, 131057), Failure.TRANSIENT),
}
# "Unknown error": whether it was said is known only where the status is a refusal.
VAGUE = frozenset({1, 131000, 135000})
UNKNOWN_OBJECT = 33


def sent(answer: ApiResponse, places: Places, to: str) -> Sent | Refused | Doubt:
    """What an answer to a message to an address means. Total.

    Where a phone was dialled in another form than WhatsApp writes it, the answer says which one
    it is, and by that one the person will write.
    """
    said = json_object(answer.body)
    refused = refusal(said, answer)
    if refused is not None:
        return refused
    messages = said.get("messages")
    first = messages[0] if isinstance(messages, list) and messages else None
    found = first.get("id") if isinstance(first, dict) else None
    if isinstance(found, str) and found.isprintable() and 0 < len(found) <= MAX_ID:
        contacts = said.get("contacts")
        contact = contacts[0] if isinstance(contacts, list) and contacts else None
        phone = contact.get("wa_id") if isinstance(contact, dict) else None
        if (
            isinstance(phone, str)
            and phone != to
            and PHONE.fullmatch(to)
            and PHONE.fullmatch(phone)
        ):
            return Sent(message_id=found, conversation=places.ref(phone))
        return Sent(message_id=found)
    return Doubt(reason="WhatsApp took it and gave no message id.")


def refusal(said: Mapping[str, Any], answer: ApiResponse) -> Refused | Doubt | None:
    """Why an answer is no success; None where it is one."""
    error = said.get("error")
    if isinstance(error, Mapping):
        return by_code(error, answer)
    if 200 <= answer.status < 300:
        return None
    return by_status(answer, careful=True)


def by_code(error: Mapping[str, Any], answer: ApiResponse) -> Refused | Doubt:
    """An answer that names an error."""
    code = code_of(error.get("code"))
    if code == 100 and code_of(error.get("error_subcode")) == UNKNOWN_OBJECT:
        return Refused(failure=Failure.AUTH, reason=reason_of(error))
    if code in LIMITS:
        return Refused(
            failure=Failure.RATE_LIMITED,
            reason=reason_of(error),
            wait=_wait(answer),
            bucket=LIMITS[code],
        )
    if code in CODES:
        return Refused(failure=CODES[code], reason=reason_of(error))
    if answer.status >= 500 or answer.status == 408:
        return Doubt(reason=f"HTTP {answer.status}, {reason_of(error)}: it may have been said.")
    if answer.status == 429:
        return Refused(
            failure=Failure.RATE_LIMITED, reason=reason_of(error), wait=_wait(answer), bucket=None
        )
    failure = Failure.TRANSIENT if code in VAGUE else Failure.PERMANENT
    return Refused(failure=failure, reason=reason_of(error))


def failed(error: object) -> Refused:
    """Why a message that was taken could not be handed on, as its status says."""
    if not isinstance(error, Mapping):
        return Refused(failure=Failure.PERMANENT, reason="WhatsApp could not hand it on.")
    code = code_of(error.get("code"))
    failure = CODES.get(code, Failure.PERMANENT)
    if code in LIMITS:
        return Refused(failure=Failure.RATE_LIMITED, reason=reason_of(error), bucket=LIMITS[code])
    return Refused(failure=failure, reason=reason_of(error))


def reason_of(error: Mapping[str, Any]) -> str:
    """The provider's words for an error, with its code, on one line."""
    data = error.get("error_data")
    details = data.get("details") if isinstance(data, Mapping) else None
    words = next(
        (one for one in (details, error.get("message"), error.get("title")) if _is_text(one)), ""
    )
    code = code_of(error.get("code"))
    line = f"{'' if code == NO_CODE else code} {words}".strip() or "an error without a code"
    return one_line(line)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _wait(answer: ApiResponse) -> float | None:
    """The wait Meta states: in minutes, in the usage header; now and then as `Retry-After`.

    >>> _wait(ApiResponse(status=400, headers={"x-business-use-case-usage":
    ...     '{"1":[{"type":"whatsapp","estimated_time_to_regain_access":3}]}'}))
    180.0
    """
    if (wait := retry_after(answer)) is not None:
        return wait
    usage = json_object(
        answer.headers.get("x-business-use-case-usage", "").encode("utf-8", "replace")
    )
    minutes = [
        one.get("estimated_time_to_regain_access")
        for rows in usage.values()
        if isinstance(rows, list)
        for one in rows
        if isinstance(one, dict)
    ]
    known = [it for it in minutes if isinstance(it, int) and 0 < it < 100_000]
    return 60.0 * max(known) if known else None
