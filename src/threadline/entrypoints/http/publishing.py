"""What sessions say over HTTP, and what became of it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody, QueryParameter

from threadline.core.deliveries import DeliveryState
from threadline.core.errors import InvalidInput
from threadline.core.model import Attachment, Caller
from threadline.entrypoints.http import answers
from threadline.entrypoints.http.auth import BOUND, CONTROLLER, SESSION, Asker, Line, callers
from threadline.entrypoints.http.bodies import AttachmentBody, Body
from threadline.entrypoints.http.conversations import Answer, Id
from threadline.entrypoints.http.keys import HEADER, OWN
from threadline.entrypoints.http.loops import beat
from threadline.entrypoints.shapes import plain, span_of
from threadline.flows.every import Flows
from threadline.flows.statuses import DeliveryStatus
from threadline.flows.uploads import RecordFile

Key = Annotated[str | None, HeaderParameter(name=HEADER)]
InState = Annotated[
    str | None,
    QueryParameter(name="state", description="Only those in this state, such as uncertain."),
]
OPEN = (DeliveryState.PENDING, DeliveryState.SENDING)
LONGEST_WAIT = 30.0


class AboutBody(Body):
    """A record elsewhere that the words are about."""

    conversation: str
    sequence: int


class WordsFile(AttachmentBody):
    """A file to be said: by the `id` that `POST /v1/files` answered; one of a record, by its
    `conversation`, `sequence` and `number` (from 0); or as data, for adapters elsewhere."""

    conversation: str | None = None
    sequence: int | None = None
    number: int = 0


def files_of(given: tuple[WordsFile, ...]) -> list[Attachment | RecordFile]:
    """The files of words, as flows take them."""
    found: list[Attachment | RecordFile] = []
    for one in given:
        if (one.conversation is None) is not (one.sequence is None):
            raise InvalidInput(
                "a file of a record has its conversation and its sequence.", field="attachments"
            )
        if one.conversation is not None and one.sequence is not None:
            place = RecordFile(
                conversation=one.conversation, sequence=one.sequence, number=one.number
            )
            found.append(place)
        else:
            found.append(Attachment(one.id, one.type, one.name, one.size, one.url))
    return found


class WordsBody(Body):
    """What a session says. `reply_to` is a sequence or a message id of this conversation.

    `generation` is the binding's that the words were made under; `wait` answers when it is settled.
    What could not be said within `time_to_live` seconds (an hour) expires.
    """

    session_id: str
    text: str = ""
    reply_to: int | str | None = None
    about: AboutBody | None = None
    generation: int | None = None
    explicit_target: str | None = None
    attachments: tuple[WordsFile, ...] = ()
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    wait: float | bool | None = None
    time_to_live: float | None = None


def about_of(body: AboutBody | None) -> tuple[str, int] | None:
    """The record words are about, as flows take it."""
    return None if body is None else (body.conversation, body.sequence)


def patience_of(wait: float | bool) -> float:
    """How many seconds a caller waits for the end of what it said."""
    return LONGEST_WAIT if wait is True else min(max(float(wait), 0.0), LONGEST_WAIT)


async def answered(
    line: Flows, caller: Caller, sent: DeliveryStatus, wait: float | bool | None
) -> Response[Answer]:
    """202 for an intent that was written; 200 where the caller waited for its end."""
    if wait and sent.state in OPEN:
        patience = patience_of(wait)
        sent = await line.outbound.settled(sent, patience=patience, caller=caller)
    settled = sent.state not in OPEN
    return Response(dict(plain(sent)), status_code=200 if wait and settled else 202)


@post(
    "/v1/conversations/{conversation:str}/messages",
    status_code=202,
    opt=callers(CONTROLLER, SESSION, BOUND, key=OWN),
    responses=answers.shown(answers.Delivery, 200, 202),
)
async def publish(
    conversation: Id, data: JSONBody[WordsBody], line: Line, caller: Asker, key: Key = None
) -> Response[Answer]:
    """Say something in a conversation, by right of the binding or as a public participant."""
    if isinstance(data.reply_to, bool):
        raise InvalidInput("reply_to is a sequence or a message id.", field="reply_to")
    sent = await line.outbound.publish(
        conversation,
        data.session_id,
        data.text,
        key=key,
        reply_to=data.reply_to,
        about=about_of(data.about),
        generation=data.generation,
        explicit_target=data.explicit_target,
        attachments=files_of(data.attachments),
        metadata=data.metadata,
        time_to_live=span_of(data.time_to_live),
        caller=caller,
    )
    return await answered(line, caller, sent, data.wait)


@get(
    "/v1/deliveries",
    opt=callers(CONTROLLER, SESSION, BOUND),
    responses=answers.shown(answers.Deliveries),
)
async def page(
    line: Line,
    caller: Asker,
    conversation: FromQuery[str | None] = None,
    session: FromQuery[str | None] = None,
    in_state: InState = None,
    after: FromQuery[str | None] = None,
    limit: FromQuery[int | None] = None,
) -> Answer:
    """Deliveries, newest first; a session sees its own.

    `state=uncertain` lists what may wait for a person.
    """
    found = await line.deliveries.page(
        where=conversation, session=session, state=in_state, after=after, limit=limit, caller=caller
    )
    return dict(plain(found))


@get(
    "/v1/deliveries/{delivery:str}",
    opt=callers(CONTROLLER, SESSION, BOUND),
    responses=answers.shown(answers.Delivery),
)
async def show(delivery: FromPath[str], line: Line, caller: Asker) -> Answer:
    """One delivery with its state and its reason."""
    return dict(plain(await line.deliveries.show(delivery, caller=caller)))


@get("/v1/deliveries/{delivery:str}/steps", opt=callers(CONTROLLER, SESSION))
async def steps(delivery: FromPath[str], line: Line, caller: Asker) -> Answer:
    """Every step a delivery took, in order."""
    shown, trail = await line.deliveries.why(delivery, caller=caller)
    return {"delivery": plain(shown), "steps": plain(trail)}


class ConfirmBody(Body):
    """The platform's id of the message a person saw, where they know it."""

    message_id: str | None = None


@post("/v1/deliveries/{delivery:str}/confirm", status_code=200, opt=callers(CONTROLLER))
async def confirm(
    delivery: FromPath[str], line: Line, caller: Asker, data: JSONBody[ConfirmBody | None] = None
) -> Answer:
    """It was said: a person saw it. Its record is written now."""
    message_id = None if data is None else data.message_id
    return dict(plain(await line.deliveries.confirm(delivery, message_id, caller=caller)))


@post("/v1/deliveries/{delivery:str}/resend", status_code=200, opt=callers(CONTROLLER))
async def resend(delivery: FromPath[str], line: Line, caller: Asker) -> Answer:
    """Say it again, at the tail of its lane; it may be there twice."""
    return dict(plain(await line.deliveries.resend(delivery, caller=caller)))


@post("/v1/deliveries/{delivery:str}/drop", status_code=200, opt=callers(CONTROLLER))
async def drop(delivery: FromPath[str], line: Line, caller: Asker) -> Answer:
    """Give an uncertain delivery up."""
    return dict(plain(await line.deliveries.drop(delivery, caller=caller)))


@post("/v1/deliveries/{delivery:str}/cancel", status_code=200, opt=callers(CONTROLLER, SESSION))
async def cancel(delivery: FromPath[str], line: Line, caller: Asker) -> Answer:
    """Take a pending delivery back; a session its own."""
    return dict(plain(await line.deliveries.cancel(delivery, caller=caller)))


async def outbox(line: Flows, stopping: asyncio.Event) -> None:
    """Carry out what sessions say on platforms."""
    await line.outbox.run(stopping, beat)


ROUTES = [publish, page, show, steps, confirm, resend, drop, cancel]
LOOPS = [outbox]
