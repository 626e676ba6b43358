"""An address of Twilio's: forms as it signs them, its list of messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode

from tests.twilio import conftest as twilio
from threadline.adapters.twilio_signature import FORM, form, signature, signed_fields
from threadline.core.adapters import Account
from threadline.core.deliveries import Failure
from threadline.core.wire import ApiCall, ApiResponse, Request
from threadline.testing import Refusal, Seal, Specimen

SETTINGS = "x-twilio-webhooks-signature-settings"
NEWER = {SETTINGS: "key=sk_1,algorithm=HMAC_SHA256"}


def unsigned(body: bytes, **more: Any) -> Request:
    """A form without its signature."""
    given = {"method": "POST", "path": "/", "headers": {"content-type": FORM}}
    return Request(body=body, **{**given, **more})


def recorded() -> dict[str, Request]:
    """Recorded forms, and the status of a message of ours."""
    status = {"AccountSid": twilio.SID, "From": twilio.OURS, "To": twilio.ANN}
    status |= {"MessageSid": "SM9", "MessageStatus": "delivered"}
    said = urlencode(twilio.fields(MessageSid="SM2")).encode()
    names = ("made-1", "made-3", "botbuilder-1", "botbuilder-2")
    return {name: unsigned(twilio.raw(name)) for name in names} | {
        "said": unsigned(urlencode(twilio.fields()).encode()),
        "status": unsigned(urlencode(status).encode(), query={"key": "k.1.1"}),
        "newer": unsigned(said, headers={"content-type": FORM, **NEWER}),
    }


def sign(request: Request, account: Account) -> Request:
    """Over the public address and the fields, with the token, or with the shared key."""
    newer = SETTINGS in request.headers
    secret = account.credentials.get("shared_key" if newer else "auth_token", "")
    query = "?" + urlencode(request.query) if request.query else ""
    words = twilio.HOOK + query + signed_fields(form(request.body) or [])
    made = signature(words, secret, "HMAC_SHA256" if newer else "HMAC_SHA1")
    return replace(request, headers={**request.headers, "x-twilio-signature": made})


def shows(call: ApiCall) -> str:
    """What is in the message."""
    return parse_qs(call.body.decode(), keep_blank_values=True).get("Body", [""])[0]


def past(call: ApiCall) -> ApiResponse:
    """One direction of the list of messages: what Ann said."""
    row = {"sid": "SM1", "from": twilio.ANN, "to": twilio.OURS, "body": "hi", "num_media": "0"}
    row |= {"status": "received", "date_sent": "Fri, 01 May 2026 12:00:00 +0000"}
    asked = dict(parse_qsl(call.url.partition("?")[2]))
    return twilio.answer(200, {"messages": [row] if asked["From"] == twilio.ANN else []})


def refused(status: int, code: int, **headers: str) -> ApiResponse:
    """One of the API's errors."""
    return twilio.answer(status, {"code": code, "message": "no", "status": status}, **headers)


SPECIMEN = Specimen(
    account=twilio.line()._account,
    webhooks=recorded(),
    says=lambda text: unsigned(urlencode(twilio.fields(Body=text)).encode()),
    sign=sign,
    seal=Seal.MEANING,
    shows=shows,
    pings=lambda call: [],
    takes=lambda call: twilio.answer(201, {"sid": "SM9", "status": "queued"}),
    past={"said": past},
    learned=frozenset({"number_sid"}),
    checks=[twilio.answer(200, {"sid": twilio.SID, "status": "active"})],
    refusals=[
        Refusal(
            answer=refused(429, 20429, **{"retry-after": "7"}),
            failure=Failure.RATE_LIMITED,
            wait=7.0,
        ),
        Refusal(answer=refused(400, 63016), failure=Failure.WINDOW_CLOSED),
        Refusal(answer=refused(401, 20003), failure=Failure.AUTH),
    ],
)
