"""A delivery as it is shown, and who may know it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from threadline.core.deliveries import OPEN_STATES, Delivery, DeliveryState, Failure
from threadline.core.draft import Draft
from threadline.core.errors import NotFound
from threadline.core.ids import number_of, public
from threadline.core.model import Caller, Conversation, ConversationRef, Origin, SessionCaller
from threadline.core.ports import DELIVERY, SESSION
from threadline.core.rules import authority
from threadline.core.seating import numbers_of, session_named


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryStatus:
    """A delivery as it is shown. `repeated` is true where the key was known already.

    `confirmed` counts the parts of `parts` that have a receipt. One that is `parked` is uncertain,
    and its lane went on: it waits for a receipt, or for a person. `resent` counts how often a
    person said it again; a `possible_duplicate` was in doubt when that was done. `send` is the id
    of what it belongs to, where the session wrote on its own initiative. `words` are what is to be
    said, empty once it stands in the transcript.
    """

    id: str
    conversation: str
    ref: ConversationRef
    session_id: str
    state: DeliveryState
    failure: Failure | None = None
    reason: str = ""
    attempts: int = 0
    created_at: datetime
    settled_at: datetime | None = None
    sequence: int | None = None
    message_ids: tuple[str, ...] = ()
    reply_to: int | None = None
    origin: Origin | None = None
    parts: int = 1
    confirmed: int = 0
    next_attempt_at: datetime | None = None
    expires_at: datetime | None = None
    parked: bool = False
    resent: int = 0
    possible_duplicate: bool = False
    send: str | None = None
    words: str = ""
    repeated: bool = False


def id_of(row: Delivery) -> str:
    """A delivery's id as the outside sees it."""
    return f"{public(row.conversation)}.{public(row.id)}"


def status_of(
    row: Delivery, conversation: Conversation, name: str, *, repeated: bool = False
) -> DeliveryStatus:
    """How a delivery is shown; `name` is its session's."""
    return DeliveryStatus(
        id=id_of(row),
        conversation=public(row.conversation),
        ref=conversation.ref,
        session_id=name,
        state=row.state,
        failure=row.failure,
        reason=row.reason,
        attempts=row.attempts,
        created_at=row.created_at,
        settled_at=row.settled_at,
        sequence=row.sequence,
        message_ids=row.message_ids,
        reply_to=row.answers,
        origin=row.origin,
        parts=row.parts,
        confirmed=len(row.message_ids),
        next_attempt_at=row.due_at,
        expires_at=row.expires_at if row.state in OPEN_STATES else None,
        parked=row.parked,
        resent=row.resent,
        possible_duplicate=row.may_be_double,
        send=None if row.send is None else public(row.send),
        words=row.text,
        repeated=repeated,
    )


def key_of_id(delivery_id: str) -> tuple[int, int]:
    """Conversation and number of a delivery's id. Raises `NotFound`."""
    place, _, name = delivery_id.partition(".")
    conversation, number = number_of(place), number_of(name)
    if conversation is None or number is None:
        raise NotFound("there is no such delivery.", delivery=delivery_id[:64])
    return conversation, number


def known_delivery(
    draft: Draft, conversation: Conversation | None, number: int, caller: Caller
) -> Delivery:
    """The delivery, if the caller may know it. Raises `NotFound`."""
    row = None if conversation is None else draft.get(DELIVERY, (conversation.id, number))
    if row is None or conversation is None:
        raise NotFound("there is no such delivery.", delivery=public(number))
    authority.known_to(caller, conversation.ref, conversation.id)
    authority.within(caller, conversation.id)
    if isinstance(caller, SessionCaller):
        session = session_named(draft, caller.scope_id, caller.session)
        if row.session not in numbers_of(session):
            raise NotFound("there is no such delivery.", delivery=public(number))
    return row


def name_of(draft: Draft, session: int) -> str:
    """A session's name, its id where it has none."""
    there = draft.get(SESSION, session)
    return there.name if there is not None else public(session)
