"""Slack's words, the same in an export, in an event and in a page of history.

Stamps are ids and times at once and stay the strings they are. Texts are read back: mentions, links
and entities; of a message without words of its own its blocks and cards are read. The addresses and
ids of an export and of what is heard are made here, so that both are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from threadline.core.model import Actor, Attachment, ConversationRef, Kind
from threadline.core.values import (
    dropping_empty,
    file_name,
    ident,
    person_name,
    records,
    said,
    since_epoch,
    size,
    web,
)

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
SLACKS = {SLACKBOT: "Slackbot", "USLACK": "Slack"}
DEPTH = 12
NAMED = 20

_TS = re.compile(r"[0-9]{1,12}\.[0-9]{1,12}")

_TAG = re.compile(r"<([@#!][^<>\n]+|[A-Za-z][A-Za-z0-9+.-]*:[^<>\n]+)>|&(amp|lt|gt);")
_ENTITY = re.compile(r"&(amp|lt|gt);")
_PLAIN = {"amp": "&", "lt": "<", "gt": ">"}
_UNKNOWN: Mapping[str, str] = MappingProxyType({})
_NOBODY: Mapping[str, Actor] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Places:
    """The maker of the addresses of one account.

    >>> places = Places("slack", "T1")
    >>> str(places.room("C9")), str(places.thread("C9", "1700000000.001700"))
    ('slack/T1/C9', 'slack/T1/C9/1700000000.001700')
    """

    provider: str
    account_id: str
    scope_id: str = "default"

    def room(self, channel: str, kind: Kind | None = None) -> ConversationRef:
        """A channel, a direct message, a group's direct message: by its own id."""
        return ConversationRef(
            self.provider, self.account_id, channel, None, self.scope_id, kind or kind_of(channel)
        )

    def thread(self, channel: str, root: str) -> ConversationRef:
        """What hangs on a message: by that message's stamp, which only its channel makes unique."""
        return ConversationRef(
            self.provider, self.account_id, root, channel, self.scope_id, Kind.THREAD
        )


def kind_of(channel: str) -> Kind:
    """What a channel is by the first letter of its id: that of a direct message is a D."""
    return Kind.DM if channel.startswith("D") else Kind.ROOM


def root_of(entry: Mapping[str, Any]) -> str | None:
    """The stamp of the message whose thread an entry belongs to; None where it is in the channel.

    The root of a thread names itself and stays in the channel.
    """
    root = stamp(entry.get("thread_ts"))
    return None if root == entry.get("ts") else root


def edit_id(ts: str, at: str) -> str:
    """The id of an edit of a message, told at a stamp."""
    return f"edit:{ts}:{at}"


def delete_id(ts: str) -> str:
    """The id of the deletion of a message: it happens once."""
    return f"delete:{ts}"


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


def words(
    entry: Mapping[str, Any], name: Naming = str, channels: Mapping[str, str] = _UNKNOWN
) -> str:
    """What a message says; one without a text of its own says what its blocks and cards do."""
    text = plain(said(entry.get("text")), name, channels)
    if text.strip():
        return text
    found = [*_blocks(entry.get("blocks")), *_cards(entry)]
    lines = [plain(line, name, channels) for line in found if line.strip()]
    return "\n".join(lines) or text


def _cards(entry: Mapping[str, Any]) -> Iterator[str]:
    for card in records(entry.get("attachments")):
        parts = [said(card.get(part)) for part in ("pretext", "title", "text")]
        spoken = [part for part in parts if part.strip()]
        yield from spoken or [said(card.get("fallback"))]


def _blocks(given: object) -> Iterator[str]:
    """The lines of blocks, in the way of writing that texts have."""
    for block in records(given):
        match block:
            case {"type": "rich_text"}:
                yield from _rich(block, DEPTH)
            case {"type": "image"}:
                yield said(block.get("alt_text"))
            case _:
                inner = [block.get("text"), *records(block.get("fields"))]
                for one in [*inner, *records(block.get("elements"))]:
                    yield _worded(one)


def _worded(given: object) -> str:
    """A text, or an object that has one; words that are no markup are made so."""
    if isinstance(given, dict):
        text = given.get("text")
        if isinstance(text, dict):
            return _worded(text)
        return escaped(said(text)) if given.get("type") == "plain_text" else said(text)
    return said(given)


def _rich(block: Mapping[str, Any], depth: int) -> Iterator[str]:
    """The lines of a rich text: one for each of its sections, quotes, items of a list."""
    for part in records(block.get("elements")) if depth else ():
        if part.get("type") == "rich_text_list":
            yield from (f"- {line}" for line in _rich(part, depth - 1))
        else:
            yield "".join(map(_piece, records(part.get("elements"))))


def _piece(one: Mapping[str, Any]) -> str:
    match one:
        case {"type": "user", "user_id": str(user)}:
            return f"<@{said(user)}>"
        case {"type": "channel", "channel_id": str(channel)}:
            return f"<#{said(channel)}>"
        case {"type": "broadcast", "range": str(whom)}:
            return f"<!{said(whom)}>"
        case {"type": "emoji", "name": str(emoji)}:
            return f":{said(emoji)}:"
        case {"type": "link", "url": str(url)}:
            label = said(one.get("text"))
            return (
                f"<{escaped(said(url))}|{escaped(label)}>" if label else f"<{escaped(said(url))}>"
            )
    return escaped(said(one.get("text")))


def escaped(text: str) -> str:
    """A text in which nothing is a mention, a command or a link: Slack's three signs as entities.

    >>> escaped("<!here> & 'co'")
    "&lt;!here&gt; &amp; 'co'"
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
    return person_name(
        inner.get("display_name"),
        entry.get("display_name"),
        entry.get("real_name"),
        inner.get("real_name"),
        entry.get("name"),
    )


def author(entry: Mapping[str, Any], people: Mapping[str, Actor] = _NOBODY) -> Actor | None:
    """Who wrote an entry; None where nobody is named. `people` are those whose names are known."""
    comment = entry.get("comment")
    user = ident(entry.get("user"))
    user = user or (ident(comment.get("user")) if isinstance(comment, dict) else None)
    bot, name = ident(entry.get("bot_id")), said(entry.get("username"))
    found = user or bot or ident(entry.get("username"))
    if found is None:
        return None
    known = people.get(found)
    if not name and known:
        name = known.name
    for inner in (entry.get("user_profile"), entry.get("bot_profile")):
        if not name and isinstance(inner, dict):
            name = called(inner)
    name = name or SLACKS.get(found, "")
    is_bot = known.is_bot if known else bool(bot or not user or found in SLACKS)
    return Actor(found, name or found, is_bot or entry.get("subtype") == "bot_message")


def about(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What an entry says beside its words, as metadata."""
    edited, subtype = entry.get("edited"), said(entry.get("subtype"))
    edited_at = at(said(edited.get("ts"))) if isinstance(edited, dict) else None
    return dropping_empty(
        subtype=subtype,
        broadcast=subtype == "thread_broadcast",
        edited_at=edited_at and edited_at.isoformat(),
        reactions=[
            dropping_empty(
                name=said(each.get("name")),
                count=size(each.get("count")),
                users=[said(user) for user in _few(each.get("users"))],
            )
            for each in records(entry.get("reactions"))
        ],
    )


def _few(given: object) -> list[object]:
    return given[:NAMED] if isinstance(given, list) else []
