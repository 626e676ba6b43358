"""Who is calling: a bearer token, known by its keyed hash, checked twice a second.

Each route says in `opt["callers"]` which kinds of caller it is for; `OPEN` is for everybody. The
check is one guard over all of them, so that a route without a word about it is open to nobody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers.base import BaseRouteHandler
from litestar.params import SkipValidation

from threadline.core.errors import Unauthenticated, Unauthorized
from threadline.core.model import AdapterCaller, Caller, Controller, Guest, SessionCaller
from threadline.entrypoints.http import keys
from threadline.flows.every import Flows
from threadline.flows.tokens import Bearer

# What a guard and a provider made needs no validation, and msgspec could not tell callers apart.
Asker = NamedDependency[SkipValidation[Caller]]
Line = NamedDependency[SkipValidation[Flows]]
Connection = ASGIConnection[Any, Any, Any, Any]

OPEN = "open"
CONTROLLER = "controller"
ADAPTER = "adapter"
SESSION = "session"
GUEST = "guest"
CACHE_SECONDS = 0.5
LOOK_SECONDS = 0.4
CACHED = 10_000


def callers(*kinds: str, key: str | None = None) -> dict[str, Any]:
    """The `opt` of a route: its kinds of caller, and what a key means to it (`keys`)."""
    return {"callers": kinds, "key": key}


def kind_of(caller: Caller) -> str:
    """The word of a kind of caller."""
    match caller:
        case Controller():
            return CONTROLLER
        case AdapterCaller():
            return ADAPTER
        case SessionCaller():
            return SESSION
        case Guest():
            return GUEST


@dataclass(slots=True)
class _Seen:
    bearer: Bearer | None
    until: float


class Doorman:
    """Recognises tokens, and remembers for half a second what it recognised."""

    def __init__(self, line: Flows) -> None:
        self._line = line
        self._seen: dict[str, _Seen] = {}
        self._open: dict[str, set[asyncio.Event]] = {}

    async def recognise(self, secret: str) -> Bearer | None:
        """Whom a token makes of its bearer, None for one that does not hold (any more)."""
        now = time.monotonic()
        seen = self._seen.get(secret)
        if seen is None or seen.until < now:
            if len(self._seen) >= CACHED:
                self._seen.clear()
            seen = _Seen(await self._line.tokens.recognise(secret), now + CACHE_SECONDS)
            self._seen[secret] = seen
        return seen.bearer

    def forget(self) -> None:
        """Know nothing: after something was done here that changes whom a token means."""
        self._seen.clear()

    @contextmanager
    def watch(self, connection: Connection) -> Iterator[asyncio.Event]:
        """Set within a second after the connection's token holds no more."""
        revoked = asyncio.Event()
        secret = secret_of(connection)
        if secret is None:
            yield revoked
            return
        self._open.setdefault(secret, set()).add(revoked)
        try:
            yield revoked
        finally:
            self._open[secret].discard(revoked)
            if not self._open[secret]:
                del self._open[secret]

    async def look(self) -> None:
        """Tell the streams whose token holds no more."""
        for secret in list(self._open):
            if await self.recognise(secret) is None:
                for revoked in self._open.get(secret, ()):
                    revoked.set()


def secret_of(connection: Connection) -> str | None:
    """The token a request carries."""
    header: str = connection.headers.get("authorization", "")
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.casefold() == "bearer" and secret.strip() else None


async def bearer_of(connection: Connection) -> Bearer:
    """Who is calling. Raises `Unauthenticated`."""
    secret = secret_of(connection)
    if secret is None:
        raise Unauthenticated("send `Authorization: Bearer` with a token.")
    bearer = await doorman_of(connection).recognise(secret)
    if bearer is None:
        raise Unauthenticated("the token is unknown, expired or revoked.")
    return bearer


def doorman_of(connection: Connection) -> Doorman:
    """The doorman of the application."""
    doorman: Doorman = connection.app.state.doorman
    return doorman


async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Let in whom the route is for. Raises `Unauthenticated` or `Unauthorized`."""
    kinds = handler.opt.get("callers", ())
    if OPEN in kinds:
        return
    bearer = await bearer_of(connection)
    if kind_of(bearer.caller) not in kinds:
        raise Unauthorized(f"this is not for a token of the kind {kind_of(bearer.caller)}.")
    connection.state.bearer = bearer


async def provide_caller(request: Connection) -> Caller:
    """The caller, for handlers."""
    bearer: Bearer = request.state.bearer
    return bearer.caller


async def provide_line(request: Request[Any, Any, Any]) -> Flows:
    """The flows, for handlers."""
    return await keys.line_of(request, request.app.state.line)
