"""What may enter a transcript at all: sizes, characters, times. Nothing is bent silently.

A NUL is refused by name (neither database nor any client agrees on it); half a surrogate pair
becomes U+FFFD, because it is no character, but in an id it is refused, because the id might become
another's; a time without a zone is refused, because a guess
would be wrong somewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

from threadline.core.errors import InvalidInput, TooLarge
from threadline.core.model import MAX_ID_BYTES, Actor, Attachment, InboundMessage
from threadline.core.rules.limits import Limits

DEPTH = 32


def checked(message: InboundMessage, limits: Limits) -> InboundMessage:
    """The message as it may be recorded. Raises `InvalidInput` or `TooLarge`, naming the field."""
    changed: dict[str, Any] = {}
    text = message.text
    if not text.isascii() or "\x00" in text:
        clean = _characters(text, "text")
        if clean is not text:
            changed["text"] = clean
    if len(text) > limits.text_bytes // 4 and _size(text) > limits.text_bytes:
        raise TooLarge(
            f"text has {_size(text)} bytes, {limits.text_bytes} are allowed.",
            field="text",
            limit=limits.text_bytes,
        )
    actor = message.actor
    if not actor.id.strip():
        raise InvalidInput("actor.id is missing or blank.", field="actor.id")
    if not (_plain(actor.id) and _plain(actor.name)):
        changed["actor"] = Actor(
            _exact(actor.id, "actor.id"),
            _short(actor.name, "actor.name"),
            actor.is_bot,
            actor.is_self,
        )
    for name in ("message_id", "reply_to", "revises", "thread_root", "explicit_target", "id_space"):
        value = getattr(message, name)
        if value is not None and not _plain(value):
            changed[name] = _exact(value, name)
    if message.message_id is not None and not message.message_id:
        raise InvalidInput("message_id is empty; leave it out instead.", field="message_id")
    if message.sent_at is not None:
        utc = aware(message.sent_at, "sent_at")
        if utc is not message.sent_at:
            changed["sent_at"] = utc
    if len(message.attachments) > limits.attachments:
        raise TooLarge(
            f"{len(message.attachments)} attachments, {limits.attachments} are allowed.",
            field="attachments",
            limit=limits.attachments,
        )
    if message.attachments:
        changed["attachments"] = tuple(_attachment(one) for one in message.attachments)
    if message.metadata:
        changed["metadata"] = metadata(message.metadata, limits)
    return replace(message, **changed) if changed else message


def aware(at: datetime, name: str) -> datetime:
    """A time in UTC. Raises `InvalidInput` for one without a zone."""
    if at.tzinfo is UTC:
        return at
    if at.tzinfo is None or at.utcoffset() is None:
        raise InvalidInput(
            f"{name} has no zone; add one, such as {at.isoformat()}+00:00.", field=name
        )
    try:
        return at.astimezone(UTC)
    except (OverflowError, ValueError):
        raise InvalidInput(f"{name} lies outside the calendar.", field=name) from None


def metadata(value: Mapping[str, Any], limits: Limits, name: str = "metadata") -> dict[str, Any]:
    """Metadata as JSON data of bounded size and depth. Raises `InvalidInput` or `TooLarge`."""
    budget = [limits.metadata_bytes]
    clean = _data(value, name, DEPTH, budget, limits.metadata_bytes)
    if not isinstance(clean, dict):
        raise InvalidInput(f"{name} must be an object.", field=name)
    return clean


def _data(value: Any, name: str, depth: int, budget: list[int], limit: int) -> Any:
    if depth == 0:
        raise InvalidInput(f"{name} is nested deeper than {DEPTH}.", field=name)
    budget[0] -= 8
    match value:
        case None | bool():
            clean: Any = value
        case int():
            if not -(1 << 63) <= value < 1 << 63:
                raise InvalidInput(f"{name} holds a number of over 63 bits.", field=name)
            clean = value
        case float():
            if value != value or value in (float("inf"), float("-inf")):
                raise InvalidInput(f"{name} holds a number that JSON has not.", field=name)
            clean = value
        case str():
            clean = _characters(value, name)
            budget[0] -= len(clean)
        case Mapping():
            clean = {
                _key(key, name, budget): _data(item, f"{name}.{key}", depth - 1, budget, limit)
                for key, item in value.items()
            }
        case list() | tuple():
            clean = [_data(item, f"{name}[]", depth - 1, budget, limit) for item in value]
        case _:
            raise InvalidInput(f"{name} holds a {type(value).__name__}.", field=name)
    if budget[0] < 0:
        raise TooLarge(f"{name} is over {limit} bytes.", field=name, limit=limit)
    return clean


def _key(key: object, name: str, budget: list[int]) -> str:
    if not isinstance(key, str):
        raise InvalidInput(f"{name} has a key that is no string.", field=name)
    budget[0] -= len(key)
    return _characters(key, name)


def _attachment(one: Attachment) -> Attachment:
    texts: dict[str, Any] = {
        part.name: _short(getattr(one, part.name), f"attachments.{part.name}", 8 * MAX_ID_BYTES)
        for part in fields(Attachment)
        if isinstance(getattr(one, part.name), str)
    }
    return replace(one, **texts)


def _plain(text: str) -> bool:
    return text.isascii() and len(text) <= MAX_ID_BYTES and "\x00" not in text


def _exact(text: str, name: str) -> str:
    """An id as it is: a replaced character might make it another's."""
    clean = _short(text, name)
    if clean != text:
        raise InvalidInput(f"{name} holds half of a surrogate pair.", field=name)
    return clean


def _short(text: str, name: str, limit: int = MAX_ID_BYTES) -> str:
    clean = _characters(text, name)
    if _size(clean) > limit:
        raise TooLarge(f"{name} is longer than {limit} bytes.", field=name, limit=limit)
    return clean


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _characters(text: str, name: str) -> str:
    if "\x00" in text:
        raise InvalidInput(f"{name} holds a NUL character; remove it.", field=name)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
