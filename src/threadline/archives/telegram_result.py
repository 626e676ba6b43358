"""Which file is an export of Telegram Desktop, told by the keys at its beginning."""

from __future__ import annotations

from typing import Any

from threadline.archives.documents import Document, keys_of
from threadline.core.archive import Source
from threadline.core.errors import ArchiveError
from threadline.core.values import said

PRIVATE = frozenset(
    {"personal_chat", "bot_chat", "saved_messages", "replies", "verification_codes"}
)


def find_result(source: Source) -> str | None:
    """The name of the `result.json` in a source, or of the one file it is."""
    names = source.names()
    if len(names) > 1:
        names = [name for name in names if name.rpartition("/")[2] == "result.json"]
    for name in sorted(names, key=lambda name: (name.count("/"), name)):
        if _is_result(source, name):
            return name
    return None


def _is_result(source: Source, name: str) -> bool:
    keys = keys_of(source, name)
    if keys.keys() & {"chats", "left_chats"}:
        return bool(keys.keys() & {"about", "personal_information"})
    if "messages" not in keys:
        return "personal_information" in keys and "about" in keys
    kind = said(keys.get("type"))
    if "id" in keys and (kind in PRIVATE or kind.endswith(("group", "channel"))):
        return True
    return _is_bare(source, name, keys)


def _is_bare(source: Source, name: str, keys: dict[str, Any]) -> bool:
    """Whether it is nothing but messages, and these are Telegram's."""
    if keys.keys() - {"name", "type", "id", "messages"}:
        return False
    with source.open(name) as stream:
        try:
            match _first_message(Document(stream, name)):
                case {"type": "message" | "service", "text": _, **rest}:
                    return not rest.keys().isdisjoint({"date", "date_unixtime"})
        except ArchiveError:
            pass  # whatever it was, it cannot be told any more
    return False


def _first_message(document: Document) -> Any:
    for key in document.members():
        if key == "messages" and document.peek() == "[":
            for _ in document.elements():
                return document.value()
    return None
