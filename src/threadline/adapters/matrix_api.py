"""Calls to a Matrix homeserver, and what its refusals mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from threadline.adapters.answers import by_status, retry_after
from threadline.core.deliveries import Failure
from threadline.core.values import clean, json_object, one_line
from threadline.core.wire import ApiCall, ApiResponse, Bucket, Doubt, Refused

CLIENT = "/_matrix/client/v3"
MEDIA = "/_matrix/client/v1/media"
OLD_MEDIA = "/_matrix/media/v3"
PAGE_BYTES = 16 * 1024 * 1024

# A homeserver says what is wrong in a word; the status only says of which sort it is.
_MEANS = {
    "M_LIMIT_EXCEEDED": Failure.RATE_LIMITED,
    "M_UNKNOWN_TOKEN": Failure.AUTH,
    "M_MISSING_TOKEN": Failure.AUTH,
    "M_UNAUTHORIZED": Failure.AUTH,
    "M_USER_DEACTIVATED": Failure.AUTH,
    "M_USER_LOCKED": Failure.AUTH,
    "M_USER_SUSPENDED": Failure.AUTH,
    "M_GUEST_ACCESS_FORBIDDEN": Failure.AUTH,
    "M_CONSENT_NOT_GIVEN": Failure.AUTH,
    "M_RESOURCE_LIMIT_EXCEEDED": Failure.AUTH,
    # The account holds, but not in this room: it is not in it, or may not speak there.
    "M_FORBIDDEN": Failure.PERMANENT,
    "M_NOT_FOUND": Failure.NOT_FOUND,
    "M_UNRECOGNIZED": Failure.UNSUPPORTED,
    "M_UNSUPPORTED_ROOM_VERSION": Failure.UNSUPPORTED,
    "M_INCOMPATIBLE_ROOM_VERSION": Failure.UNSUPPORTED,
    "M_TOO_LARGE": Failure.PERMANENT,
    "M_BAD_JSON": Failure.PERMANENT,
    "M_NOT_JSON": Failure.PERMANENT,
    "M_INVALID_PARAM": Failure.PERMANENT,
    "M_MISSING_PARAM": Failure.PERMANENT,
}


@dataclass(frozen=True, slots=True)
class Api:
    """A homeserver as one account calls it. `base` is its address without a path."""

    base: str
    token: str = field(repr=False)

    def call(
        self,
        method: str,
        *parts: str,
        below: str = CLIENT,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str | int] | None = None,
        route: str = "",
        most: int = PAGE_BYTES,
        key: str = "",
    ) -> ApiCall:
        """One call; every part of the path is escaped, so that no id reaches another place."""
        path = "".join("/" + quote(part, safe="") for part in parts)
        asked = "?" + urlencode(query) if query else ""
        headers = {"authorization": f"Bearer {self.token}"}
        if body is not None:
            headers["content-type"] = "application/json"
        return ApiCall(
            method=method,
            url=f"{self.base}{below}{path}{asked}",
            headers=headers,
            body=b"" if body is None else encoded(body),
            route=route or parts[0],
            most=most,
            key=key,
        )


def encoded(value: Mapping[str, Any]) -> bytes:
    """JSON as the homeserver counts it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def refusal(answer: ApiResponse) -> Refused | Doubt:
    """What an answer means that is no success: every status and body has one meaning.

    After a 5xx the deed may be done, whatever the body says.
    """
    said = json_object(answer.body)
    word = said.get("errcode")
    failure = _MEANS.get(word) if isinstance(word, str) else None
    if answer.status == 429:
        failure = Failure.RATE_LIMITED
    reason = f"{_words(word)}: {_words(said.get('error'))}" if word else f"HTTP {answer.status}"
    if answer.status >= 500 or failure is None:
        return replace(by_status(answer), reason=reason)
    if failure is not Failure.RATE_LIMITED:
        return Refused(failure=failure, reason=reason)
    return Refused(
        failure=failure, reason=reason, wait=stated_wait(answer, said), bucket=Bucket.ACCOUNT
    )


def stated_wait(answer: ApiResponse, said: Mapping[str, Any]) -> float | None:
    """How long to wait, in seconds: the header, or what older servers put into the body."""
    wait = retry_after(answer)
    if wait is not None:
        return wait
    millis = said.get("retry_after_ms")
    return millis / 1000 if type(millis) is int and 0 <= millis < 1 << 53 else None


def _words(value: object) -> str:
    text = clean(value) if isinstance(value, str) else ""
    return one_line(text)
