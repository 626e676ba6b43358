"""The parts of an entry in Telegram Desktop's words: texts, times, people, files."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from threadline.core.model import Attachment
from threadline.core.values import clean, file_name, ident, said, since_epoch, size

NOT_INCLUDED = "(File "
CHANNELS = 10**12  # channel 1234567890 is -1001234567890 to a bot


def channel_id(bare: int) -> str:
    """A supergroup's or channel's id as bots know it."""
    return str(-(CHANNELS + bare))


def flat(text: object) -> str:
    """A text, or the list of plain and marked pieces it was cut into, as it was written.

    >>> flat(["see ", {"type": "bold", "text": "this"}])
    'see this'
    """
    if isinstance(text, list):
        pieces = (each.get("text") if isinstance(each, dict) else each for each in text)
        return clean("".join(piece for piece in pieces if isinstance(piece, str)))
    return said(text)


def deed(entry: dict[str, Any], action: str) -> str:
    """A service entry in words, of which the export has none."""
    words = action.replace("_", " ") or said(entry.get("type"))
    members = entry.get("members")
    named = [said(each) for each in members] if isinstance(members, list) else []
    about = said(entry.get("title")) or ", ".join(name or "somebody" for name in named)
    return f"{words}: {about}" if about else words


def unix(value: object) -> datetime | None:
    """A time given in seconds, as a string of digits or a number."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 15:
        return since_epoch(int(value))
    return since_epoch(value) if type(value) is int else None


def person(value: object) -> str | None:
    """Whoever an entry is from, by the id that bots know.

    >>> person("user42"), person("channel1234567890"), person(42)
    ('42', '-1001234567890', '42')
    """
    given = ident(value)
    if given is None:
        return None
    for prefix in ("user", "channel", "chat"):
        bare = given.removeprefix(prefix)
        if bare != given and bare.isascii() and bare.isdecimal() and len(bare) < 20:
            if prefix == "user":
                return bare
            return channel_id(int(bare)) if prefix == "channel" else f"-{bare}"
    return given


def attachments(entry: dict[str, Any]) -> tuple[Attachment, ...]:
    """The photo or file of an entry; its bytes lie in the export's folder, if anywhere."""
    found = []
    for part, sized in (("photo", "photo_file_size"), ("file", "file_size")):
        path = said(entry.get(part))
        if path:
            name = said(entry.get("file_name")) if part == "file" else ""
            found.append(
                Attachment(
                    type=said(entry.get("mime_type")) or said(entry.get("media_type")) or part,
                    name=file_name(name or ("" if path.startswith(NOT_INCLUDED) else path)),
                    size=size(entry.get(sized)),
                )
            )
    return tuple(found)


def numbers(given: object) -> dict[str, float]:
    """The numbers of an object, such as a location."""
    items = given.items() if isinstance(given, dict) else ()
    return {clean(key): value for key, value in items if type(value) in (int, float)}


def strings(given: object) -> dict[str, str]:
    """The strings of an object, such as a contact."""
    items = given.items() if isinstance(given, dict) else ()
    return {clean(key): said(value) for key, value in items if isinstance(value, str) and value}
