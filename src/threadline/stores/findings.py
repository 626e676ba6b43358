"""What `doctor` looks for in a store: damage that a database itself does not notice.

Sequences are dense between the floor and the head, every record's digest fits where it stands and
what it says, and the engine's own check is clean.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

from threadline.stores.codec import Codec, Row

CHUNK = 1_000


class Askable(Protocol):
    """A store that runs a read statement by name."""

    async def ask(self, statement: str, *args: Any) -> list[Row]:
        """The rows of one statement."""

    async def pragma(self, sql: str) -> list[Row]:
        """The rows of an engine's own check."""


async def examine(store: Askable, codec: Codec, own: str | None) -> AsyncIterator[str]:
    """Yield a sentence for each thing that is wrong."""
    if own is not None:
        for word, *_ in await store.pragma(own):
            if word != "ok":
                yield f"the database itself reports: {word}"
    place: tuple[int, int] = (-1, -(1 << 62))
    expected: int | None = None
    counted: dict[int, tuple[int, int]] = {}
    # A page that is not full is the last: beside a steady writer there is always one row more.
    rows: list[Row] | None = None
    while rows is None or len(rows) == CHUNK:
        rows = await store.ask("records.verify", *place, CHUNK)
        for conversation, sequence, digest, body in rows:
            if conversation != place[0]:
                expected = None
            if (
                expected is not None
                and sequence != expected
                and await _kept(store, place[0], expected)
            ):
                yield f"conversation {conversation}: {expected} to {sequence - 1} are missing"
            if bytes(digest) != codec.digest(conversation, sequence, body):
                yield f"conversation {conversation}: record {sequence} is not what was written"
            first, _ = counted.get(conversation, (sequence, sequence))
            counted[conversation] = (first, sequence)
            place, expected = (conversation, sequence), sequence + 1
    after, rows = -1, None
    while rows is None or len(rows) == CHUNK:
        rows = await store.ask("conversations.counters", after, CHUNK)
        for number, next_sequence, earliest in rows:
            after = number
            found = counted.pop(number, None)
            wanted = _span(next_sequence, earliest)
            if found != wanted:
                found, wanted = await _at_once(store, number)
            if found != wanted:
                yield f"conversation {number}: counters say {wanted}, records say {found}"
    for number in counted:
        yield f"conversation {number}: records without a conversation"


def _span(next_sequence: int, earliest: int) -> tuple[int, int] | None:
    return None if next_sequence <= earliest else (earliest, next_sequence - 1)


async def _kept(store: Askable, conversation: int, sequence: int) -> bool:
    """Whether retention still keeps this sequence; its floor may have moved since the page."""
    rows = await store.ask("conversations.at_once", conversation)
    return not rows or bool(sequence >= rows[0][1])


async def _at_once(
    store: Askable, conversation: int
) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """What records and counters say in one statement: beside a writer two reads may differ."""
    [[next_sequence, earliest, first, last]] = await store.ask(
        "conversations.at_once", conversation
    )
    return (None if first is None else (first, last)), _span(next_sequence, earliest)
