"""Slack exports: a zip or folder with lists of channels and people, and a folder per channel.

Pipeline: who is who, what is where → a folder at a time → a day at a time, sorted by its stamps →
the channel, or the thread an entry belongs to. Stamps are ids and stay the strings they are. A
thread is a conversation of its own; its root stays in the channel, from where the core copies it.
What was sent to a thread and shown in the channel too is recorded once, in the thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from threadline.archives.documents import Document, Recent
from threadline.core.archive import Account, Ended, Item, Options, Place, Source, Tally, broken
from threadline.core.model import (
    Actor,
    Attachment,
    ConversationRef,
    Direction,
    Event,
    InboundMessage,
    Kind,
)
from threadline.core.slack import (
    MEMBERS,
    MESSAGES,
    Places,
    about,
    at,
    attachment,
    author,
    called,
    delete_id,
    order,
    plain,
    root_of,
    stamp,
    words,
)
from threadline.core.values import clean, dropping_empty, ident, records, said

LISTS = {
    "channels.json": Kind.ROOM,
    "groups.json": Kind.ROOM,
    "mpims.json": Kind.ROOM,
    "dms.json": Kind.DM,
}

_DAY = re.compile(r"(?P<folder>[^/]+)/\d{4}-\d\d-\d\d\.json")
_DM = re.compile(r"D[A-Z0-9]{8,}")


@dataclass(frozen=True, slots=True)
class _Listed:
    """A conversation as one of the lists names it."""

    id: str
    kind: Kind
    name: str = ""
    members: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Directory:
    """What the lists beside the folders say: people by id, folders by name or id."""

    people: dict[str, Actor] = field(default_factory=dict)
    folders: dict[str, _Listed] = field(default_factory=dict)
    channels: dict[str, str] = field(default_factory=dict)

    def name(self, user: str) -> str:
        """A person's name; the id where nobody wrote one down."""
        known = self.people.get(user)
        return known.name if known and known.name else user


class SlackExport:
    """A workspace's export as Slack hands it out, zipped or unpacked."""

    format = "Slack export"

    def recognises(self, source: Source) -> bool:
        root = _root(source)
        return root is not None and bool(_days(source, root))

    def read(
        self, source: Source, account: Account, options: Options, tally: Tally
    ) -> Iterator[Item]:
        root = _root(source)
        if root is None:
            raise broken(source.title, "channels.json and its siblings are missing.")
        directory = _directory(source, root, tally)
        for folder, days in _days(source, root).items():
            yield from _Channel(folder, directory, account, options, tally).read(source, days)


def _root(source: Source) -> str | None:
    """The folder, `""` or ending in `/`, that the lists lie in."""
    found = [
        name.removesuffix(each)
        for name in source.names()
        for each in LISTS
        if name == each or name.endswith(f"/{each}")
    ]
    return min(found, key=lambda root: (root.count("/"), root), default=None)


def _days(source: Source, root: str) -> dict[str, list[str]]:
    """The folders with at least one day, and their days, oldest first."""
    days: dict[str, list[str]] = {}
    for name in source.names():
        if name.startswith(root) and (found := _DAY.fullmatch(name, len(root))):
            days.setdefault(found["folder"], []).append(name)
    return days


def _directory(source: Source, root: str, tally: Tally) -> _Directory:
    directory, present = _Directory(), set(source.names())
    for name, kind in LISTS.items():
        if root + name in present:
            for where, entry in _entries(source, root + name, tally):
                _list(directory, entry, kind, where, tally)
    if root + "users.json" in present:
        for where, entry in _entries(source, root + "users.json", tally):
            actor = _person(entry)
            if actor is None:
                tally.problem(where, "a person without an id.")
            else:
                directory.people[actor.id] = actor
    return directory


def _list(
    directory: _Directory, entry: dict[str, Any], kind: Kind, where: str, tally: Tally
) -> None:
    channel = ident(entry.get("id"))
    if channel is None:
        tally.problem(where, "a conversation without an id.")
        return
    name = said(entry.get("name"))
    members = entry.get("members")
    listed = _Listed(
        channel,
        kind,
        name,
        tuple(said(each) for each in members) if isinstance(members, list) else (),
        dropping_empty(
            topic=plain(_value(entry.get("topic"))),
            purpose=plain(_value(entry.get("purpose"))),
            archived=entry.get("is_archived") is True,
        ),
    )
    directory.channels[channel] = name
    for folder in (name, channel):
        if folder:
            directory.folders.setdefault(folder, listed)


def _value(given: object) -> str:
    return said(given.get("value")) if isinstance(given, dict) else ""


def _person(entry: dict[str, Any]) -> Actor | None:
    user = ident(entry.get("id"))
    return None if user is None else Actor(user, called(entry), entry.get("is_bot") is True)


def _entries(source: Source, name: str, tally: Tally) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file that is one list, with where each stands."""
    with source.open(name) as stream:
        document = Document(stream, name)
        for number, _ in enumerate(document.elements(), 1):
            where, entry = f"{name}: entry {number}", document.value()
            if isinstance(entry, dict):
                yield where, entry
            else:
                tally.problem(where, "this is no object.")
        document.end()


class _Channel:
    """One folder: the channel, and the threads that hang in it."""

    def __init__(
        self,
        folder: str,
        directory: _Directory,
        account: Account,
        options: Options,
        tally: Tally,
    ) -> None:
        self.directory, self.options, self.tally = directory, options, tally
        listed = directory.folders.get(folder)
        if listed is None:
            # A folder's name is no id of Slack's; it is kept apart from real ones by the problem.
            tally.problem(folder, "no list names this folder; its name stands for the id.")
            kind = Kind.DM if _DM.fullmatch(folder) else Kind.ROOM
            listed = _Listed(clean(folder), kind, clean(folder))
        self.listed = listed
        self.places = Places(account.provider, account.account_id, account.scope_id)
        self.ref = self.places.room(listed.id, listed.kind)
        self.threads: dict[str, ConversationRef] = {}
        self.recent = Recent()

    def read(self, source: Source, days: list[str]) -> Iterator[Item]:
        title = self.listed.name or ", ".join(map(self.directory.name, self.listed.members))
        yield Place(self.ref, title, metadata=self.listed.metadata)
        for day in days:
            stamped = [
                (order(ts), where, entry)
                for where, entry in _entries(source, day, self.tally)
                if (ts := self._stamp(where, entry))
            ]
            for _, where, entry in sorted(stamped, key=lambda each: each[0]):
                yield from self._say(where, entry)
        yield from (Ended(ref) for ref in self.threads.values())
        yield Ended(self.ref)

    def _stamp(self, where: str, entry: dict[str, Any]) -> str | None:
        ts = entry.get("ts")
        if found := stamp(ts):
            return found
        self.tally.problem(where, f"{ts!r} is no stamp of Slack's.")
        return None

    def _say(self, where: str, entry: dict[str, Any]) -> Iterator[Item]:
        actor = self._actor(entry)
        if actor is None:
            self.tally.problem(where, "nobody is named as the author.")
            return
        ts, subtype = entry["ts"], said(entry.get("subtype"))
        root = root_of(entry)
        if root is not None and root not in self.threads:
            ref = self.places.thread(self.listed.id, root)
            self.threads[root] = ref
            self.tally.counts["threads"] += 1
            yield Place(ref, parent=self.ref, thread_root=root)
        event = _event(subtype)
        message = InboundMessage(
            conversation=self.ref if root is None else self.threads[root],
            text=""
            if event is Event.DELETE
            else words(entry, self.directory.name, self.directory.channels),
            actor=actor,
            message_id=delete_id(ts) if event is Event.DELETE else ts,
            event=event,
            direction=Direction.OUTBOUND if actor.is_self else Direction.INBOUND,
            revises=ts if event is Event.DELETE else None,
            # Slackbot stands as the author of every deletion; the word is the provider's.
            signed=event is Event.DELETE,
            thread_root=root,
            parent=None if root is None else self.ref,
            attachments=tuple(map(_attachment, records(entry.get("files")))),
            sent_at=at(ts),
            metadata=about(entry),
        )
        self._count(message, entry)
        yield message

    def _actor(self, entry: dict[str, Any]) -> Actor | None:
        actor = author(entry, self.directory.people)
        return actor and replace(actor, is_self=actor.id == self.options.self_id)

    def _count(self, message: InboundMessage, entry: dict[str, Any]) -> None:
        counts = self.tally.counts
        if message.event is not Event.MESSAGE:
            counts["deleted" if message.event is Event.DELETE else "system"] += 1
            return
        self.tally.heard(message.actor.id, message.sent_at)
        counts["unique_messages"] += self.recent.is_new(entry["ts"])
        counts["replies"] += message.thread_root is not None
        counts["edited"] += "edited" in entry
        counts["reactions"] += len(message.metadata.get("reactions", ()))
        counts["attachments"] += len(message.attachments)


def _event(subtype: str) -> Event:
    if subtype in MESSAGES:
        return Event.MESSAGE
    if subtype == "tombstone":
        return Event.DELETE
    return Event.MEMBER if subtype in MEMBERS else Event.NOTICE


def _attachment(given: dict[str, Any]) -> Attachment:
    """What follows the "?" is the export's own key to every file of the workspace."""
    one = attachment(given)
    return replace(one, url=one.url.partition("?")[0])
