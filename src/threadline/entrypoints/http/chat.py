"""The room as a guest has it: come in by a link, read, say something, follow, leave.

Coming in is open to whoever has the link; everything else is the guest's cookie's. What people
without a token may ask for is bounded per address and per guest.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

from litestar import Request, Response, delete, get, post
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody

from threadline.core.errors import InvalidInput, Limited, NotFound
from threadline.core.model import Guest
from threadline.entrypoints.http import answers, rooms
from threadline.entrypoints.http.auth import (
    GUEST,
    GUEST_COOKIE,
    OPEN,
    PRIVATE,
    Asker,
    Connection,
    Credential,
    Line,
    callers,
    doorman_of,
    guest_cookie,
    which_guest,
)
from threadline.entrypoints.http.bodies import Body
from threadline.entrypoints.http.buckets import Buckets, address_of
from threadline.entrypoints.http.conversations import Answer, transcript_of
from threadline.entrypoints.http.keys import OWN
from threadline.entrypoints.http.origins import is_secure
from threadline.entrypoints.http.streams import Events, place_in, record_event
from threadline.entrypoints.shapes import plain, record_of
from threadline.flows.guests import GuestState

PATH = "/chat"


def buckets_of(connection: Connection) -> Buckets:
    """The application's buckets."""
    buckets: Buckets = connection.app.state.buckets
    return buckets


def counted(connection: Connection) -> Buckets:
    """Count a request from its address. Raises `Limited`."""
    buckets = buckets_of(connection)
    buckets.take("requests", address_of(connection), buckets.limits.requests)
    return buckets


def guest_of(guest: GuestState, which: str) -> Answer:
    """A guest in its room as the page sees it; `which` is the word for it in this browser."""
    found = dict(plain(guest))
    del found["secret"], found["lasts"]
    return {**found, "guest": which}


def which_of(connection: Connection) -> str:
    """The word for the guest that asks."""
    return guest_cookie(connection).removeprefix(f"{GUEST_COOKIE}_")


class EnterBody(Body):
    """What the guest wants to be called."""

    name: str


@get(
    PATH + "/{link:str}/door",
    opt=callers(OPEN),
    response_headers=PRIVATE,
    responses=answers.shown(rooms.Door),
)
async def door(link: FromPath[str], request: Request[Any, Any, Any], line: Line) -> Answer:
    """Where a link leads, before anybody comes in. A guess at one costs as much as an entry."""
    buckets = counted(request)
    whose = address_of(request)
    buckets.look("entries", whose, buckets.limits.entries)
    try:
        title = await line.guests.door(link)
    except NotFound:
        buckets.take("entries", whose, buckets.limits.entries)
        raise
    return {"title": title, "guest": which_guest(link)}


@post(
    PATH + "/{link:str}",
    status_code=200,
    opt=callers(OPEN, key=OWN),
    response_headers=PRIVATE,
    responses=answers.shown(rooms.InRoom),
)
async def enter(
    link: FromPath[str],
    data: JSONBody[EnterBody],
    request: Request[Any, Any, Any],
    line: Line,
) -> Response[Answer]:
    """Come into the room of a link under a name nobody there has.

    Whoever came by this link before stays the same guest.
    """
    buckets = counted(request)
    buckets.take("entries", address_of(request), buckets.limits.entries)
    buckets.take("entries of all", "", buckets.limits.all_entries)
    which = which_guest(link)
    name = f"{GUEST_COOKIE}_{which}"
    guest = await line.guests.enter(link, data.name, known=request.cookies.get(name))
    response = Response(guest_of(guest, which))
    response.set_cookie(
        name,
        guest.secret,
        max_age=max(1, int(guest.lasts.total_seconds())),
        path=PATH,
        secure=is_secure(request),
        httponly=True,
        samesite="strict",
    )
    return response


@get(
    PATH + "/me",
    opt=callers(GUEST),
    response_headers=PRIVATE,
    responses=answers.shown(rooms.InRoom),
)
async def me(request: Request[Any, Any, Any], line: Line) -> Answer:
    """The guest behind the cookie, and its room; `guest` names it where a browser has several."""
    counted(request)
    shown: Credential = request.state.credential
    return guest_of(await line.guests.show(shown.secret), which_of(request))


@delete(
    PATH + "/me",
    status_code=200,
    opt=callers(GUEST),
    response_headers=PRIVATE,
    responses=answers.shown(rooms.Over),
)
async def leave(request: Request[Any, Any, Any], line: Line, caller: Asker) -> Response[Answer]:
    """Leave the room, and give up the name."""
    counted(request)
    await line.guests.leave(caller=caller)
    doorman_of(request).forget(request.state.credential)
    response: Response[Answer] = Response({})
    response.delete_cookie(guest_cookie(request), path=PATH)
    return response


@get(
    PATH + "/messages",
    opt=callers(GUEST),
    response_headers=PRIVATE,
    responses=answers.shown(answers.Transcript),
)
async def messages(
    request: Request[Any, Any, Any],
    line: Line,
    caller: Asker,
    after: FromQuery[int | None] = None,
    before: FromQuery[int | None] = None,
    order: FromQuery[str] = "asc",
    limit: FromQuery[int | None] = None,
    view: FromQuery[str] = "records",
) -> Answer:
    """A page of the room's records, as far back as the link allows; cursors are exclusive."""
    counted(request)
    page = await line.guests.transcript(
        after=after, before=before, order=order, limit=limit, view=view, caller=caller
    )
    return transcript_of(page, folded=view == "messages")


class SayBody(Body):
    """What the guest says. `client_id` is the page's own id for it: again is not twice.

    `reply_to` is a sequence or a message id, `files` are ids that were answered for them.
    """

    client_id: str
    text: str = ""
    reply_to: int | str | None = None
    files: tuple[str, ...] = ()


@post(
    PATH + "/messages",
    status_code=200,
    opt=callers(GUEST, key=OWN),
    response_headers=PRIVATE,
    responses=answers.shown(rooms.Said),
)
async def say(
    data: JSONBody[SayBody], request: Request[Any, Any, Any], line: Line, caller: Asker
) -> Answer:
    """Say something in the room."""
    buckets = counted(request)
    assert isinstance(caller, Guest)
    buckets.take("messages", caller.actor.id, buckets.limits.messages)
    if isinstance(data.reply_to, bool):
        raise InvalidInput("reply_to is a sequence or a message id.", field="reply_to")
    taken = await line.guests.say(
        data.text,
        client_id=data.client_id,
        reply_to=data.reply_to,
        files=data.files,
        caller=caller,
    )
    return {
        "record": record_of(taken.record),
        "duplicate": taken.duplicate,
        "held": taken.held,
    }


@get(PATH + "/stream", opt=callers(GUEST), media_type="text/event-stream")
async def stream(
    request: Request[Any, Any, Any],
    line: Line,
    caller: Asker,
    after: FromQuery[int | None] = None,
    last: Annotated[str | None, HeaderParameter(name="Last-Event-ID")] = None,
) -> Response[None]:
    """The room from behind `after` on, or from now on; a reconnect goes on where it was."""
    buckets = counted(request)
    shown: Credential = request.state.credential
    if 0 < buckets.limits.streams <= doorman_of(request).watched(shown):
        raise Limited(f"(streams: {buckets.limits.streams} at once)", retry_after=1)
    room = (await line.guests.show(shown.secret)).conversation
    return Events(followed(line, room, after, last, caller), request)


async def followed(
    line: Line, room: str, after: int | None, last: str | None, caller: Asker
) -> AsyncIterator[bytes]:
    """The room's records as events."""
    if last is not None:
        after = place_in(room, last)
    async with contextlib.aclosing(line.guests.follow(after=after, caller=caller)) as records:  # type: ignore[type-var]
        async for record in records:
            yield record_event(room, record)


ROUTES = [door, enter, me, leave, messages, say, stream]
