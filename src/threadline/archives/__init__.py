"""Export files of other systems, read as places and messages. Pure: nothing here opens anything.

`identify` finds the reader for a source. What is known but cannot be read yet is refused by its
name; what is unknown is told what is known.
"""

from __future__ import annotations

import zlib

from threadline.archives.discord import DiscordChatExporter
from threadline.archives.documents import HEAD, keys_of
from threadline.archives.irc import IrcLog
from threadline.archives.matrix import MatrixExport
from threadline.archives.mbox import Mbox
from threadline.archives.slack import SlackExport
from threadline.archives.telegram import TelegramDesktop
from threadline.archives.whatsapp import WhatsAppText
from threadline.core.archive import Reader, Source
from threadline.core.errors import ArchiveError
from threadline.core.values import json_object

READERS: tuple[Reader, ...] = (
    SlackExport(),
    DiscordChatExporter(),
    TelegramDesktop(),
    MatrixExport(),
    Mbox(),
    WhatsAppText(),
    IrcLog(),
)

_MATTERMOST = frozenset({"version", "team", "channel", "user", "post", "direct_post"})
_ROCKET_CHAT = ("rocketchat_message", "rocketchat_room", "rocketchat_uploads")
# Of Slack, Telegram, WhatsApp, Discord, of a recording bot, and of Twilio's forms.
_WEBHOOKS = (
    b'"api_app_id"',
    b'"update_id"',
    b'"whatsapp_business_account"',
    b'"application_id"',
    b'"botUserId"',
    b"AccountSid=AC",
)


def identify(source: Source) -> Reader:
    """The reader for this source. Raises `ArchiveError`, naming what it found, where none is."""
    names = source.names()
    if not names:
        raise ArchiveError(f"{source.title} is empty: there is no export in it.", path=source.title)
    unsupported = _unsupported(source, names)
    if unsupported:
        raise ArchiveError(
            f"{source.title}: {unsupported} exports are not supported yet. {_known()}",
            path=source.title,
            format=unsupported,
        )
    for reader in READERS:
        if reader.recognises(source):
            return reader
    raise ArchiveError(f"{source.title}: {_why_not(source, names)} {_known()}", path=source.title)


def _known() -> str:
    return "What can be imported: " + ", ".join(reader.format for reader in READERS) + "."


def _unsupported(source: Source, names: list[str]) -> str | None:
    """The name of a format that is known and has no reader."""
    plain = {name.rpartition("/")[2] for name in names}
    if "realm.json" in plain and any(name.startswith("messages-") for name in plain):
        return "Zulip"
    if any(name.startswith(_ROCKET_CHAT) for name in plain):
        return "Rocket.Chat"
    if len(names) > 1:
        lines = [name for name in names if name.endswith("import.jsonl") or len(names) < 4]
        return next((found for name in lines if (found := _by_head(source, name))), None)
    return _by_head(source, names[0])


def _by_head(source: Source, name: str) -> str | None:
    head = _head(source, name)
    if head[:2] == b"\x1f\x8b":
        return _in_gzip(head)
    first = json_object(head.split(b"\n", 1)[0])
    kind = first.get("type")
    if kind in _MATTERMOST and isinstance(first.get(kind), dict | int):
        return "Mattermost"
    if {"rid", "u"} <= first.keys() or {"_id", "usersCount", "msgs"} <= first.keys():
        return "Rocket.Chat"
    keys = keys_of(source, name)
    if keys.keys() & {"anchor", "found_newest", "found_anchor"} and "messages" in keys:
        return "Zulip"
    return "Zulip" if {"zerver_realm", "zerver_userprofile"} & keys.keys() else None


def _in_gzip(head: bytes) -> str | None:
    """What a tar.gz is, by the names at its beginning; nothing is unpacked but these."""
    try:
        begun = zlib.decompressobj(wbits=31).decompress(head, HEAD)
    except zlib.error:
        return None
    if begun[257:262] != b"ustar":
        return None
    name = begun[:100].split(b"\0")[0]
    is_zulip = b"zulip" in name or name.endswith((b"/realm.json", b"/messages-000001.json"))
    return "Zulip" if is_zulip else None


def _why_not(source: Source, names: list[str]) -> str:
    if len(names) > 1:
        return "no known export is in this folder or zip."
    head = _head(source, names[0])
    if head[:2] == b"\x1f\x8b":
        return "this is a gzip file; unpack it and import the folder or file in it."
    if not head:
        return "the file is empty."
    if any(mark in head for mark in _WEBHOOKS):
        return "these are recorded webhook events and no export; they come in through `serve`."
    return "the format is unknown."


def _head(source: Source, name: str) -> bytes:
    with source.open(name) as stream:
        return stream.read(HEAD).removeprefix(b"\xef\xbb\xbf")
