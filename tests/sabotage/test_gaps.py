"""What no other test noticed when it was broken on purpose."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

import pytest

from tests.conftest import open_at
from tests.speech import ROOM, said
from threadline import Threadline
from threadline.core.errors import MembershipNotFound
from threadline.core.ids import number_of
from threadline.core.model import ConversationRef, Kind
from threadline.core.ports import MEMBER, Changes, Loaded, Story
from threadline.core.rules import membership
from threadline.flows.replay import CaughtUp, Handed
from threadline.testing.clock import StillClock

NEVER = 3_600.0
SOON = 20.0
THREAD = ConversationRef("slack", "T1", "1700.1", "C1", kind=Kind.THREAD)


async def test_the_copy_of_a_root_that_woke_somebody_wakes_nobody(tl: Threadline) -> None:
    """F12, law 12: the root was news once, in its room."""
    await tl.conversations.ensure(ROOM)
    await tl.speakers.bind(ROOM, "agent")
    root = await tl.inbound.receive(said("root", "m1"))

    await tl.inbound.receive(said("reply", "m2", conversation=THREAD, thread_root="m1"))

    [copy, _] = (await tl.conversations.transcript(THREAD)).records
    assert root.record is not None
    assert root.record.wakes
    assert (copy.text, copy.wakes, copy.target_session_id, copy.route) == ("root", (), None, None)
    page = await tl.replay.backfill(THREAD, "agent")
    assert [(one.record.text, one.wake) for one in page.records] == [
        ("root", False),
        ("reply", True),
    ]


async def test_a_follower_hears_what_rang_before_it_began_to_wait(
    store_url: str, key: bytes, clock: StillClock
) -> None:
    """B044: the ring came while the reader was busy with what it had; no slow poll repairs it."""
    store = await open_at(store_url, key, clock=clock, poll=NEVER)
    line = Threadline(store)
    await line.conversations.ensure(ROOM)
    await line.members.join(ROOM, "agent")
    number = number_of((await line.sessions.show("agent")).id)
    async with aclosing(line.replay.follow("agent", patience=NEVER)) as stream:  # type: ignore[type-var]
        first = await anext(stream)
        other = store.bell(session=number)
        await line.inbound.receive(said("meanwhile", "m1"))
        await other.wait(NEVER)

        async with asyncio.timeout(SOON):
            item = await anext(stream)

    assert isinstance(first, CaughtUp)
    assert isinstance(item, Handed)
    assert item.record.text == "meanwhile"
    other.close()
    await store.close()


@dataclass(frozen=True, slots=True)
class Evicted(Story[None]):
    """An eviction as it stands in the row, while the session's handle was left behind."""

    conversation: int
    session: int

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """Drift, made by hand."""
        changes = Changes()
        member = loaded.get(MEMBER, (self.conversation, self.session))
        assert member is not None
        key = (self.conversation, self.session)
        changes.put(MEMBER, key, membership.evict(member, now))
        return changes, None


async def test_a_handle_that_was_left_behind_brings_the_evicted_session_not_back(
    tl: Threadline,
) -> None:
    """C13: the reconciler repairs drift, it does not undo an eviction."""
    state = await tl.conversations.ensure(ROOM)
    await tl.speakers.participant(ROOM, "alpha", "agent")
    room, session = number_of(state.id), number_of((await tl.sessions.show("agent")).id)
    assert room is not None
    assert session is not None
    await tl.store.run(Evicted(room, session))

    await tl.upkeep.reconcile(room)

    with pytest.raises(MembershipNotFound):
        await tl.replay.backfill(ROOM, "agent")
