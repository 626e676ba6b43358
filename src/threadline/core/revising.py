"""Edits, deletes and reactions: new records that refer to the one they revise.

Only the author may revise, compared by id; a provider's signed delete needs no actor. A revision
may come before its message: it is kept and applied when the message comes. A delete overwrites the
text of its target, of the target's edits and of its copies in threads, in the same transaction, so
every read path is right by construction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput
from threadline.core.model import (
    Conversation,
    Event,
    InboundMessage,
    Known,
    TranscriptRecord,
)
from threadline.core.ports import FOLLOWERS, KNOWN, RECORD, Key, Loaded, fetch, together

NOT_THE_AUTHOR = "only the author may revise a message"
COPY = "copy"


def blank(record: TranscriptRecord) -> TranscriptRecord:
    """The record without its content; its place, id and author stay (law 16)."""
    return replace(record, text="", attachments=(), explicit_target=None, metadata={}, blanked=True)


def revision_needs(loaded: Loaded, conversation: int, messages: Iterable[InboundMessage]) -> None:
    """Ask for all that these messages' revisions look at, in few rounds. Raises `Missing`."""
    keys: dict[bytes, None] = {}
    for message in messages:
        if message.revises is not None:
            keys[loaded.id_key(message.id_space, message.revises)] = None
        if message.message_id is not None:
            own = loaded.id_key(message.id_space, message.message_id)
            known = loaded.get(KNOWN, (conversation, own))
            if known is not None and known.sequence is None:
                keys[own] = None
    if not keys:
        return
    together(loaded, [(KNOWN, (conversation, key)) for key in keys])
    together(loaded, [(FOLLOWERS, (conversation, key)) for key in keys])
    records: list[Key] = []
    for key in keys:
        known = loaded.get(KNOWN, (conversation, key))
        if known is not None and known.sequence is not None:
            records.append((RECORD, (conversation, known.sequence)))
        followers = loaded.get(FOLLOWERS, (conversation, key)) or ()
        records += [(RECORD, (at, sequence)) for at, sequence, _ in followers]
    together(loaded, records)


def revise(
    draft: Draft, conversation: Conversation, message: InboundMessage, record: TranscriptRecord
) -> TranscriptRecord:
    """Apply an event that is no message. Returns the record as it will stand."""
    if message.event not in (Event.EDIT, Event.DELETE, Event.REACTION):
        return record
    if message.revises is None:
        raise InvalidInput(f"an {message.event.value} must say which message it `revises`.")
    key = draft.id_key(message.id_space, message.revises)
    known = draft.get(KNOWN, (conversation.id, key))
    if message.event is Event.REACTION:
        return record
    if known is None:
        draft.put(KNOWN, (conversation.id, key), Known(None))
    target = None
    if known is not None and known.sequence is not None:
        target = draft.get(RECORD, (conversation.id, known.sequence))
    if target is not None and not _may_revise(target, record):
        return replace(record, refused=NOT_THE_AUTHOR)
    row = (conversation.id, key, conversation.id, record.sequence, record.event.value)
    if record.event is Event.DELETE:
        record = replace(blank(record), blanked=False)
        if target is not None:
            _overwrite(draft, conversation.id, target)
        # Where the message never came or was swept, its edits and copies are content all the same.
        _blank_followers(draft, conversation.id, key, by=record if target is None else None)
    elif target.blanked if target is not None else _deleted(draft, conversation.id, key, record):
        record = blank(record)
    draft.changes.revisions.append(row)
    return record


def settle_early(
    draft: Draft, conversation: Conversation, message: InboundMessage, record: TranscriptRecord
) -> TranscriptRecord:
    """Apply the revisions that came before this message."""
    if message.message_id is None:
        return record
    key = draft.id_key(message.id_space, message.message_id)
    deleted = False
    for at, sequence, event in _followers(draft, conversation.id, key):
        early = draft.get(RECORD, (at, sequence))
        if at != conversation.id:
            continue
        if early is None:
            # Swept: who deleted cannot be compared any more, and what was deleted stays so.
            deleted = deleted or event == Event.DELETE.value
        elif not _may_revise(record, early):
            draft.put(RECORD, (at, sequence), replace(early, refused=NOT_THE_AUTHOR))
        elif early.event is Event.DELETE:
            deleted = True
    if not deleted:
        return record
    _blank_followers(draft, conversation.id, key)
    return blank(record)


def _may_revise(target: TranscriptRecord, revision: TranscriptRecord) -> bool:
    if revision.event is Event.DELETE and revision.signed:
        return True
    return revision.actor.id == target.actor.id


def _overwrite(draft: Draft, conversation: int, record: TranscriptRecord) -> None:
    draft.put(RECORD, (conversation, record.sequence), blank(record))
    draft.changes.blanked.append((conversation, record.sequence))


def _deleted(draft: Draft, conversation: int, key: bytes, edit: TranscriptRecord) -> bool:
    """Whether the message of an edit was deleted before either was known."""
    for at, sequence, event in _followers(draft, conversation, key):
        if event == Event.DELETE.value and at == conversation:
            early = draft.get(RECORD, (at, sequence))
            if early is None or _may_revise(edit, early):
                return True
    return False


def _blank_followers(
    draft: Draft, conversation: int, key: bytes, by: TranscriptRecord | None = None
) -> None:
    """Blank the edits of a deleted message and its copies in threads.

    `by` is the delete where the message's author is unknown: then it reaches its own edits only.
    """
    for at, sequence, event in _followers(draft, conversation, key):
        if event == Event.DELETE.value:
            continue
        follower = draft.get(RECORD, (at, sequence))
        if by is not None and follower is not None and not _may_revise(follower, by):
            continue
        if follower is not None and not follower.blanked:
            _overwrite(draft, at, follower)
            draft.changes.conversations.add(at)


def _followers(draft: Draft, conversation: int, key: bytes) -> list[tuple[int, int, str]]:
    """What revises or copies a message: as stored, and as decided in this very story."""
    stored = draft.get(FOLLOWERS, (conversation, key)) or ()
    own = [
        (at, sequence, event)
        for where, what, at, sequence, event in draft.changes.revisions
        if where == conversation and what == key
    ]
    fetch(draft, RECORD, [(at, sequence) for at, sequence, _ in stored])
    return [*stored, *own]
