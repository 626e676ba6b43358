"""Bounds on what one connection may cost: how slow it may be and how much it may send."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

BODY_BYTES = 8 * 1024 * 1024
BODY_SECONDS = 30.0
HEADER_SECONDS = 10.0


class Hurried(HttpToolsProtocol):
    """Closes a connection whose request line and headers do not arrive in time."""

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
        self.scope["threadline.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more to wait for."""
        self._calm()
        super().connection_lost(exc)

    def _hurry(self) -> None:
        self._calm()
        self._slow = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _calm(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None


class Bodies:
    """ASGI middleware: a body has to arrive within `BODY_SECONDS`, else the client is gone."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the time from the first look at the body to its end."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        until: float | None = None
        complete = False

        async def hurried() -> Any:
            nonlocal until, complete
            if complete:
                return await receive()
            until = until or loop.time() + BODY_SECONDS
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                # What follows is no request any more; the framework sees a client that went away.
                complete = True
                return {"type": "http.disconnect"}
            complete = message["type"] != "http.request" or not message.get("more_body", False)
            return message

        await self._app(scope, hurried, send)
