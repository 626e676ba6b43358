"""What is said in the benchmarks: lines of chat with ids, in many rooms."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from threadline.core.model import (
    Actor,
    ConversationRef,
    Direction,
    InboundMessage,
    Kind,
    TranscriptRecord,
)
from threadline.stores.codec import record_body

ADA = Actor("U04ADA", "Ada Lovelace")
SENT = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = "Has anybody looked at why the nightly build takes twice as long since Tuesday?"


def room(number: int) -> ConversationRef:
    """A room's address."""
    return ConversationRef("slack", "T1", f"C{number:06}", kind=Kind.ROOM)


def said(ref: ConversationRef, number: int) -> InboundMessage:
    """Something said there."""
    return InboundMessage(
        conversation=ref, text=TEXT, actor=ADA, message_id=f"{number}.000100", sent_at=SENT
    )


def talk(rooms: int, first: int = 0) -> Iterator[InboundMessage]:
    """People talking in all rooms in turn, for ever."""
    refs = [room(number) for number in range(rooms)]
    while True:
        yield said(refs[first % rooms], first)
        first += 1


def body() -> str:
    """What one of these is in the store."""
    record = TranscriptRecord(
        sequence=123,
        direction=Direction.INBOUND,
        message_id="123456.000100",
        actor=ADA,
        text=TEXT,
        route="none",
        sent_at=SENT,
        recorded_at=datetime(2026, 1, 1, 1, 2, 3, 456789, tzinfo=UTC),
    )
    made = record_body(record)
    assert msgspec.json.decode(made)["text"] == TEXT
    return made
