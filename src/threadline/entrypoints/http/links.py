"""Room links over HTTP: made and shown once, listed without their secret, revoked at once."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from litestar import Request, delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody

from threadline.core.model import BackfillPolicy
from threadline.entrypoints.http import answers, rooms
from threadline.entrypoints.http.auth import (
    CONTROLLER,
    PRIVATE,
    Asker,
    Line,
    callers,
    doorman_of,
)
from threadline.entrypoints.http.bodies import Body
from threadline.entrypoints.http.conversations import Answer, Id
from threadline.entrypoints.http.keys import ONCE
from threadline.entrypoints.http.origins import own_url
from threadline.entrypoints.shapes import plain
from threadline.flows.links import LinkState

ROOT = "/v1/conversations/{conversation:str}/links"


def link_of(link: LinkState) -> Answer:
    """A link as it is shown again: without its secret."""
    found = dict(plain(link))
    del found["secret"]
    return found


class LinkBody(Body):
    """How much of the past its guests read, and until when it opens the room."""

    name: str = ""
    policy: str = BackfillPolicy.SINCE_JOIN.value
    n: int | None = None
    expires_at: datetime | None = None


@post(
    ROOT,
    status_code=200,
    opt=callers(CONTROLLER, key=ONCE),
    response_headers=PRIVATE,
    responses=answers.shown(rooms.MadeLink),
)
async def create(
    conversation: Id,
    data: JSONBody[LinkBody],
    request: Request[Any, Any, Any],
    line: Line,
    caller: Asker,
) -> Answer:
    """Make a link into the room; where it leads is in this answer and nowhere else."""
    made = await line.links.create(
        conversation,
        name=data.name,
        policy=data.policy,
        n=data.n,
        expires_at=data.expires_at,
        caller=caller,
    )
    path = f"/chat/{made.secret}"
    return {**link_of(made), "url_path": path, "url": own_url(request) + path}


@get(ROOT, opt=callers(CONTROLLER), responses=answers.shown(rooms.Links))
async def page(
    conversation: Id,
    line: Line,
    caller: Asker,
    after: FromQuery[str | None] = None,
    limit: FromQuery[int | None] = None,
) -> Answer:
    """The room's links without their secrets."""
    found, following = await line.links.page(conversation, after=after, limit=limit, caller=caller)
    return {"links": [link_of(one) for one in found], "next": following}


@delete(
    "/v1/links/{link:str}",
    status_code=200,
    opt=callers(CONTROLLER),
    responses=answers.shown(rooms.Link),
)
async def revoke(
    link: FromPath[str], request: Request[Any, Any, Any], line: Line, caller: Asker
) -> Answer:
    """End a link at once; its guests are out and their streams are cut within a second."""
    ended = await line.links.revoke(link, caller=caller)
    doorman_of(request).forget()
    return link_of(ended)


ROUTES = [create, page, revoke]
