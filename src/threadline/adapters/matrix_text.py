"""Markdown as the HTML that Matrix clients show: a small subset, everything else is escaped.

A client shows `formatted_body` where there is one and `body` otherwise, and the body is the text as
it was said, so nothing is lost where a sign was no markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

DEPTH = 4  # markup inside of markup
_SPAN = 500  # characters between two marks: keeps the search linear

_INLINE = re.compile(
    rf"(?P<ticks>`{{1,3}})(?!`)(?P<code>[^\n]{{1,{_SPAN}}}?)(?<!`)(?P=ticks)(?!`)"
    rf"|\[(?P<label>[^\[\]\n]{{1,{_SPAN}}})\]\((?P<url>(?:https?://|mailto:)[^\s()<>]{{1,2000}})\)"
    rf"|\*\*(?P<strong>[^\s*](?:.{{0,{_SPAN}}}?[^\s*])?)\*\*"
    rf"|~~(?P<gone>[^\s~](?:[^~]{{0,{_SPAN}}}[^\s~])?)~~"
    rf"|(?<![\w*])\*(?P<star>[^\s*](?:[^*]{{0,{_SPAN}}}[^\s*])?)\*(?![\w*])"
    rf"|(?<!\w)_(?P<line>[^\s_](?:[^_]{{0,{_SPAN}}}[^\s_])?)_(?!\w)",
    re.DOTALL,
)
_TAGS = {"strong": "strong", "gone": "del", "star": "em", "line": "em"}
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\s]*)[^`]*$")
_HEADING = re.compile(r"(#{1,6})[ \t]+(\S.*)$")
_BULLET = re.compile(r"[ \t]*[-*+][ \t]+(?=\S)")
_NUMBER = re.compile(r"[ \t]*(\d{1,9})[.)][ \t]+(?=\S)")
_QUOTE = re.compile(r" {0,3}> ?")
_LANGUAGE = re.compile(r"[A-Za-z0-9+#.-]{1,30}")
_MARKUP = re.compile(r"<(?!/?p>|br>)")


def formatted(text: str) -> str | None:
    """The text as HTML; None where it holds no markup, so that the plain body says it all.

    >>> formatted("a **b** <i>c</i> & `d`")
    'a <strong>b</strong> &lt;i&gt;c&lt;/i&gt; &amp; <code>d</code>'
    >>> formatted("They're \\"quoted\\" & 2 * 3 * 4") is None
    True
    """
    blocks = list(_blocks(text.split("\n")))
    if len(blocks) == 1:
        html = blocks[0].removeprefix("<p>").removesuffix("</p>")
    else:
        html = "".join(blocks)
    return html if _MARKUP.search(html) else None


def _blocks(lines: list[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if fence := _FENCE.match(line):
            end = _closing(lines, at + 1, fence[1])
            yield _code("\n".join(lines[at + 1 : end]), fence[2])
            at = end + 1
        elif heading := _HEADING.match(line):
            size = len(heading[1])
            yield f"<h{size}>{_inline(heading[2])}</h{size}>"
            at += 1
        elif _QUOTE.match(line):
            end = _while(_QUOTE, lines, at)
            quoted = [_QUOTE.sub("", one, count=1) for one in lines[at:end]]
            yield f"<blockquote>{_lines(quoted)}</blockquote>"
            at = end
        elif _BULLET.match(line):
            end = _while(_BULLET, lines, at)
            yield f"<ul>{_items(_BULLET, lines[at:end])}</ul>"
            at = end
        elif number := _NUMBER.match(line):
            end = _while(_NUMBER, lines, at)
            start = "" if int(number[1]) == 1 else f' start="{int(number[1])}"'
            yield f"<ol{start}>{_items(_NUMBER, lines[at:end])}</ol>"
            at = end
        elif not line.strip():
            at += 1
        else:
            end = at + 1
            while end < len(lines) and lines[end].strip() and not _begins(lines[end]):
                end += 1
            yield f"<p>{_lines(lines[at:end])}</p>"
            at = end


def _begins(line: str) -> bool:
    """Whether a line begins a block of its own."""
    return any(one.match(line) for one in (_FENCE, _HEADING, _QUOTE, _BULLET, _NUMBER))


def _closing(lines: list[str], at: int, mark: str) -> int:
    """The line that closes a block of code; the end of the text where none does."""
    for number in range(at, len(lines)):
        line = lines[number].strip()
        if len(line) >= len(mark) and not line.strip(mark[0]):
            return number
    return len(lines)


def _while(pattern: re.Pattern[str], lines: list[str], at: int) -> int:
    while at < len(lines) and pattern.match(lines[at]):
        at += 1
    return at


def _items(pattern: re.Pattern[str], lines: list[str]) -> str:
    return "".join(f"<li>{_inline(pattern.sub('', one, count=1))}</li>" for one in lines)


def _lines(lines: list[str]) -> str:
    return _inline("\n".join(lines)).replace("\n", "<br>")


def _code(code: str, language: str) -> str:
    known = f' class="language-{language}"' if _LANGUAGE.fullmatch(language) else ""
    return f"<pre><code{known}>{escape(code, quote=False)}</code></pre>"


def _inline(text: str, depth: int = DEPTH) -> str:
    if depth == 0:
        return escape(text, quote=False)
    made, end = [], 0
    for found in _INLINE.finditer(text):
        made.append(escape(text[end : found.start()], quote=False))
        made.append(_marked(found, depth - 1))
        end = found.end()
    made.append(escape(text[end:], quote=False))
    return "".join(made)


def _marked(found: re.Match[str], depth: int) -> str:
    if found["code"] is not None:
        return f"<code>{escape(found['code'], quote=False)}</code>"
    if found["url"] is not None:
        return f'<a href="{escape(found["url"])}">{_inline(found["label"], depth)}</a>'
    name = next(name for name in _TAGS if found[name] is not None)
    return f"<{_TAGS[name]}>{_inline(found[name], depth)}</{_TAGS[name]}>"
