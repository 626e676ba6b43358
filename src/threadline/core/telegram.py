"""How the Bot API is called, and what is wanted of it: for the dialect and for its poll."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from threadline.core.adapters import Account
from threadline.core.wire import ApiCall

API = "https://api.telegram.org"
MAX_BYTES = 20 * 1024 * 1024  # of a file that Telegram hands to bots, and of any answer

# Reactions come only where the bot is an administrator. Who came and went is said by the chat
# itself, so `chat_member` would say it twice.
WANTED = (
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "business_message",
    "edited_business_message",
    "deleted_business_messages",
    "message_reaction",
    "my_chat_member",
)


def address(account: Account, path: str, *, folder: str = "") -> str:
    """A URL of the Bot API; the token is part of it, so it is never shown."""
    api = str(account.settings.get("api") or API).rstrip("/")
    token = quote(account.credentials.get("token", "").strip(), safe=":")
    return f"{api}{folder}/bot{token}/{path}"


def call(account: Account, method: str, body: Mapping[str, Any]) -> ApiCall:
    """A call of one of its methods."""
    return ApiCall(
        method="POST",
        url=address(account, method),
        body=json.dumps(body, separators=(",", ":")).encode(),
        headers={"content-type": "application/json"},
        route=method,
    )


def updates(account: Account, cursor: str | None, seconds: int) -> ApiCall:
    """The call that waits up to `seconds` for updates from number `cursor` on.

    It confirms all before that one.
    """
    body: dict[str, Any] = {"timeout": seconds, "allowed_updates": list(WANTED)}
    if cursor is not None and whole(cursor):
        body["offset"] = int(cursor)
    return replace(call(account, "getUpdates", body), most=MAX_BYTES)


def whole(text: str) -> bool:
    """Whether a text is a whole number of Telegram's, and nothing else.

    >>> whole("17"), whole("0"), whole("-3"), whole("1e3")
    (True, False, False, False)
    """
    return text.isascii() and text.isdecimal() and len(text) < 19 and int(text) > 0
