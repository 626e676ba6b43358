"""Files of records over HTTP: always to be saved, never to be shown by a browser as a page.

Whatever a stranger sent is in them. So a browser is told to save them under a safe name, not to
guess what they are, and to run nothing of them should it show them all the same.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Annotated, Any

from litestar import Request, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromQuery, PathParameter
from litestar.response import Stream

from threadline.core.files import OCTETS, File, disposition
from threadline.entrypoints.http.auth import (
    BOUND,
    CONTROLLER,
    GUEST,
    SESSION,
    Asker,
    Line,
    callers,
)
from threadline.entrypoints.http.chat import PATH, counted
from threadline.entrypoints.http.conversations import Id

GUARDS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-store",
    "Referrer-Policy": "no-referrer",
}
PART = 256 * 1024
AT = "{sequence:int}/attachments/{number:int}"
BYTES = {200: ResponseSpec(bytes, media_type=OCTETS, generate_examples=False)}

Sequence = Annotated[int, PathParameter(description="The record.")]
Number = Annotated[int, PathParameter(description="Which of its files, counted from 0.")]


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


ROUTES = [attachment, in_room]
