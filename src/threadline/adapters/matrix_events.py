"""Matrix events as one account hears them: from a sync answer, a transaction, a page of history.

An edit, a reaction or a redaction names its target and not the target's thread: what is known of
targets is learned first from everything that came along, then each event is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from threadline.core.adapters import Account
from threadline.core.errors import InvalidConversation
from threadline.core.matrix import (
    MESSAGES,
    POLLS,
    Json,
    answer_of,
    at,
    attachments_of,
    coming_and_going,
    ident,
    name_in,
    poll_text,
    redaction_of,
    relation,
    sort_of,
    text_of,
    words_of,
)
from threadline.core.model import Actor, ConversationRef, Direction, Event, InboundMessage, Kind
from threadline.core.values import clean
from threadline.core.wire import Heard

ENCRYPTED = "(end-to-end encryption was switched on: what is said from here on cannot be read)"
MOVED = "(this room goes on in another one)"
MAX_MENTIONS = 100


@dataclass(frozen=True, slots=True)
class Places:
    """The one maker of addresses of an account."""

    account: Account

    def room(self, room: str, kind: Kind | None = None) -> ConversationRef:
        """A room. Raises `InvalidConversation` where that is no room id."""
        one = self.account
        return ConversationRef(one.provider, one.account_id, room, None, one.scope_id, kind)

    def thread(self, room: str, root: str) -> ConversationRef:
        """The thread that hangs on a message of a room."""
        one = self.account
        return ConversationRef(one.provider, one.account_id, root, room, one.scope_id, Kind.THREAD)


def room_of(ref: ConversationRef) -> str:
    """The room a conversation is in: itself, or the one its thread is in."""
    return ref.parent_conversation_id or ref.conversation_id


@dataclass(slots=True)
class Known:
    """What came along: names, who sent what, which thread it hangs in, which rooms are direct."""

    me: str
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    senders: dict[str, str] = field(default_factory=dict)
    threads: dict[str, str] = field(default_factory=dict)
    moves: dict[str, str] = field(default_factory=dict)
    direct: set[str] = field(default_factory=set)
    members: dict[str, int] = field(default_factory=dict)
    told: bool = False

    def learn(self, room: str, event: Json) -> None:
        """Take what an event says about others."""
        content, event_id = event["content"], ident(event.get("event_id"))
        match event:
            case {"type": "m.room.member", "state_key": str(user)}:
                if name := name_in(content):
                    self.names[room, user] = name
                before = _before(event)
                if user == self.me and True in (content.get("is_direct"), before.get("is_direct")):
                    self.direct.add(room)
            case {"type": "m.room.tombstone", "state_key": ""}:
                if new := ident(content.get("replacement_room")):
                    self.moves[room] = new
        if event_id is not None and isinstance(event.get("sender"), str):
            self.senders[event_id] = event["sender"]
            kind, root = relation(content)
            if kind == "m.thread" and root:
                self.threads[event_id] = root

    def learn_direct(self, content: Json) -> None:
        """Take the list of direct rooms an account keeps on its homeserver, by person."""
        self.told = True
        for rooms in content.values():
            if isinstance(rooms, list):
                self.direct.update(room for room in rooms if isinstance(room, str))

    def kind(self, room: str) -> Kind | None:
        """A room of two that was opened to be direct is a DM; None where nobody said."""
        if room in self.direct:
            return Kind.DM if self.members.get(room, 2) <= 2 else Kind.ROOM
        return Kind.ROOM if self.told else None


def hear(places: Places, body: Json) -> Heard:
    """All that is said in a sync answer or in a transaction. Total."""
    known = Known(places.account.account_id)
    skipped: list[str] = []
    heard: list[tuple[str, Any]] = []
    rooms = body.get("rooms")
    for event in _list(body, "events"):
        room = ident(event.get("room_id")) if isinstance(event, dict) else None
        if room is None:
            skipped.append("malformed")
            continue
        heard.append((room, event))
        if is_event(event):
            known.learn(room, event)
    if isinstance(rooms, dict):
        for event in _events(body, "account_data"):
            if event.get("type") == "m.direct" and isinstance(event.get("content"), dict):
                known.learn_direct(event["content"])
        for room, part in _rooms(rooms, "join", "leave"):
            heard += _learned(known, room, part)
        skipped += ["invitation" for _ in _rooms(rooms, "invite")]
    said = Ear(places, known)
    messages = []
    for room, event in heard:
        answer = said.hear(room, event)
        if isinstance(answer, str):
            skipped.append(answer)
        else:
            messages.append(answer)
    return Heard(messages=tuple(messages), skipped=tuple(skipped))


def _learned(known: Known, room: str, part: Json) -> Iterator[tuple[str, Any]]:
    """One room of a sync answer: learn from all of it; what is to be said is its timeline, and
    that it is the successor of another room."""
    for name in ("state", "about"):
        for event in _events(part, name):
            if is_event(event):
                known.learn(ident(event.get("room_id")) or room, event)
    summary = part.get("summary")
    if isinstance(summary, dict):
        counts = [summary.get(f"m.{word}_member_count") for word in ("joined", "invited")]
        if type(counts[0]) is int:
            known.members[room] = sum(one for one in counts if type(one) is int)
    for event in _events(part, "state"):
        if event.get("type") == "m.room.create" and is_event(event):
            yield room, event
    timeline = part.get("timeline")
    for event in _list(timeline if isinstance(timeline, dict) else {}, "events"):
        if is_event(event):
            known.learn(room, event)
        yield room, event


def is_event(value: object) -> bool:
    """Whether this can be an event of a room at all."""
    match value:
        case {"type": str(), "sender": sender, "content": dict()}:
            return ident(sender) is not None
    return False


def _rooms(rooms: Json, *words: str) -> Iterator[tuple[str, Json]]:
    for word in words:
        found = rooms.get(word)
        for room, part in found.items() if isinstance(found, dict) else ():
            if ident(room) and isinstance(part, dict):
                yield room, part


def _list(value: Json, name: str) -> list[Any]:
    found = value.get(name)
    return found if isinstance(found, list) else []


def _events(value: Json, name: str) -> list[dict[str, Any]]:
    part = value.get(name)
    events = _list(part, "events") if isinstance(part, dict) else []
    return [event for event in events if isinstance(event, dict)]


def _before(event: Json) -> Json:
    """What the state was until then; a transaction has it in an older place."""
    unsigned = event.get("unsigned")
    before = unsigned.get("prev_content") if isinstance(unsigned, dict) else None
    before = event.get("prev_content") if before is None else before
    return before if isinstance(before, dict) else {}


@dataclass(frozen=True, slots=True)
class Ear:
    """Says each event, or why it is not said."""

    places: Places
    known: Known

    def hear(self, room: str, event: Any) -> InboundMessage | str:
        """What it says, or the word it is counted under. Total."""
        if not is_event(event) or ident(event.get("event_id")) is None:
            return "malformed"
        try:
            return self._event(room, event)
        except InvalidConversation:
            return "malformed"

    def _event(self, room: str, event: Json) -> InboundMessage | str:
        kind, content = event["type"], event["content"]
        reason = redaction_of(event)
        if reason is not None:
            return self._delete(room, event, by=reason, target=event["event_id"])
        if kind == "m.room.encrypted":
            return "encrypted"
        if kind in MESSAGES:
            if relation(content)[0] == "m.replace":
                return self._edit(room, event)
            return self._message(room, event)
        if kind == "m.reaction":
            return self._reaction(room, event)
        if kind == "m.room.redaction":
            target = ident(event.get("redacts") or content.get("redacts"))
            return self._delete(room, event, by=event, target=target) if target else "malformed"
        if isinstance(event.get("state_key"), str):
            return self._state(room, event)
        return "event"

    def _message(self, room: str, event: Json) -> InboundMessage | str:
        kind, content = event["type"], event["content"]
        text = clean(poll_text(content)) if kind in POLLS else text_of(content)
        files = attachments_of(content)
        if not text and not files and not isinstance(content.get("body"), str):
            return "malformed"
        shown = unsigned_name(text, self.known.me)
        return self._say(
            room,
            event,
            Event.MESSAGE,
            text=shown,
            reply_to=answer_of(content),
            attachments=files,
            mentions=self._mentions(content),
            metadata={
                **sort_of(kind, content.get("msgtype")),
                **({"written": text} if shown != text else {}),
            },
        )

    def _mentions(self, content: Json) -> tuple[str, ...]:
        """Who is meant beside ourselves: that we are meant is what brought it here."""
        match content.get("m.mentions"):
            case {"user_ids": list(users)}:
                found = [user for user in users[:MAX_MENTIONS] if ident(user)]
                return tuple(user for user in found if user != self.known.me)
        return ()

    def _edit(self, room: str, event: Json) -> InboundMessage | str:
        content = event["content"]
        _, target = relation(content)
        if target is None:
            return "malformed"
        # Whoever sends it, a client shows an edit only where the author made it.
        if self.known.senders.get(target, event["sender"]) != event["sender"]:
            return "edit of another's message"
        new = content.get("m.new_content")
        if isinstance(new, dict):
            text, files = text_of(new), attachments_of(new)
        else:
            # The body of an edit is the new text behind a star, for clients that know no edits.
            text, files = text_of(content).lstrip().removeprefix("* "), ()
        return self._say(room, event, Event.EDIT, text=text, revises=target, attachments=files)

    def _reaction(self, room: str, event: Json) -> InboundMessage | str:
        kind, target = relation(event["content"])
        if kind != "m.annotation" or target is None:
            return "malformed"
        key = event["content"]["m.relates_to"].get("key")
        text = clean(key) if isinstance(key, str) else ""
        return self._say(room, event, Event.REACTION, text=text, revises=target)

    def _delete(self, room: str, event: Json, *, by: Json, target: str) -> InboundMessage:
        content = by.get("content")
        reason = content.get("reason") if isinstance(content, dict) else None
        # The homeserver has judged that this redaction was allowed, whoever made it.
        return self._say(
            room,
            event,
            Event.DELETE,
            by=ident(by.get("sender")),
            message_id=f"delete:{target}",
            revises=target,
            signed=True,
            sent_at=at(by) or at(event),
            metadata={"reason": clean(reason)} if isinstance(reason, str) and reason else {},
        )

    def _state(self, room: str, event: Json) -> InboundMessage | str:
        match event["type"]:
            case "m.room.member":
                return self._member(room, event)
            case "m.room.topic" | "m.room.name" as kind:
                word = kind.removeprefix("m.room.")
                text = f"{word}: {words_of(event['content'].get(word))}"
            case "m.room.encryption":
                text = ENCRYPTED
            case "m.room.tombstone":
                text = MOVED
            case "m.room.create":
                return self._successor(room, event)
            case _:
                return "state"
        kept = {"type": event["type"]}
        return self._say(room, event, Event.NOTICE, text=clean(text), metadata=kept)

    def _member(self, room: str, event: Json) -> InboundMessage | str:
        name = self.known.names.get((room, event["state_key"]), "")
        said = coming_and_going(event, _before(event), name_in(event["content"]) or name)
        if said is None:
            return "malformed"
        text, kept = said
        word = Event.NOTICE if "profile" in kept else Event.MEMBER
        return self._say(room, event, word, text=text, metadata=kept)

    def _successor(self, room: str, event: Json) -> InboundMessage | str:
        """A room that goes on from another one: believed only where the other says so as well."""
        before = event["content"].get("predecessor")
        old = ident(before.get("room_id")) if isinstance(before, dict) else None
        if old is None or self.known.moves.get(old) != room:
            return "state"
        return self._say(
            room,
            event,
            Event.NOTICE,
            text="(this room goes on from another one)",
            same_as=(self.places.room(old),),
            metadata={"type": "m.room.create"},
        )

    def _say(
        self,
        room: str,
        event: Json,
        what: Event,
        *,
        by: str | None = None,
        message_id: str | None = None,
        **said: Any,
    ) -> InboundMessage:
        known, content = self.known, event["content"]
        sender = by or event["sender"]
        is_self = sender == known.me
        parent = self.places.room(room, known.kind(room))
        related, target = relation(content)
        thread = target if related == "m.thread" else None
        if thread is None and (about := said.get("revises") or target):
            # What is done to a thread's message belongs to the thread, its own relation says less.
            thread = known.threads.get(about)
        place = parent if thread is None else self.places.thread(room, thread)
        return InboundMessage(
            conversation=place,
            parent=None if thread is None else parent,
            thread_root=thread,
            event=what,
            message_id=message_id or event["event_id"],
            actor=Actor(
                sender,
                known.names.get((room, sender), ""),
                is_bot=is_self or content.get("msgtype") == "m.notice",
                is_self=is_self,
            ),
            direction=Direction.OUTBOUND if is_self else Direction.INBOUND,
            token=_token(event) if is_self and what is Event.MESSAGE else None,
            **{"sent_at": at(event), **said},
        )


def _token(event: Json) -> str | None:
    """The transaction id, which only the device that sent it is told: our delivery's key."""
    unsigned = event.get("unsigned")
    return ident(unsigned.get("transaction_id")) if isinstance(unsigned, Mapping) else None


def unsigned_name(text: str, me: str) -> str:
    """The text with our own id without its sign: it names the account, and not one of the sessions
    behind it, as `@somebody` would.

    >>> unsigned_name("@bot:hs, are you @bot:hs.org?", "@bot:hs")
    'bot:hs, are you @bot:hs.org?'
    """
    if me not in text:
        return text
    return re.sub(re.escape(me) + r"(?![.:-]?\w)", lambda _: me.removeprefix("@"), text)


def said_in(known: Known, places: Places, room: str, events: Iterable[Any]) -> list[InboundMessage]:
    """What events of one room say, in the order given; what is not said is left out."""
    ear = Ear(places, known)
    heard = [ear.hear(room, event) for event in events]
    return [one for one in heard if not isinstance(one, str)]
