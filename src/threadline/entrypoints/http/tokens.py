"""Tokens over HTTP: made and shown once, listed without their secret, revoked at once."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from litestar import Request, delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody

from threadline.core.rules import authority
from threadline.entrypoints.http import answers
from threadline.entrypoints.http.auth import (
    CONTROLLER,
    SESSION,
    Asker,
    Line,
    callers,
    doorman_of,
)
from threadline.entrypoints.http.bodies import Body
from threadline.entrypoints.http.conversations import Answer, Id
from threadline.entrypoints.http.keys import ONCE
from threadline.entrypoints.shapes import plain


class TokenBody(Body):
    """`kind` is controller, adapter (with provider and account_id) or session (with session_id).

    A controller's may be `human`: such a one grants consent, and only such a one makes another.
    """

    kind: str
    name: str = ""
    scope_id: str | None = None
    all_scopes: bool = False
    provider: str | None = None
    account_id: str | None = None
    session_id: str | None = None
    scopes: list[str] | None = None
    expires_at: datetime | None = None
    human: bool = False


@post(
    "/v1/tokens",
    status_code=200,
    opt=callers(CONTROLLER, key=ONCE),
    responses=answers.shown(answers.Token),
)
async def create(data: JSONBody[TokenBody], line: Line, caller: Asker) -> Answer:
    """Make a token; its secret is in this answer and nowhere else, also not under the same key."""
    scope = authority.scope_of(caller) if data.scope_id is None else data.scope_id
    made = await line.tokens.create(
        data.kind,
        name=data.name,
        scope=None if data.all_scopes else scope,
        provider=data.provider,
        account_id=data.account_id,
        session=data.session_id,
        scopes=data.scopes,
        expires_at=data.expires_at,
        human=data.human,
        caller=caller,
    )
    return dict(plain(made))


@get("/v1/tokens", opt=callers(CONTROLLER), responses=answers.shown(answers.Tokens))
async def page(
    line: Line,
    caller: Asker,
    after: FromQuery[str | None] = None,
    limit: FromQuery[int | None] = None,
) -> Answer:
    """Tokens without their secrets."""
    tokens, following = await line.tokens.page(after=after, limit=limit, caller=caller)
    return {"tokens": [plain(one) for one in tokens], "next": following}


class LentBody(Body):
    """A token for one conversation: `seconds` from now on, with the scopes read and publish."""

    session_id: str
    seconds: float
    scopes: list[str] | None = None
    name: str = ""


@post(
    "/v1/conversations/{conversation:str}/tokens",
    status_code=200,
    opt=callers(CONTROLLER, SESSION),
)
async def lend(
    conversation: Id,
    data: JSONBody[LentBody],
    request: Request[Any, Any, Any],
    line: Line,
    caller: Asker,
) -> Answer:
    """Make a session's token that is good in this conversation and nowhere else; it ends with the
    token it was made with."""
    made = await line.tokens.lend(
        data.session_id,
        conversation,
        scopes=data.scopes,
        seconds=data.seconds,
        name=data.name,
        parent=request.state.bearer.id,
        caller=caller,
    )
    return dict(plain(made))


@delete(
    "/v1/tokens/{token:str}",
    status_code=200,
    opt=callers(CONTROLLER, SESSION),
    responses=answers.shown(answers.Token),
)
async def revoke(
    token: FromPath[str], request: Request[Any, Any, Any], line: Line, caller: Asker
) -> Answer:
    """End a token at once; its streams are cut within a second. A session ends those it lent."""
    ended = await line.tokens.revoke(token, caller=caller)
    doorman_of(request).forget()
    return dict(plain(ended))


ROUTES = [create, page, lend, revoke]
