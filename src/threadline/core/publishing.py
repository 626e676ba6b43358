"""What allows a session to speak somewhere, what its words answer, and where they came to stand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from threadline.core.consenting import silenced, withdrawn
from threadline.core.deliveries import Delivery, Words
from threadline.core.draft import Draft
from threadline.core.errors import IdempotencyConflict, NotFound
from threadline.core.ids import public
from threadline.core.lanes import know_parts
from threadline.core.model import (
    Conversation,
    ConversationRef,
    Kind,
    Membership,
    Origin,
    Provenance,
    Session,
    TranscriptRecord,
)
from threadline.core.ports import (
    ADAPTER,
    DELIVERY,
    INTENT,
    KNOWN,
    MEMBER,
    PARTICIPANT,
    RECORD,
    fetch,
)
from threadline.core.rules import binding, delivery, visibility
from threadline.core.rules.speaking import fold
from threadline.core.seating import active_member, heir, numbers_of
from threadline.core.threads import parent_of
from threadline.core.voices import stage


@dataclass(frozen=True, slots=True)
class Answered:
    """The record a session answers, and the origin of what it says about it."""

    record: TranscriptRecord
    origin: Origin


def right_of(
    draft: Draft, conversation: Conversation, session: Session, now: datetime
) -> str | None:
    """What allows the session to speak here, None where nothing does (G4).

    A thread without group or binding of its own has its room's.
    """
    room = parent_of(draft, conversation) if conversation.kind is Kind.THREAD else None
    owner, holder = stage(conversation, room, now)
    bound = binding.current(holder.about, now)
    if bound is not None:
        speaker = heir(draft, bound.session)
        if speaker is not None and speaker.id == session.id:
            return delivery.binding_right(bound)
    if owner is not None and _is_public(draft, owner, session):
        return delivery.GROUP
    if conversation.ref.provider == delivery.INTERNAL:
        members = (active_member(draft, conversation, one, now) for one in numbers_of(session))
        return delivery.MEMBER if any(members) else None
    return None


def _is_public(draft: Draft, owner: Conversation, session: Session) -> bool:
    for number in numbers_of(session):
        member = draft.get(MEMBER, (owner.id, number))
        for handle in () if member is None else member.handles:
            seat = draft.get(PARTICIPANT, (owner.id, fold(handle)))
            if seat is None or not seat.public:
                continue
            speaker = heir(draft, seat.session)
            if speaker is not None and speaker.id == session.id:
                return True
    return False


def answered(
    draft: Draft,
    conversation: Conversation,
    member: Membership | None,
    given: int | str,
    now: datetime,
) -> Answered:
    """The record a sequence or a message id means, as far as the session may read it (law 5)."""
    sequence: int | None = given if isinstance(given, int) else None
    if isinstance(given, str):
        # Ids are counted for the whole account, or by the room's address.
        spaces = ("", conversation.ref.parent_conversation_id or conversation.ref.conversation_id)
        rows = [(conversation.id, draft.id_key(space, given)) for space in spaces]
        known = next((one for one in fetch(draft, KNOWN, rows) if one is not None), None)
        sequence = None if known is None else known.sequence
    record = None if sequence is None else draft.get(RECORD, (conversation.id, sequence))
    if record is None or member is None or not _shows(member, conversation, record, now):
        raise NotFound(f"there is no record {given!r} here to answer.", reply_to=given)
    return Answered(record, delivery.about(conversation, record))


def _shows(
    member: Membership, conversation: Conversation, record: TranscriptRecord, now: datetime
) -> bool:
    floor = max(visibility.visible_from(member, conversation, now), conversation.earliest_sequence)
    imported = record.provenance is Provenance.HYDRATED
    return record.sequence >= floor and not (
        imported and visibility.live_only(member, conversation, now)
    )


def thread_of(
    draft: Draft, conversation: Conversation, message_id: str | None
) -> ConversationRef | None:
    """Where an answer to a room's record goes, where the account answers in threads: the thread
    that this record opens, under its own id below the room (law 11)."""
    ref = conversation.ref
    if conversation.kind is not Kind.ROOM or message_id is None:
        return None
    there = draft.get(ADAPTER, (ref.scope_id, ref.provider, ref.account_id))
    if there is None or not there.capabilities.answers_in_thread:
        return None
    return ConversationRef(
        ref.provider,
        ref.account_id,
        message_id,
        ref.conversation_id,
        ref.scope_id,
        Kind.THREAD,
    )


def known_under(
    draft: Draft,
    session: Session,
    key: str | None,
    conversation: Conversation | None,
    words: Words,
) -> Delivery | None:
    """What this key already stands for. Raises `IdempotencyConflict` where it is something else."""
    if key is None:
        return None
    digest = None if conversation is None else digest_of(draft, conversation, words)
    for number in numbers_of(session):
        intent = draft.get(INTENT, (number, draft.id_key("key", key)))
        if intent is None:
            continue
        if intent.digest != digest:
            raise IdempotencyConflict(
                "this key was used for other words or another place; take a new key.",
                key=key,
                delivery=f"{public(intent.conversation)}.{public(intent.delivery)}",
            )
        return draft.get(DELIVERY, (intent.conversation, intent.delivery))
    return None


def digest_of(draft: Draft, conversation: Conversation, words: Words) -> bytes:
    """A keyed digest of what is asked: kept in place of the words."""
    return draft.id_key(public(conversation.id), words.digest)


def settle(draft: Draft, conversation: int, number: int, sequence: int | None) -> None:
    """Write down where a delivery's record came to stand once its hold was drained."""
    sent = draft.get(DELIVERY, (conversation, number))
    if sent is not None:
        sent = replace(sent, sequence=sequence)
        draft.put(DELIVERY, (conversation, number), sent)
        if sequence is not None:
            know_parts(draft, conversation, sent, sequence)


def lost(
    draft: Draft, conversation: Conversation, sent: Delivery, session: Session | None, now: datetime
) -> str:
    """Why what was allowed when it was written is not any more, empty where it still is (G15)."""
    if session is None:
        return "the session was retired."
    if sent.send is not None:
        reason = withdrawn(draft, conversation, session, sent.right, now)
        if reason or sent.right in (delivery.CLAIM, delivery.GRANTED):
            return reason
    right = right_of(draft, conversation, session, now)
    if right is None:
        return f"{session.name!r} may not speak here any more."
    bindings = sent.right.startswith("binding:") and right.startswith("binding:")
    if bindings and sent.right != right:
        return "the binding is of another generation by now."
    if reason := silenced(draft, conversation, session, sent.answers):
        return reason
    rows = [draft.get(MEMBER, (conversation.id, one)) for one in numbers_of(session)]
    known = [row for row in rows if row is not None]
    if known and not any(visibility.is_active(row, now) for row in known):
        return f"{session.name!r} is not a member any more."
    return ""
