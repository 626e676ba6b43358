"""What a WhatsApp message says: its words, its files, and what is no words in brackets.

A thing without words of its own is written as `[location 52.1,4.3]`, so that nothing is ever heard
as an empty text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from threadline.core.model import Attachment
from threadline.core.values import clean, ident

FILES = ("image", "video", "audio", "document", "sticker", "voice")
CONTACTS = 20


@dataclass(frozen=True, slots=True)
class Words:
    """The text, the files and the small facts of one message."""

    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def word(value: object) -> str:
    """A string that says something, as it may be stored, else an empty one."""
    return clean(value) if isinstance(value, str) and value.strip() else ""


def key(value: object) -> str:
    """A string that is an id, byte for byte, else an empty one."""
    return (ident(value) or "") if isinstance(value, str) else ""


def thing(value: object) -> Mapping[str, Any]:
    """An object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def things(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def words_of(message: Mapping[str, Any]) -> Words:
    """What a message says. Total: a type nobody knows is named in brackets."""
    kind = word(message.get("type"))
    body = thing(message.get(kind))
    if kind in FILES:
        return _file(kind, body)
    match kind:
        case "text":
            return Words(word(body.get("body")) or "[empty message]")
        case "location":
            return Words(_location(body))
        case "contacts":
            return Words(_contacts(message.get("contacts")))
        case "button":
            text = word(body.get("text")) or word(body.get("payload"))
            return Words(text or "[button]", facts=_fact("button", body.get("payload")))
        case "interactive":
            return _interactive(body)
        case "order":
            return Words(_order(body))
        case "unsupported":
            return _unsupported(message, body)
    said = word(body.get("body")) or word(body.get("text")) or word(body.get("caption"))
    return Words(said or f"[{_plain(kind) or 'unknown'} message]")


def _file(kind: str, body: Mapping[str, Any]) -> Words:
    name = re.split(r"[/\\]", word(body.get("filename")))[-1]
    size = body.get("file_size")
    attachment = Attachment(
        id=word(body.get("id")),
        type=word(body.get("mime_type")) or kind,
        name=name,
        size=size if type(size) is int and 0 <= size < 2**53 else None,
    )
    facts = {"voice": True} if body.get("voice") is True else {}
    return Words(word(body.get("caption")), (attachment,), facts)


def _location(body: Mapping[str, Any]) -> str:
    place = f"{_number(body.get('latitude'))},{_number(body.get('longitude'))}"
    names = [word(body.get(name)) for name in ("name", "address")]
    about = ", ".join(name for name in names if name)
    return f"[location {place}: {about}]" if about else f"[location {place}]"


def _number(value: object) -> str:
    ours = isinstance(value, int | float) and not isinstance(value, bool)
    return _plain(str(value)) if ours or isinstance(value, str) else "?"


def _contacts(given: object) -> str:
    lines = []
    for one in things(given)[:CONTACTS]:
        name = word(thing(one.get("name")).get("formatted_name"))
        phones = [word(phone.get("phone")) for phone in things(one.get("phones"))]
        said = ", ".join(it for it in (name, *phones) if it)
        lines.append(f"[contact {said}]" if said else "[contact]")
    return "\n".join(lines) or "[contact]"


def _interactive(body: Mapping[str, Any]) -> Words:
    kind = word(body.get("type"))
    answer = thing(body.get(kind))
    said = word(answer.get("title")) or word(answer.get("body"))
    if not said:
        return Words(f"[{_plain(kind) or 'interactive'} message]")
    facts = _fact("button", answer.get("id"))
    if filled := word(answer.get("response_json")):
        facts["form"] = filled[:4000]
    return Words(said, facts=facts)


def _order(body: Mapping[str, Any]) -> str:
    items = [
        f"{_number(one.get('quantity'))} × {word(one.get('product_retailer_id')) or '?'}"
        for one in things(body.get("product_items"))[:CONTACTS]
    ]
    listed = f"[order: {', '.join(items)}]" if items else "[order]"
    return "\n".join(it for it in (word(body.get("text")), listed) if it)


def _unsupported(message: Mapping[str, Any], body: Mapping[str, Any]) -> Words:
    """A message the API cannot show; the person believes that we read it."""
    what = _plain(word(body.get("type")))
    codes = [one.get("code") for one in things(message.get("errors"))]
    facts = {"error": codes[0]} if codes and type(codes[0]) is int else {}
    return Words(f"[unsupported message: {what}]" if what else "[unsupported message]", (), facts)


def _fact(name: str, value: object) -> dict[str, Any]:
    return {name: clean(value)[:1000]} if isinstance(value, str) and value else {}


def _plain(text: str) -> str:
    return "".join(one for one in text[:60] if one.isprintable() and one not in "[]")
