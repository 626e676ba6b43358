"""Telegram's wire: plain HTTP, and a long poll that brings updates as a webhook would.

An update is confirmed by asking for those after it, so the cursor is the next offset, and nothing
is confirmed before it was stored.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from threadline.core.adapters import Account
from threadline.core.errors import Conflict, Unauthenticated
from threadline.core.telegram import updates
from threadline.core.values import json_object
from threadline.core.wire import ApiResponse, Batch, Lost, Request
from threadline.transports.http import ANSWER_SECONDS, HttpTransport

# Telegram holds a poll for at most 50 s; ours ends before our own patience does.
SHARE = 0.8
LONGEST = 50
LONGEST_WAIT = 300.0
ELSEWHERE = (
    "another program asks Telegram for this bot's messages, and only one may. Stop the other one, "
    "or take its token away: /revoke at @BotFather, then connect the account with the new one."
)
HOOKED = (
    "a webhook is set for this bot, so Telegram refuses to be asked. Connect the account again: "
    "with mode=poll that takes the webhook away, with mode=webhook events come through it."
)
INVALID = (
    "Telegram does not know this bot's token (any more). @BotFather shows the token that holds; "
    "connect the account again with it."
)


class TelegramTransport(HttpTransport):
    """See `core.wire.Transport` and `core.adapters.Listener`."""

    def __init__(self, *, allow_private: bool = False, patience: float = ANSWER_SECONDS) -> None:
        super().__init__(allow_private=allow_private, patience=patience)
        self._poll = max(1, min(LONGEST, int(patience * SHARE)))

    async def listen(self, account: Account, cursor: str | None) -> AsyncGenerator[Batch, None]:
        """See `core.adapters.Listener.listen`; `cursor` is the number of the next update."""
        while True:
            answer = await self.perform(updates(account, cursor, self._poll))
            said = json_object(answer.body)
            if answer.status == 429:
                await asyncio.sleep(_wait(said))
                continue
            found = _found(answer, said)
            if found:
                cursor = str(max(number for number, _ in found) + 1)
            yield Batch(requests=tuple(_request(one) for _, one in found), cursor=cursor)


def _found(answer: ApiResponse, said: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The updates of an answer with their numbers. Raises what only a person or time can cure."""
    words = str(said.get("description") or f"HTTP {answer.status}")[:300]
    match answer.status:
        case 200 if said.get("ok") is True and isinstance(said.get("result"), list):
            return [
                (one["update_id"], one)
                for one in said["result"]
                if isinstance(one, dict) and type(one.get("update_id")) is int
            ]
        case 401 | 404:
            raise Unauthenticated(INVALID)
        case 409:
            raise Conflict(HOOKED if "webhook" in words else ELSEWHERE)
    raise Lost(f"Telegram answered strangely to a poll: {words}")


def _request(update: dict[str, Any]) -> Request:
    return Request(method="POST", path="", headers={}, body=json.dumps(update).encode())


def _wait(said: dict[str, Any]) -> float:
    """The stated wait in seconds, within reason."""
    stated = said.get("parameters")
    wait = stated.get("retry_after") if isinstance(stated, dict) else None
    return min(float(wait), LONGEST_WAIT) if type(wait) is int and wait > 0 else 1.0
