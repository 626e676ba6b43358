"""Telegram Desktop's `result.json`: one chat, or a whole account with chats left and kept.

The file is walked once, a message at a time. Addresses are those of the Bot API, so that a bot
that listens today meets the chats of the export: a user's id as it is, `-id` for a basic group,
`-100…` for supergroups and channels.

Message ids are numbered per chat in supergroups and channels; everywhere else each account counts
for itself, so there the ids live in a space of their own and never pass for a bot's.

A topic of a forum is a conversation. The export names a topic where it was created, and marks what
was said in it only by what it answers: an entry belongs to the topic at the beginning of the chain
it answers, as far as that can be followed, else to the room (Telegram's General topic).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from threadline.archives.documents import Document, Recent
from threadline.archives.telegram_entries import (
    attachments,
    channel_id,
    deed,
    flat,
    numbers,
    person,
    strings,
    unix,
)
from threadline.archives.telegram_result import PRIVATE, find_result
from threadline.archives.telegram_topics import Topics
from threadline.core.archive import Account, Ended, Item, Options, Place, Source, Tally, broken
from threadline.core.model import Actor, Direction, Event, InboundMessage, Kind
from threadline.core.values import dropping_empty, ident, instant, records, said, size

DELETED = "Deleted Account"
MEMBERS = frozenset(
    {
        "invite_members",
        "remove_members",
        "join_group_by_link",
        "join_group_by_request",
        "joined_telegram",
        "create_group",
    }
)
MEDIA = frozenset(
    {"file", "photo", "poll", "location_information", "contact_information", "game_title"}
)
WORDS = 4_000
ACTORS = 10_000
PLAIN = frozenset(
    {
        "id",
        "type",
        "date",
        "date_unixtime",
        "from",
        "from_id",
        "text",
        "text_entities",
        "reply_to_message_id",
        "photo",
        "photo_file_size",
        "file",
        "file_name",
        "file_size",
        "width",
        "height",
    }
)


class TelegramDesktop:
    """An export of Telegram Desktop in its machine-readable format."""

    format = "Telegram Desktop JSON"

    def recognises(self, source: Source) -> bool:
        return find_result(source) is not None

    def read(
        self, source: Source, account: Account, options: Options, tally: Tally
    ) -> Iterator[Item]:
        name = find_result(source)
        if name is None:
            raise broken(source.title, "there is no result.json of Telegram Desktop here.")
        with source.open(name) as stream:
            document = Document(stream, name)
            chat = _Chat(document, account, options, tally, source.title)
            whole = False
            for key in document.members():
                if key in ("chats", "left_chats") and document.peek() == "{":
                    whole = True
                    yield from self._list(document, account, options, tally)
                else:
                    yield from chat.take(key)
            document.end()
            if not whole:
                yield from chat.finish()

    def _list(
        self, document: Document, account: Account, options: Options, tally: Tally
    ) -> Iterator[Item]:
        for key in document.members():
            if key != "list":
                continue
            for number, _ in enumerate(document.elements(), 1):
                if document.peek() != "{":
                    tally.problem(f"{document.name}: chat {number}", "this is no object.")
                    continue
                chat = _Chat(document, account, options, tally)
                for part in document.members():
                    yield from chat.take(part)
                yield from chat.finish()


class _Chat:
    """One chat: what it is stands before its messages."""

    def __init__(
        self,
        document: Document,
        account: Account,
        options: Options,
        tally: Tally,
        file: str | None = None,
    ) -> None:
        self.document, self.account, self.options, self.tally = document, account, options, tally
        self.file = file
        self.head: dict[str, Any] = {}
        self.place: Place | None = None
        self.space = ""
        self.topics: Topics | None = None
        self.recent = Recent()
        self.actors: dict[object, Actor] = {}
        self.twins: tuple[datetime | None, dict[str, int]] = (None, {})

    def take(self, key: str) -> Iterator[Item]:
        """One member of the chat's object."""
        if key in ("name", "type", "id"):
            self.head[key] = self.document.value()
        elif key == "messages":
            yield from self._messages()

    def finish(self) -> Iterator[Item]:
        """The chat's object is over."""
        if "messages" not in self.head:
            where = f"{self.document.name}: offset {self.document.offset}"
            if self.file is not None:
                raise broken(where, "the chat has no messages, not even an empty list.")
            self.tally.problem(where, "a chat without a list of messages.")
        if self.topics is not None:
            yield from (Ended(ref) for ref in self.topics.refs)
        if self.place is not None:
            yield Ended(self.place.ref)

    def _messages(self) -> Iterator[Item]:
        self.head["messages"] = True
        # The address is needed before anything is said, the assumed zone with the first message.
        conversation = self._conversation_id()
        if conversation is None:
            where = f"{self.document.name}: offset {self.document.offset}"
            self.tally.problem(where, "a chat without an id before its messages.")
            return
        number = 0
        for number, _ in enumerate(self.document.elements(), 1):
            entry = self.document.value()
            if self.place is None:
                yield self._begin(conversation, entry)
            where = f"{self.document.name}: {conversation}: message {number}"
            if isinstance(entry, dict):
                yield from self._say(where, entry)
            else:
                self.tally.problem(where, "this is no object.")
        if self.place is None:
            yield self._begin(conversation, None)
        self.tally.counts["empty_chats"] += number == 0

    def _conversation_id(self) -> str | None:
        given = ident(self.head.get("id"))
        if given is None:
            return self.options.conversation or (self.file and ident(self.file))
        kind = said(self.head.get("type"))
        if not given.isdecimal():
            return given
        if kind.endswith(("supergroup", "channel")):
            return channel_id(int(given))
        return f"-{given}" if kind.endswith("group") else given

    def _begin(self, conversation: str, first: object) -> Place:
        kind = said(self.head.get("type"))
        is_own_count = not kind.endswith(("supergroup", "channel"))
        self.space = f"{conversation}:export" if is_own_count else conversation
        title = said(self.head.get("name")) or ("Saved Messages" if "saved" in kind else "")
        if self.file is not None:
            title = title or self.options.title or ""
        zone = self.options.zone
        is_local = isinstance(first, dict) and "date_unixtime" not in first
        self.place = Place(
            self.account.ref(conversation, kind=Kind.DM if kind in PRIVATE else Kind.ROOM),
            title,
            metadata=dropping_empty(
                type=kind,
                zone_assumed="UTC" if is_local and zone is None else "",
            ),
        )
        self.topics = Topics(self.account, self.place.ref)
        return self.place

    def _say(self, where: str, entry: dict[str, Any]) -> Iterator[Item]:
        assert self.place is not None
        assert self.topics is not None
        kind = entry.get("type")
        if kind not in ("message", "service", "unsupported"):
            self.tally.problem(where, f"{kind!r} is no type of an entry.")
            return
        sent_at, actor = self._sent_at(entry), self._actor(entry)
        if sent_at is None:
            self.tally.problem(where, "it has no date.")
            return
        text = flat(entry.get("text"))
        message_id = ident(entry.get("id")) or self._made_id(sent_at, actor, text)
        action = said(entry.get("action"))
        reply_to = ident(entry.get("reply_to_message_id"))
        topic = self.topics.of(message_id, reply_to, action, said(entry.get("title")))
        if topic is not None and topic.is_new:
            self.tally.counts["threads"] += 1
            yield topic.place
        message = InboundMessage(
            conversation=self.place.ref if topic is None else topic.place.ref,
            text=text if kind == "message" or text else deed(entry, action),
            actor=actor,
            message_id=message_id,
            id_space=self.space,
            event=Event.MESSAGE
            if kind == "message"
            else Event.MEMBER
            if action in MEMBERS
            else Event.NOTICE,
            direction=Direction.OUTBOUND if actor.is_self else Direction.INBOUND,
            reply_to=None if topic is not None and reply_to == topic.id else reply_to,
            parent=None if topic is None else self.place.ref,
            attachments=attachments(entry) if "file" in entry or "photo" in entry else (),
            sent_at=sent_at,
            metadata=self._metadata(entry, action),
        )
        self._count(message, entry)
        yield message

    def _sent_at(self, entry: dict[str, Any]) -> datetime | None:
        return unix(entry.get("date_unixtime")) or instant(
            entry.get("date"), self.options.zone or UTC
        )

    def _actor(self, entry: dict[str, Any]) -> Actor:
        """Who it is from; a chat itself where it names nobody, as channels do."""
        service = entry.get("type") == "service"
        given, name = (
            (entry.get("actor_id"), entry.get("actor"))
            if service
            else (entry.get("from_id"), entry.get("from"))
        )
        if not isinstance(given, str | int | None) or not isinstance(name, str | None):
            given, name = ident(given), said(name)
        known = self.actors.get((given, name))
        if known is None:
            if len(self.actors) >= ACTORS:
                self.actors.clear()
            known = self.actors[given, name] = self._new_actor(given, said(name))
        return known

    def _new_actor(self, given: object, name: str) -> Actor:
        assert self.place is not None
        user = person(given) or (name if name.strip() else None)
        if user is None:
            return Actor(self.place.ref.conversation_id, self.place.title)
        is_bot = self.head.get("type") == "bot_chat" and user == ident(self.head.get("id"))
        return Actor(user, name or DELETED, is_bot, user == self.options.self_id)

    def _made_id(self, at: datetime, actor: Actor, text: str) -> str:
        """An id for an entry without one, the same whenever the export is read."""
        digest = hashlib.sha256(f"{at.isoformat()}\0{actor.id}\0{text}".encode()).hexdigest()[:32]
        if self.twins[0] != at:
            self.twins = (at, {})
        nth = self.twins[1][digest] = self.twins[1].get(digest, 0) + 1
        return f"content:{digest}" + (f":{nth}" if nth > 1 else "")

    def _metadata(self, entry: dict[str, Any], action: str) -> dict[str, Any]:
        if PLAIN.issuperset(entry):
            return {}
        edited_at = unix(entry.get("edited_unixtime")) or instant(
            entry.get("edited"), self.options.zone or UTC
        )
        poll = entry.get("poll")
        return dropping_empty(
            action=action,
            edited_at=edited_at and edited_at.isoformat(),
            forwarded="forwarded_from" in entry,
            forwarded_from=said(entry.get("forwarded_from")),
            via_bot=said(entry.get("via_bot")),
            sticker=said(entry.get("sticker_emoji")),
            poll=dropping_empty(
                question=flat(poll.get("question"))[:WORDS],
                answers=[
                    dropping_empty(
                        text=flat(each.get("text"))[:WORDS], voters=size(each.get("voters"))
                    )
                    for each in records(poll.get("answers"))
                ],
            )
            if isinstance(poll, dict)
            else None,
            location=numbers(entry.get("location_information")),
            contact=strings(entry.get("contact_information")),
            reactions=[
                dropping_empty(
                    name=said(each.get("emoji")) or said(each.get("type")),
                    count=size(each.get("count")),
                )
                for each in records(entry.get("reactions"))
            ],
        )

    def _count(self, message: InboundMessage, entry: dict[str, Any]) -> None:
        counts = self.tally.counts
        if message.event is not Event.MESSAGE:
            counts["system"] += 1
            return
        self.tally.heard(message.actor.id, message.sent_at)
        counts["unique_messages"] += self.recent.is_new(message.message_id or "")
        if isinstance(entry.get("text"), list):
            counts["text_as_list"] += 1
        if entry.get("reply_to_message_id") is not None:
            counts["replies"] += 1
        if entry.get("from", "") is None:
            counts["null_from"] += 1
        if message.metadata or message.attachments:
            counts["edited"] += "edited_at" in message.metadata
            counts["forwarded"] += "forwarded_from" in entry
            counts["media"] += not MEDIA.isdisjoint(entry)
            counts["attachments"] += len(message.attachments)
            counts["reactions"] += len(records(entry.get("reactions")))
