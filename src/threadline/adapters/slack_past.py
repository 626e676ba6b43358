"""What was said before: a channel from its newest message backwards, a thread from its root on.

Slack hands out a thread oldest first, so it is read to its end before any of it is a page. Apps
that are sold outside of Slack's marketplace get 15 entries a call and one call a minute, whatever
is asked for; nothing here depends on how many come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from threadline.adapters.slack_answers import failure_of, is_ok
from threadline.adapters.slack_events import Eye, Spot, edit_of, message_of
from threadline.core.adapters import Past
from threadline.core.model import ConversationRef, Event, InboundMessage
from threadline.core.slack import at, order, root_of, stamp
from threadline.core.values import json_object, records, said
from threadline.core.wire import ApiCall, ApiResponse, Doubt, Refused

PAGE = 200
THREAD_PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward(ApiCall):
    """A page of a thread, with what the pages before it held, oldest first, and edits of it."""

    read: tuple[InboundMessage, ...] = ()


def question(ref: ConversationRef, before: str | None = None) -> tuple[str, dict[str, str]]:
    """The method that tells the past of a conversation, and what it is asked."""
    until = {} if before is None else {"latest": before, "inclusive": "false"}
    metadata = {"include_all_metadata": "true"}
    if ref.parent_conversation_id is None:
        asked = {"channel": ref.conversation_id, "limit": str(PAGE)}
        return "conversations.history", {**asked, **until, **metadata}
    asked = {"channel": ref.parent_conversation_id, "ts": ref.conversation_id}
    return "conversations.replies", {**asked, "limit": str(THREAD_PAGE), **until, **metadata}


def following(body: Mapping[str, Any]) -> str:
    """The cursor of the page after this one; empty where it is the last."""
    more = body.get("response_metadata")
    return said(more.get("next_cursor")) if isinstance(more, dict) else ""


def room_page(eye: Eye, ref: ConversationRef, answer: ApiResponse) -> tuple[Past, str | None]:
    """A page of a channel, and the stamp before which there is more.

    What stands in threads is left to them; they are its children, with the time of what was last
    said there.
    """
    body = json_object(answer.body)
    entries = [one for one in records(body.get("messages")) if stamp(one.get("ts"))]
    entries.sort(key=lambda one: order(one["ts"]))
    heard = [message_of(eye, one, Spot(ref)) for one in entries if root_of(one) is None]
    more = body.get("has_more") is True or bool(following(body))
    latest: dict[str, str] = {}
    for root, last in _threads(entries):
        latest[root] = max(latest.get(root, ""), last, key=lambda one: order(one) if one else ())
    channel = ref.conversation_id
    read = (*heard, *(edit_of(eye, one, Spot(ref)) for one in entries if root_of(one) is None))
    past = replace(
        past_of([one for one in read if isinstance(one, InboundMessage)]),
        children=tuple(eye.places.thread(channel, root) for root in latest),
        stirred={
            eye.places.thread(channel, root): when
            for root, last in latest.items()
            if last and (when := at(last)) is not None
        },
    )
    return past, entries[0]["ts"] if more and entries else None


def past_of(read: Iterable[InboundMessage]) -> Past:
    """What was said, and apart from it the edits of that."""
    found = list(read)
    said = tuple(one for one in found if one.event is not Event.EDIT)
    names = {one.message_id for one in said}
    edits = (one for one in found if one.event is Event.EDIT and one.revises in names)
    return Past(messages=said, edits=tuple(edits))


def _threads(entries: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """The roots of threads among the entries, and of what a thread showed in the channel too."""
    for entry in entries:
        root = root_of(entry)
        if root is not None:
            yield root, entry["ts"]
        elif entry.get("thread_ts") == entry["ts"] or entry.get("reply_count"):
            yield entry["ts"], stamp(entry.get("latest_reply")) or ""


def thread_page(
    eye: Eye, ref: ConversationRef, call: ApiCall, answer: ApiResponse
) -> tuple[tuple[InboundMessage, ...], str]:
    """What of a thread is known with this page, edits too, not its root; and the next cursor."""
    channel = ref.parent_conversation_id or ref.conversation_id
    body, spot = json_object(answer.body), Spot(eye.places.room(channel))
    entries = [one for one in records(body.get("messages")) if stamp(one.get("ts"))]
    replies = [one for one in entries if root_of(one) == ref.conversation_id]
    replies.sort(key=lambda one: order(one["ts"]))
    heard = [*(message_of(eye, one, spot) for one in replies)]
    heard += [edit for one in replies if (edit := edit_of(eye, one, spot)) is not None]
    read = call.read if isinstance(call, Forward) else ()
    found = tuple(one for one in heard if isinstance(one, InboundMessage))
    return (*read, *found), following(body)


def trouble_of(answer: ApiResponse) -> Refused | Doubt | None:
    """Why an answer is no page; None where it is one."""
    if not is_ok(answer) or not isinstance(json_object(answer.body).get("messages"), list):
        return failure_of(answer)
    return None
