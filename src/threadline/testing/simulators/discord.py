"""Discord, simulated: its REST API as bots use it, its gateway, its signed interactions.

Strict where Discord is: 2,000 code points, JSON, nonces of at most 25 characters, a bot's token in
every call. A nonce that is enforced gives the same message back for two minutes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import unquote

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from threadline.testing.simulators.discord_gateway import Gateway
from threadline.testing.simulators.discord_world import APPLICATION, BOT
from threadline.testing.simulators.wire import Answer, Call, Event, File, Push, says

MOST = 2_000
MOST_FILES = 10
NONCE_SECONDS = 120.0
NONCE = 25
SEED = bytes(range(1, 33))
VIA = "1.1 google"

Handler = Callable[..., Any]


class Refuses(Exception):
    """A call is refused with one of Discord's codes."""

    def __init__(self, status: int, code: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.said = {"message": message, "code": code, **more}


class Discord(Gateway):
    """The platform: what a bot may ask of it."""

    speaking: ClassVar[frozenset[str]] = frozenset({"POST message"})
    patience: ClassVar[float] = 3.0
    api: ClassVar[str] = "/api/v10"

    # --- the doors ---------------------------------------------------------------------------

    def credentials(self) -> dict[str, str]:
        """A bot's token, and the key interactions are signed with."""
        public = self._key().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return {"token": self.token, "public_key": public.hex()}

    def route(self, call: Call) -> tuple[str, str]:
        """As `POST message`; the place is the channel."""
        found = self._found(call)
        if found is None:
            return f"{call.method} {call.path}", ""
        name, _, parts = found
        return name, parts.get("channel", "")

    async def answer(self, call: Call) -> Answer:
        """Do what is asked, or refuse it in Discord's words."""
        self.ground.settings["origin"] = call.origin
        if call.path.startswith("/attachments/"):
            return self._download(call)
        found = self._found(call)
        if call.headers.get("authorization") != f"Bot {self.token}":
            return self._says({"message": "401: Unauthorized", "code": 0}, 401)
        if found is None:
            return self._says({"message": "404: Not Found", "code": 0}, 404)
        _, handler, parts = found
        try:
            said = handler(call, **parts)
        except Refuses as no:
            return self._says(no.said, no.status)
        except KeyError:
            return self._says({"message": "Unknown Channel", "code": 10003}, 404)
        except ValueError as error:
            return self._says({"message": f"Invalid Form Body: {error}", "code": 50035}, 400)
        return Answer(status=204, headers={"via": VIA}) if said is None else self._says(said)

    def _found(self, call: Call) -> tuple[str, Handler, dict[str, str]] | None:
        for name, method, pattern in ROUTES:
            match = re.fullmatch(r"/api/v\d+" + pattern, call.path)
            if match is not None and call.method == method:
                handler = getattr(self, "_" + name.lower().replace(" ", "_"))
                parts = {key: unquote(part) for key, part in match.groupdict().items()}
                return name, handler, parts
        return None

    def _says(self, body: Any, status: int = 200) -> Answer:
        given = says(body, status)
        limits = {"x-ratelimit-limit": "5", "x-ratelimit-remaining": "4"}
        limits |= {"x-ratelimit-reset-after": "0.01", "x-ratelimit-bucket": "sim", "via": VIA}
        # Their own SDKs read JSON only where the type is exactly this.
        limits |= {"content-type": "application/json"}
        return Answer(status=status, body=given.body, headers=limits)

    def rate_limited(self, call: Call, wait: float) -> Answer:
        """429 with a fraction in the body."""
        body = {"message": "You are being rate limited.", "retry_after": wait, "global": False}
        given = self._says(body, 429)
        more = {"retry-after": f"{wait:g}", "x-ratelimit-scope": "user"}
        return Answer(status=429, body=given.body, headers={**given.headers, **more})

    def broken(self, call: Call, status: int) -> Answer:
        """A page of what stands in front."""
        return Answer(status=status, body=b"<html>", headers={"content-type": "text/html"})

    # --- who and where -----------------------------------------------------------------------

    def _get_gateway_bot(self, call: Call) -> dict[str, Any]:
        left = self.ground.settings.get("left", 1000)
        limit = {"total": 1000, "remaining": left, "reset_after": 1000, "max_concurrency": 1}
        return self._get_gateway(call) | {"shards": 1, "session_start_limit": limit}

    def _get_gateway(self, call: Call) -> dict[str, Any]:
        return {"url": call.origin.replace("http", "ws", 1)}

    def _get_me(self, call: Call) -> Any:
        return self.people[BOT] | {"mfa_enabled": False, "verified": True, "flags": 0}

    def _get_application(self, call: Call) -> dict[str, Any]:
        return {
            "id": APPLICATION,
            "name": "Simulated",
            "icon": None,
            "description": "",
            "flags": self.flags,
            "verify_key": self.credentials()["public_key"],
            "bot_public": True,
            "bot_require_code_grant": False,
            "approximate_guild_count": 1,
            "approximate_user_install_count": 0,
            "owner": self.person("owner"),
            "team": None,
            "bot": self.people[BOT],
        }

    def _get_channel(self, call: Call, channel: str) -> dict[str, Any]:
        found = self.channel(channel)
        return {name: value for name, value in found.items() if not name.startswith("_")}

    def _post_direct(self, call: Call) -> dict[str, Any]:
        who = self.people.get(str(_body(call).get("recipient_id")))
        if who is None or who["id"] == BOT:
            raise Refuses(400, 50033, "Invalid Recipient(s)")
        found = self.direct(who)
        return {name: value for name, value in found.items() if not name.startswith("_")}

    # --- messages ----------------------------------------------------------------------------

    def _get_messages(self, call: Call, channel: str) -> list[Any]:
        self.channel(channel)
        asked = call.query
        if len(asked.keys() & {"before", "after", "around"}) > 1:
            raise ValueError("only one of before, after, around")
        limit = int(asked.get("limit", "50"))
        if not 1 <= limit <= 100:
            raise ValueError("limit is 1 to 100")
        found = self.spoken_in(channel)
        if "before" in asked:
            found = [one for one in found if int(one["id"]) < int(asked["before"])]
        if "after" in asked:
            found = [one for one in found if int(one["id"]) > int(asked["after"])][:limit]
        return found[::-1][:limit]

    def _get_message(self, call: Call, channel: str, message: str) -> Any:
        return self._known(channel, message)

    def _post_message(self, call: Call, channel: str) -> Any:
        where, said = self.channel(channel), _body(call)
        if code := where.get("_refuses"):
            raise Refuses(403, code, "Cannot send messages to this user")
        text, nonce = said.get("content") or "", said.get("nonce")
        if len(text) > MOST:
            raise ValueError(f"content: must be {MOST} or fewer in length")
        files = _files(call, said)
        if not text.strip() and not files:
            raise Refuses(400, 50006, "Cannot send an empty message")
        if nonce is not None and len(str(nonce)) > NONCE:
            raise ValueError(f"nonce: must be {NONCE} or fewer in length")
        if said.get("enforce_nonce") and (before := self._before(nonce)) is not None:
            return before
        reference = said.get("message_reference")
        more: dict[str, Any] = {"flags": int(said.get("flags", 0))}
        if reference is not None:
            more |= self._reference(channel, reference)
        if nonce is not None:
            more["nonce"] = nonce
        if files:
            more["attachments"] = [self.given(one, call.origin) for one in files]
        made = self.write(where, self.people[BOT], text.strip(), **more)
        pings = _pings(text, said.get("allowed_mentions"))
        self.ground.effect(
            "message",
            channel,
            id=made["id"],
            text=text.strip(),
            nonce=nonce,
            pings=pings,
            reply_to=more.get("message_reference", {}).get("message_id"),
            cards=not more["flags"] & 4,
            files=[[one.name, one.content_type, one.content.decode("latin-1")] for one in files],
        )
        if nonce is not None:
            self.ground.book("nonces")[str(nonce)] = [channel, made["id"], self.ground.now()]
        return made

    def _before(self, nonce: Any) -> Any:
        """The message that was said with this nonce within two minutes."""
        channel, message, at = self.ground.book("nonces").get(str(nonce), ("", "", 0.0))
        if (self.ground.now() - at) * self.ground.speed > NONCE_SECONDS:
            return None
        return self.messages.get(f"{channel}/{message}")

    def _reference(self, channel: str, given: Mapping[str, Any]) -> dict[str, Any]:
        root = self.messages.get(f"{channel}/{given.get('message_id')}")
        if root is None and given.get("fail_if_not_exists", True):
            raise ValueError("message_reference: Unknown message")
        if root is None:
            return {}
        pointed = {"type": 0, "channel_id": channel, "message_id": root["id"]}
        return {"type": 19, "message_reference": pointed, "referenced_message": root}

    def _patch_message(self, call: Call, channel: str, message: str) -> Any:
        mine = self._known(channel, message)
        if mine["author"]["id"] != BOT:
            raise Refuses(403, 50005, "Cannot edit a message authored by another user")
        text = _body(call)["content"]
        self.ground.effect("edit", channel, id=message, text=text)
        return self.do_edit(channel, message, text)

    def _delete_message(self, call: Call, channel: str, message: str) -> None:
        self._known(channel, message)
        self.ground.effect("delete", channel, id=message)
        self.do_delete(channel, [message])

    def _put_reaction(self, call: Call, channel: str, message: str, emoji: str) -> None:
        root = self._known(channel, message)
        self.ground.effect("reaction", channel, id=message, text=emoji)
        self.react(root, emoji, self.people[BOT], remove=False)

    def _post_thread_on(self, call: Call, channel: str, message: str) -> Any:
        root = self._known(channel, message)
        if "thread" in root:
            raise Refuses(400, 160004, "A thread has already been created for this message")
        return self._thread(call, channel, message)

    def _post_thread(self, call: Call, channel: str) -> Any:
        return self._thread(call, channel, "")

    def _thread(self, call: Call, channel: str, message: str) -> Any:
        name = _body(call).get("name") or ""
        if not 1 <= len(name) <= 100:
            raise ValueError("name: must be 1 to 100 in length")
        made = self.begin_thread(self.channel(channel), name, message, BOT)
        self.ground.effect("thread", channel, id=made["id"], text=name, root=message or None)
        return made

    def _known(self, channel: str, message: str) -> dict[str, Any]:
        self.channel(channel)
        found: dict[str, Any] | None = self.messages.get(f"{channel}/{message}")
        if found is None:
            raise Refuses(404, 10008, "Unknown Message")
        return found

    # --- files -------------------------------------------------------------------------------

    def _post_refresh(self, call: Call) -> dict[str, Any]:
        fresh = []
        for url in _body(call)["attachment_urls"]:
            number, name = url.partition("?")[0].rsplit("/", 2)[1:]
            link = self.link({"id": number, "filename": name}, call.origin)
            fresh.append({"original": url, "refreshed": link})
        return {"refreshed_urls": fresh}

    def _download(self, call: Call) -> Answer:
        """The bytes of a file are its name, unless the bot gave them. A link is good for a day."""
        until = int(call.query.get("ex", "0"), 16)
        if until < self.ground.now():
            return Answer(status=404, body=b"This content is no longer available.")
        number, name = call.path.rsplit("/", 2)[1:]
        given = self.ground.book("files").get(number)
        if given is not None:
            return Answer(body=given[1].encode("latin-1"), headers={"content-type": given[0]})
        return Answer(body=name.encode(), headers={"content-type": "text/plain"})

    # --- interactions ------------------------------------------------------------------------

    def do_interact(
        self, url: str, kind: int = 3, channel: str = "800", user: str = "ada", forged: bool = False
    ) -> dict[str, Any]:
        """Discord sends a signed interaction to the endpoint: 1 is its ping, 2 a command."""
        what = {
            "id": self.snowflake(),
            "application_id": APPLICATION,
            "type": kind,
            "token": "interaction",
            "version": 1,
            "channel_id": channel,
            "user": self.person(user),
            "_forged": forged,
        }
        self.ground.emit(f"interaction {what['id']}", what, url=url)
        return what

    def push(self, event: Event, url: str, secret: str) -> Push:
        """Signed with Ed25519 over the time and the raw body."""
        said = {name: value for name, value in event.what.items() if name != "_forged"}
        body = json.dumps(said).encode()
        stamp = str(int(self.ground.now()))
        signature = self._key().sign(stamp.encode() + body)
        if event.what.get("_forged"):
            signature = signature[::-1]
        headers = {
            "content-type": "application/json",
            "user-agent": "Discord-Interactions/1.0 (+https://discord.com)",
            "x-signature-timestamp": stamp,
            "x-signature-ed25519": signature.hex(),
        }
        return Push(url=url, body=body, headers=headers)

    def took(self, event: Event, body: bytes) -> None:
        """What an endpoint answered."""
        text = body.decode("utf-8", "replace")
        self.ground.effect("interaction", event.place, kind_asked=event.what["type"], text=text)

    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(SEED)


_CHANNEL = r"/channels/(?P<channel>[^/]+)"
_MESSAGE = _CHANNEL + r"/messages/(?P<message>[^/]+)"
# What trouble names a call by, and how it is asked; the handler is named after it.
ROUTES: tuple[tuple[str, str, str], ...] = (
    ("GET gateway bot", "GET", "/gateway/bot"),
    ("GET gateway", "GET", "/gateway"),
    ("GET me", "GET", "/users/@me"),
    ("GET application", "GET", "(?:/oauth2)?/applications/@me"),
    ("POST direct", "POST", "/users/@me/channels"),
    ("GET channel", "GET", _CHANNEL),
    ("GET messages", "GET", _CHANNEL + "/messages"),
    ("POST message", "POST", _CHANNEL + "/messages"),
    ("GET message", "GET", _MESSAGE),
    ("PATCH message", "PATCH", _MESSAGE),
    ("DELETE message", "DELETE", _MESSAGE),
    ("PUT reaction", "PUT", _MESSAGE + r"/reactions/(?P<emoji>[^/]+)/@me"),
    ("POST thread on", "POST", _MESSAGE + "/threads"),
    ("POST thread", "POST", _CHANNEL + "/threads"),
    ("POST refresh", "POST", "/attachments/refresh-urls"),
)


def _body(call: Call) -> dict[str, Any]:
    """The body as an object, alone or as one part of a form."""
    fields = call.fields()
    payload = fields.get("payload_json")
    if payload is None:
        return fields
    said = json.loads(payload if isinstance(payload, str) else payload.content)
    if not isinstance(said, dict):
        raise ValueError("payload_json is no object")
    return said


def _files(call: Call, said: Mapping[str, Any]) -> list[File]:
    """The files of a form, each named in the message as it is in the form."""
    fields = call.fields()
    given = {name: one for name, one in fields.items() if isinstance(one, File)}
    given.pop("payload_json", None)
    listed = said.get("attachments", [])
    names = [f"files[{one.get('id')}]" for one in listed]
    if sorted(names) != sorted(given) or len(given) > MOST_FILES:
        raise ValueError("attachments: they are not the files of the form")
    for one, name in zip(listed, names, strict=True):
        if one.get("filename") != given[name].name or not given[name].content:
            raise ValueError("attachments: a file has another name, or nothing in it")
    return [given[name] for name in names]


def _pings(text: str, allowed: Any) -> list[str]:
    """Whom a message would notify: everything it names, unless it says what it may."""
    found = {
        "everyone": [one for one in ("@everyone", "@here") if one in text],
        "roles": re.findall(r"<@&\d+>", text),
        "users": re.findall(r"<@!?\d+>", text),
    }
    kinds = list(found) if not isinstance(allowed, dict) else allowed.get("parse", [])
    return [one for kind in kinds for one in found[kind]]
