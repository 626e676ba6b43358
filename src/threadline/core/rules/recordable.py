"""What a platform or an export has shown can always be recorded.

A caller of ours is told what is wrong with a message and sends another one (`rules.admission`). A
platform is answered 2xx and forgets it, an export is what it is: refusing there is losing. So what
may not enter a transcript is bent here, visibly, in one place for every dialect and every reader.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from threadline.core.errors import InvalidInput, TooLarge
from threadline.core.model import MAX_ID_BYTES, Actor, Attachment, InboundMessage
from threadline.core.rules.admission import DEPTH, checked
from threadline.core.rules.limits import Limits
from threadline.core.values import clean

CUT = "…"
LONG = 8 * MAX_ID_BYTES
_IDS = ("message_id", "reply_to", "revises", "thread_root", "explicit_target", "id_space")


def recordable(message: InboundMessage, limits: Limits) -> InboundMessage:
    """The message as it may be recorded; what it is, where it was said and by whom stay.

    NUL and halves of surrogate pairs become U+FFFD, what is too long is cut and ends in `…`, an id
    that cannot stand as it is becomes a digest of itself, the same wherever it comes up.
    Attachments and metadata beyond the limits are left out, and the metadata says so as `left_out`.
    A message that may be recorded comes back as it is, and so does one that nobody said: that is
    refused.
    """
    try:
        return checked(message, limits)
    except (InvalidInput, TooLarge):
        if not message.actor.id.strip():
            return message
    actor = message.actor
    changed: dict[str, Any] = {
        "text": _cut(message.text, limits.text_bytes),
        "actor": Actor(_id(actor.id), _cut(actor.name, MAX_ID_BYTES), actor.is_bot, actor.is_self),
        "sent_at": _time(message.sent_at),
        "attachments": tuple(_file(one) for one in message.attachments[: limits.attachments]),
    }
    for name in _IDS:
        value = getattr(message, name)
        changed[name] = value if value is None else _id(value)
    changed["message_id"] = changed["message_id"] or None
    kept, left_out = _metadata(message.metadata, limits)
    left_out += len(message.attachments) - len(changed["attachments"])
    changed["metadata"] = {**kept, "left_out": left_out} if left_out else kept
    return checked(replace(message, **changed), limits)


def _cut(text: str, most: int) -> str:
    raw = clean(text).encode()
    if len(raw) <= most:
        return raw.decode()
    return raw[: most - len(CUT.encode())].decode(errors="ignore") + CUT


def _id(value: str) -> str:
    """An id as it is. A cut or a replaced character might make it another's, a digest does not."""
    raw = value.encode("utf-8", "surrogatepass")
    if len(raw) <= MAX_ID_BYTES and clean(value) == value:
        return value
    return f"sha256:{sha256(raw).hexdigest()}"


def _time(at: datetime | None) -> datetime | None:
    """A time without a zone, or outside the calendar, is none: a guess would be wrong somewhere."""
    try:
        return None if at is None or at.utcoffset() is None else at.astimezone(UTC)
    except (OverflowError, ValueError):
        return None


def _file(one: Attachment) -> Attachment:
    texts: dict[str, Any] = {
        part.name: _cut(getattr(one, part.name), LONG)
        for part in fields(Attachment)
        if isinstance(getattr(one, part.name), str)
    }
    return replace(one, **{**texts, "id": one.id if texts["id"] == one.id else _id(one.id)})


def _metadata(given: Mapping[str, Any], limits: Limits) -> tuple[dict[str, Any], int]:
    """What of it may be kept, entry by entry in its order, and how many were left out."""
    kept: dict[str, Any] = {}
    left_out = 0
    # `left_out` needs room beside what is kept.
    room = limits.metadata_bytes - _cost({"left_out": 0})
    for name, value in given.items():
        key, data = clean(str(name)), _data(value, DEPTH - 1)
        cost = len(key) + _cost(data)
        if cost > room:
            left_out += 1
            continue
        kept[key] = data
        room -= cost
    return kept, left_out


def _cost(value: Any) -> int:
    """What a value takes of the room for metadata, as `admission.metadata` counts it."""
    match value:
        case str():
            return 8 + len(value)
        case dict():
            return 8 + sum(len(key) + _cost(one) for key, one in value.items())
        case list():
            return 8 + sum(map(_cost, value))
    return 8


def _data(value: Any, depth: int) -> Any:
    """A value that JSON has; None where it has none like it."""
    match value:
        case bool():
            return value
        case int():
            return value if -(1 << 63) <= value < 1 << 63 else None
        case float():
            return value if math.isfinite(value) else None
        case str():
            return clean(value)
        case Mapping() if depth > 1:
            return {clean(str(key)): _data(one, depth - 1) for key, one in value.items()}
        case list() | tuple() if depth > 1:
            return [_data(one, depth - 1) for one in value]
    return None
