"""Events as Discord's gateway dispatches them, and an account that hears them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.talk import one
from threadline.adapters.discord import Discord
from threadline.core.adapters import Account, Capabilities
from threadline.core.model import Actor, ConversationRef, InboundMessage, Kind
from threadline.core.wire import ApiResponse, Heard, OutboundMessage, Request

BOT = Actor("900", "simbot", is_bot=True, is_self=True)
ACCOUNT = Account(
    scope_id="default",
    provider="discord",
    account_id="700",
    capabilities=Capabilities(actor=BOT),
    credentials={"token": "bot-token"},
    settings={"api": "https://discord.test/api/v10"},
)
DISCORD = Discord(ACCOUNT)
ROOM = ConversationRef("discord", "700", "800", kind=Kind.ROOM)
ALICE = {"id": "101", "username": "alice", "global_name": "Alice"}
WEBHOOKS = Path(__file__).parent.parent / "data" / "webhooks"


def message(**more: Any) -> dict[str, Any]:
    """Alice says `hi` in a room of a server."""
    return {
        "id": "5001",
        "channel_id": "800",
        "channel_type": 0,
        "guild_id": "1",
        "author": ALICE,
        "content": "hi",
        "timestamp": "2026-01-01T00:00:00.000000+00:00",
        "edited_timestamp": None,
        "type": 0,
        "mentions": [],
        "attachments": [],
        "embeds": [],
    } | more


def request(body: Any) -> Request:
    """A body as the listener brings it."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Request(method="POST", path="/gateway", headers={}, body=raw)


def hear(name: str, data: Any, dialect: Discord = DISCORD, **more: Any) -> Heard:
    """What the account hears in one dispatch."""
    return dialect.parse(request({"t": name, "d": data, **more}))


def said(**more: Any) -> InboundMessage:
    """What is heard when somebody says something."""
    return one(hear("MESSAGE_CREATE", message(**more)))


def outbound(text: str = "hello", **more: Any) -> OutboundMessage:
    """Something to say in the room."""
    fields: dict[str, Any] = {"conversation": ROOM, "key": KEY, "session_id": "agent"} | more
    return OutboundMessage(text=text, **fields)


KEY = "0000000000001.7zzzzzzzzzzzz.1"


def answer(status: int, body: Any = None, **headers: str) -> ApiResponse:
    """An answer of Discord's API, with the mark of its own front door."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return ApiResponse(status=status, body=raw, headers={"via": "1.1 google"} | names)
