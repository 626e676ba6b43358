"""The simulated gateway: identify, dispatch, heartbeat, resume, reconnect, invalid sessions.

Every session keeps a log of what was dispatched to it, so that a resume replays exactly what was
missed. A session that is closed with 1000 or 1001 by its client is over, as Discord has it.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any

from aiohttp import WSMsgType, web

from threadline.testing.simulators.discord_world import (
    APPLICATION,
    BOT,
    GUILD,
    THREADS,
    World,
    member,
    person,
)
from threadline.testing.simulators.ground import Ground
from threadline.testing.simulators.shelf import Book
from threadline.testing.simulators.wire import Answer, Call, says

BEAT_MILLIS = 41_250
SESSIONS = 4
# What a server says besides, here all at its least.
NOT_SET = (
    *("icon", "splash", "discovery_splash", "afk_channel_id", "application_id", "banner"),
    *("system_channel_id", "rules_channel_id", "public_updates_channel_id", "description"),
    *("vanity_url_code", "safety_alerts_channel_id", "widget_channel_id", "max_presences"),
)
EMPTY = (
    *("emojis", "stickers", "features", "voice_states", "presences", "stage_instances"),
    *("guild_scheduled_events", "soundboard_sounds"),
)
LEVELS = (
    *("verification_level", "default_message_notifications", "explicit_content_filter"),
    *("mfa_level", "premium_tier", "premium_subscription_count", "nsfw_level"),
    "system_channel_flags",
)
PERMISSIONS = str((1 << 50) - 1)
# Which intent an event needs, in a server and outside of one.
GUILDS, CONTENT = 1 << 0, 1 << 15
NEEDED = {"MESSAGE_REACTION": (1 << 10, 1 << 13), "MESSAGE": (1 << 9, 1 << 12)}


class Line:
    """One open connection: what is written on it, in order, packed or not."""

    def __init__(self, socket: web.WebSocketResponse, packed: bool) -> None:
        self._socket = socket
        self._packer = zlib.compressobj() if packed else None
        self._lock = asyncio.Lock()
        self.sent = 0
        self.session = ""

    async def send(
        self, op: int, data: Any = None, *, name: str | None = None, s: Any = None
    ) -> None:
        """One frame."""
        text = json.dumps({"op": op, "d": data, "s": s, "t": name})
        async with self._lock:
            if self._packer is None:
                await self._socket.send_str(text)
                return
            raw = self._packer.compress(text.encode()) + self._packer.flush(zlib.Z_SYNC_FLUSH)
            await self._socket.send_bytes(raw)


class Gateway(World):
    """The sockets of the platform."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self.lines: set[Line] = set()

    @property
    def token(self) -> str:
        """The bot's; it begins with its id, which their SDKs read out of it."""
        return str(self.ground.settings.get("token", "OTAw.sim.7Hq2x-bot"))

    @property
    def sessions(self) -> Book:
        """Those that can be resumed: the intents of each."""
        return self.ground.book("sessions")

    def log(self, session: str) -> Book:
        """What was dispatched to a session, by its number."""
        return self.ground.book(f"session.{session}")

    def welcome(self, call: Call) -> Answer | None:
        """Version 10 in JSON, packed as one stream or not at all."""
        asked = call.query
        fits = asked.get("v") == "10" and asked.get("encoding") == "json"
        if not fits or asked.get("compress", "zlib-stream") != "zlib-stream":
            return says({"message": "v=10&encoding=json, compress=zlib-stream or none"}, 400)
        return None

    async def talk(self, socket: web.WebSocketResponse, call: Call) -> None:
        """Hello, then whatever comes, while the pump brings what happens."""
        line = Line(socket, "compress" in call.query)
        interval = self.ground.settings.get("beat", BEAT_MILLIS)
        await line.send(10, {"heartbeat_interval": interval})
        session, pump = "", None
        self.lines.add(line)
        try:
            while True:
                came = await socket.receive()
                if came.type is WSMsgType.CLOSE and came.data in (1000, 1001):
                    self.sessions.pop(session, None)
                if came.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                    return
                frame = json.loads(came.data)
                match frame["op"]:
                    case 1 if not self.ground.settings.get("deaf"):
                        await line.send(11)
                    case 2 | 6 if pump is None:
                        session = await self._enter(line, socket, frame["op"], frame["d"], call)
                        line.session = session
                        if session:
                            pump = asyncio.create_task(self._pump(line, session))
                    case 3 | 4 | 8 if pump is None:
                        await socket.close(code=4003, message=b"Not authenticated.")
                self.ground.commit()
        finally:
            self.lines.discard(line)
            if pump is not None:
                pump.cancel()
                await asyncio.gather(pump, return_exceptions=True)

    async def _enter(
        self, line: Line, socket: web.WebSocketResponse, op: int, data: dict[str, Any], call: Call
    ) -> str:
        """The session of one who identifies or resumes; empty where nobody came in."""
        if data["token"] != self.token:
            await socket.close(code=4004, message=b"Authentication failed.")
            return ""
        if op == 6:
            session = str(data["session_id"])
            if session not in self.sessions:
                await line.send(9, False)
                return ""
            line.sent = int(data["seq"])
            while missed := self._missed(line, session):
                for number, event in missed:
                    await self._dispatch(line, number, event)
            self.log(session).add({"t": "RESUMED", "d": {}})
            return session
        intents = int(data["intents"])
        if intents & CONTENT and not self.ground.settings.get("content", True):
            await socket.close(code=4014, message=b"Disallowed intent(s).")
            return ""
        left = self.ground.settings.get("left", 1000)
        self.ground.settings["left"] = max(0, left - 1)
        self.ground.settings["opened"] = self.ground.settings.get("opened", 0) + 1
        # What happened before nobody was there for is not told.
        for event in self._waiting():
            self.ground.settle(event, "lost")
        session = f"session-{self.snowflake()}"
        self.sessions[session] = intents
        for older in list(self.sessions)[:-SESSIONS]:
            del self.sessions[older]
        address = call.origin.replace("http", "ws", 1)
        self.log(session).add({"t": "READY", "d": self._ready(session, address)})
        self.log(session).add({"t": "GUILD_CREATE", "d": self._guild()})
        return session

    def _missed(self, line: Line, session: str) -> list[tuple[int, Any]]:
        """What happened for a session and was not sent on this connection."""
        self._share()
        log = self.log(session).everything()
        return [(int(n), event) for n, event in log.items() if int(n) > line.sent]

    async def _dispatch(self, line: Line, number: int, event: dict[str, Any]) -> None:
        line.sent = number
        await line.send(0, event["d"], name=event["t"], s=number)

    async def _pump(self, line: Line, session: str) -> None:
        """Hand on what happens, as long as the connection and the session last."""
        while session in self.sessions:
            now, dues = self.ground.now(), [one.due for one in self._waiting()]
            patience = max(0.01, min([60.0, *(due - now for due in dues if due > now)]))
            fresh = await self.ground.until(lambda: self._missed(line, session), patience)
            for number, event in fresh or []:
                await self._dispatch(line, number, event)

    def _waiting(self) -> list[Any]:
        """What waits for the gateway; interactions go to a webhook."""
        return [one for one in self.ground.waiting() if not one.url]

    def _share(self) -> None:
        """Write what happened into the log of every session, once each."""
        now = self.ground.now()
        ripe = [one for one in self._waiting() if one.due <= now]
        for event in ripe:
            for session, intents in self.sessions.everything().items():
                seen = _seen(event.what, intents)
                if seen is not None:
                    self.log(session).add(seen)
            self.ground.settle(event)
        if ripe:
            self.ground.commit()

    # --- what is dispatched first ------------------------------------------------------------

    def _ready(self, session: str, address: str) -> dict[str, Any]:
        return {
            "v": 10,
            "user": self.people[BOT] | {"mfa_enabled": False, "verified": True, "flags": 0},
            "guilds": [{"id": GUILD, "unavailable": True}],
            "session_id": session,
            "session_type": "normal",
            "resume_gateway_url": address,
            "shard": [0, 1],
            "application": {"id": APPLICATION, "flags": self.flags},
        }

    @property
    def flags(self) -> int:
        """The application's: with the message content intent, or without."""
        return 1 << 19 if self.ground.settings.get("content", True) else 0

    def _guild(self) -> dict[str, Any]:
        channels = [one for one in self.channels.values() if "guild_id" in one]
        threads = [one for one in channels if one["type"] in THREADS]
        since = self.stamp()
        role = {"id": GUILD, "name": "@everyone", "color": 0, "hoist": False, "position": 0}
        role |= {"permissions": PERMISSIONS, "managed": False, "mentionable": False, "flags": 0}
        return {
            **dict.fromkeys(NOT_SET),
            **{name: [] for name in EMPTY},
            **dict.fromkeys(LEVELS, 0),
            "id": GUILD,
            "name": "The server",
            "owner_id": "100",
            "afk_timeout": 300,
            "preferred_locale": "en-US",
            "premium_progress_bar_enabled": False,
            "joined_at": since,
            "large": False,
            "unavailable": False,
            "member_count": len(self.people),
            "roles": [role],
            "members": [
                member(since) | {"user": self.people[BOT]},
                member(since) | {"user": person("100", "owner")},
            ],
            "channels": [one for one in channels if one["type"] not in THREADS],
            "threads": threads,
        }

    # --- orders ------------------------------------------------------------------------------

    async def do_attended(self, opened: int = 0) -> dict[str, int]:
        """Wait until somebody listens, and so many sessions were opened; how many there were.

        What happens before a session is open is not told.
        """

        def here() -> bool:
            count = int(self.ground.settings.get("opened", 0))
            return count >= opened and any(line.session for line in self.lines)

        await self.ground.until(here, 30)
        return {"opened": int(self.ground.settings.get("opened", 0))}

    async def do_reconnect(self) -> None:
        """Ask every connection to come again (opcode 7)."""
        await self._told(7)

    async def do_invalidate(self, resumable: bool = False) -> None:
        """End every session (opcode 9); a resumable one may come back."""
        if not resumable:
            self.sessions.clear()
        await self._told(9, resumable)

    async def _told(self, op: int, data: Any = None) -> None:
        for line in list(self.lines):
            await line.send(op, data)

    def do_beat(self, millis: int, deaf: bool = False) -> None:
        """How often a connection has to beat; a deaf gateway does not answer."""
        self.ground.settings["beat"] = millis
        self.ground.settings["deaf"] = deaf

    def do_content(self, allowed: bool) -> None:
        """Whether the message content intent is on."""
        self.ground.settings["content"] = allowed

    def do_left(self, sessions: int) -> None:
        """How many sessions may still be started today."""
        self.ground.settings["left"] = sessions


def _seen(event: dict[str, Any], intents: int) -> dict[str, Any] | None:
    """An event as a session with these intents sees it; None where it does not."""
    name, data = event["t"], event["d"]
    inside = "guild_id" in data
    for start, (in_guild, outside) in NEEDED.items():
        if name.startswith(start):
            if not intents & (in_guild if inside else outside):
                return None
            break
    else:
        return event if intents & GUILDS else None
    if "content" not in data or intents & CONTENT or not inside:
        return event
    named = BOT in [one["id"] for one in data["mentions"]] or data["author"]["id"] == BOT
    emptied = {"content": "", "embeds": [], "attachments": []}
    return event if named else event | {"d": data | emptied}
