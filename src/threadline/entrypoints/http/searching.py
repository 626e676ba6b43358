"""Search over what the caller may read."""

from __future__ import annotations

from litestar import get
from litestar.params import FromQuery

from threadline.core.model import SessionCaller
from threadline.entrypoints.http import answers
from threadline.entrypoints.http.auth import CONTROLLER, SESSION, Asker, Line, callers
from threadline.entrypoints.http.conversations import Answer
from threadline.entrypoints.shapes import plain, record_of


@get("/v1/search", opt=callers(CONTROLLER, SESSION), responses=answers.shown(answers.Hits))
async def find(
    line: Line,
    caller: Asker,
    q: FromQuery[str],
    session: FromQuery[str | None] = None,
    after: FromQuery[str | None] = None,
    limit: FromQuery[int | None] = None,
) -> Answer:
    """Records that have all these words, newest first."""
    if isinstance(caller, SessionCaller) and session is None:
        session = caller.session
    found = await line.search.find(q, session=session, after=after, limit=limit, caller=caller)
    hits = [
        {"conversation": one.conversation, "ref": plain(one.ref), "record": record_of(one.record)}
        for one in found.hits
    ]
    return {"hits": hits, "next": found.next, "indexed_through": plain(found.indexed_through)}


ROUTES = [find]
