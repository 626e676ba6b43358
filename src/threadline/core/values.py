"""What stands in somebody else's JSON, taken as it may be stored, or not at all.

Everything here is total: whatever stands in a field, the answer is a value of the right kind.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, tzinfo
from math import isfinite
from typing import Any

from threadline.core.model import MAX_ID_BYTES

DEPTH = 64  # how deep what is read may be nested
MAX_NAME = MAX_ID_BYTES // 4  # a character has four bytes at most
DIGITS = 20  # of a whole number: 64 bits have no more

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = re.compile("[\x00\ud800-\udfff]")
# A string, which may break off; or a bracket.
_MARKS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def clean(text: str) -> str:
    """A text without the two things no store may hold: NUL, and halves of surrogate pairs.

    >>> clean("a\\x00b")
    'a\ufffdb'
    """
    if text.isascii() and "\x00" not in text:
        return text
    return _NEVER.sub("\N{REPLACEMENT CHARACTER}", text)


def said(value: object) -> str:
    """A text as it may be stored; empty where the export holds none."""
    return clean(value) if isinstance(value, str) else ""


def person_name(*given: object) -> str:
    """What somebody is called, as it may be stored beside what they said: the first of these names
    that has something to see. Empty where none has.

    >>> person_name(None, "  ", "\x00", " Ada ", "ada")
    'Ada'
    >>> len(person_name("\N{PARTY POPPER}" * 999).encode()) <= MAX_ID_BYTES
    True
    """
    for one in given:
        name = said(one).strip()
        if name.strip("\N{REPLACEMENT CHARACTER}"):
            return name[:MAX_NAME].strip()
    return ""


def decoded(body: bytes) -> Any:
    """Bytes as JSON; None where they are none.

    What no program could use costs itself only: a number of more digits than 64 bits have, one
    beyond all numbers, or what is nested deeper than anything said is None in its place.

    >>> decoded(b'{"id": 7, "size": 1e999, "n": ' + b"9" * 5_000 + b"}")
    {'id': 7, 'size': None, 'n': None}
    >>> decoded(b'["said", ' + b"[" * 5_000 + b"]" * 5_000 + b"]")[0]
    'said'
    >>> decoded(b"{") is None
    True
    """
    if body.count(b"[") + body.count(b"{") > DEPTH:
        body = _shallow(body)
    try:
        return _JSON.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
    except (ValueError, RecursionError):
        return None


def _shallow(body: bytes) -> bytes:
    """The same JSON with a null wherever it is nested too deep."""
    kept: list[bytes] = []
    depth = begins = 0
    for mark in _MARKS.finditer(body):
        match mark[0]:
            case b"[" | b"{":
                depth += 1
                if depth == DEPTH + 1:
                    kept += (body[begins : mark.start()], b"null")
            case b"]" | b"}":
                if depth == DEPTH + 1:
                    begins = mark.end()
                depth -= 1
    return b"".join((*kept, body[begins:])) if depth <= DEPTH else b""


def _whole(digits: str) -> int | None:
    return int(digits) if len(digits) <= DIGITS else None


def _fraction(digits: str) -> float | None:
    found = float(digits)
    return found if isfinite(found) else None


_JSON = json.JSONDecoder(
    parse_int=_whole, parse_float=_fraction, parse_constant=lambda _: None, strict=True
)


def json_object(body: bytes) -> dict[str, Any]:
    """Bytes as a JSON object; anything else is an empty one."""
    found = decoded(body)
    return found if isinstance(found, dict) else {}


def one_line(text: str, most: int = 300) -> str:
    """Somebody else's words as one short line that may be shown.

    >>> one_line("not\\nnow ")
    'not now'
    """
    return "".join(one if one.isprintable() else " " for one in text[:most]).strip()


def ident(value: object) -> str | None:
    """An id as a string, byte for byte, or None where it cannot be one.

    >>> ident("1700000000.001700"), ident(1234567890123456789), ident(1.5), ident(" ")
    ('1700000000.001700', '1234567890123456789', None, None)
    """
    if type(value) is int:
        return str(value) if -(1 << 63) <= value < 1 << 64 else None
    if not isinstance(value, str) or not value.strip() or _NEVER.search(value):
        return None
    return value if len(value.encode()) <= MAX_ID_BYTES else None


def file_name(value: object) -> str:
    """The last part of a name, so that it is never a path."""
    return said(value).replace("\\", "/").rpartition("/")[2]


def size(value: object) -> int | None:
    """A number of bytes."""
    return value if type(value) is int and 0 <= value < 1 << 63 else None


def web(value: object) -> str:
    """An address on the web; what points into the export's own folder is none."""
    url = said(value)
    return url if url.startswith(("https://", "http://")) else ""


def records(value: object) -> list[dict[str, Any]]:
    """The objects in a list, whatever else is in it or stands in its place."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def instant(value: object, zone: tzinfo | None) -> datetime | None:
    """A time in ISO 8601 as UTC; one without an offset is in this zone."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
        return at and (at if at.tzinfo else at.replace(tzinfo=zone or UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def since_epoch(seconds: int, micros: int = 0) -> datetime | None:
    """A time as UTC, exact to the microsecond; None outside the calendar."""
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=micros)
    except OverflowError:
        return None


def dropping_empty(**given: Any) -> dict[str, Any]:
    """Metadata without what says nothing."""
    return {name: value for name, value in given.items() if value not in (None, "", [], {}, False)}
