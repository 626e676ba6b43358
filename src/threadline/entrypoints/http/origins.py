"""Foreign pages and foreign names are turned away before anything is looked at (L5).

A browser tells for whom it asks (`Host`) and who asks (`Origin`). A page of another origin may not
drive or read anything, and a name that was made to point at this machine may not either, also on
loopback. Programs send no `Origin` and are known by their token.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

from threadline.core.errors import ThreadlineError
from threadline.entrypoints.http.problems import refuse

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
ANYWHERE = frozenset({"0.0.0.0", "::"})


class ForeignHost(ThreadlineError):
    """The request is for another host; name it in THREADLINE_ALLOWED_HOSTS."""

    status = 421


class ForeignOrigin(ThreadlineError):
    """The request comes from a page of another origin."""

    status = 403


def split(address: str) -> tuple[str, str]:
    """Host and port of `host:port`, `[::1]:port` or a bare host; the port may be empty.

    >>> split("LOCALHOST:8080"), split("[::1]:80"), split("::1"), split("a.example")
    (('localhost', '8080'), ('::1', '80'), ('::1', ''), ('a.example', ''))
    """
    text = address.strip().casefold()
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host.rstrip("."), port
    return text.rstrip("."), ""


class Origins:
    """ASGI middleware: refuses foreign hosts and foreign origins."""

    def __init__(self, app: ASGIApp, allowed: Iterable[str]) -> None:
        self._app = app
        self._allowed = frozenset(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer with a problem."""
        if scope["type"] == ScopeType.HTTP and (refusal := self._refusal(scope)) is not None:
            await refuse(send, refusal)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Any) -> ThreadlineError | None:
        headers = scope["headers"]
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) != 1 or split(hosts[0])[0] not in self._allowed:
            return ForeignHost()
        for name, value in headers:
            if name == b"origin":
                _, mark, address = value.decode("latin-1").partition("://")
                if not mark or split(address) != split(hosts[0]):
                    return ForeignOrigin()
            if name == b"sec-fetch-site" and value == b"cross-site" and scope["method"] != "GET":
                return ForeignOrigin()
        return None
