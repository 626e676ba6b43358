"""Telegram's three ways of writing formatted text, read as strictly as its servers read them.

Offsets of entities count UTF-16 units; those in complaints count UTF-8 bytes, as Telegram's do.
"""

from __future__ import annotations

import re
from typing import Any

MOST_ENTITIES = 100
TAGS = {
    **dict.fromkeys(("b", "strong"), "bold"),
    **dict.fromkeys(("i", "em"), "italic"),
    **dict.fromkeys(("u", "ins"), "underline"),
    **dict.fromkeys(("s", "strike", "del"), "strikethrough"),
    **dict.fromkeys(("tg-spoiler", "span"), "spoiler"),
    **{"a": "text_link", "code": "code", "pre": "pre", "blockquote": "blockquote"},
    "tg-emoji": "custom_emoji",
}
RESERVED = frozenset("_*[]()~`>#+-=|{}.!")
MARKS = {
    **{"*": "bold", "_": "italic", "__": "underline", "~": "strikethrough", "||": "spoiler"},
    **{"`": "code", "```": "pre", "[": "text_link", "![": "custom_emoji", ">": "blockquote"},
}
_TAG = re.compile(
    r"<(/?)([a-zA-Z][\w-]*)((?:\s+[\w-]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[\w.-]+))?)*)\s*>"
)
_VALUE = re.compile(r"([\w-]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([\w.-]+)))?")
_REFERENCE = re.compile(r"&(#x[0-9a-fA-F]{1,6}|#[0-9]{1,7}|lt|gt|amp|quot);?")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_OF_ITSELF = (
    ("bot_command", re.compile(r"(?<![\w/])/[A-Za-z0-9_]{1,32}(?:@\w{3,32})?(?![\w/])")),
    ("mention", re.compile(r"(?<!\w)@[A-Za-z]\w{2,31}")),
    ("url", re.compile(r"https?://[^\s<>\"]+[^\s<>\".,;:!?)]")),
)


class CannotParse(ValueError):
    """The text does not follow the rules of its parse mode; the words are Telegram's."""


def units(text: str) -> int:
    """The length in UTF-16 units.

    >>> units("a😀")
    3
    """
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def parsed(text: str, mode: str) -> tuple[str, list[dict[str, Any]]]:
    """The plain text and its entities. Raises `CannotParse`.

    >>> parsed("<b>x</b> &lt; y", "HTML")
    ('x < y', [{'type': 'bold', 'offset': 0, 'length': 1}])
    >>> parsed(r"*x* 1\\.5", "MarkdownV2")
    ('x 1.5', [{'type': 'bold', 'offset': 0, 'length': 1}])
    """
    match mode.lower():
        case "":
            return text, []
        case "html":
            return _html(text)
        case "markdownv2":
            return _markdown(text, strict=True)
        case "markdown":
            return _markdown(text, strict=False)
    raise CannotParse("unsupported parse_mode")


def of_itself(text: str) -> list[dict[str, Any]]:
    """The entities that a text has without being told: mentions, commands, addresses.

    >>> of_itself("@sim_bot hi")
    [{'type': 'mention', 'offset': 0, 'length': 8}]
    """
    found = [
        {"type": kind, "offset": units(text[: one.start()]), "length": units(one.group())}
        for kind, pattern in _OF_ITSELF
        for one in pattern.finditer(text)
    ]
    return sorted(found, key=lambda one: one["offset"])


class _Written:
    """What was read so far, and the entities that are still open."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.parts: list[str] = []
        self.length = 0
        self.entities: list[dict[str, Any]] = []
        self.open: list[tuple[str, int, int, dict[str, Any]]] = []

    def put(self, text: str) -> None:
        """Plain text."""
        self.parts.append(text)
        self.length += units(text)

    def begin(self, mark: str, at: int, **facts: Any) -> None:
        """An entity opens at a place of the source."""
        self.open.append((mark, self.length, at, facts))

    @property
    def top(self) -> str:
        """The mark of the innermost open entity."""
        return self.open[-1][0] if self.open else ""

    def end(self, kind: str, **facts: Any) -> None:
        """The innermost entity closes. An empty one is none."""
        _, offset, _, known = self.open.pop()
        if self.length > offset:
            about = {"type": kind, "offset": offset, "length": self.length - offset}
            self.entities.append(about | known | facts)

    def byte(self, at: int) -> int:
        """A place of the source in bytes."""
        return len(self.source[:at].encode("utf-8", "replace"))

    def done(self) -> tuple[str, list[dict[str, Any]]]:
        """All of it."""
        found = sorted(self.entities, key=lambda one: (one["offset"], -one["length"]))
        return "".join(self.parts), found[:MOST_ENTITIES]


def _html(source: str) -> tuple[str, list[dict[str, Any]]]:
    got, at = _Written(source), 0
    while at < len(source):
        letter = source[at]
        if letter == "&" and (one := _REFERENCE.match(source, at)):
            got.put(_referred(one.group(1)))
            at = one.end()
        elif letter == "<":
            at = _tag(got, source, at)
        else:
            got.put(letter)
            at += 1
    if got.open:
        raise CannotParse(f'Can\'t find end tag corresponding to start tag "{got.top}"')
    return got.done()


def _referred(name: str) -> str:
    if not name.startswith("#"):
        return _NAMED[name]
    number = int(name[2:], 16) if name[1] == "x" else int(name[1:])
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else ""


def _tag(got: _Written, source: str, at: int) -> int:
    where = f"at byte offset {got.byte(at)}"
    one = _TAG.match(source, at)
    if one is None:
        raise CannotParse(f"Unsupported start tag or unclosed tag {where}")
    closing, name, rest = one.group(1), one.group(2).lower(), one.group(3)
    if closing:
        if not got.open:
            raise CannotParse(f"Unexpected end tag {where}")
        if name != got.top:
            raise CannotParse(
                f'Unmatched end tag {where}, expected "</{got.top}>", found "</{name}>"'
            )
        kind = TAGS[name]
        if kind == "text_link" and not got.open[-1][3].get("url"):
            got.open.pop()
        elif kind == "code" and len(got.open) > 1 and got.open[-2][0] == "pre":
            language = got.open.pop()[3].get("language")
            if language:
                got.open[-1][3]["language"] = language
        else:
            got.end(kind)
        return one.end()
    if name not in TAGS:
        raise CannotParse(f'Unsupported start tag "{name}" {where}')
    values = {
        found[1].lower(): found[2] or found[3] or found[4] or "" for found in _VALUE.finditer(rest)
    }
    if name == "span" and values.get("class") != "tg-spoiler":
        raise CannotParse(f'Tag "span" must have class "tg-spoiler" {where}')
    facts: dict[str, Any] = {}
    if name == "a":
        facts["url"] = values.get("href", "")
    elif name == "code" and values.get("class", "").startswith("language-"):
        facts["language"] = values["class"].removeprefix("language-")
    elif name == "tg-emoji":
        facts["custom_emoji_id"] = values.get("emoji-id", "")
    got.begin(name, at, **facts)
    return one.end()


def _markdown(source: str, *, strict: bool) -> tuple[str, list[dict[str, Any]]]:
    """MarkdownV2 where `strict`, else the old Markdown, which nests nothing and escapes less."""
    got, at = _Written(source), 0
    while at < len(source):
        letter = source[at]
        following = source[at + 1 : at + 2]
        escapable = following.isascii() and following if strict else following in tuple("_*`[")
        if letter == "\\" and following and escapable:
            got.put(following)
            at += 2
        elif got.top in ("`", "```"):
            at = _code(got, source, at)
        elif got.open and (not strict or letter != "\n") and _closes(got, source, at, strict):
            at = _close(got, source, at)
        else:
            at = _plain(got, source, at, strict)
    if got.top == ">":
        got.end("blockquote")
    if got.open:
        name, byte = MARKS[got.top], got.byte(got.open[-1][2])
        what = f"{_titled(name)} entity" if strict else "the entity starting"
        raise CannotParse(f"Can't find end of {what} at byte offset {byte}")
    return got.done()


def _titled(kind: str) -> str:
    return {"text_link": "TextUrl", "custom_emoji": "CustomEmoji"}.get(kind, kind.capitalize())


def _code(got: _Written, source: str, at: int) -> int:
    """Inside code only its own end means something."""
    if source.startswith(got.top, at):
        mark = got.top
        facts = {}
        if mark == "```":
            language = source[got.open[-1][2] + 3 : at].partition("\n")[0]
            if language and "\n" in source[got.open[-1][2] + 3 : at] and language.isalnum():
                facts["language"] = language
        got.end(MARKS[mark], **facts)
        return at + len(mark)
    got.put(source[at])
    return at + 1


def _mark(source: str, at: int, strict: bool) -> str:
    """The mark that stands here, the longest there is."""
    longest = ("```", "![", "__", "||", "*", "_", "~", "`", "[") if strict else ("```", *"*_`[")
    return next((one for one in longest if source.startswith(one, at)), "")


def _closes(got: _Written, source: str, at: int, strict: bool) -> bool:
    if got.top in ("[", "!["):
        return source[at] == "]"
    if got.top == "_" and strict:
        return source[at] == "_" and source[at + 1 : at + 2] != "_"
    return _mark(source, at, strict) == got.top


def _close(got: _Written, source: str, at: int) -> int:
    mark = got.top
    if mark not in ("[", "!["):
        got.end(MARKS[mark])
        return at + len(mark)
    if source[at + 1 : at + 2] != "(":
        got.open.pop()
        return at + 1
    end = source.find(")", at)
    if end < 0:
        raise CannotParse(f"Can't find end of a URL at byte offset {got.byte(at + 1)}")
    url = source[at + 2 : end].replace("\\", "")
    if mark == "![":
        got.end("custom_emoji", custom_emoji_id=url.rpartition("=")[2])
    else:
        got.end("text_link", url=url)
    return end + 1


def _plain(got: _Written, source: str, at: int, strict: bool) -> int:
    letter = source[at]
    fresh = at == 0 or source[at - 1] == "\n"
    if strict and letter == "\n" and got.top == ">":
        if source[at + 1 : at + 2] != ">":
            got.end("blockquote")
        got.put("\n")
        return at + 1
    if strict and letter == ">" and fresh:
        if got.top != ">":
            got.begin(">", at)
        return at + 1
    mark = _mark(source, at, strict)
    if mark and (strict or not got.open):
        got.begin(mark, at)
        if mark == "```" and (line := re.match(r"```\w*\n", source[at:])):
            return at + line.end()
        return at + len(mark)
    if strict and letter in RESERVED:
        raise CannotParse(
            f"Character '{letter}' is reserved and must be escaped with the preceding '\\'"
        )
    got.put(letter)
    return at + 1
