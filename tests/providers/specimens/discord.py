"""An application in Discord: what its gateway dispatches, what its API answers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.discord import frames
from threadline.core.adapters import Account
from threadline.core.deliveries import Failure
from threadline.core.model import ConversationRef, Kind
from threadline.core.wire import ApiCall, Request
from threadline.testing import Child, Direct, Refusal, Specimen

PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = PRIVATE.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ME = "1457469483726668048"
BOT = replace(frames.BOT, id=ME)
ACCOUNT = replace(
    frames.ACCOUNT,
    account_id=ME,
    capabilities=replace(frames.ACCOUNT.capabilities, actor=BOT),
    settings={**frames.ACCOUNT.settings, "public_key": PUBLIC},
)
RECORDED = json.loads((frames.WEBHOOKS / "webhook-discord-vercel-basic.json").read_text())


def asked(body: Any) -> Request:
    """A request as it comes in, now."""
    return replace(frames.request(body), received_at=NOW)


def dispatched(name: str, data: Any) -> Request:
    """A gateway event."""
    return asked({"t": name, "d": data})


def recorded() -> dict[str, Request]:
    """Events of the gateway, interactions, and what the recording shows none of."""
    found = {"ping": asked({"type": 1, "application_id": ME})}
    for title, entry in RECORDED.items():
        if title == "metadata":
            continue
        kind = str(entry.get("type", ""))
        if kind.startswith("GATEWAY_"):
            found[title] = dispatched(kind.removeprefix("GATEWAY_"), entry["data"])
        else:
            found[title] = asked(entry)
    thread = frames.message(id="5100", channel_id="5001", channel_type=11, content="in a thread")
    direct = frames.message(id="5200", channel_id="777", channel_type=1, content="only us")
    edit = frames.message(content="hi!", edited_timestamp="2026-01-01T00:01:00.000000+00:00")
    return found | {
        "said": dispatched("MESSAGE_CREATE", frames.message()),
        "thread": asked({"t": "MESSAGE_CREATE", "d": thread, "parent_id": "800"}),
        "direct": dispatched("MESSAGE_CREATE", direct),
        "edit": dispatched("MESSAGE_UPDATE", edit),
        "deletes": dispatched("MESSAGE_DELETE_BULK", {"ids": ["1", "2"], "channel_id": "800"}),
    }


def sign(request: Request, account: Account) -> Request:
    """As Discord signs interactions, with the key of the application."""
    stamp = str(int(NOW.timestamp()))
    signature = PRIVATE.sign(stamp.encode() + request.body).hex()
    headers = {"x-signature-timestamp": stamp, "x-signature-ed25519": signature}
    return replace(request, headers=headers)


def says(text: str) -> Request:
    """Alice says it."""
    return dispatched("MESSAGE_CREATE", frames.message(content=text))


def posted(call: ApiCall) -> dict[str, Any]:
    """The message that a call makes."""
    said = json.loads(call.body)
    made = frames.message(
        id="5009",
        channel_id=call.url.split("/channels/")[1].split("/")[0],
        author={"id": ME, "username": "simbot", "bot": True},
        content=said["content"],
        nonce=said["nonce"],
    )
    return made


def pings(call: ApiCall) -> list[str]:
    """Whom Discord would notify: all that is in the text, unless the call says whom."""
    said = json.loads(call.body)
    allowed = said.get("allowed_mentions", {"parse": ["everyone", "users", "roles"]})
    return [*allowed.get("parse", []), *allowed.get("users", []), *allowed.get("roles", [])]


def past(message: dict[str, Any], **more: Any) -> Any:
    """The page of a channel's history with this message on it."""
    page = [{key: value for key, value in message.items() if key != "channel_type"}]
    return lambda call: frames.answer(200, page)


SPECIMEN = Specimen(
    account=ACCOUNT,
    webhooks=recorded(),
    says=says,
    sign=sign,
    window=timedelta(minutes=5),
    shows=lambda call: str(json.loads(call.body)["content"]),
    pings=pings,
    takes=lambda call: frames.answer(200, posted(call)),
    echoes=lambda call, answer: dispatched("MESSAGE_CREATE", posted(call)),
    past={"said": past(frames.message())},
    directs={"direct": Direct(address="101", answers=lambda c: frames.answer(200, {"id": "777"}))},
    children={
        "thread": Child(
            room=ConversationRef("discord", ME, "800", kind=Kind.ROOM),
            root="5001",
            answer=frames.answer(201, {"id": "5001", "type": 11}),
        )
    },
    checks=[
        frames.answer(
            200,
            {
                "id": ME,
                "flags": 1 << 19,
                "verify_key": PUBLIC,
                "bot": {"id": ME, "username": "simbot"},
            },
        )
    ],
    refusals=[
        Refusal(
            answer=frames.answer(429, {"retry_after": 0.35, "global": False}),
            failure=Failure.RATE_LIMITED,
            wait=0.35,
        ),
        Refusal(answer=frames.answer(404, {"code": 10003}), failure=Failure.NOT_FOUND),
        Refusal(answer=frames.answer(403, {"code": 50001}), failure=Failure.AUTH),
        Refusal(answer=frames.answer(503, {"code": 130000}), failure=Failure.TRANSIENT),
    ],
)
