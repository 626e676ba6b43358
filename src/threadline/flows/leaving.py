"""Which files that were given to us may leave: nobody asks for them, or a platform has them too."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from threadline.core.deliveries import OPEN_STATES
from threadline.core.draft import Draft
from threadline.core.files import Upload
from threadline.core.ports import (
    DELIVERY,
    FILE,
    FILES,
    FILES_SAID,
    RECORD,
    Changes,
    Loaded,
    Page,
    Story,
    together,
)
from threadline.core.uploads import UNSAID

CHUNK = 500


@dataclass(frozen=True, slots=True)
class ReadUseless(Story[tuple[list[Upload], int | None]]):
    """Uploads of a page that nobody will ask for; and where the next page begins."""

    after: int

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[list[Upload], int | None]]:
        """What was not said within a day, and what was said in a record that is not there."""
        rows = loaded.page(Page(FILES, (self.after, CHUNK)))
        keys = [(one.conversation, one.delivery) for one in rows if one.conversation is not None]
        together(loaded, [(DELIVERY, key) for key in keys if key[1] is not None])
        places = {one.id: place_of(loaded, one) for one in rows}
        together(loaded, [(RECORD, at) for at in places.values() if isinstance(at, tuple)])
        gone = []
        for one in rows:
            at = places[one.id]
            old = now - one.created_at > UNSAID
            if isinstance(at, tuple):
                record = loaded.get(RECORD, at)
                if record is None or record.blanked:
                    gone.append(one)
            elif old and not at:
                gone.append(one)
        return Changes(), (gone, rows[-1].id if len(rows) == CHUNK else None)


def place_of(loaded: Loaded, one: Upload) -> tuple[int, int] | bool:
    """The record that said it; else whether it may still be said."""
    if one.conversation is None:
        return False
    if one.sequence is not None:
        return one.conversation, one.sequence
    sent = None if one.delivery is None else loaded.get(DELIVERY, (one.conversation, one.delivery))
    if sent is None:
        return False
    return sent.state in OPEN_STATES if sent.sequence is None else (one.conversation, sent.sequence)


@dataclass(frozen=True, slots=True)
class ReadSpare(Story[list[Upload]]):
    """Uploads that a platform has as well, oldest first."""

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[Upload]]:
        """What is still on its way there is not among them."""
        rows = loaded.page(Page(FILES_SAID, (2, -1, CHUNK)))
        together(loaded, [(DELIVERY, (one.conversation or 0, one.delivery or 0)) for one in rows])
        spare = []
        for one in rows:
            sent = loaded.get(DELIVERY, (one.conversation or 0, one.delivery or 0))
            if sent is None or sent.state not in OPEN_STATES:
                spare.append(one)
        return Changes(), sorted(spare, key=lambda one: one.created_at)


@dataclass(frozen=True, slots=True)
class ReadUnknown(Story[list[int]]):
    """Which of these uploads nothing is known of."""

    ids: tuple[int, ...]

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[int]]:
        """A death between the bytes and their row leaves such."""
        together(loaded, [(FILE, one) for one in self.ids])
        return Changes(), [one for one in self.ids if loaded.get(FILE, one) is None]


@dataclass(frozen=True, slots=True)
class Forget(Story[list[int]]):
    """Drop what is known of uploads."""

    uploads: tuple[Upload, ...]

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[int]]:
        """Answers which went; what was said since it was looked at stays."""
        draft = Draft(loaded)
        together(draft, [(FILE, one.id) for one in self.uploads])
        gone = [one.id for one in self.uploads if draft.get(FILE, one.id) == one]
        for one in gone:
            draft.put(FILE, one, None)
        return draft.changes, gone
