"""What an intent names is told to one person, or in one place, once, by whichever session."""

from __future__ import annotations

from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.ids import public
from threadline.core.joining import heir_of
from threadline.core.model import Conversation, Session
from threadline.core.ports import FIRST, SEND, fetch
from threadline.core.sends import FirstSaid, Send, SendState

LOST = frozenset({SendState.FAILED, SendState.EXPIRED, SendState.CANCELLED})


def said_already(
    draft: Draft, conversation: Conversation, send: Send, person: int | None, now: datetime
) -> FirstSaid | None:
    """Who said it first, None where nobody did, or where it did not arrive."""
    if not send.intent:
        return None
    ids = _ids_of(draft, conversation, person)
    for first in fetch(draft, FIRST, [_first_key(draft, send, one) for one in ids]):
        if first is None or now >= first.until or first.send == send.id:
            continue
        earlier = draft.get(SEND, first.send)
        if earlier is not None and (earlier.state in LOST or _of_one(earlier, send)):
            continue
        return first
    return None


def remember(
    draft: Draft,
    conversation: Conversation,
    send: Send,
    person: int | None,
    session: Session,
    now: datetime,
) -> None:
    """From now on it was said, for as long as the sender wants that to count."""
    if send.intent and send.intent_for is not None:
        first = FirstSaid(send=send.id, session=session.name, at=now, until=now + send.intent_for)
        to, *_ = _ids_of(draft, conversation, person)
        draft.put(FIRST, _first_key(draft, send, to), first)


def _of_one(earlier: Send, send: Send) -> bool:
    """Whether both are days of the same daily send, which is meant to come again."""
    return send.origin_of is not None and send.origin_of == earlier.origin_of


def _first_key(draft: Draft, send: Send, to: int) -> tuple[str, bytes]:
    return send.scope_id, draft.id_key("intent", f"{public(to)} {send.intent}")


def _ids_of(draft: Draft, conversation: Conversation, person: int | None) -> tuple[int, ...]:
    """Under which ids something may have been said to whom this is for: a person's own first."""
    known = heir_of(draft, person)
    if person is None or known is None:
        return (conversation.id if person is None else person,)
    return (known.id, *known.predecessors)
