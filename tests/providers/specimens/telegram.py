"""Telegram's bot, and what people in Telegram see of what it says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from typing import Any

from tests.telegram import conftest as bot
from threadline.core.adapters import Account
from threadline.core.deliveries import Failure
from threadline.core.wire import ApiCall, ApiResponse, Request
from threadline.testing import Refusal, Seal, Specimen

_TAG = re.compile(r"<[^>]*>")
_PERSON = re.compile(r"<a href=\"tg:[^>]*>")


def recorded() -> dict[str, Request]:
    """What was recorded at Telegram, and the kinds of places and updates that it shows none of."""
    found: dict[str, Any] = {}
    for name in ("media", "multiple"):
        for number, update in enumerate(bot.fixture(f"camel-{name}")["result"]):
            found[f"{name} {number}"] = update
    basic = bot.fixture("vercel-basic")
    found |= {name: basic[name] for name in ("mention", "followUp")}
    topic = bot.message(chat=bot.FORUM, message_thread_id=12, is_topic_message=True)
    found |= {
        "group": {"update_id": 1, "message": bot.message(chat=bot.GROUP)},
        "topic": {"update_id": 2, "message": topic},
        "business": {"update_id": 3, "business_message": bot.message(business_connection_id="bc")},
        "edit": {"update_id": 4, "edited_message": bot.message("hello!", edit_date=bot.AT + 9)},
        "moved": {"update_id": 5, "message": bot.message(None, migrate_to_chat_id=-1000000000051)},
    }
    return {title: unsigned(update) for title, update in found.items()}


def unsigned(update: Any) -> Request:
    """An update without the secret."""
    return bot.request(update, None)


def sign(request: Request, account: Account) -> Request:
    """The secret that Telegram was told."""
    secret = account.credentials.get("webhook_secret", "")
    return replace(request, headers={"x-telegram-bot-api-secret-token": secret})


def says(text: str) -> Request:
    """Ada says it in her private chat."""
    return unsigned({"update_id": 9, "message": bot.message(text)})


def shows(call: ApiCall) -> str:
    """What people read: tags and what they mark."""
    said = json.loads(call.body)
    text: str = said["text"]
    return unescape(_TAG.sub("", text)) if said.get("parse_mode") == "HTML" else text


def pings(call: ApiCall) -> list[str]:
    """Links to people are mentions. A bare @name is one always, and no Bot API call can help it."""
    said = json.loads(call.body)
    return _PERSON.findall(said["text"]) if "parse_mode" in said else said.get("entities", [])


def takes(call: ApiCall) -> ApiResponse:
    """The message it became."""
    return bot.answer({"message_id": 6, "date": bot.AT})


SPECIMEN = Specimen(
    account=bot.ACCOUNT,
    webhooks=recorded(),
    says=says,
    sign=sign,
    seal=Seal.NOTHING,
    shows=shows,
    pings=pings,
    takes=takes,
    mentions=("[Ada](tg://user?id=42)", "tg://user?id=42", "@everyone", "@all"),
    checks=[bot.answer({}), bot.answer({"id": 7001, "is_bot": True, "username": "sim_bot"})],
    refusals=[
        Refusal(
            answer=bot.refusal(429, "Too Many Requests: retry after 5", retry_after=5),
            failure=Failure.RATE_LIMITED,
            wait=5.0,
        ),
        Refusal(answer=bot.refusal(400, "Bad Request: chat not found"), failure=Failure.NOT_FOUND),
        Refusal(answer=bot.refusal(401, "Unauthorized"), failure=Failure.AUTH),
    ],
)
