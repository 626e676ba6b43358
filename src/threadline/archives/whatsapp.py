"""Chats that a phone exported as text: WhatsApp on Android and on the iPhone, in many languages.

Two readings. The first takes the dates and the senders, because only the whole file tells which
number is the month and whether the chat is a group. The second says the entries. An entry is a
line that begins with a date; all other lines continue the one before.

The file names no messages and no chat. A message's id is made of its time and sender as written
and its text, so a longer export of the same chat adds only what is new; a message that was edited
or deleted in between is a new one. The chat is called as the file is: "WhatsApp Chat with Ann.txt"
is the conversation "Ann". A sender with ": " in the name is read up to the first one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import BinaryIO

from threadline.archives.lines import MAX_LINE, Ids, Numbered, head, numbered, stem
from threadline.archives.whatsapp_dates import Calendar, DateOrder, Header, header, unmarked
from threadline.archives.whatsapp_words import Said, attachment, is_deleted, is_edited, own
from threadline.core.archive import Account, Ended, Item, Options, Place, Source, Tally, broken
from threadline.core.model import (
    MAX_ID_BYTES,
    Actor,
    ConversationRef,
    Direction,
    Event,
    InboundMessage,
    Kind,
)

WHATSAPP = Actor("whatsapp", "WhatsApp", is_bot=True)
LRM = "\u200e"

_TITLE = re.compile(
    r"(?:whatsapp[ -]?chat|chat(?: de)? whatsapp|conversa do whatsapp|discussion whatsapp)"
    r"(?: -| with| mit| con| com| avec| met)? (?P<title>.*\S)",
    re.I,
)
_GROUPS = frozenset({Said.MEMBER, Said.GROUP})


@dataclass(slots=True)
class _Entry:
    """One entry while its lines come in: the header of the first, and all of its text."""

    number: int
    header: Header
    lines: list[str]
    size: int
    is_whole: bool

    def go_on(self, line: str, size: int, *, is_whole: bool) -> None:
        self.size += size + 1
        if self.size > MAX_LINE or not is_whole:
            self.is_whole = False
        else:
            self.lines.append(line)

    def part(self) -> tuple[str | None, str]:
        """The sender and the text; without a sender all of it is the text."""
        sender, text = _part(self.header.rest)
        return sender, "\n".join([text, *self.lines])


@dataclass(slots=True)
class _Chat:
    """What the whole file tells: the order of its dates, and which senders are people."""

    order: DateOrder = field(default_factory=DateOrder)
    people: set[str] = field(default_factory=set)
    is_group: bool = False
    # On the iPhone the group itself is the sender of what WhatsApp says, and it says nothing else.
    telling: set[str] = field(default_factory=set)

    def see(self, entry: _Entry) -> None:
        self.order.see(entry.header.written)
        sender, text = entry.part()
        said = self.own(entry, sender, text)
        self.is_group |= said in _GROUPS
        if sender is None:
            return
        if said is not None:
            self.telling.add(sender)
        elif not _is_marked(entry, text) or attachment(text) or is_deleted(text):
            self.people.add(sender)

    def close(self) -> None:
        self.telling -= self.people
        self.is_group |= len(self.people) > 2

    def own(self, entry: _Entry, sender: str | None, text: str) -> Said | None:
        """What WhatsApp itself says in this entry; None where a person speaks."""
        if sender is None:
            return own(text) or Said.NOTICE
        if entry.header.is_ios:
            return own(text) if _is_marked(entry, text) else None
        # The name of a group may hold a ": ". Whoever once spoke is a person and speaks again.
        return None if sender in self.people else own(entry.header.rest)

    def judge(self, entry: _Entry, sender: str | None, text: str) -> Said | None:
        """The same with what the whole file told."""
        said = self.own(entry, sender, text)
        if said is None and entry.header.is_ios and sender in self.telling:
            return Said.NOTICE
        return said


def _is_marked(entry: _Entry, text: str) -> bool:
    """Whether the iPhone says by a mark that the text is not the sender's own."""
    return entry.header.is_ios and text.startswith(LRM)


class WhatsAppText:
    """The text file of "Export chat", alone or beside its media."""

    format = "WhatsApp text"

    def recognises(self, source: Source) -> bool:
        return any(_is_chat(source, name) for name in _candidates(source)[:16])

    def read(
        self, source: Source, account: Account, options: Options, tally: Tally
    ) -> Iterator[Item]:
        names = [name for name in _candidates(source) if _is_chat(source, name)]
        if not names:
            raise broken(source.title, "no line here begins as a WhatsApp entry does.")
        if len(names) > 1 and (options.conversation or options.title):
            raise broken(source.title, f"these are {len(names)} chats; one name is not enough.")
        titles = [_title(source, name) for name in names]
        for title, name in zip(titles, names, strict=True):
            if titles.count(title) > 1:
                raise broken(name, f"another file here is the chat {title!r} as well.")
            yield from _read(source, name, title, account, options, tally)


def _read(
    source: Source, name: str, title: str, account: Account, options: Options, tally: Tally
) -> Iterator[Item]:
    chat = _Chat()
    with source.open(name) as stream:
        for entry in _entries(stream, name, Tally()):
            chat.see(entry)
    chat.close()
    order, settled_by = chat.order.decide(options.date_order)
    zone = options.zone or UTC
    ref = account.ref(options.conversation or title, kind=Kind.ROOM if chat.is_group else Kind.DM)
    metadata = {"zone": str(zone), "date_order": order, "date_order_by": settled_by}
    yield Place(ref, options.title or title, metadata=metadata)
    if settled_by == "form":
        tally.skipped[f"day and month could be either way and were read as {order}"] += 1
    teller = _Teller(ref, chat, Calendar(order), zone, options.self_id, tally)
    with source.open(name) as stream:
        for entry in _entries(stream, name, tally):
            yield teller.tell(entry, f"{name}: line {entry.number}")
    yield Ended(ref)


@dataclass(slots=True)
class _Teller:
    """The maker of messages of one chat, and the only maker of their ids."""

    ref: ConversationRef
    chat: _Chat
    calendar: Calendar
    zone: tzinfo
    self_id: str | None
    tally: Tally
    ids: Ids = field(default_factory=Ids)

    def tell(self, entry: _Entry, where: str) -> InboundMessage:
        sender, text = entry.part()
        said = self.chat.judge(entry, sender, text)
        local = self.calendar.moment(entry.header)
        if local is None:
            order = self.calendar.order
            self.tally.problem(where, f"there is no such day in the order {order}.")
        if not entry.is_whole:
            self.tally.problem(where, f"the text is longer than {MAX_LINE} bytes and was cut.")
        at = local and local.replace(tzinfo=self.zone).astimezone(UTC)
        label, clock = entry.header.written.label, entry.header.clock.isoformat()
        message_id = self.ids.make(label, clock, sender or "", text)
        if said is not None or sender is None:
            self.tally.counts["system"] += 1
            if not entry.header.is_ios:
                text = "\n".join([entry.header.rest, *entry.lines])
            return InboundMessage(
                conversation=self.ref,
                text=text,
                actor=WHATSAPP,
                message_id=message_id,
                event=Event.MEMBER if said in (Said.MEMBER, Said.NUMBER) else Event.NOTICE,
                sent_at=at,
            )
        is_self = sender == self.self_id
        self.tally.heard(sender, at)
        file = attachment(text)
        metadata = {}
        if file is not None:
            self.tally.counts["attachments"] += 1
        if is_deleted(text):
            self.tally.counts["deleted"] += 1
            metadata["deleted"] = True
        if is_edited(text):
            self.tally.counts["edited"] += 1
            metadata["edited"] = True
        return InboundMessage(
            conversation=self.ref,
            text=text,
            actor=Actor(sender, sender, is_self=is_self),
            message_id=message_id,
            direction=Direction.OUTBOUND if is_self else Direction.INBOUND,
            attachments=(file,) if file else (),
            sent_at=at,
            metadata=metadata,
        )


def _entries(stream: BinaryIO, name: str, tally: Tally) -> Iterator[_Entry]:
    entry: _Entry | None = None
    for line in numbered(stream):
        text = _decoded(line, name)
        found = header(text)
        if found is not None:
            if entry is not None:
                yield entry
            entry = _Entry(line.number, found, [], len(line.data), line.is_whole)
        elif entry is not None:
            entry.go_on(text, len(line.data), is_whole=line.is_whole)
        elif text.strip():
            tally.problem(f"{name}: line {line.number}", "this stands before the first entry.")
    if entry is not None:
        # The end of the file belongs to no text.
        while entry.lines and not entry.lines[-1]:
            entry.lines.pop()
        yield entry


def _decoded(line: Numbered, name: str) -> str:
    try:
        if line.is_whole:
            text = line.data.decode()
        else:
            # Where the rest of a line was left out, a character may be cut in two.
            text = codecs.getincrementaldecoder("utf-8")().decode(line.data)
        return text.replace("\0", "\ufffd")
    except UnicodeDecodeError as error:
        raise broken(
            f"{name}: line {line.number}",
            f"byte {error.start + 1} is no UTF-8; the file breaks off or is no WhatsApp export.",
            line=line.number,
        ) from None


def _part(rest: str) -> tuple[str | None, str]:
    sender, colon, text = rest.partition(": ")
    if not colon:
        if not rest.endswith(":"):
            return None, rest
        sender = rest[:-1]
    sender = unmarked(sender).strip()
    if not sender or len(sender.encode()) > MAX_ID_BYTES:
        return None, rest
    return sender, text


def _candidates(source: Source) -> list[str]:
    names = source.names()
    return names if len(names) == 1 else [name for name in names if name.lower().endswith(".txt")]


def _is_chat(source: Source, name: str) -> bool:
    lines = head(source, name)
    return bool(lines) and header(lines[0].decode("utf-8", "replace")) is not None


def _title(source: Source, name: str) -> str:
    """What the chat is called by its file; an iPhone names only the folder around it."""
    title = stem(name)
    if title == "_chat" or not title.strip():
        title = stem(name.rpartition("/")[0]) or stem(source.title)
    found = _TITLE.match(title)
    return (found["title"] if found else title).strip() or "WhatsApp"
