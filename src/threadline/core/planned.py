"""What is planned for a person, and ends at once when nothing may be written to them any more."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from threadline.core.auditing import audit
from threadline.core.draft import Draft
from threadline.core.ids import public
from threadline.core.joining import heir_of
from threadline.core.people import BY_SYSTEM
from threadline.core.ports import SEND, SENDS_FOR, Page, fetch, paged
from threadline.core.sends import Send, SendState

AT_ONCE = 200
EARLIER_IDS = 20


def end(draft: Draft, send: Send, state: SendState, reason: str, now: datetime, by: str) -> None:
    """A send that nothing carries any more, from its row as it is."""
    ended = replace(send, state=state, reason=reason, left=(), due_at=None, step=send.step + 1)
    draft.put(SEND, send.id, ended)
    audit(
        draft,
        send.scope_id,
        by,
        f"send.{state.value}",
        now,
        subject=public(send.id),
        reason=reason,
    )


def end_planned(draft: Draft, person: int, reason: str, now: datetime) -> None:
    """Cancel what waits for its time to be said to a person; also what is said every day.

    What lies behind the first of them is ended when it is due, which asks for consent again.
    """
    known = heir_of(draft, person)
    ids = [person] if known is None else [known.id, *known.predecessors[-EARLIER_IDS:]]
    found = paged(draft, [Page(SENDS_FOR, (one, -1, AT_ONCE)) for one in ids])
    numbers = [row.id for rows in found for row in rows]
    for send in fetch(draft, SEND, numbers, hold=True):
        if send is not None and send.state is SendState.SCHEDULED:
            end(draft, send, SendState.CANCELLED, reason, now, BY_SYSTEM)
