"""Events as Slack sends them, and an account that hears them."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.talk import one
from threadline.adapters.slack import Slack
from threadline.core.adapters import Account, Capabilities
from threadline.core.model import Actor, ConversationRef, InboundMessage, Kind
from threadline.core.wire import ApiResponse, Heard, OutboundMessage, Request

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOT = Actor("UBOT", "simbot", is_bot=True, is_self=True)
ACCOUNT = Account(
    scope_id="default",
    provider="slack",
    account_id="T1",
    capabilities=Capabilities(actor=BOT),
    credentials={"bot_token": "xoxb-1-bot", "signing_secret": SECRET},
    settings={"api": "https://slack.test/api", "bot_id": "B1"},
)
SLACK = Slack(ACCOUNT)
ROOM = ConversationRef("slack", "T1", "C1", kind=Kind.ROOM)
THREAD = ConversationRef("slack", "T1", "1700000001.000100", "C1", kind=Kind.THREAD)
TS, ROOT = "1700000002.000100", "1700000001.000100"
KEY = "0000000000001.7zzzzzzzzzzzz.1"
WEBHOOKS = Path(__file__).parent.parent / "data" / "webhooks"


def message(**more: Any) -> dict[str, Any]:
    """U2 says `hi` in a channel."""
    return {
        "type": "message",
        "channel": "C1",
        "channel_type": "channel",
        "user": "U2",
        "text": "hi",
        "ts": TS,
        "event_ts": TS,
        "team": "T1",
        "client_msg_id": "c-1",
    } | more


def changed(now: dict[str, Any], before: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    """Slack tells that a message looks different now."""
    event: dict[str, Any] = {
        "type": "message",
        "subtype": "message_changed",
        "hidden": True,
        "channel": "C1",
        "ts": "1700000005.000200",
        "message": now,
    }
    return event | ({} if before is None else {"previous_message": before}) | more


def wrapped(event: Any, **more: Any) -> dict[str, Any]:
    """An event in the envelope of the Events API."""
    return {
        "token": "t",
        "team_id": "T1",
        "api_app_id": "A1",
        "type": "event_callback",
        "event_id": "Ev01",
        "event_time": 1700000002,
        "authorizations": [{"enterprise_id": None, "team_id": "T1", "user_id": "UBOT"}],
        "event": event,
    } | more


def request(body: Any) -> Request:
    """A body as it comes, by whichever way."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Request(method="POST", path="/socket", headers={}, body=raw)


def signed(raw: bytes, stamp: str | None = None, secret: str = SECRET, **headers: str) -> Request:
    """A body as Slack signs it."""
    stamp = str(int(NOW.timestamp())) if stamp is None else stamp
    made = hmac.new(secret.encode(), b"v0:%b:%b" % (stamp.encode(), raw), hashlib.sha256)
    names = {"x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={made.hexdigest()}"}
    names |= {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(
        method="POST", path="/v1/webhooks/slack/T1", headers=names, body=raw, received_at=NOW
    )


def hear(event: Any, dialect: Slack = SLACK, **more: Any) -> Heard:
    """What the account hears in one event."""
    return dialect.parse(request(wrapped(event, **more)))


def said(**more: Any) -> InboundMessage:
    """What is heard when somebody says something."""
    return one(hear(message(**more)))


def outbound(text: str = "hello", **more: Any) -> OutboundMessage:
    """Something to say in the channel."""
    fields: dict[str, Any] = {"conversation": ROOM, "key": KEY, "session_id": "agent"} | more
    return OutboundMessage(text=text, **fields)


def answer(body: Any = None, status: int = 200, **headers: str) -> ApiResponse:
    """An answer of the Web API."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return ApiResponse(status=status, body=raw, headers=names)


def error(word: str, status: int = 200, **headers: str) -> ApiResponse:
    """How the Web API says no."""
    return answer({"ok": False, "error": word}, status, **headers)
