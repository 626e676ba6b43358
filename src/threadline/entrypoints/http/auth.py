"""Who is calling: a bearer token or a cookie, known by its keyed hash, checked twice a second.

A program sends a token. The page has a cookie of its login, a guest one of its room; a browser
sends those by itself, so every unsafe request with a cookie has to repeat its CSRF token. A token
wins over a cookie, and a guest's cookie opens nothing but the routes for guests. A browser holds
one for each link it came in by, so that several rooms are open beside each other.

Each route says in `opt["callers"]` which kinds of caller it is for; `OPEN` is for everybody. The
check is one guard over all of them, so that a route without a word about it is open to nobody.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers.base import BaseRouteHandler
from litestar.params import SkipValidation

from threadline.core.errors import CsrfMismatch, Unauthenticated, Unauthorized
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
# A session whose token is good in one conversation: let in only where a route says so.
BOUND = "bound"
CACHE_SECONDS = 0.5
LOOK_SECONDS = 0.4
CACHED = 10_000
PAGE_COOKIE = "threadline_page"
GUEST_COOKIE = "threadline_guest"
NOBODY = f"{GUEST_COOKIE}_"
_GUEST_COOKIE = re.compile(rf"{GUEST_COOKIE}_[0-9a-f]{{16}}")
# The query parameter that says which of a browser's guests asks: each link has a cookie of its own.
WHICH = "guest"
CSRF_HEADER = "X-CSRF-Token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# Of answers that hold a secret, or lie behind an address that is one.
PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


def callers(*kinds: str, key: str | None = None) -> dict[str, Any]:
    """The `opt` of a route: its kinds of caller, and what a key means to it (`keys`)."""
    return {"callers": kinds, "key": key}


def for_guests(opt: Mapping[str, Any]) -> bool:
    """Whether a route is for guests alone: their cookie counts there, and `WHICH` names it."""
    return tuple(opt.get("callers", ())) == (GUEST,)


def kind_of(caller: Caller) -> str:
    """The word of a kind of caller."""
    match caller:
        case Controller():
            return CONTROLLER
        case AdapterCaller():
            return ADAPTER
        case SessionCaller():
            return SESSION if caller.conversation is None else BOUND
        case Guest():
            return GUEST


@dataclass(frozen=True, slots=True)
class Credential:
    """What a request shows: a bearer token, or the value of one of our cookies."""

    secret: str = field(repr=False)
    cookie: str | None = None


@dataclass(slots=True)
class _Seen:
    bearer: Bearer | None
    until: float


class Doorman:
    """Recognises tokens and cookies, and remembers for half a second what it recognised."""

    def __init__(self, line: Flows) -> None:
        self._line = line
        self._seen: dict[Credential, _Seen] = {}
        self._open: dict[Credential, set[asyncio.Event]] = {}

    async def recognise(self, shown: Credential) -> Bearer | None:
        """Whom a credential makes of its bearer, None for one that does not hold (any more)."""
        now = time.monotonic()
        seen = self._seen.get(shown)
        if seen is None or seen.until < now:
            if len(self._seen) >= CACHED:
                self._seen.clear()
            seen = _Seen(await self._look_up(shown), now + CACHE_SECONDS)
            self._seen[shown] = seen
        # When it expires says the store's clock alone; ours may be another.
        return seen.bearer

    async def _look_up(self, shown: Credential) -> Bearer | None:
        match shown.cookie:
            case None:
                return await self._line.tokens.recognise(shown.secret)
            case name if name == GUEST_COOKIE:
                return await self._line.guests.recognise(shown.secret)
            case _:
                return await self._line.logins.recognise(shown.secret)

    def forget(self, shown: Credential | None = None) -> None:
        """Know nothing of a credential, or of any: after what changes whom it means."""
        if shown is None:
            self._seen.clear()
        else:
            self._seen.pop(shown, None)

    @contextmanager
    def watch(self, connection: Connection) -> Iterator[asyncio.Event]:
        """Set within a second after what the connection showed holds no more."""
        revoked = asyncio.Event()
        shown: Credential | None = getattr(connection.state, "credential", None)
        if shown is None:
            yield revoked
            return
        self._open.setdefault(shown, set()).add(revoked)
        try:
            yield revoked
        finally:
            self._open[shown].discard(revoked)
            if not self._open[shown]:
                del self._open[shown]

    def watched(self, shown: Credential) -> int:
        """How many streams are open on this credential."""
        return len(self._open.get(shown, ()))

    async def look(self) -> None:
        """Tell the streams whose token, login or guest holds no more."""
        for shown in list(self._open):
            if await self.recognise(shown) is None:
                for revoked in self._open.get(shown, ()):
                    revoked.set()


def secret_of(connection: Connection) -> str | None:
    """The token a request carries."""
    header: str = connection.headers.get("authorization", "")
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.casefold() == "bearer" and secret.strip() else None


def credential_of(connection: Connection, *, guests: bool = False) -> Credential | None:
    """What the request shows: a token, else the cookie that fits the route."""
    secret = secret_of(connection)
    if secret is not None:
        return Credential(secret)
    kind, name = (GUEST_COOKIE, guest_cookie(connection)) if guests else (PAGE_COOKIE, PAGE_COOKIE)
    value = connection.cookies.get(name)
    return Credential(value, kind) if value and name != NOBODY else None


def which_guest(link: str) -> str:
    """The word for whoever comes in by a link, which tells nothing of the link's secret.

    >>> which_guest("secret")
    '2bb80d537b1da3e3'
    """
    return hashlib.sha256(link.encode()).hexdigest()[:16]


def guest_cookie(connection: Connection) -> str:
    """The name of the cookie of the guest that asks: who is named, else the only one there is.

    Where several are there and none is named it is nobody's, so that no words go to a wrong room;
    and so is a name that no link gives.
    """
    which = connection.query_params.get(WHICH)
    named = connection.cookies if which is None else (f"{GUEST_COOKIE}_{which}",)
    there = [one for one in named if _GUEST_COOKIE.fullmatch(one)]
    return there[0] if len(there) == 1 else NOBODY


def _method(connection: Connection) -> str:
    scope: Any = connection.scope
    return str(scope["method"])


async def bearer_of(connection: Connection, *, guests: bool = False) -> Bearer:
    """Who is calling, by a token or a cookie. Raises `Unauthenticated` and `CsrfMismatch`.

    `guests` says that the route is for guests, whose cookie then counts instead of the page's.
    """
    shown = credential_of(connection, guests=guests)
    if shown is None:
        raise Unauthenticated("send `Authorization: Bearer` with a token.")
    bearer = await doorman_of(connection).recognise(shown)
    if bearer is None:
        what = "token" if shown.cookie is None else "login"
        raise Unauthenticated(f"the {what} is unknown, expired or revoked.")
    if shown.cookie is not None and _method(connection) not in SAFE:
        said = connection.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(said.encode(), bearer.csrf.encode()):
            raise CsrfMismatch
    connection.state.credential = shown
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
    bearer = await bearer_of(connection, guests=for_guests(handler.opt))
    if kind_of(bearer.caller) not in kinds:
        raise Unauthorized(f"this is not for a token of the kind {kind_of(bearer.caller)}.")
    connection.state.bearer = bearer


async def provide_caller(request: Connection, line: Line) -> Caller:
    """The caller, for handlers.

    After the flows and not beside them: for two at once the framework starts a group of tasks,
    which costs more than what they do.
    """
    bearer: Bearer = request.state.bearer
    return bearer.caller


async def provide_line(request: Request[Any, Any, Any]) -> Flows:
    """The flows, for handlers."""
    return await keys.line_of(request, request.app.state.line)
