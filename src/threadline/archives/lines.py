"""Logs in plain text: lines with their numbers, and ids for messages that have none.

An id is made of what a line says: its time as written, its sender, its text, and which of several
equal lines it is. So the same line has the same id in every longer export of the same talk,
wherever that export begins or ends.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from typing import BinaryIO, NamedTuple

from threadline.core.archive import Source

HEAD = 64 * 1024
# A third of what a text may have, because a replaced byte takes three in UTF-8.
MAX_LINE = 1024 * 1024
REMEMBERED_DAYS = 8

_UNTELLABLE = re.compile("[\x00\ud800-\udfff]")
_SUFFIX = re.compile(r"\.(?:txt|log|weechatlog|zip)$", re.I)


class Numbered(NamedTuple):
    """A line without its end; not whole where what goes beyond `MAX_LINE` bytes was left out."""

    number: int
    data: bytes
    is_whole: bool


def numbered(stream: BinaryIO) -> Iterator[Numbered]:
    """The lines of a file, one in memory at a time."""
    number = 0
    while data := stream.readline(MAX_LINE):
        number += 1
        rest = data
        is_whole = True
        while not rest.endswith(b"\n") and (rest := stream.readline(MAX_LINE)):
            is_whole &= not rest.strip()
        if number == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")
        yield Numbered(number, data.removesuffix(b"\n").removesuffix(b"\r"), is_whole)


def head(source: Source, name: str) -> list[bytes]:
    """The first lines that hold something; of a long file the last one may be cut."""
    with source.open(name) as stream:
        data = stream.read(HEAD).removeprefix(b"\xef\xbb\xbf")
    return [line for line in data.split(b"\n") if line.strip()]


def clean(text: str) -> str:
    """The text without what no store takes: NUL and halves of surrogate pairs."""
    return _UNTELLABLE.sub("\ufffd", text)


def stem(name: str) -> str:
    """A file's name without its folders and without the ending that says it is a log."""
    return clean(_SUFFIX.sub("", name.rpartition("/")[2]))


class Ids:
    """The maker of ids for one conversation.

    Equal lines are told apart by counting them, among the days met last: a talk of years needs no
    more memory than a busy week.

    >>> ids = Ids()
    >>> one = ids.make("2024-01-02", "10:00", "Ann", "ok")
    >>> ids.make("2024-01-02", "10:00", "Ann", "ok") == f"{one}.2"
    True
    """

    def __init__(self) -> None:
        self._days: OrderedDict[str, Counter[bytes]] = OrderedDict()

    def make(self, day: str, clock: str, sender: str, text: str) -> str:
        said = "\0".join((day, clock, sender, text.rstrip()))
        digest = blake2b(said.encode("utf-8", "replace"), digest_size=16)
        equals = self._days.setdefault(day, Counter())
        self._days.move_to_end(day)
        if len(self._days) > REMEMBERED_DAYS:
            self._days.popitem(last=False)
        equals[digest.digest()] = nth = equals[digest.digest()] + 1
        return digest.hexdigest() if nth == 1 else f"{digest.hexdigest()}.{nth}"
