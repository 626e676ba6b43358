"""Calls to adapters that run elsewhere: signed, guarded, timed out, never repeated.

What matters here is whether a byte left: an error before that is `Unsent`, any later one is `Lost`.
So no connection is kept for a next call, which might find it closed at the other end.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpcore
import httpx
from standardwebhooks import Webhook

from threadline.core.outside import AddressRefused, place
from threadline.core.wire import ApiCall, ApiResponse, Lost, Overlong, Unsent
from threadline.transports.connections import Connections
from threadline.transports.guarded import Resolve, network, resolve

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
CONNECTIONS = 100
ALLOWED = "Addresses of this machine and its networks need THREADLINE_ADAPTERS_ALLOW_PRIVATE=true."

# Nothing of a request has left while one of these is raised.
BEFORE = (
    httpcore.ConnectError,
    httpcore.ConnectTimeout,
    httpcore.PoolTimeout,
    httpcore.UnsupportedProtocol,
    httpcore.ProxyError,
    AddressRefused,
)


class HttpTransport:
    """See `core.wire.Transport`. `patience` is in seconds, from the first byte to the last."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        patience: float = ANSWER_SECONDS,
        resolve: Resolve = resolve,
    ) -> None:
        self._allow_private = allow_private
        self._patience = patience
        self._connections = Connections(
            _Named(network(allow_private, resolve)),
            partial(httpx.create_ssl_context, trust_env=False),
            most=CONNECTIONS,
        )

    async def perform(self, call: ApiCall) -> ApiResponse:
        """See `core.wire.Transport.perform`."""
        headers = {"user-agent": "threadline", "accept": "application/json", **call.headers}
        if call.secret:
            headers |= signature(call)
        try:
            where = place(call.url, allow_private=self._allow_private)
        except AddressRefused as error:
            why = f"it may not be called: {error.detail}"
            if not self._allow_private:
                why += f" {ALLOWED}"
            raise Unsent(why) from None
        url = httpcore.URL(
            scheme=where.scheme, host=where.host, port=where.port, target=where.target
        )
        connect = min(CONNECT_SECONDS, self._patience)
        patience = self._patience
        limits = {"connect": connect, "read": patience, "write": patience, "pool": patience}
        try:
            async with (
                asyncio.timeout(patience + connect),
                self._connections.call(
                    call.method, url, headers=headers, content=call.body, seconds=limits
                ) as answer,
            ):
                return await _read(answer, call.most)
        except BEFORE as error:
            raise Unsent(f"nobody answers there ({_why(error)}).") from None
        except (TimeoutError, OSError, httpcore.TimeoutException) as error:
            raise Lost(f"no answer came ({_why(error)}).") from None
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise Lost(f"the answer broke off ({_why(error)}).") from None

    async def close(self) -> None:
        """Close its connections."""
        await self._connections.close()


class _Named(httpcore.AsyncNetworkBackend):
    """Says of everything that goes wrong while connecting that it was the connecting."""

    def __init__(self, below: httpcore.AsyncNetworkBackend) -> None:
        self._below = below

    async def connect_tcp(self, *args: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        """See `httpcore.AsyncNetworkBackend`."""
        try:
            return await self._below.connect_tcp(*args, **options)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(_why(error)) from None

    async def connect_unix_socket(self, *args: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        """See `httpcore.AsyncNetworkBackend`."""
        return await self._below.connect_unix_socket(*args, **options)

    async def sleep(self, seconds: float) -> None:
        """See `httpcore.AsyncNetworkBackend`."""
        await self._below.sleep(seconds)


async def _read(answer: httpcore.Response, most: int) -> ApiResponse:
    names = {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers
    }
    stated = names.get("content-length", "")
    if stated.isascii() and stated.isdecimal() and int(stated[:20]) > most:
        raise Overlong(f"the answer is longer than {most} bytes.")
    got = bytearray()
    async for part in answer.aiter_stream():
        got += part
        if len(got) > most:
            raise Overlong(f"the answer is longer than {most} bytes.")
    return ApiResponse(status=answer.status, body=bytes(got), headers=names)


def signature(call: ApiCall) -> dict[str, str]:
    """The three headers of Standard Webhooks."""
    at = datetime.now(UTC)
    return {
        "webhook-id": call.key,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(call.secret).sign(call.key, at, call.body.decode()),
    }


def _why(error: BaseException) -> str:
    """The kind of the error: its text may hold a URL with somebody's secret in it."""
    return type(error).__name__
