"""What the Cloud API sends to a webhook, taken apart: entries, changes, messages, statuses, echoes.

One request may mix the numbers of a business; an account hears its own number and counts the rest.
A message that cannot be addressed is skipped by name, and never costs its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from threadline.adapters.whatsapp_answers import failed
from threadline.adapters.whatsapp_places import Places, bare
from threadline.adapters.whatsapp_words import key, thing, things, word, words_of
from threadline.core.errors import InvalidConversation
from threadline.core.model import Actor, ConversationRef, Direction, Event, InboundMessage, Kind
from threadline.core.values import json_object, person_name
from threadline.core.wire import Heard, Receipt

SYSTEM = Actor("whatsapp", "WhatsApp", is_bot=True)
MOVES = ("user_changed_number", "user_changed_user_id", "customer_changed_number")
THERE = ("sent", "delivered", "read", "played")


@dataclass(slots=True)
class _Found:
    messages: list[InboundMessage] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    foreign: int = 0

    def skip(self, what: str) -> None:
        self.skipped.append("".join(one for one in what[:60] if one.isprintable()) or "unknown")


def heard(body: bytes, places: Places, myself: Actor) -> Heard:
    """What this number hears in a request's body. Total."""
    found = _Found()
    for change in _changes(json_object(body), found):
        value = thing(change.get("value"))
        field_name = word(change.get("field"))
        if word(thing(value.get("metadata")).get("phone_number_id")) != places.account_id:
            found.foreign += max(1, _size(value))
            continue
        match field_name:
            case "messages":
                _take_messages(value, places, found)
                _take_statuses(value, places, found)
            case "smb_message_echoes" | "message_echoes":
                _take_echoes(value, places, myself, found)
            case _:
                found.skip(field_name or "no field")
    return Heard(
        messages=tuple(found.messages),
        receipts=tuple(found.receipts),
        skipped=tuple(found.skipped),
        foreign=found.foreign,
    )


def _changes(said: Mapping[str, Any], found: _Found) -> Iterator[Mapping[str, Any]]:
    entries = things(said.get("entry"))
    if not entries:
        found.skip("no entry")
    for entry in entries:
        yield from things(entry.get("changes"))


def _size(value: Mapping[str, Any]) -> int:
    return sum(len(things(value.get(name))) for name in ("messages", "statuses", "message_echoes"))


def _take_messages(value: Mapping[str, Any], places: Places, found: _Found) -> None:
    contacts = things(value.get("contacts"))
    for message in things(value.get("messages")):
        kind = word(message.get("type"))
        try:
            if kind == "system":
                one = _moved(message, places)
            elif kind == "request_welcome":
                one = None
            else:
                one = _said(message, contacts, places)
        except InvalidConversation:
            found.skip(f"{kind or 'message'} without id or sender")
            continue
        if one is None:
            system = word(thing(message.get("system")).get("type"))
            found.skip(f"{kind} {system}".strip())
        else:
            found.messages.append(one)
    for _ in things(value.get("errors")):
        found.skip("error")


def _said(
    message: Mapping[str, Any], contacts: list[Mapping[str, Any]], places: Places
) -> InboundMessage:
    """What a person said, changed, took back or reacted with."""
    contact = _contact_of(message, contacts)
    phone = bare(key(message.get("from")) or key(contact.get("wa_id")))
    user = key(message.get("from_user_id")) or key(contact.get("user_id"))
    profile = thing(contact.get("profile"))
    name = person_name(profile.get("name"), profile.get("username"))
    direct, same_as = places.person(user, phone)
    actor = Actor(direct.conversation_id, name)
    ref = direct
    if group := key(message.get("group_id")):
        ref, same_as = places.ref(group, Kind.ROOM), ()
    facts = {"phone": phone} if phone and phone != actor.id else {}
    return _entry(message, ref, actor, facts, same_as=same_as)


def _entry(
    message: Mapping[str, Any],
    ref: ConversationRef,
    actor: Actor,
    facts: dict[str, Any],
    *,
    same_as: tuple[ConversationRef, ...] = (),
    direction: Direction = Direction.INBOUND,
) -> InboundMessage:
    """One message of either side, whatever it does."""
    if not key(message.get("id")):
        raise InvalidConversation("it has no id, and would be heard anew each time it comes.")
    kind = word(message.get("type"))
    more: dict[str, Any] = {}
    body = thing(message.get(kind))
    said = message
    match kind:
        case "edit":
            more = {"event": Event.EDIT, "revises": key(body.get("original_message_id")) or None}
            said = thing(body.get("message"))
        case "revoke":
            more = {
                "event": Event.DELETE,
                "revises": key(body.get("original_message_id")) or None,
                "signed": True,
            }
        case "reaction":
            more = {"event": Event.REACTION, "revises": key(body.get("message_id")) or None}
    if more and more["revises"] is None:
        raise InvalidConversation("it says not what it is about.")
    context = thing(message.get("context"))
    if kind == "reaction":
        more["text"] = word(body.get("emoji"))
        facts = facts if more["text"] else {**facts, "removed": True}
    elif kind != "revoke":
        words = words_of(said)
        more |= {"text": words.text, "attachments": words.attachments}
        facts = {**facts, **words.facts}
        if context.get("forwarded") is True or context.get("frequently_forwarded") is True:
            facts["forwarded"] = True
        if referral := word(thing(message.get("referral")).get("source_url")):
            facts["referral"] = referral[:1000]
    return InboundMessage(
        conversation=ref,
        actor=actor,
        message_id=key(message.get("id")),
        direction=direction,
        reply_to=key(context.get("id")) or None if "event" not in more else None,
        sent_at=sent_at(message.get("timestamp")),
        same_as=same_as,
        metadata=facts,
        **more,
    )


def _contact_of(message: Mapping[str, Any], contacts: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Who the sender is: the contact that names it, else the only one, if it names nobody else."""
    phone, user = bare(key(message.get("from"))), key(message.get("from_user_id"))
    for one in contacts:
        if (user and key(one.get("user_id")) == user) or (
            phone and bare(key(one.get("wa_id"))) == phone
        ):
            return one
    if len(contacts) == 1 and not phone and not user:
        return contacts[0]
    return {}


def _moved(message: Mapping[str, Any], places: Places) -> InboundMessage | None:
    """A person's new number or user id: the same conversation, from now on under the new one."""
    system = thing(message.get("system"))
    if word(system.get("type")) not in MOVES:
        return None
    phone = bare(key(system.get("wa_id")) or key(system.get("new_wa_id")))
    user = key(system.get("user_id"))
    before = key(system.get("previous_user_id"))
    old = bare(key(system.get("customer")) or key(message.get("from")))
    if not key(message.get("id")) or not (phone or user):
        return None
    ref, others = places.person(user, phone)
    older = [places.ref(one) for one in (before, old) if one and one not in (user, phone)]
    return InboundMessage(
        conversation=ref,
        actor=SYSTEM,
        event=Event.NOTICE,
        text=word(system.get("body")) or "This person has a new number or user id.",
        message_id=key(message.get("id")) or None,
        sent_at=sent_at(message.get("timestamp")),
        same_as=(*older, *others),
    )


def _take_statuses(value: Mapping[str, Any], places: Places, found: _Found) -> None:
    contacts = things(value.get("contacts"))
    for status in things(value.get("statuses")):
        word_of_it = word(status.get("status"))
        message_id = key(status.get("id"))
        refs = list(_receivers(status, contacts, places))
        if not message_id or not refs or word_of_it not in (*THERE, "failed"):
            found.skip(f"status {word_of_it or 'unknown'}")
            continue
        errors = status.get("errors")
        first = errors[0] if isinstance(errors, list) and errors else None
        for ref in refs:
            found.receipts.append(
                Receipt(
                    conversation=ref,
                    message_id=message_id,
                    token=key(status.get("biz_opaque_callback_data")) or None,
                    refused=failed(first) if word_of_it == "failed" else None,
                )
            )


def _receivers(
    status: Mapping[str, Any], contacts: list[Mapping[str, Any]], places: Places
) -> Iterator[ConversationRef]:
    """Every address the status gives: it may be told by one that we never wrote to."""
    recipient = key(status.get("recipient_id"))
    if word(status.get("recipient_type")) == "group":
        names = [recipient]
    else:
        names = [recipient, key(status.get("recipient_user_id"))]
        if len(contacts) == 1:
            names += [key(contacts[0].get("user_id")), key(contacts[0].get("wa_id"))]
    for name in dict.fromkeys(names):
        if name:
            try:
                yield places.ref(name)
            except InvalidConversation:
                continue


def _take_echoes(value: Mapping[str, Any], places: Places, myself: Actor, found: _Found) -> None:
    """What the business said with its phone, beside the API."""
    for message in things(value.get("message_echoes")):
        user, phone = key(message.get("to_user_id")), key(message.get("to"))
        try:
            ref, same_as = places.person(user or key(message.get("group_id")), phone)
            if group := key(message.get("group_id")):
                ref, same_as = places.ref(group, Kind.ROOM), ()
            found.messages.append(
                _entry(message, ref, myself, {}, same_as=same_as, direction=Direction.OUTBOUND)
            )
        except InvalidConversation:
            found.skip("echo without id or receiver")


def sent_at(stamp: object) -> datetime | None:
    """Meta's clock: whole seconds, as a word or a number."""
    if isinstance(stamp, str) and stamp.isascii() and stamp.isdecimal() and len(stamp) < 12:
        return datetime.fromtimestamp(int(stamp), UTC)
    if isinstance(stamp, int) and not isinstance(stamp, bool) and 0 <= stamp < 10**11:
        return datetime.fromtimestamp(stamp, UTC)
    return None
