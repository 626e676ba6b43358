"""Matrix events as a transcript has them: one event in, what it says out.

A message, sticker or poll is a message; `m.replace` is an edit; a redacted event is the deletion
of itself; an annotation is a reaction; coming and going is membership; all other state is a
notice. What a thread says belongs to the thread, its root stays in the room.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from threadline.core.archive import Account, Item, Options, Place, Tally
from threadline.core.errors import InvalidInput
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
    standing,
    text_of,
    words_of,
)
from threadline.core.model import (
    Actor,
    ConversationRef,
    Direction,
    Event,
    InboundMessage,
    Kind,
)
from threadline.core.values import clean


@dataclass(frozen=True, slots=True)
class Found:
    """One thing as it stands in a file: an event in a list of some room, or the room's title."""

    where: str
    part: str
    value: Any
    room: str | None = None


@dataclass(slots=True)
class Known:
    """What the first reading learned; `members` stood before a sync's timeline.

    `threads` gives an event's root, `backwards` how many events of a file stand newest first.
    """

    titles: dict[str, str] = field(default_factory=dict)
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    members: dict[tuple[str, str], Json] = field(default_factory=dict)
    threads: dict[str, str] = field(default_factory=dict)
    backwards: dict[str, int] = field(default_factory=dict)


class Teller:
    """Says each event, and counts what it said."""

    def __init__(
        self, account: Account, options: Options, tally: Tally, known: Known, title: str
    ) -> None:
        self.account, self.options, self.tally, self.known = account, options, tally, known
        self.title = title
        self.places: dict[ConversationRef, None] = {}

    def room(self, found: Found) -> str:
        """An event's room; events that name none are one conversation, named like the source."""
        named = found.value.get("room_id") if isinstance(found.value, dict) else None
        return ident(named) or ident(found.room) or self.options.conversation or self.title

    def tell(self, found: Found) -> Iterator[Item]:
        try:
            match found.value:
                case {"type": str(), "sender": sender, "content": dict()} if ident(sender):
                    yield from self._event(found, found.value)
                case {"type": str()} if "sender" not in found.value:
                    self.tally.skipped["account data or a receipt: nobody said it"] += 1
                case _:
                    self.tally.problem(found.where, "this is no Matrix event.")
        except InvalidInput as error:
            self.tally.problem(found.where, str(error))

    def _event(self, found: Found, event: Json) -> Iterator[Item]:
        kind, content, counts = event["type"], event["content"], self.tally.counts
        related, target = relation(content)
        event_id = ident(event.get("event_id"))
        encrypted = kind == "m.room.encrypted" or content.get("msgtype") == "m.bad.encrypted"
        reason = redaction_of(event)
        if event_id is None:
            # Keys and other talk between devices has no id; it was said in no room.
            counts["encrypted" if encrypted else "system"] += kind not in MESSAGES
            if kind in MESSAGES or "event_id" in event:
                self.tally.problem(found.where, "the event has no usable event_id.")
            else:
                self.tally.skipped["events that were said in no room"] += 1
        elif reason is not None:
            counts["deleted"] += 1
            yield from self._delete(found, by=reason, target=event_id)
        elif encrypted:
            counts["encrypted"] += 1
            # Another export may hold the same event readable: its own id is left to that one.
            yield from self._notice(found, "(encrypted)", message_id=f"encrypted:{event_id}")
        elif kind in MESSAGES and related == "m.replace":
            yield from self._edit(found, content, target)
        elif kind in MESSAGES:
            yield from self._message(found, content)
        elif kind == "m.reaction" and related == "m.annotation" and target:
            counts["reactions"] += 1
            key = content["m.relates_to"].get("key")
            text = clean(key) if isinstance(key, str) else ""
            yield from self._say(found, Event.REACTION, text=text, revises=target)
        else:
            counts["system"] += 1
            yield from self._state(found, event, content)

    def _message(self, found: Found, content: Json) -> Iterator[Item]:
        kind = found.value["type"]
        text = poll_text(content) if kind in POLLS else text_of(content)
        attachments = attachments_of(content)
        if content and not text and not attachments and not isinstance(content.get("body"), str):
            self.tally.problem(found.where, "the message has no body.")
            return
        answered = answer_of(content)
        self.tally.heard(found.value["sender"], at(found.value))
        self.tally.counts["replies"] += answered is not None
        self.tally.counts["attachments"] += len(attachments)
        match content.get("m.mentions"):
            case {"user_ids": list(users)}:
                mentions = tuple(user for user in users if ident(user))
            case _:
                mentions = ()
        yield from self._say(
            found,
            Event.MESSAGE,
            text=clean(text),
            reply_to=answered,
            attachments=attachments,
            mentions=mentions,
            metadata=sort_of(kind, content.get("msgtype")),
        )

    def _edit(self, found: Found, content: Json, target: str | None) -> Iterator[Item]:
        new = content.get("m.new_content")
        if not target:
            self.tally.problem(found.where, "the edit does not say of what.")
            return
        self.tally.counts["edits"] += 1
        if isinstance(new, dict):
            text, attachments = text_of(new), attachments_of(new)
        else:
            # The body of an edit is the new text behind a star, for clients that know no edits.
            text, attachments = text_of(content).lstrip().removeprefix("* "), ()
        yield from self._say(found, Event.EDIT, text=text, revises=target, attachments=attachments)

    def _delete(self, found: Found, *, by: Json, target: str) -> Iterator[Item]:
        content = by.get("content")
        reason = content.get("reason") if isinstance(content, dict) else None
        yield from self._say(
            found,
            Event.DELETE,
            message_id=f"delete:{target}",
            revises=target,
            sender=ident(by.get("sender")),
            # The homeserver has judged that this redaction was allowed, whoever made it.
            signed=True,
            sent_at=at(by) or at(found.value),
            metadata={"reason": clean(reason)} if isinstance(reason, str) and reason else {},
        )

    def _state(self, found: Found, event: Json, content: Json) -> Iterator[Item]:
        match event["type"]:
            case "m.room.member" if isinstance(event.get("state_key"), str):
                yield from self._member(found, event, content)
            case "m.room.redaction" if target := ident(
                event.get("redacts") or content.get("redacts")
            ):
                yield from self._delete(found, by=event, target=target)
            case "m.room.topic" | "m.room.name" as kind:
                word = kind.removeprefix("m.room.")
                yield from self._notice(found, f"{word}: {words_of(content.get(word))}")
            case kind:
                yield from self._notice(found, f"({kind})")

    def _member(self, found: Found, event: Json, content: Json) -> Iterator[Item]:
        room, user = self.room(found), event["state_key"]
        unsigned = event.get("unsigned")
        before = unsigned.get("prev_content") if isinstance(unsigned, dict) else None
        if not isinstance(before, dict):
            before = self.known.members.get((room, user), {})
        self.known.members[room, user] = standing(content)
        name = name_in(content) or self.known.names.get((room, user), "")
        if isinstance(content.get("displayname"), str):
            self.known.names[room, user] = name_in(content)
        match coming_and_going(event, before, name):
            case None:
                yield from self._notice(found, "(m.room.member)")
            case text, {"profile": True}:
                yield from self._notice(found, text, profile=True)
            case text, kept:
                yield from self._say(found, Event.MEMBER, text=text, metadata=kept)

    def _notice(
        self, found: Found, text: str, *, message_id: str | None = None, profile: bool = False
    ) -> Iterator[Item]:
        metadata = {"profile": True} if profile else {"type": clean(found.value["type"])}
        yield from self._say(
            found, Event.NOTICE, text=clean(text), message_id=message_id, metadata=metadata
        )

    def _say(
        self,
        found: Found,
        event: Event,
        *,
        message_id: str | None = None,
        sender: str | None = None,
        **said: Any,
    ) -> Iterator[Item]:
        value, room = found.value, self.room(found)
        ref, thread = self.account.ref(room, kind=Kind.ROOM), None
        related, target = relation(value["content"])
        if related == "m.thread":
            thread = target
        elif about := said.get("revises") or target:
            # What is done to a thread's message belongs to the thread, its own relation says less.
            thread = self.known.threads.get(about)
        by = sender or value["sender"]
        is_self = by in (self.options.self_id, self.account.account_id)
        message = InboundMessage(
            conversation=ref,
            event=event,
            message_id=message_id or value["event_id"],
            actor=Actor(by, self.known.names.get((room, by), ""), is_self=is_self),
            direction=Direction.OUTBOUND if is_self else Direction.INBOUND,
            **{"sent_at": at(value), **said},
        )
        unnamed = {} if room != self.title else {"unnamed": True}
        yield from self._place(Place(ref, self.known.titles.get(room, ""), metadata=unnamed))
        if thread:
            root = self.account.ref(thread, parent_conversation_id=room, kind=Kind.THREAD)
            if root not in self.places:
                self.tally.counts["threads"] += 1
            yield from self._place(Place(root, parent=ref, thread_root=thread))
            message = replace(message, conversation=root, parent=ref, thread_root=thread)
        yield message

    def _place(self, place: Place) -> Iterator[Item]:
        if place.ref not in self.places:
            self.places[place.ref] = None
            yield place
