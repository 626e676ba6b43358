"""The wire to a homeserver: its client API over HTTP, and the long poll that fetches what is new.

An answer is handed on as the homeserver gave it, completed from what it says elsewhere: the part of
a timeline it cut off, which rooms are direct and how many are in them, and the messages that edits
and reactions are about. A dialect, which may ask nobody, reads all that in one piece.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from threadline.core.adapters import Account
from threadline.core.errors import InvalidInput, Unauthenticated
from threadline.core.matrix import ident, relation
from threadline.core.model import ConversationRef, Kind
from threadline.core.values import json_object
from threadline.core.wire import ApiCall, ApiResponse, Batch, Lost, Request, Unsent
from threadline.transports.http import HttpTransport

CLIENT = "/_matrix/client/v3"
SYNC = f"{CLIENT}/sync"
POLL_SECONDS = 25
SYNC_BYTES = 64 * 1024 * 1024
LONGEST_WAIT = 60.0

TIMELINE = 100  # events of a room in one answer, and in one page of what was cut off
PAGES = 20  # of what was cut off: more is a gap
ASKED = 50  # messages asked for in one answer because an edit or a reaction names them
REMEMBERED = 10_000  # messages whose thread and author are remembered
JOIN_TRIES = 5

_QUIET: dict[str, Any] = {"types": []}
# Of the first answer nothing counts but its end, and who invited us.
_FIRST = {
    "presence": _QUIET,
    "account_data": _QUIET,
    "room": {
        "ephemeral": _QUIET,
        "account_data": _QUIET,
        "state": _QUIET,
        "timeline": {"limit": 1, "types": []},
    },
}


class MatrixTransport(HttpTransport):
    """See `core.wire.Transport` and `core.adapters.Listener`.

    `timeline` is how many events of a room one answer holds, `pages` how many times as many are
    read of what was cut off before it is a gap.
    """

    def __init__(self, *, timeline: int = TIMELINE, pages: int = PAGES, **options: Any) -> None:
        super().__init__(**options)
        self.timeline, self.pages = timeline, pages

    def listen(self, account: Account, cursor: str | None) -> AsyncGenerator[Batch, None]:
        """The account's events since the cursor, a `next_batch`; without one nothing old.

        With the setting `join: invites` every room the account is invited to is entered. A cursor
        that the homeserver does not know any more is a gap everywhere. Raises `Unauthenticated`
        where the token does not hold, `InvalidInput` where no homeserver answers at the address.
        """
        seconds = min(POLL_SECONDS, max(1, int(self._patience) - 5))
        return _Poll(self, account, seconds).batches(cursor)


class _Poll:
    """One life of a listener, and what it remembers meanwhile."""

    def __init__(self, wire: MatrixTransport, account: Account, seconds: int) -> None:
        self._wire = wire
        self._account = account
        self._seconds = seconds
        self._base = str(account.settings.get("api", "")).rstrip("/")
        self._joins = account.settings.get("join") == "invites"
        self._direct: dict[str, Any] | None = None
        self._counts: dict[str, int] = {}
        self._seen: dict[str, Mapping[str, Any]] = {}
        self._invited: dict[str, tuple[Mapping[str, Any], int]] = {}

    async def batches(self, cursor: str | None) -> AsyncGenerator[Batch, None]:
        lost = False
        while True:
            if cursor is None:
                answer = await self._sync({"filter": _packed(_FIRST), "timeout": 0})
            else:
                asked = {"since": cursor, "timeout": self._seconds * 1000}
                answer = await self._sync(
                    {"filter": _packed(_filter(self._wire.timeline)), **asked}
                )
            if answer.status == 400 and cursor is not None:
                # It was valid once, so the homeserver began anew: nobody knows what is missing.
                cursor, lost = None, True
                continue
            said = _good(answer)
            following = said.get("next_batch")
            if not isinstance(following, str) or not following:
                raise Lost("the homeserver's answer does not say where to go on.")
            await self._enter(said)
            if cursor is None:
                yield Batch(cursor=following, gap=lost)
            elif said.get("rooms") or said.get("account_data"):
                rooms = [room async for room in self._complete(said, cursor)]
                body = json.dumps(said, separators=(",", ":")).encode()
                request = Request(method="GET", path=SYNC, headers={}, body=body)
                refs = tuple(self._room(room) for room in rooms)
                yield Batch(requests=(request,), cursor=following, gap=bool(refs), rooms=refs)
            else:
                yield Batch(cursor=following)
            cursor, lost = following, False

    async def _sync(self, query: dict[str, Any]) -> ApiResponse:
        """One answer; a limit is waited out as long as the homeserver says."""
        while True:
            answer = await self._ask("GET", "sync", query={**query, "set_presence": "offline"})
            if answer.status != 429:
                return answer
            await asyncio.sleep(_wait(answer))

    # What completes an answer.

    async def _complete(self, said: dict[str, Any], since: str) -> AsyncIterator[str]:
        """Put in what the homeserver says elsewhere. Yields the rooms in which a gap remains."""
        for event in _list(said.get("account_data"), "events"):
            if _is(event, "m.direct"):
                self._direct = event["content"]
        if self._direct is None:
            answer = await self._ask("GET", *self._list_of_direct())
            if answer.status not in (200, 404):
                _good(answer)
            self._direct = json_object(answer.body) if answer.status == 200 else {}
        told = {"type": "m.direct", "content": self._direct}
        said["account_data"] = {"events": [told]}
        direct = {one for rooms in self._direct.values() for one in _texts(rooms)}
        rooms = said.get("rooms")
        asked = 0
        for word in ("join", "leave"):
            parts = rooms.get(word) if isinstance(rooms, dict) else None
            for room, part in parts.items() if isinstance(parts, dict) else ():
                timeline = part.get("timeline") if isinstance(part, dict) else None
                if not isinstance(timeline, dict):
                    continue
                if timeline.get("limited") and not await self._filled(room, part, since):
                    yield room
                if word == "join" and room in direct:
                    await self._count(room, part)
                asked = await self._targets(room, part, asked)

    async def _filled(self, room: str, part: dict[str, Any], since: str) -> bool:
        """Read what was cut off, up to the place the last answer ended; whether that is all."""
        timeline = part["timeline"]
        events = _list(timeline, "events")
        if any(self._entered(event) for event in events):
            return True  # What was said before we came is history, no gap.
        begin, missing = timeline.get("prev_batch"), list[Any]()
        for _ in range(self._wire.pages):
            if not isinstance(begin, str):
                return False
            query = {"dir": "b", "from": begin, "to": since, "limit": self._wire.timeline}
            answer = await self._ask("GET", "rooms", room, "messages", query=query)
            if answer.status != 200:
                return False
            page = json_object(answer.body)
            found = _list(page, "chunk")
            for number, event in enumerate(found):
                if self._entered(event):
                    found, page = found[: number + 1], {}
                    break
            missing += found
            # An empty page is not the end. A homeserver that has no more up to there names none.
            if not page.get("end") or page["end"] == begin:
                timeline["events"] = [*reversed(missing), *events]
                return True
            begin = page["end"]
        return False

    def _entered(self, event: Any) -> bool:
        """Whether this is where the account came into the room."""
        if not _is(event, "m.room.member") or event["content"].get("membership") != "join":
            return False
        if event.get("state_key") != self._account.account_id:
            return False
        unsigned = event.get("unsigned")
        before = unsigned.get("prev_content") if isinstance(unsigned, dict) else None
        return not isinstance(before, dict) or before.get("membership") != "join"

    async def _count(self, room: str, part: dict[str, Any]) -> None:
        """How many are in a room that is direct: with a third one it is a room like others."""
        summary = part.get("summary")
        if isinstance(summary, dict) and type(summary.get("m.joined_member_count")) is int:
            self._counts.pop(room, None)
            return
        if any(_is(event, "m.room.member") for event in _list(part["timeline"], "events")):
            self._counts.pop(room, None)
        if room not in self._counts:
            answer = await self._ask("GET", "rooms", room, "joined_members")
            joined = json_object(answer.body).get("joined") if answer.status == 200 else None
            if not isinstance(joined, dict):
                return
            self._counts[room] = len(joined)
        part["summary"] = {"m.joined_member_count": self._counts[room]}

    async def _targets(self, room: str, part: dict[str, Any], asked: int) -> int:
        """Put in the messages that edits, reactions and redactions are about, as far as needed:
        their authors, and the threads they hang in."""
        events = _list(part["timeline"], "events")
        about = []
        for event in events:
            self._remember(event)
        for event in events:
            target, fetched = _target(event)
            if target is None:
                continue
            if target not in self._seen and fetched and asked < ASKED:
                asked += 1
                answer = await self._ask("GET", "rooms", room, "event", target)
                found = json_object(answer.body) if answer.status == 200 else {}
                self._remember({"event_id": target, "type": "", "content": {}, **found})
            if target in self._seen:
                about.append(self._seen[target])
        # The successor of a room is believed where the room it replaces names it.
        for event in [*_list(part.get("state"), "events"), *events]:
            if _is(event, "m.room.create"):
                before = event["content"].get("predecessor")
                old = ident(before.get("room_id")) if isinstance(before, dict) else None
                if old is not None:
                    about += await self._tombstone(old)
        part["about"] = {"events": about}
        return asked

    async def _tombstone(self, room: str) -> list[Mapping[str, Any]]:
        answer = await self._ask("GET", "rooms", room, "state", "m.room.tombstone", "")
        if answer.status != 200:
            return []
        content = json_object(answer.body)
        event = {"type": "m.room.tombstone", "state_key": "", "sender": "-", "room_id": room}
        return [{**event, "content": content}]

    def _remember(self, event: object) -> None:
        event_id = ident(event.get("event_id")) if isinstance(event, dict) else None
        if event_id is None or not isinstance(event, dict):
            return
        content = event.get("content")
        related = content.get("m.relates_to") if isinstance(content, dict) else None
        kept = {"m.relates_to": related} if isinstance(related, dict) else {}
        self._seen.pop(event_id, None)
        self._seen[event_id] = {
            "event_id": event_id,
            "type": event.get("type"),
            "sender": event.get("sender"),
            "content": kept,
        }
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]

    # Invitations.

    async def _enter(self, said: dict[str, Any]) -> None:
        """Enter the rooms we are invited to, where that is wanted; one that cannot be entered
        (its server is away) is tried a few times, and never holds up the others."""
        rooms = said.get("rooms")
        invites = rooms.get("invite") if isinstance(rooms, dict) else None
        if not self._joins:
            return
        for room, part in invites.items() if isinstance(invites, dict) else ():
            if isinstance(part, dict):
                self._invited[room] = (part, 0)
        for room, (part, tries) in list(self._invited.items()):
            try:
                answer = await self._ask("POST", "rooms", room, "join", body={})
            except (Unsent, Lost):
                answer = ApiResponse(status=503)
            if answer.status == 200:
                await self._note_direct(room, part)
            if (answer.status < 500 and answer.status != 429) or tries + 1 >= JOIN_TRIES:
                del self._invited[room]
            else:
                self._invited[room] = (part, tries + 1)

    async def _note_direct(self, room: str, part: Mapping[str, Any]) -> None:
        """Keep on the homeserver that a room was opened to be direct, and with whom."""
        for event in _list(part.get("invite_state"), "events"):
            if not _is(event, "m.room.member") or not event["content"].get("is_direct"):
                continue
            sender = event.get("sender")
            if event.get("state_key") != self._account.account_id or not isinstance(sender, str):
                continue
            answer = await self._ask("GET", *self._list_of_direct())
            if answer.status not in (200, 404):
                return
            kept = json_object(answer.body) if answer.status == 200 else {}
            others = [one for one in _texts(kept.get(sender)) if one != room]
            self._direct = {**kept, sender: [*others, room]}
            await self._ask("PUT", *self._list_of_direct(), body=self._direct)
            return

    # Asking.

    def _list_of_direct(self) -> tuple[str, ...]:
        return ("user", self._account.account_id, "account_data", "m.direct")

    def _room(self, room: str) -> ConversationRef:
        one = self._account
        return ConversationRef(one.provider, one.account_id, room, None, one.scope_id, Kind.ROOM)

    async def _ask(
        self,
        method: str,
        *parts: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> ApiResponse:
        path = "".join("/" + quote(part, safe="") for part in parts)
        asked = "?" + urlencode(query) if query else ""
        token = self._account.credentials.get("access_token", "")
        return await self._wire.perform(
            ApiCall(
                method=method,
                url=f"{self._base}{CLIENT}{path}{asked}",
                headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
                body=b"" if body is None else json.dumps(body).encode(),
                route=parts[0],
                most=SYNC_BYTES,
            )
        )


def _filter(timeline: int) -> dict[str, Any]:
    """What is wanted of an answer."""
    return {
        "presence": _QUIET,
        "account_data": {"types": ["m.direct"]},
        "room": {
            "ephemeral": _QUIET,
            "account_data": _QUIET,
            "timeline": {"limit": timeline},
            # The names of those who spoke come with every answer: none is remembered here.
            "state": {"lazy_load_members": True, "include_redundant_members": True},
        },
    }


def _good(answer: ApiResponse) -> dict[str, Any]:
    """The answer as an object. Raises what its status means to somebody who waits for events."""
    if answer.status == 200:
        said = json_object(answer.body)
        if not said:
            raise Lost("the homeserver's answer is not readable.")
        return said
    word = str(json_object(answer.body).get("errcode") or f"HTTP {answer.status}")[:100]
    if answer.status in (401, 403):
        raise Unauthenticated(
            f"the homeserver does not take the access token ({word}); connect the account anew."
        )
    if answer.status in (404, 405) or 300 <= answer.status < 400:
        raise InvalidInput(f"no Matrix homeserver answers at this address ({word}).")
    raise Lost(f"the homeserver gives no events at the moment ({word}).")


def _list(value: object, name: str) -> list[Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _is(event: Any, kind: str) -> bool:
    match event:
        case {"type": str(word), "content": dict()}:
            return word == kind
    return False


def _target(event: Any) -> tuple[str | None, bool]:
    """What an event is done to, and whether the homeserver can still say what that was."""
    match event:
        case {"type": "m.room.redaction", "content": dict(content)}:
            return ident(event.get("redacts") or content.get("redacts")), False
        case {"type": str(), "content": dict(content)}:
            kind, target = relation(content)
            return (target, True) if kind in ("m.replace", "m.annotation") else (None, False)
    return None, False


def _wait(answer: ApiResponse) -> float:
    """How long a limit lasts, in seconds."""
    given: Any = answer.headers.get("retry-after")
    if given is None:
        millis = json_object(answer.body).get("retry_after_ms")
        given = millis / 1000 if type(millis) is int else 1.0
    try:
        return min(LONGEST_WAIT, max(0.1, float(given)))
    except ValueError:
        return 1.0


def _packed(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
