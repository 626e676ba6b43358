"""What providers send: raw bytes in, recorded, then a 2xx; and the accounts it is sent for."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import Request, Response, get, post, put
from litestar.params import FromPath, JSONBody

from threadline.core import wire
from threadline.entrypoints.http.auth import CONTROLLER, OPEN, Asker, Line, callers
from threadline.entrypoints.http.bodies import Body
from threadline.entrypoints.http.conversations import Answer, Id
from threadline.entrypoints.http.keys import ONCE, OWN
from threadline.entrypoints.http.loops import beat
from threadline.entrypoints.shapes import plain
from threadline.flows.accounts import PATH
from threadline.flows.every import Flows
from threadline.flows.histories import Told

ONE = PATH + "/{provider:str}/{account:str}"


class AccountBody(Body):
    """An account to be connected: what its provider asks for, by name.

    `installation` is the name in the path of its webhook; `public_url` is where the provider
    reaches this server, by default where people do.
    """

    provider: str
    given: dict[str, str] = msgspec.field(default_factory=dict)
    installation: str | None = None
    public_url: str | None = None
    scope_id: str | None = None


class HistoryBody(Body):
    """How much of the past is wanted: at most so many messages, null for all of it."""

    most: int | None = None


async def _taken(
    provider: str, installation: str, request: Request[Any, Any, Any], line: Flows
) -> Response[bytes]:
    asked = wire.Request(
        method=request.method,
        path=request.url.path,
        headers={name.lower(): value for name, value in request.headers.items()},
        body=await request.body(),
        query=dict(request.query_params.items()),
    )
    reply = await line.webhooks.receive(provider, installation, asked)
    return Response(reply.body, status_code=reply.status, media_type=reply.content_type)


@post(ONE, status_code=200, opt=callers(OPEN, key=OWN))
async def receive(
    provider: FromPath[str],
    account: FromPath[str],
    request: Request[Any, Any, Any],
    line: Line,
) -> Response[bytes]:
    """Take what a provider sends to the account installed under this name, once its signature was
    verified.

    What it holds is durable before this answers; a redelivery changes nothing.
    """
    return await _taken(provider, account, request, line)


@put(ONE + "/_matrix/app/v1/transactions/{transaction:str}", opt=callers(OPEN))
async def transaction(
    provider: FromPath[str],
    account: FromPath[str],
    transaction: FromPath[str],
    request: Request[Any, Any, Any],
    line: Line,
) -> Response[bytes]:
    """Take what a Matrix homeserver pushes to an application service, once its token was verified.

    It sends the same transaction until this answers, and nothing that came later before that.
    """
    return await _taken(provider, account, request, line)


@get(ONE, opt=callers(OPEN))
async def verify(
    provider: FromPath[str],
    account: FromPath[str],
    request: Request[Any, Any, Any],
    line: Line,
) -> Response[bytes]:
    """Answer a provider that verifies the address of a webhook by asking it."""
    return await _taken(provider, account, request, line)


@post("/v1/accounts", status_code=200, opt=callers(CONTROLLER, key=ONCE))
async def connect(
    data: JSONBody[AccountBody], request: Request[Any, Any, Any], line: Line, caller: Asker
) -> Answer:
    """Connect an account of ours on a platform, once the platform said who it is.

    Secrets that were made up here, and that the platform's pages have to be given, are in this
    answer and nowhere else.
    """
    public_url = request.app.state.settings.public_url
    made = await line.accounts.connect(
        data.provider,
        data.given,
        installation=data.installation,
        public_url=public_url if data.public_url is None else data.public_url,
        scope=data.scope_id,
        caller=caller,
    )
    return dict(plain(made))


@get("/v1/providers/{provider:str}", opt=callers(CONTROLLER))
async def asks(provider: FromPath[str], line: Line, caller: Asker) -> Answer:
    """What has to be known to connect an account of this provider."""
    found = await line.accounts.asks(provider, caller=caller)
    return {"provider": provider, "asks": [plain(one) for one in found]}


@post(
    "/v1/accounts/{provider:str}/{account:str}/check",
    status_code=200,
    opt=callers(CONTROLLER, key=OWN),
)
async def check(
    provider: FromPath[str], account: FromPath[str], line: Line, caller: Asker
) -> Answer:
    """Ask the platform once more who the account is: whether its credentials still hold."""
    return dict(plain(await line.accounts.check(provider, account, caller=caller)))


@post(
    "/v1/conversations/{conversation:str}/history",
    status_code=200,
    opt=callers(CONTROLLER, key=OWN),
)
async def hydrate(
    conversation: Id, data: JSONBody[HistoryBody], line: Line, caller: Asker
) -> Answer:
    """Import what was said here, and in its threads, from the provider; it may take minutes."""
    told = await line.histories.hydrate(conversation, most=data.most, caller=caller)
    return _told(told)


def _told(told: Told) -> Answer:
    return {
        "ref": str(told.conversation),
        "written": told.written,
        "known": told.known,
        "refused": told.refused,
        "partial": told.partial,
        "children": [_told(one) for one in told.children],
    }


async def listeners(line: Flows, stopping: asyncio.Event) -> None:
    """Fetch the events of accounts that have no webhook."""
    await line.listeners.run(stopping, beat)


ROUTES = [receive, transaction, verify, connect, asks, check, hydrate]
LOOPS = [listeners]
