"""Following one conversation as it is, for whoever looks after it or is a guest in it.

A session follows with a cursor of its own (`replay`); this is for a page: from a place it names, on
and on, each record once. The same loop: arm the bell, read until dry, wait.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from threadline.core.errors import InvalidInput
from threadline.core.model import CONTROLLER, Caller, ConversationRef, TranscriptRecord
from threadline.core.ports import RECORDS_AFTER, Changes, Loaded, Needs, Page, Store, Story
from threadline.core.rules import authority
from threadline.core.rules.authority import Where
from threadline.core.rules.limits import LIMITS, Limits
from threadline.flows.looking import found, peeking, where_of
from threadline.flows.replay import FAR, PATIENCE


class Reset(InvalidInput):
    """The place to go on from is not one of this conversation; begin anew."""

    status = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A page of a watched conversation: its id, its records, and whether more is there."""

    conversation: int
    records: list[TranscriptRecord]
    head: int
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadWatched(Story[Seen]):
    """The records behind a place; None is the head as it is now."""

    where: Where
    caller: Caller
    after: int | None
    limit: int

    def needs(self) -> Needs:
        """The conversation."""
        return peeking(self.where)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Seen]:
        """Raises `Reset` for a place over the head."""
        conversation = found(loaded, self.where, self.caller)
        after = conversation.head if self.after is None else self.after
        if after > conversation.head:
            raise Reset(f"the head is {conversation.head}.", head=conversation.head)
        args = (conversation.id, after, FAR, 0, -1, self.limit + 1)
        rows = loaded.page(Page(RECORDS_AFTER, args))
        return Changes(), Seen(
            conversation=conversation.id,
            records=rows[: self.limit],
            head=conversation.head,
            more=len(rows) > self.limit,
        )


class Watching:
    """Conversations as they happen."""

    def __init__(self, store: Store, limits: Limits = LIMITS) -> None:
        self._store = store
        self._limits = limits

    async def follow(
        self,
        where: ConversationRef | str,
        *,
        after: int | None = None,
        patience: float = PATIENCE,
        caller: Caller = CONTROLLER,
    ) -> AsyncIterator[TranscriptRecord]:
        """Every record behind `after`, or from now on, each once, for ever.

        What is imported in front later is not part of it. Raises `NotFound`, `Unauthorized`, and
        `Reset` where `after` lies over the head.
        """
        place = where_of(where)
        authority.may_watch(caller, place)
        limit = self._limits.page
        seen = await self._store.read(ReadWatched(where=place, caller=caller, after=after, limit=0))
        cursor = seen.head if after is None else after
        bell = self._store.bell(conversations=[seen.conversation])
        try:
            while True:
                seen = await self._store.read(
                    ReadWatched(where=place, caller=caller, after=cursor, limit=limit)
                )
                for record in seen.records:
                    cursor = record.sequence
                    yield record
                if not seen.more:
                    await bell.wait(patience)
        finally:
            bell.close()
