"""Threads: the copy of the root, and who is enrolled from the room.

The transaction that first writes to a thread appends a copy of its root first, if the room has it,
and enrols the room's participants, its bound session and the session that said the root. A change
of the room's roster is repaired by the next append. The room is read, its order never is.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.ids import number_of
from threadline.core.model import (
    ALL,
    SINCE_JOIN,
    Conversation,
    InboundMessage,
    Kind,
    Known,
    Reason,
)
from threadline.core.ports import KNOWN, MEMBER, RECORD, fetch
from threadline.core.revising import COPY
from threadline.core.rules import binding
from threadline.core.seating import heir, seat, seats_of


def parent_of(draft: Draft, conversation: Conversation) -> Conversation | None:
    """The room of a thread, as far as it is known."""
    if conversation.about.parent is not None:
        return draft.peeked(conversation.about.parent)
    above = conversation.ref.parent
    return None if above is None else draft.peeked(above.text)


def open_thread(
    draft: Draft,
    conversation: Conversation,
    message: InboundMessage,
    now: datetime,
    *,
    imported: bool,
) -> Conversation:
    """Before the first record of a thread: link its room, copy its root, enrol who said it."""
    if conversation.kind is not Kind.THREAD:
        return conversation
    if conversation.head or conversation.lowest_sequence < 1:
        return _linked_late(draft, conversation, message)
    room = parent_of(draft, conversation)
    if room is None and message.parent is not None:
        room = draft.peeked(message.parent.text)
    if room is None:
        return conversation
    root = message.thread_root or conversation.about.thread_root
    about = replace(conversation.about, parent=room.id, thread_root=root)
    conversation = replace(conversation, about=about)
    key = None if root is None else draft.id_key(message.id_space, root)
    known = None if key is None else draft.get(KNOWN, (room.id, key))
    said = None
    if known is not None and known.sequence is not None:
        said = draft.get(RECORD, (room.id, known.sequence))
    if said is None or key is None:
        draft.save(conversation)
        return conversation
    copy = replace(
        said,
        sequence=conversation.next_sequence,
        copied_from=said.sequence,
        target_session_id=None,
        target=None,
        route=None,
        wakes=(),
        recorded_at=now,
    )
    draft.append(conversation.id, copy)
    draft.put(KNOWN, (conversation.id, key), Known(copy.sequence))
    draft.changes.revisions.append((room.id, key, conversation.id, copy.sequence, COPY))
    conversation = replace(conversation, next_sequence=conversation.next_sequence + 1)
    draft.save(conversation)
    author = heir(draft, None if said.source is None else number_of(said.source))
    if author is not None and not imported:
        conversation, _ = seat(
            draft, conversation, author.id, by=Reason.MANUAL, policy=ALL, now=now, head=0
        )
    return conversation


def _linked_late(draft: Draft, conversation: Conversation, message: InboundMessage) -> Conversation:
    """Link the room of a thread that was written to before anybody knew where it hangs.

    The root is not copied any more: it would come after what it began.
    """
    if message.parent is None or parent_of(draft, conversation) is not None:
        return conversation
    room = draft.peeked(message.parent.text)
    if room is None or room.id == conversation.id:
        return conversation
    root = conversation.about.thread_root or message.thread_root
    about = replace(conversation.about, parent=room.id, thread_root=root)
    linked = replace(conversation, about=about)
    draft.save(linked)
    return linked


def enrol(draft: Draft, conversation: Conversation, now: datetime) -> Conversation:
    """Make members of who belongs here by the room and never was. Nobody who left comes back."""
    if conversation.kind is not Kind.THREAD:
        return conversation
    room = parent_of(draft, conversation)
    if room is None or conversation.about.parent_roster == room.about.roster:
        return conversation
    started = 0 if conversation.about.parent_roster is None else conversation.head
    about = replace(conversation.about, parent=room.id, parent_roster=room.about.roster)
    conversation = replace(conversation, about=about)
    draft.save(conversation)
    seated = list(dict.fromkeys(session for _, session in seats_of(draft, room.id)))
    known = fetch(draft, MEMBER, [(conversation.id, session) for session in seated])
    for session, member in zip(seated, known, strict=True):
        if member is None:
            conversation, _ = seat(
                draft,
                conversation,
                session,
                by=Reason.GROUP,
                policy=ALL,
                now=now,
                head=started,
            )
    bound = binding.current(room.about, now)
    if bound is not None and draft.get(MEMBER, (conversation.id, bound.session)) is None:
        conversation, _ = seat(
            draft,
            conversation,
            bound.session,
            by=Reason.BINDING,
            policy=SINCE_JOIN,
            now=now,
            expires_at=bound.expires_at,
            head=started,
        )
    return conversation
