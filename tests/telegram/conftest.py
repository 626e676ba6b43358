"""A bot's account, and updates as Telegram writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from threadline.adapters.telegram import Telegram
from threadline.core.adapters import Account, Capabilities
from threadline.core.model import Actor, InboundMessage
from threadline.core.wire import ApiCall, ApiResponse, Heard, OutboundMessage, Request

WEBHOOKS = Path(__file__).parent.parent / "data" / "webhooks"
TOKEN = "7001:AAH-token"
SECRET = "hush-hush_1"
ACCOUNT = Account(
    scope_id="default",
    provider="telegram",
    account_id="7001",
    capabilities=Capabilities(actor=Actor("7001", "sim_bot", is_bot=True)),
    credentials={"token": TOKEN, "webhook_secret": SECRET},
    settings={"username": "sim_bot"},
)
BOT = Telegram(ACCOUNT)
ADA: dict[str, Any] = {"id": 42, "is_bot": False, "first_name": "Ada", "username": "ada"}
PRIVATE: dict[str, Any] = {"id": 42, "type": "private", "first_name": "Ada"}
GROUP: dict[str, Any] = {"id": -5, "type": "group", "title": "Group"}
SUPERGROUP: dict[str, Any] = {"id": -1000000000051, "type": "supergroup", "title": "Group"}
FORUM: dict[str, Any] = {
    "id": -1000000000077,
    "type": "supergroup",
    "title": "Forum",
    "is_forum": True,
}
AT = 1_700_000_000
# What may stand anywhere in somebody's JSON.
NUMBERS = (0, 1, -1, 7001, -1000000000051, 2**53, 2**70, -(2**70), 1.5, float("inf"))
TEXTS = ("", "x", "\x00", "\ud800", "🎉" * 300, "private")
BOXES: tuple[Any, ...] = ([], [[]], [1], {}, {"id": 1}, [{"id": 7}])
JUNK: st.SearchStrategy[Any] = st.sampled_from((None, True, False, *NUMBERS, *TEXTS, *BOXES))


def fixture(name: str) -> dict[str, Any]:
    """What was recorded at Telegram, by the file's name."""
    found: dict[str, Any] = json.loads((WEBHOOKS / f"webhook-telegram-{name}.json").read_bytes())
    return found


def request(body: Any, secret: str | None = SECRET) -> Request:
    """A webhook's request; a body that is no bytes is written as JSON."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {} if secret is None else {"x-telegram-bot-api-secret-token": secret}
    return Request(method="POST", path="/v1/webhooks/telegram/7001", headers=headers, body=raw)


def message(text: str | None = "hello", **more: Any) -> dict[str, Any]:
    """A message of Ada's in her private chat, unless said otherwise."""
    said: dict[str, Any] = {"message_id": 5, "date": AT, "chat": PRIVATE, "from": ADA}
    return said | ({} if text is None else {"text": text}) | more


def hear(what: Any, kind: str = "message", number: int = 1001) -> Heard:
    """What our bot hears in an update."""
    return BOT.parse(request({"update_id": number, kind: what}))


def heard(what: Any, kind: str = "message", number: int = 1001) -> InboundMessage:
    """The one message it hears."""
    [found] = hear(what, kind, number).messages
    return found


def saying(where: InboundMessage, text: str = "hi", **more: Any) -> OutboundMessage:
    """Our answer to where something was heard."""
    return OutboundMessage(
        conversation=where.conversation, text=text, key="k1", session_id="agent", **more
    )


def body(call: ApiCall) -> dict[str, Any]:
    """What a call asks for."""
    found: dict[str, Any] = json.loads(call.body)
    return found


def answer(result: Any) -> ApiResponse:
    """Telegram's yes."""
    return ApiResponse(status=200, body=json.dumps({"ok": True, "result": result}).encode())


def refusal(code: int, why: str, **parameters: Any) -> ApiResponse:
    """Telegram's no."""
    said: dict[str, Any] = {"ok": False, "error_code": code, "description": why}
    if parameters:
        said["parameters"] = parameters
    return ApiResponse(status=code, body=json.dumps(said).encode())
