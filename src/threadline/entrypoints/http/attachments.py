"""Files of records over HTTP: always to be saved, never to be shown by a browser as a page.

Whatever a stranger sent is in them. So a browser is told to save them under a safe name, not to
guess what they are, and to run nothing of them should it show them all the same.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import SpooledTemporaryFile
from typing import Annotated, Any, BinaryIO, cast

from litestar import Request, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, FromQuery, PathParameter
from litestar.response import Stream

from threadline.core.errors import NO_SPACE, FilesFull, FileTooLarge
from threadline.core.files import OCTETS, File, disposition
from threadline.core.model import Guest
from threadline.entrypoints.http import answers
from threadline.entrypoints.http.auth import (
    BOUND,
    CONTROLLER,
    GUEST,
    OPEN,
    PRIVATE,
    SESSION,
    Asker,
    Line,
    callers,
)
from threadline.entrypoints.http.chat import PATH, counted
from threadline.entrypoints.http.conversations import Answer, Id
from threadline.entrypoints.http.keys import OWN
from threadline.entrypoints.http.publishing import Key
from threadline.entrypoints.shapes import plain
from threadline.flows.uploads import UploadState

GUARDS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-store",
    "Referrer-Policy": "no-referrer",
}
PART = 256 * 1024
IN_MEMORY = 512 * 1024
ROOT = "/v1/files"
AT = "{sequence:int}/attachments/{number:int}"
BYTES = {200: ResponseSpec(bytes, media_type=OCTETS, generate_examples=False)}

Sequence = Annotated[int, PathParameter(description="The record.")]
Number = Annotated[int, PathParameter(description="Which of its files, counted from 0.")]


class Upload(answers.Shape):
    """A file that was taken in; it waits until `expires_at` to be said."""

    id: str
    name: str
    type: str
    size: int
    sha256: str
    expires_at: str


class Saved(Stream):
    """A file as an answer. It is closed once it was sent."""

    def __init__(self, file: File) -> None:
        digest = base64.b64encode(bytes.fromhex(file.sha256)).decode()
        super().__init__(
            _parts(file),
            media_type=file.type,
            headers={
                **GUARDS,
                "Content-Disposition": disposition(file.name),
                "Content-Length": str(file.size),
                "Content-Digest": f"sha-256=:{digest}:",
            },
        )

    def to_asgi_response(self, *given: Any, **more: Any) -> Any:
        """The application that answers, with the type of this file and not of all."""
        return super().to_asgi_response(*given, **{**more, "media_type": self.media_type})


async def _parts(file: File) -> AsyncIterator[bytes]:
    try:
        while part := await asyncio.to_thread(file.content.read, PART):
            yield part
    finally:
        file.content.close()


@get(
    f"/v1/conversations/{{conversation:str}}/records/{AT}",
    opt=callers(CONTROLLER, SESSION, BOUND),
    responses=BYTES,
    media_type=OCTETS,
)
async def attachment(
    conversation: Id,
    sequence: Sequence,
    number: Number,
    line: Line,
    caller: Asker,
    session: FromQuery[str | None] = None,
) -> Stream:
    """The bytes of a file, for whoever may read its record; a controller may look through a
    `session`'s eyes."""
    return Saved(
        await line.files.open(conversation, sequence, number, session=session, caller=caller)
    )


@get(
    f"{PATH}/messages/{AT}",
    opt=callers(GUEST),
    responses=BYTES,
    media_type=OCTETS,
)
async def in_room(
    sequence: Sequence,
    number: Number,
    request: Request[Any, Any, Any],
    line: Line,
    caller: Asker,
) -> Stream:
    """The bytes of a file of a message in the guest's room."""
    counted(request)
    return Saved(await line.files.open(None, sequence, number, caller=caller))


@asynccontextmanager
async def received(request: Request[Any, Any, Any], most: int) -> AsyncIterator[BinaryIO]:
    """The body of a request as a file, which lies on the disk where it is not small.

    Raises `FileTooLarge` before it is all here, and `FilesFull` where the disk has no room.
    """
    size = 0
    with SpooledTemporaryFile(max_size=IN_MEMORY) as got:
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise FileTooLarge(f"({most} bytes are allowed, see THREADLINE_FILE_MEGABYTES)")
            try:
                got.write(part)
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                raise FilesFull(f"(the disk has none: {error.strerror})") from None
        yield cast("BinaryIO", got)


@post(
    ROOT,
    status_code=200,
    opt=callers(CONTROLLER, SESSION, BOUND, key=OWN),
    request_max_body_size=None,
    responses=answers.shown(Upload),
)
async def give(
    request: Request[Any, Any, Any],
    line: Line,
    caller: Asker,
    name: FromQuery[str] = "",
    session: FromQuery[str | None] = None,
    key: Key = None,
) -> Answer:
    """Give a file to be said within a day: the body is its bytes, `Content-Type` its type.

    The `id` it answers goes into the `attachments` of what is said, by the session that gave it.
    """
    async with received(request, line.uploads.most) as content:
        made = await line.uploads.give(
            content,
            name=name,
            type=request.headers.get("content-type", ""),
            session=session,
            key=key,
            caller=caller,
        )
    return upload_of(made)


@post(
    f"{PATH}/files",
    status_code=200,
    opt=callers(GUEST, key=OWN),
    request_max_body_size=None,
    response_headers=PRIVATE,
    responses=answers.shown(Upload),
)
async def give_in_room(
    request: Request[Any, Any, Any], line: Line, caller: Asker, name: FromQuery[str] = ""
) -> Answer:
    """Give a file to be said in the guest's room: the body is its bytes."""
    buckets = counted(request)
    assert isinstance(caller, Guest)
    buckets.take("messages", caller.actor.id, buckets.limits.messages)
    async with received(request, line.uploads.most) as content:
        made = await line.uploads.give(
            content, name=name, type=request.headers.get("content-type", ""), caller=caller
        )
    return upload_of(made)


@get(
    f"{ROOT}/{{token:str}}",
    opt=callers(OPEN),
    responses=BYTES,
    media_type=OCTETS,
    response_headers=PRIVATE,
)
async def lent(token: FromPath[str], line: Line) -> Stream:
    """A file that is being said, for the platform that was given this short-lived address."""
    return Saved(await line.uploads.lent(token))


def upload_of(state: UploadState) -> Answer:
    """A file that was taken in, as it is shown."""
    return dict(plain(state))


ROUTES = [attachment, in_room, give, give_in_room, lent]
