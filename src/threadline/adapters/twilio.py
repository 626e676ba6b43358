"""Twilio's Programmable Messaging, for WhatsApp and SMS addresses: signed forms in, forms out.

Twilio has no key that makes a send safe to repeat, and its list of messages shows nothing of ours
but the text, by which nothing is ever matched: so there is no look-up. Instead every message is
given a status callback with our key in its address, and that settles a send nobody was sure of.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from threadline.adapters.twilio_answers import refusal, sent
from threadline.adapters.twilio_events import WHATSAPP, Places, heard
from threadline.adapters.twilio_past import Page, file_at, taken, time_of
from threadline.adapters.twilio_signature import FORM, form, is_form, is_signed
from threadline.adapters.whatsapp_text import whatsapp_text
from threadline.core.adapters import Account, Ask, Capabilities, Identity, Past
from threadline.core.deliveries import Failure
from threadline.core.model import Actor, Attachment, ConversationRef
from threadline.core.values import json_object
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

API = "https://api.twilio.com"
VERSION = "2010-04-01"
PATH = "/v1/webhooks/"
MAX_TEXT = 1_600
MAX_FILES = 10
MAX_SENT = 5 * 1024 * 1024
MAX_FILE = 32 * 1024 * 1024
FILE_HOSTS = (
    "https://*.twilio.com",
    "https://*.twiliocdn.com",
    "https://s3-external-1.amazonaws.com",
)
PAGE = 200
SETTLE = timedelta(minutes=3)
# After a person's last message only templates are taken.
WINDOW = timedelta(hours=24)


class Twilio:
    """One address of a Twilio account; its account id is `AC…:address`."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._api = str(account.settings.get("api") or API).rstrip("/")
        sid = str(account.settings.get("account_sid", ""))
        address = str(account.settings.get("address", ""))
        self._places = Places(account.scope_id, account.account_id or f"{sid}:{address}")

    @property
    def capabilities(self) -> Capabilities:
        """What the platform can do, and who we are on it."""
        return Capabilities(
            max_length=MAX_TEXT,
            attachments=True,
            uploads=bool(self._base()),
            fetches=True,
            links=True,
            max_files=1 if self._places.address.startswith(WHATSAPP) else MAX_FILES,
            max_file=MAX_SENT,
            history=True,
            settle_within=SETTLE,
            window=WINDOW if self._places.address.startswith(WHATSAPP) else None,
            actor=self._account.actor,
        )

    def verify(self, request: Request) -> bool:
        """By the signature over the configured URL; without one nothing is believed."""
        known = self._account.credentials
        return request.method == "POST" and is_signed(
            request, self._public(), known.get("auth_token", ""), known.get("shared_key", "")
        )

    def handshake(self, request: Request) -> Reply | None:
        """TwiML that says nothing: what we say goes through the outbox."""
        return Reply(body=b"<Response/>", content_type="text/xml")

    def parse(self, request: Request) -> Heard:
        """A message to our address, or the status of one of ours."""
        if is_form(request):
            given: Any = dict(form(request.body) or ())
        else:
            given = json_object(request.body)
        words = {name: value for name, value in given.items() if isinstance(value, str)}
        return heard({**words, "key": request.query.get("key", "")}, self._places)

    def direct(self, address: str) -> ConversationRef:
        """The conversation with whoever has this phone. Raises `InvalidConversation`."""
        return self._places.direct(address)

    def render(self, message: OutboundMessage) -> ApiCall:
        """The call that says it: as a content template where its metadata names one, else as text
        with files."""
        given = [
            ("To", message.conversation.conversation_id),
            ("From", self._places.address),
            *self._content(message),
        ]
        public = self._public()
        if public:
            given.append(("StatusCallback", f"{public}?key={quote(message.key, safe='')}"))
        return self._call("POST", self._messages(".json"), given, message.key)

    def read(self, call: ApiCall, answer: ApiResponse) -> ApiCall | Sent | Refused | Doubt:
        """Proof, a refusal by Twilio's code, or doubt, which a status callback settles."""
        return sent(answer)

    def history(self, ref: ConversationRef, before: str | None = None) -> ApiCall:
        """The call for the newest page of one direction, or for when a message was sent."""
        lists = self._lists(ref, "")
        if before is None:
            return self._page(Page(method="GET", url="", side=0, next=lists))
        first = Page(method="GET", url="", side=-1, next=lists)
        return replace(
            first, url=self._url(self._messages(f"/{quote(before, safe='')}.json")), **self._open()
        )

    def read_history(
        self, ref: ConversationRef, call: ApiCall, answer: ApiResponse
    ) -> Past | Refused | Doubt:
        """What both directions have said down to where both were read."""
        refused = refusal(answer)
        if refused is not None:
            return refused
        if not isinstance(call, Page):
            return Doubt(reason="the answer belongs to no page of a history.")
        if call.side < 0:
            at = time_of(answer.body)
            if at is None:
                return Doubt(reason="Twilio does not say when that message was sent.")
            lists = self._lists(ref, at.strftime("%Y-%m-%dT%H:%M:%SZ"))
            return Past(older=self._page(Page(method="GET", url="", side=0, next=lists)))
        step = taken(call, answer.body, ref, self._places, self._myself())
        older = None
        if step.side >= 0:
            older = self._page(
                replace(call, side=step.side, next=step.next, seen=step.seen, waiting=step.waiting)
            )
        return Past(messages=step.ready, older=older)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The API, and where it sends on to."""
        return (self._api, *FILE_HOSTS)

    def file(self, attachment: Attachment) -> ApiCall:
        """The call for a file, or for the list it is in. Our credentials go to Twilio only."""
        if not attachment.url and "/" in attachment.id:
            sid = quote(attachment.id.partition("/")[0], safe="")
            return replace(
                self._call("GET", self._messages(f"/{sid}/Media.json")), route="file.list"
            )
        return self._download(attachment.url)

    def read_file(
        self, attachment: Attachment, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | bytes | Refused | Doubt:
        """The bytes, or the call for them once the list says where they are."""
        refused = refusal(answer)
        if refused is not None:
            return refused
        if call.route != "file.list":
            return answer.body
        position = attachment.id.partition("/")[2]
        place = file_at(answer.body, int(position) if position.isdecimal() else -1)
        if place is None:
            return Refused(failure=Failure.NOT_FOUND, reason="the file is not there any more")
        return self._download(self._url(place))

    @classmethod
    def asks(cls) -> tuple[Ask, ...]:
        """What Twilio's console knows."""
        console = "console.twilio.com"
        return (
            Ask(name="account_sid", where=f"{console}, account info: AC…", secret=False),
            Ask(name="auth_token", where=f"{console}, account info: Auth Token."),
            Ask(
                name="address",
                where=f"{console}, phone numbers or WhatsApp senders, as +1555… or whatsapp:+1555…",
                secret=False,
            ),
            Ask(
                name="public_url",
                where="How Twilio reaches this server, such as https://bot.example.org: it signs "
                "that address.",
                secret=False,
            ),
            Ask(
                name="shared_key",
                where=f"{console}, only where webhooks are signed with a key of their own.",
                optional=True,
            ),
            Ask(name="api", where="Where the API is.", secret=False, default=API),
        )

    def check(self) -> ApiCall:
        """The call that asks for the account."""
        return self._call("GET", f"/{VERSION}/Accounts/{self._sid()}.json")

    def read_check(
        self, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | Identity | Refused | Doubt:
        """The account, and for a phone number of ours the id under which its webhook is set."""
        refused = refusal(answer)
        if refused is not None:
            return refused
        said = json_object(answer.body)
        if call.route == "numbers":
            rows = said.get("incoming_phone_numbers")
            first = rows[0] if isinstance(rows, list) and rows else None
            found = first.get("sid") if isinstance(first, dict) else None
            return self._identity({"number_sid": found} if isinstance(found, str) else {})
        if said.get("sid") != self._places.account_sid:
            return Doubt(reason="the answer names another account than the one asked for.")
        if said.get("status", "active") != "active":
            return Refused(failure=Failure.AUTH, reason=f"the account is {said['status']!s:.40}")
        address = self._places.address
        if address.startswith(WHATSAPP):
            return self._identity({})
        asked = urlencode({"PhoneNumber": address})
        place = f"/{VERSION}/Accounts/{self._sid()}/IncomingPhoneNumbers.json?{asked}"
        return replace(self._call("GET", place), route="numbers")

    def webhook(self, url: str | None) -> ApiCall | None:
        """The call that sets a phone number's webhook; a WhatsApp sender's is set by hand."""
        number = self._account.settings.get("number_sid")
        if not number:
            return None
        place = f"/{VERSION}/Accounts/{self._sid()}/IncomingPhoneNumbers/{number}.json"
        return self._call("POST", place, [("SmsUrl", url or ""), ("SmsMethod", "POST")])

    def listens(self) -> bool:
        """Twilio calls us."""
        return False

    def _content(self, message: OutboundMessage) -> list[tuple[str, str]]:
        template = message.metadata.get("template")
        if isinstance(template, Mapping) and message.part == 1:
            found = [("ContentSid", str(template.get("content_sid", "")))]
            if template.get("content_variables"):
                found.append(("ContentVariables", json.dumps(template["content_variables"])))
            return found
        ours = self._places.address.startswith(WHATSAPP)
        text = whatsapp_text(message.text) if ours else message.text
        # A path is one of ours, which Twilio fetches where it calls us.
        base = self._base()
        urls = [one.url for one in message.attachments if one.url]
        files = [base + one if one.startswith("/") else one for one in urls]
        # WhatsApp takes one file a message; the others are links below the words.
        most = 1 if ours else MAX_FILES
        text = "\n".join(it for it in (text, *files[most:]) if it)
        body = [("Body", text)] if text else []
        return body + [("MediaUrl", one) for one in files[:most]]

    def _identity(self, settings: Mapping[str, Any]) -> Identity:
        address = self._places.address
        actor = Actor(address, address.removeprefix(WHATSAPP), is_bot=True, is_self=True)
        return Identity(account_id=self._places.account_id, actor=actor, settings=settings)

    def _myself(self) -> Actor:
        return self._account.actor or self._identity({}).actor

    def _public(self) -> str:
        """The address Twilio was told to call."""
        given = str(self._account.settings.get("public_url") or "").strip().rstrip("/")
        if not given or PATH in given:
            return given
        return f"{given}{PATH}twilio/{self._account.installation}"

    def _base(self) -> str:
        """Where Twilio finds this server; empty where it was not told."""
        given = str(self._account.settings.get("public_url") or "").strip()
        return given.partition(PATH)[0].rstrip("/")

    def _sid(self) -> str:
        return quote(self._places.account_sid, safe="")

    def _messages(self, rest: str) -> str:
        return f"/{VERSION}/Accounts/{self._sid()}/Messages{rest}"

    def _lists(self, ref: ConversationRef, before: str) -> tuple[str, str]:
        """Where the lists of both directions begin: what they said, what we said."""
        them, us = ref.conversation_id, self._places.address
        until = {"DateSent<": before} if before else {}
        found = [
            self._messages(".json?")
            + urlencode({"From": one, "To": other, **until, "PageSize": PAGE})
            for one, other in ((them, us), (us, them))
        ]
        return found[0], found[1]

    def _page(self, page: Page) -> Page:
        return replace(page, url=self._url(page.next[page.side]), **self._open())

    def _download(self, url: str) -> ApiCall:
        call = ApiCall(method="GET", url=url, route="file", most=MAX_FILE)
        return replace(call, **self._open()) if self._is_twilios(url) else call

    def _is_twilios(self, url: str) -> bool:
        try:
            where, ours = urlsplit(url), urlsplit(self._api)
            return (where.scheme, where.netloc) == (ours.scheme, ours.netloc) or (
                where.scheme == "https" and (where.hostname or "").endswith(".twilio.com")
            )
        except ValueError:
            return False

    def _url(self, place: str) -> str:
        """A path of the API; a page that names another host is not followed there."""
        return self._api + (place if place.startswith("/") else "/" + place)

    def _open(self) -> dict[str, Any]:
        pair = f"{self._places.account_sid}:{self._account.credentials.get('auth_token', '')}"
        opened = base64.b64encode(pair.encode("utf-8", "surrogatepass")).decode()
        return {"headers": {"authorization": f"Basic {opened}"}}

    def _call(
        self, method: str, place: str, given: list[tuple[str, str]] | None = None, key: str = ""
    ) -> ApiCall:
        headers = self._open()["headers"]
        body = b""
        if given is not None:
            headers["content-type"] = FORM
            body = urlencode(given, errors="replace").encode()
        route = "messages" if key else ""
        return ApiCall(
            method=method, url=self._url(place), body=body, headers=headers, route=route, key=key
        )
