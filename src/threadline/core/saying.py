"""Writing down what a session says: at a place of ours with its record, elsewhere as an intent.

`web` and `internal` have no network in between, so the commit that writes the record is the proof.
Anywhere else an adapter has to speak for the account; then the intent waits in the lane of its
conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from threadline.core.adapters import Registration
from threadline.core.deliveries import Delivery, DeliveryState, Failure, Intent, Words
from threadline.core.draft import Draft
from threadline.core.errors import NoAdapter
from threadline.core.ids import public
from threadline.core.lanes import enter, registration_of
from threadline.core.model import (
    Actor,
    Attachment,
    Conversation,
    ConversationRef,
    Direction,
    InboundMessage,
    Origin,
    Session,
)
from threadline.core.ports import DELIVERY, INTENT
from threadline.core.publishing import digest_of
from threadline.core.recording import Door, take
from threadline.core.rules import admission, delivery, pacing
from threadline.core.rules.limits import Limits
from threadline.core.rules.pacing import Pace
from threadline.core.rules.splitting import Clusters, cuts
from threadline.core.seating import numbers_of
from threadline.core.uploads import carried, named, own, said

MAX_PARTS = 100


def say(
    draft: Draft,
    conversation: Conversation,
    session: Session,
    right: str,
    words: Words,
    now: datetime,
    *,
    origin: Origin | None,
    replied: tuple[int | None, str | None] | None,
    key: str | None,
    asked: Conversation,
    limits: Limits,
    pace: Pace,
    clusters: Clusters,
    copies: Mapping[str, Attachment] | None = None,
    send: int | None = None,
) -> Delivery:
    """Write one intent under its key, which is one for the conversation that was `asked` for.

    `send` is what it belongs to where the session writes on its own initiative.

    `copies` are the files that stand for references among the words' attachments. Raises
    `NoAdapter` where nobody could carry it out, `FileNotCarried`, and what `core.uploads.own` does.
    """
    ref = conversation.ref
    local = ref.provider in delivery.LOCAL
    there = None if local else registration_of(draft, ref)
    if not local and there is None:
        raise NoAdapter(
            f"nothing speaks for {ref.provider}/{ref.account_id}. Connect an adapter for this "
            "account.",
            provider=ref.provider,
        )
    made = Delivery(
        conversation=conversation.id,
        id=conversation.about.deliveries + 1,
        turn=conversation.about.deliveries + 1,
        session=session.id,
        state=DeliveryState.PENDING,
        right=right,
        created_at=now,
        text="",
        answers=None if replied is None else replied[0],
        reply_to=None if replied is None else replied[1],
        origin=origin,
        send=send,
    )
    # Refused before anything is written: what cannot be carried is the caller's to change.
    files = tuple((copies or {}).get(one.id, one) for one in words.attachments)
    uploads = own(draft, files, numbers_of(session), ref.scope_id, send=send)
    carried(ref.provider, there, files, uploads)
    spoken = replace(words, attachments=named(files, uploads))
    about = replace(conversation.about, deliveries=made.id)
    conversation = replace(conversation, about=about)
    draft.save(conversation)
    if there is None:
        made = _said_here(draft, conversation, session, made, spoken, now, limits)
        draft.put(DELIVERY, (made.conversation, made.id), made)
    else:
        made = _written(draft, there, made, spoken, now, limits, pace, clusters)
    if made.state is not DeliveryState.FAILED:
        said(
            draft,
            uploads,
            made.conversation,
            delivery=made.id,
            sequence=made.sequence,
            local=there is None,
        )
    if key is not None:
        intent = Intent(
            digest=digest_of(draft, asked, words),
            conversation=made.conversation,
            delivery=made.id,
            created_at=now,
        )
        draft.put(INTENT, (session.id, draft.id_key("key", key)), intent)
    return made


def _said_here(
    draft: Draft,
    conversation: Conversation,
    session: Session,
    made: Delivery,
    words: Words,
    now: datetime,
    limits: Limits,
) -> Delivery:
    """Record and proof of a local publication; one that does not fit leaves no record."""
    made = replace(made, settled_at=now, attempts=1)
    if reason := delivery.refusal(words.text):
        return replace(made, state=DeliveryState.FAILED, failure=Failure.PERMANENT, reason=reason)
    name = public(draft.fresh())
    message = InboundMessage(
        conversation=replace(conversation.ref, kind=None),
        text=words.text,
        actor=Actor(public(session.id), session.name, is_bot=True, is_self=True),
        message_id=name,
        direction=Direction.OUTBOUND,
        explicit_target=words.explicit_target,
        reply_to=made.reply_to,
        attachments=words.attachments,
        origin=made.origin,
        metadata=words.metadata,
    )
    message = admission.checked(message, limits)
    if made.send is not None:
        # As the record of a platform's says it: by its own initiative, and which send it was.
        message = replace(message, metadata={**message.metadata, "send": public(made.send)})
    taken = take(
        draft,
        message,
        now,
        door=Door.HEARD,
        limits=limits,
        said_by=session,
        delivery=made.id,
    )
    return replace(
        made, state=DeliveryState.DELIVERED, sequence=taken.sequence, message_ids=(name,)
    )


def _written(
    draft: Draft,
    there: Registration,
    made: Delivery,
    words: Words,
    now: datetime,
    limits: Limits,
    pace: Pace,
    clusters: Clusters,
) -> Delivery:
    """The intent at the tail of its lane, checked now as its record will be once it is said."""
    can = there.capabilities
    checked = admission.checked(
        InboundMessage(
            conversation=ConversationRef(there.provider, there.account_id, "-"),
            text=words.text,
            actor=Actor(there.account_id),
            explicit_target=words.explicit_target,
            attachments=words.attachments,
            metadata=words.metadata,
        ),
        limits,
    )
    made = replace(
        made,
        text=checked.text,
        attachments=checked.attachments,
        metadata=checked.metadata,
        explicit_target=checked.explicit_target,
        lives=pace.time_to_live,
        expires_at=now + pace.time_to_live,
    )
    made = pacing.stepped(made, DeliveryState.PENDING, now, f"written down, by {made.right}")
    reason = ""
    # Words beside a file are shorter on some platforms; what does not fit there follows behind.
    most = can.max_length
    if checked.attachments and can.max_caption:
        most = min(most, can.max_caption)
    if len(checked.text) > most * MAX_PARTS:
        reason = f"the text would be over {MAX_PARTS} messages long."
    else:
        made = replace(made, cuts=cuts(checked.text, most, can.unit, clusters))
        if made.parts > MAX_PARTS:
            reason = f"the text would be {made.parts} messages long, {MAX_PARTS} are allowed."
    if reason:
        made = replace(made, cuts=())
        made = pacing.ended(made, DeliveryState.FAILED, now, reason, Failure.UNSUPPORTED)
        draft.put(DELIVERY, (made.conversation, made.id), made)
        return made
    enter(draft, made, now)
    return made
