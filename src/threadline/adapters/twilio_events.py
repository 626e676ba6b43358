"""What Twilio posts to a webhook: one message of a person, or the status of one of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from threadline.adapters.answers import code_of
from threadline.adapters.twilio_answers import GONE, failed
from threadline.core.errors import InvalidConversation
from threadline.core.model import Actor, Attachment, ConversationRef, InboundMessage, Kind
from threadline.core.values import clean, ident, person_name
from threadline.core.wire import Heard, Receipt

WHATSAPP = "whatsapp:"
THERE = ("accepted", "queued", "sending", "sent", "delivered", "read", "partially_delivered")
FILES = 10
MAX_KIND, MAX_URL = 200, 2_000
IDS = ("From", "To", "MessageSid", "OriginalRepliedMessageSid", "key")
_WRITTEN = re.compile(r"[\s()./-]+")
_PHONE = re.compile(r"\+[0-9]{5,20}")
_USER_ID = re.compile(r"[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]{1,128}")


@dataclass(frozen=True, slots=True)
class Places:
    """The maker of refs for one address of ours. An account is `AC…:address`.

    >>> Places("default", "AC1:whatsapp:+1555").direct("+1 555 0001").conversation_id
    'whatsapp:+15550001'
    """

    scope_id: str
    account_id: str

    @property
    def account_sid(self) -> str:
        """Whose address it is."""
        return self.account_id.partition(":")[0]

    @property
    def address(self) -> str:
        """Our address as Twilio writes it."""
        return self.account_id.partition(":")[2]

    def ref(self, address: str) -> ConversationRef:
        """The conversation with an address as Twilio writes it. Raises `InvalidConversation`."""
        return ConversationRef("twilio", self.account_id, address, None, self.scope_id, Kind.DM)

    def direct(self, address: str) -> ConversationRef:
        """The conversation with an address somebody wrote down. Raises `InvalidConversation`."""
        bare = address.strip().removeprefix(WHATSAPP)
        if not _USER_ID.fullmatch(bare):
            bare = "+" + _WRITTEN.sub("", bare).removeprefix("+")
            if not _PHONE.fullmatch(bare):
                raise InvalidConversation(f"{address!r} is no phone number.")
        return self.ref(WHATSAPP + bare if self.address.startswith(WHATSAPP) else bare)


def heard(fields: Mapping[str, str], places: Places) -> Heard:
    """What our address hears in the fields of a request. Total."""
    status = fields.get("MessageStatus", "")
    ours = fields.get("From" if status else "To", "")
    if (fields.get("AccountSid"), ours) != (places.account_sid, places.address):
        return Heard(foreign=1) if "AccountSid" in fields else Heard(skipped=("no account",))
    for name in IDS:
        # A sign of an id that no store may hold is not replaced: it would be another's id.
        if fields.get(name) and ident(fields[name]) is None:
            return Heard(skipped=(f"{name} that is no id",))
    fields = {name: clean(value) for name, value in fields.items()}
    try:
        if status:
            return _status(fields, status, places)
        return Heard(messages=(_message(fields, places),))
    except InvalidConversation:
        return Heard(skipped=("status" if status else "message without id or sender",))


def _status(fields: Mapping[str, str], status: str, places: Places) -> Heard:
    """What became of a message of ours. `key` is in the address that we gave for this."""
    message_id = fields.get("MessageSid", "")
    if not message_id or status not in (*THERE, *GONE):
        return Heard(skipped=("status " + "".join(it for it in status[:30] if it.isprintable()),))
    refused = None
    if status in GONE:
        words = fields.get("ChannelStatusMessage") or fields.get("ErrorMessage") or status
        refused = failed(code_of(fields.get("ErrorCode")), words)
    receipt = Receipt(
        conversation=places.ref(fields.get("To", "")),
        message_id=message_id,
        token=fields.get("key") or None,
        refused=refused,
    )
    return Heard(receipts=(receipt,))


def _message(fields: Mapping[str, str], places: Places) -> InboundMessage:
    sender, message_id = fields.get("From", ""), fields.get("MessageSid", "")
    ref = places.ref(sender)
    if not message_id.strip():
        raise InvalidConversation("it has no id.")
    attachments = _files(fields)
    text = fields.get("Body", "")
    if not text.strip():
        text = _without_words(fields) if not attachments else ""
    facts: dict[str, Any] = {}
    for name, field in (("button", "ButtonPayload"), ("opt_out", "OptOutType")):
        if fields.get(field):
            facts[name] = fields[field][:1000]
    return InboundMessage(
        conversation=ref,
        actor=Actor(sender, person_name(fields.get("ProfileName"))),
        text=text,
        message_id=message_id,
        reply_to=fields.get("OriginalRepliedMessageSid") or None,
        attachments=attachments,
        same_as=_others(fields, sender, places),
        metadata=facts,
    )


def _others(fields: Mapping[str, str], sender: str, places: Places) -> tuple[ConversationRef, ...]:
    """The sender's other address: its phone where a user id wrote, or its user id."""
    if not sender.startswith(WHATSAPP):
        return ()
    phone = fields.get("WaId", "")
    user = fields.get("ExternalUserIdentifier", "").removeprefix(WHATSAPP)
    found = []
    if phone.isascii() and phone.isdecimal() and len(phone) <= 20:
        found.append(f"{WHATSAPP}+{phone}")
    if _USER_ID.fullmatch(user):
        found.append(WHATSAPP + user)
    return tuple(places.ref(one) for one in found if one != sender)


def _files(fields: Mapping[str, str]) -> tuple[Attachment, ...]:
    count = code_of(fields.get("NumMedia"))
    found = []
    for at in range(min(max(count, 0), FILES)):
        url = fields.get(f"MediaUrl{at}", "")
        if 0 < len(url) <= MAX_URL:
            kind = fields.get(f"MediaContentType{at}", "")[:MAX_KIND]
            found.append(Attachment(id=_last(url), type=kind, url=url))
    return tuple(found)


def _last(url: str) -> str:
    try:
        return urlsplit(url).path.rpartition("/")[2]
    except ValueError:
        return ""


def _without_words(fields: Mapping[str, str]) -> str:
    """What stands for a message that says nothing."""
    if fields.get("Latitude") and fields.get("Longitude"):
        place = f"{_plain(fields['Latitude'])},{_plain(fields['Longitude'])}"
        about = ", ".join(it for it in (fields.get("Label"), fields.get("Address")) if it)
        return f"[location {place}: {about}]" if about else f"[location {place}]"
    if fields.get("ButtonText", "").strip():
        return fields["ButtonText"]
    kind = _plain(fields.get("MessageType", ""))
    return f"[{kind} message]" if kind and kind != "text" else "[empty message]"


def _plain(text: str) -> str:
    return "".join(one for one in text[:40] if one.isprintable() and one not in "[]")
