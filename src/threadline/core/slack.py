"""Slack's words, the same in an export, in an event and in a page of history.

Stamps are ids and times at once and stay the strings they are. Texts are read back: mentions, links
and entities; of a message without words of its own its cards and blocks are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from threadline.core.model import Attachment
from threadline.core.values import file_name, ident, records, said, since_epoch, size, web

Naming = Callable[[str], str]

MESSAGES = frozenset(
    {
        "",
        "bot_message",
        "me_message",
        "thread_broadcast",
        "file_share",
        "file_comment",
        "slackbot_response",
    }
)
MEMBERS = frozenset({"channel_join", "channel_leave", "group_join", "group_leave"})
SLACKBOT = "USLACKBOT"
DEPTH = 12

_TS = re.compile(r"[0-9]{1,12}\.[0-9]{1,12}")

_TAG = re.compile(r"<([@#!][^<>\n]+|[A-Za-z][A-Za-z0-9+.-]*:[^<>\n]+)>|&(amp|lt|gt);")
_ENTITY = re.compile(r"&(amp|lt|gt);")
_PLAIN = {"amp": "&", "lt": "<", "gt": ">"}
_UNKNOWN: Mapping[str, str] = MappingProxyType({})


def plain(text: str, name: Naming = str, channels: Mapping[str, str] = _UNKNOWN) -> str:
    """A text as a reader sees it; entities are decoded once.

    >>> plain("<@U1> see <https://a.example?x=1&amp;y=2|this> &amp;lt; <#C1|ops> <!here>")
    '@U1 see this (https://a.example?x=1&y=2) &lt; #ops @here'
    """

    def read(found: re.Match[str]) -> str:
        if found[2]:
            return _PLAIN[found[2]]
        target, _, label = found[1].partition("|")
        return _entities(_tag(target, label, name, channels))

    return _TAG.sub(read, text)


def _tag(target: str, label: str, name: Naming, channels: Mapping[str, str]) -> str:
    match target[0], target[1:]:
        case "@", user:
            known = name(user)
            return "@" + (known if known != user else label or user)
        case "#", channel:
            return "#" + (label or channels.get(channel) or channel)
        case "!", command:
            if command.startswith("date^") or command.startswith("subteam^"):
                return label or command.split("^")[1]
            return label or "@" + command
    bare = target.removeprefix("mailto:").removeprefix("tel:")
    return bare if label in ("", bare, target) else f"{label} ({target})"


def _entities(text: str) -> str:
    return _ENTITY.sub(lambda found: _PLAIN[found[1]], text)


def cards(entry: dict[str, Any], name: Naming = str, channels: Mapping[str, str] = _UNKNOWN) -> str:
    """What the cards of a message say, for one that has no words of its own."""
    lines = []
    for card in records(entry.get("attachments")):
        parts = [said(card.get(part)) for part in ("pretext", "title", "text")]
        lines += [part for part in parts if part.strip()] or [said(card.get("fallback"))]
    return "\n".join(plain(line, name, channels) for line in lines if line.strip())


def stamp(value: object) -> str | None:
    """A stamp of Slack's, digit for digit, or None where this is none.

    >>> stamp("1700000000.001700"), stamp(1700000000.0017), stamp("now")
    ('1700000000.001700', None, None)
    """
    return value if isinstance(value, str) and _TS.fullmatch(value) else None


def order(ts: str) -> tuple[int, str]:
    """What stamps are sorted by."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds), fraction


def at(ts: str) -> datetime | None:
    """The time a stamp tells, None where it is none or lies outside the calendar."""
    if not _TS.fullmatch(ts):
        return None
    seconds, _, fraction = ts.partition(".")
    return since_epoch(int(seconds), int(fraction[:6].ljust(6, "0")))


def attachment(given: dict[str, Any]) -> Attachment:
    """A file of a message, as data."""
    mode = given.get("mode")
    gone = mode if mode in ("tombstone", "hidden_by_limit") else ""
    return Attachment(
        id=ident(given.get("id")) or "",
        type=gone or said(given.get("mimetype")) or said(given.get("filetype")),
        name=file_name(given.get("name")),
        size=size(given.get("size")),
        url=web(given.get("url_private")),
    )


def called(entry: dict[str, Any]) -> str:
    """The name Slack shows: the chosen one, else the real one, else the login."""
    profile = entry.get("profile")
    inner = profile if isinstance(profile, dict) else {}
    for name in (
        inner.get("display_name"),
        entry.get("display_name"),
        entry.get("real_name"),
        inner.get("real_name"),
        entry.get("name"),
    ):
        if said(name).strip():
            return said(name)
    return ""
