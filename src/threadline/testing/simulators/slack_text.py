"""What Slack makes of a text: entities escaped, links found, mentions read, blocks written."""

from __future__ import annotations

import html
import re
from typing import Any

_CONTROL = re.compile(
    r"<([@#!][^<>\s|]+(?:\|[^<>]*)?|(?:https?|mailto|tel):[^<>\s|]+(?:\|[^<>]*)?)>"
)
_CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
_LINK = re.compile(r"https?://[^\s<>|]*[^\s<>|.,;:!?'\")\]]")
_BROADCAST = ("!here", "!channel", "!everyone")


def formatted(text: str) -> str:
    """A text as it is kept: control sequences stay, other `&`, `<` and `>` are escaped."""
    made, last = [], 0
    for found in _CONTROL.finditer(text):
        made += [_plain(text[last : found.start()]), found[0]]
        last = found.end()
    return "".join([*made, _plain(text[last:])])


def _plain(text: str) -> str:
    text = re.sub(r"&(?!(?:amp|lt|gt);)", "&amp;", text).replace("<", "&lt;").replace(">", "&gt;")
    parts = _CODE.split(text)
    parts[::2] = [_LINK.sub(lambda link: f"<{link[0]}>", one) for one in parts[::2]]
    return "".join(parts)


def called(text: str) -> list[str]:
    """Whom a text calls: users as `@U1`, groups as `!subteam^S1`, everybody as `!here` …"""
    found = [one[1].partition("|")[0] for one in _CONTROL.finditer(text)]
    return [one for one in found if one.startswith(("@", "!subteam", *_BROADCAST))]


def links(text: str) -> list[str]:
    """The addresses in a text that was kept."""
    found = [one[1].partition("|")[0] for one in _CONTROL.finditer(text)]
    return [one for one in found if one.startswith("http")]


def blocks(text: str) -> list[dict[str, Any]]:
    """The rich text that stands beside a message's text."""
    parts: list[dict[str, Any]] = []
    last = 0
    for found in _CONTROL.finditer(text):
        parts += [*_words(text[last : found.start()]), _element(found[1])]
        last = found.end()
    section = {"type": "rich_text_section", "elements": [*parts, *_words(text[last:])]}
    return [{"type": "rich_text", "block_id": "b1", "elements": [section]}]


def _words(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": html.unescape(text)}] if text else []


def _element(control: str) -> dict[str, Any]:
    target, _, label = control.partition("|")
    if target.startswith("@"):
        return {"type": "user", "user_id": target[1:]}
    if target.startswith("#"):
        return {"type": "channel", "channel_id": target[1:]}
    if target.startswith("!subteam^"):
        return {"type": "usergroup", "usergroup_id": target.removeprefix("!subteam^")}
    if target.startswith("!"):
        return {"type": "broadcast", "range": target[1:]}
    return {"type": "link", "url": target} | ({"text": html.unescape(label)} if label else {})
