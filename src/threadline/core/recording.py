"""How a message becomes a record: find the conversation, the duplicates, the speaker, the wakes.

One path for everything that is heard, imported, drained from a hold or said by a caller. The order
is law 4's: append first, route second; all of it in the transaction that allots the sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from typing import Any

from threadline.core.draft import Draft
from threadline.core.ids import public
from threadline.core.meeting import NOBODY_MET, Met, contact_of, heed, is_met, meet
from threadline.core.model import (
    Conversation,
    ConversationRef,
    Event,
    Held,
    Hydration,
    InboundMessage,
    Kind,
    Known,
    Provenance,
    Session,
    TranscriptRecord,
    WindowMode,
)
from threadline.core.moving import notice
from threadline.core.peers import wake_peers
from threadline.core.places import resolve
from threadline.core.ports import HELD, KNOWN, NO_NEEDS, RECORD, Key, Loaded, Needs
from threadline.core.quick import quick
from threadline.core.replying import note_reply, reply_row
from threadline.core.revising import revise, settle_early
from threadline.core.rules import hydration
from threadline.core.rules.limits import Limits
from threadline.core.threads import enrol, open_thread
from threadline.core.voices import NOBODY, choose, wanted


class Door(Enum):
    """How a message came in: that decides whether it may wait, and what it may do."""

    DIRECT = auto()
    HEARD = auto()
    DRAINED = auto()
    IMPORTED = auto()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of a message.

    `record` is None while it is held and where a duplicate's record is swept by now. `readers` is
    how many members the conversation has; 0 is an alarm, not a success. `draining` says that what
    waits has to be drained.
    """

    conversation: int
    ref: ConversationRef
    record: TranscriptRecord | None = None
    sequence: int | None = None
    duplicate: bool = False
    held: bool = False
    target_session_id: str | None = None
    route: str | None = None
    readers: int = 0
    draining: bool = False


def first_needs(message: InboundMessage) -> Needs:
    """What recording needs before anything is known."""
    ref = message.conversation
    parent = message.parent or ref.parent
    return Needs(
        take=(ref.text, *[other.text for other in message.same_as]),
        peek=() if parent is None else (parent.text,),
    )


def more_needs(loaded: Loaded, message: InboundMessage) -> Needs:
    """What recording needs once its conversation is known."""
    conversation = loaded.taken(message.conversation.text)
    if conversation is None:
        return NO_NEEDS
    number = conversation.id
    rows: list[Key] = []
    for one in (message.message_id, message.revises, message.reply_to):
        if one is not None:
            key = loaded.id_key(message.id_space, one)
            rows.append((KNOWN, (number, key)))
            if conversation.about.window is not None and one is message.message_id:
                rows.append((HELD, (number, key)))
    if message.reply_to is not None:
        rows.append(reply_row(loaded, number, message.id_space, message.reply_to))
    rows += wanted(loaded, conversation, message)
    return Needs(rows=rows)


def take(
    draft: Draft,
    message: InboundMessage,
    now: datetime,
    *,
    door: Door,
    limits: Limits,
    said_by: Session | None = None,
    delivery: int | None = None,
    vouched: bool = True,
) -> Taken:
    """Record one message, or hold it, or find that it is known already.

    It is `vouched` for where whoever brings it may speak for the person who said it.
    """
    conversation = resolve(draft, message, now, strict=door is Door.DIRECT)
    known, key = None, b""
    if message.message_id is not None:
        key = draft.id_key(message.id_space, message.message_id)
        known = draft.get(KNOWN, (conversation.id, key))
        if known is not None and known.sequence is not None:
            if said_by is not None:
                _claim(draft, conversation, known.sequence, message, said_by)
            look = door in (Door.DIRECT, Door.HEARD)
            return _duplicate(draft, conversation, known.sequence, look=look)
    about = conversation.about
    if about.window is not None and door in (Door.DIRECT, Door.HEARD):
        if reason := hydration.is_over(about.window, now):
            about = hydration.closing(about, Hydration.FAILED, reason)
            conversation = replace(conversation, about=about)
            draft.save(conversation)
        if hydration.is_gated(conversation):
            if door is Door.DIRECT:
                return _wait(conversation)
            if said_by is None and is_met(draft, conversation, message):
                # The word "stop" does not wait until an import is over.
                heed(draft, conversation, message, now)
            return _hold(draft, conversation, message, limits, said_by, delivery)
        if about.window is not None and about.window.closing is not None:
            conversation = replace(conversation, about=hydration.closed(about))
    return append(
        draft,
        conversation,
        message,
        now,
        known=known,
        key=key,
        door=door,
        limits=limits,
        said_by=said_by,
        vouched=vouched,
    )


def _duplicate(
    draft: Draft, conversation: Conversation, sequence: int, *, look: bool = True
) -> Taken:
    """The winner's record, unless nobody asks for it: an import only counts what was known."""
    record = None
    if look and sequence >= conversation.earliest_sequence:
        record = draft.get(RECORD, (conversation.id, sequence))
    return Taken(
        conversation=conversation.id,
        ref=conversation.ref,
        record=record,
        sequence=sequence,
        duplicate=True,
        target_session_id=record.target_session_id if record else None,
        route=record.route if record else None,
        readers=conversation.about.members,
    )


def _claim(
    draft: Draft,
    conversation: Conversation,
    sequence: int,
    message: InboundMessage,
    said_by: Session,
) -> None:
    """An echo or an import was quicker than our own settlement: its record is the session's."""
    record = draft.get(RECORD, (conversation.id, sequence))
    if record is None or record.source is not None or record.blanked:
        return
    own = replace(
        record,
        source_session_id=said_by.name,
        source=public(said_by.id),
        **_ours(record, message),
    )
    draft.put(RECORD, (conversation.id, sequence), own)
    draft.changes.conversations.add(conversation.id)


def _ours(echo: TranscriptRecord | InboundMessage, said: InboundMessage) -> dict[str, Any]:
    """What our own settlement knows and the echo did not."""
    return {
        "direction": said.direction,
        "origin": echo.origin or said.origin,
        "reply_to": echo.reply_to or said.reply_to,
        "metadata": {**echo.metadata, **said.metadata},
    }


def _wait(conversation: Conversation) -> Taken:
    """A caller is refused while a gated import is open; once it closes, it is drained first."""
    window = conversation.about.window
    if window is None or window.closing is None:
        hydration.refuse_gated(conversation)
    return Taken(conversation=conversation.id, ref=conversation.ref, draining=True)


def _hold(
    draft: Draft,
    conversation: Conversation,
    message: InboundMessage,
    limits: Limits,
    said_by: Session | None,
    delivery: int | None,
) -> Taken:
    """Keep a message for after the gated import, under the same unique key (law 1)."""
    about = conversation.about
    held = Taken(
        conversation=conversation.id,
        ref=conversation.ref,
        held=True,
        readers=about.members,
        draining=about.window is not None and about.window.closing is not None,
    )
    if message.message_id is None:
        key = b"position:%d" % about.next_hold
    else:
        key = draft.id_key(message.id_space, message.message_id)
        before = draft.get(HELD, (conversation.id, key))
        if before is not None:
            if said_by is not None and before.said_by is None:
                own = replace(
                    before,
                    message=replace(before.message, **_ours(before.message, message)),
                    said_by=said_by.id,
                    delivery=delivery,
                )
                draft.put(HELD, (conversation.id, key), own)
            return replace(held, duplicate=True)
    size = len(message.text.encode()) + 256
    author = None if said_by is None else said_by.id
    held_as = Held(conversation.id, about.next_hold, key, message, size, author, delivery)
    draft.put(HELD, (conversation.id, key), held_as)
    about = replace(
        about,
        held=about.held + 1,
        held_bytes=about.held_bytes + size,
        next_hold=about.next_hold + 1,
    )
    full = about.held > limits.hold_entries or about.held_bytes > limits.hold_bytes
    if full and about.window is not None and about.window.closing is None:
        about = hydration.closing(about, Hydration.FAILED, "hold_full")
        held = replace(held, draining=True)
    draft.save(replace(conversation, about=about))
    return held


def append(
    draft: Draft,
    conversation: Conversation,
    message: InboundMessage,
    now: datetime,
    *,
    known: Known | None,
    key: bytes,
    door: Door,
    limits: Limits,
    said_by: Session | None = None,
    vouched: bool = True,
) -> Taken:
    """Allot the sequence, write the record and its id, choose the speaker, decide the wakes."""
    imported = door is Door.IMPORTED
    window = conversation.about.window
    in_front = imported and window is not None and window.mode is WindowMode.PREPENDING
    if conversation.kind is Kind.THREAD and not in_front:
        conversation = open_thread(draft, conversation, message, now, imported=imported)
        if message.message_id is not None and message.message_id == message.thread_root:
            known = draft.get(KNOWN, (conversation.id, key))
            if known is not None and known.sequence is not None:
                return _duplicate(draft, conversation, known.sequence)
        if not imported:
            conversation = enrol(draft, conversation, now)
    chosen, met = NOBODY, NOBODY_MET
    if said_by is not None:
        conversation, chosen = wake_peers(draft, conversation, message, said_by, now, limits)
        other = contact_of(draft, conversation)
        met = Met(None if other is None else public(other.person))
    elif not imported:
        if is_met(draft, conversation, message):
            if vouched:
                conversation, met = meet(draft, conversation, message, now)
            else:
                met = heed(draft, conversation, message, now)
        conversation, chosen = choose(draft, conversation, message, now, limits)
    sequence = conversation.lowest_sequence - 1 if in_front else conversation.next_sequence
    record = TranscriptRecord(
        sequence=sequence,
        direction=message.direction,
        event=message.event,
        provenance=Provenance.HYDRATED if imported else Provenance.LIVE,
        message_id=message.message_id,
        id_space=message.id_space,
        actor=message.actor,
        text=message.text,
        explicit_target=message.explicit_target,
        reply_to=message.reply_to,
        revises=message.revises,
        attachments=message.attachments,
        source_session_id=None if said_by is None else said_by.name,
        source=None if said_by is None else public(said_by.id),
        target_session_id=chosen.name,
        target=chosen.session,
        route=chosen.route,
        wakes=() if met.quiet else chosen.wakes,
        person_id=met.person,
        origin=message.origin,
        signed=message.signed,
        sent_at=message.sent_at,
        recorded_at=now,
        metadata=message.metadata,
    )
    if message.event is not Event.MESSAGE:
        record = revise(draft, conversation, message, record)
    elif known is not None:
        record = settle_early(draft, conversation, message, record)
    draft.append(conversation.id, record)
    if key:
        draft.put(KNOWN, (conversation.id, key), Known(sequence))
    if message.reply_to is not None and not imported:
        note_reply(draft, conversation.id, message, sequence, said_by)
    conversation = _counted(conversation, message, sequence, in_front=in_front, imported=imported)
    draft.save(conversation)
    for words in (chosen.spent, met.told):
        if words:
            conversation = notice(draft, conversation, words, now)
    return Taken(
        conversation=conversation.id,
        ref=conversation.ref,
        record=record,
        sequence=sequence,
        target_session_id=record.target_session_id,
        route=record.route,
        readers=conversation.about.members,
    )


def _counted(
    conversation: Conversation,
    message: InboundMessage,
    sequence: int,
    *,
    in_front: bool,
    imported: bool,
) -> Conversation:
    about = conversation.about
    if not imported and not about.has_live:
        about = replace(about, has_live=True)
    if in_front:
        if message.message_id is not None:
            about = replace(about, oldest_hydrated_message_id=message.message_id)
        return Conversation(
            conversation.id,
            conversation.ref,
            conversation.kind,
            about,
            conversation.next_sequence,
            sequence,
            sequence,
        )
    if imported and about.oldest_hydrated_message_id is None and message.message_id is not None:
        about = replace(about, oldest_hydrated_message_id=message.message_id)
    return Conversation(
        conversation.id,
        conversation.ref,
        conversation.kind,
        about,
        sequence + 1,
        conversation.lowest_sequence,
        conversation.earliest_sequence,
    )
