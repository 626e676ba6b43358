"""Push over HTTP: where a session is pushed to, and the loop that pushes.

`{"type": "records", "conversation", "ref", "records"}` goes out, signed as Standard Webhooks are;
`gap` is there where retention took records before they were read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Request, delete, get, post, put
from litestar.params import FromPath, JSONBody

from threadline.core.push import MAX_BYTES
from threadline.entrypoints.http.auth import CONTROLLER, SESSION, Asker, Line, callers
from threadline.entrypoints.http.bodies import Body
from threadline.entrypoints.http.conversations import Answer
from threadline.entrypoints.http.loops import beat
from threadline.entrypoints.shapes import handed_of, plain
from threadline.flows.every import Flows
from threadline.flows.push import PushShown
from threadline.flows.pushing import Pushing
from threadline.flows.replay import Backfill, Handed

ONE = "/v1/sessions/{session:str}/push"

_encode = msgspec.json.Encoder().encode


def form(page: Backfill, records: Sequence[Handed]) -> tuple[bytes, int]:
    """The body of a batch, and how many records found room in it: at least one."""
    parts: list[bytes] = []
    size = 0
    for one in records:
        part = _encode(handed_of(one))
        size += len(part) + 1
        if parts and size > MAX_BYTES:
            break
        parts.append(part)
    head: dict[str, Any] = {
        "type": "records",
        "conversation": page.conversation,
        "ref": plain(page.ref),
    }
    if page.gap is not None:
        head["gap"] = {"first": page.gap.first, "last": page.gap.last}
    return _encode(head)[:-1] + b',"records":[' + b",".join(parts) + b"]}", len(parts)


class PushBody(Body):
    """Where the session's records go."""

    url: str


def _shown(target: PushShown) -> Answer:
    found: Answer = plain(target)
    if target.secret is None:
        del found["secret"]
    return found


@put(ONE, status_code=200, opt=callers(CONTROLLER, SESSION))
async def set_target(
    session: FromPath[str],
    data: JSONBody[PushBody],
    request: Request[Any, Any, Any],
    line: Line,
    caller: Asker,
) -> Answer:
    """Set where the session is pushed to; the signing secret is in this answer and nowhere else."""
    token = request.state.bearer.id
    return _shown(await line.push.set(session, data.url, token_id=token, caller=caller))


@get(ONE, opt=callers(CONTROLLER, SESSION))
async def show(session: FromPath[str], line: Line, caller: Asker) -> Answer:
    """Where the session is pushed to, and how that goes."""
    return _shown(await line.push.show(session, caller=caller))


@delete(ONE, status_code=204, opt=callers(CONTROLLER, SESSION))
async def remove(session: FromPath[str], line: Line, caller: Asker) -> None:
    """Push nothing more."""
    await line.push.remove(session, caller=caller)


@post(ONE + "/prove", status_code=200, opt=callers(CONTROLLER, SESSION))
async def prove(session: FromPath[str], line: Line, caller: Asker) -> Answer:
    """Send the signed challenge; from the right answer on the target is pushed to."""
    return _shown(await line.push.prove(session, caller=caller))


async def pushing(line: Flows, stopping: asyncio.Event) -> None:
    """Push to the proven targets of all sessions."""
    await Pushing(line.store, line.push, form).run(stopping, beat)


ROUTES = [set_target, show, remove, prove]
LOOPS = [pushing]
