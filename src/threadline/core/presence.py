"""Who is in a room, as far as their names go: so that no guest is taken for somebody else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.errors import Limited, NameTaken
from threadline.core.guests import Visitor, opens
from threadline.core.model import SYSTEM, Conversation
from threadline.core.ports import (
    GUESTS_OF,
    LINK,
    SESSION,
    Page,
    fetch,
)
from threadline.core.rules.limits import Limits
from threadline.core.rules.naming import looks
from threadline.core.seating import PAGE, members_of, seats_of
from threadline.core.threads import parent_of


def guests_of(draft: Draft, room: Conversation, now: datetime, limits: Limits) -> list[Visitor]:
    """The guests whose links hold, at most one more than a room takes.

    The conversation has to be taken, so that two who come at once see each other.
    """
    rows = draft.page(Page(GUESTS_OF, (room.id, -1, limits.guests + 1)))
    links = {row.link for row in rows}
    holding = {
        link.id
        for link in fetch(draft, LINK, sorted(links))
        if link is not None and opens(link, now)
    }
    return [row for row in rows if row.link in holding]


def refuse_full(others: list[Visitor], limits: Limits) -> None:
    """Raise `Limited` where the room has as many guests as it takes."""
    if len(others) >= limits.guests:
        raise Limited(f"the room has {limits.guests} guests already.", retry_after=60)


def refuse_taken(draft: Draft, room: Conversation, name: str, others: Iterable[Visitor]) -> None:
    """Raise `NameTaken` where the name looks like a handle, an alias, a session or a guest here."""
    wanted = looks(name)
    taken = [SYSTEM.name, *(other.name for other in others)]
    if any(wanted & looks(one) for one in taken) or any(
        wanted & looks(one) for one in _names(draft, room)
    ):
        raise NameTaken(f"({name!r})", name=name)


def _names(draft: Draft, room: Conversation) -> Iterator[str]:
    """Every name that means a session here: handles and their aliases, the room's if this is a
    thread, and the names of those who read."""
    for place in filter(None, (room, parent_of(draft, room))):
        yield from (handle for handle, _ in seats_of(draft, place.id))
    sessions = [member.session for member in members_of(draft, room.id)]
    for start in range(0, len(sessions), PAGE):
        for session in fetch(draft, SESSION, sessions[start : start + PAGE]):
            if session is not None:
                yield session.name
                yield from session.aliases
