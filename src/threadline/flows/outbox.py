"""One message out: a lane's head is marked, called, and settled, one after the other.

The worker arms its bell, looks which lanes are due, and works on several at once, never on two
messages of one lane. The mark is committed before the first byte leaves, the proof with the record.
Any number of nodes may do this on one store; who dies leaves a lease that runs out.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from threadline.core.adapters import Channels
from threadline.core.attempts import Attempt, Rest, begin, doubt, refuse, told
from threadline.core.deliveries import Delivery, DeliveryState, Failure
from threadline.core.draft import Draft
from threadline.core.errors import OutcomeUnknown, StoreFull, StoreUnavailable, ThreadlineError
from threadline.core.ids import public
from threadline.core.lanes import free, lane_of, prove
from threadline.core.model import ConversationRef
from threadline.core.places import moved
from threadline.core.ports import (
    CONVERSATION,
    DELIVERY,
    LANE,
    LANES,
    LANES_OWNED,
    Changes,
    Key,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
    fetch,
    take_all,
)
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.rules.pacing import PACE, Pace
from threadline.core.wire import ApiCall, Doubt, Lost, Refused, Sent, Unsent
from threadline.flows.pausing import finish, pause
from threadline.flows.registered import account_of
from threadline.flows.uploads import Uploads

POLL_SECONDS = 5.0
LANES_AT_ONCE = 64
OF_ONE_ACCOUNT = 16
LOOK = 200
PAGES = 5
STEPS = 8
AGAIN_SECONDS = (0.1, 0.3, 1.0, 3.0, 5.0)
EPOCH = datetime(1970, 1, 1)

T = TypeVar("T")
AccountKey = tuple[str, str, str]
Chance = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The lanes worth a look, and how many seconds until the next one is."""

    lanes: list[tuple[int, AccountKey]]
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDue(Story[Due]):
    """Lanes that are due, the longest waiting first, without those in hand and full accounts."""

    busy: frozenset[int] = frozenset()
    full: frozenset[AccountKey] = frozenset()
    limit: int = LOOK

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Due]:
        """By the store's clock. Full accounts are passed over, so that they stop nobody else."""
        here = _micros(now)
        found: list[tuple[int, AccountKey]] = []
        place, seconds = (0, 0), None
        for _ in range(PAGES):
            rows = loaded.page(Page(LANES, (*place, LOOK)))
            due = [lane for lane, at in rows if at <= here and lane not in self.busy]
            fetch(loaded, CONVERSATION, due)
            for lane in due:
                conversation = loaded.get(CONVERSATION, lane)
                if conversation is None:
                    continue
                ref = conversation.ref
                account = (ref.scope_id, ref.provider, ref.account_id)
                if account not in self.full:
                    found.append((lane, account))
            later = [at for lane, at in rows if at > here and lane not in self.busy]
            if later:
                seconds = (later[0] - here) / 1_000_000
            if later or len(rows) < LOOK or len(found) >= self.limit:
                break
            place = (rows[-1][1], rows[-1][0])
        return Changes(), Due(lanes=found[: self.limit], seconds=seconds)


def _micros(at: datetime) -> int:
    return (at.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin(Story[Attempt | Rest]):
    """Take a lane and mark its head (see `core.attempts.begin`)."""

    conversation: int
    owner: str
    ticket: int
    chance: float
    channels: Channels
    limits: Limits = LIMITS
    pace: Pace = PACE

    def needs(self) -> Needs:
        """The conversation, locked, and its lane."""
        return Needs(take_ids=(self.conversation,), rows=[(LANE, self.conversation)])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Attempt | Rest]:
        """Nothing where the conversation is gone."""
        draft = Draft(loaded)
        conversation = draft.taken(self.conversation)
        if conversation is None:
            return draft.changes, Rest()
        answer = begin(
            draft,
            conversation,
            self.owner,
            now,
            ticket=self.ticket,
            limits=self.limits,
            pace=self.pace,
            chance=self.chance,
            dialect=self.channels.dialect,
            account=account_of,
        )
        return draft.changes, answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(Story[Delivery | None]):
    """What came of an attempt: a proof, which always counts, or a verdict, which may be late."""

    attempt: Attempt
    outcome: Sent | Refused | Doubt
    chance: float
    limits: Limits = LIMITS
    pace: Pace = PACE

    @property
    def _elsewhere(self) -> ConversationRef | None:
        """The other address it was said at, where the provider sent us there."""
        there = self.outcome.conversation if isinstance(self.outcome, Sent) else None
        asked = self.attempt.call.message
        return None if asked is not None and asked.conversation == there else there

    def needs(self) -> Needs:
        """The conversation, locked, with lane and delivery."""
        one = self.attempt
        rows: list[Key] = [
            (LANE, one.conversation),
            (DELIVERY, (one.conversation, one.delivery)),
        ]
        where = () if self._elsewhere is None else (self._elsewhere.text,)
        return Needs(take=where, take_ids=(one.conversation,), rows=rows)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Delivery | None]:
        """Answers the delivery as it is now, None where a verdict did not count."""
        draft, attempt = Draft(loaded), self.attempt
        conversation = draft.taken(attempt.conversation)
        delivery = draft.get(DELIVERY, (attempt.conversation, attempt.delivery))
        if conversation is None or delivery is None:
            return draft.changes, None
        how: dict[str, Any] = {"limits": self.limits, "pace": self.pace, "chance": self.chance}
        match self.outcome:
            case Sent(message_id=name, id_space=space):
                if self._elsewhere is not None:
                    conversation = moved(draft, conversation, self._elsewhere, now)
                part = attempt.part
                after: Delivery | None = prove(
                    draft, conversation, delivery, part, name, now, self.limits, space=space
                )
                free(draft, conversation.id, attempt.fence, now)
            case _ if attempt.looks:
                # Only a proof counts: what is not there yet may still come.
                after = delivery
                free(draft, conversation.id, attempt.fence, now)
            case Refused() as refusal:
                after = refuse(draft, conversation, attempt, refusal, now, **how)
            case Doubt(reason=reason):
                after = doubt(draft, conversation, attempt, reason, now, **how)
        return draft.changes, after


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim(Story[int]):
    """Give back what an earlier life of this node held: only one process can have its name."""

    owner: str
    limit: int = LOOK

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, int]:
        """Answers how many lanes; a new fence, and due at once."""
        draft = Draft(loaded)
        rows = loaded.page(Page(LANES_OWNED, (self.owner, -1, self.limit)))
        numbers = [int(number) for (number,) in rows]
        take_all(loaded, numbers)
        fetch(loaded, LANE, numbers)
        for number in numbers:
            lane = lane_of(draft, number)
            if lane.owner == self.owner:
                due = now if lane.waiting else None
                freed = replace(lane, owner="", fence=lane.fence + 1, due_at=due)
                draft.put(LANE, number, freed)
        return draft.changes, len(rows)


@dataclass(slots=True)
class _Hands:
    """What is being worked on: lanes, and how many of each account."""

    lanes: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    accounts: Counter[AccountKey] = field(default_factory=Counter)
    freed: asyncio.Event = field(default_factory=asyncio.Event)
    attempts: int = 0


class Outbox:
    """The worker that carries out what sessions say on platforms."""

    def __init__(
        self,
        store: Store,
        limits: Limits = LIMITS,
        *,
        channels: Channels | None = None,
        owner: str = "",
        pace: Pace = PACE,
        chance: Chance = random.random,
        uploads: Uploads | None = None,
    ) -> None:
        self._uploads = uploads
        self._store = store
        self._limits = limits
        self._channels = channels
        # One process at a time serves a SQLite file, so its name outlives it there: the next life
        # takes back at once what the last one held.
        unique = f"node-{random.randbytes(8).hex()}"
        self._owner = owner or ("server" if vars(type(store)).get("kind") == "sqlite" else unique)
        self._pace = pace
        self._chance = chance
        self._hands = _Hands()

    @property
    def channels(self) -> Channels:
        """How this process reaches accounts."""
        assert self._channels is not None
        return self._channels

    async def close(self) -> None:
        """Hang up. What is called after it opens connections again."""
        if self._channels is not None:
            await self._channels.close()

    async def round(self) -> int:
        """Make every attempt that is due now, and answer how many that were."""
        before = self._hands.attempts
        while True:
            await self._look()
            if not self._hands.lanes:
                return self._hands.attempts - before
            await asyncio.wait(self._hands.lanes.values())

    async def run(self, stopping: asyncio.Event, well: Callable[[], None] = lambda: None) -> None:
        """Work until told to stop; calls under way may end, their leases are given back. `well` is
        called after each look that the store answered."""
        bell = self._store.bell(everything=True)
        try:
            if self._store.kind == "sqlite":
                while await self._persist(Reclaim(owner=self._owner)) == LOOK:
                    continue
            while not stopping.is_set():
                try:
                    seconds = await self._look()
                    well()
                except ThreadlineError as error:
                    _log("outbox.store", error=error.code)
                    seconds = AGAIN_SECONDS[2]
                await pause(bell, stopping, seconds, self._hands.freed)
        finally:
            bell.close()
            await finish(self._hands.lanes.values())

    async def _look(self) -> float:
        """Begin on what is due; answers how many seconds nothing else will be."""
        hands = self._hands
        room = LANES_AT_ONCE - len(hands.lanes)
        if self._channels is None or room <= 0:
            return POLL_SECONDS
        full = frozenset(a for a, count in hands.accounts.items() if count >= OF_ONE_ACCOUNT)
        due = await self._store.read(ReadDue(busy=frozenset(hands.lanes), full=full))
        for lane, account in due.lanes:
            # Meanwhile another look, of `round` beside `run`, may have begun on it.
            if lane in hands.lanes:
                continue
            if room and hands.accounts[account] < OF_ONE_ACCOUNT:
                room -= 1
                hands.accounts[account] += 1
                hands.lanes[lane] = asyncio.create_task(self._work(lane, account))
        return POLL_SECONDS if due.seconds is None else min(due.seconds, POLL_SECONDS)

    async def _work(self, lane: int, account: AccountKey) -> None:
        """One attempt in one lane; what comes after it is found by the next look."""
        try:
            await self._attempt(lane)
        except ThreadlineError as error:
            _log("outbox.store", error=error.code, conversation=public(lane))
            await asyncio.sleep(AGAIN_SECONDS[2])
        finally:
            hands = self._hands
            del hands.lanes[lane]
            hands.accounts[account] -= 1
            if not hands.accounts[account]:
                del hands.accounts[account]
            hands.freed.set()

    async def _attempt(self, lane: int) -> None:
        assert self._channels is not None
        started = asyncio.get_running_loop().time()
        attempt = await self._store.run(
            Begin(
                conversation=lane,
                owner=self._owner,
                ticket=random.getrandbits(62) + 1,
                chance=self._chance(),
                channels=self._channels,
                limits=self._limits,
                pace=self._pace,
            )
        )
        if isinstance(attempt, Rest):
            return
        self._hands.attempts += 1
        outcome: Sent | Refused | Doubt = Doubt(reason="the server stopped while it was sending.")
        try:
            outcome = await self._perform(attempt, started)
        finally:
            # Also where this task is cancelled: whatever is known has to be written down.
            await asyncio.shield(self._settle(attempt, outcome))

    async def _settle(self, attempt: Attempt, outcome: Sent | Refused | Doubt) -> None:
        after = await self._persist(
            Settle(
                attempt=attempt,
                outcome=outcome,
                chance=self._chance(),
                limits=self._limits,
                pace=self._pace,
            )
        )
        if after is None:
            _log("delivery.late_verdict", conversation=public(attempt.conversation))
            return
        if after.state not in (DeliveryState.PENDING, DeliveryState.DELIVERED):
            _log(
                f"delivery.{after.state.value}",
                conversation=public(after.conversation),
                delivery=public(after.id),
                attempts=after.attempts,
                parked=after.parked,
            )

    async def _perform(self, attempt: Attempt, started: float) -> Sent | Refused | Doubt:
        """Make the call and those it leads to; never an exception, always what it means."""
        assert self._channels is not None
        lease = self._pace.lease.total_seconds()
        loop = asyncio.get_running_loop()
        if loop.time() - started > lease / 2:
            # The process slept: the lane may be another's, so no byte leaves under this mark.
            return Refused(failure=Failure.TRANSIENT, reason="the node woke too late to send.")
        transport = self._channels.transport(attempt.provider)
        call = attempt.call
        try:
            async with asyncio.timeout(lease * 0.8):
                for _ in range(STEPS):
                    filled = call if self._uploads is None else await self._uploads.filled(call)
                    step = attempt.read(call, await transport.perform(filled))
                    if not isinstance(step, ApiCall):
                        return told(call, step)
                    call = step
        except Unsent as error:
            return Refused(failure=Failure.TRANSIENT, reason=str(error))
        except Lost as error:
            return told(call, Doubt(reason=str(error)))
        except TimeoutError:
            return told(call, Doubt(reason="no answer came in time."))
        except Exception as error:
            return Doubt(reason=f"the answer could not be read ({type(error).__name__}).")
        return Doubt(reason="the provider asks for ever more calls.")

    async def _persist(self, story: Story[T]) -> T:
        """Write down what is known, however often the store has to be asked."""
        tries = 0
        while True:
            try:
                return await self._store.run(story)
            except (StoreUnavailable, StoreFull, OutcomeUnknown) as error:
                _log("outbox.store", error=error.code)
                await asyncio.sleep(AGAIN_SECONDS[min(tries, len(AGAIN_SECONDS) - 1)])
                tries += 1


def _log(event: str, **facts: Any) -> None:
    """An event name and facts; never a secret, never what was said."""
    import structlog

    structlog.get_logger("threadline").info(event, **facts)
