"""The kinds of rows: in which order they are saved, by which statement, which are remembered."""

from __future__ import annotations

from typing import Any

from threadline.core.model import Conversation, Membership
from threadline.core.ports import (
    ADAPTER,
    ADDRESS,
    AUDIT,
    CHAIN,
    CODE,
    CONSENT,
    CONTACT,
    CONVERSATION,
    DELIVERY,
    FILE,
    FIRST,
    FOLLOWERS,
    GRANTED,
    GUEST,
    HELD,
    INDEXED,
    INTENT,
    KNOWN,
    LANE,
    LEASE,
    LINK,
    LISTENER,
    LOGIN,
    MEMBER,
    NAME,
    PARTICIPANT,
    PERSON,
    PUSH,
    QUOTA,
    RECEIPT,
    RECORD,
    ROUTE,
    RUN,
    SEND,
    SESSION,
    SETTING,
    TOKEN,
    WAIT,
    Noun,
)

CACHED = (ADDRESS, CONVERSATION, MEMBER, PARTICIPANT, SESSION, NAME, ROUTE, CONTACT, CONSENT)
SAVED = (
    ADDRESS,
    CONVERSATION,
    SESSION,
    NAME,
    RECORD,
    KNOWN,
    MEMBER,
    PARTICIPANT,
    HELD,
    DELIVERY,
    INTENT,
    LANE,
    RECEIPT,
    WAIT,
    ADAPTER,
    LISTENER,
    TOKEN,
    LEASE,
    RUN,
    LINK,
    GUEST,
    LOGIN,
    PUSH,
    FILE,
    ROUTE,
    INDEXED,
    PERSON,
    CONTACT,
    CODE,
    CONSENT,
    GRANTED,
    SETTING,
    SEND,
    FIRST,
    QUOTA,
    CHAIN,
    AUDIT,
)
LOADED = (*SAVED, FOLLOWERS)
CACHE_ROWS = 50_000


class Cache:
    """The rows the single writer of a SQLite file already knows. Bounded; oldest out first."""

    def __init__(self, limit: int = CACHE_ROWS) -> None:
        self._limit = limit
        self.rows: dict[Noun[Any, Any], dict[Any, Any]] = {noun: {} for noun in CACHED}

    def trim(self) -> None:
        """Forget the oldest rows where there are too many."""
        for kept in self.rows.values():
            if len(kept) > self._limit:
                for key in list(kept)[: len(kept) - self._limit // 2]:
                    del kept[key]

    def forget(self) -> None:
        """Know nothing: after a batch that was not committed, or may not have been."""
        for rows in self.rows.values():
            rows.clear()


_CREATED = {ADDRESS: "save", CONVERSATION: "create", NAME: "create", KNOWN: "add", INTENT: "create"}


def way_of(noun: Noun[Any, Any], before: Any, value: Any) -> str:
    """Which statement writes this row: the cheapest that says all that changed."""
    if value is None:
        return "drop"
    if before is None:
        return _CREATED.get(noun, "save")
    if noun is CONVERSATION and _only_counters(before, value):
        return "advance"
    if noun is MEMBER and _only_cursor(before, value):
        return "read"
    return "save"


def _only_counters(before: Conversation, value: Conversation) -> bool:
    return value.about is before.about and value.ref is before.ref and value.kind is before.kind


def _only_cursor(before: Membership, value: Membership) -> bool:
    return (
        value.grants is before.grants
        and value.override is before.override
        and value.closed_at is before.closed_at
        and value.handles is before.handles
        and value.metadata is before.metadata
        and value.joined_sequence == before.joined_sequence
        and value.gate == before.gate
        and value.evicted == before.evicted
    )
