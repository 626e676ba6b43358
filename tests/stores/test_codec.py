"""What is written is what is read: every field of a record, in any combination."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from threadline.core.model import (
    Actor,
    Attachment,
    Direction,
    Event,
    Origin,
    Provenance,
    TranscriptRecord,
)
from threadline.core.ports import RECORD
from threadline.stores.codec import Codec, record_body

TIMES = st.datetimes(timezones=st.just(UTC))
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
SEQUENCES = st.integers(-(1 << 62), (1 << 62) - 1)
PAIRS = st.none() | st.tuples(WORDS, WORDS)


@st.composite
def records(draw: st.DrawFn) -> TranscriptRecord:
    """Any record; a session is there with name and id or not at all."""
    optional = {
        name: draw(st.none() | WORDS)
        for name in (
            "message_id",
            "explicit_target",
            "reply_to",
            "revises",
            "route",
            "person_id",
            "refused",
        )
    }
    source, target = draw(PAIRS), draw(PAIRS)
    return TranscriptRecord(
        sequence=draw(SEQUENCES),
        direction=draw(st.sampled_from(Direction)),
        event=draw(st.sampled_from(Event)),
        provenance=draw(st.sampled_from(Provenance)),
        id_space=draw(WORDS),
        actor=draw(st.builds(Actor, WORDS, WORDS, st.booleans(), st.booleans())),
        text=draw(WORDS),
        attachments=tuple(
            draw(
                st.lists(
                    st.builds(Attachment, WORDS, WORDS, WORDS, st.none() | SEQUENCES, WORDS),
                    max_size=3,
                )
            )
        ),
        wakes=tuple(draw(st.lists(WORDS, max_size=3))),
        origin=draw(st.none() | st.builds(Origin, WORDS, SEQUENCES, WORDS, SEQUENCES)),
        copied_from=draw(st.none() | SEQUENCES),
        blanked=draw(st.booleans()),
        signed=draw(st.booleans()),
        sent_at=draw(st.none() | TIMES),
        recorded_at=draw(TIMES),
        metadata=draw(st.dictionaries(WORDS, WORDS | SEQUENCES | st.booleans(), max_size=3)),
        source_session_id=source and source[0],
        source=source and source[1],
        target_session_id=target and target[0],
        target=target and target[1],
        **optional,
    )


@given(record=records())
def test_a_record_is_read_as_it_was_written(record: TranscriptRecord) -> None:
    """A wake without a target, a source without an origin: nothing hangs on another field."""
    row = (1, record.sequence, record_body(record))

    assert Codec(bytes(32)).decoders[RECORD](row) == ((1, record.sequence), record)


@given(record=records())
def test_records_that_differ_are_written_differently(record: TranscriptRecord) -> None:
    """No field is left out: another value gives another body."""
    other: dict[str, object] = {
        "sequence": record.sequence - 1,
        "direction": Direction.INBOUND
        if record.direction is Direction.OUTBOUND
        else Direction.OUTBOUND,
        "event": Event.NOTICE if record.event is Event.MESSAGE else Event.MESSAGE,
        "provenance": Provenance.LIVE
        if record.provenance is Provenance.HYDRATED
        else Provenance.HYDRATED,
        "actor": replace(record.actor, is_bot=not record.actor.is_bot),
        "attachments": (*record.attachments, Attachment(name="more")),
        "wakes": (*record.wakes, "more"),
        "origin": Origin("more", 1) if record.origin is None else None,
        "copied_from": 1 if record.copied_from is None else None,
        "blanked": not record.blanked,
        "signed": not record.signed,
        "sent_at": record.recorded_at if record.sent_at is None else None,
        "recorded_at": record.recorded_at.replace(microsecond=record.recorded_at.microsecond ^ 1),
        "metadata": {**record.metadata, "more": len(record.metadata)},
    }
    paired = {"source", "source_session_id", "target", "target_session_id"}
    for one in fields(TranscriptRecord):
        if one.name not in paired:
            value = other.get(one.name, f"{getattr(record, one.name) or ''}more")
            changed: dict[str, Any] = {one.name: value}
            assert record_body(replace(record, **changed)) != record_body(record)
