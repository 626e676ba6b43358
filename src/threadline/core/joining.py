"""Two who turn out to be one person: what was decided about either, and how often they were written
to, counts for both from then on."""

from __future__ import annotations

from dataclasses import replace

from threadline.core.draft import Draft
from threadline.core.ids import public
from threadline.core.people import EVERYTHING, Consent, ConsentState, Person
from threadline.core.ports import CONSENT, CONSENTS_OF, PERSON, QUOTA, Page, fetch
from threadline.core.rules.allowance import joined

MOST = 1_000


def heir_of(draft: Draft, number: int | None) -> Person | None:
    """The person behind an id, or who it turned out to be."""
    seen = 0
    while number is not None and seen < 16:
        found = draft.get(PERSON, number)
        if found is None or found.successor is None:
            return found
        number, seen = found.successor, seen + 1
    return None


def decisions_of(draft: Draft, subject: int) -> dict[str, Consent]:
    """All that was decided about a subject, under what it is about."""
    rows = draft.page(Page(CONSENTS_OF, (subject, EVERYTHING, MOST)))
    abouts = [EVERYTHING, *(row.about for row in rows)]
    found = fetch(draft, CONSENT, [(subject, about) for about in abouts])
    return {row.about: row for row in found if row is not None}


def carry(draft: Draft, other: int, kept: int, *, only_off: bool = False) -> None:
    """What was decided about one subject holds for the other too; off wins over on."""
    rows = decisions_of(draft, other)
    mine = fetch(draft, CONSENT, [(kept, about) for about in rows])
    for row, known in zip(rows.values(), mine, strict=True):
        off = row.state is ConsentState.OFF
        if off and known is not None and known.state is ConsentState.OFF:
            continue
        if off or (known is None and not only_off):
            draft.put(CONSENT, (kept, row.about), replace(row, subject=kept))


def recipient(subject: int) -> str:
    """What a person, or a room, is counted under."""
    return f"recipient:{public(subject)}"


def count_together(draft: Draft, scope: str, other: int, kept: int) -> None:
    """What was sent to the one counts for the other as well."""
    theirs, mine = fetch(draft, QUOTA, [(scope, recipient(one)) for one in (other, kept)])
    if theirs is not None and theirs.taken:
        both = theirs if mine is None else joined(mine, theirs)
        draft.put(QUOTA, (scope, recipient(kept)), both)
