"""A wire that goes only where it may: the address is checked where it is connected to.

A name is resolved once; every address is judged, and the connection goes to the one that was
judged, so that a name that means something else a moment later reaches nothing (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet.

    >>> [is_public(one) for one in ("93.184.216.34", "10.0.0.1", "127.0.0.1", "::ffff:10.0.0.1")]
    [True, False, False, False]
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if inner is None and found.teredo is not None:
            inner = found.teredo[1]
        if inner is None and found in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
    return found.is_global and not found.is_multicast


class _Guard(httpcore.AsyncNetworkBackend):
    """Resolves, judges, and connects to what was judged."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._below = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (the name is httpcore's)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """See `httpcore.AsyncNetworkBackend`. Raises `ConnectError` for what is not public."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"{host} could not be resolved in time.") from None
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} could not be resolved: {error}") from None
        addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
        if not self._allow_private and not all(is_public(one) for one in addresses):
            raise httpcore.ConnectError(f"{host} is not on the public internet.")
        last: Exception = httpcore.ConnectError(f"{host} has no address.")
        for address in addresses:
            try:
                return await self._below.connect_tcp(
                    address,
                    port,
                    timeout=timeout,
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last = error
        raise last

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 (the name is httpcore's)
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A socket file is never on the public internet."""
        raise httpcore.ConnectError("socket files are not called.")

    async def sleep(self, seconds: float) -> None:
        """See `httpcore.AsyncNetworkBackend`."""
        await self._below.sleep(seconds)


def guarded(
    *, allow_private: bool, connections: int = 100, kept: int = 20
) -> httpx.AsyncHTTPTransport:
    """An httpx transport that connects to public addresses only, unless private ones are allowed.

    It takes no proxy from the environment, and repeats nothing. `kept` connections stay open for
    later calls.
    """
    made = httpx.AsyncHTTPTransport(retries=0, trust_env=False)
    made._pool = httpcore.AsyncConnectionPool(
        ssl_context=httpx.create_ssl_context(trust_env=False),
        max_connections=connections,
        max_keepalive_connections=kept,
        keepalive_expiry=5.0,
        http1=True,
        http2=False,
        retries=0,
        network_backend=_Guard(allow_private),
    )
    return made
