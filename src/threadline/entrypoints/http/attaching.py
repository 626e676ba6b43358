"""Attaching over HTTP: the lease on running a session's agent, and the runs it is for."""

from __future__ import annotations

from litestar import delete, get, post, put
from litestar.params import FromPath, FromQuery, JSONBody

from threadline.core.attaching import LEASE_SECONDS
from threadline.core.errors import NotFound
from threadline.entrypoints.http.auth import CONTROLLER, SESSION, Asker, Line, callers
from threadline.entrypoints.http.bodies import Body
from threadline.entrypoints.http.conversations import Answer
from threadline.entrypoints.shapes import plain

ROOT = "/v1/sessions/{session:str}/attachment"


class AttachBody(Body):
    """`holder` is the caller's own word, shown again after a crash; `name` is what others are told.
    With `fence` a lease is kept for `seconds` longer."""

    holder: str
    name: str
    seconds: float = LEASE_SECONDS
    fence: int | None = None


@put(ROOT, opt=callers(CONTROLLER, SESSION))
async def attach(
    session: FromPath[str], data: JSONBody[AttachBody], line: Line, caller: Asker
) -> Answer:
    """Become the one who runs the session's agent, or stay it."""
    lease = await line.attaching.attach(
        session,
        holder=data.holder,
        name=data.name,
        seconds=data.seconds,
        fence=data.fence,
        caller=caller,
    )
    return dict(plain(lease))


@get(ROOT, opt=callers(CONTROLLER, SESSION))
async def show(session: FromPath[str], line: Line, caller: Asker) -> Answer:
    """Who runs the session's agent."""
    lease = await line.attaching.show(session, caller=caller)
    if lease is None:
        raise NotFound("nobody runs this session's agent.")
    return dict(plain(lease))


@delete(ROOT, status_code=200, opt=callers(CONTROLLER, SESSION))
async def detach(
    session: FromPath[str], line: Line, caller: Asker, fence: FromQuery[int]
) -> Answer:
    """Give the lease back."""
    return dict(plain(await line.attaching.detach(session, fence, caller=caller)))


class RunBody(Body):
    """The unread records a run is about, and how often the agent failed in it so far."""

    conversation: str
    fence: int
    first: int
    last: int
    failures: int = 0


@post(ROOT + "/runs", status_code=200, opt=callers(CONTROLLER, SESSION))
async def begin(
    session: FromPath[str], data: JSONBody[RunBody], line: Line, caller: Asker
) -> Answer:
    """Write a run down before it starts; an open one is the answer instead."""
    run = await line.attaching.begin(
        session,
        data.conversation,
        fence=data.fence,
        first=data.first,
        last=data.last,
        failures=data.failures,
        caller=caller,
    )
    return dict(plain(run))


ROUTES = [attach, show, detach, begin]
