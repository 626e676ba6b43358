"""What is due is worked on side by side: each recipient's in its order, nobody behind another.

A platform that does not answer holds up those who are reached through it, and nobody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from threadline.core.draft import Draft
from threadline.core.errors import (
    ConsentRequired,
    FilesFull,
    NoAdapter,
    NoAddress,
    NotFound,
    NotSent,
    ReplyRouteConflict,
    ThreadlineError,
)
from threadline.core.model import SessionCaller
from threadline.core.ports import (
    SEND,
    SENDS_DUE,
    SESSION,
    Changes,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
    fetch,
)
from threadline.core.rules.pacing import Pace
from threadline.core.seating import heir
from threadline.core.sends import Send, SendState, Tried
from threadline.flows.attempts import UNKNOWN, Attempts
from threadline.flows.clocks import next_of
from threadline.flows.pausing import finish, pause
from threadline.flows.planning import ReadPlan, Recipient
from threadline.flows.send_status import SendStatus
from threadline.flows.sends import EPOCH, MICROSECOND, ReadNow, WriteEnd

LOOK = 100
AGAIN = timedelta(seconds=30)
POLL_SECONDS = 5.0
AGAIN_SECONDS = 1.0
# So many at most: what waits for one dead platform leaves room for all others.
IN_HAND = 500

# What is refused so to one is so to all that a session sends there in the same way.
FOR_ALL = frozenset(
    one.code for one in (ConsentRequired, NoAdapter, NoAddress, NotFound, ReplyRouteConflict)
)

To = tuple[str, str]
Way = tuple[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeDue(Story[tuple[list[tuple[Send, str]], float | None]]):
    """The sends worth a look; those of every day are begun for this day and set for the next.

    Those in `busy` are worked on already, and stand in nobody's way.
    """

    busy: frozenset[int] = frozenset()
    limit: int = LOOK

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[list[tuple[Send, str]], float | None]]:
        """Answers them with their sessions' names, and after how many seconds there are others."""
        draft = Draft(loaded)
        here = (now - EPOCH) // MICROSECOND
        most = self.limit + len(self.busy)
        rows = loaded.page(Page(SENDS_DUE, (-1, -1, most)))
        full = len(rows) == most
        rows = [(number, at) for number, at in rows if number not in self.busy]
        due = [number for number, at in rows if at <= here][: self.limit]
        # Held, and looked at again: another node may have begun the same day meanwhile.
        known = fetch(draft, SEND, due, hold=True)
        sends = [one for one in known if one is not None and one.due_at and one.due_at <= now]
        fetch(draft, SESSION, {one.session for one in sends})
        found: list[tuple[Send, str]] = []
        for send in sends:
            session = heir(draft, send.session)
            if send.repeat is not None and session is not None:
                send = self._today(draft, send, now)
            found.append((send, "" if session is None else session.name))
        # Those put off together, or due at the same moment, leave as they were meant to.
        found.sort(key=lambda one: (one[0].at or one[0].created_at, one[0].created_at))
        wait: float | None = None
        if len(due) < len(rows):
            wait = max(0.0, (rows[len(due)][1] - here) / 1_000_000)
        elif full:
            wait = 0.0
        return draft.changes, (found, wait)

    def _today(self, draft: Draft, send: Send, now: datetime) -> Send:
        assert send.repeat is not None
        due = send.at or now
        child = replace(
            send,
            id=draft.fresh(),
            created_at=now,
            repeat=None,
            origin_of=send.id,
            expires_at=None,
            step=0,
        )
        draft.put(SEND, child.id, child)
        following = next_of(send.repeat, max(now, due))
        draft.put(SEND, send.id, replace(send, at=following, due_at=following, step=send.step + 1))
        return child


@dataclass(frozen=True, slots=True, kw_only=True)
class Postpone(Story[None]):
    """Look at a send again later: what it needs cannot be asked for at the moment."""

    send: Send

    def needs(self) -> Needs:
        """The row, so that no other step is overwritten."""
        return Needs(hold=((SEND, self.send.id),))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """Nothing where somebody else took the step."""
        changes, row = Changes(), loaded.get(SEND, self.send.id)
        if row is not None and row.step == self.send.step:
            changes.put(SEND, row.id, replace(row, due_at=now + AGAIN))
        return changes, None


@dataclass(slots=True)
class _Hands:
    """What is worked on: which sends, and the rest of each recipient's."""

    sends: set[int] = field(default_factory=set)
    lanes: dict[To, deque[tuple[Send, str]]] = field(default_factory=dict)
    freed: asyncio.Event = field(default_factory=asyncio.Event)


class DueSends:
    """The worker of scheduled sends, and of those whose channel failed and who have another."""

    def __init__(self, store: Store, attempts: Attempts, pace: Pace) -> None:
        self._store = store
        self._attempts = attempts
        self._pace = pace
        self._hands = _Hands()

    async def round(self) -> int:
        """Do what is due now, to its end. Answers how many were looked at."""
        async with asyncio.TaskGroup() as group:
            begun, _ = await self._look(group)
        return begun

    async def run(self, stopping: asyncio.Event, well: Callable[[], None]) -> None:
        """Work until told to stop; what is under way may end. `well` is called after each look
        that the store answered."""
        bell = self._store.bell(everything=True)
        tasks: set[asyncio.Task[None]] = set()
        try:
            async with asyncio.TaskGroup() as group:
                while not stopping.is_set():
                    try:
                        begun, seconds = await self._look(group, tasks)
                        well()
                    except ThreadlineError as error:
                        _log("initiative.store", error=error.code)
                        begun, seconds = 0, POLL_SECONDS
                    if not begun:
                        await pause(bell, stopping, seconds, self._hands.freed)
                await finish(tasks)
        finally:
            bell.close()

    async def _look(
        self, group: asyncio.TaskGroup, tasks: set[asyncio.Task[None]] | None = None
    ) -> tuple[int, float]:
        """Begin on what is due; answers on how many, and in how many seconds others will be."""
        hands = self._hands
        room = min(LOOK, IN_HAND - len(hands.sends))
        if room <= 0:
            return 0, POLL_SECONDS
        due, wait = await self._store.run(TakeDue(busy=frozenset(hands.sends), limit=room))
        begun = 0
        for send, name in due:
            # Meanwhile another look, of `round` beside `run`, may have begun on it.
            if send.id in hands.sends:
                continue
            begun += 1
            hands.sends.add(send.id)
            to = (send.scope_id, send.to)
            if to in hands.lanes:
                hands.lanes[to].append((send, name))
                continue
            hands.lanes[to] = deque([(send, name)])
            task = group.create_task(self._work(to))
            if tasks is not None:
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        return begun, POLL_SECONDS if wait is None else min(wait, POLL_SECONDS)

    async def _work(self, to: To) -> None:
        """One recipient's, one after the other."""
        hands = self._hands
        lane = hands.lanes[to]
        away: set[Way] = set()
        try:
            while lane:
                send, name = lane[0]
                await self._go_on(send, name, away)
                hands.sends.discard(lane.popleft()[0].id)
        except ThreadlineError as error:
            # What was not done is due, so it is taken again.
            _log("initiative.store", error=error.code)
            await asyncio.sleep(AGAIN_SECONDS)
        finally:
            del hands.lanes[to]
            hands.sends.difference_update(one.id for one, _ in lane)
            hands.freed.set()

    async def _go_on(self, send: Send, name: str, away: set[Way]) -> None:
        """One of them; `away` are the ways that could not be asked for one before it."""
        now = await self._store.read(ReadNow())
        caller = SessionCaller(name, send.scope_id, frozenset({"read", "send", "publish"}))
        due = send.at or now
        if not name:
            await self._end(send, SendState.CANCELLED, "the session was retired.", send.tried)
            return
        if send.state is SendState.SCHEDULED and now - due > self._pace.time_to_live:
            why = f"it was due at {due:%Y-%m-%d %H:%M}Z and nothing worked on it in time."
            await self._end(send, SendState.EXPIRED, why, send.tried)
            return
        scheduled, way = send.state is SendState.SCHEDULED, (send.session, send.via)
        if scheduled and way in away:
            # It would not fare better, must not overtake, and asking may take long.
            await self._store.run(Postpone(send=send))
            return
        tried = send.tried
        # An outage that is shorter than it may live drops nothing.
        lives = now - (send.at or send.created_at) < self._pace.time_to_live
        try:
            channels = send.left
            if scheduled:
                plan = await self._store.read(
                    ReadPlan(
                        session=name,
                        scope=send.scope_id,
                        to=Recipient.of(send.to),
                        via=send.via,
                        caller=caller,
                    )
                )
                channels = plan.channels
            copies = await self._attempts.copies(send, name, caller)
            answer = await self._attempts.make(send, channels, caller, None, copies)
            if isinstance(answer, SendStatus):
                return
            error, tried, passes = answer.error, answer.tried, answer.passes
        except UNKNOWN:
            raise
        except ThreadlineError as failed:
            error, passes = failed, isinstance(failed, FilesFull | NoAdapter)
        except Exception as defect:
            # Such as a full disk: no verdict on this send, and nothing that stops another's.
            _log("initiative.defect", error=type(defect).__name__)
            error, passes = NotSent(f"it failed ({type(defect).__name__})."), True
        if passes and (scheduled or lives):
            if scheduled and tried and all(one.outcome in FOR_ALL for one in tried):
                away.add(way)
            await self._store.run(Postpone(send=send))
        else:
            await self._end(send, SendState.FAILED, str(error), tried)

    async def _end(
        self, send: Send, state: SendState, reason: str, tried: tuple[Tried, ...]
    ) -> None:
        await self._store.run(WriteEnd(send=send, state=state, reason=reason, tried=tried))


def _log(event: str, **facts: Any) -> None:
    """An event name and facts; never a secret, never what was said."""
    import structlog

    structlog.get_logger("threadline").info(event, **facts)
