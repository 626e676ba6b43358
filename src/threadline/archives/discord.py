"""Discord channels as DiscordChatExporter writes them in JSON, one file (or several parts) each.

A file says what channel it is, then its messages, then how many there were; it is walked once. A
thread's ids are unique in the account, so its address has no parent; where it hangs is a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from threadline.archives.documents import Document, Recent, files_of, keys_of
from threadline.core.archive import Account, Ended, Item, Options, Place, Source, Tally
from threadline.core.model import (
    Actor,
    Attachment,
    ConversationRef,
    Direction,
    Event,
    InboundMessage,
    Kind,
)
from threadline.core.values import (
    dropping_empty,
    file_name,
    ident,
    instant,
    records,
    said,
    size,
    web,
)

# A type this exporter has no name for stands there as Discord's number for it.
MESSAGES = frozenset({"Default", "Reply", "ChatInputCommand", "0", "19", "20"})
MEMBERS = frozenset({"RecipientAdd", "RecipientRemove", "GuildMemberJoin", "1", "2", "7"})
NAMED = 20

_PART = re.compile(r"(.*?)(?: \[part (\d+)\])?\.json", re.DOTALL | re.IGNORECASE)


class DiscordChatExporter:
    """A file of DiscordChatExporter, or a folder or zip of them."""

    format = "DiscordChatExporter JSON"

    def recognises(self, source: Source) -> bool:
        names = source.names()
        if len(names) > 1:
            names = [name for name in names if name.lower().endswith(".json")][:16]
        return any(_is_channel(source, name) for name in names)

    def read(
        self, source: Source, account: Account, options: Options, tally: Tally
    ) -> Iterator[Item]:
        names = sorted(files_of(source, _is_channel), key=_part)
        if others := len(source.names()) - len(names):
            tally.skipped["files that are no channel of DiscordChatExporter"] += others
        last: _Channel | None = None
        for name in names:
            with source.open(name) as stream:
                channel = _Channel(
                    Document(stream, name), account, options, tally, last, len(names) == 1
                )
                yield from channel.read()
            last = channel
        if last is not None and last.place is not None:
            yield Ended(last.place.ref)


def _is_channel(source: Source, name: str) -> bool:
    keys = keys_of(source, name)
    return {"guild", "channel"} <= keys.keys() and not keys.keys().isdisjoint(
        {"messages", "dateRange"}
    )


def _part(name: str) -> tuple[str, int]:
    found = _PART.fullmatch(name)
    return (found[1], int(found[2] or 1)) if found else (name, 1)


class _Channel:
    """One file. `before` is the file before it, which may be an earlier part of the channel."""

    def __init__(
        self,
        document: Document,
        account: Account,
        options: Options,
        tally: Tally,
        before: _Channel | None,
        is_alone: bool,
    ) -> None:
        self.document, self.account, self.options, self.tally = document, account, options, tally
        self.before = before
        # A thread exported by itself is the conversation of its export; in company it hangs
        # in its channel. The messages know the channel either way.
        self.is_alone = is_alone
        self.place: Place | None = None
        self.parent: ConversationRef | None = None
        self.root: str | None = None
        self.head: dict[str, Any] = {}
        self.said = 0
        self.recent = Recent()

    def read(self) -> Iterator[Item]:
        document = self.document
        for key in document.members():
            if key == "messages":
                yield from self._messages()
            elif key in ("guild", "channel", "dateRange", "exportedAt", "messageCount"):
                self.head[key] = document.value()
        document.end()
        if "messages" not in self.head:
            raise document.broken("the channel has no messages, not even an empty list.")
        told = size(self.head.get("messageCount"))
        if told is not None and told != self.said:
            self.tally.problem(
                document.name, f"it speaks of {told} messages, {self.said} are in it."
            )

    def _messages(self) -> Iterator[Item]:
        self.head["messages"] = True
        for number, _ in enumerate(self.document.elements(), 1):
            entry = self.document.value()
            if self.place is None:
                yield from self._begin(entry)
            where = f"{self.document.name}: message {number}"
            self.said += 1
            message = self._message(where, entry)
            if message is not None:
                yield message
        if self.place is None:
            yield from self._begin(None)

    def _begin(self, first: object) -> Iterator[Item]:
        """The channel's place; a thread's root is named by its first message."""
        channel, guild = self._dict("channel"), self._dict("guild")
        channel_id = ident(channel.get("id"))
        if channel_id is None:
            raise self.document.broken("the channel's id does not come before its messages.")
        kind = _kind(said(channel.get("type")))
        if kind is Kind.THREAD and isinstance(above := ident(channel.get("categoryId")), str):
            self.parent = self.account.ref(above, kind=Kind.ROOM)
        match first:
            case {"type": "ThreadStarterMessage" | "21", "reference": {"messageId": str(started)}}:
                self.root = ident(started) if self.parent else None
        self.place = Place(
            self.account.ref(channel_id, kind=kind),
            said(channel.get("name")),
            None if self.is_alone else self.parent,
            self.root,
            dropping_empty(
                topic=said(channel.get("topic")),
                guild=said(guild.get("name")) if ident(guild.get("id")) != "0" else "",
                guild_id=ident(guild.get("id")) if ident(guild.get("id")) != "0" else "",
                category="" if self.parent else said(channel.get("category")),
            ),
        )
        before = self.before
        if before is None or before.place is None or before.place.ref != self.place.ref:
            if before is not None and before.place is not None:
                yield Ended(before.place.ref)
            self.tally.counts["threads"] += self.place.parent is not None
            yield self.place
        else:
            self.recent = before.recent
        self.before = None

    def _dict(self, key: str) -> dict[str, Any]:
        found = self.head.get(key)
        return found if isinstance(found, dict) else {}

    def _message(self, where: str, entry: object) -> InboundMessage | None:
        if not isinstance(entry, dict):
            self.tally.problem(where, "this is no object.")
            return None
        message_id, actor = ident(entry.get("id")), self._actor(entry.get("author"))
        sent_at = instant(entry.get("timestamp"), self.options.zone)
        if message_id is None or actor is None or sent_at is None:
            missing = "id" if message_id is None else "author" if actor is None else "timestamp"
            self.tally.problem(where, f"it has no {missing}.")
            return None
        assert self.place is not None
        kind = said(entry.get("type"))
        event = (
            Event.MESSAGE if kind in MESSAGES else Event.MEMBER if kind in MEMBERS else Event.NOTICE
        )
        message = InboundMessage(
            conversation=self.place.ref,
            text=_text(entry),
            actor=actor,
            message_id=message_id,
            event=event,
            direction=Direction.OUTBOUND if actor.is_self else Direction.INBOUND,
            reply_to=_answered(entry, kind, self.place.ref),
            thread_root=self.root,
            parent=self.parent,
            attachments=_attachments(entry),
            sent_at=sent_at,
            metadata=self._metadata(entry, kind),
        )
        self._count(message, entry, kind)
        return message

    def _actor(self, author: object) -> Actor | None:
        given = author if isinstance(author, dict) else {}
        user = ident(given.get("id"))
        if user is None:
            return None
        name = said(given.get("nickname")) or said(given.get("name")) or user
        return Actor(user, name, given.get("isBot") is True, user == self.options.self_id)

    def _metadata(self, entry: dict[str, Any], kind: str) -> dict[str, Any]:
        edited_at = instant(entry.get("timestampEdited"), self.options.zone)
        command = entry.get("interaction")
        reference = entry.get("reference")
        pointed = reference if isinstance(reference, dict) else {}
        return dropping_empty(
            type="" if kind in ("Default", "Reply") else kind,
            edited_at=edited_at and edited_at.isoformat(),
            pinned=entry.get("isPinned") is True,
            command=said(command.get("name")) if isinstance(command, dict) else "",
            forwarded=isinstance(entry.get("forwardedMessage"), dict),
            reference=""
            if kind in ("Reply", "19")
            else dropping_empty(
                message_id=ident(pointed.get("messageId")),
                channel_id=ident(pointed.get("channelId")),
            ),
            embeds=[
                dropping_empty(
                    title=said(each.get("title")),
                    url=web(each.get("url")),
                    description=said(each.get("description")),
                )
                for each in records(entry.get("embeds"))
            ],
            reactions=[
                dropping_empty(
                    name=said(emoji.get("name")),
                    id=ident(emoji.get("id")),
                    count=size(each.get("count")),
                    users=[ident(user.get("id")) for user in records(each.get("users"))[:NAMED]],
                )
                for each in records(entry.get("reactions"))
                if isinstance(emoji := each.get("emoji"), dict)
            ],
        )

    def _count(self, message: InboundMessage, entry: dict[str, Any], kind: str) -> None:
        counts = self.tally.counts
        if message.event is not Event.MESSAGE:
            counts["system"] += 1
            return
        self.tally.heard(message.actor.id, message.sent_at)
        assert message.message_id is not None
        counts["unique_messages"] += self.recent.is_new(message.message_id)
        counts["edited"] += "edited_at" in message.metadata
        counts["replies"] += kind in ("Reply", "19")
        counts["pinned"] += entry.get("isPinned") is True
        counts["empty_content"] += entry.get("content") == ""
        for name in ("attachments", "embeds", "stickers", "reactions"):
            counts[name] += len(records(entry.get(name)))


def _kind(channel_type: str) -> Kind:
    if channel_type == "DirectTextChat":
        return Kind.DM
    return Kind.THREAD if "Thread" in channel_type else Kind.ROOM


def _answered(entry: dict[str, Any], kind: str, here: ConversationRef) -> str | None:
    match entry.get("reference"):
        case {"messageId": str(answered), **rest} if kind in ("Reply", "19"):
            same = ident(rest.get("channelId")) in (None, here.conversation_id)
            return ident(answered) if same else None
    return None


def _text(entry: dict[str, Any]) -> str:
    """What was written; where nothing was, what was passed on, or what the cards say."""
    text = said(entry.get("content"))
    if text.strip():
        return text
    match entry.get("forwardedMessage"):
        case {"content": str(content)} if content.strip():
            return said(content)
    lines = [
        said(each.get(part))
        for each in records(entry.get("embeds"))
        for part in ("title", "description")
    ]
    return "\n".join(line for line in lines if line.strip()) or text


def _attachments(entry: dict[str, Any]) -> tuple[Attachment, ...]:
    forwarded = entry.get("forwardedMessage")
    holders = [entry, *([forwarded] if isinstance(forwarded, dict) else [])]
    return tuple(
        Attachment(
            id=ident(each.get("id")) or "",
            name=file_name(each.get("fileName")),
            size=size(each.get("fileSizeBytes")),
            url=web(each.get("url")),
        )
        for holder in holders
        for each in records(holder.get("attachments"))
    ) + tuple(
        Attachment(
            id=ident(each.get("id")) or "",
            type="sticker",
            name=said(each.get("name")),
            url=web(each.get("sourceUrl")),
        )
        for holder in holders
        for each in records(holder.get("stickers"))
    )
