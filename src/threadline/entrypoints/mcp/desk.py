"""The tools at work for one caller: arguments in, text and data out.

A caller is a session, or a session within one conversation, to which no other exists. What is
waited for ends with the token and with the server, and is behind the durable cursor as before: only
`ack` moves it, so nothing is lost with a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from threadline.core.errors import Unauthenticated
from threadline.core.ids import public
from threadline.core.inert import inert_name, inert_text, shortened
from threadline.core.model import Event, SessionCaller, TranscriptRecord
from threadline.core.rules.folding import Message
from threadline.core.sends import SendState
from threadline.entrypoints.inbox import Inbox
from threadline.entrypoints.mcp import envelope, shapes
from threadline.flows.conversations import TranscriptPage
from threadline.flows.every import Flows
from threadline.flows.keys import Claim, KeyedStore, checked_key
from threadline.flows.members import Member
from threadline.flows.replay import Handed
from threadline.flows.statuses import DeliveryStatus

# Of the texts of one answer together; the first is there whatever its length.
CHARACTERS = 60_000
# An answer that is not settled by then goes on by itself.
SETTLING_SECONDS = 10.0
# So often somebody who waits is told that we are still there.
STILL_HERE_SECONDS = 5.0
NAME = 200
OUTCOME = {
    "delivered": "It was said",
    "pending": "It is written down and goes out by itself; do not say it again",
    "sending": "It is on its way; do not say it again",
    "uncertain": "Whether it was said is being found out; do not say it again",
    "failed": "It was NOT said: the platform refused it",
    "expired": "It was NOT said: it could not be delivered in time",
    "cancelled": "It was NOT said: it was taken back",
    "scheduled": "It is written down for its time",
    "open": "It is written down and goes out by itself; do not say it again",
    "suppressed": "It was NOT said again: the same was said before",
}

Tell = Callable[[float, float], Awaitable[None]]


async def nobody(_: float, __: float) -> None:
    """Tells nobody how far it is."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool gives: a text for a model, and the same as data."""

    text: str
    data: shapes.Given


@dataclass(frozen=True, slots=True)
class _Entry:
    """A record on its way out: `length` of its text is shown."""

    conversation: str
    message: Message
    answer: bool = False
    wake: bool = False

    @property
    def record(self) -> TranscriptRecord:
        return self.message.record


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """One caller, on the flows. `revoked` and `stopping` end what waits."""

    line: Flows
    caller: SessionCaller
    revoked: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    tell: Tell = nobody

    # --- reading ----------------------------------------------------------------------------

    async def list_conversations(self, asked: shapes.ListConversations) -> Answer:
        """The conversations this session reads, and how far it is behind."""
        caller, following = self.caller, None
        if caller.conversation is not None:
            only = public(caller.conversation)
            found = [await self.line.members.show(only, caller.session, caller=caller)]
        else:
            found, following = await self.line.members.conversations_of(
                caller.session, after=asked.after, limit=asked.limit, caller=caller
            )
        places = [await self._place(one) for one in found]
        text = "No conversation."
        if places:
            blocks = [
                (
                    {"conversation": one.conversation, "head": one.head, "unread": one.unread},
                    (f"address: {one.address}", one.title and f"title: {one.title}"),
                )
                for one in places
            ]
            text = envelope.listed(blocks)
        if following is not None:
            text += f"\nThere are more: after = {following}."
        return Answer(text, shapes.Places(conversations=places, next=following))

    async def _place(self, member: Member) -> shapes.Place:
        caller = self.caller
        about = await self.line.conversations.show(member.conversation, caller=caller)
        lag = await self.line.replay.lag(member.conversation, caller.session, caller=caller)
        return shapes.Place(
            conversation=member.conversation,
            provider=about.ref.provider,
            kind=about.kind.value,
            address=inert_name(str(about.ref), NAME),
            title=inert_name(about.title, NAME),
            head=about.head,
            read_to=lag.cursor,
            unread=lag.unread,
            handles=[inert_name(one) for one in member.handles],
        )

    async def read_thread(self, asked: shapes.ReadThread) -> Answer:
        """A part of a transcript, with edits and deletes applied. The cursor stays."""
        forwards = asked.after is not None
        page = await self.line.conversations.transcript(
            asked.conversation,
            after=asked.after,
            before=asked.before,
            order="asc" if forwards else "desc",
            limit=asked.limit,
            view="messages",
            caller=self.caller,
        )
        entries, rest = _bounded(_folded(page))
        last = entries[-1].record.sequence if rest else page.next
        if not forwards:
            entries = entries[::-1]
        newest = max((one.record.sequence for one in entries), default=page.head)
        thread = shapes.Thread(
            conversation=page.conversation,
            records=self._records(entries),
            head=page.head,
            history=page.history.value,
            older=None if forwards else last,
            newer=last if forwards else (newest if newest < page.head else None),
        )
        more = f"older: before = {thread.older}; newer: after = {thread.newer}; "
        text = f"{self._told(entries)}\n{more}newest record: {page.head}."
        return Answer(text, thread)

    async def wait_for_messages(self, asked: shapes.WaitForMessages) -> Answer:
        """What is not acknowledged, at once where there is anything."""
        if asked.conversation is not None:
            # What is followed is left out where it is not the session's; who names it is told.
            await self.line.members.show(
                asked.conversation, self.caller.session, caller=self.caller
            )
        found = Inbox(asked.limit)
        async with self._still_here(asked.seconds):
            await found.fill(self._follow(asked.conversation, once=True))
            if not found.records and asked.seconds:
                source = self._follow(asked.conversation)
                await found.wait(source, asked.seconds, [self.revoked, self.stopping])
        if self.revoked.is_set():
            raise Unauthenticated("the token was revoked or has expired.")
        entries, rest = _bounded([_entry(one) for one in found.records])
        through = {one.conversation: one.record.sequence for one in entries}
        heard = shapes.Heard(
            records=self._records(entries),
            gaps=[
                shapes.Lost(conversation=one.conversation, first=one.first, last=one.last)
                for one in found.gaps
            ],
            acknowledge=[
                shapes.Through(conversation=place, sequence=at) for place, at in through.items()
            ],
            more=rest or found.full,
        )
        if not entries:
            return Answer("Nothing new.", heard)
        said = [self._told(entries)]
        for one in entries:
            if one.answer:
                said.append(f"Record {one.record.sequence} of {one.conversation} is for you.")
        for place, at in through.items():
            said.append(f"Once all this is handled: ack {place} through {at}.")
        return Answer("\n".join(said), heard)

    def _follow(self, asked: str | None, *, once: bool = False) -> AsyncIterator[Any]:
        caller, only = self.caller, asked
        if caller.conversation is not None:
            only = public(caller.conversation)
        return self.line.replay.follow(caller.session, conversation=only, once=once, caller=caller)

    @contextlib.asynccontextmanager
    async def _still_here(self, seconds: float) -> AsyncIterator[None]:
        """Say now and then how long has been waited: what is silent too long is given up."""

        async def told() -> None:
            waited = 0.0
            while True:
                await asyncio.sleep(STILL_HERE_SECONDS)
                waited += STILL_HERE_SECONDS
                await self.tell(waited, seconds)

        telling = asyncio.create_task(told())
        try:
            yield
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    async def get_context(self, asked: shapes.GetContext) -> Answer:
        """A conversation for a model, within a budget."""
        told = await self.line.context.read(
            asked.conversation, budget=asked.budget, form="text", caller=self.caller
        )
        text = told.rendered.text
        data = shapes.Told(
            conversation=told.conversation,
            text=text,
            head=told.head,
            first=told.rendered.first,
            pinned=list(told.rendered.pinned),
            history=told.history.value,
            cut=told.rendered.cut is not None,
        )
        return Answer(text, data)

    # --- writing ----------------------------------------------------------------------------

    async def ack(self, asked: shapes.Ack) -> Answer:
        """Move the cursor forward; under it nothing happens."""
        caller = self.caller
        claim = Claim(
            owner=f"session {caller.scope_id} {caller.session}",
            request="mcp ack",
            key=checked_key(asked.key) or "",
            payload=hashlib.sha256(f"{asked.conversation} {asked.sequence}".encode()).hexdigest(),
        )
        line = self.line.over(KeyedStore(self.line.store, claim))
        member = await line.replay.ack(
            asked.conversation, caller.session, asked.sequence, caller=caller
        )
        place = public(member.conversation)
        read_to = asked.sequence if member.last_read is None else member.last_read
        data = shapes.Read(conversation=place, read_to=read_to)
        return Answer(f"Read through {read_to} in {place}.", data)

    async def reply(self, asked: shapes.Reply) -> Answer:
        """Say something in a conversation; with `reply_to` it answers that record."""
        sent = await self.line.outbound.publish(
            asked.conversation,
            self.caller.session,
            asked.text,
            key=asked.key,
            reply_to=asked.reply_to,
            caller=self.caller,
        )
        return await self._outcome(sent)

    async def _outcome(self, sent: DeliveryStatus) -> Answer:
        repeated = sent.repeated
        sent = await self.line.outbound.settled(sent, patience=SETTLING_SECONDS, caller=self.caller)
        data = shapes.Said(
            delivery=sent.id,
            conversation=sent.conversation,
            state=sent.state.value,
            failure=None if sent.failure is None else sent.failure.value,
            sequence=sent.sequence,
            repeated=repeated,
        )
        return Answer(_became(data), data)

    async def send_message(self, asked: shapes.SendMessage) -> Answer:
        """Write first: to a person, an address or a place."""
        sent = await self.line.initiative.send(
            self.caller.session,
            asked.to,
            asked.text,
            via=asked.via,
            key=asked.key,
            at=asked.at,
            caller=self.caller,
        )
        repeated = sent.repeated
        if sent.state is SendState.OPEN:
            sent = await self.line.initiative.settled(
                sent, patience=SETTLING_SECONDS, caller=self.caller
            )
        delivery = sent.delivery
        data = shapes.Sent(
            send=sent.id,
            state=sent.state.value,
            delivery=None if delivery is None else delivery.id,
            conversation=None if delivery is None else delivery.conversation,
            sequence=None if delivery is None else delivery.sequence,
            tried=[
                shapes.Tried(provider=one["provider"], outcome=one["outcome"]) for one in sent.tried
            ],
            at=None if sent.at is None else sent.at.isoformat(),
            repeated=repeated,
        )
        return Answer(_became(data), data)

    # --- records ----------------------------------------------------------------------------

    def _told(self, entries: Sequence[_Entry]) -> str:
        if not entries:
            return "No record."
        return envelope.told(
            [(one.conversation, one.message) for one in entries], self._mine(entries)
        )

    def _mine(self, entries: Iterable[_Entry]) -> frozenset[str]:
        """The surrogate ids that mean this session, as far as these records name it."""
        own = self.caller.session
        found = set()
        for one in entries:
            if one.record.source is not None and one.record.source_session_id == own:
                found.add(one.record.source)
            if one.record.target is not None and one.record.target_session_id == own:
                found.add(one.record.target)
        return frozenset(found)

    def _records(self, entries: Sequence[_Entry]) -> list[shapes.Record]:
        mine = self._mine(entries)
        return [_shown(one, mine) for one in entries]


def _became(data: shapes.Said | shapes.Sent) -> str:
    """What became of words, in words."""
    text = OUTCOME[data.state]
    if data.sequence is not None:
        text += f" as record {data.sequence} of {data.conversation}"
    if data.repeated:
        text += "; under this key before, and not again now"
    return f"{text}."


def _entry(handed: Handed) -> _Entry:
    message = Message(handed.record, deleted=handed.record.blanked)
    return _Entry(handed.conversation, message, handed.speaker and handed.wake, handed.wake)


def _folded(page: TranscriptPage) -> list[_Entry]:
    """The records as people see them: edits and deletes are in the messages."""
    messages = {one.record.sequence: one for one in page.messages}
    found: list[_Entry] = []
    for record in page.records:
        match record.event:
            case Event.MESSAGE:
                found.append(_Entry(page.conversation, messages[record.sequence]))
            case Event.REACTION | Event.MEMBER | Event.NOTICE:
                if not record.blanked and record.refused is None:
                    found.append(_Entry(page.conversation, Message(record)))
            case Event.EDIT | Event.DELETE:
                continue
    return found


def _bounded(entries: list[_Entry]) -> tuple[list[_Entry], bool]:
    """As many as an answer holds, and whether some are left."""
    size = 0
    for index, one in enumerate(entries):
        size += min(len(one.record.text), shapes.LONGEST_TEXT)
        if index and size > CHARACTERS:
            return entries[:index], True
    return entries, False


def _shown(entry: _Entry, mine: frozenset[str]) -> shapes.Record:
    record = entry.record
    at = record.sent_at or record.recorded_at
    if record.source is not None:
        who = "you" if record.source in mine else "session"
        name = identity = record.source_session_id or ""
    else:
        who = "bot" if record.actor.is_bot or record.actor.is_self else "person"
        name, identity = record.actor.name, record.actor.id
    return shapes.Record(
        conversation=entry.conversation,
        sequence=record.sequence,
        event=record.event.value,
        who=who,
        name=inert_name(name),
        id=inert_name(identity, NAME),
        text=inert_text(shortened(record.text, shapes.LONGEST_TEXT)),
        at=None if at is None else at.isoformat(),
        message_id=_named(record.message_id),
        reply_to=_named(record.reply_to),
        revises=_named(record.revises),
        files=[
            shapes.File(
                number=number, name=inert_name(one.name), type=inert_name(one.type), size=one.size
            )
            for number, one in enumerate(record.attachments)
        ],
        edits=entry.message.revision,
        deleted=entry.message.deleted,
        cut=len(record.text) > shapes.LONGEST_TEXT,
        answer=entry.answer,
        wake=entry.wake,
    )


def _named(value: str | None) -> str | None:
    return None if value is None else inert_name(value, NAME)
