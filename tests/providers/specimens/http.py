"""An adapter elsewhere that speaks our own HTTP: nothing comes in by webhook, all is signed out."""

from __future__ import annotations

import json
from typing import Any

from threadline.adapters.http import Http
from threadline.core.adapters import Account, Capabilities
from threadline.core.deliveries import Failure
from threadline.core.model import Actor, ConversationRef
from threadline.core.wire import ApiResponse
from threadline.testing import Refusal, Specimen

ACCOUNT = Account(
    scope_id="default",
    provider="tty",
    account_id="desk",
    callback="https://desk.example/threadline",
    secret="whsec_c2VjcmV0LW9mLXRoZS1kZXNr",
    capabilities=Capabilities(
        idempotent=True, child_conversations=True, actor=Actor("desk", "Desk", is_bot=True)
    ),
)


def answer(status: int, body: Any, **headers: str) -> ApiResponse:
    """What the adapter says."""
    return ApiResponse(status=status, body=json.dumps(body).encode(), headers=headers)


SPECIMEN = Specimen(
    dialect=Http,
    account=ACCOUNT,
    webhooks={},
    places=[
        ConversationRef("tty", "desk", "room"),
        ConversationRef("tty", "desk", "thread", "a room/with spaces"),
    ],
    shows=lambda call: str(json.loads(call.body)["text"]),
    # The words go out as they are: whom they notify is for the adapter elsewhere to decide.
    pings=lambda call: [],
    takes=lambda call: answer(200, {"message_id": "m-1"}),
    refusals=[
        Refusal(
            answer=answer(200, {"refused": "rate_limited", "wait": 30, "bucket": "account"}),
            failure=Failure.RATE_LIMITED,
            wait=30.0,
        ),
        Refusal(answer=answer(409, {"refused": "window_closed"}), failure=Failure.WINDOW_CLOSED),
        Refusal(answer=answer(401, {}), failure=Failure.AUTH),
    ],
)
