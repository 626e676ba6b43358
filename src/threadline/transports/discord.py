"""Discord's gateway: one session through hikari's shard, resumed where the last one ended.

hikari connects, unpacks, beats and identifies; its events are taken raw. A connection that ends
ends the listening, and the next one resumes from the cursor that was stored: what a restart does
and what a reconnect does is the same. A bot's identity and its file cache are not needed for that,
so no `GatewayBot` is made, which would touch signals and logging.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from typing import Any

from hikari import errors, intents
from hikari.api.shard import GatewayCompression
from hikari.impl.config import HTTPSettings, ProxySettings
from hikari.impl.shard import GatewayShardImpl

from threadline.core.adapters import Account
from threadline.core.errors import ConfigError, Unauthenticated
from threadline.core.outside import AddressRefused, may_connect, place
from threadline.core.values import decoded, ident, records
from threadline.core.wire import ApiCall, ApiResponse, Batch, Lost, Request, Unsent
from threadline.transports.http import HttpTransport

API = "https://discord.com/api/v10"
LEAVING_LOOKS = 40
LEAVING_SECONDS = 0.05
HANDSHAKE_SECONDS = 30.0
BATCH = 100
# More than this many events wait for the store: let go, and have the rest replayed later.
WAITING = 10_000
KNOWN_THREADS = 20_000
KNOWN_SIGNS = 20_000
THREADS = frozenset({10, 11, 12})
INTENTS = (
    intents.Intents.GUILDS
    | intents.Intents.GUILD_MESSAGES
    | intents.Intents.GUILD_MESSAGE_REACTIONS
    | intents.Intents.DM_MESSAGES
    | intents.Intents.DM_MESSAGE_REACTIONS
    | intents.Intents.MESSAGE_CONTENT
)
# What says our token: to identify, and to resume.
SECRET = frozenset({2, 6})
# A session that is closed with 1000 or 1001 is over; with any other code it can be resumed.
RESUMABLE = 3_000
HOPELESS = {
    4010: "Discord does not know this shard.",
    4011: "the bot is in so many servers that Discord asks for several shards, which is not done.",
    4012: "Discord no longer speaks this version of the gateway.",
    4013: "Discord does not know what was asked for (invalid intents).",
    4014: "the Message Content Intent is off: switch it on in the Developer Portal, under Bot.",
}


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a session stands: what a cursor holds."""

    session: str
    seq: int
    url: str

    @classmethod
    def of(cls, cursor: str | None) -> Spot | None:
        """The place a cursor names; None where there is none, or it is not one of ours."""
        match decoded((cursor or "").encode("utf-8", "replace")):
            case {"session": str(session), "seq": int(seq), "url": str(url)}:
                return cls(session, seq, url)
        return None

    @property
    def cursor(self) -> str:
        """As it is stored."""
        return json.dumps(asdict(self), separators=(",", ":"))


class Ears:
    """What the shard hands its events to, in the two roles it knows. They wait here in order."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[str, Mapping[str, Any], int]] = deque()
        self.rung = asyncio.Event()
        self.met = self.gone = False

    def consume_raw_event(self, name: str, shard: Shard, data: Mapping[str, Any]) -> None:
        """See `hikari.api.EventManager`."""
        self.waiting.append((name, data, shard.seq))
        self.rung.set()

    def deserialize_connected_event(self, _: object) -> bool:
        """See `hikari.api.EventFactory`."""
        return True

    def deserialize_disconnected_event(self, _: object) -> bool:
        """See `hikari.api.EventFactory`."""
        return False

    async def dispatch(self, connected: bool, *, return_tasks: bool) -> None:
        """See `hikari.api.EventManager`."""
        self.met, self.gone = self.met or connected, not connected
        self.rung.set()


class Gentle:
    """A connection as far as it is closed: whatever the shard says, the session can be resumed."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    async def send_close(self, *, code: int, message: bytes) -> None:
        """See `hikari.impl.shard`."""
        await self._socket.send_close(code=RESUMABLE, message=message)


class Shard(GatewayShardImpl):
    """hikari's shard, begun where an earlier session stands, and left so that it can be resumed.

    hikari means a shard to live as long as its program, and ends the session when it closes; so
    what it keeps for its own reconnects is set and left here. It also follows redirects and any
    name, so where it came to is looked at before our token is said, and it connects only once: the
    next connection is the next listening's, which judges the address anew.
    """

    __slots__ = ("_allow_private", "_ears")

    def __init__(self, ears: Ears, *, allow_private: bool, **options: Any) -> None:
        untyped: Any = ears
        super().__init__(event_manager=untyped, event_factory=untyped, **options)
        self._ears, self._allow_private = ears, allow_private

    async def _connect(self) -> tuple[asyncio.Task[None], ...]:
        if self._ears.met:
            raise asyncio.CancelledError  # which is how hikari is told to end
        return await super()._connect()

    async def _send_json(self, data: Any, *, priority: bool = False) -> None:
        socket: Any = self._ws
        if data.get("op") in SECRET and not _is_there(socket, self._allow_private):
            raise errors.GatewayError("the gateway is not where it was asked for")
        await super()._send_json(data, priority=priority)

    @property
    def seq(self) -> int:
        """The number of the last event."""
        return self._seq or 0

    def begin(self, spot: Spot | None, ears: Ears) -> asyncio.Task[None]:
        """Connect, and stay connected until this task ends or is left."""
        if spot is not None:
            self._session_id, self._seq = spot.session, spot.seq
            self._resume_gateway_url = spot.url
        self._handshake_event = asyncio.Event()
        self._keep_alive_task = asyncio.create_task(self._keep_alive())
        self._keep_alive_task.add_done_callback(lambda _: ears.rung.set())
        return self._keep_alive_task

    async def leave(self, *, connecting: bool) -> None:
        """Hang up, and let the session wait for us.

        hikari leaves a connection open that is given up while it is being made, so the first one,
        while it is `connecting`, is awaited for a moment.
        """
        task = self._keep_alive_task
        for _ in range(LEAVING_LOOKS if connecting else 0):
            if self._ws is not None or task is None or task.done():
                break
            await asyncio.sleep(LEAVING_SECONDS)
        if self._ws is not None:
            gentle: Any = Gentle(self._ws)
            self._ws = gentle
        with suppress(Exception):  # what it ended with was looked at before
            await self.close()


class Threads:
    """Where threads hang, as far as it was told lately: the messages in them do not say it."""

    def __init__(self) -> None:
        self._parents: OrderedDict[str, str | None] = OrderedDict()

    def learn(self, name: str, data: Mapping[str, Any]) -> None:
        """Take what an event says about threads."""
        if name in ("THREAD_CREATE", "THREAD_UPDATE"):
            self._put(data)
        elif name in ("GUILD_CREATE", "THREAD_LIST_SYNC"):
            for one in records(data.get("threads")):
                self._put(one)

    def asked(self, thread: str, channel: object) -> None:
        """Take what a channel that was asked for says; nothing is an answer too."""
        found = channel if isinstance(channel, dict) else {}
        self._keep(thread, ident(found.get("parent_id")))

    def parent(self, thread: str) -> tuple[bool, str | None]:
        """Whether anything is known of a thread, and its parent."""
        return thread in self._parents, self._parents.get(thread)

    def _put(self, channel: Mapping[str, Any]) -> None:
        thread, parent = ident(channel.get("id")), ident(channel.get("parent_id"))
        if thread is not None and parent is not None:
            self._keep(thread, parent)

    def _keep(self, thread: str, parent: str | None) -> None:
        self._parents[thread] = parent
        self._parents.move_to_end(thread)
        while len(self._parents) > KNOWN_THREADS:
            self._parents.popitem(last=False)


class Signs:
    """What was done last with a sign on a message, as far as it was told lately.

    A sign that is put on again was taken off in between; one that comes twice in a row is the same
    event delivered twice.
    """

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[str, ...], tuple[str, str]] = OrderedDict()

    def at(self, name: str, data: Mapping[str, Any], at: str) -> str:
        """The place of this event in its session, or of the one it repeats."""
        key = tuple(str(data.get(part)) for part in ("message_id", "user_id", "emoji"))
        last = self._last.get(key)
        if last is None or last[0] != name:
            last = self._last[key] = (name, at)
        self._last.move_to_end(key)
        while len(self._last) > KNOWN_SIGNS:
            self._last.popitem(last=False)
        return last[1]


class DiscordTransport(HttpTransport):
    """Calls over HTTPS, and the gateway as `core.adapters.Listener`."""

    async def listen(self, account: Account, cursor: str | None) -> AsyncGenerator[Batch, None]:
        """One connection to the gateway. It ends where Discord ends it, which is no trouble.

        The cursor names the session; one that Discord does not resume is a gap everywhere. Raises
        `Unauthenticated` for a token that is not taken, `ConfigError` for a missing intent, and
        `Unsent` or `Lost` where the gateway cannot be reached.
        """
        spot = Spot.of(cursor)
        if spot is not None and not self._may_call(spot.url):
            spot = None
        ears, threads, signs = Ears(), Threads(), Signs()
        shard = await self._shard(account, ears)
        task = shard.begin(spot, ears)
        deadline = asyncio.get_running_loop().time() + HANDSHAKE_SECONDS
        try:
            while True:
                if ears.waiting:
                    batch, spot = await self._batch(account, ears, threads, signs, spot, cursor)
                    yield batch
                elif task.done() or ears.gone:
                    break
                else:
                    ears.rung.clear()
                    async with asyncio.timeout_at(None if ears.met else deadline):
                        await ears.rung.wait()
            if task.done() and (error := task.exception()) is not None:
                raise _why(error)
        except TimeoutError:
            raise Lost("Discord's gateway did not answer the handshake.") from None
        finally:
            await shard.leave(connecting=not ears.met)

    async def _batch(
        self,
        account: Account,
        ears: Ears,
        threads: Threads,
        signs: Signs,
        spot: Spot | None,
        cursor: str | None,
    ) -> tuple[Batch, Spot | None]:
        """What waits, up to a bound; a new session begins a batch of its own."""
        if len(ears.waiting) > WAITING:
            raise Lost("more was said than could be recorded; the rest will be replayed.")
        requests: list[Request] = []
        gap = False
        while ears.waiting and len(requests) < BATCH:
            name, data, seq = ears.waiting[0]
            if name == "READY":
                if requests:
                    break
                gap = cursor is not None or spot is not None
                spot = Spot(str(data["session_id"]), seq, str(data["resume_gateway_url"]))
            ears.waiting.popleft()
            if spot is not None:
                spot = Spot(spot.session, seq, spot.url)
            at = "" if spot is None else f"{spot.session}.{seq}"
            if name.startswith("MESSAGE_REACTION_"):
                at = signs.at(name, data, at)
            requests.append(await self._request(account, threads, name, data, at))
        cursor = None if spot is None else spot.cursor
        return Batch(requests=tuple(requests), cursor=cursor, gap=gap), spot

    async def _request(
        self, account: Account, threads: Threads, name: str, data: Mapping[str, Any], at: str
    ) -> Request:
        body: dict[str, Any] = {"t": name, "d": data, "at": at}
        threads.learn(name, data)
        channel = ident(data.get("channel_id")) if name.startswith("MESSAGE_") else None
        if channel is not None:
            known, parent = threads.parent(channel)
            if not known and data.get("channel_type") in THREADS:
                threads.asked(channel, await self._channel(account, channel))
                _, parent = threads.parent(channel)
            if parent is not None:
                body["parent_id"] = parent
        raw = json.dumps(body, separators=(",", ":")).encode()
        return Request(method="POST", path="/gateway", headers={}, body=raw)

    async def _channel(self, account: Account, channel: str) -> object:
        """A channel as Discord describes it; None where it does not."""
        try:
            answer = await self._ask(account, f"/channels/{channel}")
        except (Unsent, Lost):
            return None
        return decoded(answer.body) if answer.status == 200 else None

    async def _shard(self, account: Account, ears: Ears) -> Shard:
        """A shard for the gateway Discord names, which also says whether it would take us."""
        answer = await self._ask(account, "/gateway/bot")
        if answer.status == 401:
            raise Unauthenticated("Discord does not take the bot's token: connect again.")
        url = ""
        match decoded(answer.body):
            case {"url": str(url), "session_start_limit": {"remaining": int(left), **limit}}:
                if left < 1:
                    wait = limit.get("reset_after")
                    raise Unsent(f"no session may be started today; it is reset in {wait} ms.")
            case {"url": str(url)}:
                pass
        if answer.status != 200 or not url:
            raise Unsent(f"Discord does not say where its gateway is (HTTP {answer.status}).")
        self._judged(url)
        return Shard(
            ears,
            allow_private=self._allow_private,
            token=account.credentials.get("token", ""),
            url=url,
            intents=INTENTS,
            compression=GatewayCompression.TRANSPORT_ZLIB_STREAM,
            http_settings=HTTPSettings(),
            proxy_settings=ProxySettings(),
        )

    def _judged(self, url: str) -> None:
        """Raises `Unsent` for a socket's address that may not be called."""
        try:
            place(url.replace("ws", "http", 1), allow_private=self._allow_private)
        except AddressRefused as error:
            raise Unsent(f"the gateway may not be called: {error.detail}") from None

    def _may_call(self, url: str) -> bool:
        try:
            self._judged(url)
        except Unsent:
            return False
        return True

    async def _ask(self, account: Account, path: str) -> ApiResponse:
        api = str(account.settings.get("api") or API).rstrip("/")
        headers = {"authorization": f"Bot {account.credentials.get('token', '')}"}
        return await self.perform(ApiCall(method="GET", url=api + path, headers=headers))


def _is_there(socket: Any, allow_private: bool) -> bool:
    """Whether a connection came to where it was asked for, at an address that may be called."""
    opened = socket._ws
    peer = opened.get_extra_info("peername")
    if not peer or opened._response.history:
        return False
    return may_connect(ip_address(peer[0].partition("%")[0]), allow_private=allow_private)


def _why(error: BaseException) -> Exception:
    """Why the gateway is closed, as the listening's owner has to know it."""
    if not isinstance(error, errors.GatewayServerClosedConnectionError):
        return Lost(f"Discord's gateway broke off ({type(error).__name__}).")
    code = int(error.code or 0)
    if code == 4004:
        return Unauthenticated("Discord does not take the bot's token: connect again.")
    if code in HOPELESS:
        return ConfigError(HOPELESS[code])
    return Lost(f"Discord's gateway closed with {code}.")
