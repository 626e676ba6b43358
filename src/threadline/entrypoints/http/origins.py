"""Foreign pages and foreign names are turned away before anything is looked at (L5).

A browser tells for whom it asks (`Host`), who asks (`Origin`) and how near that is
(`Sec-Fetch-Site`). A page of another origin may not drive or read anything, and a name that was
made to point at this machine may not either, also on loopback, where another port is another
origin. Programs send none of it and are known by their token. What a proxy says in headers is
anybody's claim and is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

from threadline.core.errors import ConfigError, ThreadlineError
from threadline.entrypoints.http.problems import refuse

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
ANYWHERE = frozenset({"0.0.0.0", "::"})
PORTS = {"http": "80", "https": "443"}
OWN = frozenset({b"same-origin", b"none"})


class ForeignHost(ThreadlineError):
    """The request is for another host; name it in THREADLINE_ALLOWED_HOSTS."""

    status = 421


class ForeignOrigin(ThreadlineError):
    """The request comes from a page of another origin."""

    status = 403


def split(address: str) -> tuple[str, str]:
    """Host and port of `host:port`, `[::1]:port` or a bare host; the port may be empty.

    What is no address has the host `""`, which is nobody's.

    >>> split("LOCALHOST:8080"), split("[::1]:80"), split("::1"), split("a.example")
    (('localhost', '8080'), ('::1', '80'), ('::1', ''), ('a.example', ''))
    >>> split("localhost:80@evil"), split("[::1]evil")
    (('', ''), ('', ''))
    """
    text = address.strip().lower()
    if text.startswith("["):
        host, end, rest = text[1:].partition("]")
        mark, port = rest[:1], rest[1:]
        if not end or mark not in ("", ":"):
            return "", ""
    elif text.count(":") == 1:
        host, mark, port = text.partition(":")
    else:
        host, mark, port = text, "", ""
    if not text.isascii() or (mark and not port.isdigit()) or any(one in host for one in "@/\\?# "):
        return "", ""
    return host.removesuffix("."), port


def parted(url: str) -> tuple[str, str, str] | None:
    """Scheme, host and port of an origin, the port always said; None for what is none.

    >>> parted("https://A.example/"), parted("http://[::1]:8080"), parted("null")
    (('https', 'a.example', '443'), ('http', '::1', '8080'), None)
    """
    scheme, mark, address = url.strip().lower().partition("://")
    if not mark or scheme not in PORTS:
        return None
    host, port = split(address.removesuffix("/"))
    return (scheme, host, port or PORTS[scheme]) if host else None


def checked_url(url: str) -> str:
    """Where people reach the server, as set. Raises `ConfigError` for what is no origin."""
    found = parted(url) if url else None
    if url and found is None:
        raise ConfigError("public_url is an origin, such as https://chat.example.")
    return url


def is_secure(connection: Any) -> bool:
    """Whether the browser is on https, so that a cookie may be kept to it."""
    if connection.scope["scheme"] == "https":
        return True
    public = parted(connection.app.state.settings.public_url)
    asked = split(connection.headers.get("host", ""))[0]
    return public is not None and public[0] == "https" and public[1] == asked


def own_url(connection: Any) -> str:
    """Where people reach this server: as set, else as this request did."""
    public: str = connection.app.state.settings.public_url
    if public:
        return public.rstrip("/")
    return f"{connection.scope['scheme']}://{connection.headers['host']}"


class Origins:
    """ASGI middleware: refuses foreign hosts and foreign origins."""

    def __init__(self, app: ASGIApp, allowed: Iterable[str], public_url: str = "") -> None:
        self._app = app
        self._allowed = frozenset(allowed) - {""}
        self._public = parted(public_url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer with a problem."""
        if scope["type"] == ScopeType.HTTP and (refusal := self._refusal(scope)) is not None:
            await refuse(send, refusal)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Any) -> ThreadlineError | None:
        hosts: list[bytes] = []
        origins: list[bytes] = []
        fetch: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value)
            elif name == b"origin":
                origins.append(value)
            elif name.startswith(b"sec-fetch-"):
                fetch[name] = value
        host = split(hosts[0].decode("latin-1")) if len(hosts) == 1 else ("", "")
        if host[0] not in self._allowed:
            return ForeignHost()
        if not all(self._is_own(one.decode("latin-1"), host, scope["scheme"]) for one in origins):
            return ForeignOrigin()
        site = fetch.get(b"sec-fetch-site")
        if site is None or site in OWN or _is_visit(scope["method"], fetch):
            return None
        return ForeignOrigin()

    def _is_own(self, origin: str, host: tuple[str, str], scheme: str) -> bool:
        """Whether the page that asks came from this very server.

        Behind a proxy with a certificate the page is on https and the proxy calls us on http; where
        `public_url` names that place, it has to be exactly it.
        """
        asking = parted(origin)
        if asking is None:
            return False
        if self._public is not None and host[0] == self._public[1]:
            return asking == self._public
        if asking[0] not in (scheme, "https"):
            return False
        return asking[1:] == (host[0], host[1] or PORTS[asking[0]])


def _is_visit(method: str, fetch: dict[bytes, bytes]) -> bool:
    """Whether a person follows a link to us: the other page gets nothing of the answer."""
    return (
        method in ("GET", "HEAD")
        and fetch.get(b"sec-fetch-mode") == b"navigate"
        and fetch.get(b"sec-fetch-dest") == b"document"
    )
