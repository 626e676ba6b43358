"""An app in a Slack workspace: its events as Slack signs them, its answers under HTTP 200."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

from threadline.core.adapters import Account, Capabilities
from threadline.core.deliveries import Failure
from threadline.core.model import Actor, ConversationRef, Kind
from threadline.core.slack import escaped
from threadline.core.wire import ApiCall, ApiResponse, Request
from threadline.testing import Child, Direct, Refusal, Specimen

WEBHOOKS = Path(__file__).parents[2] / "data" / "webhooks"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TS, ROOT, SENT = "1700000002.000100", "1700000001.000100", "1700000009.000100"
ACCOUNT = Account(
    scope_id="default",
    provider="slack",
    account_id="T1",
    capabilities=Capabilities(actor=Actor("UBOT", "simbot", is_bot=True, is_self=True)),
    credentials={"bot_token": "xoxb-1-bot", "signing_secret": "8f742231b10e8888abcd99yyyzzz85a5"},
    settings={"api": "https://slack.test/api", "bot_id": "B1"},
)
_SIGN = re.compile(r"<([@#!][^>]*)>")


def asked(body: Any) -> Request:
    """A request without its signature."""
    raw = json.dumps(body).encode()
    return Request(method="POST", path="/", headers={}, body=raw, received_at=NOW)


def said(**more: Any) -> dict[str, Any]:
    """U2 says `hi` in a channel."""
    base = {"type": "message", "channel": "C1", "channel_type": "channel", "user": "U2"}
    return {**base, "text": "hi", "ts": TS, "event_ts": TS, "team": "T1", **more}


def wrapped(event: Any) -> Request:
    """An event in the envelope of the Events API."""
    mine = [{"enterprise_id": None, "team_id": "T1", "user_id": "UBOT"}]
    about = {"team_id": "T1", "api_app_id": "A1", "type": "event_callback", "event_id": "Ev01"}
    return asked({**about, "event_time": 1700000002, "authorizations": mine, "event": event})


def recorded() -> dict[str, Request]:
    """Other workspaces' events, and what ours says."""
    found = {"handshake": asked({"type": "url_verification", "challenge": "abc"})}
    for name in ("basic", "channel"):
        bodies = json.loads((WEBHOOKS / f"webhook-slack-vercel-{name}.json").read_bytes())
        found |= {f"{name}: {k}": asked(v) for k, v in bodies.items() if isinstance(v, dict)}
    now, edited = said(text="hi!"), {"user": "U2", "ts": "1700000005.000000"}
    change: dict[str, Any] = {
        "type": "message",
        "subtype": "message_changed",
        "channel": "C1",
        "ts": "1700000005.1",
    }
    change |= {"message": {**now, "edited": edited}, "previous_message": said()}
    return found | {
        "said": wrapped(said()),
        "thread": wrapped(said(ts="1700000003.000100", thread_ts=ROOT, text="below")),
        "direct": wrapped(said(channel="D7", channel_type="im", text="only us")),
        "edit": wrapped(change),
    }


def sign(request: Request, account: Account) -> Request:
    """With the app's signing secret."""
    stamp = str(int(NOW.timestamp()))
    words = b"v0:" + stamp.encode() + b":" + request.body
    secret = account.credentials.get("signing_secret", "").encode()
    made = hmac.new(secret, words, hashlib.sha256).hexdigest()
    headers = {"x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={made}"}
    return replace(request, headers=headers)


def answer(body: dict[str, Any], status: int = 200, **headers: str) -> ApiResponse:
    """What the Web API says."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return ApiResponse(status=status, body=json.dumps(body).encode(), headers=names)


def shows(call: ApiCall) -> str:
    """What people read: Slack's three entities undone."""
    return unescape(json.loads(call.body)["text"])


def echo(call: ApiCall, taken: ApiResponse) -> Request:
    """Our own message, with the metadata it was sent with."""
    body = json.loads(call.body)
    own = said(user="UBOT", bot_id="B1", ts=SENT, text=body["text"], channel=body["channel"])
    below = {"thread_ts": body["thread_ts"]} if "thread_ts" in body else {}
    return wrapped({**own, **below, "metadata": body["metadata"]})


SPECIMEN = Specimen(
    account=ACCOUNT,
    webhooks=recorded(),
    quiet=frozenset({"handshake"}),
    says=lambda text: wrapped(said(text=escaped(text))),
    sign=sign,
    window=timedelta(minutes=5),
    shows=shows,
    pings=lambda call: _SIGN.findall(json.loads(call.body)["text"]),
    takes=lambda call: answer(
        {"ok": True, "ts": SENT, "channel": json.loads(call.body)["channel"]}
    ),
    echoes=echo,
    past={"said": lambda call: answer({"ok": True, "messages": [said()]})},
    directs={
        "direct": Direct(
            address="U2", answers=lambda call: answer({"ok": True, "channel": {"id": "D7"}})
        )
    },
    children={
        "thread": Child(
            room=ConversationRef("slack", "T1", "C1", kind=Kind.ROOM),
            root=ROOT,
            answer=answer({"ok": True, "messages": [said(ts=ROOT)]}),
        )
    },
    checks=[answer({"ok": True, "team_id": "T1", "user_id": "UBOT", "bot_id": "B1"})],
    refusals=[
        Refusal(
            answer=answer({"ok": False, "error": "ratelimited"}, 429, retry_after="30"),
            failure=Failure.RATE_LIMITED,
            wait=30.0,
        ),
        Refusal(
            answer=answer({"ok": False, "error": "channel_not_found"}), failure=Failure.NOT_FOUND
        ),
        Refusal(answer=answer({"ok": False, "error": "invalid_auth"}), failure=Failure.AUTH),
    ],
)
