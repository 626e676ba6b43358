"""Bytes as no platform sends them: what was recorded, bent in a few places.

`random` may be any `random.Random`: a seeded one where speed counts, hypothesis's where a failure
is to be made small.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any
from urllib.parse import parse_qsl, urlencode

from threadline.core.wire import Request

# What may stand anywhere in somebody's JSON.
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 2**31, 2**53, 2**70, -(2**70), float("inf"), float("nan")),
    *("", " ", "x", "0", "-1", "\x00", "\ud800", "é" * 600, "🎉" * 300, "a:b/../c?d#e", "\n"),
    *("2024-02-30T25:61:61Z", "9" * 400, "@everyone", "<b>", "null", "$1", "text", "private"),
    *([], [[]], [None], [{}], {}, {"id": 1}, {"": {}}, [1, "2", {"id": "3"}]),
)
KINDS: tuple[Any, ...] = (None, True, -1, 1.5, "\x00", "é" * 600, [], {}, [{}])
HEADERS = ("", " ", "x", "\x00", "é", "\ud800", "0", "9" * 40, "=", "sha256=", "Bearer ", "v0=")


def mutated(request: Request, random: Random) -> Request:
    """The request with one to four changes, anywhere in its body; rarely in its headers too."""
    for _ in range(random.randint(1, 4)):
        change: Callable[[bytes, Random], bytes] = random.choice(CHANGES)
        request = replace(request, body=change(request.body, random))
    if request.headers and random.randrange(8) == 0:
        name = random.choice(sorted(request.headers))
        request = replace(request, headers={**request.headers, name: random.choice(HEADERS)})
    return request


def flipped(body: bytes, random: Random) -> bytes:
    """One bit is another one."""
    if not body:
        return b"\x00"
    at = random.randrange(len(body))
    return body[:at] + bytes([body[at] ^ 1 << random.randrange(8)]) + body[at + 1 :]


def cut(body: bytes, random: Random) -> bytes:
    """Something is missing."""
    start, end = sorted(random.randint(0, len(body)) for _ in range(2))
    return body[:start] + body[end:]


def grown(body: bytes, random: Random) -> bytes:
    """Something was put in between, or stands there twice."""
    at = random.randint(0, len(body))
    start = random.randint(0, len(body))
    piece = random.choice(
        [bytes([random.randrange(256)]), b"\x00", b"\xff", body[start:], b'"', b"}"]
    )
    return body[:at] + piece + body[at:]


def bent(body: bytes, random: Random) -> bytes:
    """One value of a JSON document, or one field of a form, is another, is gone, or is doubled."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return _form(body, random)
    if not isinstance(said, dict | list):
        return json.dumps(random.choice(ODD)).encode()
    return json.dumps(_bent(said, random)).encode()


def _bent(value: Any, random: Random) -> Any:
    """The document with one place changed, the deeper the likelier: most of it is leaves."""
    if not isinstance(value, dict | list) or not value or random.randrange(6) == 0:
        return random.choice(ODD)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = random.choice(keys)
    made: Any = dict(value) if isinstance(value, dict) else list(value)
    match random.randrange(8):
        case 0:
            del made[key]
        case 1 if isinstance(made, list):
            made.insert(key, made[key])
        case 1:
            made[str(random.choice(keys))] = made[key]
        case _:
            made[key] = _bent(made[key], random)
    return made


def of_another_kind(body: bytes) -> Iterator[bytes]:
    """The JSON document with each of its values in turn as one of every other kind."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return
    for path in _paths(said):
        for kind in KINDS:
            yield json.dumps(_put(said, path, kind)).encode()


def _paths(value: Any) -> Iterator[tuple[Any, ...]]:
    yield ()
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            for path in _paths(value[key]):
                yield (key, *path)


def _put(value: Any, path: tuple[Any, ...], kind: Any) -> Any:
    if not path:
        return kind
    made: Any = dict(value) if isinstance(value, dict) else list(value)
    made[path[0]] = _put(made[path[0]], path[1:], kind)
    return made


def _form(body: bytes, random: Random) -> bytes:
    try:
        fields = parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=500)
    except ValueError:
        return flipped(body, random)
    if not fields:
        return random.choice([b"[", b"{}", b"[]", b"null", b"a=b", b"\xff\xfe"])
    at = random.randrange(len(fields))
    value = str(random.choice(ODD)).encode("utf-8", "surrogatepass").decode("latin-1")
    choices = [[], [(fields[at][0], value)], [fields[at], fields[at]], [(value, fields[at][1])]]
    fields[at : at + 1] = random.choice(choices)
    return urlencode(fields, encoding="latin-1", errors="replace").encode()


CHANGES = (flipped, cut, grown, bent, bent, bent)
