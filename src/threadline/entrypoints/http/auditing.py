"""The audit over HTTP: what was allowed, refused and done, and whether anybody changed it."""

from __future__ import annotations

from datetime import datetime

from litestar import get
from litestar.params import FromQuery

from threadline.core.rules.limits import clamp
from threadline.entrypoints.http import answers, replies
from threadline.entrypoints.http.auth import CONTROLLER, Asker, Line, callers
from threadline.entrypoints.http.conversations import Answer
from threadline.entrypoints.shapes import plain


@get("/v1/audit", opt=callers(CONTROLLER), responses=answers.shown(replies.Audit))
async def page(
    line: Line,
    caller: Asker,
    action: FromQuery[str] = "",
    before: FromQuery[int | None] = None,
    since: FromQuery[datetime | None] = None,
    limit: FromQuery[int | None] = None,
) -> Answer:
    """Entries, newest first; those of one action, or since a time, where that is asked for."""
    found = await line.audits.list(
        action=action, before=before, since=since, limit=limit, caller=caller
    )
    full = len(found) == clamp(limit, line.limits)
    # The digest is the chain's, and of use to nobody without its key.
    names = ("number", "at", "by", "action", "subject", "facts")
    return {
        "entries": [{name: plain(getattr(one, name)) for name in names} for one in found],
        "next": found[-1].number if found and full else None,
    }


@get("/v1/audit/verify", opt=callers(CONTROLLER), responses=answers.shown(replies.Verified))
async def verify(line: Line, caller: Asker) -> Answer:
    """Read all of it and say whether it is whole."""
    verdict = await line.audits.verify(caller=caller)
    return {"whole": verdict.whole, **plain(verdict)}


ROUTES = [page, verify]
