"""WhatsApp through Meta's Cloud API: signed webhooks in, one call a message out.

There is no history to ask for and no key that makes a send safe to repeat. What makes an unsure
send sure is the status webhook: it brings our key back as `biz_opaque_callback_data`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlsplit

from threadline.adapters.answers import by_status
from threadline.adapters.whatsapp_answers import refusal, sent
from threadline.adapters.whatsapp_events import heard
from threadline.adapters.whatsapp_places import Places, recipient
from threadline.adapters.whatsapp_text import whatsapp_text
from threadline.adapters.whatsapp_words import word
from threadline.core.adapters import Account, Ask, Capabilities, Identity
from threadline.core.deliveries import Failure
from threadline.core.files import is_ours
from threadline.core.model import Actor, Attachment, ConversationRef
from threadline.core.values import json_object
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

API = "https://graph.facebook.com/v26.0"
MAX_TEXT = 4_096
MAX_CAPTION = 1_024
MAX_FILE = 100 * 1024 * 1024
SETTLE = timedelta(minutes=3)
# After a person's last message only templates are taken.
WINDOW = timedelta(hours=24)
# Where Meta keeps files; our token goes nowhere else.
FILE_HOSTS = (".fbsbx.com", ".fbcdn.net", ".facebook.com", ".whatsapp.net")


class WhatsApp:
    """One number of a WhatsApp business; its account id is Meta's `phone_number_id`."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._api = str(account.settings.get("api") or API).rstrip("/")
        self._places = Places(account.scope_id, account.account_id)

    @property
    def capabilities(self) -> Capabilities:
        """What the platform can do, and who we are on it."""
        return Capabilities(
            max_length=MAX_TEXT,
            attachments=True,
            uploads=True,
            links=True,
            max_files=1,
            max_file=MAX_FILE,
            max_caption=MAX_CAPTION,
            edits=False,
            settle_within=SETTLE,
            window=WINDOW,
            actor=self._account.actor,
        )

    def verify(self, request: Request) -> bool:
        """The handshake by the words both sides know, anything else by its signature."""
        if request.method == "GET":
            given = request.query.get("hub.verify_token", "")
            known = self._secret("verify_token")
            return request.query.get("hub.mode") == "subscribe" and _same(given, known)
        known = self._secret("app_secret")
        scheme, _, given = request.headers.get("x-hub-signature-256", "").partition("=")
        made = hmac.new(_bytes(known), request.body, hashlib.sha256).hexdigest()
        return bool(known) and scheme == "sha256" and _same(given, made)

    def handshake(self, request: Request) -> Reply | None:
        """Meta's question for an address is answered with its own words."""
        if request.method != "GET":
            return None
        return Reply(body=_bytes(request.query.get("hub.challenge", "")))

    def parse(self, request: Request) -> Heard:
        """Messages, edits, reactions, receipts and moves of this number."""
        if request.method == "GET":
            return Heard()
        return heard(request.body, self._places, self._myself())

    def direct(self, address: str) -> ConversationRef:
        """The conversation with whoever has this phone or user id. Raises
        `InvalidConversation`."""
        return self._places.direct(address)

    def render(self, message: OutboundMessage) -> ApiCall:
        """The call that says it: as a template where its metadata names one, as a file with words
        below it, else as text. A file of ours is brought to Meta first."""
        if any(is_ours(one) for one in message.attachments):
            return self._upload(message, message.attachments[0])
        body = {
            "messaging_product": "whatsapp",
            **recipient(message.conversation),
            **_content(message),
            "biz_opaque_callback_data": message.key,
        }
        if message.reply_to:
            body["context"] = {"message_id": message.reply_to}
        place = f"{quote(self._account.account_id)}/messages"
        return replace(self._call("POST", place, body, message.key), message=message)

    def read(self, call: ApiCall, answer: ApiResponse) -> ApiCall | Sent | Refused | Doubt:
        """Proof, a refusal by Meta's code, or doubt, which a status settles."""
        if call.unseen and call.message is not None:
            return self._uploaded(call.message, answer)
        to = call.message.conversation.conversation_id if call.message is not None else ""
        return sent(answer, self._places, to)

    def _upload(self, message: OutboundMessage, file: Attachment) -> ApiCall:
        call = self._call("POST", f"{quote(self._account.account_id)}/media")
        return replace(
            call,
            key=message.key,
            message=message,
            unseen=True,
            form=(
                Part(name="messaging_product", value="whatsapp"),
                Part(name="type", value=file.type),
                Part(name="file", file=file),
            ),
        )

    def _uploaded(self, message: OutboundMessage, answer: ApiResponse) -> ApiCall | Refused | Doubt:
        """The message with it, once Meta has it. Nobody saw anything before."""
        said = json_object(answer.body)
        refused = refusal(said, answer)
        if refused is not None:
            return refused
        media = word(said.get("id"))
        if not media:
            return Doubt(reason="Meta took the file and named no id for it.")
        [file] = message.attachments
        call = self.render(replace(message, attachments=(replace(file, id=media),)))
        return replace(call, message=message)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The Graph API, and where Meta keeps files."""
        return (self._api, *(f"https://*{one}" for one in FILE_HOSTS))

    def file(self, attachment: Attachment) -> ApiCall:
        """The call that asks where the bytes of a file are; the address holds for minutes."""
        place = f"{quote(attachment.id, safe='')}?phone_number_id={quote(self._account.account_id)}"
        return self._call("GET", place)

    def read_file(
        self, attachment: Attachment, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | bytes | Refused | Doubt:
        """The address, and then the bytes."""
        if call.route == "file":
            return answer.body if answer.status == 200 else by_status(answer, careful=True)
        said = json_object(answer.body)
        refused = refusal(said, answer)
        if refused is not None:
            return refused
        url = word(said.get("url"))
        if not self._is_metas(url):
            return Refused(failure=Failure.PERMANENT, reason="the file is at a stranger's address")
        return replace(self._call("GET", ""), url=url, route="file", most=MAX_FILE)

    @classmethod
    def asks(cls) -> tuple[Ask, ...]:
        """What Meta's pages know."""
        return (
            Ask(
                name="phone_number_id",
                where="developers.facebook.com, your app, WhatsApp, API setup: Phone number ID.",
                secret=False,
            ),
            Ask(
                name="token",
                where="business.facebook.com, settings, system users: a token that does not "
                "expire, with whatsapp_business_messaging and whatsapp_business_management.",
            ),
            Ask(
                name="app_secret",
                where="developers.facebook.com, your app, App settings, Basic: App secret.",
            ),
            Ask(
                name="verify_token",
                where="Words of your choice; Meta sends them when it checks the webhook.",
                made=True,
            ),
            Ask(
                name="api",
                where="Where the Graph API is, with its version.",
                secret=False,
                default=API,
            ),
        )

    def check(self) -> ApiCall:
        """The call that asks which number this is."""
        number = quote(str(self._account.settings.get("phone_number_id", "")), safe="")
        return self._call("GET", f"{number}?fields=id,display_phone_number,verified_name")

    def read_check(
        self, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | Identity | Refused | Doubt:
        """The number, by Meta's id for it."""
        said = json_object(answer.body)
        refused = refusal(said, answer)
        if refused is not None:
            return refused
        number = word(said.get("id"))
        if number != self._account.settings.get("phone_number_id"):
            return Doubt(reason="the answer names another number than the one that was asked for.")
        shown = word(said.get("display_phone_number"))
        name = word(said.get("verified_name")) or shown
        return Identity(
            account_id=number,
            actor=Actor(number, name, is_bot=True, is_self=True),
            settings={"number": shown} if shown else {},
        )

    def webhook(self, url: str | None) -> ApiCall | None:
        """The call that sends this number's events to a place of its own."""
        configuration = {"override_callback_uri": url or ""}
        if url:
            configuration["verify_token"] = self._secret("verify_token")
        number = self._account.account_id or str(self._account.settings.get("phone_number_id"))
        return self._call("POST", quote(number, safe=""), {"webhook_configuration": configuration})

    def listens(self) -> bool:
        """Meta calls us."""
        return False

    def _call(
        self, method: str, place: str, body: Mapping[str, Any] | None = None, key: str = ""
    ) -> ApiCall:
        headers = {"authorization": f"Bearer {self._secret('token')}"}
        if body is not None:
            headers["content-type"] = "application/json"
        return ApiCall(
            method=method,
            url=f"{self._api}/{place}",
            headers=headers,
            body=b"" if body is None else _bytes(json.dumps(body, separators=(",", ":"))),
            route=place.partition("?")[0].rpartition("/")[2] if method == "POST" else "",
            key=key,
        )

    def _secret(self, name: str) -> str:
        return self._account.credentials.get(name, "")

    def _myself(self) -> Actor:
        known = self._account.actor
        number = self._account.account_id
        return known or Actor(number, is_bot=True, is_self=True)

    def _is_metas(self, url: str) -> bool:
        try:
            where, ours = urlsplit(url), urlsplit(self._api)
            return (where.scheme, where.netloc) == (ours.scheme, ours.netloc) or (
                where.scheme == "https" and (where.hostname or "").endswith(FILE_HOSTS)
            )
        except ValueError:
            return False


def _content(message: OutboundMessage) -> dict[str, Any]:
    template = message.metadata.get("template")
    if isinstance(template, Mapping) and message.part == 1:
        language = template.get("language", "en_US")
        chosen = {"code": language} if isinstance(language, str) else language
        return {"type": "template", "template": {**template, "language": chosen}}
    text = whatsapp_text(message.text)
    if len(message.attachments) == 1 and len(text) <= MAX_CAPTION:
        kind, media = _media(message.attachments[0], text)
        # A sound has no words below it: one with an address is a link, one of ours a document.
        if kind == "audio" and text and "id" in media:
            name = message.attachments[0].name or "audio"
            kind, media = "document", {**media, "caption": text, "filename": name}
        if kind != "audio" or not text:
            return {"type": kind, kind: media}
    links = [one.url for one in message.attachments if one.url]
    text = "\n".join(it for it in (text, *links) if it)
    return {"type": "text", "text": {"body": text, "preview_url": False}}


def _media(file: Attachment, text: str) -> tuple[str, dict[str, Any]]:
    """A file by its address, which Meta fetches, or by Meta's id for it, with words below."""
    family, _, form = file.type.partition("/")
    kind = family if family in ("video", "audio") else "document"
    if family == "image" and form in ("jpeg", "png"):
        kind = "image"
    body: dict[str, Any] = {"link": file.url} if file.url else {"id": file.id}
    if text and kind != "audio":
        body["caption"] = text
    if kind == "document" and file.name:
        body["filename"] = file.name
    return kind, body


def _same(given: str, known: str) -> bool:
    return bool(known) and hmac.compare_digest(_bytes(given), _bytes(known))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
