"""Which conversation a message belongs to: made, moved, linked, or found.

An unknown `same_as` becomes a further address of the known conversation. Where both addresses have
transcripts they are linked (`moving.py`), never merged.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.errors import InvalidConversation, KindMismatch
from threadline.core.model import (
    About,
    Conversation,
    ConversationRef,
    InboundMessage,
    Kind,
)
from threadline.core.moving import link
from threadline.core.ports import ADAPTER, ADDRESS


def resolve(draft: Draft, message: InboundMessage, now: datetime, *, strict: bool) -> Conversation:
    """The conversation a message belongs to, made or given a further address as needed.

    Raises `KindMismatch` where a caller (not a provider) names another kind.
    """
    ref = message.conversation
    found = draft.taken(ref.text)
    if found is not None and not message.same_as:
        if found.about.kind_guessed and not strict:
            found = _placed(draft, found, message)
        return found if ref.kind is None else agree(draft, found, ref.kind, strict=strict)
    known = [(other, draft.taken(other.text)) for other in message.same_as if other != ref]
    if found is None:
        older = next((it for _, it in known if it is not None), None)
        if older is None:
            found = create(draft, ref, now, parent=message.parent, root=message.thread_root)
        else:
            found = _add_address(draft, older, ref)
    for other, it in known:
        if it is None:
            # One more way to the same place; what is said goes where it was last heard from.
            draft.put(ADDRESS, other.text, found.id)
            draft.save(found)
        elif it.id != found.id:
            found = link(draft, it, found, now)
    return agree(draft, found, ref.kind, strict=strict)


def moved(
    draft: Draft, conversation: Conversation, to: ConversationRef, now: datetime
) -> Conversation:
    """The same conversation once a send turned out to go to another address of it."""
    if conversation.ref == to:
        return conversation
    there = draft.taken(to.text)
    if there is None:
        return _add_address(draft, conversation, to)
    if there.id == conversation.id:
        # Its address is written down already; only what is newest changes.
        newest = replace(conversation, ref=replace(to, kind=conversation.kind))
        draft.save(newest)
        return newest
    link(draft, conversation, there, now)
    return draft.taken(conversation.id) or conversation


def agree(
    draft: Draft, conversation: Conversation, kind: Kind | None, *, strict: bool
) -> Conversation:
    """Hold a stated kind against the stored one: a caller is refused, a provider is counted."""
    if kind is None or kind is conversation.kind:
        return conversation
    if strict:
        refuse_other_kind(conversation, kind)
    if conversation.about.kind_guessed:
        return learned(draft, conversation, kind)
    count = conversation.about.kind_mismatches + 1
    counted = replace(conversation, about=replace(conversation.about, kind_mismatches=count))
    draft.save(counted)
    return counted


def learned(draft: Draft, conversation: Conversation, kind: Kind) -> Conversation:
    """The kind of a conversation of which only its name was known: a person who is taken for a room
    could say stop and nobody would listen."""
    known = replace(
        conversation,
        kind=kind,
        ref=replace(conversation.ref, kind=kind),
        about=replace(conversation.about, kind_guessed=False),
    )
    draft.save(known)
    return known


def _placed(draft: Draft, conversation: Conversation, message: InboundMessage) -> Conversation:
    """A thread of which only its name was known, below its room."""
    room = None if message.parent is None else draft.peeked(message.parent.text)
    if room is None or message.conversation.kind is not Kind.THREAD:
        return conversation
    about = replace(conversation.about, parent=room.id, thread_root=message.thread_root)
    return replace(conversation, about=about)


def refuse_other_kind(conversation: Conversation, kind: Kind | None) -> None:
    """Raise `KindMismatch` where a caller states another kind than the stored one."""
    if kind is not None and kind is not conversation.kind:
        raise KindMismatch(
            f"({conversation.ref} is a {conversation.kind.value}, not a {kind.value})",
            kind=conversation.kind.value,
        )


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
    if ref.parent is not None:
        refuse_nested(draft, ref)
    kind = ref.kind or (Kind.THREAD if above is not None else Kind.ROOM)
    room = draft.peeked(above.text) if above is not None else None
    about = About(
        created_at=now,
        title=title,
        parent=None if room is None else room.id,
        thread_root=root,
        kind_guessed=ref.kind is None and above is None,
    )
    made = Conversation(draft.fresh(), ref, kind, about)
    draft.put(ADDRESS, ref.text, made.id)
    draft.save(made)
    return made


def refuse_nested(draft: Draft, ref: ConversationRef) -> None:
    """Raise `InvalidConversation` for a thread below its room where threads stand for themselves:
    what is heard there would come to stand in another conversation than what is said."""
    there = draft.get(ADAPTER, (ref.scope_id, ref.provider, ref.account_id))
    if there is not None and there.capabilities.own_threads and ref.parent is not None:
        raise InvalidConversation(
            f"a thread of {ref.provider} has an address of its own: "
            f"{ref.provider}/{ref.account_id}/{ref.conversation_id}.",
        )


def _add_address(draft: Draft, conversation: Conversation, ref: ConversationRef) -> Conversation:
    draft.put(ADDRESS, ref.text, conversation.id)
    moved = replace(conversation, ref=replace(ref, kind=conversation.kind))
    draft.save(moved)
    return moved
