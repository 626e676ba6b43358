"""`Idempotency-Key` on every POST: which request it stands for, and who used it."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import replace
from typing import Any

import msgspec
from litestar import Request

from threadline.core.model import (
    AdapterCaller,
    Caller,
    Controller,
    Guest,
    InboundMessage,
    SessionCaller,
)
from threadline.flows.every import Flows
from threadline.flows.keys import Claim, KeyedStore, checked_key
from threadline.flows.tokens import Bearer

HEADER = "Idempotency-Key"
OWN = "own"
ONCE = "once"


def owner_of(bearer: Bearer) -> str:
    """Whose key it is. It outlives the exchange of a token, as far as the token is only a key to
    somebody who is named elsewhere."""
    caller: Caller = bearer.caller
    match caller:
        case Controller():
            return f"token {bearer.id}"
        case AdapterCaller(scope, provider, account):
            return f"adapter {scope} {provider} {account}"
        case SessionCaller():
            return f"session {caller.scope_id} {caller.session}"
        case Guest(room, actor):
            return f"guest {room} {actor.id}"


async def line_of(request: Request[Any, Any, Any], line: Flows) -> Flows:
    """The flows for this request: under its key where it is a POST and has one.

    A route whose flow keeps its keys itself says `key=OWN`, one whose answer cannot be given twice
    `key=ONCE`. Raises `InvalidInput` for a key that cannot be kept.
    """
    how = request.route_handler.opt.get("key")
    key = checked_key(request.headers.get(HEADER))
    bearer: Bearer | None = getattr(request.state, "bearer", None)
    # A route that is open to everybody has nobody whose key it would be.
    if request.method != "POST" or key is None or how == OWN or bearer is None:
        return line
    claim = Claim(
        owner=owner_of(bearer),
        request=f"{request.method} {request.url.path}",
        key=key,
        payload=_digest(await request.body()),
    )
    return line.over(KeyedStore(line.store, claim, once=how == ONCE))


def _digest(body: bytes) -> str:
    """The same for the same JSON, however it is written."""
    # What is no JSON is refused by the route.
    with contextlib.suppress(msgspec.DecodeError):
        body = msgspec.json.encode(msgspec.json.decode(body), order="sorted")
    return hashlib.sha256(body).hexdigest()


def repeated(line: Flows) -> bool:
    """Whether this request's key was used before."""
    return isinstance(line.store, KeyedStore) and line.store.repeated


def named(line: Flows, message: InboundMessage, number: int = 0) -> InboundMessage:
    """The message with an id made of the request's key where it has none of its own."""
    if message.message_id is not None or not isinstance(line.store, KeyedStore):
        return message
    return replace(message, message_id=line.store.claim.message_id(number))
