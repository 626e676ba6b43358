"""Pushing: the loop of every outlet, with a web server as the reader.

Arm the bell, read until dry, wait. What is read lies behind the session's cursor, judged anew for
each batch, so who left, was retired or has no target any more gets nothing. The cursor moves when
the target acknowledges; until then the same batch comes again, later and later.

One node pushes for a session at a time, under a lease. Its fence is compared before each call and
with each verdict.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import structlog

from threadline.core.errors import SessionNotFound, SessionRetired, ThreadlineError
from threadline.core.ids import public
from threadline.core.outside import CallFailed, Chance, Fault, Post
from threadline.core.ports import EVERYTHING, Store
from threadline.core.push import (
    PACE,
    PushPace,
    PushState,
    PushTarget,
    ack_of,
    backoff,
    batch_id,
    fault_of,
)
from threadline.flows.batches import (
    TARGETS,
    End,
    Lease,
    Prepare,
    ReadActive,
    ReadHeld,
    Release,
    Rest,
    Settle,
)
from threadline.flows.push import Push, signed
from threadline.flows.replay import HEAD_START, PATIENCE, Backfill, Handed, ReadMemberships

Wait = Callable[[float], Awaitable[object]]
# A page and some of its records as a request's body, and how many of them found room in it.
Form = Callable[[Backfill, Sequence[Handed]], tuple[bytes, int]]

_log = structlog.get_logger("threadline.push")


class _Over(Exception):
    """The target is not ours any more, or there is none."""


class Pushing:
    """The pushers of one node. `wait` is what back-offs are waited out with."""

    def __init__(
        self,
        store: Store,
        push: Push,
        form: Form,
        *,
        pace: PushPace = PACE,
        wait: Wait = asyncio.sleep,
        chance: Chance = random.random,
    ) -> None:
        self.store = store
        self.push = push
        self.form = form
        self.pace = pace
        self.wait = wait
        self.chance = chance
        self._fences: dict[int, int] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._alone = store.kind == "sqlite"

    async def run(self, stopping: asyncio.Event, well: Callable[[], None] = lambda: None) -> None:
        """Push until `stopping` is set; then every lease is given back.

        `well` is called after each look at who is to be pushed to.
        """
        stop = asyncio.create_task(stopping.wait())
        async with self.push.outside.open() as post:
            try:
                while not stopping.is_set():
                    self.push.changed.clear()
                    await self._look(post)
                    well()
                    changed = asyncio.create_task(self.push.changed.wait())
                    await asyncio.wait(
                        {stop, changed},
                        timeout=self.pace.scan.total_seconds(),
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    changed.cancel()
            finally:
                stop.cancel()
                tasks = list(self._running.values())
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                with suppress(ThreadlineError):
                    await self.store.run_all(
                        [Release(session=one, fence=held) for one, held in self._fences.items()]
                    )
                self._fences.clear()

    async def _look(self, post: Post) -> None:
        """Take what is free, keep what is ours, end what is neither."""
        found: dict[int, tuple[PushTarget, datetime]] = {}
        after = 0
        while True:
            targets, now = await self.store.read(ReadActive(after))
            found |= {one.session: (one, now) for one in targets}
            if len(targets) < TARGETS:
                break
            after = targets[-1].session
        for gone in self._fences.keys() - found.keys():
            self._end(gone)
        wanted = [number for number, (one, now) in found.items() if self._wants(one, now)]
        leases = [
            Lease(
                session=number,
                fence=self._fences.get(number),
                span=self.pace.lease,
                alone=self._alone,
            )
            for number in wanted
        ]
        self._alone = False
        for number, fence in zip(wanted, await self.store.run_all(leases), strict=True):
            if isinstance(fence, Exception):
                raise fence
            before = self._fences.get(number)
            if fence is None or fence != before:
                self._end(number)
            if fence is not None and number not in self._running:
                self._fences[number] = fence
                pusher = _Pusher(self, post, number, fence)
                self._running[number] = task = asyncio.create_task(pusher.run())
                task.add_done_callback(partial(self._ended, number))

    def _wants(self, target: PushTarget, now: datetime) -> bool:
        """Whether there is something to do about its lease, or about a pusher that fell."""
        until = target.leased_until
        if self._fences.get(target.session) != target.fence:
            return until is None or until <= now or self._alone
        if target.session not in self._running:
            return True
        return until is None or until - now < self.pace.lease / 2

    def _end(self, number: int) -> None:
        self._fences.pop(number, None)
        task = self._running.pop(number, None)
        if task is not None:
            task.cancel()

    def _ended(self, number: int, task: asyncio.Task[None]) -> None:
        if self._running.get(number) is task:
            del self._running[number]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("push.broken", session=public(number), error=_names(error))


def _names(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return sorted({name for one in error.exceptions for name in _names(one)})
    return [type(error).__name__]


class _Pusher:
    """One session's: a task per conversation that has something for it, and one call each."""

    def __init__(self, all_: Pushing, post: Post, session: int, fence: int) -> None:
        self._all = all_
        self._pace = all_.pace
        self._store = all_.store
        self._post = post
        self._session = session
        self._fence = fence
        self._rooms: dict[int, asyncio.Task[None]] = {}
        self._again: set[int] = set()
        self._calls = asyncio.Semaphore(self._pace.calls)
        # A target that fails is asked by one call at a time whether it is back.
        self._probe = asyncio.Lock()
        self._failing = False

    async def run(self) -> None:
        """Until it is cancelled, or the target is not ours any more."""
        bell = self._store.bell(session=self._session)
        try:
            async with asyncio.TaskGroup() as group:
                rung: dict[int, int | None] = {EVERYTHING: None}
                while True:
                    async for room in self._behind(rung):
                        await self._begin(group, room)
                    rung = await bell.wait(PATIENCE) or {EVERYTHING: None}
        except* (_Over, SessionRetired, SessionNotFound):
            pass
        finally:
            bell.close()

    async def _behind(self, rung: dict[int, int | None]) -> AsyncIterator[int]:
        """The conversations that have to be looked at."""
        if EVERYTHING not in rung:
            for room in rung:
                yield room
            return
        session = await self._store.read(ReadHeld(self._session, self._fence))
        if session is None:
            raise _Over
        after = 0
        while True:
            _, rows = await self._store.read(
                ReadMemberships(
                    session=session.name, scope=session.scope_id, after=after, limit=HEAD_START
                )
            )
            for room, head, last in rows:
                after = room
                if last is None or head > last:
                    yield room
            if len(rows) < HEAD_START:
                return

    async def _begin(self, group: asyncio.TaskGroup, room: int) -> None:
        if room in self._rooms:
            self._again.add(room)
            return
        while len(self._rooms) >= self._pace.rooms:
            await asyncio.wait(self._rooms.values(), return_when=asyncio.FIRST_COMPLETED)
        self._rooms[room] = group.create_task(self._drain(room))

    async def _drain(self, room: int) -> None:
        """Hand on a conversation until it is dry. One request of it is under way at a time."""
        failures, last = 0, None  # `last`: what was sent is sent again as it was
        try:
            while True:
                self._again.discard(room)
                async with self._calls, self._probe if self._failing else nullcontext():
                    step = await self._hand(room, last, failures)
                if step is None and room not in self._again:
                    return
                if step is None or step.acknowledged:
                    failures, last = 0, None
                    continue
                failures += step.arrived
                last = last if step.last is None else step.last
                if step.wait > 0:
                    await self._all.wait(step.wait)
        finally:
            del self._rooms[room]

    async def _hand(self, room: int, last: int | None, failures: int) -> _Step | None:
        """Send one batch and settle it; None where there is none."""
        ready = await self._store.read(
            Prepare(
                session=self._session,
                fence=self._fence,
                room=room,
                last=last,
                pace=self._pace,
            )
        )
        if ready is End.OVER:
            raise _Over
        if isinstance(ready, End):
            return None
        if isinstance(ready, Rest):
            return _Step(wait=ready.seconds)
        body, count = self._all.form(ready.page, ready.records)
        first, last = (ready.records[n].record.sequence for n in (0, count - 1))
        identity = batch_id(public(self._session), public(room), first, last)
        headers = signed(ready.secret, identity, body, self._all.push.clock())
        ack: int | None = None
        retry_after: str | None = None
        fault: Fault | None
        arrived = False
        try:
            answer = await self._post(ready.url, headers, body)
        except CallFailed as failure:
            fault = failure.fault
        else:
            fault, retry_after = fault_of(answer), answer.headers.get("retry-after")
            arrived = fault is None
            if arrived:
                said = ack_of(answer, first, last)
                ack, fault = (None, said) if isinstance(said, Fault) else (said, None)
        target = await self._store.run(
            Settle(
                session=self._session,
                fence=self._fence,
                room=room,
                ack=ack,
                fault=fault,
                arrived=arrived,
                chance=self._all.chance(),
                retry_after=retry_after,
                pace=self._pace,
            )
        )
        if target is None:
            raise _Over
        self._note(target, fault, failing=ready.failing)
        if arrived:
            wait = backoff(failures + 1, self._all.chance(), self._pace).total_seconds()
            return _Step(wait=wait, last=last, arrived=True, acknowledged=ack is not None)
        return _Step(wait=0.0, last=last)

    def _note(self, target: PushTarget, fault: Fault | None, *, failing: bool) -> None:
        self._failing = target.state is PushState.FAILING
        session = public(self._session)
        if target.state is PushState.STOPPED:
            _log.warning("push.stopped", session=session, fault=fault)
        elif self._failing and not failing:
            _log.warning("push.failing", session=session, fault=fault)
        elif failing and not self._failing:
            _log.info("push.recovered", session=session)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What became of one turn of a conversation."""

    wait: float
    last: int | None = None
    arrived: bool = False
    acknowledged: bool = False
