"""Adapters that run elsewhere: registered, shown, removed; and the children they open."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody

from threadline.core.model import AdapterCaller
from threadline.entrypoints.http.auth import ADAPTER, CONTROLLER, Asker, Line, callers
from threadline.entrypoints.http.bodies import Body
from threadline.entrypoints.http.conversations import Answer, Id
from threadline.entrypoints.http.publishing import Key
from threadline.entrypoints.shapes import plain
from threadline.flows.tokens import Bearer


class AdapterBody(Body):
    """Who speaks for an account. An adapter's token is of one account, which may be left out."""

    callback: str
    provider: str | None = None
    account_id: str | None = None
    scope_id: str | None = None
    capabilities: dict[str, Any] = msgspec.field(default_factory=dict)
    secret: str | None = None


class ChildBody(Body):
    """A conversation to be opened below another: on a message, or beside it."""

    reply_to: str | None = None
    title: str = ""


def _owner(request: Request[Any, Any, Any]) -> str:
    bearer: Bearer = request.state.bearer
    return bearer.id


@post("/v1/adapters", status_code=200, opt=callers(CONTROLLER, ADAPTER))
async def register(
    data: JSONBody[AdapterBody], request: Request[Any, Any, Any], line: Line, caller: Asker
) -> Answer:
    """Register the callback that speaks for an account, once it gave a signed challenge back.

    The secret that signs what is sent is in this answer and nowhere else.
    """
    own = caller if isinstance(caller, AdapterCaller) else None
    provider = data.provider or ("" if own is None else own.provider)
    account = data.account_id or ("" if own is None else own.account_id)
    made = await line.adapters.register(
        provider,
        account,
        data.callback,
        capabilities=data.capabilities,
        secret=data.secret,
        owner=_owner(request),
        scope=data.scope_id,
        caller=caller,
    )
    return dict(plain(made))


@get("/v1/adapters", opt=callers(CONTROLLER, ADAPTER))
async def page(
    line: Line,
    caller: Asker,
    scope_id: FromQuery[str | None] = None,
    after: FromQuery[str | None] = None,
    limit: FromQuery[int | None] = None,
) -> Answer:
    """Who speaks for which account; an adapter sees itself."""
    found, following = await line.adapters.page(
        scope=scope_id, after=after, limit=limit, caller=caller
    )
    return {"adapters": [plain(one) for one in found], "next": following}


@get("/v1/adapters/{provider:str}/{account:str}", opt=callers(CONTROLLER, ADAPTER))
async def show(
    provider: FromPath[str],
    account: FromPath[str],
    line: Line,
    caller: Asker,
    scope_id: FromQuery[str | None] = None,
) -> Answer:
    """One registration, without its secret."""
    return dict(plain(await line.adapters.show(provider, account, scope=scope_id, caller=caller)))


@delete(
    "/v1/adapters/{provider:str}/{account:str}",
    status_code=200,
    opt=callers(CONTROLLER, ADAPTER),
)
async def remove(
    provider: FromPath[str],
    account: FromPath[str],
    request: Request[Any, Any, Any],
    line: Line,
    caller: Asker,
    scope_id: FromQuery[str | None] = None,
) -> Answer:
    """End a registration; what waits for the account is kept as long as it may live."""
    ended = await line.adapters.remove(
        provider, account, owner=_owner(request), scope=scope_id, caller=caller
    )
    return dict(plain(ended))


@post(
    "/v1/conversations/{conversation:str}/children",
    status_code=200,
    opt=callers(CONTROLLER, ADAPTER),
)
async def open_child(
    conversation: Id, data: JSONBody[ChildBody], line: Line, caller: Asker, key: Key = None
) -> Answer:
    """Let the adapter open a conversation below this one; answers the child."""
    made = await line.adapters.open_child(
        conversation, root=data.reply_to, title=data.title, key=key, caller=caller
    )
    return dict(plain(made))


ROUTES = [register, page, show, remove, open_child]
