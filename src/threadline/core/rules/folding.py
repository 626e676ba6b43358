"""The transcript as people see it: edits applied, deletes as tombstones, reactions gathered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from threadline.core.model import Event, TranscriptRecord


@dataclass(frozen=True, slots=True)
class Message:
    """A message with its latest text. `revision` counts its edits; a tombstone has no text."""

    record: TranscriptRecord
    revision: int = 0
    deleted: bool = False


def fold(
    records: Iterable[TranscriptRecord], revisions: Mapping[int, list[TranscriptRecord]]
) -> list[Message]:
    """Fold the messages of a page. `revisions` maps a message's sequence to what revises it."""
    return [
        _latest(record, revisions.get(record.sequence, []))
        for record in records
        if record.event is Event.MESSAGE
    ]


def _latest(record: TranscriptRecord, revisions: list[TranscriptRecord]) -> Message:
    if record.blanked:
        return Message(record, 0, deleted=True)
    text, count = record.text, 0
    for revision in sorted(revisions, key=lambda it: it.sequence):
        if revision.event is Event.EDIT and revision.refused is None and not revision.blanked:
            text, count = revision.text, count + 1
    return Message(replace(record, text=text) if count else record, count)
