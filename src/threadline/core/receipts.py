"""What a platform says about a message of ours after it took it.

That it is there proves a delivery nobody was sure of, by our key or by its id. That it could not be
handed on ends the delivery as failed: its record stays, for it was posted, and a notice beside it
says that nobody got it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from threadline.core.deliveries import OPEN_STATES, Delivery, DeliveryState
from threadline.core.deliveries import Receipt as Sent
from threadline.core.draft import Draft
from threadline.core.lanes import give_up, prove, read_key, save
from threadline.core.model import Conversation
from threadline.core.moving import notice
from threadline.core.ports import DELIVERIES_OF, DELIVERY, RECEIPT, Page
from threadline.core.rules import pacing
from threadline.core.rules.limits import Limits
from threadline.core.wire import Receipt

LOOKED = 100
NEWEST = (2**62, 2**62, 2**62)


def hear(
    draft: Draft, conversation: Conversation, receipt: Receipt, now: datetime, limits: Limits
) -> Delivery | None:
    """The delivery a receipt is about, settled by it; None where it is about none of ours."""
    found = _named(draft, conversation, receipt)
    if found is None:
        return None
    delivery, part = found
    space = receipt.id_space or delivery.id_space
    key = (conversation.id, draft.id_key(space, receipt.message_id))
    if receipt.refused is None:
        if delivery.state is DeliveryState.FAILED and draft.get(RECEIPT, key) is not None:
            return delivery  # The platform said so before: it took it, and nobody got it.
        if not delivery.attempts or part > delivery.parts:
            return None
        said = "the provider says that it is there"
        name = receipt.message_id
        return prove(draft, conversation, delivery, part, name, now, limits, space=space, note=said)
    if delivery.state is DeliveryState.FAILED:
        return delivery
    refused = receipt.refused
    failed = pacing.ended(delivery, DeliveryState.FAILED, now, refused.reason, refused.failure)
    if delivery.state in OPEN_STATES:
        draft.put(RECEIPT, key, Sent(delivery=delivery.id, part=part))
        return give_up(draft, conversation, failed, now, limits)
    save(draft, replace(failed, sequence=delivery.sequence), now)
    if delivery.sequence is not None:
        what = f"Message {delivery.sequence} did not reach anybody: {refused.reason}"
        notice(draft, conversation, what, now, undelivered=str(delivery.sequence))
    return failed


def _named(
    draft: Draft, conversation: Conversation, receipt: Receipt
) -> tuple[Delivery, int] | None:
    """The delivery and the part, by our key, else by the platform's id among the last ones."""
    named = None if receipt.token is None else read_key(receipt.token)
    if named is not None:
        delivery = draft.get(DELIVERY, named[:2]) if named[0] == conversation.id else None
        return None if delivery is None else (delivery, named[2])
    last = draft.page(Page(DELIVERIES_OF, (conversation.id, *NEWEST, LOOKED)))
    for row in last:
        delivery = draft.get(DELIVERY, (row.conversation, row.id))
        if delivery is not None and receipt.message_id in delivery.message_ids:
            return delivery, delivery.message_ids.index(receipt.message_id) + 1
    return None
