"""What happens around every request: it gets an id, a span, a line in the log, and is counted.

The line names the route, never the path (a path may hold a link that opens a room), and the token
by its id. It stands outside everything else, so what was turned away before any route is in it too.
"""

from __future__ import annotations

import logging
import random
import re
import time
from typing import Any

import structlog
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

from threadline.entrypoints.http.auth import kind_of
from threadline.entrypoints.http.metrics import METHODS, Metrics
from threadline.entrypoints.http.tracing import Tracing
from threadline.entrypoints.logs import SECRETS, say

NO_ROUTE = "(none)"
MARK = b"x-request-id"
# Asked every few seconds by machines; who wants to see them asks for it.
QUIET = frozenset({"/health", "/ready", "/metrics"})
SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}")
GONE = 499

_log = logging.getLogger("threadline.requests")


class Requests:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp, metrics: Metrics, tracing: Tracing) -> None:
        self._app = app
        self._metrics = metrics
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through and say how it ended."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        given = next((it for name, it in scope["headers"] if name == MARK), b"")
        identity = id_of(given.decode("latin-1"))
        mark = (MARK, identity.encode())
        status = GONE
        streams = False

        async def answering(message: Any) -> None:
            nonlocal status, streams
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), mark]
                streams = any(
                    name == b"content-type" and value.startswith(b"text/event-stream")
                    for name, value in headers
                )
                message = {**message, "headers": headers}
            await send(message)

        method = scope["method"] if scope["method"] in METHODS else "other"
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=identity)
        with self._tracing.request(method, scope["headers"]) as span:
            try:
                await self._app(scope, receive, answering)
            except Exception:
                status = 500
                raise
            finally:
                route = scope.get("path_template") or NO_ROUTE
                seconds = time.perf_counter() - began
                self._metrics.request(method, route, status, None if streams else seconds)
                if span is not None:
                    self._tracing.answered(span, method, route, status)
                _say(scope, identity, method, route, status, seconds)


def id_of(given: str) -> str:
    """The id the caller gave the request where it is harmless, else a fresh one.

    >>> id_of("a-1"), len(id_of("a b")), id_of("tl_abcdefgh") == "tl_abcdefgh"
    ('a-1', 16, False)
    """
    if SAFE.fullmatch(given) and not SECRETS.search(given):
        return given
    return f"{random.getrandbits(64):016x}"


def _say(scope: Any, identity: str, method: str, route: str, status: int, seconds: float) -> None:
    level = logging.INFO
    if status >= 500:
        level = logging.ERROR
    elif route in QUIET:
        level = logging.DEBUG
    if not _log.isEnabledFor(level):
        return
    facts: dict[str, Any] = {
        "request_id": identity,
        "method": method,
        "route": route,
        "status": status,
        "milliseconds": round(seconds * 1000, 1),
    }
    bearer = scope.get("state", {}).get("bearer")
    if bearer is not None:
        facts |= {"caller": kind_of(bearer.caller), "token_id": bearer.id}
    say(_log, level, "request", facts)
