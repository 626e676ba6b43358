"""Connections for calls: few at once, kept where that is wanted, and never left behind.

A call may end at any moment: a time-out, a server that stops. A connection belongs to one call at a
time, and whatever becomes of the call decides in one place whether it is kept or closed. httpcore's
own pool is not used, for it counts connections and requests as under way for ever when a call is
cancelled at the wrong moment, until none is left (docs/why/0016-connections-of-our-own.md).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpcore


class Connections:
    """Up to `most` calls at once, each on a connection of its own.

    `kept` says how many connections wait for a next call, for `kept_seconds` at most; with 0 every
    call begins on a fresh one, so that an error before the first byte is known to be that.
    """

    def __init__(
        self,
        network: httpcore.AsyncNetworkBackend,
        tls: Callable[[], ssl.SSLContext],
        *,
        most: int,
        kept: int = 0,
        kept_seconds: float = 20.0,
    ) -> None:
        self._network = _Tidy(network)
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._room = asyncio.Semaphore(most)
        self._most_kept = kept
        self._kept_seconds = kept_seconds
        self._kept: list[httpcore.AsyncHTTPConnection] = []

    @asynccontextmanager
    async def call(
        self,
        method: str,
        url: httpcore.URL,
        *,
        headers: Mapping[str, str],
        content: bytes,
        seconds: Mapping[str, float],
    ) -> AsyncIterator[httpcore.Response]:
        """An answer whose body is still to be read. `seconds` are httpcore's time-outs.

        Raises httpcore's errors; `PoolTimeout` where no room came free in time.
        """
        try:
            async with asyncio.timeout(seconds.get("pool")):
                await self._room.acquire()
        except TimeoutError:
            raise httpcore.PoolTimeout("too many calls are under way.") from None
        try:
            async with self._lent(url.origin) as connection:
                calling = connection.stream(
                    method,
                    url,
                    headers=list(headers.items()),
                    content=content,
                    extensions={"timeout": dict(seconds)},
                )
                async with calling as answer:
                    yield answer
        finally:
            self._room.release()

    @asynccontextmanager
    async def _lent(self, origin: httpcore.Origin) -> AsyncIterator[httpcore.AsyncHTTPConnection]:
        connection = await self._waiting(origin) or httpcore.AsyncHTTPConnection(
            origin,
            ssl_context=self._secure(origin),
            keepalive_expiry=self._kept_seconds,
            network_backend=self._network,
        )
        try:
            yield connection
        finally:
            if connection.is_idle() and len(self._kept) < self._most_kept:
                self._kept.append(connection)
            else:
                await connection.aclose()

    async def _waiting(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection | None:
        """A connection that waits for a call there; those that were closed meanwhile go."""
        gone = [one for one in self._kept if one.has_expired() or one.is_closed()]
        self._kept = [one for one in self._kept if one not in gone]
        found = next((one for one in self._kept if one.can_handle_request(origin)), None)
        if found is not None:
            self._kept.remove(found)
        for one in gone:
            await one.aclose()
        return found

    def _secure(self, origin: httpcore.Origin) -> ssl.SSLContext | None:
        """Certificates take time and memory: a program that calls nobody goes without."""
        if origin.scheme == b"https" and self._context is None:
            self._context = self._tls()
        return self._context

    async def close(self) -> None:
        """Close those that wait; a call under way closes its own."""
        while self._kept:
            await self._kept.pop().aclose()
        self._most_kept = 0


class _Tidy(httpcore.AsyncNetworkBackend):
    """A network of which no connection stays that nobody waits for any more."""

    def __init__(self, below: httpcore.AsyncNetworkBackend) -> None:
        self._below = below

    async def connect_tcp(self, *given: Any, **named: Any) -> httpcore.AsyncNetworkStream:
        """See `httpcore.AsyncNetworkBackend`."""
        task = asyncio.create_task(self._below.connect_tcp(*given, **named))
        try:
            return _Stream(await asyncio.shield(task))
        except asyncio.CancelledError:
            task.add_done_callback(_hang_up)
            raise

    async def sleep(self, seconds: float) -> None:
        """See `httpcore.AsyncNetworkBackend`."""
        await self._below.sleep(seconds)


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that a handshake closes when it fails or is cancelled."""

    def __init__(self, below: httpcore.AsyncNetworkStream) -> None:
        self._below = below

    async def read(self, *given: Any, **named: Any) -> bytes:
        """See `httpcore.AsyncNetworkStream`."""
        return await self._below.read(*given, **named)

    async def write(self, *given: Any, **named: Any) -> None:
        """See `httpcore.AsyncNetworkStream`."""
        await self._below.write(*given, **named)

    async def aclose(self) -> None:
        """See `httpcore.AsyncNetworkStream`."""
        await self._below.aclose()

    async def start_tls(self, *given: Any, **named: Any) -> httpcore.AsyncNetworkStream:
        """See `httpcore.AsyncNetworkStream`."""
        try:
            return await self._below.start_tls(*given, **named)
        except BaseException:
            await self._below.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        """See `httpcore.AsyncNetworkStream`."""
        return self._below.get_extra_info(info)


_CLOSING: set[asyncio.Task[None]] = set()


def _hang_up(task: asyncio.Task[httpcore.AsyncNetworkStream]) -> None:
    """Close what was connected too late."""
    if not task.cancelled() and task.exception() is None:
        closing = asyncio.create_task(task.result().aclose())
        _CLOSING.add(closing)
        closing.add_done_callback(_CLOSING.discard)
