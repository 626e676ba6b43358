"""Telegram's texts: what entities mark, and our Markdown in Telegram's HTML.

Offsets and lengths of entities count UTF-16 units. What we say is read as the Markdown that agents
write, as far as Telegram can show it; everything else stays as it was typed. Only web addresses
become links, for a link to `tg://user` would be a mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# A block runs to the fence that closes it, or to the end.
_BLOCK = re.compile(
    r"^ {0,3}(?P<mark>`{3,}|~{3,})[ \t]*(?P<language>[\w+#.-]*)[^\n`]*\n"
    r"(?P<code>.*?)(?:^ {0,3}(?P=mark)[`~]*[ \t]*(?:\n|\Z)|\Z)",
    re.M | re.S,
)
_HEADING = re.compile(r"^ {0,3}#{1,6} +(?P<title>[^\n]*?)[ #]*$")
_INLINE = re.compile(
    r"(?P<tick>`+)(?!`)(?P<code>[^\n]+?)(?<!`)(?P=tick)(?!`)"
    r"|\[(?P<label>[^\[\]\n]+)\]\((?P<url>https?://(?:[^\s()<>\"]|\([^\s()<>\"]*\))+)\)"
    r"|\*\*(?=[^\s*])(?P<bold>[^\n]+?)(?<=[^\s*])\*\*(?!\*)"
    r"|(?<!\w)__(?=[^\s_])(?P<strong>[^\n]+?)(?<=[^\s_])__(?!\w)"
    r"|~~(?=[^\s~])(?P<struck>[^\n]+?)(?<=[^\s~])~~"
    r"|(?<![\w*])\*(?=[^\s*])(?P<italic>[^\n]+?)(?<=[^\s*])\*(?![\w*])"
    r"|(?<![\w_])_(?=[^\s_])(?P<slanted>[^\n]+?)(?<=[^\s_])_(?!\w)"
)
_TAGS = {"bold": "b", "strong": "b", "struck": "s", "italic": "i", "slanted": "i"}
DEPTH = 4


def marked(text: str, offset: int, length: int) -> str:
    """What an entity marks; empty where it lies outside of the text.

    >>> marked("🎉 @sim_bot hi", 3, 8)
    '@sim_bot'
    """
    if offset < 0 or length <= 0:
        return ""
    units = text.encode("utf-16-le", "surrogatepass")
    return units[2 * offset : 2 * (offset + length)].decode("utf-16-le", "ignore")


def escaped(text: str) -> str:
    """A text in which nothing is markup. Quotes need no escape outside of an attribute."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def html(text: str) -> str | None:
    """The text in Telegram's HTML, every tag closed; None where it holds no markup.

    >>> html("**Done**: `a < b`, see [here](https://example.org/?a=1&b=2)")
    '<b>Done</b>: <code>a &lt; b</code>, see <a href="https://example.org/?a=1&amp;b=2">here</a>'
    >>> html("2 * 3 * 4 = snake_case_name") is None
    True
    """
    made = "".join(_blocks(text))
    return None if made == escaped(text) else made


def _blocks(text: str) -> Iterator[str]:
    at = 0
    for block in _BLOCK.finditer(text):
        yield from _lines(text[at : block.start()])
        code = block["code"].removesuffix("\n")
        if code.strip():
            inner = escaped(code)
            if block["language"]:
                inner = f'<code class="language-{escaped(block["language"])}">{inner}</code>'
            yield f"<pre>{inner}</pre>"
            yield "\n" if block.group().endswith("\n") and block.end() < len(text) else ""
        else:
            yield escaped(block.group())
        at = block.end()
    yield from _lines(text[at:])


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines(keepends=True):
        body = line.rstrip("\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
        heading = _HEADING.match(body)
        if heading is not None and heading["title"].strip():
            yield f"<b>{_inline(heading['title'], frozenset({'b'}))}</b>"
        else:
            yield _inline(body, frozenset())
        yield line[len(body) :]


def _inline(text: str, inside: frozenset[str]) -> str:
    """One line. What is open already is not opened again, so that tags never cross."""
    if len(inside) >= DEPTH:
        return escaped(text)
    made, at = [], 0
    for found in _INLINE.finditer(text):
        made.append(escaped(text[at : found.start()]))
        made.append(_element(found, inside))
        at = found.end()
    made.append(escaped(text[at:]))
    return "".join(made)


def _element(found: re.Match[str], inside: frozenset[str]) -> str:
    if found["code"] is not None:
        code = found["code"]
        bare = code.strip() and code[0] == code[-1] == " "
        return f"<code>{escaped(code[1:-1] if bare and len(code) > 2 else code)}</code>"
    if found["url"] is not None:
        label = _inline(found["label"], inside | {"a"})
        if "a" in inside:
            return label
        url = escaped(found["url"]).replace('"', "&quot;")
        return f'<a href="{url}">{label}</a>'
    name = found.lastgroup or ""
    tag, words = _TAGS[name], found[name]
    inner = _inline(words, inside | {tag})
    return inner if tag in inside else f"<{tag}>{inner}</{tag}>"
