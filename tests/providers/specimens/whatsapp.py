"""A number of WhatsApp's: webhooks as Meta signs them, texts as a phone shows them."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any

from tests.whatsapp import conftest as meta
from threadline.core.adapters import Account
from threadline.core.deliveries import Failure
from threadline.core.wire import ApiCall, ApiResponse, Request
from threadline.testing import Refusal, Specimen

FILES = ("callback_button", "edited_message", "message", "message_status", "system")


def unsigned(body: Any) -> Request:
    """A webhook without its signature."""
    return Request(method="POST", path="/", headers={}, body=json.dumps(body).encode())


def recorded() -> dict[str, Request]:
    """All of pywa's and another bot's, and an echo of what the business says by its phone."""
    found: dict[str, Any] = {}
    for name in FILES:
        found |= {f"{name}: {title}": one for title, one in meta.fixture(f"pywa-{name}").items()}
    other = meta.fixture("vercel-dm")
    found |= {title: one for title, one in other.items() if isinstance(one, dict)}
    echo: dict[str, Any] = {
        "from": "972123456789",
        "to": meta.ANNS_PHONE,
        "id": "wamid.E",
        "type": "text",
    }
    echo |= {"timestamp": "1700000000", "text": {"body": "by hand"}}
    found |= {
        "said": meta.update({"messages": [meta.message()]}),
        "group": meta.update({"messages": [meta.message(group_id="Y2FwaV9ncm91cA")]}),
        "echo": meta.update({"message_echoes": [echo]}, of="smb_message_echoes"),
    }
    return {title: unsigned(body) for title, body in found.items()}


def sign(request: Request, account: Account) -> Request:
    """With the app's secret."""
    secret = account.credentials.get("app_secret", "").encode()
    made = hmac.new(secret, request.body, hashlib.sha256).hexdigest()
    return replace(request, headers={"x-hub-signature-256": f"sha256={made}"})


def says(text: str) -> Request:
    """Ann writes it."""
    return unsigned(meta.update({"messages": [meta.message(text={"body": text})]}))


def shows(call: ApiCall) -> str:
    """What is in the message. Its signs of bold and struck are WhatsApp's own."""
    text: str = json.loads(call.body)["text"]["body"]
    return text


def takes(call: ApiCall) -> ApiResponse:
    """The message it became, to whom it was addressed."""
    said = json.loads(call.body)
    contacts = [{"wa_id": said["to"]}] if "to" in said else []
    return meta.answer(200, {"contacts": contacts, "messages": [{"id": "wamid.OUT"}]})


def refused(status: int, code: int, **headers: str) -> ApiResponse:
    """One of the Graph API's errors."""
    return meta.answer(status, {"error": {"code": code, "message": "no"}}, **headers)


ANSWERED = {"id": meta.NUMBER, "display_phone_number": "+1 555", "verified_name": "Harbour Café"}
USAGE = json.dumps({"1": [{"type": "whatsapp", "estimated_time_to_regain_access": 2}]})

SPECIMEN = Specimen(
    account=meta.number()._account,
    webhooks=recorded(),
    says=says,
    sign=sign,
    shows=shows,
    pings=lambda call: [],
    takes=takes,
    checks=[meta.answer(200, ANSWERED)],
    refusals=[
        Refusal(
            answer=refused(400, 80007, **{"x-business-use-case-usage": USAGE}),
            failure=Failure.RATE_LIMITED,
            wait=120.0,
        ),
        Refusal(answer=refused(400, 131047), failure=Failure.WINDOW_CLOSED),
        Refusal(answer=refused(401, 190), failure=Failure.AUTH),
    ],
)
