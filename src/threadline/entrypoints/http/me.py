"""Who is calling: what a token says about its bearer."""

from __future__ import annotations

from litestar import get

from threadline.core.ids import public
from threadline.core.model import AdapterCaller, Controller, Guest, SessionCaller
from threadline.entrypoints.http.auth import (
    ADAPTER,
    BOUND,
    CONTROLLER,
    GUEST,
    SESSION,
    Asker,
    callers,
)
from threadline.entrypoints.http.conversations import Answer
from threadline.entrypoints.shapes import plain


@get("/v1/me", opt=callers(CONTROLLER, ADAPTER, SESSION, BOUND, GUEST))
async def me(caller: Asker) -> Answer:
    """Who the token makes of its bearer; a null scope is every scope; a human grants consent."""
    match caller:
        case Controller(scope, human):
            return {"kind": "controller", "scope_id": scope, "human": human}
        case AdapterCaller(scope, provider, account):
            return {
                "kind": "adapter",
                "scope_id": scope,
                "provider": provider,
                "account_id": account,
            }
        case SessionCaller(session, scope, scopes, conversation):
            return {
                "kind": "session",
                "scope_id": scope,
                "session_id": session,
                "scopes": sorted(scopes),
                "conversation_id": None if conversation is None else public(conversation),
            }
        case Guest(room, actor):
            return {"kind": "guest", "scope_id": room.scope_id, "actor": plain(actor)}


ROUTES = [me]
