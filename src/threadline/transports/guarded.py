"""Calls to addresses that users named: checked where they connect, bounded in every direction.

A name is looked up here, every address it has is judged, and the connection is made to an address
that was judged: what the name says a moment later changes nothing. TLS and the Host header still
carry the name. No redirect is followed, no proxy is asked, nothing is sent twice.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from threadline.core.outside import (
    AddressRefused,
    Answer,
    CallFailed,
    Fault,
    Place,
    Post,
    may_connect,
    place,
)

if TYPE_CHECKING:
    import httpcore

    from threadline.transports.connections import Connections

SECONDS = 15.0
CONNECT_SECONDS = 5.0
ANSWER_BYTES = 64 * 1024
TRIED = 4
CONNECTIONS = 64
KEPT = 16
KEPT_SECONDS = 20.0

Resolve = Callable[[str, int], Awaitable[list[str]]]


async def resolve(host: str, port: int) -> list[str]:
    """Every address a name has. Raises `OSError`."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Guarded:
    """See `core.outside.Outside`. `seconds` bounds a call from its look-up to its last byte."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        seconds: float = SECONDS,
        answer_bytes: int = ANSWER_BYTES,
        resolve: Resolve = resolve,
    ) -> None:
        self.allow_private = allow_private
        self._seconds = seconds
        self._answer_bytes = answer_bytes
        self._resolve = resolve

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Post]:
        """See `core.outside.Outside.open`."""
        import httpx

        from threadline.transports.connections import Connections

        connections = Connections(
            network(self.allow_private, self._resolve),
            httpx.create_ssl_context,
            most=CONNECTIONS,
            kept=KEPT,
            kept_seconds=KEPT_SECONDS,
        )

        async def post(url: str, headers: Mapping[str, str], body: bytes) -> Answer:
            return await self._post(connections, url, headers, body)

        try:
            yield post
        finally:
            await connections.close()

    async def _post(
        self,
        connections: Connections,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Answer:
        """See `core.outside.Post`."""
        import httpcore

        try:
            where = place(url, allow_private=self.allow_private)
            async with asyncio.timeout(self._seconds):
                return await self._call(connections, where, headers, body)
        except AddressRefused:
            raise CallFailed(Fault.ADDRESS_REFUSED) from None
        except (TimeoutError, httpcore.TimeoutException):
            raise CallFailed(Fault.TIMEOUT) from None
        except (OSError, httpcore.NetworkError, httpcore.ProtocolError):
            raise CallFailed(Fault.UNREACHABLE) from None

    async def _call(
        self,
        connections: Connections,
        where: Place,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Answer:
        import httpcore

        sent = {
            "User-Agent": f"threadline/{version('threadline')}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            **headers,
        }
        calling = connections.call(
            "POST",
            httpcore.URL(
                scheme=where.scheme, host=where.host, port=where.port, target=where.target
            ),
            headers=sent,
            content=body,
            seconds={"connect": CONNECT_SECONDS, "pool": self._seconds},
        )
        async with calling as response:
            got = bytearray()
            async for part in response.aiter_stream():
                got += part
                if len(got) > self._answer_bytes:
                    raise CallFailed(Fault.ANSWER_TOO_LARGE)
            names = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in response.headers
            }
            return Answer(response.status, names, bytes(got))


def network(allow_private: bool, resolve: Resolve) -> httpcore.AsyncNetworkBackend:
    """The ground of a connection pool that goes only where it may."""
    import httpcore

    class Network(httpcore.AsyncNetworkBackend):
        """Connects to addresses that were judged, and to nothing else."""

        def __init__(self) -> None:
            self._inner = httpcore.AnyIOBackend()

        async def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,  # noqa: ASYNC109 - the backend's own signature
            local_address: str | None = None,
            socket_options: Iterable[Any] | None = None,
        ) -> httpcore.AsyncNetworkStream:
            """See `httpcore.AsyncNetworkBackend`."""
            failure: Exception = OSError("the name has no address")
            for address in (await self._judged(host, port))[:TRIED]:
                try:
                    return await self._inner.connect_tcp(
                        address, port, timeout, local_address, socket_options
                    )
                except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                    failure = error
            raise failure

        async def _judged(self, host: str, port: int) -> list[str]:
            try:
                found = [str(ip_address(host))]
            except ValueError:
                found = await resolve(host, port)
            # One bad address is enough: a name that leads inside as well is no honest mistake.
            for one in found:
                if not may_connect(ip_address(one), allow_private=allow_private):
                    raise AddressRefused("the name leads to an address that may not be called.")
            return found

        async def connect_unix_socket(
            self, path: str, *_: Any, **__: Any
        ) -> httpcore.AsyncNetworkStream:
            """Never."""
            raise AddressRefused("a socket in the file system may not be called.")

        async def sleep(self, seconds: float) -> None:
            """See `httpcore.AsyncNetworkBackend`."""
            await asyncio.sleep(seconds)

    return Network()
