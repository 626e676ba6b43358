"""What has to be known to read a gap: where to ask, how far we heard, and what is said of the rest.

The reading itself is in `flows.histories`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from threadline.core.adapters import Account
from threadline.core.draft import Draft
from threadline.core.model import ConversationRef, Event, InboundMessage, TranscriptRecord
from threadline.core.moving import notice
from threadline.core.ports import (
    CONVERSATIONS,
    RECORD,
    RECORDS_BEFORE,
    Changes,
    Loaded,
    Needs,
    Page,
    Story,
)

GAP_ROOMS = 1_000
PAGE = 500
LAST = 100


@dataclass(frozen=True, slots=True)
class Rooms:
    """The conversations of an account to be asked about a gap, and those there are too many of."""

    asked: list[ConversationRef]
    left_out: list[ConversationRef]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRooms(Story[Rooms]):
    """The conversations of an account that were ever live, or hold nothing yet."""

    account: Account

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Rooms]:
        """Rooms first, for threads that nobody knew of are found in them; then the threads that
        began last. Of an account there are more threads every day."""
        account = self.account
        first = ConversationRef(
            account.provider, account.account_id, "-", scope_id=account.scope_id
        ).text.partition("?")[0]
        prefix = after = first[:-1]
        found: list[ConversationRef] = []
        while True:
            rows = loaded.page(Page(CONVERSATIONS, (account.scope_id, after, PAGE)))
            here = [one for one in rows if one.ref.text.startswith(prefix)]
            found += [one.ref for one in here if one.about.has_live or one.next_sequence == 1]
            if len(here) < PAGE:
                break
            after = here[-1].ref.text
        threads = [one for one in found if one.parent_conversation_id is not None]
        threads.sort(key=lambda one: (len(one.conversation_id), one.conversation_id), reverse=True)
        ordered = [one for one in found if one.parent_conversation_id is None] + threads
        return Changes(), Rooms(ordered[:GAP_ROOMS], ordered[GAP_ROOMS:])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLast(Story[list[TranscriptRecord]]):
    """The last records of a conversation before a sequence, newest first; None: from its end."""

    ref: ConversationRef
    before: int | None = None

    def needs(self) -> Needs:
        """The conversation, only read."""
        return Needs(peek=(self.ref.text,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[TranscriptRecord]]:
        """None of them where the conversation is not known."""
        conversation = loaded.peeked(self.ref.text)
        if conversation is None:
            return Changes(), []
        end = conversation.next_sequence if self.before is None else self.before
        bounds = (conversation.earliest_sequence - 1, end)
        # Without what was imported: only what was heard as it was said tells how far we heard.
        return Changes(), loaded.page(Page(RECORDS_BEFORE, (conversation.id, *bounds, 1, -1, LAST)))


@dataclass(frozen=True, slots=True)
class Anchor:
    """How far we heard: the last messages others said, and when nothing was missing yet."""

    ids: frozenset[str]
    since: datetime

    def behind(self, messages: Sequence[InboundMessage]) -> int | None:
        """Where in a page we heard the last one of it; None where it holds none we heard."""
        for number in range(len(messages), 0, -1):
            if messages[number - 1].message_id in self.ids:
                return number
        return None

    def is_older(self, message: InboundMessage) -> bool:
        """Whether it was said before the gap."""
        return message.sent_at is not None and message.sent_at < self.since

    def during(self, edits: Sequence[InboundMessage]) -> list[InboundMessage]:
        """The edits made in the gap. One that we heard all the same has the id of before, which
        makes it harmless."""
        return [one for one in edits if one.sent_at is not None and one.sent_at >= self.since]


@dataclass(frozen=True, slots=True, kw_only=True)
class SayGap(Story[None]):
    """Say in the transcript that something may be missing here; once while nothing is said."""

    ref: ConversationRef
    text: str

    def needs(self) -> Needs:
        """The conversation, locked."""
        return Needs(take=(self.ref.text,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """It wakes nobody."""
        draft = Draft(loaded)
        conversation = draft.taken(self.ref.text)
        if conversation is None:
            return draft.changes, None
        last = loaded.get(RECORD, (conversation.id, conversation.head))
        if last is None or last.event is not Event.NOTICE or last.text != self.text:
            notice(draft, conversation, self.text, now, gap=True)
        return draft.changes, None


def passed(messages: Sequence[InboundMessage], since: datetime) -> bool:
    """Whether all of a page was said before then."""
    return bool(messages) and all(
        one.sent_at is not None and one.sent_at < since for one in messages
    )
