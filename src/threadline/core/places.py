"""Which conversation a message belongs to: made, moved, linked, or found.

An unknown `same_as` becomes a further address of the known conversation. Where both addresses have
transcripts nothing is merged: a notice in each links them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.errors import KindMismatch
from threadline.core.ids import public
from threadline.core.model import (
    SYSTEM,
    About,
    Conversation,
    ConversationRef,
    Direction,
    Event,
    InboundMessage,
    Kind,
    TranscriptRecord,
)
from threadline.core.ports import ADDRESS


def resolve(draft: Draft, message: InboundMessage, now: datetime, *, strict: bool) -> Conversation:
    """The conversation a message belongs to, made or given a further address as needed.

    Raises `KindMismatch` where a caller (not a provider) names another kind.
    """
    ref = message.conversation
    found = draft.taken(ref.text)
    known = [(other, draft.taken(other.text)) for other in message.same_as if other != ref]
    if found is None:
        older = next((it for _, it in known if it is not None), None)
        if older is None:
            found = create(draft, ref, now, parent=message.parent, root=message.thread_root)
        else:
            found = _add_address(draft, older, ref)
    for other, it in known:
        if it is None:
            found = _add_address(draft, found, other)
        elif it.id != found.id:
            found = _link(draft, it, found, now)
    return agree(draft, found, ref.kind, strict=strict)


def agree(
    draft: Draft, conversation: Conversation, kind: Kind | None, *, strict: bool
) -> Conversation:
    """Hold a stated kind against the stored one: a caller is refused, a provider is counted."""
    if kind is None or kind is conversation.kind:
        return conversation
    if strict:
        raise KindMismatch(
            f"({conversation.ref} is a {conversation.kind.value}, not a {kind.value})",
            kind=conversation.kind.value,
        )
    count = conversation.about.kind_mismatches + 1
    counted = replace(conversation, about=replace(conversation.about, kind_mismatches=count))
    draft.save(counted)
    return counted


def create(
    draft: Draft,
    ref: ConversationRef,
    now: datetime,
    *,
    parent: ConversationRef | None = None,
    root: str | None = None,
    title: str = "",
) -> Conversation:
    """A new conversation under its first address, linked to its parent where that is known."""
    above = parent or ref.parent
    kind = ref.kind or (Kind.THREAD if above is not None else Kind.ROOM)
    room = draft.peeked(above.text) if above is not None else None
    about = About(
        created_at=now,
        title=title,
        parent=None if room is None else room.id,
        thread_root=root,
    )
    made = Conversation(draft.fresh(), ref, kind, about)
    draft.put(ADDRESS, ref.text, made.id)
    draft.save(made)
    return made


def _add_address(draft: Draft, conversation: Conversation, ref: ConversationRef) -> Conversation:
    draft.put(ADDRESS, ref.text, conversation.id)
    moved = replace(conversation, ref=replace(ref, kind=conversation.kind))
    draft.save(moved)
    return moved


def _link(draft: Draft, one: Conversation, other: Conversation, now: datetime) -> Conversation:
    """Both addresses have transcripts: nothing is merged, a notice in each links them.

    Bindings, group and members belong to the newer from here on; the flow moves the members.
    Returns the conversation the message goes on in, which is `other`.
    """
    if one.about.moved_to is not None or other.about.moved_to is not None:
        return other
    old, new = sorted((one, other), key=lambda it: (it.about.created_at, it.id))
    was, becomes = old.about, new.about
    kept = replace(
        becomes,
        binding=becomes.binding or was.binding,
        generation=max(becomes.generation, was.generation),
        group=becomes.group or was.group,
        roster=becomes.roster + 1,
        last_addressed_handle=becomes.last_addressed_handle or was.last_addressed_handle,
    )
    gone = replace(was, binding=None, group=None, last_addressed_handle=None, moved_to=new.id)
    old, new = replace(old, about=gone), replace(new, about=kept)
    old = notice(draft, old, f"This conversation goes on as {new.ref}.", now, moved_to=new.id)
    new = notice(draft, new, f"This conversation was {old.ref} before.", now, moved_from=old.id)
    return old if old.id == other.id else new


def notice(
    draft: Draft, conversation: Conversation, text: str, now: datetime, **facts: object
) -> Conversation:
    """Append a record by the system; it wakes nobody."""
    shown = {name: public(it) if isinstance(it, int) else it for name, it in facts.items()}
    record = TranscriptRecord(
        sequence=conversation.next_sequence,
        direction=Direction.OUTBOUND,
        event=Event.NOTICE,
        actor=SYSTEM,
        text=text,
        recorded_at=now,
        metadata=shown,
    )
    draft.append(conversation.id, record)
    advanced = replace(conversation, next_sequence=conversation.next_sequence + 1)
    draft.save(advanced)
    return advanced
