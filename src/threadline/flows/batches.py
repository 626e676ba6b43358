"""Batches of records for push targets, and the leases they are sent under, as stories."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum

from threadline.core.errors import HydrationPending, MembershipNotFound, NotFound
from threadline.core.model import Controller, Session
from threadline.core.outside import Fault
from threadline.core.ports import PUSH, PUSHED, SESSION, Changes, Loaded, Needs, Page, Story
from threadline.core.push import (
    ACTIVE,
    MAX_RECORDS,
    PushPace,
    PushState,
    PushTarget,
    asked_wait,
    backoff,
    delivered,
    failed,
)
from threadline.flows.replay import Acknowledge, Backfill, Handed, ReadBackfill
from threadline.flows.sealing import unseal

TARGETS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A batch that may leave now."""

    url: str
    secret: str = field(repr=False)
    page: Backfill
    records: list[Handed]
    failing: bool


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing may leave for so many seconds."""

    seconds: float


class End(Enum):
    """Nothing leaves: the conversation is read to its end, or the target is not ours any more."""

    DRY = "dry"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare(Story[Outgoing | Rest | End]):
    """The next batch of a conversation on one committed state.

    `last` is where a batch ends that was sent before: it is sent again as it was.
    """

    session: int
    fence: int
    room: int
    last: int | None
    pace: PushPace

    def needs(self) -> Needs:
        """The target and its session."""
        return Needs(rows=[(PUSH, self.session), (SESSION, self.session)])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Outgoing | Rest | End]:
        """`OVER` where the lease, the target or the session is gone."""
        held = held_by(loaded, self.session, self.fence)
        if held is None:
            return Changes(), End.OVER
        target, session = held
        if target.leased_until is None or target.leased_until - now < self.pace.call:
            # Leases are renewed in good time: who comes here stood still, and may be replaced
            # before an answer is there.
            return Changes(), End.OVER
        if target.next_attempt_at is not None and target.next_attempt_at > now:
            return Changes(), Rest((target.next_attempt_at - now).total_seconds())
        try:
            _, page = ReadBackfill(
                where=self.room,
                session=session.name,
                scope=session.scope_id,
                caller=Controller(session.scope_id),
                limit=MAX_RECORDS,
            ).decide(loaded, now)
        except (MembershipNotFound, HydrationPending, NotFound):
            return Changes(), End.DRY
        if not page.records:
            return Changes(), End.DRY
        last = self.last
        again = [one for one in page.records if last is not None and one.record.sequence <= last]
        return Changes(), Outgoing(
            url=target.url,
            secret=unseal(loaded, target.sealed),
            page=page,
            records=again or page.records,
            failing=target.state is PushState.FAILING,
        )


def held_by(loaded: Loaded, number: int, fence: int) -> tuple[PushTarget, Session] | None:
    """The target and its session, as long as it is pushed to under this fence."""
    target, session = loaded.get(PUSH, number), loaded.get(SESSION, number)
    if target is None or target.fence != fence or target.state not in ACTIVE:
        return None
    if session is None or session.retired_at is not None:
        return None
    return target, session


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(Story[PushTarget | None]):
    """What became of a batch: where it was acknowledged to, or what was wrong.

    None where somebody else holds the target by now; then nothing is written.
    """

    session: int
    fence: int
    room: int
    ack: int | None
    fault: Fault | None
    arrived: bool
    chance: float
    retry_after: str | None
    pace: PushPace

    def needs(self) -> Needs:
        """The target, locked."""
        return Needs(rows=[(SESSION, self.session)], hold=[(PUSH, self.session)])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, PushTarget | None]:
        """The cursor and the target in one transaction, and both only under the fence."""
        changes = Changes()
        held = held_by(loaded, self.session, self.fence)
        if held is None:
            return changes, None
        target, session = held
        if self.ack is not None:
            try:
                changes, _ = Acknowledge(
                    where=self.room,
                    session=session.name,
                    scope=session.scope_id,
                    caller=Controller(session.scope_id),
                    sequence=self.ack,
                ).decide(loaded, now)
            except (MembershipNotFound, HydrationPending, NotFound):
                changes = Changes()
        if self.arrived:
            after = delivered(target, self.fault, now)
        else:
            asked = asked_wait(self.retry_after, now, self.pace)
            wait = backoff(target.failures + 1, self.chance, self.pace)
            fault = self.fault or Fault.UNREACHABLE
            after = failed(target, fault, now, max(wait, asked or wait))
        if after is not target:
            changes.put(PUSH, self.session, after)
        return changes, after


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease(Story[int | None]):
    """Take a target, or keep it (`fence` is the one held); None where another node has it.

    `alone` takes it from whoever has it: a process that is gone, where there can be only one.
    """

    session: int
    fence: int | None
    span: timedelta
    alone: bool = False

    def needs(self) -> Needs:
        """The target, locked."""
        return Needs(rows=[(SESSION, self.session)], hold=[(PUSH, self.session)])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, int | None]:
        """The fence. A target whose session has ended is dropped: a successor sets its own."""
        changes = Changes()
        target, session = loaded.get(PUSH, self.session), loaded.get(SESSION, self.session)
        if target is None or target.state not in ACTIVE:
            return changes, None
        if session is None or session.retired_at is not None:
            changes.put(PUSH, self.session, None)
            return changes, None
        mine = self.fence is not None and target.fence == self.fence
        free = target.leased_until is None or target.leased_until <= now or self.alone
        if not mine and not free:
            return changes, None
        fence = target.fence if mine else target.fence + 1
        changes.put(PUSH, self.session, replace(target, fence=fence, leased_until=now + self.span))
        return changes, fence


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Story[None]):
    """Let another node go on at once."""

    session: int
    fence: int

    def needs(self) -> Needs:
        """The target, locked."""
        return Needs(hold=[(PUSH, self.session)])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """Only under the fence."""
        changes = Changes()
        target = loaded.get(PUSH, self.session)
        if target is not None and target.fence == self.fence:
            changes.put(PUSH, self.session, replace(target, leased_until=None))
        return changes, None


@dataclass(frozen=True, slots=True)
class ReadActive(Story[tuple[list[PushTarget], datetime]]):
    """A page of the targets that are pushed to, and the store's time."""

    after: int

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[list[PushTarget], datetime]]:
        """By the ids of their sessions."""
        return Changes(), (loaded.page(Page(PUSHED, (self.after, TARGETS))), now)


@dataclass(frozen=True, slots=True)
class ReadHeld(Story[Session | None]):
    """The session, as long as its target is pushed to under this fence."""

    session: int
    fence: int

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Session | None]:
        """See `held_by`."""
        held = held_by(loaded, self.session, self.fence)
        return Changes(), None if held is None else held[1]
