"""Markdown as Slack writes it: `*bold*`, `_slanted_`, `~struck~`, `<url|label>`.

Slack's three signs are entities everywhere, so nothing an agent writes calls people, opens a
command or hides an address; only web addresses become links. What stands in code is left as it is.
"""

from __future__ import annotations

import re

from threadline.core.slack import escaped

_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.S)
_LANGUAGE = re.compile(r"\A```[\w+#.-]+\n")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(?P<title>[^\n]*?\S)[ \t]*#*[ \t]*$", re.M)
_INLINE = re.compile(
    r"!?\[(?P<label>[^\[\]\n]+)\]\((?P<url>https?://(?:[^\s()<>|\"]|\([^\s()<>|\"]*\))+)\)"
    r"|\*\*(?=[^\s*])(?P<bold>[^\n]+?)(?<=[^\s*])\*\*(?![\w*])"
    r"|(?<!\w)__(?=[^\s_])(?P<strong>[^\n]+?)(?<=[^\s_])__(?!\w)"
    r"|~~(?=[^\s~])(?P<struck>[^\n~]+?)(?<=\S)~~"
    r"|(?<![\w*])\*(?=[^\s*])(?P<italic>[^*\n]+?)(?<=[^\s*])\*(?![\w*])"
)
_SIGNS = {"bold": "*", "strong": "*", "struck": "~", "italic": "_"}


def mrkdwn(text: str) -> str:
    """The text with its Markdown in Slack's signs.

    >>> mrkdwn("**Done**, see [the log](https://x.test/?a=1&b=2) and `**a** < b`")
    '*Done*, see <https://x.test/?a=1&amp;b=2|the log> and `**a** &lt; b`'
    >>> mrkdwn("# Plan\\n~~old~~ *new* 2 * 3 * 4 <!here>")
    '*Plan*\\n~old~ _new_ 2 * 3 * 4 &lt;!here&gt;'
    """
    pieces = _CODE.split(text)
    pieces[::2] = [_words(piece) for piece in pieces[::2]]
    pieces[1::2] = [escaped(_LANGUAGE.sub("```\n", piece)) for piece in pieces[1::2]]
    return "".join(pieces)


def _words(text: str) -> str:
    made, at = [], 0
    for heading in _HEADING.finditer(text):
        made.append(_inline(text[at : heading.start()]))
        title = _inline(heading["title"])
        made.append(title if title.startswith("*") else f"*{title}*")
        at = heading.end()
    return "".join([*made, _inline(text[at:])])


def _inline(text: str) -> str:
    made, at = [], 0
    for found in _INLINE.finditer(text):
        made.append(escaped(text[at : found.start()]))
        made.append(_element(found))
        at = found.end()
    return "".join([*made, escaped(text[at:])])


def _element(found: re.Match[str]) -> str:
    if found["url"] is not None:
        url, label = escaped(found["url"]), escaped(found["label"])
        return f"<{url}>" if url == label else f"<{url}|{label}>"
    kind = found.lastgroup or ""
    sign = _SIGNS[kind]
    return f"{sign}{_inline(found[kind])}{sign}"
