"""Slack's wire: the Web API over HTTP, and Socket Mode, which brings events as a webhook would.

A socket is opened under an address that is good for once, and hears what happens from then on: what
happened while none was open is read from the history. An envelope is confirmed once it is stored;
what is not confirmed in time comes again, under another envelope and the same ids.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from threadline.core.adapters import Account
from threadline.core.errors import ConfigError, Unauthenticated
from threadline.core.outside import AddressRefused, may_connect, place
from threadline.core.values import json_object
from threadline.core.wire import ApiCall, ApiResponse, Batch, Lost, Request, Unsent
from threadline.transports.http import HttpTransport

if TYPE_CHECKING:
    import aiohttp

API = "https://slack.com/api"
HELLO_SECONDS = 30.0
BEAT_SECONDS = 20.0
LEAVING_SECONDS = 1.0
FRAME_BYTES = 4 * 1024 * 1024
BATCH = 100
# More than this many envelopes wait for the store: let go, and have the rest read later.
WAITING = 10_000
REFUSED = {
    **dict.fromkeys(
        ("invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive"),
        "Slack does not take the app-level token (any more): make one under Basic Information → "
        "App-Level Tokens, and connect again.",
    ),
    "not_allowed_token_type": "the app token is no app-level token: those begin with xapp-.",
    "missing_scope": "the app-level token lacks connections:write: make one that has it.",
}
DISABLED = "Socket Mode is switched off for this app: switch it on under Socket Mode."


class _Socket:
    """An open socket: whatever comes is taken at once, since pings are answered while reading."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.waiting: deque[dict[str, Any]] = deque()
        self.rung = asyncio.Event()
        self.closed = False

    async def read(self) -> None:
        """Take frames until there are no more."""
        try:
            async for frame in self._socket:
                said = (
                    json_object(frame.data.encode("utf-8", "replace"))
                    if isinstance(frame.data, str)
                    else {}
                )
                self.waiting.append(said)
                self.rung.set()
                if len(self.waiting) > WAITING:
                    break
        finally:
            self.closed = True
            self.rung.set()

    async def next(self) -> list[dict[str, Any]]:
        """What has come: one frame or a few envelopes; empty once there is nothing more."""
        while not self.waiting and not self.closed:
            self.rung.clear()
            await self.rung.wait()
        if len(self.waiting) > WAITING:
            raise Lost("more was said than could be recorded; the rest will be read later.")
        found: list[dict[str, Any]] = []
        while self.waiting and len(found) < BATCH:
            if found and not _is_envelope(self.waiting[0]):
                break
            found.append(self.waiting.popleft())
            if not _is_envelope(found[0]):
                break
        return found

    async def confirm(self, envelopes: list[str]) -> None:
        """Say that these are stored. A socket that is gone hears nothing: they will come again."""
        with suppress(ConnectionError):
            for one in envelopes:
                await self._socket.send_str(json.dumps({"envelope_id": one}))


class SlackTransport(HttpTransport):
    """See `core.wire.Transport` and `core.adapters.Listener`."""

    async def listen(self, account: Account, cursor: str | None) -> AsyncGenerator[Batch, None]:
        """One connection, from its greeting to its end, which Slack brings about every few hours.

        There is no cursor: every greeting is a gap everywhere. Raises `Unauthenticated` for a token
        that is not taken, `ConfigError` where Socket Mode is off or its library is not installed,
        and `Unsent` or `Lost` where Slack cannot be reached.
        """
        try:
            import aiohttp
        except ImportError:
            raise ConfigError("Socket Mode needs more: pip install 'threadline[slack]'.") from None
        url = await self._address(account)
        patience = aiohttp.ClientTimeout(total=None, sock_connect=HELLO_SECONDS)
        async with aiohttp.ClientSession(
            timeout=patience,
            connector=aiohttp.TCPConnector(resolver=_judging(self._allow_private)),
            trust_env=False,
            trace_configs=[_staying()],
        ) as session:
            try:
                async with asyncio.timeout(HELLO_SECONDS):
                    opened = await session.ws_connect(
                        url,
                        heartbeat=BEAT_SECONDS,
                        max_msg_size=FRAME_BYTES,
                        timeout=aiohttp.ClientWSTimeout(ws_close=LEAVING_SECONDS),
                    )
            except (aiohttp.ClientError, AddressRefused, OSError, TimeoutError) as error:
                raise Lost(f"Slack's socket does not open ({type(error).__name__}).") from None
            socket = _Socket(opened)
            reading = asyncio.create_task(socket.read())
            try:
                async with aclosing(_batches(socket)) as batches:
                    async for batch in batches:
                        yield batch
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
                await opened.close()

    async def _address(self, account: Account) -> str:
        """Where the next socket is opened: an address that is good for once, and secret."""
        api = str(account.settings.get("api") or API).rstrip("/")
        token = account.credentials.get("app_token", "")
        answer = await self.perform(
            ApiCall(
                method="POST",
                url=f"{api}/apps.connections.open",
                headers={
                    "authorization": f"Bearer {token}",
                    "content-type": "application/x-www-form-urlencoded",
                },
            )
        )
        said = json_object(answer.body)
        url = said.get("url")
        if answer.status != 200 or said.get("ok") is not True or not isinstance(url, str):
            raise _why(answer, str(said.get("error") or ""))
        try:
            place(url.replace("ws", "http", 1), allow_private=self._allow_private)
        except AddressRefused as error:
            raise Unsent(f"the socket may not be called: {error.detail}") from None
        return url


async def _batches(socket: _Socket) -> AsyncGenerator[Batch, None]:
    """What a socket brings, until Slack says that another one has to be opened."""
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            greeting = await socket.next()
    except TimeoutError:
        raise Lost("Slack's socket was opened and said nothing.") from None
    while greeting:
        match greeting[0]:
            case {"type": "hello"}:
                yield Batch(gap=True)
            case {"type": "disconnect", "reason": "link_disabled"}:
                raise ConfigError(DISABLED)
            case {"type": "disconnect"}:
                return
            case one if _is_envelope(one):
                yield _batch(socket, greeting)
        greeting = await socket.next()
    raise Lost("Slack's socket broke off.")


def _batch(socket: _Socket, envelopes: list[dict[str, Any]]) -> Batch:
    names = [one["envelope_id"] for one in envelopes]

    async def done() -> None:
        await socket.confirm(names)

    return Batch(requests=tuple(map(_request, envelopes)), done=done)


def _is_envelope(frame: dict[str, Any]) -> bool:
    return isinstance(frame.get("envelope_id"), str)


def _request(envelope: dict[str, Any]) -> Request:
    raw = json.dumps(envelope.get("payload"), separators=(",", ":")).encode()
    return Request(method="POST", path="/socket", headers={}, body=raw)


def _judging(allow_private: bool) -> Any:
    """Looks names up as usual, and gives no address that may not be called."""
    from aiohttp.resolver import ThreadedResolver

    class Judging(ThreadedResolver):
        """See `aiohttp.abc.AbstractResolver`."""

        async def resolve(self, *args: Any, **options: Any) -> list[Any]:
            """See `aiohttp.abc.AbstractResolver`."""
            found = await super().resolve(*args, **options)
            for one in found:
                if not may_connect(ip_address(one["host"]), allow_private=allow_private):
                    raise OSError("the name leads to an address that may not be called")
            return found

    return Judging()


def _staying() -> Any:
    """What follows no redirect: it might lead to an address that nobody has judged."""
    import aiohttp

    async def refused(*_: object) -> None:
        raise AddressRefused("a socket is opened where Slack says, and nowhere else.")

    made = aiohttp.TraceConfig()
    made.on_request_redirect.append(refused)
    return made


def _why(answer: ApiResponse, error: str) -> Exception:
    """Why no socket is to be had, as the listening's owner has to know it."""
    if error in REFUSED:
        return Unauthenticated(REFUSED[error])
    if answer.status == 429 or error == "ratelimited":
        return Unsent("Slack limits how often a socket may be opened.")
    if error in ("socket_mode_not_enabled", "link_disabled"):
        return ConfigError(DISABLED)
    word = error if error.isidentifier() else ""
    words = ": ".join(part for part in (f"HTTP {answer.status}", word[:80]) if part)
    return Unsent(f"Slack does not say where its socket is ({words}).")
