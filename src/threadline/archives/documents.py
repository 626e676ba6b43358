"""JSON files larger than memory: walked a piece at a time, exact to the byte.

The reader of a format walks down to what it wants and takes each entry whole; all else is passed
over without being built. ijson is not used here because its fast half turns a lone `\\ud83d` into
a question mark, or swallows what follows it; the standard decoder keeps both, and is no slower.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from threadline.core.archive import Source, broken
from threadline.core.errors import ArchiveError

HEAD = 64 * 1024
BLOCK = 256 * 1024
MAX_VALUE = 16 * 1024 * 1024
RECENT = 100_000

_BLANK = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_MARK = re.compile(r'["\[\]{}]')
_CLOSES = {"[": "]", "{": "}"}


class Readable(Protocol):
    """Something that hands out bytes."""

    def read(self, size: int, /) -> bytes:
        """At most so many, none at the end."""


class Document:
    """One JSON file under a cursor that only moves forward.

    `members` and `elements` stop at each value; what is not taken there is passed over.
    """

    def __init__(self, stream: Readable, name: str) -> None:
        self.name = name
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._scan = json.JSONDecoder(strict=False, parse_constant=lambda _: None).raw_decode
        self._text = ""
        self._at = 0
        self._passed = 0
        self._passed_bytes = 0
        self._ended = False

    @property
    def offset(self) -> int:
        """How many bytes lie before the cursor."""
        return self._passed_bytes + len(self._text[: self._at].encode("utf-8", "surrogatepass"))

    def broken(self, what: str) -> ArchiveError:
        """The error for what was found at the cursor."""
        offset = self.offset
        return broken(f"{self.name}: offset {offset}", what, file=self.name, offset=offset)

    def peek(self) -> str:
        """The first character of what comes next; empty at the end of the file."""
        while True:
            next_one = self._text[self._at : self._at + 1]
            if next_one > " ":
                return next_one
            found = _BLANK.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def members(self) -> Iterator[str]:
        """The keys of the object at the cursor, which stands at the key's value at each."""
        for _ in self._parts("{", "an object"):
            if self.peek() != '"':
                raise self.broken("a key was expected here, or the file breaks off.")
            key = self.value()
            self._take(":", "a colon")
            place = self._place()
            yield str(key)
            if self._place() == place:
                self._skip()

    def elements(self) -> Iterator[None]:
        """Stops at each element of the list at the cursor."""
        for _ in self._parts("[", "a list"):
            place = self._place()
            yield
            if self._place() == place:
                self._skip()

    def value(self) -> Any:
        """The value at the cursor, built whole."""
        self.peek()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except RecursionError:
                raise self.broken("the values are nested too deeply.") from None
            except ValueError as error:
                self._grow(f"the JSON is damaged or breaks off ({error}).")
                continue
            if end == len(self._text) and self._more():
                continue  # a number may go on behind the border of two blocks
            self._at = end
            return value

    def end(self) -> None:
        """Make sure that nothing follows."""
        if self.peek():
            raise self.broken("something follows the end of the document.")

    def _parts(self, opens: str, what: str) -> Iterator[None]:
        self._take(opens, what)
        closes = _CLOSES[opens]
        if self.peek() == closes:
            self._at += 1
            return
        while True:
            yield
            if self._take(f",{closes}", f"a comma or {closes}") == closes:
                return

    def _place(self) -> int:
        """Where the next value begins, in characters."""
        self.peek()
        return self._passed + self._at

    def _take(self, wanted: str, what: str) -> str:
        found = self.peek()
        if not found or found not in wanted:
            state = f"{found!r} stands here" if found else "the file breaks off here"
            raise self.broken(f"{what} was expected, but {state}.")
        self._at += 1
        return found

    def _skip(self) -> None:
        """Pass over one value, however large, without building it."""
        opened: list[str] = []
        while True:
            if not opened:
                if self.peek() not in ("[", "{"):
                    self.value()
                    return
                found = _MARK.match(self._text, self._at)
            else:
                found = _MARK.search(self._text, self._at)
            if found is None:
                self._at = len(self._text)
                if not self._more():
                    raise self.broken("the file breaks off here.")
                continue
            self._at = found.start()
            match found[0]:
                case '"':
                    self._skip_string()
                    continue
                case "[" | "{":
                    opened.append(_CLOSES[found[0]])
                case closed if closed != opened.pop():
                    raise self.broken(f"{closed!r} closes what was not opened.")
            self._at += 1
            if not opened:
                return

    def _skip_string(self) -> None:
        while (found := _STRING.match(self._text, self._at)) is None:
            self._grow("a string does not end; the file breaks off.")
        self._at = found.end()

    def _grow(self, otherwise: str) -> None:
        """Hold more of the file. Where there is no more, or too much, say what is wrong."""
        if len(self._text) - self._at > MAX_VALUE:
            raise self.broken(f"a single value is larger than allowed, or {otherwise}")
        if not self._more():
            raise self.broken(otherwise)

    def _more(self) -> bool:
        if self._ended:
            return False
        # The more is held the more is read at once, so that a large value is not tried often.
        data = self._stream.read(max(BLOCK, len(self._text) - self._at))
        try:
            added = self._decode(data, not data)
        except UnicodeDecodeError as error:
            raise self.broken(f"what follows is not UTF-8 ({error.reason}).") from None
        self._passed_bytes = self.offset
        self._passed += self._at
        self._text = self._text[self._at :] + added
        self._at = 0
        self._ended = not data
        return not self._ended


class Recent:
    """Which of the last 100,000 ids came before: enough to tell a repeated entry, and bounded."""

    def __init__(self, size: int = RECENT) -> None:
        self._known: set[str] = set()
        self._order: deque[str] = deque()
        self._size = size

    def is_new(self, ident: str) -> bool:
        """Whether this id is seen for the first time; from now on it is not."""
        if ident in self._known:
            return False
        self._known.add(ident)
        self._order.append(ident)
        if len(self._order) > self._size:
            self._known.discard(self._order.popleft())
        return True


def keys_of(source: Source, name: str) -> dict[str, Any]:
    """The keys at the top of a JSON object as far as its first 64 KiB show them.

    Short plain values come along; lists, objects and what lies behind the head are None.
    """
    found: dict[str, Any] = {}
    with source.open(name) as stream:
        document = Document(_Head(stream.read(HEAD)), name)
    try:
        if document.peek() == "{":
            for key in document.members():
                found[key] = None if document.peek() in ("{", "[") else document.value()
    except ArchiveError:
        pass  # as a head mostly does, it ends in the middle
    return found


class _Head:
    """The beginning of a file, read as if it were a file."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int) -> bytes:
        data, self._data = self._data[:size], self._data[size:]
        return data


Judge = Callable[[Source, str], bool]


def files_of(source: Source, is_one: Judge) -> list[str]:
    """The JSON files of a source that are of a format."""
    names = source.names()
    if len(names) > 1:
        names = [name for name in names if name.lower().endswith(".json")]
    return [name for name in names if is_one(source, name)]
