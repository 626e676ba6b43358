"""What sessions say over HTTP, and what became of it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody

from threadline.core.deliveries import DeliveryState
from threadline.core.errors import InvalidInput
from threadline.entrypoints.http import answers
from threadline.entrypoints.http.auth import BOUND, CONTROLLER, SESSION, Asker, Line, callers
from threadline.entrypoints.http.bodies import AttachmentBody, Body, attachments_of
from threadline.entrypoints.http.conversations import Answer, Id
from threadline.entrypoints.http.keys import HEADER, OWN
from threadline.entrypoints.shapes import plain
from threadline.flows.deliveries import DeliveryStatus

Key = Annotated[str | None, HeaderParameter(name=HEADER)]
OPEN = (DeliveryState.PENDING, DeliveryState.SENDING)


class AboutBody(Body):
    """A record elsewhere that the words are about."""

    conversation: str
    sequence: int


class WordsBody(Body):
    """What a session says. `reply_to` is a sequence or a message id of this conversation.

    `generation` is the binding's that the words were made under; `wait` answers when it is settled.
    """

    session_id: str
    text: str = ""
    reply_to: int | str | None = None
    about: AboutBody | None = None
    generation: int | None = None
    explicit_target: str | None = None
    attachments: tuple[AttachmentBody, ...] = ()
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    wait: float | bool | None = None


class Address(Body):
    """Whom to write to."""

    session_id: str


class SendBody(Body):
    """What a session says to another one."""

    session_id: str
    to: Address
    text: str = ""
    reply_to: int | str | None = None
    about: AboutBody | None = None
    attachments: tuple[AttachmentBody, ...] = ()
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    wait: float | bool | None = None


def _about(body: AboutBody | None) -> tuple[str, int] | None:
    return None if body is None else (body.conversation, body.sequence)


def _answer(sent: DeliveryStatus, wait: float | bool | None) -> Response[Answer]:
    """202 for an intent that was written; 200 where the caller waited for its end."""
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
        about=_about(data.about),
        generation=data.generation,
        explicit_target=data.explicit_target,
        attachments=attachments_of(data.attachments),
        metadata=data.metadata,
        caller=caller,
    )
    return _answer(sent, data.wait)


@post(
    "/v1/send",
    status_code=202,
    opt=callers(CONTROLLER, SESSION, key=OWN),
    responses=answers.shown(answers.Delivery, 200, 202),
)
async def send(
    data: JSONBody[SendBody], line: Line, caller: Asker, key: Key = None
) -> Response[Answer]:
    """Write to another session, in the one conversation of the two."""
    sent = await line.outbound.tell(
        data.session_id,
        data.to.session_id,
        data.text,
        key=key,
        reply_to=data.reply_to,
        about=_about(data.about),
        attachments=attachments_of(data.attachments),
        metadata=data.metadata,
        caller=caller,
    )
    return _answer(sent, data.wait)


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
    after: FromQuery[str | None] = None,
    limit: FromQuery[int | None] = None,
) -> Answer:
    """Deliveries, newest first; a session sees its own."""
    found = await line.deliveries.page(
        where=conversation, session=session, after=after, limit=limit, caller=caller
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


ROUTES = [publish, send, page, show]
