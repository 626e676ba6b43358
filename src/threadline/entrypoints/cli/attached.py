"""An attached agent: one run a wake, one at a time in a conversation, each answered once.

The stream is a doorbell: a conversation that rings is read from its cursor, as far as it was read.
So what comes during a run is in the next one, and nothing has to be remembered here. A run is
written down on the server before it starts, and its reply is said under the run's key. Whoever
comes after a crash is told whether that happened, and either acknowledges or does the same run
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from threadline.core.errors import (
    AttachmentLost,
    HydrationPending,
    IdempotencyConflict,
    NotFound,
    ServerUnreachable,
    SessionNotFound,
    SessionRetired,
    ThreadlineError,
    Unauthenticated,
)
from threadline.entrypoints.cli.child import Failed, Watcher, reply_of, run

if TYPE_CHECKING:
    from threadline.client import Session

PAGE: Final = 100
# A run that was begun this often and never ended takes its attach down with it.
MAX_STARTS: Final = 20
TOKEN_SLACK: Final = 60.0
GOODBYE: Final = 2.0

# What ends the whole attach: this session has no business here any more.
FATAL: Final = (AttachmentLost, Unauthenticated, SessionNotFound, SessionRetired)

Tell = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The command and how it is run. `seconds` is how long it may take, `tries` how often it is
    started for the same records before they are given up."""

    command: Sequence[str]
    folder: str
    environment: Mapping[str, str]
    plain: bool = False
    every: bool = False
    with_token: bool = False
    seconds: float
    tries: int
    parallel: int


@dataclass(slots=True)
class Room:
    """A conversation that is being looked after."""

    again: bool = True
    failures: int = 0
    pause: Any = None
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Attached:
    """A session's agent at work. `tell` says what happens, `fence` is the lease's."""

    session: Session
    agent: Agent
    watcher: Watcher
    fence: int
    keep: Callable[[], Awaitable[None]]
    tell: Tell
    lost: asyncio.Future[None] = field(init=False)
    rooms: dict[str, Room] = field(default_factory=dict)
    slots: asyncio.Semaphore = field(init=False)

    async def work(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set. Raises what ends the attach; every run has ended then."""
        self.slots = asyncio.Semaphore(self.agent.parallel)
        self.lost = asyncio.get_running_loop().create_future()
        tasks = [
            asyncio.create_task(self._listen()),
            asyncio.ensure_future(self.keep()),
            asyncio.create_task(_until(stop)),
        ]
        waiting: list[asyncio.Future[Any]] = [*tasks, self.lost]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            ending = [*tasks, *(room.task for room in self.rooms.values() if room.task)]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            if not self.lost.cancel() and not self.lost.cancelled():
                self.lost.exception()  # Several rooms may lose the same thing; one says so.

    async def _listen(self) -> None:
        records = self.session.inbox(every=True, acknowledge=False)
        async with contextlib.aclosing(records) as rings:
            async for record in rings:
                self._ring(record.conversation)

    def _ring(self, conversation: str) -> None:
        room = self.rooms.get(conversation)
        if room is None:
            from threadline.client import Pause

            room = self.rooms[conversation] = Room(pause=Pause(first=1.0, longest=60.0))
            room.task = asyncio.create_task(self._serve(conversation, room))
        room.again = True

    async def _serve(self, conversation: str, room: Room) -> None:
        """Look after one conversation until nothing is unread in it."""
        try:
            while room.again:
                room.again = False
                while await self._step(conversation, room):
                    pass
        except FATAL as fatal:
            if not self.lost.done():
                self.lost.set_exception(fatal)
        except NotFound:
            # No member any more; should it be one again, the stream says so.
            pass
        except Exception as defect:
            if not self.lost.done():
                self.lost.set_exception(defect)
        finally:
            del self.rooms[conversation]

    async def _step(self, conversation: str, room: Room) -> bool:
        """Read on, run where somebody is to be answered; the answer is whether to look again."""
        try:
            async with self.slots:
                page = await self.session.request(
                    "GET",
                    self._member(conversation, "backfill"),
                    params={"limit": PAGE},
                )
                records = page["records"]
                if not records:
                    if page["gap"] is not None:
                        await self.session.ack(conversation, page["gap"]["last"])
                    return False
                if not any(self._calls(one) for one in records):
                    await self.session.ack(conversation, records[-1]["sequence"])
                    return bool(page["more"])
                await self._answer(conversation, room, records)
        except HydrationPending:
            # History is being imported; meanwhile the conversation is closed to everybody.
            await asyncio.sleep(room.pause.next())
        except _Again as again:
            await asyncio.sleep(again.seconds)
        else:
            room.pause.reset()
        return True

    def _calls(self, record: Mapping[str, Any]) -> bool:
        """Whether the agent is run for this record.

        With `every` that is each wake and each message of a person. What machines say to each
        other is bounded by their wakes alone, so it never runs an agent without one.
        """
        if record["wake"] and (record["speaker"] or self.agent.every):
            return True
        return (
            self.agent.every
            and record["event"] == "message"
            and record["provenance"] == "live"
            and record["direction"] == "inbound"
            and not record["actor"]["is_bot"]
        )

    async def _answer(
        self, conversation: str, room: Room, records: Sequence[Mapping[str, Any]]
    ) -> None:
        """Do one run, or what an earlier one left to be done."""
        begun = await self.session.request(
            "POST",
            f"/v1/sessions/{quote(self.session.name, safe='')}/attachment/runs",
            json={
                "conversation": conversation,
                "fence": self.fence,
                "first": records[0]["sequence"],
                "last": records[-1]["sequence"],
                "failures": room.failures,
            },
        )
        first, last = begun["first"], begun["last"]
        mine = [one for one in records if first <= one["sequence"] <= last]
        calling = [one for one in mine if self._calls(one)]
        place = {"conversation": conversation, "text": _text(records[0]), "records": len(mine)}
        if begun["delivery"] is not None:
            self.tell("answered", **place, delivery=begun["delivery"])
        elif records[0]["sequence"] < first:
            # History was imported in front of a run that is open.
            await self.session.ack(conversation, first - 1)
            return
        elif not calling:
            # Retention took what called.
            pass
        elif begun["failures"] >= self.agent.tries or begun["starts"] > MAX_STARTS:
            self.tell("given_up", **place, reason="it was begun too often and never ended")
        else:
            room.failures = begun["failures"]
            try:
                await self._run(conversation, begun["key"], mine, calling[-1], place)
            except _Wrong as wrong:
                room.failures += 1
                self.tell("failed", **place, reason=str(wrong), failures=room.failures)
                if room.failures < self.agent.tries:
                    raise _Again(room.pause.next()) from None
                self.tell("given_up", **place, reason=f"it failed {room.failures} times")
        room.failures = 0
        await self.session.ack(conversation, last)

    async def _run(
        self,
        conversation: str,
        key: str,
        records: Sequence[Mapping[str, Any]],
        calling: Mapping[str, Any],
        place: Mapping[str, Any],
    ) -> None:
        """Run the command and say what it answered. Raises `_Wrong`."""
        try:
            await self._tried(conversation, key, records, calling, place)
        except (*FATAL, HydrationPending, ServerUnreachable):
            raise
        except ThreadlineError as refused:
            raise _Wrong(f"the server refused: {refused}") from None

    async def _tried(
        self,
        conversation: str,
        key: str,
        records: Sequence[Mapping[str, Any]],
        calling: Mapping[str, Any],
        place: Mapping[str, Any],
    ) -> None:
        given = {
            "context": await self.session.context(conversation),
            "records": list(records),
            "conversation": conversation,
            "ref": calling["ref"],
            "session": self.session.name,
        }
        self.tell("run", **place)
        try:
            output = await self._lent(conversation, json.dumps(given).encode())
            reply = reply_of(output, plain=self.agent.plain)
        except Failed as failed:
            raise _Wrong(f"{failed}; nothing was published") from None
        if reply is None:
            self.tell("silent", **place)
            return
        try:
            said = await self.session.say(
                conversation, reply, key=key, reply_to=calling["sequence"]
            )
        except IdempotencyConflict:
            self.tell("answered", **place, delivery=None)
        else:
            event = "refused" if said.state == "failed" else "replied"
            self.tell(event, **place, delivery=said.id, sequence=said.sequence, reason=said.reason)

    async def _lent(self, conversation: str, given: bytes) -> bytes:
        """Run the command, with a token for this conversation only where that is asked for."""
        if not self.agent.with_token:
            return await self._output(given, {})
        lent = await self.session.request(
            "POST",
            f"/v1/conversations/{conversation}/tokens",
            json={
                "session_id": self.session.name,
                "seconds": self.agent.seconds + TOKEN_SLACK,
                "name": "attach",
            },
        )
        own = {
            "THREADLINE_URL": self.session.url,
            "THREADLINE_TOKEN": lent["token"],
            "THREADLINE_SESSION": self.session.name,
            "THREADLINE_CONVERSATION": conversation,
        }
        try:
            return await self._output(given, own)
        finally:
            # Also when we are stopped. Should the server be away, the token ends by itself.
            with contextlib.suppress(TimeoutError, ThreadlineError):
                async with asyncio.timeout(GOODBYE):
                    await self.session.request("DELETE", f"/v1/tokens/{lent['id']}")

    async def _output(self, given: bytes, own: Mapping[str, str]) -> bytes:
        return await run(
            self.agent.command,
            given,
            environment={**self.agent.environment, **own},
            folder=self.agent.folder,
            seconds=self.agent.seconds,
            watcher=self.watcher,
        )

    def _member(self, conversation: str, what: str) -> str:
        name = quote(self.session.name, safe="")
        return f"/v1/conversations/{conversation}/members/{name}/{what}"


class _Wrong(Exception):
    """A run that counts as failed."""


class _Again(Exception):
    """Look at the conversation again after a while; the slot is free meanwhile."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


def _text(record: Mapping[str, Any]) -> str:
    """A conversation's address as people write it."""
    from threadline.core.model import ConversationRef

    return str(ConversationRef(**record["ref"]))


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()
