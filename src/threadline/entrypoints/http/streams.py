"""Reaching a session over HTTP: long poll, and server-sent events.

One loop under both (`replay.follow`). On a stream only durable entries carry an `id`, which is
`<conversation id>:<sequence>`; what a session has not acknowledged comes again after a reconnect.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody

from threadline.core.errors import InvalidInput, ThreadlineError
from threadline.core.model import TranscriptRecord
from threadline.entrypoints.http import answers
from threadline.entrypoints.http.auth import (
    CONTROLLER,
    SESSION,
    Asker,
    Connection,
    Line,
    callers,
    doorman_of,
)
from threadline.entrypoints.http.conversations import Answer, Id
from threadline.entrypoints.inbox import Inbox
from threadline.entrypoints.shapes import handed_of, plain, record_of
from threadline.flows.replay import CaughtUp, Gap, Handed
from threadline.flows.watching import Reset

HEARTBEAT_SECONDS = 15.0
MAX_WAIT = 60.0
HEARTBEAT = b": still here\n\n"
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]

_encode = msgspec.json.Encoder().encode


def event(name: str, data: JSONBody[Any], identity: str | None = None) -> bytes:
    """One server-sent event. JSON has no line breaks, so the data is one line."""
    head = f"event: {name}\n" if identity is None else f"id: {identity}\nevent: {name}\n"
    return head.encode() + b"data: " + _encode(data) + b"\n\n"


class Streaming:
    """Sends events until the source ends, the reader goes or does not read, the token is revoked,
    or the server stops. Nothing is buffered but one event and what the socket holds."""

    def __init__(self, source: AsyncIterator[bytes], connection: Connection) -> None:
        self._source = source
        self._connection = connection

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer the request."""
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        app = self._connection.app
        with doorman_of(self._connection).watch(self._connection) as revoked:
            ends: dict[asyncio.Task[Any], str] = {
                asyncio.create_task(_gone(receive)): "",
                asyncio.create_task(revoked.wait()): "revoked",
                asyncio.create_task(app.state.stopping.wait()): "stopping",
            }
            app.state.streams += 1
            try:
                reason = await self._pump(send, ends)
                if reason:
                    await self._sent(send, event("end", {"reason": reason}))
                await self._sent(send, b"", more=False)
            except TimeoutError:
                app.state.slow_readers += 1
                scope.get("threadline.abort", lambda: None)()
            finally:
                app.state.streams -= 1
                for task in ends:
                    task.cancel()
                await asyncio.gather(*ends, return_exceptions=True)
                await _closed(self._source)

    async def _sent(self, send: Any, body: bytes, *, more: bool = True) -> None:
        """Send, as long as the other side reads. Raises `TimeoutError` where it does not."""
        async with asyncio.timeout(self._connection.app.state.settings.slow_reader_seconds):
            await send({"type": "http.response.body", "body": body, "more_body": more})

    async def _pump(self, send: Any, ends: dict[asyncio.Task[Any], str]) -> str:
        """Send what comes; the answer is why it ended, empty where nobody is there to be told."""
        await self._sent(send, HEARTBEAT)
        coming: asyncio.Task[bytes] = asyncio.ensure_future(anext(self._source))
        try:
            while True:
                done, _ = await asyncio.wait(
                    {coming, *ends},
                    timeout=HEARTBEAT_SECONDS,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task, reason in ends.items():
                    if task in done:
                        return reason
                if coming not in done:
                    await self._sent(send, HEARTBEAT)
                    continue
                try:
                    chunk = coming.result()
                except StopAsyncIteration:
                    return "over"
                except Reset as reset:
                    await self._sent(send, event("reset", plain(reset.facts)))
                    return "reset"
                except ThreadlineError as refusal:
                    return refusal.code
                await self._sent(send, chunk)
                coming = asyncio.ensure_future(anext(self._source))
        finally:
            coming.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await coming


async def _gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _closed(source: Any) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()


class Events(Response[None]):
    """A response that streams events."""

    def __init__(self, source: AsyncIterator[bytes], connection: Connection) -> None:
        super().__init__(None, media_type="text/event-stream")
        self._streaming = Streaming(source, connection)

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """The application that answers."""
        return self._streaming


def item_of(item: Handed | CaughtUp | Gap) -> bytes:
    """What a session's stream says."""
    match item:
        case Handed():
            identity = f"{item.conversation}:{item.record.sequence}"
            return event("record", handed_of(item), identity)
        case CaughtUp():
            return event("caught_up", {"conversation": item.conversation, "ref": plain(item.ref)})
        case Gap():
            return event("gap", {**plain(item)})


@get(
    "/v1/sessions/{session:str}/stream",
    opt=callers(CONTROLLER, SESSION),
    media_type="text/event-stream",
)
async def stream(
    session: FromPath[str],
    request: Request[Any, Any, Any],
    line: Line,
    caller: Asker,
    own: FromQuery[bool] = False,
) -> Response[None]:
    """Every record the session may read, as server-sent events, from behind its cursors on."""
    await line.members.conversations_of(session, limit=1, caller=caller)

    async def source() -> AsyncIterator[bytes]:
        async for item in line.replay.follow(session, own=own, caller=caller):
            if isinstance(item, Handed):
                handed(request, "stream", item.conversation, item.record.sequence)
            yield item_of(item)

    return Events(source(), request)


@get(
    "/v1/conversations/{conversation:str}/stream",
    opt=callers(CONTROLLER),
    media_type="text/event-stream",
)
async def watch(
    conversation: Id,
    request: Request[Any, Any, Any],
    line: Line,
    caller: Asker,
    after: FromQuery[int | None] = None,
    last: Annotated[str | None, HeaderParameter(name="Last-Event-ID")] = None,
) -> Response[None]:
    """One conversation from behind `after` on, or from now on; a reconnect goes on where it was."""
    state = await line.conversations.show(conversation, caller=caller)
    return Events(watched(line, state.id, after, last, caller, request), request)


async def watched(
    line: Line,
    conversation: str,
    after: int | None,
    last: str | None,
    caller: Asker,
    request: Connection,
) -> AsyncIterator[bytes]:
    """A conversation's records as events."""
    if last is not None:
        after = place_in(conversation, last)
    async for record in line.watching.follow(conversation, after=after, caller=caller):
        handed(request, "watch", conversation, record.sequence)
        yield record_event(conversation, record)


def handed(request: Connection, way: str, conversation: str, sequence: int) -> None:
    """A record is handed to a reader: counted, and a span of the trace that brought it."""
    request.app.state.metrics.handed(way)
    request.app.state.tracing.handed(way, conversation, sequence)


def record_event(conversation: str, record: TranscriptRecord) -> bytes:
    """One record as an event."""
    return event("record", record_of(record), f"{conversation}:{record.sequence}")


def place_in(conversation: str, last: str) -> int:
    """The sequence of a `Last-Event-ID`. Raises `Reset` for one of another conversation."""
    name, _, sequence = last.partition(":")
    digits = sequence.removeprefix("-")
    if name != conversation or not digits.isdecimal() or len(digits) > 18:
        raise Reset("the event is of another conversation.")
    return int(sequence)


@get(
    "/v1/sessions/{session:str}/inbox",
    opt=callers(CONTROLLER, SESSION),
    responses=answers.shown(answers.Inbox),
)
async def inbox(
    session: FromPath[str],
    request: Request[Any, Any, Any],
    line: Line,
    caller: Asker,
    wait: FromQuery[float] = 0.0,
    limit: FromQuery[int | None] = None,
) -> Answer:
    """What the session has not acknowledged, over all its conversations; waits up to `wait` seconds
    where there is nothing yet."""
    if not 0 <= wait <= MAX_WAIT:
        raise InvalidInput(f"wait is 0 to {MAX_WAIT:.0f} seconds.", field="wait")
    size = min(limit if limit is not None and limit > 0 else 100, 500)
    found = Inbox(size)
    await found.fill(line.replay.follow(session, once=True, caller=caller))
    if not found.records and wait:
        stopping: asyncio.Event = request.app.state.stopping
        live = line.replay.follow(session, caller=caller)
        await found.wait(live, wait, [stopping])
    for one in found.records:
        handed(request, "inbox", one.conversation, one.record.sequence)
    return {
        "records": [handed_of(one) for one in found.records],
        "gaps": [plain(one) for one in found.gaps],
        "more": found.full,
    }


ROUTES = [stream, watch, inbox]
