"""One mail as people read it: its words, its files, who wrote it and when.

Mail is the least trustworthy of all formats, so nothing here believes a header: charsets are
tried, dates are checked, names are no paths. Headers are taken raw from the parser and decoded
here, because the standard library's structured ones raise on what real archives hold.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from email.errors import (
    CloseBoundaryNotFoundDefect,
    InvalidBase64LengthDefect,
    InvalidBase64PaddingDefect,
    MessageDefect,
    StartBoundaryNotFoundDefect,
)
from email.message import Message
from email.utils import parseaddr, parsedate_to_datetime
from html import unescape

from threadline.core.model import MAX_TEXT_BYTES, Attachment

MAX_DEPTH = 50
MAX_NAME = 2000  # looking for an address takes quadratic time
MAX_HTML = 512 * 1024  # past this it is a layout, not a letter
ELIDED = "threadline: bytes left out: "

_NEVER = re.compile("[\x00\ud800-\udfff]")
_WORD = re.compile(r"=\?([^?\s]+)\?([bBqQ])\?([^?]*)\?=")
_ADDRESS = re.compile(r"[^\s<>()\[\]\",;:]+@[^\s<>()\[\]\",;:]+")
_AT = re.compile(r"([^\s<>()\",;:]+) at ([^\s<>()\",;:]+)")
_AGAIN = re.compile(r"(\s*\[[^\]]*\])?\s*((re|aw|fwd?|wg|sv|vs|antw)\s*(\[\d+\])?\s*:\s*)+", re.I)
# Codecs that run for a quadratic time, or that read escapes nobody wrote as a charset.
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape"})
_GUESS = frozenset({"", "ascii", "us_ascii", "unknown_8bit", "x_unknown", "default", "8bit"})
_WIDER = {"gb2312": "gb18030", "iso_8859_1": "cp1252", "latin1": "cp1252"}
_BLOCKS = frozenset(
    {"address", "blockquote", "br", "div", "dl", "dt", "hr", "li", "ol", "p", "pre"}
)
_BLOCKS |= {"h1", "h2", "h3", "h4", "h5", "h6", "table", "tr", "ul"}
_READ = re.compile(r"text/(plain|html)|multipart/.*")
_FAULTS: dict[type[MessageDefect], str] = {
    CloseBoundaryNotFoundDefect: "the mail breaks off inside one of its parts.",
    StartBoundaryNotFoundDefect: "the mail has no parts where it says so.",
    InvalidBase64PaddingDefect: "a base64 part breaks off.",
    InvalidBase64LengthDefect: "a base64 part breaks off.",
}
_UNSEEN = frozenset({"script", "style", "title", "template"})
_TAG = re.compile(r"""<(/?)([a-zA-Z][a-zA-Z0-9]*|[!?])(?:[^"'<>]|"[^"]*"|'[^']*')*>""")


@dataclass(slots=True)
class Content:
    """What a mail holds: its text, its files, and what was found wrong in it."""

    text: str = ""
    attachments: list[Attachment] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def clean(text: str) -> str:
    return _NEVER.sub("\N{REPLACEMENT CHARACTER}", text)


def decode(data: bytes, charset: str) -> str:
    """The words in some charset, as well as it can be told."""
    name = re.sub(r"[^a-z0-9]+", "_", charset.split("*")[0].strip().lower())
    if name not in _GUESS and name not in _NO_CHARSETS:
        try:
            return clean(data.decode(_WIDER.get(name, name), "replace"))
        except (LookupError, ValueError):
            pass
    # Mailing lists glue their own lines to what people wrote, each in a charset of its own.
    return clean("\n".join(_guessed(line) for line in data.split(b"\n")))


def _guessed(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("cp1252", "replace")


def words(raw: str) -> str:
    """A header as it was meant: unfolded, encoded words and bare 8-bit bytes decoded."""
    line = decode(raw.encode("utf-8", "surrogateescape"), "")
    out: list[str] = []
    charset, held, end = "", b"", 0
    for word in _WORD.finditer(line):
        between = line[end : word.start()]
        # A character may be torn between two words, so words of one charset are joined first.
        if held and (between.strip() or charset != word[1].lower()):
            out.append(decode(held, charset))
            held = b""
        if between.strip() or not end:
            out.append(between)
        charset, end = word[1].lower(), word.end()
        held += _encoded(word[2], word[3])
    out.append(decode(held, charset) if held else "")
    out.append(line[end:])
    return " ".join(clean("".join(out)).split())


def _encoded(how: str, text: str) -> bytes:
    if how in "qQ":
        return binascii.a2b_qp(text.encode(errors="replace"), header=True)
    try:
        return binascii.a2b_base64(text.encode(errors="replace") + b"==")
    except binascii.Error:
        return text.encode(errors="replace")


def headers(mail: Message) -> dict[str, str]:
    """The first of each header, raw, by its name in lower case."""
    found: dict[str, str] = {}
    for name, value in mail.raw_items():
        found.setdefault(name.lower(), str(value))
    return found


def author(raw: str) -> tuple[str, str]:
    """Address (lower case) and name of a From line; archives hide the @ as " at "."""
    plain = " ".join(raw.split())[:MAX_NAME]
    if "@" not in plain:
        plain = _AT.sub(r"\1@\2", plain, count=1)
    try:
        name, address = parseaddr(plain)
    except (RecursionError, IndexError, ValueError):
        name, address = "", ""
    if "@" not in address and (found := _ADDRESS.search(plain)):
        address = found[0]
    address, name = words(address), words(name)
    return address.strip("<> ").casefold(), "" if name == address else name


def moment(raw: str, zone: tzinfo | None) -> datetime | None:
    """When it was sent, or None where the header tells no possible time."""
    try:
        sent = parsedate_to_datetime(" ".join(raw[:200].split()))
        if sent.tzinfo is None:
            # "-0000" and no zone at all look alike here: both are UTC to those who wrote them.
            sent = sent.replace(tzinfo=UTC if raw.rstrip().endswith("-0000") else zone or UTC)
        return sent.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError, AttributeError):
        return None


def subject(raw: str) -> tuple[str, str]:
    """The subject, and the same without the marks of an answer."""
    whole = words(raw)
    mark = _AGAIN.match(whole)
    bare = f"{mark[1] or ''} {whole[mark.end() :]}" if mark else whole
    return whole, " ".join(bare.split())


def content(mail: Message, message_id: str) -> Content:
    """Everything in a mail, the best of what is there in several forms."""
    found, texts = Content(), []
    for part in _chosen(mail, 0):
        kind, payload = part.get_content_type(), part.get_payload()
        filed = part.get_content_disposition() == "attachment" or part.get_filename() is not None
        # What calls itself multipart and has no parts is what a person would read as well.
        if isinstance(payload, str) and not filed and _READ.fullmatch(kind):
            data = part.get_payload(decode=True)
            text = decode(data if isinstance(data, bytes) else b"", _charset(part))
            texts.append((_readable(text) if kind == "text/html" else text).strip("\r\n"))
        else:
            number = len(found.attachments) + 1
            found.attachments.append(_attachment(part, payload, f"{message_id}#{number}"))
    found.text = "\n\n".join(text for text in texts if text).replace("\r\n", "\n")
    if len(found.text) * 4 > MAX_TEXT_BYTES and len(found.text.encode()) > MAX_TEXT_BYTES:
        found.text = found.text.encode()[:MAX_TEXT_BYTES].decode("utf-8", "ignore")
        found.faults.append("the text is longer than 4 MiB; the rest was left out.")
    defects = {type(defect) for part in mail.walk() for defect in part.defects}
    found.faults += [fault for kind_of, fault in _FAULTS.items() if kind_of in defects]
    return found


def _chosen(part: Message, depth: int) -> Iterator[Message]:
    """The parts to show: of alternatives the plain one, else the HTML, else the last."""
    inner = part.get_payload()
    if not isinstance(inner, list) or part.get_content_maintype() != "multipart":
        yield part
        return
    if depth >= MAX_DEPTH:
        return
    parts = [each for each in inner if isinstance(each, Message)]
    if part.get_content_subtype() == "alternative":
        plain = [each for each in parts if each.get_content_type() == "text/plain"]
        parts = plain[:1] or [each for each in parts if _has_html(each)][-1:] or parts[-1:]
    for each in parts:
        yield from _chosen(each, depth + 1)


def _has_html(part: Message) -> bool:
    return any(each.get_content_type() == "text/html" for each in part.walk())


def _charset(part: Message) -> str:
    try:
        return part.get_content_charset("") or ""
    except (ValueError, LookupError, TypeError):
        return ""


def _attachment(part: Message, payload: object, numbered: str) -> Attachment:
    size: int | None = None
    if isinstance(payload, str):
        if payload.startswith(ELIDED) and payload[len(ELIDED) :].strip().isdigit():
            size = int(payload[len(ELIDED) :][:20])
        else:
            data = part.get_payload(decode=True)
            size = len(data) if isinstance(data, bytes) else None
    given = headers(part)
    name = words(part.get_filename() or "")
    named = given.get("content-id", "").strip().strip("<>")
    return Attachment(
        id=clean(named) if named.isascii() and named else numbered,
        type=clean(part.get_content_type()),
        name=re.split(r"[/\\]", name)[-1],
        size=size,
    )


def _readable(html: str) -> str:
    """HTML as lines of text, without what a browser does not show.

    Not `html.parser`: on unclosed tags it takes quadratic time, and anyone may send a mail.
    """
    html, out, i = html[:MAX_HTML], list[str](), 0
    lower = html.lower()  # tags only: its length may differ from the text's outside of ASCII
    lower = lower if len(lower) == len(html) else html
    as_written = False
    while 0 <= i < len(html):
        mark = html.find("<", i)
        text = html[i:] if mark < 0 else html[i:mark]
        at_start = not out or out[-1][-1].isspace()
        if text := _visible(text, at_start=at_start, as_written=as_written):
            out.append(text)
        if mark < 0:
            break
        if html.startswith("<!--", mark):
            end = html.find("-->", mark)
            i = end + 3 if end >= 0 else end
            continue
        if not (tag := _TAG.match(html, mark, mark + 1000)):
            # A tag of more than that, or a sign that is no tag.
            end = html.find(">", mark) if html[mark + 1 : mark + 2].isalpha() else -1
            out += [] if end >= 0 else ["<"]
            i = max(end, mark) + 1
            continue
        name, i = tag[2].lower(), tag.end()
        if name in _BLOCKS:
            out.append("\n- " if name == "li" and not tag[1] else "\n")
        if name == "pre":
            as_written = not tag[1]
        if name in _UNSEEN and not tag[1]:
            i = lower.find(f"</{name}", i)
    lines = [line.rstrip() for line in "".join(out).split("\n")]
    return clean(re.sub(r"\n{3,}", "\n\n", "\n".join(lines))).strip("\n")


def _visible(text: str, *, at_start: bool, as_written: bool) -> str:
    with suppress(ValueError):  # a character reference of thousands of digits
        text = unescape(text)
    if as_written:
        return text
    text = re.sub(r"\s+", " ", text)
    return text.lstrip() if at_start else text
