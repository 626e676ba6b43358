"""A Twilio address as the tests know it, and its webhooks as Twilio signs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from twilio.request_validator import RequestValidator

from threadline.adapters.twilio import Twilio
from threadline.core.adapters import Account, Capabilities
from threadline.core.model import Actor
from threadline.core.wire import ApiResponse, Heard, OutboundMessage, Request

WEBHOOKS = Path(__file__).parent.parent / "data" / "webhooks"
SID = "AC1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f"
OURS, ANN = "whatsapp:+15550100999", "whatsapp:+15550100123"
TOKEN, SHARED = "5ad1c0ffee5ad1c0", "shared-9911-key"
PUBLIC = "https://bot.example.org"
HOOK = f"{PUBLIC}/v1/webhooks/twilio/mine"
US = Actor(OURS, "+15550100999", is_bot=True, is_self=True)


def line(address: str = OURS, sid: str = SID, **settings: Any) -> Twilio:
    """The dialect of one address."""
    return Twilio(
        Account(
            scope_id="default",
            provider="twilio",
            account_id=f"{sid}:{address}",
            installation="mine",
            credentials={"auth_token": TOKEN, "shared_key": SHARED},
            settings={"account_sid": sid, "address": address, "public_url": PUBLIC, **settings},
            capabilities=Capabilities(actor=US),
        )
    )


def raw(name: str) -> bytes:
    """A recorded form."""
    return (WEBHOOKS / f"webhook-twilio-{name}.txt").read_bytes().strip()


def posted(
    body: bytes, url: str = HOOK, secret: str = TOKEN, *, algorithm: str | None = None
) -> Request:
    """A form as Twilio posts it, signed by the official validator."""
    fields = dict(parse_qsl(body.decode(), keep_blank_values=True))
    made = RequestValidator(secret).compute_signature(url, fields, algorithm)
    headers = {
        "content-type": "application/x-www-form-urlencoded; charset=UTF-8",
        "x-twilio-signature": made,
    }
    if algorithm:
        headers["x-twilio-webhooks-signature-settings"] = f"key=sk_1,algorithm={algorithm}"
    query = dict(parse_qsl(url.partition("?")[2]))
    return Request(method="POST", path="/", headers=headers, body=body, query=query)


def fields(**more: str) -> dict[str, str]:
    """A message of Ann's."""
    base = {"AccountSid": SID, "From": ANN, "To": OURS, "MessageSid": "SM1", "Body": "hi"}
    return {**base, "NumMedia": "0", "WaId": "15550100123", "ProfileName": "Ann", **more}


def hear(given: dict[str, str] | bytes, dialect: Twilio | None = None, key: str = "") -> Heard:
    """What the address hears in a form."""
    body = given if isinstance(given, bytes) else urlencode(given).encode()
    query = {"key": key} if key else {}
    request = Request(method="POST", path="/", headers={}, body=body, query=query)
    return (dialect or line()).parse(request)


def outbound(text: str = "hello", to: str = ANN, **more: Any) -> OutboundMessage:
    """What the adapter is asked to say."""
    ref = line()._places.ref(to)
    return OutboundMessage(conversation=ref, text=text, key="k.1.1", session_id="s", **more)


def answer(status: int, body: object, **headers: str) -> ApiResponse:
    """An answer of the REST API."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ApiResponse(status=status, body=data, headers=headers)
