"""Telegram's dialect: the Bot API for one bot.

What is heard comes as updates, by webhook or by long poll in the same shape (`telegram_updates`).
Telegram shows a bot nothing of what it says itself and has no key for a send, so an answer that
never came is doubtful for good: nothing is looked up, nothing is repeated.
"""

from __future__ import annotations

import hmac
import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from threadline.adapters.telegram_content import Json, at, ident, line, part, person
from threadline.adapters.telegram_places import SUPERGROUPS, Place
from threadline.adapters.telegram_refusals import refused
from threadline.adapters.telegram_text import html
from threadline.adapters.telegram_updates import MALFORMED, Updates
from threadline.core.adapters import Account, Ask, Capabilities, Identity, Unit
from threadline.core.deliveries import Failure
from threadline.core.errors import InvalidConversation
from threadline.core.model import Attachment, ConversationRef, Kind
from threadline.core.telegram import API, MAX_BYTES, WANTED, address, whole
from threadline.core.telegram import call as call_of
from threadline.core.values import json_object
from threadline.core.wire import (
    ApiCall,
    ApiResponse,
    Doubt,
    Heard,
    OutboundMessage,
    Part,
    Refused,
    Request,
    Sent,
)

SECRET_HEADER = "x-telegram-bot-api-secret-token"
MAX_TEXT = 4_096
MAX_CAPTION = 1_024
MAX_UPLOAD = 50 * 1024 * 1024
MAX_PHOTO = 10 * 1024 * 1024
NO_PHOTO = re.compile("PHOTO_INVALID|PHOTO_SAVE|IMAGE_PROCESS|PHOTO_EXT", re.I)
USER = re.compile(r"[1-9]\d{0,18}")
PHOTOS = frozenset({"image/jpeg", "image/png"})
CONNECTIONS = 40
POLL, WEBHOOK = "poll", "webhook"
GONE = "Telegram has this file no longer, or never gave it to this bot."


class Telegram:
    """One bot."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._updates = Updates(account)
        self._secret = account.credentials.get("webhook_secret", "")
        self._mode = str(account.settings.get("mode") or POLL).strip().casefold()

    @property
    def capabilities(self) -> Capabilities:
        """Texts of 4,096 UTF-16 units; what is doubtful does not settle by itself."""
        return Capabilities(
            max_length=MAX_TEXT,
            unit=Unit.UTF16,
            attachments=True,
            uploads=True,
            max_files=1,
            max_file=MAX_UPLOAD,
            max_caption=MAX_CAPTION,
            settle_within=timedelta(0),
            actor=self._account.actor,
        )

    # --- what is heard ---------------------------------------------------------------------

    def verify(self, request: Request) -> bool:
        """Whether it repeats the secret that only Telegram was told."""
        given = request.headers.get(SECRET_HEADER, "").encode("utf-8", "replace")
        wanted = self._secret.encode("utf-8", "replace")
        return bool(wanted) and hmac.compare_digest(given, wanted)

    def parse(self, request: Request) -> Heard:
        """What one update says."""
        update = json_object(request.body)
        found = self._updates.read(update) if update else MALFORMED
        if isinstance(found, str):
            return Heard(skipped=(found,))
        return Heard(messages=tuple(found))

    def direct(self, address: str) -> ConversationRef:
        """The private chat with a user, whose id it has. Raises `InvalidConversation`."""
        if not USER.fullmatch(address):
            raise InvalidConversation(f"{address!r} is no user id of Telegram.")
        return Place(chat=address).ref(self._account, Kind.DM)

    # --- what is said ----------------------------------------------------------------------

    def render(self, message: OutboundMessage) -> ApiCall:
        """`sendMessage`, as HTML where the text holds markup; a file with the text below it.

        Raises `InvalidConversation`.
        """
        return self._said(message, html(message.text))

    def _said(self, message: OutboundMessage, marked: str | None, *, photo: bool = True) -> ApiCall:
        body: dict[str, Any] = Place.of(message.conversation).arguments()
        file = message.attachments[0] if message.attachments else None
        words = message.text if marked is None else marked
        if words or file is None:
            body["text" if file is None else "caption"] = words
        if marked is not None:
            body["parse_mode"] = "HTML"
        if file is None:
            body["link_preview_options"] = {"is_disabled": True}
        if message.reply_to is not None and whole(message.reply_to):
            body["reply_parameters"] = {
                "message_id": int(message.reply_to),
                "allow_sending_without_reply": True,
            }
        if file is not None:
            return self._with(file, body, message, photo and _is_photo(file))
        made = call_of(self._account, "sendMessage", body)
        return replace(made, key=message.key, message=message)

    def _with(self, file: Attachment, body: Json, message: OutboundMessage, photo: bool) -> ApiCall:
        method, name = ("sendPhoto", "photo") if photo else ("sendDocument", "document")
        fields = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in body.items()
        }
        return ApiCall(
            method="POST",
            url=address(self._account, method),
            route=method,
            key=message.key,
            message=message,
            form=(
                *(Part(name=key, value=value) for key, value in fields.items()),
                Part(name=name, file=file),
            ),
        )

    def read(self, call: ApiCall, answer: ApiResponse) -> ApiCall | Sent | Refused | Doubt:
        """Proof, a refusal, doubt; or the call again: as plain text, or to where a group went."""
        said, body = json_object(answer.body), json_object(call.body)
        body |= {one.name: one.value for one in call.form}
        if 200 <= answer.status < 300 and at(said, "ok") is True:
            message_id = ident(said, "result", "message_id")
            if not message_id:
                return Doubt(reason="Telegram took it and named no message.")
            if call.message is None:
                return Sent(message_id=message_id)
            ref = call.message.conversation
            return Sent(message_id=message_id, id_space=Place.of(ref).space, conversation=ref)
        refusal = refused(answer, said, is_group=str(at(body, "chat_id")).startswith("-"))
        if call.message is not None and isinstance(refusal, Refused) and answer.status == 400:
            if "parse_mode" in body and "can't parse entities" in refusal.reason.casefold():
                return self._said(call.message, None)
            if call.route == "sendPhoto" and NO_PHOTO.search(refusal.reason):
                # Telegram draws not every picture; as a document it takes each.
                marked = html(call.message.text) if "parse_mode" in body else None
                return self._said(call.message, marked, photo=False)
            if there := self._moved(call.message, said):
                return there
        return refusal

    def _moved(self, message: OutboundMessage, said: Json) -> ApiCall | None:
        """The same to the supergroup that a group became. That never moves once more."""
        to = ident(said, "parameters", "migrate_to_chat_id")
        place = Place.of(message.conversation)
        if not to or int(to) > SUPERGROUPS or int(place.chat) <= SUPERGROUPS:
            return None
        # What it answers keeps its number in the group that was; in the supergroup that is another.
        ref = Place(to).ref(self._account, message.conversation.kind)
        return self.render(replace(message, conversation=ref, reply_to=None))

    def id_space(self, ref: ConversationRef) -> str:
        """Messages are numbered per chat."""
        try:
            return Place.of(ref).space
        except InvalidConversation:
            return ""

    # --- files -----------------------------------------------------------------------------

    @property
    def hosts(self) -> tuple[str, ...]:
        """The Bot API itself."""
        return (str(self._account.settings.get("api") or API),)

    def file(self, attachment: Attachment) -> ApiCall:
        """The call that says where the file lies for the next hour."""
        return call_of(self._account, "getFile", {"file_id": attachment.id})

    def read_file(
        self, attachment: Attachment, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | bytes | Refused | Doubt:
        """Its place, then its bytes: at most 20 MB, which is Telegram's own bound for bots."""
        if call.route == "file":
            if answer.status == 200:
                return answer.body
            if answer.status == 404:
                return Refused(failure=Failure.NOT_FOUND, reason=GONE)
            return refused(answer, json_object(answer.body))
        said = json_object(answer.body)
        path = line(said, "result", "file_path")
        if answer.status != 200 or not path:
            refusal = refused(answer, said)
            if isinstance(refusal, Refused) and refusal.failure is Failure.PERMANENT:
                return replace(refusal, failure=Failure.NOT_FOUND, reason=GONE)
            return refusal
        if ".." in path.split("/"):
            return Doubt(reason="Telegram named a place outside of its files.")
        url = address(self._account, quote(path.lstrip("/")), folder="/file")
        return ApiCall(method="GET", url=url, route="file", most=MAX_BYTES)

    # --- connecting ------------------------------------------------------------------------

    @classmethod
    def asks(cls) -> tuple[Ask, ...]:
        """The token; all else has a default."""
        return (
            Ask(name="token", where="Write /newbot to @BotFather; it answers with the token."),
            Ask(
                name="webhook_secret",
                where="1 to 256 letters, digits, _ and -; left out, it is made up.",
                made=True,
            ),
            Ask(
                name="mode",
                where="poll: we ask Telegram, no public address needed. webhook: Telegram calls.",
                secret=False,
                default=POLL,
            ),
            Ask(name="api", where="The address of the Bot API.", secret=False, default=API),
        )

    def check(self) -> ApiCall:
        """`getMe`; while a poll is being connected, after any webhook was taken away."""
        if self.listens() and not self._account.account_id:
            # Telegram refuses a poll as long as there is one, whoever set it.
            return self._gone()
        return call_of(self._account, "getMe", {})

    def read_check(
        self, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | Identity | Refused | Doubt:
        """The bot, and whether its privacy mode hides from it what is said in groups."""
        said = json_object(answer.body)
        if self._mode not in (POLL, WEBHOOK):
            reason = f"`mode` is {POLL} or {WEBHOOK}, not {self._mode!r}."
            return Refused(failure=Failure.UNSUPPORTED, reason=reason)
        if answer.status != 200 or at(said, "ok") is not True:
            return refused(answer, said)
        if call.route == "deleteWebhook":
            return call_of(self._account, "getMe", {})
        me = part(said, "result")
        actor = person(me, ident(me, "id"))
        if actor is None:
            return Doubt(reason="Telegram did not say who this bot is.")
        settings = {
            "username": line(me, "username"),
            "reads_all_in_groups": at(me, "can_read_all_group_messages") is True,
        }
        bot = replace(actor, name=line(me, "username") or actor.name, is_bot=True)
        return Identity(account_id=actor.id, actor=bot, settings=settings)

    def webhook(self, url: str | None) -> ApiCall | None:
        """`setWebhook`, or `deleteWebhook`; what waits at Telegram is never dropped."""
        if url is None:
            return self._gone()
        body = {
            "url": url,
            "secret_token": self._secret,
            "allowed_updates": list(WANTED),
            "max_connections": CONNECTIONS,
            "drop_pending_updates": False,
        }
        return call_of(self._account, "setWebhook", body)

    def _gone(self) -> ApiCall:
        return call_of(self._account, "deleteWebhook", {"drop_pending_updates": False})

    def listens(self) -> bool:
        """Unless `mode` is webhook."""
        return self._mode != WEBHOOK


def _is_photo(file: Attachment) -> bool:
    return file.type in PHOTOS and (file.size or 0) <= MAX_PHOTO
