"""The page's login: a controller's token once, a cookie from then on.

The token itself is nowhere in the browser afterwards, and in no address.
"""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, delete, get, post
from litestar.params import JSONBody

from threadline.core.errors import Unauthenticated
from threadline.core.model import Controller
from threadline.entrypoints.http import answers, rooms
from threadline.entrypoints.http.auth import (
    CONTROLLER,
    OPEN,
    PAGE_COOKIE,
    PRIVATE,
    Line,
    callers,
    credential_of,
    doorman_of,
    kind_of,
)
from threadline.entrypoints.http.bodies import Body
from threadline.entrypoints.http.buckets import Buckets, address_of
from threadline.entrypoints.http.conversations import Answer
from threadline.entrypoints.http.keys import OWN
from threadline.entrypoints.http.origins import is_secure
from threadline.entrypoints.shapes import plain
from threadline.flows.tokens import Bearer

PATH = "/login"


def login_of(bearer: Bearer) -> Answer:
    """A login as the page sees it."""
    assert isinstance(bearer.caller, Controller)
    return {
        "csrf": bearer.csrf,
        "kind": kind_of(bearer.caller),
        "scope_id": bearer.caller.scope_id,
        "expires_at": plain(bearer.expires_at),
    }


class LoginBody(Body):
    """A controller's token."""

    token: str


@post(
    PATH,
    status_code=200,
    opt=callers(OPEN, key=OWN),
    response_headers=PRIVATE,
    responses=answers.shown(rooms.Login),
)
async def log_in(
    data: JSONBody[LoginBody], request: Request[Any, Any, Any], line: Line
) -> Response[Answer]:
    """Exchange a controller's token for the page's cookie. Wrong ones are counted per address."""
    buckets: Buckets = request.app.state.buckets
    whose = address_of(request)
    buckets.look("wrong tokens", whose, buckets.limits.entries)
    try:
        made = await line.logins.log_in(data.token.strip())
    except Unauthenticated:
        buckets.take("wrong tokens", whose, buckets.limits.entries)
        raise
    response = Response(login_of(made.bearer))
    response.set_cookie(
        PAGE_COOKIE,
        made.secret,
        max_age=max(1, int(made.lasts.total_seconds())),
        path="/",
        secure=is_secure(request),
        httponly=True,
        samesite="strict",
    )
    return response


@get(PATH, opt=callers(CONTROLLER), response_headers=PRIVATE, responses=answers.shown(rooms.Login))
async def who(request: Request[Any, Any, Any]) -> Answer:
    """The login there is."""
    bearer: Bearer = request.state.bearer
    return login_of(bearer)


@delete(
    PATH,
    status_code=200,
    opt=callers(CONTROLLER),
    response_headers=PRIVATE,
    responses=answers.shown(rooms.Over),
)
async def log_out(request: Request[Any, Any, Any], line: Line) -> Response[Answer]:
    """End the login; its streams are cut within a second, its token stays as it is."""
    shown = credential_of(request)
    if shown is not None and shown.cookie == PAGE_COOKIE:
        await line.logins.log_out(shown.secret)
        doorman_of(request).forget(shown)
    response: Response[Answer] = Response({})
    response.delete_cookie(PAGE_COOKIE, path="/")
    return response


ROUTES = [log_in, who, log_out]
