"""What a story has decided so far, laid over what was loaded.

A story that handles several messages sees its own changes through the draft, as the next story of
the batch will.
"""

from __future__ import annotations

from typing import Any

from threadline.core.model import Conversation, TranscriptRecord
from threadline.core.ports import (
    ADDRESS,
    CONVERSATION,
    RECORD,
    Changes,
    K,
    Loaded,
    Noun,
    Page,
    T,
    V,
)

_NOT_OWN = object()


class Draft:
    """A `Loaded` that can be written to; `changes` is what the story returns."""

    __slots__ = ("_loaded", "_own", "changes")

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._own: dict[tuple[Noun[Any, Any], Any], Any] = {}
        self.changes = Changes()

    def get(self, noun: Noun[K, V], key: K) -> V | None:
        """See `Loaded.get`."""
        if self._own:
            own = self._own.get((noun, key), _NOT_OWN)
            if own is not _NOT_OWN:
                return own  # type: ignore[no-any-return]
        return self._loaded.get(noun, key)

    def page(self, page: Page[T]) -> list[T]:
        """See `Loaded.page`. Does not see this draft's own changes."""
        return self._loaded.page(page)

    def _own_at(self, where: str | int) -> Conversation | None:
        number = where if isinstance(where, int) else self._own.get((ADDRESS, where))
        own: Conversation | None = self._own.get((CONVERSATION, number))
        return own

    def _latest(self, found: Conversation | None) -> Conversation | None:
        if found is None or not self._own:
            return found
        latest: Conversation = self._own.get((CONVERSATION, found.id), found)
        return latest

    def taken(self, where: str | int) -> Conversation | None:
        """See `Loaded.taken`."""
        own = self._own_at(where) if self._own else None
        return own if own is not None else self._latest(self._loaded.taken(where))

    def peeked(self, where: str | int) -> Conversation | None:
        """See `Loaded.peeked`."""
        own = self._own_at(where) if self._own else None
        return own if own is not None else self._latest(self._loaded.peeked(where))

    def id_key(self, space: str, message_id: str) -> bytes:
        """See `Loaded.id_key`."""
        return self._loaded.id_key(space, message_id)

    def fresh(self) -> int:
        """See `Loaded.fresh`."""
        return self._loaded.fresh()

    def put(self, noun: Noun[K, V], key: K, value: V | None) -> None:
        """Write a row; the last write of a key counts."""
        self._own[noun, key] = value
        self.changes.rows.append((noun, key, value))

    def save(self, conversation: Conversation) -> None:
        """Write a conversation's row."""
        self._own[CONVERSATION, conversation.id] = conversation
        self.changes.rows.append((CONVERSATION, conversation.id, conversation))

    def append(self, conversation: int, record: TranscriptRecord) -> None:
        """Add a record to a transcript."""
        self._own[RECORD, (conversation, record.sequence)] = record
        self.changes.append(conversation, record)
