"""Markdown as WhatsApp writes it: `*bold*`, `~struck~`, headings in bold, links beside their words.

What stands in code is left as it is. Nothing gets longer, so a part that fits still does.
"""

from __future__ import annotations

import re

_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.S)
_LANGUAGE = re.compile(r"\A```[\w+#.-]+\n")
_HEADING = re.compile(r"^#{1,6}[ \t]+([^\n]*?\S)[ \t]*#*[ \t]*$", re.M)
_BOLD = re.compile(r"\*\*(?=[^\s*])([^\n]*?\S)\*\*(?![\w*])")
_STRUCK = re.compile(r"~~(?=\S)([^\n~]*?\S)~~")
_LINK = re.compile(r"!?\[([^\]\n]+)\]\((https?://[^\s()]+)\)")


def whatsapp_text(text: str) -> str:
    """The text with its Markdown in WhatsApp's signs.

    >>> whatsapp_text("**Done**, see [the log](https://x.test/1) and `**raw**`")
    '*Done*, see the log (https://x.test/1) and `**raw**`'
    >>> whatsapp_text("# Plan\\n~~old~~ 2 ** 3 ** 4")
    '*Plan*\\n~old~ 2 ** 3 ** 4'
    """
    pieces = _CODE.split(text)
    pieces[::2] = [_words(piece) for piece in pieces[::2]]
    pieces[1::2] = [_LANGUAGE.sub("```\n", piece) for piece in pieces[1::2]]
    return "".join(pieces)


def _words(text: str) -> str:
    text = _LINK.sub(_link, text)
    text = _BOLD.sub(r"*\1*", text)
    text = _STRUCK.sub(r"~\1~", text)
    return _HEADING.sub(_heading, text)


def _link(found: re.Match[str]) -> str:
    words, url = found.groups()
    return url if words == url else f"{words} ({url})"


def _heading(found: re.Match[str]) -> str:
    words = found.group(1)
    return words if words.startswith("*") else f"*{words}*"
