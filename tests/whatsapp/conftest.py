"""A WhatsApp number as the tests know it, and its webhooks as Meta signs them."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

from threadline.adapters.whatsapp import WhatsApp
from threadline.core.adapters import Account, Capabilities
from threadline.core.model import Actor, Kind
from threadline.core.wire import ApiResponse, Heard, OutboundMessage, Request

WEBHOOKS = Path(__file__).parent.parent / "data" / "webhooks"
NUMBER = "1122334455667"
APP_SECRET = "9f2c71aa90d1"
VERIFY = "walnut-harbour"
TOKEN = "EAAG-bearer-1"
ANN, ANNS_PHONE = "US.13491208655302741918", "972987654321"
US = Actor(NUMBER, "Harbour Café", is_bot=True, is_self=True)


def number(account_id: str = NUMBER, **settings: Any) -> WhatsApp:
    """The dialect of one number."""
    return WhatsApp(
        Account(
            scope_id="default",
            provider="whatsapp",
            account_id=account_id,
            credentials={"token": TOKEN, "app_secret": APP_SECRET, "verify_token": VERIFY},
            settings={"phone_number_id": NUMBER, **settings},
            capabilities=Capabilities(actor=US),
        )
    )


def signed(body: bytes, secret: str = APP_SECRET) -> Request:
    """A webhook as Meta sends it."""
    made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return Request(
        method="POST",
        path="/v1/webhooks/whatsapp/1",
        headers={"x-hub-signature-256": f"sha256={made}"},
        body=body,
    )


def fixture(name: str) -> dict[str, Any]:
    """The recorded webhooks of a file, by title."""
    found: dict[str, Any] = json.loads((WEBHOOKS / f"webhook-whatsapp-{name}.json").read_bytes())
    return found


def hear(update: object, account_id: str = NUMBER) -> Heard:
    """What the number hears in an update."""
    return number(account_id).parse(signed(json.dumps(update).encode()))


def update(*changes: dict[str, Any], number_id: str = NUMBER, of: str = "messages") -> Any:
    """A request of Meta's with these values."""
    meta = {"display_phone_number": "972123456789", "phone_number_id": number_id}
    return {
        "object": "whatsapp_business_account",
        "entry": [
            {"id": "W1", "changes": [{"field": of, "value": {"metadata": meta, **change}}]}
            for change in changes
        ],
    }


def message(kind: str = "text", ident: str = "wamid.1", **more: Any) -> dict[str, Any]:
    """One message of Ann's."""
    base: dict[str, Any] = {"from": ANNS_PHONE, "from_user_id": ANN, "id": ident, "type": kind}
    base["timestamp"] = "1700000000"
    if kind == "text":
        base["text"] = {"body": "hi"}
    return {**base, **more}


def outbound(text: str = "hello", to: str = ANN, **more: Any) -> OutboundMessage:
    """What the adapter is asked to say."""
    ref = number()._places.ref(to, more.pop("kind", Kind.DM))
    return OutboundMessage(conversation=ref, text=text, key="k.1.1", session_id="s", **more)


def answer(status: int, body: object, **headers: str) -> ApiResponse:
    """An answer of the Graph API."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ApiResponse(status=status, body=raw, headers=headers)
