"""From standard input and output to the running server: every message is handed on and back.

What the server refuses by its status the SDK only calls an error; so the server is asked once more,
as whom it sees us, and says why. Where it is only away, the call is made again: every tool that
changes something has a key, so nothing is done twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
import httpx
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
)

from threadline.client import LOOPBACK, PASSING, Pause, refusal_of
from threadline.core.errors import ConfigError, ServerUnreachable, ThreadlineError
from threadline.entrypoints.mcp.refusals import refused
from threadline.entrypoints.mcp.speech import refusal, speaking

SPOKEN = "2026-07-28"
PATIENCE_SECONDS = 45.0
LONGEST_PAUSE = 2.0
# The server says every fifteen seconds that it is still there.
SILENCE_SECONDS = 45.0
# What the SDK makes of an answer that is none, and of none at all.
UNCLEAR = frozenset({INTERNAL_ERROR, CONNECTION_CLOSED})

T = TypeVar("T")
Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Away:
    """Nothing that could be understood came back."""

    error: MCPError | None = None


class Far:
    """The server at the other end, over one pool of connections for each of our two clients."""

    def __init__(self, url: str, http: httpx2.AsyncClient, plain: httpx.AsyncClient) -> None:
        self._url = f"{url.rstrip('/')}/mcp"
        self._http = http
        self._plain = plain

    async def me(self) -> dict[str, Any]:
        """Whom the server sees in us. Raises what it refuses us with, and `ServerUnreachable`."""
        try:
            answer = await self._plain.get("/v1/me")
        except httpx.TransportError as lost:
            raise ServerUnreachable(
                f"it does not answer ({type(lost).__name__}). Is `threadline serve` running?"
            ) from None
        if not answer.is_success:
            raise refusal_of(answer)
        found: dict[str, Any] = answer.json()
        return found

    async def asked(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Do one thing there, again where it was away. Raises what it refuses with."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE_SECONDS
        pause = Pause(longest=LONGEST_PAUSE)
        while True:
            done = await self._tried(work)
            if not isinstance(done, Away):
                return done
            try:
                await self.me()
                away: ThreadlineError = ServerUnreachable("it does not answer.")
            except ThreadlineError as error:
                if error.status not in PASSING:
                    raise
                away = error
            if loop.time() >= until:
                raise away
            await asyncio.sleep(pause.next())

    async def _tried(self, work: Callable[[Client], Awaitable[T]]) -> T | Away:
        """Do it once. Raises `MCPError` where the answer is one of the protocol's own."""
        failed = Away()
        try:
            transport = streamable_http_client(self._url, http_client=self._http)
            async with Client(transport, mode=SPOKEN, cache=None) as there:
                try:
                    return await work(there)
                except MCPError as error:
                    failed = Away(error)
        except ExceptionGroup as lost:
            _, other = lost.split((httpx2.TransportError, anyio.ClosedResourceError))
            if other is not None:
                raise
        if failed.error is not None and failed.error.error.code not in UNCLEAR:
            raise failed.error
        return failed

    async def tools(self, params: PaginatedRequestParams | None) -> ListToolsResult:
        """The tools that are open to the token."""

        async def listed(there: Client) -> ListToolsResult:
            return await there.session.send_request(
                ListToolsRequest(params=params), ListToolsResult
            )

        return await self.asked(listed)

    async def call(self, params: CallToolRequestParams, context: Context) -> CallToolResult:
        """Let a tool work there."""

        async def told(progress: float, total: float | None, message: str | None) -> None:
            await context.session.report_progress(progress, total, message)

        async def called(there: Client) -> CallToolResult:
            asked = CallToolRequestParams(name=params.name, arguments=params.arguments)
            return await there.session.send_request(
                CallToolRequest(params=asked), CallToolResult, progress_callback=told
            )

        return await self.asked(called)


async def bridge(url: str, token: str) -> None:
    """Speak on standard input and output until it ends. Raises `ServerUnreachable`,
    `Unauthenticated`, and `ConfigError` for a token that is no session's."""
    headers = {"Authorization": f"Bearer {token}"}
    # A proxy of the environment has no business between here and this very machine.
    environment = urlsplit(url).hostname not in LOOPBACK
    async with (
        httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(30.0, read=SILENCE_SECONDS),
            trust_env=environment,
        ) as http,
        httpx.AsyncClient(
            base_url=url, headers=headers, timeout=30.0, trust_env=environment
        ) as plain,
    ):
        far = Far(url, http, plain)
        me = await far.me()
        if me["kind"] != "session":
            raise ConfigError(f"this is {me['kind']}'s token; make one for a session.")

        async def listed(_: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
            try:
                return await far.tools(params)
            except ThreadlineError as error:
                said = refused(error)
                raise MCPError(INTERNAL_ERROR, f"{said['code']}: {said['message']}", said) from None

        async def called(context: Context, params: CallToolRequestParams) -> CallToolResult:
            try:
                return await far.call(params, context)
            except ThreadlineError as error:
                return refusal(error)

        server = speaking(listed, called)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
