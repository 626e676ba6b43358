"""Our own messages as a platform shows them: proof, known already, or nobody's.

They are matched by their token or by their id, never by their text.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from threadline.core.deliveries import DeliveryState, Receipt
from threadline.core.draft import Draft
from threadline.core.lanes import heads_of, lane_of, one_less, prove, read_key
from threadline.core.model import (
    Conversation,
    InboundMessage,
)
from threadline.core.ports import (
    DELIVERY,
    ECHOES,
    KNOWN,
    RECEIPT,
    Page,
    together,
)
from threadline.core.recording import Door, Taken, take
from threadline.core.rules.limits import Limits

RELEASED = 8


def hear_echo(
    draft: Draft,
    conversation: Conversation,
    message: InboundMessage,
    now: datetime,
    limits: Limits,
) -> Taken | None:
    """An own message as the provider shows it: proof, known, or waiting; None to record it.

    It is matched by its token or by its id, never by its text. One that no receipt names waits
    while a delivery of its lane may turn out to be it; else it is recorded without a session.
    """
    named = None if message.token is None else read_key(message.token)
    if named is not None and named[0] == conversation.id and message.message_id is not None:
        delivery = draft.get(DELIVERY, named[:2])
        # What was never called was not said, and has no part behind its last one.
        if delivery is not None and delivery.attempts and named[2] <= delivery.parts:
            prove(
                draft,
                conversation,
                delivery,
                named[2],
                message.message_id,
                now,
                limits,
                space=message.id_space,
                sent_at=message.sent_at,
                note="the provider showed it",
            )
            return None if _is_known(draft, conversation.id, message) else _seen(conversation)
    if message.message_id is None or _is_known(draft, conversation.id, message):
        return None
    key = draft.id_key(message.id_space, message.message_id)
    if draft.get(RECEIPT, (conversation.id, key)) is not None:
        return _seen(conversation)
    if not doubtful_head(draft, conversation.id):
        return None
    conversation = draft.taken(conversation.id) or conversation
    about = replace(
        conversation.about,
        echoes=conversation.about.echoes + 1,
        next_hold=conversation.about.next_hold + 1,
    )
    draft.save(replace(conversation, about=about))
    held = Receipt(position=conversation.about.next_hold, message=message)
    draft.put(RECEIPT, (conversation.id, key), held)
    return replace(_seen(conversation), duplicate=False)


def doubtful_head(draft: Draft, conversation: int) -> bool:
    """Whether an unnamed message of ours may be the one this lane is saying."""
    if not lane_of(draft, conversation).waiting:
        return False
    for head in heads_of(draft, conversation):
        if head.in_lane:
            return head.state in (DeliveryState.SENDING, DeliveryState.UNCERTAIN)
    return False


def _is_known(draft: Draft, conversation: int, message: InboundMessage) -> bool:
    assert message.message_id is not None
    known = draft.get(KNOWN, (conversation, draft.id_key(message.id_space, message.message_id)))
    return known is not None and known.sequence is not None


def _seen(conversation: Conversation) -> Taken:
    return Taken(
        conversation=conversation.id,
        ref=conversation.ref,
        held=True,
        duplicate=True,
        readers=conversation.about.members,
    )


def release_echoes(draft: Draft, conversation: int, now: datetime, limits: Limits) -> None:
    """Record the own messages that turned out to be nobody's: what they waited for is settled.

    The rest of more than a few follows with the next look at the lane, which is due at once.
    """
    there = draft.taken(conversation)
    if there is None or not there.about.echoes or doubtful_head(draft, conversation):
        return
    waiting_now = [one.message for one in draft.page(Page(ECHOES, (conversation, RELEASED)))]
    if not waiting_now:
        draft.save(replace(there, about=replace(there.about, echoes=0)))
    keys = [draft.id_key(m.id_space, m.message_id or "") for m in waiting_now if m is not None]
    together(draft, [(noun, (conversation, key)) for noun in (RECEIPT, KNOWN) for key in keys])
    for message in waiting_now:
        if message is None or message.message_id is None:
            continue
        key = draft.id_key(message.id_space, message.message_id)
        waiting = draft.get(RECEIPT, (conversation, key))
        if waiting is None or waiting.message is None:
            continue
        draft.put(RECEIPT, (conversation, key), None)
        one_less(draft, conversation)
        take(draft, message, now, door=Door.HEARD, limits=limits)
