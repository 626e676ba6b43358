"""A process that does everything at once until it is killed, and says what was acknowledged.

Each task has rooms and sessions of its own, so that whoever judges knows what each may have become;
all of them share the store, its batches and its writer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from crash.ledger import CHIEF, Journal, Ledger
from threadline import Threadline
from threadline.core.archive import Account, Place, Tally
from threadline.core.errors import (
    HydrationConflict,
    HydrationPending,
    NotFound,
    OutcomeUnknown,
    StoreUnavailable,
    ThreadlineError,
)
from threadline.core.model import (
    Actor,
    Controller,
    ConversationRef,
    Event,
    InboundMessage,
    WindowMode,
)
from threadline.core.rules.allowance import NAMES
from threadline.core.rules.limits import Limits

KEY = bytes(range(32))
ADA = Actor("U1", "Ada")
ACCOUNT = Account(provider="slack", account_id="T1")
RETAINED = 40
REASSIGN_SECONDS = 0.01

TALK = ["slack/T1/C0", "slack/T1/C1", "slack/T1/C2", "slack/T1/C3"]
SWEPT = "slack/T1/S"
GATED = ["slack/T1/G0", "slack/T1/G1"]
FRONT = ["slack/T1/P0", "slack/T1/P1"]
BOUND = "slack/T1/B"
HANDLES = "slack/T1/H"
SPOKEN = "web/office/W"
VOICE = "voice"
FIRST_ROOM, FIRST = "web/office/F", "first"
HUMAN = Controller(human=True)
CHAIN = ["slack/T1/R0", "slack/T1/R1", "slack/T1/R2"]
ROOMS = [*TALK, SWEPT, *GATED, *FRONT, BOUND, HANDLES, SPOKEN, FIRST_ROOM, *CHAIN]

# A drain takes several transactions, so that a kill finds one half done.
LIMITS = Limits(chunk=4)


def said(room: str, message_id: str | None, text: str | None = None, **more: Any) -> InboundMessage:
    """Ada says something; where nothing else is given, the text is the message's id."""
    return InboundMessage(
        conversation=ConversationRef.parse(room),
        text=message_id or "" if text is None else text,
        message_id=message_id,
        actor=ADA,
        **more,
    )


async def prepare(line: Threadline, journal: Journal) -> None:
    """The rooms, the retention and the sessions that the tasks work with."""
    first = f"{CHIEF}-0"
    journal.attempt("chief", first)
    for room in ROOMS:
        await line.conversations.ensure(room)
    await line.conversations.change(SWEPT, max_retained_entries=RETAINED)
    await line.speakers.bind(SPOKEN, VOICE)
    await line.speakers.bind(FIRST_ROOM, FIRST)
    await line.consents.grant(FIRST, *FIRST_ROOM.split("/")[:2])
    await line.consents.set("on", room=FIRST_ROOM, caller=HUMAN)
    await line.consents.set_limits(dict.fromkeys(NAMES, 0))
    await line.speakers.bind(CHAIN[0], first)
    await line.speakers.participant(CHAIN[1], "chief", first)
    await line.members.join(CHAIN[2], first)
    journal.ok("chief", first)


def _is_first(words: str) -> bool:
    """Whether these are said on a session's own initiative."""
    return words.rpartition(".")[2].startswith("f")


class Workload:
    """The tasks of one life. `mark` tells this life's messages from those of other lives."""

    def __init__(
        self,
        line: Threadline,
        journal: Journal,
        ledger: Ledger,
        mark: str,
        seed: int,
        batch: int = 40,
    ) -> None:
        self._line = line
        self._journal = journal
        self._mark = mark
        self._batch = batch
        self._random = random.Random(seed)
        self._numbers: dict[str, int] = {}
        known = [key for key, at in ledger.said.items() if at is not None]
        self._known = self._random.sample(known, min(len(known), 200))
        chief = next(iter(ledger.allowed.get("chief", {None})))
        self._chief: str = chief or f"{CHIEF}-0"
        self._unsaid = sorted(one for one in ledger.saying if not _is_first(one))
        self._unsent = sorted(one for one in ledger.saying if _is_first(one))
        self._unanswered: list[list[tuple[str, str]]] = []
        self._going = asyncio.Event()
        self._going.set()
        self._active = 0
        self._idle = asyncio.Event()
        self.tolerant = False
        self.refused = 0

    async def run(self, rounds: int | None = None) -> None:
        """Every task, for so many rounds or until death.

        A `tolerant` one goes on where the store was not reachable, and says again what was not
        answered.
        """
        tasks = [
            self._talk,
            self._talk,
            self._talk_alone,
            self._read,
            self._sit,
            self._sweep,
            self._import_gated,
            self._import_in_front,
            self._publish,
            self._write_first,
            self._bind,
            self._seat,
            self._reassign,
        ]
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(self._repeat(task, rounds))

    async def _repeat(self, task: Any, rounds: int | None) -> None:
        done = 0
        while rounds is None or done < rounds:
            while not self._going.is_set():
                # It may have been paused again between the waking and this line.
                await self._going.wait()
            self._active += 1
            try:
                await task()
            except (StoreUnavailable, OutcomeUnknown):
                if not self.tolerant:
                    raise
                self.refused += 1
            finally:
                self._active -= 1
                if not self._active:
                    self._idle.set()
            done += 1

    async def pause(self) -> None:
        """Begin nothing new; return when all that was begun is answered."""
        self._going.clear()
        while self._active:
            self._idle.clear()
            await self._idle.wait()

    def resume(self) -> None:
        """Go on."""
        self._going.set()

    def _fresh(self, word: str) -> str:
        number = self._numbers[word] = self._numbers.get(word, 0) + 1
        return f"{self._mark}{word}{number}"

    def _flip(self) -> bool:
        return self._random.random() < 0.5

    # --- saying ------------------------------------------------------------------------------

    async def _talk(self) -> None:
        """A batch over several rooms, with redeliveries of this and of earlier lives."""
        if self._unanswered:
            batch = self._unanswered.pop()
        else:
            rooms = [*TALK, SWEPT]
            count = self._random.randint(1, self._batch)
            batch = [(self._random.choice(rooms), self._fresh("m")) for _ in range(count)]
            batch += self._random.sample(self._known, min(2, len(self._known)))
        try:
            answers = await self._line.inbound.receive_all([said(*one) for one in batch])
            self._answered(batch, answers)
        except ThreadlineError:
            self._unanswered.append(batch)
            raise
        self._known += batch[:2]

    def _answered(self, batch: Iterable[tuple[str, str]], answers: Iterable[Any]) -> None:
        failed: ThreadlineError | None = None
        for (room, message_id), answer in zip(batch, answers, strict=True):
            if isinstance(answer, ThreadlineError):
                failed = answer
            else:
                self._journal.said(room, message_id, answer)
        if failed is not None:
            raise failed

    async def _talk_alone(self) -> None:
        """One message at a time: with an id, without one, an edit."""
        room = self._random.choice(TALK)
        name = self._fresh("a")
        match self._random.randrange(4):
            case 0:
                answer = await self._line.inbound.append(said(room, name))
                self._journal.said(room, name, answer)
            case 1:
                answer = await self._line.inbound.receive(said(room, None, f"plain {name}"))
                self._journal.plain(room, f"plain {name}", answer.sequence)
            case 2:
                edit = said(room, name, event=Event.EDIT, revises=self._fresh("never"))
                self._journal.said(room, name, await self._line.inbound.receive(edit))
            case _:
                answers = [await self._line.inbound.receive(said(room, name)) for _ in range(2)]
                self._answered([(room, name)] * 2, answers)

    async def _publish(self) -> None:
        """Let a session speak; what was in flight at a death is said again under its key."""
        words = self._unsaid.pop() if self._unsaid else self._fresh("p")
        self._journal.saying(words)
        try:
            sent = await self._line.outbound.publish(SPOKEN, VOICE, words, key=words)
        except ThreadlineError:
            self._unsaid.append(words)
            raise
        self._journal.plain(SPOKEN, words, sent.sequence)

    async def _write_first(self) -> None:
        """The same on its own initiative; what was in flight is asked for again under its key."""
        words = self._unsent.pop() if self._unsent else self._fresh("f")
        self._journal.saying(words)
        try:
            sent = await self._line.initiative.send(FIRST, FIRST_ROOM, words, key=words)
        except ThreadlineError:
            self._unsent.append(words)
            raise
        assert sent.delivery is not None
        self._journal.plain(FIRST_ROOM, words, sent.delivery.sequence)

    # --- reading -----------------------------------------------------------------------------

    async def _read(self) -> None:
        """Join, read a page, acknowledge some of it, sometimes going back."""
        room, reader = self._random.choice(TALK), f"reader-{self._random.randrange(3)}"
        await self._line.members.join(room, reader)
        page = await self._line.replay.backfill(room, reader, limit=20)
        if page.records:
            to = self._random.choice(page.records).record.sequence
            await self._line.replay.ack(room, reader, to)
            self._journal.read(room, reader, to)
            await self._line.replay.ack(room, reader, max(0, to - 5))

    async def _sit(self) -> None:
        """Come and go."""
        room, name = self._random.choice(TALK), "guest"
        key = f"seat {room} {name}"
        try:
            seated = (await self._line.members.show(room, name)).active
        except NotFound:
            seated = False
        if seated:
            self._journal.attempt(key, None)
            await self._line.members.leave(room, name)
        else:
            self._journal.attempt(key, True)
            await self._line.members.join(room, name, policy="last_n", n=3)
        self._journal.ok(key, None if seated else True)

    async def _sweep(self) -> None:
        """Move the floor where retention asks for it."""
        await self._line.upkeep.round()
        await asyncio.sleep(0.002)

    # --- importing ---------------------------------------------------------------------------

    async def _window(self, room: str, mode: str) -> str:
        key = f"window {room}"
        self._journal.attempt(key, True)
        while True:
            # A window that the sweep is draining opens again as soon as it is drained.
            try:
                state = await self._line.hydration.begin(room, owner="importer", mode=mode)
            except HydrationPending:
                await asyncio.sleep(0.001)
                continue
            break
        assert state.token is not None
        self._journal.ok(key, True)
        return state.token

    async def _end(self, room: str, token: str) -> None:
        key = f"window {room}"
        self._journal.attempt(key, None)
        if self._flip():
            await self._line.hydration.complete(room, token)
        else:
            await self._line.hydration.fail(room, token, "somebody pulled the plug")
        self._journal.ok(key, None)

    async def _import_gated(self) -> None:
        """Import while live traffic is held; the close drains it."""
        room = self._random.choice(GATED)
        token = await self._window(room, "gated")
        await self._line.members.join(room, self._fresh("late-"), policy="last_n", n=2)
        try:
            for _ in range(self._random.randint(1, 3)):
                await self._import_some(room, token)
                live = [(room, self._fresh("l")) for _ in range(self._random.randint(1, 5))]
                live.append(live[0])
                answers = await self._line.inbound.receive_all([said(*one) for one in live])
                self._answered(live, answers)
            await self._end(room, token)
        except HydrationConflict:
            # The judge let the window run out, or its end was told to nobody.
            return
        answer = await self._line.inbound.receive(said(*live[0]))
        self._journal.said(*live[0], answer)

    async def _import_some(self, room: str, token: str) -> None:
        batch = [self._fresh("h") for _ in range(self._random.randint(1, 6))]
        messages = [said(room, name) for name in batch]
        answers = await self._line.hydration.records(room, token, messages)
        self._answered([(room, name) for name in batch], answers)

    async def _import_in_front(self) -> None:
        """Import in front of what is said meanwhile; sometimes as an archive does it."""
        room = self._random.choice(FRONT)
        if self._flip():
            key = f"window {room}"
            names = [self._fresh("h") for _ in range(self._random.randint(1, 12))]
            ref = ConversationRef.parse(room)
            items: list[Place | InboundMessage] = [
                Place(ref),
                *(said(room, name) for name in names),
            ]
            self._journal.attempt(key, True)
            self._journal.attempt(key, None)
            await self._line.importing.run(
                items,
                Tally(),
                owner="importer",
                account=ACCOUNT,
                mode=WindowMode.PREPENDING,
            )
            self._journal.ok(key, None)
            for name in names:
                answer = await self._line.inbound.receive(said(room, name))
                self._journal.said(room, name, answer)
            return
        token = await self._window(room, "prepending")
        await self._import_some(room, token)
        name = self._fresh("l")
        self._journal.said(room, name, await self._line.inbound.receive(said(room, name)))
        await self._import_some(room, token)
        await self._end(room, token)

    # --- speaking ----------------------------------------------------------------------------

    async def _bind(self) -> None:
        """Bind, unbind, bind to another."""
        key = f"bind {BOUND}"
        name: str | None = None
        if await self._line.speakers.binding(BOUND) is not None:
            self._journal.attempt(key, None)
            await self._line.speakers.unbind(BOUND)
        else:
            name = f"owner-{self._random.randrange(3)}"
            self._journal.attempt(key, name)
            await self._line.speakers.bind(BOUND, name)
        self._journal.ok(key, name)

    async def _seat(self) -> None:
        """Give a handle, move it, take it away."""
        handle = self._random.choice(["alpha", "beta"])
        key = f"handle {HANDLES} {handle}"
        name: str | None = f"voice-{self._random.randrange(2)}"
        if self._flip():
            name = None
            self._journal.attempt(key, None)
            with suppress(NotFound):
                await self._line.speakers.remove_participant(HANDLES, handle)
        else:
            self._journal.attempt(key, name)
            await self._line.speakers.participant(HANDLES, handle, str(name))
        self._journal.ok(key, name)

    async def _reassign(self) -> None:
        """Hand everything of a session to its successor, then read on as that."""
        old = self._chief
        new = f"{CHIEF}-{int(old.rpartition('-')[2]) + 1}"
        self._journal.attempt("chief", new)
        await self._line.sessions.reassign(old, new)
        self._chief = new
        self._journal.ok("chief", new)
        for room in CHAIN:
            name = self._fresh("r")
            self._journal.said(room, name, await self._line.inbound.receive(said(room, name)))
            page = await self._line.replay.backfill(room, new)
            await self._line.replay.ack(room, new, page.head)
            self._journal.read(room, CHIEF, page.head)
        assert await self._line.speakers.binding(CHAIN[0]) is not None
        await asyncio.sleep(REASSIGN_SECONDS)
