"""Bounds on what one connection may cost: how slow it may be and how much it may send."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar
from urllib.parse import unquote_to_bytes

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from threadline.core.errors import InvalidInput, ThreadlineError
from threadline.entrypoints.http.problems import MEDIA_TYPE, problem_of, refuse

BODY_BYTES = 8 * 1024 * 1024
CONNECTIONS = 4_000
# Bytes a second.
SLOWEST = 128 * 1024


class ServerFull(ThreadlineError):
    """The server has as many connections as it takes; try again in a moment."""

    status = 503


class Hurried(HttpToolsProtocol):
    """Closes a connection whose request line and headers do not arrive in time."""

    seconds: ClassVar[float] = 10.0
    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A new connection: its first headers are due."""
        super().connection_made(transport)
        self._hurry()

    def on_message_begin(self) -> None:
        """A further request on the same connection: its headers are due."""
        super().on_message_begin()
        self._hurry()

    def on_headers_complete(self) -> None:
        """In time."""
        self._calm()
        self.scope["threadline.full"] = len(self.connections) > CONNECTIONS  # type: ignore[typeddict-unknown-key]
        self.scope["threadline.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more to wait for."""
        self._calm()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused with a problem as well."""
        body = msgspec.json.encode(problem_of(InvalidInput(msg)))
        head = [
            b"HTTP/1.1 400 Bad Request",
            b"content-type: " + MEDIA_TYPE.encode(),
            b"content-length: %d" % len(body),
            b"connection: close",
        ]
        self.transport.write(b"\r\n".join([*head, b"", body]))
        self.transport.close()

    def _hurry(self) -> None:
        self._calm()
        self._slow = self.loop.call_later(self.seconds, self.transport.close)

    def _calm(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None


def hurried(seconds: float) -> type[Hurried]:
    """The protocol with its own patience for headers."""
    return type("Hurried", (Hurried,), {"seconds": seconds})


class Bodies:
    """ASGI middleware: a body has to arrive within these seconds, a large one at no less than a
    certain speed, else the client is gone; and there are only so many connections."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the time from the first look at the body to its end."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        if scope.get("threadline.full"):
            await refuse(send, ServerFull())
            return
        loop = asyncio.get_running_loop()
        until: float | None = None
        complete = slow = False

        async def hurried() -> Any:
            nonlocal until, complete, slow
            if complete:
                return await receive()
            until = until or loop.time() + self._seconds
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                # What follows is no request any more; the framework sees a client that went away.
                complete = slow = True
                return {"type": "http.disconnect"}
            # A file takes its time on a slow line; who sends less than that a second is slow.
            part: Any = message.get("body") or b""
            until += len(part) / SLOWEST
            complete = message["type"] != "http.request" or not message.get("more_body", False)
            return message

        async def unless_slow(message: Any) -> None:
            if not slow:
                await send(message)

        try:
            await self._app(undecoded(scope), hurried, unless_slow)
        finally:
            if slow:
                cut: Any = scope.get("threadline.abort")
                cut()


class Segments:
    """ASGI middleware of the application, behind its routing: names in a path as they were meant.

    A path is split at its slashes before it is decoded, so that a name may have one (`a%2Fb`).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decode what the routing found. Raises `InvalidInput` for what is no UTF-8."""
        found: dict[str, Any] = scope.get("path_params") or {}
        try:
            scope["path_params"] = {
                name: unquote_to_bytes(value).decode() if isinstance(value, str) else value
                for name, value in found.items()
            }
        except UnicodeDecodeError:
            raise InvalidInput("the path is not UTF-8.") from None
        await self._app(scope, receive, send)


def undecoded(scope: Any) -> Any:
    """The request with its path as it was sent, for the routing to split.

    It stays the same scope: what the routing writes into it is read outside, for the log.
    """
    raw = scope.get("raw_path")
    if raw is not None:
        scope["path"] = raw.partition(b"?")[0].decode("ascii")
    return scope
