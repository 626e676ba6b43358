"""One node pushes for a session at a time, and one that was replaced has no say."""

from __future__ import annotations

from datetime import timedelta

from tests.push.conftest import ROOM
from tests.push.receiver import Receiver
from tests.push.test_pushing import proven, say
from threadline import Threadline
from threadline.core.ids import number_of
from threadline.core.outside import Fault
from threadline.core.push import PACE, PushTarget
from threadline.flows.batches import End, Lease, Outgoing, Prepare, ReadActive, Release, Settle
from threadline.testing.clock import StillClock

MINUTE = timedelta(minutes=1)


async def target_of(tl: Threadline) -> PushTarget:
    """The only target there is."""
    [target], _ = await tl.store.read(ReadActive(0))
    return target


async def ready(tl: Threadline, receiver: Receiver) -> tuple[int, int]:
    """A proven target with something for it: its session and the conversation."""
    await proven(tl, receiver)
    await say(tl, "one")
    room = number_of((await tl.conversations.show(ROOM)).id)
    assert room is not None
    return (await target_of(tl)).session, room


async def test_a_lease_is_had_by_one_until_it_runs_out(
    tl: Threadline, receiver: Receiver, clock: StillClock, coder: str
) -> None:
    """Whoever has it keeps it by asking in time; each new holder has a fence of its own."""
    session, _ = await ready(tl, receiver)
    first = await tl.store.run(Lease(session=session, fence=None, span=MINUTE))
    clock.move(seconds=59)

    denied = await tl.store.run(Lease(session=session, fence=None, span=MINUTE))
    kept = await tl.store.run(Lease(session=session, fence=first, span=MINUTE))
    clock.move(seconds=60)
    second = await tl.store.run(Lease(session=session, fence=None, span=MINUTE))
    late = await tl.store.run(Lease(session=session, fence=first, span=MINUTE))

    assert first is not None
    assert (denied, kept, second, late) == (None, first, first + 1, None)


async def test_a_target_that_is_removed_and_set_anew_does_not_count_from_one_again(
    tl: Threadline, receiver: Receiver, clock: StillClock, coder: str
) -> None:
    """Who pushed to the one before may still hold its fence."""
    await proven(tl, receiver)
    before = await target_of(tl)
    await tl.push.remove(coder)
    clock.move(seconds=1)
    await proven(tl, receiver)
    after = await target_of(tl)
    assert after.fence > before.fence + 1_000


async def test_a_lease_that_is_given_back_is_free_at_once(
    tl: Threadline, receiver: Receiver, coder: str
) -> None:
    session, _ = await ready(tl, receiver)
    first = await tl.store.run(Lease(session=session, fence=None, span=MINUTE))
    assert first is not None
    await tl.store.run(Release(session=session, fence=first))
    second = await tl.store.run(Lease(session=session, fence=None, span=MINUTE))
    assert second is not None

    await tl.store.run(Release(session=session, fence=first))

    assert (await target_of(tl)).leased_until is not None
    assert second == first + 1


async def test_who_was_replaced_neither_sends_nor_judges(
    tl: Threadline, receiver: Receiver, clock: StillClock, coder: str
) -> None:
    """Its answers move no cursor and stop no target."""
    session, room = await ready(tl, receiver)
    old = await tl.store.run(Lease(session=session, fence=None, span=MINUTE))
    clock.move(minutes=2)
    new = await tl.store.run(Lease(session=session, fence=None, span=MINUTE))
    assert old is not None
    assert new is not None
    before = await target_of(tl)

    sent = {
        fence: await tl.store.read(
            Prepare(session=session, fence=fence, room=room, last=None, pace=PACE)
        )
        for fence in (old, new)
    }
    for ack, fault in ((1, None), (None, Fault.GONE), (None, Fault.NOT_ACKNOWLEDGED)):
        verdict = Settle(
            session=session,
            fence=old,
            room=room,
            ack=ack,
            fault=fault,
            arrived=fault is not Fault.GONE,
            chance=1.0,
            retry_after=None,
            pace=PACE,
        )
        assert await tl.store.run(verdict) is None

    assert sent[old] is End.OVER
    assert isinstance(sent[new], Outgoing)
    assert await target_of(tl) == before
    assert (await tl.replay.backfill(ROOM, coder)).last_read is None


async def test_nothing_is_sent_under_a_lease_that_may_end_before_the_answer(
    tl: Threadline, receiver: Receiver, clock: StillClock, coder: str
) -> None:
    """Whoever stood still renews it first."""
    session, room = await ready(tl, receiver)
    fence = await tl.store.run(Lease(session=session, fence=None, span=MINUTE))
    assert fence is not None
    story = Prepare(session=session, fence=fence, room=room, last=None, pace=PACE)
    clock.move(seconds=41)

    late = await tl.store.read(story)
    await tl.store.run(Lease(session=session, fence=fence, span=MINUTE))
    renewed = await tl.store.read(story)

    assert late is End.OVER
    assert isinstance(renewed, Outgoing)


async def test_a_target_ends_with_its_session(
    tl: Threadline, receiver: Receiver, coder: str
) -> None:
    """A successor sets its own; nobody else's server is told what is the successor's."""
    session, _ = await ready(tl, receiver)
    await tl.sessions.reassign(coder, "next")

    taken = await tl.store.run(Lease(session=session, fence=None, span=MINUTE))

    assert taken is None
    assert (await tl.store.read(ReadActive(0)))[0] == []
