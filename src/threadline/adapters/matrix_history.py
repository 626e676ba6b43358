"""What was said before: a room's past page by page, a thread's through what relates to its root.

A room's pages hold its threads' messages as well. They are left to the threads, which are named as
children: so each conversation has its own past, once.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from threadline.adapters.matrix_api import CLIENT, Api, refusal
from threadline.adapters.matrix_events import Known, Places, is_event, room_of, said_in
from threadline.core.adapters import Past
from threadline.core.matrix import ident, relation
from threadline.core.model import ConversationRef, Kind
from threadline.core.values import json_object
from threadline.core.wire import ApiCall, ApiResponse, Doubt, Refused

PAGE = 100
RELATED = "/_matrix/client/v1"
# Names of those who spoke, and of nobody else.
NAMED = json.dumps({"lazy_load_members": True}, separators=(",", ":"))


def history(api: Api, ref: ConversationRef, before: str | None, page: int = PAGE) -> ApiCall:
    """The newest page, or the one before a message."""
    if ref.parent_conversation_id is not None:
        # What relates to a message is paged by tokens only: an older start cannot be named.
        return _thread(api, ref)
    if before is None:
        return _room(api, ref, None, page)
    query: dict[str, str | int] = {"limit": page, "filter": NAMED}
    room = ref.conversation_id
    return api.call("GET", "rooms", room, "context", before, query=query, route="history")


def _room(api: Api, ref: ConversationRef, start: str | None, page: int = PAGE) -> ApiCall:
    query: dict[str, str | int] = {"dir": "b", "limit": page, "filter": NAMED}
    if start is not None:
        query["from"] = start
    return api.call("GET", "rooms", ref.conversation_id, "messages", query=query, route="history")


def _thread(api: Api, ref: ConversationRef, start: str | None = None) -> ApiCall:
    # Edits and reactions hang on the thread's messages, so they relate to the root in two steps.
    query: dict[str, str | int] = {"dir": "b", "limit": PAGE, "recurse": "true"}
    if start is not None:
        query["from"] = start
    room, root = room_of(ref), ref.conversation_id
    return api.call(
        "GET", "rooms", room, "relations", root, below=RELATED, query=query, route="history"
    )


def read_history(
    api: Api, places: Places, ref: ConversationRef, call: ApiCall, answer: ApiResponse
) -> Past | Refused | Doubt:
    """The page. Total."""
    said = json_object(answer.body)
    if answer.status != 200:
        return refusal(answer)
    context = f"{CLIENT}/rooms/" in call.url and "/context/" in urlsplit(call.url).path
    events, end = (
        said.get("events_before" if context else "chunk"),
        said.get("start" if context else ("next_batch" if ref.parent_conversation_id else "end")),
    )
    if not isinstance(events, list):
        return Doubt(reason="the answer holds no page of history.")
    room = room_of(ref)
    known = Known(places.account.account_id)
    state = said.get("state")
    for event in [*(state if isinstance(state, list) else []), *events]:
        if is_event(event):
            known.learn(room, event)
    if ref.kind is Kind.DM:
        known.direct.add(room)
    elif ref.kind is Kind.ROOM:
        known.told = True
    older = None
    # An empty page is not the end, for a filter may have left nothing of it. A server that names
    # the place it was asked for as the next one is at the beginning.
    if isinstance(end, str) and end and end != _asked(call):
        older = _thread(api, ref, end) if ref.parent_conversation_id else _room(api, ref, end)
    if ref.parent_conversation_id:
        root = ref.conversation_id
        mine = [one for one in events if _of_thread(known, root, one)]
        return Past(messages=tuple(said_in(known, places, room, reversed(mine))), older=older)
    messages = said_in(known, places, room, reversed(events))
    roots = dict.fromkeys([*known.threads.values(), *_summarised(events)])
    return Past(
        messages=tuple(one for one in messages if one.thread_root is None),
        older=older,
        children=tuple(places.thread(room, root) for root in roots),
    )


def _asked(call: ApiCall) -> str:
    return parse_qs(urlsplit(call.url).query).get("from", [""])[0]


def _of_thread(known: Known, root: str, event: Any) -> bool:
    """Whether an event belongs to the thread: said in it, or done to what was said in it.

    What is done to the root itself is the room's. A target on another page was said in the thread,
    for only what leads back to the root is in the answer.
    """
    if not is_event(event):
        return False
    kind, target = relation(event["content"])
    if kind == "m.thread":
        return target == root
    if target is None or target == root:
        return False
    known.threads.setdefault(target, root)
    return True


def _summarised(events: list[Any]) -> list[str]:
    """Messages that say of themselves that a thread hangs on them."""
    found = []
    for event in events:
        match event:
            case {"event_id": root, "unsigned": {"m.relations": {"m.thread": dict()}}}:
                if ident(root) is not None:
                    found.append(root)
    return found
