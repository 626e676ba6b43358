"""Slack's way of writing text, read back: mentions, links, entities, and cards without words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from threadline.core.values import records, said

Naming = Callable[[str], str]

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
