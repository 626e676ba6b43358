"""What sessions say on their own initiative over HTTP: to a session, a person, a room."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery, JSONBody

from threadline.core.errors import InvalidInput
from threadline.core.model import Caller
from threadline.core.rules.limits import clamp
from threadline.core.sends import AUTO, WAITING, Repeat
from threadline.entrypoints.http import answers, replies
from threadline.entrypoints.http.auth import CONTROLLER, SESSION, Asker, Line, callers
from threadline.entrypoints.http.bodies import Body
from threadline.entrypoints.http.conversations import Answer
from threadline.entrypoints.http.keys import OWN
from threadline.entrypoints.http.loops import beat
from threadline.entrypoints.http.publishing import (
    AboutBody,
    Key,
    WordsFile,
    about_of,
    answered,
    files_of,
    patience_of,
)
from threadline.entrypoints.shapes import plain
from threadline.flows.every import Flows
from threadline.flows.send_status import SendStatus

SESSION_MARK = "session:"
INTENT_SECONDS = 24 * 3600.0
LONGEST_INTENT = 366 * 24 * 3600.0


class Address(Body):
    """A session to write to."""

    session_id: str


class RepeatBody(Body):
    """Every day: `at` is a time of day such as 08:30 on the clocks of `zone`, as Europe/Berlin."""

    at: str
    zone: str


class SendBody(Body):
    """What a session says on its own initiative.

    `to` is `session:NAME`, `person:ID`, `PROVIDER:ADDRESS`, `email:…`, `alias:…`, or a
    conversation's address or id. `via` is a provider, `PROVIDER/ACCOUNT` or `auto`. The same
    `intent` is not said to the same recipient again within `intent_for` seconds. `reply_to` is for
    another session alone; `via`, `at`, `repeat` and `intent` are for all but those.
    """

    session_id: str
    to: Address | str
    text: str = ""
    via: str = AUTO
    at: datetime | None = None
    repeat: RepeatBody | None = None
    intent: str = ""
    intent_for: float = INTENT_SECONDS
    reply_to: int | str | None = None
    about: AboutBody | None = None
    attachments: tuple[WordsFile, ...] = ()
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    wait: float | bool | None = None


@post(
    "/v1/send",
    status_code=202,
    opt=callers(CONTROLLER, SESSION, key=OWN),
    responses=answers.shown(answers.Delivery | replies.Send, 200, 202),
)
async def send(
    data: JSONBody[SendBody], line: Line, caller: Asker, key: Key = None
) -> Response[Answer]:
    """Write first: to another session, in the one conversation of the two, and a delivery is
    answered; else to a person, an address or a room, and a send is."""
    other = _session(data.to)
    if other is not None:
        return await _tell(other, data, line, caller, key)
    if data.reply_to is not None:
        raise InvalidInput("what is said first answers nothing.", field="reply_to")
    if not 0 < data.intent_for <= LONGEST_INTENT:
        raise InvalidInput("intent_for is in seconds, at most a year.", field="intent_for")
    assert isinstance(data.to, str)
    sent = await line.initiative.send(
        data.session_id,
        data.to,
        data.text,
        via=data.via,
        key=key,
        at=data.at,
        repeat=None if data.repeat is None else Repeat(at=data.repeat.at, zone=data.repeat.zone),
        intent=data.intent,
        intent_for=timedelta(seconds=data.intent_for),
        about=about_of(data.about),
        attachments=files_of(data.attachments),
        metadata=data.metadata,
        caller=caller,
    )
    return await _sent(line, caller, sent, data.wait)


def _session(to: Address | str) -> str | None:
    """The name of the session that is written to, None where it is somebody else."""
    if isinstance(to, Address):
        return to.session_id
    return to.removeprefix(SESSION_MARK) if to.startswith(SESSION_MARK) else None


async def _tell(
    other: str, data: SendBody, line: Flows, caller: Caller, key: str | None
) -> Response[Answer]:
    unfit = {
        "via": data.via != AUTO,
        "at": data.at is not None,
        "repeat": data.repeat is not None,
        "intent": bool(data.intent),
    }
    for name, given in unfit.items():
        if given:
            raise InvalidInput(f"{name} is nothing for another session.", field=name)
    told = await line.outbound.tell(
        data.session_id,
        other,
        data.text,
        key=key,
        reply_to=data.reply_to,
        about=about_of(data.about),
        attachments=files_of(data.attachments),
        metadata=data.metadata,
        caller=caller,
    )
    return await answered(line, caller, told, data.wait)


async def _sent(
    line: Flows, caller: Caller, sent: SendStatus, wait: float | bool | None
) -> Response[Answer]:
    """202 for a new send; 200 for one of before, and where the caller waited for its end."""
    repeated = sent.repeated
    if wait and sent.state in WAITING:
        sent = await line.initiative.settled(sent, patience=patience_of(wait), caller=caller)
    ended = bool(wait) and sent.state not in WAITING
    shown = dict(plain(sent)) | {"repeated": repeated}
    return Response(shown, status_code=200 if repeated or ended else 202)


@get("/v1/sends", opt=callers(CONTROLLER, SESSION), responses=answers.shown(replies.Sends))
async def page(
    line: Line,
    caller: Asker,
    session: FromQuery[str | None] = None,
    before: FromQuery[str | None] = None,
    limit: FromQuery[int | None] = None,
) -> Answer:
    """Sends, newest first; a session sees its own."""
    found = await line.initiative.list(session=session, before=before, limit=limit, caller=caller)
    full = len(found) == clamp(limit, line.limits)
    return {"sends": plain(found), "next": found[-1].id if found and full else None}


@get(
    "/v1/sends/{send_id:str}",
    opt=callers(CONTROLLER, SESSION),
    responses=answers.shown(replies.Send),
)
async def show(send_id: FromPath[str], line: Line, caller: Asker) -> Answer:
    """One send with what became of each channel."""
    return dict(plain(await line.initiative.show(send_id, caller=caller)))


@post(
    "/v1/sends/{send_id:str}/cancel",
    status_code=200,
    opt=callers(CONTROLLER, SESSION),
    responses=answers.shown(replies.Send),
)
async def cancel(send_id: FromPath[str], line: Line, caller: Asker) -> Answer:
    """Take back what was not sent yet; a session its own."""
    return dict(plain(await line.initiative.cancel(send_id, caller=caller)))


async def sends(line: Flows, stopping: asyncio.Event) -> None:
    """Do what is due: scheduled sends, and the next channel of those that failed."""
    await line.initiative.run(stopping, beat)


ROUTES = [send, page, show, cancel]
LOOPS = [sends]
