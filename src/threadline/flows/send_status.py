"""A send as it is shown: its newest delivery, and what became of each channel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from threadline.core.draft import Draft
from threadline.core.ids import public
from threadline.core.ports import (
    CONVERSATION,
    DELIVERY,
    SESSION,
    together,
)
from threadline.core.seating import heir
from threadline.core.sends import (
    WAITING,
    Repeat,
    Send,
    SendState,
    Tried,
)
from threadline.flows.statuses import DeliveryStatus, status_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SendStatus:
    """A send as it is shown. `delivery` is the one under way or the last; `tried` tells what became
    of each channel. `repeated` is true where the key was known already; `first` says who had said
    it before, where it was not said again. `text` is what will be said, as long as it waits: then
    the transcript has it."""

    id: str
    session_id: str
    to: str
    via: str
    state: SendState
    created_at: datetime
    text: str = ""
    reason: str = ""
    person: str | None = None
    at: datetime | None = None
    repeat: Repeat | None = None
    delivery: DeliveryStatus | None = None
    tried: tuple[Mapping[str, Any], ...] = ()
    first: Mapping[str, Any] | None = None
    repeated: bool = False


def beside(draft: Draft, sends: Iterable[Send]) -> None:
    """Ask at once for all that showing these takes."""
    keys: list[tuple[Any, Any]] = []
    for send in sends:
        keys.append((SESSION, send.session))
        for one in send.tried:
            if one.conversation is not None and one.delivery is not None:
                keys.append((DELIVERY, (one.conversation, one.delivery)))
                keys.append((CONVERSATION, one.conversation))
    together(draft, keys)


def shown(draft: Draft, send: Send, *, repeated: bool = False) -> SendStatus:
    """A send with its newest delivery."""
    session = heir(draft, send.session) or draft.get(SESSION, send.session)
    name = "" if session is None else session.name
    current: DeliveryStatus | None = None
    under_way = False
    for one in send.tried:
        if one.conversation is None or one.delivery is None:
            continue
        row = draft.get(DELIVERY, (one.conversation, one.delivery))
        place = draft.get(CONVERSATION, one.conversation)
        if row is None or place is None or (under_way and not row.in_lane):
            continue
        under_way = row.in_lane
        current = status_of(row, place, name)
    first = send.first
    return SendStatus(
        id=public(send.id),
        session_id=name,
        to=send.to,
        via=send.via,
        state=send.state,
        created_at=send.created_at,
        text=send.text if send.state in WAITING else "",
        reason=send.reason,
        person=None if send.person is None else public(send.person),
        at=send.at,
        repeat=send.repeat,
        delivery=current,
        tried=tuple(told(one) for one in send.tried),
        first=None
        if first is None
        else {"id": public(first.send), "session_id": first.session, "at": first.at},
        repeated=repeated,
    )


def told(one: Tried) -> Mapping[str, Any]:
    where = one.channel
    delivery_id = None
    if one.conversation is not None and one.delivery is not None:
        delivery_id = f"{public(one.conversation)}.{public(one.delivery)}"
    return {
        "provider": where.provider,
        "account_id": where.account_id,
        "address": where.address or where.place,
        "outcome": one.outcome,
        "reason": one.reason,
        "at": one.at,
        "delivery": delivery_id,
    }
