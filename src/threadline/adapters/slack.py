"""Slack's dialect: events signed by the Events API or fetched by Socket Mode, and the Web API.

A place is a channel, and below it the threads that hang on its messages. The stamp of a message is
its id, unique in its channel only. Slack has no key that makes a send safe to repeat; every message
carries its delivery's key as metadata, one with files in the name of the first, by which it is
found again in the history.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from threadline.adapters.slack_answers import (
    NO_METADATA,
    UNREADABLE,
    error_of,
    failure_of,
    is_ok,
)
from threadline.adapters.slack_api import API, Api, turned
from threadline.adapters.slack_events import METADATA, Eye, hear, key_in
from threadline.adapters.slack_files import (
    MAX_FILES,
    MAX_UPLOAD,
    SHOW,
    Bringing,
    reserve,
    show,
    shown,
)
from threadline.adapters.slack_files import following as next_step
from threadline.adapters.slack_past import (
    Forward,
    following,
    past_of,
    question,
    room_page,
    thread_page,
    trouble_of,
)
from threadline.adapters.slack_text import mrkdwn
from threadline.core.adapters import Account, Ask, Capabilities, Identity, Past, Unit
from threadline.core.deliveries import Failure
from threadline.core.model import Actor, Attachment, ConversationRef, Kind
from threadline.core.slack import escaped, kind_of, stamp
from threadline.core.values import clean, decoded, ident, json_object, records, said, web
from threadline.core.wire import (
    ApiCall,
    ApiResponse,
    Doubt,
    Heard,
    OutboundMessage,
    Refused,
    Reply,
    Request,
    Sent,
)

MAX_LENGTH: Final = 4_000
SIGNED_WITHIN: Final = timedelta(minutes=5)
# How far Slack's clock and ours may be apart where a message is looked for since it was sent.
SKEW: Final = timedelta(minutes=5)
MAX_PAGE: Final = 32 * 1024 * 1024
SHORTEST_SECRET: Final = 16
HISTORIES: Final = ("channels:history", "groups:history", "im:history", "mpim:history")
YES: Final = frozenset({"yes", "true", "on", "1"})

_PERSON = re.compile(r"[UW][A-Z0-9]{1,40}")
_CHANNEL = re.compile(r"[CGD][A-Z0-9]{1,40}")


class Slack:
    """One app in one workspace of Slack."""

    opens_at_once: Final = 8

    def __init__(self, account: Account) -> None:
        self._account = account
        self._eye = Eye(account)
        self._api = Api(account)

    @property
    def capabilities(self) -> Capabilities:
        """4,000 characters a message; nothing makes a send safe to repeat."""
        return Capabilities(
            max_length=MAX_LENGTH,
            unit=Unit.CHARACTERS,
            attachments=True,
            uploads=True,
            max_files=MAX_FILES,
            max_file=MAX_UPLOAD,
            edits=True,
            history=True,
            child_conversations=True,
            opens_threads=True,
            realm=self._account.account_id.partition(":")[0],
            answers_in_thread=str(self._account.settings.get("answers_in_thread", "")).casefold()
            in YES,
            actor=self._account.actor,
        )

    # --- hearing ---------------------------------------------------------------------------------

    def verify(self, request: Request) -> bool:
        """Whether Slack signed this with the app's signing secret, at most 5 minutes ago."""
        secret = self._account.credentials.get("signing_secret", "")
        if not _is_secret(secret):
            return False
        given = request.headers.get("x-slack-request-timestamp", "")
        if not given.isascii() or not given.isdecimal() or len(given) > 11:
            return False
        at = datetime.fromtimestamp(int(given), UTC)
        if request.received_at is not None and abs(request.received_at - at) > SIGNED_WITHIN:
            return False
        signed = b"v0:%b:%b" % (given.encode(), request.body)
        made = "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        signature = request.headers.get("x-slack-signature", "")
        return hmac.compare_digest(made.encode(), signature.encode("utf-8", "surrogatepass"))

    def handshake(self, request: Request) -> Reply | None:
        """Slack sends a challenge to a new address, and wants it back."""
        match decoded(request.body):
            case {"type": "url_verification", "challenge": str(challenge)}:
                return Reply(body=challenge.encode("utf-8", "replace"))
        return None

    def parse(self, request: Request) -> Heard:
        """What this account hears in one event, however it came."""
        return hear(self._eye, request.body)

    # --- saying ----------------------------------------------------------------------------------

    def render(self, message: OutboundMessage) -> ApiCall:
        """The call that says one part: nobody is called, no link is unfolded. Files are brought to
        Slack first."""
        if message.attachments:
            return reserve(self._api, message)
        ref = message.conversation
        thread = {} if ref.parent_conversation_id is None else {"thread_ts": ref.conversation_id}
        body: dict[str, Any] = {
            "channel": ref.parent_conversation_id or ref.conversation_id,
            "text": mrkdwn(clean(message.text)),
            **thread,
            "unfurl_links": False,
            "unfurl_media": False,
            "metadata": {"event_type": METADATA, "event_payload": {"key": message.key}},
        }
        return self._say(body, message.key, message)

    def read(self, call: ApiCall, answer: ApiResponse) -> ApiCall | Sent | Refused | Doubt:
        """The stamp of the message is the proof. What Slack cannot read is said as it was written,
        and without metadata where the workspace takes none."""
        if isinstance(call, Bringing):
            step = next_step(self._api, call, answer)
            return self._show(call) if step is None else step
        if call.route == SHOW:
            return shown(call, answer)
        body, asked = json_object(answer.body), json_object(call.body)
        if is_ok(answer):
            ts, channel = stamp(body.get("ts")), ident(body.get("channel"))
            if ts is None:
                return failure_of(answer)
            if channel is None or channel == asked.get("channel"):
                return Sent(message_id=ts)
            return Sent(
                message_id=ts, conversation=self._place(channel, said(asked.get("thread_ts")))
            )
        error = error_of(answer) if answer.status < 500 else ""
        if error in NO_METADATA and asked.pop("metadata", None):
            return self._say(asked, call.key, call.message)
        if error in UNREADABLE and asked.get("mrkdwn") is not False:
            text = said(asked.get("text")) if call.message is None else clean(call.message.text)
            plain = {**asked, "text": escaped(text), "mrkdwn": False}
            return self._say(plain, call.key, call.message)
        return failure_of(answer)

    def _say(self, body: dict[str, Any], key: str, message: OutboundMessage | None) -> ApiCall:
        return replace(self._api.do("chat.postMessage", body, key=key), message=message)

    def _show(self, call: Bringing) -> ApiCall:
        """The call that shows the files, once Slack has them all. Nobody saw anything before."""
        message = call.message
        assert message is not None
        ref = message.conversation
        body = show(message, call.brought)
        body["channel_id"] = ref.parent_conversation_id or ref.conversation_id
        if ref.parent_conversation_id is not None:
            body["thread_ts"] = ref.conversation_id
        if words := mrkdwn(clean(message.text)):
            body["initial_comment"] = words
        return self._api.do(SHOW, body, key=message.key)

    def look_up(self, message: OutboundMessage) -> ApiCall:
        """The call for what was said since the first attempt, with its key."""
        method, asked = question(message.conversation)
        if message.called_at is not None:
            asked["oldest"] = f"{(message.called_at - SKEW).timestamp():.6f}"
        return self._api.ask(method, asked, key=message.key, most=MAX_PAGE)

    def found(self, call: ApiCall, answer: ApiResponse) -> ApiCall | Sent | Refused | Doubt:
        """The message of ours with this key, or the next page. Its absence proves nothing."""
        if (trouble := trouble_of(answer)) is not None:
            return trouble
        body = json_object(answer.body)
        for entry in records(body.get("messages")):
            ts, actor = stamp(entry.get("ts")), self._eye.actor(entry)
            is_mine = actor is not None and actor.is_self
            if ts is not None and is_mine and key_in(entry) == call.key:
                return Sent(message_id=ts)
        cursor = following(body)
        if cursor:
            return turned(call, cursor)
        return Doubt(reason="it is not in the history (yet).")

    # --- places ----------------------------------------------------------------------------------

    def open_child(
        self, parent: ConversationRef, root: str | None, title: str, key: str
    ) -> ApiCall:
        """The call that looks whether the message is there; its thread needs no opening."""
        asked = {"channel": parent.conversation_id, "ts": root or "", "limit": "1"}
        return self._api.ask("conversations.replies", asked, key=key, most=MAX_PAGE)

    def read_child(
        self, parent: ConversationRef, call: ApiCall, answer: ApiResponse
    ) -> ConversationRef | Refused | Doubt:
        """The thread. One without a message to hang on is not to be had."""
        if (trouble := trouble_of(answer)) is not None:
            return trouble
        entries = records(json_object(answer.body).get("messages"))
        root = stamp(entries[0].get("ts")) if entries else None
        if root is None or f"ts={root}&" not in call.url:
            reason = "a thread in Slack hangs on a message; name one that is not in a thread."
            return Refused(failure=Failure.UNSUPPORTED, reason=reason)
        return self._eye.places.thread(parent.conversation_id, root)

    def open_direct(self, address: str, key: str) -> ApiCall:
        """The call that opens the direct message with a user, by id or e-mail address; with
        several, by their ids between commas; or that asks for a channel, by its id."""
        given = ",".join(part.strip(" <@>") for part in address.split(","))
        if "@" in given:
            return self._api.ask("users.lookupByEmail", {"email": given}, key=key)
        if _CHANNEL.fullmatch(given):
            return self._api.ask("conversations.info", {"channel": given}, key=key)
        return self._api.do("conversations.open", {"users": given}, key=key)

    def read_direct(
        self, address: str, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | ConversationRef | Refused | Doubt:
        """The conversation: the same people have the same one."""
        if not is_ok(answer):
            return failure_of(answer)
        match json_object(answer.body):
            case {"user": {"id": str(user)}} if call.route == "users.lookupByEmail":
                if _PERSON.fullmatch(user):
                    return self._api.do("conversations.open", {"users": user}, key=call.key)
            case {"channel": {"id": str(channel)}} if ident(channel):
                several = "," in str(json_object(call.body).get("users", ""))
                return self._eye.places.room(channel, Kind.ROOM if several else kind_of(channel))
        return failure_of(answer)

    def _place(self, channel: str, root: str) -> ConversationRef:
        places = self._eye.places
        return places.thread(channel, root) if root else places.room(channel)

    # --- what was said before --------------------------------------------------------------------

    def history(self, ref: ConversationRef, before: str | None = None) -> ApiCall:
        """The call for the newest page, or for the one before a message."""
        method, asked = question(ref, before)
        return self._api.ask(method, asked, most=MAX_PAGE)

    def read_history(
        self, ref: ConversationRef, call: ApiCall, answer: ApiResponse
    ) -> Past | Refused | Doubt:
        """The page, oldest first. Of a thread, which Slack tells from its beginning, everything is
        on the last page asked for, and those before it are empty."""
        if (trouble := trouble_of(answer)) is not None:
            return trouble
        if ref.parent_conversation_id is None:
            past, before = room_page(self._eye, ref, answer)
            return past if before is None else replace(past, older=self.history(ref, before))
        messages, cursor = thread_page(self._eye, ref, call, answer)
        if not cursor:
            return past_of(messages)
        step = turned(call, cursor)
        more = Forward(
            method=step.method,
            url=step.url,
            headers=step.headers,
            route=step.route,
            most=step.most,
            read=messages,
        )
        return Past(older=more)

    # --- files -----------------------------------------------------------------------------------

    @property
    def hosts(self) -> tuple[str, ...]:
        """Slack, and the platform we were told."""
        return (self._api.base, "https://slack.com", "https://*.slack.com")

    def file(self, attachment: Attachment) -> ApiCall:
        """The call that brings the bytes, or that asks where they are. The token goes to Slack and
        nowhere else."""
        return self._api.file(attachment)

    def read_file(
        self, attachment: Attachment, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | bytes | Refused | Doubt:
        """The bytes. Who may not see a file is shown a page to log in."""
        if call.route == "files.info":
            match json_object(answer.body):
                case {"ok": True, "file": {"url_private": str(url)}} if web(url):
                    return self.file(replace(attachment, url=web(url)))
            return failure_of(answer)
        kind = answer.headers.get("content-type", "")
        is_page = kind.startswith("text/html") and not attachment.type.startswith("text/html")
        if 300 <= answer.status < 400 or (answer.status == 200 and is_page):
            reason = "Slack shows a page to log in: the app needs the scope files:read."
            return Refused(failure=Failure.AUTH, reason=reason)
        if answer.status == 200:
            return answer.body
        if answer.status in (404, 410):
            return Refused(failure=Failure.NOT_FOUND, reason="the file is not there any more.")
        return failure_of(answer)

    # --- connecting ------------------------------------------------------------------------------

    @classmethod
    def asks(cls) -> tuple[Ask, ...]:
        """The app's secrets, and one of the two ways in which its events come."""
        return (
            Ask(
                name="signing_secret",
                where="api.slack.com/apps → your app → Basic Information → Signing Secret. For "
                "events that Slack sends to this server; not needed with an app-level token.",
                optional=True,
            ),
            Ask(
                name="app_token",
                where="the same page → App-Level Tokens, with connections:write: xapp-… For Socket "
                "Mode, which needs no address that Slack could reach.",
                optional=True,
            ),
            Ask(
                name="bot_token",
                where="the same app → OAuth & Permissions → Bot User OAuth Token: xoxb-…",
            ),
            Ask(
                name="app_id",
                where="Basic Information → App ID. Only where several apps of one workspace are "
                "connected here.",
                secret=False,
                optional=True,
            ),
            Ask(
                name="answers_in_thread",
                where="yes: what is answered in a channel goes to a thread below it.",
                secret=False,
                default="no",
            ),
            Ask(name="api", where="another address of the API.", secret=False, default=API),
        )

    def check(self) -> ApiCall:
        """The call that says whose the token is."""
        return self._api.do("auth.test", {})

    def read_check(
        self, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | Identity | Refused | Doubt:
        """Who we are; whether the app is the one that was named, and whether its events come."""
        app, body = str(self._account.settings.get("app_id") or ""), json_object(answer.body)
        if call.route == "bots.info":
            match body:
                case {"ok": True, "bot": {"app_id": str(found)}} if found != app:
                    reason = f"the token is of the app {found}, not of {app}."
                    return Refused(failure=Failure.AUTH, reason=reason)
            return self._check_socket(call.key)
        if not is_ok(answer):
            return failure_of(answer)
        if call.route == "apps.connections.open":
            return self._identity(call.key)
        if not self._account.credentials.get("app_token") and not _is_secret(
            self._account.credentials.get("signing_secret", "")
        ):
            reason = "without a signing secret nobody could tell Slack's events from forged ones. "
            return Refused(
                failure=Failure.AUTH,
                reason=reason + "Give the signing secret, or an app-level token for Socket Mode.",
            )
        if lacking := _lacking(answer.headers.get("x-oauth-scopes")):
            reason = f"the app lacks {lacking}: add it under OAuth & Permissions, install it again."
            return Refused(failure=Failure.AUTH, reason=reason)
        if ident(body.get("team_id")) is None or ident(body.get("user_id")) is None:
            return failure_of(answer)
        known = json.dumps(
            {name: body.get(name) for name in ("team_id", "user_id", "user", "bot_id")}
        )
        bot = ident(body.get("bot_id"))
        if app and bot is not None:
            return self._api.ask("bots.info", {"bot": bot}, key=known)
        return self._check_socket(known)

    def _check_socket(self, known: str) -> ApiCall | Identity:
        """Whether Socket Mode is open to us, where that is how events come."""
        if not self._account.credentials.get("app_token"):
            return self._identity(known)
        return self._api.do("apps.connections.open", {}, key=known, token="app_token")

    def _identity(self, known: str) -> Identity:
        body = json_object(known.encode())
        team, user = ident(body.get("team_id")) or "", ident(body.get("user_id")) or ""
        app, bot = str(self._account.settings.get("app_id") or ""), ident(body.get("bot_id"))
        return Identity(
            account_id=f"{team}:{app}" if app else team,
            actor=Actor(user, said(body.get("user")) or user, is_bot=True, is_self=True),
            settings={} if bot is None else {"bot_id": bot},
        )

    def webhook(self, url: str | None) -> ApiCall | None:
        """None: the address of an app's events is set by hand."""
        return None

    def listens(self) -> bool:
        """With an app-level token its events are fetched by Socket Mode."""
        return bool(self._account.credentials.get("app_token"))


def _is_secret(secret: str) -> bool:
    """Whether it can be a signing secret, and not what stands in for one."""
    return len(secret.strip()) >= SHORTEST_SECRET and len(set(secret)) >= 4


def _lacking(given: str | None) -> str:
    """The scope without which an app is deaf or dumb; empty where none lacks or none is told."""
    if given is None:
        return ""
    scopes = {one.strip() for one in given.split(",")}
    if "chat:write" not in scopes:
        return "the scope chat:write"
    return "" if scopes & set(HISTORIES) else "every one of the scopes " + ", ".join(HISTORIES)
