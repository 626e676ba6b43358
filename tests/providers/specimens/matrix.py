"""An account on a homeserver: sync answers, transactions, pages of history."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from tests.matrix import test_parsing as matrix
from threadline.core.adapters import Account, Capabilities
from threadline.core.deliveries import Failure
from threadline.core.model import Actor
from threadline.core.wire import ApiCall, ApiResponse, Request
from threadline.testing import Direct, Refusal, Seal, Specimen

ACTOR = Actor(matrix.ME, "Agent", is_bot=True, is_self=True)
ACCOUNT = replace(matrix.ACCOUNT, capabilities=Capabilities(actor=ACTOR))
DIRECT = {"type": "m.direct", "content": {"@ada:hs": ["!ours:hs"]}}


def pushed(*events: dict[str, Any]) -> Request:
    """A transaction of an application service, without its token."""
    return matrix.asked({"events": [{"room_id": "!room", **one} for one in events]})


def recorded() -> dict[str, Request]:
    """Recorded answers and events, and what a thread and a direct room look like."""
    thread = {"rel_type": "m.thread", "event_id": "$root"}
    said = {"msgtype": "m.text", "body": "in a thread", "m.relates_to": thread}
    room = {"timeline": {"events": [matrix.event(event_id="$d")]}}
    direct = {"rooms": {"join": {"!ours:hs": room}}, "account_data": {"events": [DIRECT]}}
    lines = {f"event {n}": pushed(one) for n, one in enumerate(matrix.lines())}
    return lines | {
        "sync": matrix.asked(matrix.sample()),
        "said": pushed(matrix.event()),
        "thread": pushed(matrix.event(event_id="$t", content=said)),
        "direct": matrix.asked(direct),
    }


def sign(request: Request, account: Account) -> Request:
    """The homeserver's token."""
    token = account.credentials.get("hs_token", "")
    return replace(request, headers={"authorization": f"Bearer {token}"})


def echoes(call: ApiCall, answer: ApiResponse) -> Request:
    """Our own event, with the transaction id it was sent under."""
    room, _, rest = call.url.partition("/rooms/")[2].partition("/send/")
    transaction = rest.partition("/")[2]
    own = matrix.event(sender=matrix.ME, event_id="$sent", room_id=unquote(room))
    content = json.loads(call.body)
    return pushed({**own, "content": content, "unsigned": {"transaction_id": unquote(transaction)}})


def pings(call: ApiCall) -> list[Any]:
    """Whom the event mentions; all that its text names where it does not say."""
    return list(json.loads(call.body).get("m.mentions", {"room": True}).items())


def found(status: int, body: Any) -> ApiResponse:
    """An answer of the homeserver."""
    return ApiResponse(status=status, body=json.dumps(body).encode())


def opens(call: ApiCall) -> ApiResponse:
    """The room with Ada is there, and she is in it, and nobody else."""
    if call.route == "opening.list":
        return found(200, DIRECT["content"])
    there = {"type": "m.room.member", "content": {"membership": "join"}}
    return found(200, {"chunk": [{**there, "state_key": one} for one in (matrix.ME, "@ada:hs")]})


SPECIMEN = Specimen(
    account=ACCOUNT,
    webhooks=recorded(),
    says=lambda text: pushed(matrix.event(content={"msgtype": "m.text", "body": text})),
    sign=sign,
    seal=Seal.NOTHING,
    shows=lambda call: str(json.loads(call.body)["body"]),
    pings=pings,
    takes=lambda call: found(200, {"event_id": "$sent"}),
    echoes=echoes,
    past={"said": lambda call: found(200, {"chunk": [matrix.event()]})},
    directs={"direct": Direct(address="@ada:hs", answers=opens)},
    checks=[found(200, {"user_id": matrix.ME}), found(200, {"displayname": "Agent"})],
    on_the_wire=frozenset({"join"}),
    refusals=[
        Refusal(
            answer=found(429, {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 1500}),
            failure=Failure.RATE_LIMITED,
            wait=1.5,
        ),
        Refusal(answer=found(401, {"errcode": "M_UNKNOWN_TOKEN"}), failure=Failure.AUTH),
        Refusal(answer=found(403, {"errcode": "M_FORBIDDEN"}), failure=Failure.PERMANENT),
    ],
)
