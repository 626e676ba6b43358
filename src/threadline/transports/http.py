"""Calls to adapters that run elsewhere: signed, guarded, timed out, never repeated."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
from standardwebhooks import Webhook

from threadline.core.wire import ApiCall, ApiResponse, Lost, Unsent
from threadline.transports.guarded import guarded

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
MAX_ANSWER = 64 * 1024

# Nothing of a request has left while one of these is raised.
BEFORE = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
    httpx.ProxyError,
)


class HttpTransport:
    """See `core.wire.Transport`."""

    def __init__(self, *, allow_private: bool = False, patience: float = ANSWER_SECONDS) -> None:
        self._client = httpx.AsyncClient(
            # A kept connection may be closed already at the other end; then nobody would know
            # whether the call was read.
            transport=guarded(allow_private=allow_private, kept=0),
            timeout=httpx.Timeout(patience, connect=min(CONNECT_SECONDS, patience)),
            follow_redirects=False,
            trust_env=False,
        )

    async def perform(self, call: ApiCall) -> ApiResponse:
        """See `core.wire.Transport.perform`."""
        headers = {**call.headers, "user-agent": "threadline"}
        if call.secret:
            headers |= signature(call)
        try:
            request = self._client.build_request(
                call.method, call.url, content=call.body, headers=headers
            )
            answer = await self._client.send(request, stream=True)
        except BEFORE as error:
            raise Unsent(f"nobody answers there ({_why(error)}).") from None
        except httpx.HTTPError as error:
            raise Lost(f"no answer came ({_why(error)}).") from None
        try:
            body = b""
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER:
                    raise Lost(f"the answer is longer than {MAX_ANSWER} bytes.")
        except httpx.HTTPError as error:
            raise Lost(f"the answer broke off ({_why(error)}).") from None
        finally:
            await answer.aclose()
        return ApiResponse(status=answer.status_code, body=body, headers=_lower(answer.headers))

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()


def signature(call: ApiCall) -> dict[str, str]:
    """The three headers of Standard Webhooks."""
    at = datetime.now(UTC)
    text = call.body.decode()
    return {
        "webhook-id": call.key,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(call.secret).sign(call.key, at, text),
    }


def _lower(headers: httpx.Headers) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _why(error: Any) -> str:
    """The kind of the error: its text may hold a URL with somebody's secret in it."""
    return type(error).__name__
