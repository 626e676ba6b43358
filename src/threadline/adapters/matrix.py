"""The dialect of Matrix: any homeserver's client API, one account as its user.

Events come through `/sync`, or are pushed by the homeserver where the account is an application
service (`PUT …/transactions/{txnId}` with its token). What is said goes out under the delivery's
key as the transaction id, so saying it again is the same event: that is what makes an unknown
outcome safe to repeat. Own events come back with that id.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final
from urllib.parse import unquote

from threadline.adapters.matrix_api import (
    CLIENT,
    MEDIA,
    OLD_MEDIA,
    Api,
    encoded,
    refusal,
)
from threadline.adapters.matrix_events import Places, hear, room_of
from threadline.adapters.matrix_history import history, read_history
from threadline.adapters.matrix_opening import is_person, list_direct, read_direct
from threadline.adapters.matrix_text import formatted
from threadline.core.adapters import Account, Ask, Capabilities, Identity, Past, Unit
from threadline.core.deliveries import Failure
from threadline.core.files import safe_name
from threadline.core.matrix import ident
from threadline.core.model import Actor, Attachment, ConversationRef
from threadline.core.values import clean, json_object, person_name
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

HOMESERVER = "https://matrix-client.matrix.org"
# An event has at most 65,536 bytes with all that its server adds, and a quote mark counts twice.
MAX_BYTES = 30_000
MAX_CONTENT = 61_000
FILE_BYTES = 64 * 1024 * 1024
# Synapse forgets transaction ids after 24 hours.
KEPT = timedelta(hours=23)

_MXC = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_=.-]{1,255})")
# Tab and line feed are all that a text needs of these; the others count six times in an event.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_TOO_MUCH = frozenset({"M_TOO_LARGE", "M_BAD_JSON", "M_NOT_JSON", "M_INVALID_PARAM"})


class Matrix:
    """One account on a homeserver."""

    # Each one changes a list of the account's, which is read and written as a whole.
    opens_at_once: Final = 1

    def __init__(self, account: Account) -> None:
        self._account = account
        self._places = Places(account)
        base = str(account.settings.get("api") or HOMESERVER).rstrip("/")
        self._api = Api(base, account.credentials.get("access_token", ""))

    @property
    def capabilities(self) -> Capabilities:
        """What Matrix can do; a text counts in bytes."""
        return Capabilities(
            max_length=MAX_BYTES,
            unit=Unit.BYTES,
            attachments=True,
            uploads=True,
            max_files=1,
            edits=True,
            history=True,
            idempotent=True,
            idempotent_for=KEPT,
            actor=self._account.actor,
        )

    # What is heard.

    def verify(self, request: Request) -> bool:
        """Whether the homeserver pushed this: it shows the token that only it was given."""
        secret = self._account.credentials.get("hs_token", "")
        word, _, token = request.headers.get("authorization", "").partition(" ")
        if not secret or word.lower() != "bearer":
            return False
        given = token.strip().encode("utf-8", "replace")
        return hmac.compare_digest(given, secret.encode("utf-8", "replace"))

    def parse(self, request: Request) -> Heard:
        """One sync answer, or one transaction. Total."""
        body = json_object(request.body)
        return hear(self._places, body) if body else Heard(skipped=("malformed",))

    def handshake(self, request: Request) -> Reply | None:
        """A homeserver takes a transaction as received where the answer is an empty object."""
        return Reply(body=b"{}", content_type="application/json")

    # What is said.

    def render(self, message: OutboundMessage) -> ApiCall:
        """The call that says one part; of a file, the one that brings it to the homeserver."""
        if message.attachments:
            return self._upload(message, message.attachments[0])
        return self._event(message, {})

    def _event(self, message: OutboundMessage, file: dict[str, Any]) -> ApiCall:
        text = _CONTROL.sub(" ", clean(message.text))
        content: dict[str, Any] = {
            "msgtype": "m.text",
            "body": text,
            # Says that nobody is pinged, whatever the words: neither @room nor a name in the text.
            "m.mentions": {},
            **_relation(message),
            **file,
        }
        if file:
            # Words beside a file are its caption; without any the body is its name.
            content["body"] = text or file["filename"]
        html = formatted(text)
        if html is not None:
            dressed = {**content, "format": "org.matrix.custom.html", "formatted_body": html}
            if len(encoded(dressed)) <= MAX_CONTENT:
                content = dressed
        return self._api.call(
            "PUT",
            "rooms",
            room_of(message.conversation),
            "send",
            "m.room.message",
            message.key,
            body=content,
            route="send",
            key=message.key,
        )

    def read(self, call: ApiCall, answer: ApiResponse) -> ApiCall | Sent | Refused | Doubt:
        """Proof is the event's id. Where the HTML was refused, the plain words are the next call:
        nothing was said yet, so they go under the same transaction id."""
        said = json_object(answer.body)
        if call.unseen and call.message is not None:
            return self._uploaded(call.message, said, answer)
        if answer.status == 200:
            event_id = ident(said.get("event_id"))
            if event_id is None:
                return Doubt(reason="the homeserver took it and named no event.")
            return Sent(message_id=event_id)
        if answer.status in (400, 413) and ident(said.get("errcode")) in _TOO_MUCH:
            content = json_object(call.body)
            if content.pop("formatted_body", None) is not None:
                content.pop("format", None)
                return ApiCall(
                    method=call.method,
                    url=call.url,
                    headers=call.headers,
                    body=encoded(content),
                    route=call.route,
                    most=call.most,
                    key=call.key,
                )
        return refusal(answer)

    def _upload(self, message: OutboundMessage, file: Attachment) -> ApiCall:
        name = safe_name(file.name, file.type)
        call = self._api.call(
            "POST", "upload", below=OLD_MEDIA, query={"filename": name}, route="upload"
        )
        return replace(call, key=message.key, message=message, file=file, unseen=True)

    def _uploaded(
        self, message: OutboundMessage, said: dict[str, Any], answer: ApiResponse
    ) -> ApiCall | Refused | Doubt:
        """The event that shows it, once the homeserver has it. Nobody saw anything before."""
        place = said.get("content_uri")
        if answer.status != 200:
            return refusal(answer)
        if not isinstance(place, str) or not _MXC.fullmatch(place):
            return Doubt(reason="the homeserver took the file and named no place for it.")
        file = message.attachments[0]
        family = file.type.partition("/")[0]
        kind = family if family in ("image", "audio", "video") else "file"
        return self._event(
            message,
            {
                "msgtype": f"m.{kind}",
                "filename": safe_name(file.name, file.type),
                "url": place,
                "info": {"mimetype": file.type, "size": file.size},
            },
        )

    # What was said before, with whom, and files.

    def history(self, ref: ConversationRef, before: str | None = None) -> ApiCall:
        """See `core.adapters.Remembering`. A thread's past begins at its newest end always."""
        return history(self._api, ref, before)

    def read_history(
        self, ref: ConversationRef, call: ApiCall, answer: ApiResponse
    ) -> Past | Refused | Doubt:
        """See `core.adapters.Remembering`."""
        return read_history(self._api, self._places, ref, call, answer)

    def open_direct(self, address: str, key: str) -> ApiCall:
        """See `core.adapters.Opening`: by the rooms the account keeps as direct, then by alias."""
        return list_direct(self._api, self._account.account_id)

    def read_direct(
        self, address: str, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | ConversationRef | Refused | Doubt:
        """See `core.adapters.Opening`."""
        return read_direct(self._api, self._places, address, call, answer)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The homeserver: it brings what others keep."""
        return (self._api.base,)

    def file(self, attachment: Attachment) -> ApiCall:
        """See `core.adapters.Fetching`. What is no `mxc://` address is asked for as it is, and
        found nowhere."""
        return self._download(attachment, MEDIA)

    def read_file(
        self, attachment: Attachment, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | bytes | Refused | Doubt:
        """The bytes; a server older than authenticated media is asked in the old way."""
        if answer.status == 200:
            return answer.body
        word = json_object(answer.body).get("errcode")
        if word == "M_UNRECOGNIZED" and MEDIA in call.url:
            return self._download(attachment, OLD_MEDIA)
        return refusal(answer)

    def _download(self, attachment: Attachment, below: str) -> ApiCall:
        found = _MXC.fullmatch(attachment.id)
        where = found.groups() if found else ("-", "-")
        return self._api.call(
            "GET", "download", *where, below=below, route="media", most=FILE_BYTES
        )

    # Connecting.

    @classmethod
    def asks(cls) -> tuple[Ask, ...]:
        """See `core.adapters.Connectable`."""
        return (
            Ask(
                name="api",
                where="the address of the homeserver's client API, such as https://matrix.org",
                secret=False,
                default=HOMESERVER,
            ),
            Ask(
                name="access_token",
                where="the access token of the bot's own account (Element: All settings, Help & "
                "About, Advanced), or the as_token of an application service",
            ),
            Ask(
                name="join",
                where="`invites` to enter every room the bot is invited to, `nothing` to enter "
                "rooms by hand",
                secret=False,
                default="invites",
            ),
            Ask(
                name="hs_token",
                where="the hs_token of an application service, where the homeserver is to push "
                "events; empty to fetch them",
                optional=True,
            ),
        )

    def check(self) -> ApiCall:
        """Who the token belongs to."""
        return self._api.call("GET", "account", "whoami", route="check")

    def read_check(
        self, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | Identity | Refused | Doubt:
        """Who we are, then what we are called."""
        said = json_object(answer.body)
        if call.route == "check":
            user = ident(said.get("user_id"))
            if answer.status != 200:
                return refusal(answer)
            if user is None or not is_person(user):
                return Refused(failure=Failure.PERMANENT, reason="this is no Matrix homeserver.")
            return self._api.call("GET", "profile", user, "displayname", route="name")
        if answer.status not in (200, 403, 404):
            return refusal(answer)
        user = unquote(call.url.partition(f"{CLIENT}/profile/")[2].partition("/")[0])
        shown = person_name(said.get("displayname"))
        return Identity(account_id=user, actor=Actor(user, shown, is_bot=True, is_self=True))

    def webhook(self, url: str | None) -> ApiCall | None:
        """An application service is registered at the homeserver, by whoever runs it."""
        return None

    def listens(self) -> bool:
        """Unless the homeserver pushes."""
        return not self._account.credentials.get("hs_token")


def _relation(message: OutboundMessage) -> dict[str, Any]:
    """Where it hangs. In a thread a message that answers nothing falls back to the root, for
    clients that know no threads. Only the first part of a long text answers."""
    root, answered = message.conversation.conversation_id, message.reply_to
    if message.part > 1 or not (answered or "").startswith("$"):
        answered = None
    if message.conversation.parent_conversation_id is not None:
        return {
            "m.relates_to": {
                "rel_type": "m.thread",
                "event_id": root,
                "is_falling_back": answered is None,
                "m.in_reply_to": {"event_id": answered or root},
            }
        }
    return {"m.relates_to": {"m.in_reply_to": {"event_id": answered}}} if answered else {}
