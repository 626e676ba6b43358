"""Discord's dialect, API version 10: what is said over REST, what is heard from the gateway.

Ordinary messages come through the gateway only, which `transports.discord` listens to; the webhook
is for interactions (commands and buttons), which Discord signs with Ed25519. Every place is a
channel: a direct message, a room, a thread, a forum's post.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from threadline.adapters.discord_answers import (
    HAS_THREAD,
    NO_HISTORY,
    code_of,
    failure_of,
)
from threadline.adapters.discord_events import Eye, Spot, edit_of, hear, message_of
from threadline.adapters.discord_text import nonce
from threadline.core.adapters import Account, Ask, Capabilities, Identity, Past, Unit
from threadline.core.deliveries import Failure
from threadline.core.files import safe_name
from threadline.core.model import Attachment, ConversationRef, InboundMessage, Kind
from threadline.core.values import clean, decoded, ident, one_line, records, said
from threadline.core.wire import (
    ApiCall,
    ApiResponse,
    Doubt,
    Heard,
    OutboundMessage,
    Part,
    Refused,
    Reply,
    Request,
    Sent,
)

API: Final = "https://discord.com/api/v10"
USER_AGENT: Final = "DiscordBot (https://github.com/threadline, 1)"
MAX_LENGTH: Final = 2_000
IDEMPOTENT_FOR: Final = timedelta(minutes=2)
SUPPRESS_EMBEDS: Final = 1 << 2
PUBLIC_THREAD: Final = 11
PAGE: Final = 100
MAX_PAGE: Final = 4 * 1024 * 1024
MAX_FILE: Final = 25 * 1024 * 1024
MAX_FILES: Final = 10
MAX_UPLOAD: Final = 10 * 1024 * 1024
# Of 25 MiB for a request; the rest is for the words and for what parts the files.
MAX_REQUEST: Final = 25 * 1024 * 1024 - 64 * 1024
MAX_TITLE: Final = 100
ARCHIVED_AFTER: Final = 1_440
SIGNED_WITHIN: Final = timedelta(minutes=5)
# Whether the application may read what people write: granted, or switched on while it is small.
READS_CONTENT: Final = 1 << 18 | 1 << 19

# Where Discord keeps files; the links expire, and need no credentials.
_FILES = ("cdn.discordapp.com", "media.discordapp.net")
_ROOT = re.compile(r"/channels/\d+/messages/(\d+)/threads\Z")
# What an interaction is answered, by its type: a ping, a command, a button, a completion, a form.
_NOT_HERE = {
    "content": "Commands are not read here; please write a message.",
    "flags": 64,
    "allowed_mentions": {"parse": []},
}
_ANSWERS: Mapping[Any, Mapping[str, Any]] = {
    1: {"type": 1},
    2: {"type": 4, "data": _NOT_HERE},
    3: {"type": 6},
    4: {"type": 8, "data": {"choices": []}},
    5: {"type": 6},
}


class Discord:
    """One application in Discord."""

    opens_at_once: Final = 8

    def __init__(self, account: Account) -> None:
        self._account = account
        self._eye = Eye(account)
        self._api = str(account.settings.get("api") or API).rstrip("/")

    @property
    def capabilities(self) -> Capabilities:
        """2,000 characters a message; a nonce makes a send safe to repeat for two minutes."""
        return Capabilities(
            max_length=MAX_LENGTH,
            unit=Unit.CHARACTERS,
            attachments=True,
            uploads=True,
            max_files=MAX_FILES,
            max_file=MAX_UPLOAD,
            max_together=MAX_REQUEST,
            edits=True,
            history=True,
            child_conversations=True,
            own_threads=True,
            idempotent=True,
            idempotent_for=IDEMPOTENT_FOR,
            actor=self._account.actor,
        )

    # --- hearing ---------------------------------------------------------------------------------

    def verify(self, request: Request) -> bool:
        """Whether Discord signed this interaction with the application's key, at most 5 min ago."""
        stamp = request.headers.get("x-signature-timestamp", "")
        if not stamp.isascii() or not stamp.isdecimal() or len(stamp) > 11:
            return False
        at = datetime.fromtimestamp(int(stamp), UTC)
        if request.received_at is not None and abs(request.received_at - at) > SIGNED_WITHIN:
            return False
        try:
            key = bytes.fromhex(str(self._account.settings.get("public_key") or ""))
            if len(set(key)) < 4:
                return False  # a placeholder, and under some of those anything verifies
            signature = bytes.fromhex(request.headers.get("x-signature-ed25519", ""))
            Ed25519PublicKey.from_public_bytes(key).verify(signature, stamp.encode() + request.body)
        except (ValueError, InvalidSignature):
            return False
        return True

    def handshake(self, request: Request) -> Reply | None:
        """Every interaction wants an answer within three seconds; a ping is how Discord probes."""
        body = decoded(request.body)
        kind = body.get("type") if isinstance(body, dict) else None
        answer = _ANSWERS.get(kind) if type(kind) is int else None
        if answer is None:
            return None
        return Reply(body=_json(answer), content_type="application/json")

    def parse(self, request: Request) -> Heard:
        """What this account hears in a gateway event; interactions are known and not recorded."""
        body = decoded(request.body)
        if isinstance(body, dict) and "t" not in body and "application_id" in body:
            if ident(body["application_id"]) != self._account.account_id:
                return Heard(foreign=1)
            return Heard(skipped=(one_line(f"interaction {body.get('type')}", 64),))
        return hear(self._eye, body)

    # --- saying ----------------------------------------------------------------------------------

    def render(self, message: OutboundMessage) -> ApiCall:
        """The call that says one part: nobody is pinged, no link is unfolded."""
        body: dict[str, Any] = {
            "content": clean(message.text),
            "nonce": nonce(message.key),
            "enforce_nonce": True,
            "flags": SUPPRESS_EMBEDS,
            "allowed_mentions": {"parse": [], "replied_user": False},
        }
        if message.reply_to is not None and message.part == 1:
            body["message_reference"] = {
                "message_id": message.reply_to,
                "fail_if_not_exists": False,
            }
        if message.attachments:
            body["attachments"] = [
                {"id": number, "filename": safe_name(one.name, one.type)}
                for number, one in enumerate(message.attachments)
            ]
        channel = message.conversation.conversation_id
        call = self._call("POST", f"/channels/{_id(channel)}/messages", body, key=message.key)
        return _with(call, message.attachments)

    def read(self, call: ApiCall, answer: ApiResponse) -> ApiCall | Sent | Refused | Doubt:
        """The id of the message is the proof. Where a reply may not be one, it is a message."""
        if 200 <= answer.status < 300:
            return _sent(answer)
        if code_of(answer) == NO_HISTORY:
            body = decoded(call.form[0].value.encode() if call.form else call.body)
            if isinstance(body, dict) and body.pop("message_reference", None) is not None:
                files = [one.file for one in call.form if one.file is not None]
                return _with(self._again(call, body), files)
        return failure_of(answer)

    # --- places ----------------------------------------------------------------------------------

    def open_child(
        self, parent: ConversationRef, root: str | None, title: str, key: str
    ) -> ApiCall:
        """The call that starts a thread, on a message or by itself."""
        body: dict[str, Any] = {
            "name": " ".join(clean(title).split())[:MAX_TITLE] or "Thread",
            "auto_archive_duration": ARCHIVED_AFTER,
        }
        room = f"/channels/{_id(parent.conversation_id)}"
        if root is not None:
            return self._call("POST", f"{room}/messages/{_id(root)}/threads", body, key=key)
        return self._call("POST", f"{room}/threads", {**body, "type": PUBLIC_THREAD}, key=key)

    def read_child(
        self, parent: ConversationRef, call: ApiCall, answer: ApiResponse
    ) -> ConversationRef | Refused | Doubt:
        """The thread. One that hangs on a message has its id, so an older one is found as well."""
        root = _ROOT.search(call.url)
        if root is not None and code_of(answer) == HAS_THREAD:
            return self._eye.ref(root[1], Kind.THREAD)
        return self._channel(answer, Kind.THREAD)

    def open_direct(self, address: str, key: str) -> ApiCall:
        """The call that opens the direct message with a user, by the user's id."""
        return self._call("POST", "/users/@me/channels", {"recipient_id": address}, key=key)

    def read_direct(
        self, address: str, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | ConversationRef | Refused | Doubt:
        """The direct message: the same person has the same one."""
        return self._channel(answer, Kind.DM)

    def _channel(self, answer: ApiResponse, kind: Kind) -> ConversationRef | Refused | Doubt:
        if not 200 <= answer.status < 300:
            return failure_of(answer)
        body = decoded(answer.body)
        channel = ident(body.get("id")) if isinstance(body, dict) else None
        return failure_of(answer) if channel is None else self._eye.ref(channel, kind)

    # --- what was said before --------------------------------------------------------------------

    def history(self, ref: ConversationRef, before: str | None = None) -> ApiCall:
        """The call for the newest page, or for the one before a message."""
        query = f"?limit={PAGE}" + (f"&before={_id(before)}" if before else "")
        path = f"/channels/{_id(ref.conversation_id)}/messages"
        return self._call("GET", path + query, most=MAX_PAGE)

    def read_history(
        self, ref: ConversationRef, call: ApiCall, answer: ApiResponse
    ) -> Past | Refused | Doubt:
        """The page, oldest first, and the threads that hang on its messages.

        Without the permission to read the history Discord answers an empty list, not an error.
        """
        body = decoded(answer.body)
        if not 200 <= answer.status < 300 or not isinstance(body, list):
            return failure_of(answer)
        entries = records(body)
        spot = Spot(ref, self._room_of(entries))
        heard = [message_of(self._eye, entry, spot) for entry in reversed(entries)]
        messages = [one for one in heard if isinstance(one, InboundMessage)]
        names = {one.message_id for one in messages}
        edits = [edit_of(self._eye, one, spot) for one in reversed(entries)]
        oldest = ident(entries[-1].get("id")) if len(body) >= PAGE and entries else None
        threads = [ident(it.get("id")) for e in entries if isinstance(it := e.get("thread"), dict)]
        return Past(
            messages=tuple(messages),
            edits=tuple(
                one for one in edits if isinstance(one, InboundMessage) and one.revises in names
            ),
            older=None if oldest is None else self.history(ref, oldest),
            children=tuple(self._eye.ref(one, Kind.THREAD) for one in threads if one is not None),
        )

    def _room_of(self, entries: list[dict[str, Any]]) -> ConversationRef | None:
        """The room of a thread, which its first entry points back to."""
        for entry in entries:
            match entry:
                case {"type": 21, "message_reference": {"channel_id": str(room)}} if room:
                    return self._eye.ref(room, Kind.ROOM) if ident(room) else None
        return None

    # --- files -----------------------------------------------------------------------------------

    @property
    def hosts(self) -> tuple[str, ...]:
        """The API, and where Discord keeps files."""
        return (self._api, *(f"https://{one}" for one in _FILES))

    def file(self, attachment: Attachment) -> ApiCall:
        """The call that brings the bytes. The link holds its own right, so no credential goes."""
        most = MAX_FILE if attachment.size is None else max(attachment.size, 1)
        return ApiCall(
            method="GET", url=attachment.url, headers={"accept": "*/*"}, route="file", most=most
        )

    def read_file(
        self, attachment: Attachment, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | bytes | Refused | Doubt:
        """The bytes. A link that has expired is asked for anew, once."""
        if call.route == "file" and 200 <= answer.status < 300:
            return answer.body
        if call.route == "file" and answer.status in (403, 404):
            if call.url == attachment.url and self._is_link(attachment.url):
                body = {"attachment_urls": [attachment.url]}
                return self._call("POST", "/attachments/refresh-urls", body)
            return Refused(failure=Failure.NOT_FOUND, reason="the file is not there any more.")
        match decoded(answer.body):
            case {"refreshed_urls": [{"refreshed": str(fresh)}, *_]} if answer.status == 200:
                if fresh != attachment.url and self._is_link(fresh):
                    return self.file(replace(attachment, url=fresh))
                return Refused(failure=Failure.NOT_FOUND, reason="Discord gives no new link.")
        return failure_of(answer)

    def _is_link(self, url: str) -> bool:
        """Whether a link leads to where Discord keeps files, or to the platform we were told."""
        host = urlsplit(url).netloc
        return host in _FILES or host == urlsplit(self._api).netloc

    # --- connecting ------------------------------------------------------------------------------

    @classmethod
    def asks(cls) -> tuple[Ask, ...]:
        """The bot's token. The application's key is learned from Discord itself."""
        return (
            Ask(
                name="token",
                where="discord.com/developers/applications → your application → Bot → Reset Token. "
                "On the same page, switch on the Message Content Intent.",
            ),
            Ask(
                name="public_key",
                where="the same application → General Information → Public Key. Only for an "
                "interactions endpoint; left empty, Discord is asked for it.",
                secret=False,
                optional=True,
            ),
            Ask(name="api", where="another address of the API.", secret=False, default=API),
        )

    def check(self) -> ApiCall:
        """The call that says which application the token belongs to."""
        return self._call("GET", "/applications/@me")

    def read_check(
        self, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | Identity | Refused | Doubt:
        """Who we are. Without the message content intent people's words would come empty."""
        body = decoded(answer.body)
        if answer.status != 200 or not isinstance(body, dict):
            return failure_of(answer)
        if call.key:
            application_id, _, key = call.key.partition(" ")
            return self._identity(application_id, key, body, answer)
        flags, application_id = body.get("flags"), ident(body.get("id")) or ""
        if type(flags) is int and not flags & READS_CONTENT:
            return Refused(
                failure=Failure.PERMANENT,
                reason="the Message Content Intent is off, so what people write would come empty. "
                "Switch it on: your application → Bot → Privileged Gateway Intents.",
            )
        key = said(body.get("verify_key"))
        if isinstance(bot := body.get("bot"), dict) and ident(bot.get("id")):
            return self._identity(application_id, key, bot, answer)
        return self._call("GET", "/users/@me", key=f"{application_id} {key}")

    def _identity(
        self, application_id: str, key: str, bot: dict[str, Any], answer: ApiResponse
    ) -> Identity | Refused | Doubt:
        actor = self._eye.actor({**bot, "bot": True})
        if not application_id or actor is None:
            return failure_of(answer)
        known = self._account.settings.get("public_key") or not key
        return Identity(
            account_id=application_id,
            actor=replace(actor, is_self=True),
            settings={} if known else {"public_key": key},
        )

    def webhook(self, url: str | None) -> ApiCall | None:
        """None: messages do not come to a webhook, and interactions are for a person to set up."""
        return None

    def listens(self) -> bool:
        """Its gateway is listened to."""
        return True

    # --- calls -----------------------------------------------------------------------------------

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        key: str = "",
        most: int = 1_048_576,
    ) -> ApiCall:
        headers = {
            "authorization": f"Bot {self._account.credentials.get('token', '')}",
            "user-agent": USER_AGENT,
        }
        if body is not None:
            headers["content-type"] = "application/json"
        return ApiCall(
            method=method,
            url=self._api + path,
            body=b"" if body is None else _json(body),
            headers=headers,
            route=f"{method} {path.partition('?')[0]}",
            most=most,
            key=key,
        )

    def _again(self, call: ApiCall, body: Mapping[str, Any]) -> ApiCall:
        path = call.url.removeprefix(self._api)
        return self._call(call.method, path, body, key=call.key)


def _with(call: ApiCall, files: Sequence[Attachment]) -> ApiCall:
    """The call as a form with files, where there are any."""
    if not files:
        return call
    headers = {name: value for name, value in call.headers.items() if name != "content-type"}
    form = [Part(name="payload_json", value=call.body.decode())]
    form += [Part(name=f"files[{number}]", file=one) for number, one in enumerate(files)]
    return replace(call, body=b"", headers=headers, form=tuple(form))


def _id(part: str) -> str:
    """An id as one segment of a path, whatever stands in it."""
    return quote(part, safe="", errors="replace").replace(".", "%2E")


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _sent(answer: ApiResponse) -> Sent | Refused | Doubt:
    body = decoded(answer.body)
    message_id = ident(body.get("id")) if isinstance(body, dict) else None
    return failure_of(answer) if message_id is None else Sent(message_id=message_id)
