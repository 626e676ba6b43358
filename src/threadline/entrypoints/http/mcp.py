"""The Model Context Protocol over HTTP, behind the same door as everything else.

Each request stands for itself: there is no session of the protocol, nothing to be resumed, and no
id by which one caller could get at another's. What has to last is in the ledger.
"""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request, Response, post

from threadline.core.errors import McpUnavailable, Unauthenticated
from threadline.core.model import SessionCaller
from threadline.entrypoints.http.auth import (
    BOUND,
    SESSION,
    Asker,
    Connection,
    Line,
    callers,
    doorman_of,
    secret_of,
)
from threadline.entrypoints.http.keys import OWN
from threadline.entrypoints.http.limits import BODY_BYTES
from threadline.flows.every import Flows


class Exchange(Response[None]):
    """One request of the protocol and what it is answered with, which may be a stream."""

    def __init__(self, line: Flows, caller: SessionCaller, connection: Connection) -> None:
        super().__init__(None)
        self._line = line
        self._caller = caller
        self._connection = connection

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """The application that answers."""
        return self._answer

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from threadline.entrypoints.mcp.desk import Desk
        from threadline.entrypoints.mcp.speech import server_of

        state = self._connection.app.state

        async def sent(message: Any) -> None:
            """Send, as long as the other side reads."""
            try:
                async with asyncio.timeout(state.settings.slow_reader_seconds):
                    await send(message)
            except TimeoutError:
                state.slow_readers += 1
                scope.get("threadline.abort", lambda: None)()

        with doorman_of(self._connection).watch(self._connection) as revoked:
            desk = Desk(
                line=self._line, caller=self._caller, revoked=revoked, stopping=state.stopping
            )
            manager = StreamableHTTPSessionManager(
                server_of(desk), stateless=True, max_request_body_size=BODY_BYTES
            )
            state.streams += 1
            try:
                # Whatever the request began ends with it.
                async with manager.run():
                    await manager.handle_request(scope, receive, sent)
            finally:
                state.streams -= 1


@post("/mcp", status_code=200, opt=callers(SESSION, BOUND, key=OWN), include_in_schema=False)
async def speak(request: Request[Any, Any, Any], line: Line, caller: Asker) -> Response[None]:
    """One message of the Model Context Protocol (streamable HTTP, without sessions).

    It takes a session's bearer token and no cookie. The tools are on their own page.
    """
    if secret_of(request) is None or not isinstance(caller, SessionCaller):
        raise Unauthenticated("send `Authorization: Bearer` with a session's token.")
    try:
        import threadline.entrypoints.mcp.speech  # noqa: F401
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("threadline"):
            raise
        raise McpUnavailable("run: pip install 'threadline[mcp]'") from None
    return Exchange(line, caller, request)


ROUTES = [speak]
