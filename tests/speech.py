"""Words for tests: what somebody says, and what a conversation or a reader then holds."""

from __future__ import annotations

from typing import Any

from threadline import Threadline
from threadline.core.model import Actor, ConversationRef, Direction, Event, InboundMessage
from threadline.flows.replay import CaughtUp, Gap, Handed

ROOM = ConversationRef("slack", "T1", "C1")
ADA = Actor("U1", "Ada")


def said(text: str, message_id: str | None = None, **more: Any) -> InboundMessage:
    """Ada says something in the room."""
    message: dict[str, Any] = {"conversation": ROOM, "actor": ADA} | more
    return InboundMessage(text=text, message_id=message_id, **message)


def numbered(first: int, last: int, **more: Any) -> list[InboundMessage]:
    """Messages `m<first>` to `m<last>`, counted up or down, each with its number as text."""
    step = 1 if last >= first else -1
    return [said(str(n), f"m{n}", **more) for n in range(first, last + step, step)]


def edited(message_id: str, text: str, event_id: str | None = None, **more: Any) -> InboundMessage:
    """An edit of a message."""
    return said(text, event_id, event=Event.EDIT, revises=message_id, **more)


def deleted(message_id: str, event_id: str | None = None, **more: Any) -> InboundMessage:
    """A delete of a message."""
    return said("", event_id, event=Event.DELETE, revises=message_id, **more)


def spoken(text: str, message_id: str | None = None, **more: Any) -> InboundMessage:
    """Our own account's words, as they stand in a transcript."""
    return said(
        text,
        message_id,
        direction=Direction.OUTBOUND,
        actor=Actor("B1", "bot", is_bot=True, is_self=True),
        **more,
    )


async def transcript(line: Threadline, where: Any = ROOM, **how: Any) -> list[tuple[int, str]]:
    """Everything that is listed, page by page: sequences with texts."""
    found: list[tuple[int, str]] = []
    after: int | None = None
    while True:
        page = await line.conversations.transcript(where, after=after, limit=500, **how)
        found += [(record.sequence, record.text) for record in page.records]
        if page.next is None:
            return found
        after = page.next


async def unread(line: Threadline, session: str, where: Any = ROOM, **how: Any) -> list[int]:
    """The sequences of one backfill page."""
    page = await line.replay.backfill(where, session, **how)
    return [one.record.sequence for one in page.records]


async def followed(line: Threadline, session: str, **how: Any) -> list[Handed | CaughtUp | Gap]:
    """What one connection hands on until it is dry."""
    return [item async for item in line.replay.follow(session, once=True, **how)]


def handed(items: list[Handed | CaughtUp | Gap]) -> list[int]:
    """The sequences among what a connection handed on."""
    return [item.record.sequence for item in items if isinstance(item, Handed)]
