"""Whether somebody replied to what a session said: the first reply is written down.

It stands among the ids, under the id it answers in a space of its own, so that asking later costs
one look-up however long the transcript has grown. A reply to an id that is not known yet counts as
well: an answer may be quicker than the settlement of what it answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from threadline.core.draft import Draft
from threadline.core.model import Event, InboundMessage, Known, Session
from threadline.core.ports import KNOWN, RECORD, Key, Loaded, together

SPACE = "reply "


def reply_row(loaded: Loaded, conversation: int, space: str, message_id: str) -> Key:
    """Where the first reply to a message stands."""
    return KNOWN, (conversation, loaded.id_key(SPACE + space, message_id))


def note_reply(
    draft: Draft,
    conversation: int,
    message: InboundMessage,
    sequence: int,
    said_by: Session | None,
) -> None:
    """Write down that this message is the first reply to what a session said."""
    if message.reply_to is None or message.event is not Event.MESSAGE:
        return
    row = reply_row(draft, conversation, message.id_space, message.reply_to)
    if draft.get(*row) is not None:
        return
    known = draft.get(KNOWN, (conversation, draft.id_key(message.id_space, message.reply_to)))
    if known is not None and known.sequence is not None:
        record = draft.get(RECORD, (conversation, known.sequence))
        if record is None or record.source_session_id is None:
            return
        if said_by is not None and said_by.name == record.source_session_id:
            return  # Who adds something to its own words has not been answered.
    draft.put(*row, Known(sequence))


def replied(loaded: Loaded, conversation: int, space: str, ids: Sequence[str]) -> bool:
    """Whether any of a message's parts has a reply. Raises `Missing`."""
    rows = [reply_row(loaded, conversation, space, one) for one in ids]
    together(loaded, rows)
    return any(loaded.get(*row) is not None for row in rows)
