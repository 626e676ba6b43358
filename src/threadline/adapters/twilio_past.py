"""What was said before, from Twilio's list of messages.

Twilio lists one direction at a time, newest first, so a conversation is two lists laid into each
other: what one list brought waits until the other has come as far back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from threadline.adapters.answers import code_of
from threadline.adapters.twilio_answers import GONE
from threadline.adapters.twilio_events import FILES, Places
from threadline.core.model import (
    Actor,
    Attachment,
    ConversationRef,
    Direction,
    InboundMessage,
)
from threadline.core.values import json_object
from threadline.core.wire import ApiCall

BEGINNING = datetime.min.replace(tzinfo=UTC)
END = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(ApiCall):
    """The call for a page of one list, and how far both are.

    `side` is which list this page is of, -1 where it asks for the message to begin before.
    `next` is where each goes on, empty at its end; `seen` how far back each was read.
    """

    side: int
    next: tuple[str, str]
    seen: tuple[datetime, datetime] = (END, END)
    waiting: tuple[InboundMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What a page brought: what is ready, oldest first, and where to go on; side -1: nowhere."""

    ready: tuple[InboundMessage, ...]
    waiting: tuple[InboundMessage, ...]
    side: int
    next: tuple[str, str]
    seen: tuple[datetime, datetime]


def taken(page: Page, body: bytes, ref: ConversationRef, places: Places, myself: Actor) -> Step:
    """Lay one page into what waits."""
    said = json_object(body)
    rows = said.get("messages")
    listed = [one for one in rows if isinstance(one, dict)] if isinstance(rows, list) else []
    times = [at for one in listed if (at := _time(one)) is not None]
    following = said.get("next_page_uri")
    goes_on = isinstance(following, str) and bool(following) and bool(times)
    nexts, seen = [*page.next], [*page.seen]
    nexts[page.side] = str(following) if goes_on else ""
    seen[page.side] = min(times) if goes_on else BEGINNING
    found = [message(one, ref, places, myself) for one in reversed(listed)]
    waiting = sorted(
        (*(one for one in found if one is not None), *page.waiting),
        key=lambda one: one.sent_at or BEGINNING,
    )
    border = max(seen)
    ready = tuple(one for one in waiting if (one.sent_at or BEGINNING) >= border)
    left = tuple(one for one in waiting if (one.sent_at or BEGINNING) < border)
    side = seen.index(border) if border > BEGINNING else -1
    return Step(ready, left, side, (nexts[0], nexts[1]), (seen[0], seen[1]))


def message(
    row: Mapping[str, Any], ref: ConversationRef, places: Places, myself: Actor
) -> InboundMessage | None:
    """One listed message; None where it is no part of this conversation or was never handed on."""
    pair = (row.get("from"), row.get("to"))
    sid, at, status = row.get("sid"), _time(row), row.get("status")
    if not isinstance(sid, str) or not sid.strip() or at is None:
        return None
    if pair == (ref.conversation_id, places.address):
        direction, actor = Direction.INBOUND, Actor(ref.conversation_id)
    elif pair == (places.address, ref.conversation_id) and status not in (*GONE, "scheduled"):
        direction, actor = Direction.OUTBOUND, myself
    else:
        return None
    body = row.get("body")
    files = _files(row, sid)
    text = body if isinstance(body, str) else ""
    if not text.strip() and not files:
        text = "[empty message]"
    return InboundMessage(
        conversation=ref,
        actor=actor,
        text=text,
        message_id=sid,
        direction=direction,
        attachments=files,
        sent_at=at,
    )


def time_of(body: bytes) -> datetime | None:
    """When a single message was sent."""
    return _time(json_object(body))


def file_at(body: bytes, position: int) -> str | None:
    """The path of one file of a message, from the list of its files."""
    rows = json_object(body).get("media_list")
    if not isinstance(rows, list) or not 0 <= position < len(rows):
        return None
    uri = rows[position].get("uri") if isinstance(rows[position], dict) else None
    return uri.removesuffix(".json") if isinstance(uri, str) and uri.startswith("/") else None


def _files(row: Mapping[str, Any], sid: str) -> tuple[Attachment, ...]:
    """The list says only how many there are; their addresses are asked for with the bytes."""
    count = min(max(code_of(row.get("num_media")), 0), FILES)
    return tuple(Attachment(id=f"{sid}/{at}", type="file") for at in range(count))


def _time(row: Mapping[str, Any]) -> datetime | None:
    for name in ("date_sent", "date_created"):
        given = row.get(name)
        if isinstance(given, str) and given:
            try:
                at = parsedate_to_datetime(given)
                return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
            except (ValueError, TypeError, OverflowError, IndexError):
                continue
    return None
