"""What a process acknowledged before it died: written line by line, read by whoever judges.

A line is written after the answer came and before anything else is done, with one unbuffered
`write`. What may or may not have happened is announced by a `try` before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

CHIEF = "chief"

_write = os.write
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Journal:
    """Where a process says what was acknowledged. Several places may listen."""

    def __init__(self, file: int | None = None, into: list[Any] | None = None) -> None:
        self._file = file
        self._into = into

    def line(self, *entry: Any) -> None:
        """Say one thing, at once."""
        if self._file is not None:
            data = _encode(entry) + b"\n"
            while data:
                data = data[_write(self._file, data) :]
        if self._into is not None:
            self._into.append(entry)

    def said(self, room: str, message_id: str, answer: Any) -> None:
        """A message with an id was recorded, held, or known already."""
        self.line("said", room, message_id, answer.sequence, answer.held, answer.duplicate)

    def plain(self, room: str, text: str, sequence: int | None) -> None:
        """A message without an id was recorded."""
        self.line("plain", room, text, sequence)

    def saying(self, words: str) -> None:
        """A session is about to say this, under a key of the same words."""
        self.line("saying", words)

    def read(self, room: str, session: str, sequence: int) -> None:
        """A session's ack was taken."""
        self.line("read", room, session, sequence)

    def attempt(self, key: str, value: Any) -> None:
        """What a key stands for is about to become this value."""
        self.line("try", key, value)

    def ok(self, key: str, value: Any) -> None:
        """What a key stands for has this value now."""
        self.line("ok", key, value)


@dataclass(slots=True)
class Ledger:
    """What has to be true of the store: built from a journal's lines.

    `said` maps (room, message id) to its sequence, None while only a hold was acknowledged;
    `saying` holds what a session began to say and was not answered yet;
    `allowed` maps a key to the values it may have: one when acknowledged, two while in flight.
    """

    said: dict[tuple[str, str], int | None] = field(default_factory=dict)
    held: list[tuple[str, str]] = field(default_factory=list)
    plain: dict[tuple[str, str], int] = field(default_factory=dict)
    saying: set[str] = field(default_factory=set)
    read: dict[tuple[str, str], int] = field(default_factory=dict)
    allowed: dict[str, set[Any]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    acknowledged: int = 0

    def take_bytes(self, data: bytes) -> None:
        """Every whole line; a torn last one was never said."""
        for line in data.split(b"\n")[:-1]:
            self.take(_decode(line))

    def take_all(self, lines: Iterable[Any]) -> None:
        """Several entries."""
        for line in lines:
            self.take(line)

    def take(self, line: Any) -> None:
        """One entry."""
        match list(line):
            case ["said", room, message_id, sequence, held, duplicate]:
                self._said(room, message_id, sequence, held, duplicate)
            case ["plain", room, text, sequence]:
                self.plain[room, text] = sequence
                self.saying.discard(text)
            case ["saying", words]:
                self.saying.add(words)
                return
            case ["read", room, session, sequence]:
                before = self.read.get((room, session))
                self.read[room, session] = sequence if before is None else max(before, sequence)
            case ["try", key, value]:
                self.allowed.setdefault(key, {None}).add(value)
                return
            case ["ok", key, value]:
                self.allowed[key] = {value}
            case ["error", text]:
                self.broken.append(f"the process failed: {text}")
                return
            case other:
                raise ValueError(f"unknown line {other}")
        self.acknowledged += 1

    def _said(
        self, room: str, message_id: str, sequence: int | None, held: bool, duplicate: bool
    ) -> None:
        key = (room, message_id)
        before = self.said.get(key)
        if key in self.said and not duplicate:
            self.broken.append(f"{room} {message_id}: acknowledged twice as new")
        if before is not None and sequence != before:
            self.broken.append(f"{room} {message_id}: was {before}, is answered as {sequence}")
        if held and key not in self.said:
            self.held.append(key)
        self.said[key] = sequence if before is None else before
