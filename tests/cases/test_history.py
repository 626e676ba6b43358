"""Reported failures: histories that came reversed, doubled, or pretended to be whole."""

from __future__ import annotations

import pytest

from tests.speech import ROOM, numbered, said, spoken, transcript
from threadline import Threadline
from threadline.core.errors import HydrationPending
from threadline.core.model import ConversationRef, Direction, History, Hydration
from threadline.flows.inbound import Append


@pytest.mark.case("B049")
async def test_history_comes_before_what_was_said_while_it_was_imported(tl: Threadline) -> None:
    """B049: a caller is told to try again, a webhook's message is kept; then A, B, C."""
    begun = await tl.hydration.begin(ROOM, owner="importer", mode="gated", ensure=True)
    assert begun.token is not None

    with pytest.raises(HydrationPending):
        await tl.inbound.append(said("C", "c"))
    held = await tl.inbound.receive(said("C", "c"))
    again = await tl.inbound.receive(said("C", "c"))
    newest_first = [said("B", "b"), said("A", "a")]
    await tl.hydration.records(ROOM, begun.token, newest_first[::-1])
    await tl.hydration.complete(ROOM, begun.token)

    assert (held.held, held.record, again.held, again.duplicate) == (True, None, True, True)
    assert await transcript(tl) == [(1, "A"), (2, "B"), (3, "C")]


@pytest.mark.case("B051")
async def test_our_own_replies_in_an_import_are_what_we_said_already(tl: Threadline) -> None:
    """B051: the record stays outbound and keeps its source session; only in3 is new."""
    await tl.inbound.receive(said("in1", "1"))
    await tl.members.join(ROOM, "agent")
    await tl.store.run(Append(spoken("out1", "x9"), said_by="agent"))
    await tl.inbound.receive(said("in2", "2"))
    before = (await tl.conversations.transcript(ROOM)).records

    begun = await tl.hydration.begin(ROOM, owner="catch-up", mode="gated")
    assert begun.token is not None
    page = [said("in1", "1"), said("out1", "x9"), said("in2", "2"), said("in3", "3")]
    taken = await tl.hydration.records(ROOM, begun.token, page)
    await tl.hydration.complete(ROOM, begun.token)

    after = (await tl.conversations.transcript(ROOM)).records
    assert [one.duplicate for one in taken] == [True, True, True, False]
    assert after[:3] == before
    assert (after[1].direction, after[1].source_session_id) == (Direction.OUTBOUND, "agent")
    assert [(one.sequence, one.text) for one in after[3:]] == [(4, "in3")]


@pytest.mark.case("B053")
async def test_a_history_that_was_never_fetched_says_so(tl: Threadline) -> None:
    """B053: with where it begins, so that nobody answers as if there had been nothing."""
    await tl.inbound.receive(said("@bot what do you think?", "m1"))
    await tl.members.join(ROOM, "agent", policy="all")

    never = await tl.replay.backfill(ROOM, "agent")
    begun = await tl.hydration.begin(ROOM, owner="slack")
    assert begun.token is not None
    await tl.hydration.fail(ROOM, begun.token, "missing_scope: channels:history")
    failed = await tl.replay.backfill(ROOM, "agent")
    listed = await tl.conversations.transcript(ROOM)
    state = await tl.conversations.show(ROOM)

    assert (never.history, never.earliest) == (History.NONE, 1)
    for page in (failed, listed):
        assert page.history is History.PARTIAL
        assert "missing_scope" in page.reason
        assert page.earliest == 1
    assert state.hydration is Hydration.FAILED


@pytest.mark.case("B053")
async def test_a_history_that_began_here_is_complete(tl: Threadline) -> None:
    """B053: nothing is called partial that is not."""
    lobby = ConversationRef("web", "office", "lobby")
    await tl.inbound.receive(said("hi", conversation=lobby))

    assert (await tl.conversations.transcript(lobby)).history is History.COMPLETE


@pytest.mark.case("B055")
async def test_the_latest_is_the_latest_however_long_the_list(tl: Threadline) -> None:
    """B055: 130 records, a default page of 100; the newest 120 outbound."""
    messages = [*numbered(1, 10), *(spoken(str(n), f"o{n}") for n in range(11, 131))]
    await tl.store.run_all([Append(one) for one in messages])

    tail = await tl.conversations.transcript(ROOM, order="desc", limit=1)
    first = await tl.conversations.transcript(ROOM)
    latest_inbound = None
    before: int | None = None
    while latest_inbound is None:
        page = await tl.conversations.transcript(ROOM, order="desc", before=before)
        heard = [one for one in page.records if one.direction is Direction.INBOUND]
        latest_inbound, before = (heard[0].sequence if heard else None), page.next

    assert [one.sequence for one in tail.records] == [130]
    assert (tail.next, tail.head) == (130, 130)
    assert (len(first.records), first.next, first.head) == (100, 100, 130)
    assert latest_inbound == 10
