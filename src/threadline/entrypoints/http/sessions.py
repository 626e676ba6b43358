"""Sessions: created, named, reassigned, retired, and what each reads."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from litestar import Request, delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody

from threadline.core.errors import InvalidInput
from threadline.core.rules import authority
from threadline.entrypoints.http import answers
from threadline.entrypoints.http.auth import CONTROLLER, SESSION, Asker, Line, callers, doorman_of
from threadline.entrypoints.http.bodies import Body
from threadline.entrypoints.http.conversations import Answer
from threadline.entrypoints.http.keys import ONCE
from threadline.entrypoints.http.members import member_of
from threadline.entrypoints.shapes import plain

ROOT = "/v1/sessions"
ONE = ROOT + "/{session:str}"


@get(ROOT, opt=callers(CONTROLLER), responses=answers.shown(answers.Sessions))
async def page(
    line: Line,
    caller: Asker,
    after: FromQuery[str | None] = None,
    limit: FromQuery[int | None] = None,
) -> Answer:
    """The sessions of the scope."""
    states, following = await line.sessions.page(after=_place(after), limit=limit, caller=caller)
    return {
        "sessions": [plain(one) for one in states],
        "next": None if following is None else f"{following[1]}/{following[0]}",
    }


def _place(cursor: str | None) -> tuple[str, int]:
    if cursor is None:
        return ("", 0)
    number, mark, name = cursor.partition("/")
    if not mark or not number.isdecimal() or len(number) > 19:
        raise InvalidInput("the cursor is not one a page gave.", after=cursor[:64])
    return (name, int(number))


class SessionBody(Body):
    """A session's name; metadata is merged."""

    session_id: str
    metadata: dict[str, Any] | None = None


@post(ROOT, status_code=200, opt=callers(CONTROLLER), responses=answers.shown(answers.Session))
async def create(data: JSONBody[SessionBody], line: Line, caller: Asker) -> Answer:
    """Create a session, or find it; a retired name begins anew."""
    made = await line.sessions.create(data.session_id, metadata=data.metadata, caller=caller)
    return dict(plain(made))


@get(ONE, opt=callers(CONTROLLER, SESSION), responses=answers.shown(answers.Session))
async def show(session: FromPath[str], line: Line, caller: Asker) -> Answer:
    """One session."""
    return dict(plain(await line.sessions.show(session, caller=caller)))


@get(
    ONE + "/conversations",
    opt=callers(CONTROLLER, SESSION),
    responses=answers.shown(answers.Memberships),
)
async def conversations(
    session: FromPath[str],
    line: Line,
    caller: Asker,
    after: FromQuery[int] = -1,
    limit: FromQuery[int | None] = None,
) -> Answer:
    """What the session reads, with its cursor in each."""
    members, following = await line.members.conversations_of(
        session, after=after, limit=limit, caller=caller
    )
    return {"conversations": [member_of(one) for one in members], "next": following}


class AliasBody(Body):
    """A further name."""

    alias: str


@post(
    ONE + "/aliases",
    status_code=200,
    opt=callers(CONTROLLER),
    responses=answers.shown(answers.Session),
)
async def alias(
    session: FromPath[str], data: JSONBody[AliasBody], line: Line, caller: Asker
) -> Answer:
    """Give a session a further name."""
    return dict(plain(await line.sessions.alias(session, data.alias, caller=caller)))


@delete(
    ONE + "/aliases/{alias:str}",
    status_code=200,
    opt=callers(CONTROLLER),
    responses=answers.shown(answers.Session),
)
async def unalias(
    session: FromPath[str], alias: FromPath[str], line: Line, caller: Asker
) -> Answer:
    """Take a further name away."""
    return dict(plain(await line.sessions.alias(session, alias, remove=True, caller=caller)))


class ReassignBody(Body):
    """Who takes over."""

    to: str


@post(
    ONE + "/reassign",
    status_code=200,
    opt=callers(CONTROLLER),
    responses=answers.shown(answers.Session),
)
async def reassign(
    session: FromPath[str],
    data: JSONBody[ReassignBody],
    request: Request[Any, Any, Any],
    line: Line,
    caller: Asker,
) -> Answer:
    """Hand everything of a session to another."""
    state = await line.sessions.reassign(session, data.to, caller=caller)
    doorman_of(request).forget()
    return dict(plain(state))


@post(
    ONE + "/retire",
    status_code=200,
    opt=callers(CONTROLLER),
    responses=answers.shown(answers.Session),
)
async def retire(
    session: FromPath[str], request: Request[Any, Any, Any], line: Line, caller: Asker
) -> Answer:
    """End everything of a session."""
    state = await line.sessions.retire(session, caller=caller)
    doorman_of(request).forget()
    return dict(plain(state))


class SessionTokenBody(Body):
    """What the token may do: read, publish, send, push."""

    scopes: list[str] | None = None
    name: str = ""
    expires_at: datetime | None = None


@post(
    ONE + "/tokens",
    status_code=200,
    opt=callers(CONTROLLER, key=ONCE),
    responses=answers.shown(answers.Token),
)
async def token(
    session: FromPath[str], data: JSONBody[SessionTokenBody], line: Line, caller: Asker
) -> Answer:
    """Make a token for a session; it is shown once."""
    made = await line.tokens.create(
        "session",
        name=data.name,
        scope=authority.scope_of(caller),
        session=session,
        scopes=data.scopes,
        expires_at=data.expires_at,
        caller=caller,
    )
    return dict(plain(made))


ROUTES = [page, create, show, conversations, alias, unalias, reassign, retire, token]
