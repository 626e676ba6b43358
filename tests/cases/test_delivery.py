"""Reported failures: messages that were lost, doubled or stranded on their way to a session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.conftest import open_at
from tests.speech import ROOM, edited, followed, handed, numbered, said, transcript, unread
from threadline import Threadline
from threadline.core.errors import InvalidInput
from threadline.core.model import ConversationRef, Kind
from threadline.core.recording import Taken
from threadline.flows.inbound import Append
from threadline.flows.replay import CaughtUp, Handed
from threadline.testing.clock import StillClock

NEVER = 1e6
SIDE = ConversationRef("slack", "T1", "C2")


@pytest.mark.case("B021")
async def test_a_message_is_marked_as_seen_only_by_being_stored(tl: Threadline) -> None:
    """B021: what was refused consumes no id; redelivered, it is stored and read once."""
    await tl.conversations.ensure(ROOM)
    await tl.members.join(ROOM, "busy")
    await tl.inbound.receive(said("one", "m1"))
    begun = await tl.hydration.begin(ROOM, owner="importer", mode="gated")
    assert begun.token is not None
    with pytest.raises(InvalidInput):
        await tl.inbound.receive(said("two\x00", "m2"))
    with pytest.raises(Exception, match="imported"):
        await tl.inbound.append(said("two", "m2"))
    await tl.hydration.complete(ROOM, begun.token)

    first = await tl.inbound.receive(said("two", "m2"))
    again = await tl.inbound.receive(said("two", "m2"))

    assert [(one.sequence, one.duplicate) for one in (first, again)] == [(2, False), (2, True)]
    assert handed(await followed(tl, "busy")) == [1, 2]


@pytest.mark.case("B023")
async def test_what_arrives_while_a_session_is_busy_is_pending_once(tl: Threadline) -> None:
    """B023: live or from the queue, and nothing is left after the acknowledgement."""
    await tl.conversations.ensure(ROOM)
    await tl.members.join(ROOM, "agent")
    stream = tl.replay.follow("agent", patience=30)
    caught_up = await anext(stream)
    await tl.inbound.receive(said("one", "m1"))
    live = await anext(stream)

    await tl.inbound.receive(said("two", "m2"))
    await tl.replay.ack(ROOM, "agent", 1)
    pending = await unread(tl, "agent")
    queued = await anext(stream)
    await tl.replay.ack(ROOM, "agent", 2)

    assert isinstance(caught_up, CaughtUp)
    assert handed([live, queued]) == [1, 2]
    assert pending == [2]
    assert await unread(tl, "agent") == []
    assert handed(await followed(tl, "agent")) == []
    await stream.aclose()  # type: ignore[attr-defined]


@pytest.mark.case("B036")
async def test_a_double_click_is_one_record_and_equal_texts_stay_possible(tl: Threadline) -> None:
    """B036: by the client's id and a constraint, never by the text."""
    double = await asyncio.gather(*(tl.inbound.append(said("ok", "c1")) for _ in range(2)))
    other = await tl.inbound.append(said("ok", "c2"))
    without = await tl.inbound.receive_all([said("ok"), said("ok")])
    conflicting = await tl.inbound.append(said("no!", "c1"))

    assert sorted(one.duplicate for one in double) == [False, True]
    assert {one.sequence for one in double} == {1}
    assert other.sequence == 2
    assert [one.sequence for one in without if isinstance(one, Taken)] == [3, 4]
    assert (conflicting.duplicate, conflicting.sequence) == (True, 1)
    assert await transcript(tl) == [(n, "ok") for n in (1, 2, 3, 4)]


@pytest.mark.case("B042")
async def test_numbers_are_given_on_arrival_whatever_is_looked_up_for_the_first(
    tl: Threadline,
) -> None:
    """B042: the first message has more to set up (a thread, a route, a binding)."""
    dm = ConversationRef("slack", "T1", "D1", kind=Kind.DM)
    await tl.speakers.default_route("slack", "T1", "agent")

    taken = await asyncio.gather(
        *(tl.inbound.receive(one) for one in numbered(1, 3, conversation=dm))
    )

    assert [one.sequence for one in taken] == [1, 2, 3]
    assert await transcript(tl, dm) == [(1, "1"), (2, "2"), (3, "3")]


@pytest.mark.case("B044")
async def test_what_is_said_between_the_last_look_and_the_wait_is_not_stranded(
    store_url: str, key: bytes, clock: StillClock
) -> None:
    """B044: a hundred times, with no slow poll that could repair it."""
    store = await open_at(store_url, key, clock=clock, poll=NEVER)
    line = Threadline(store)
    await line.conversations.ensure(ROOM)
    await line.members.join(ROOM, "agent")
    stream = line.replay.follow("agent", patience=NEVER)
    first = await anext(stream)
    seen = []

    for n in range(1, 101):
        if n % 2:
            await line.inbound.receive(said(str(n), f"m{n}"))
            item = await anext(stream)
        else:
            _, item = await asyncio.gather(
                line.inbound.receive(said(str(n), f"m{n}")), anext(stream)
            )
        assert isinstance(item, Handed)
        seen.append(item.record.sequence)

    assert isinstance(first, CaughtUp)
    assert seen == list(range(1, 101))
    await stream.aclose()  # type: ignore[attr-defined]
    await store.close()


@pytest.mark.case("B183")
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_a_hundred_records_of_one_instant_are_paged_by_their_number(
    tl: Threadline, clock: StillClock, order: str
) -> None:
    """B183: five are added in the middle of the paging; each appears once, in order."""
    await tl.store.run_all([Append(one) for one in numbered(1, 100, sent_at=clock())])
    seen: list[int] = []
    cursor: dict[str, Any] = {}

    for page_number in range(10):
        page = await tl.conversations.transcript(ROOM, order=order, limit=20, **cursor)
        seen += [one.sequence for one in page.records]
        if page_number == 2:
            await tl.inbound.receive_all(numbered(101, 105, sent_at=clock()))
        if page.next is None:
            break
        cursor = {"after" if order == "asc" else "before": page.next}

    assert seen == (list(range(1, 106)) if order == "asc" else list(range(100, 0, -1)))


@pytest.mark.case("B093")
async def test_an_edit_is_told_from_a_message_and_asks_for_no_answer(tl: Threadline) -> None:
    """B093: one message with its revisions, each a record that says what it revises."""
    await tl.conversations.ensure(ROOM)
    await tl.speakers.bind(ROOM, "agent")
    await tl.inbound.receive(said("ticket 1234", "p1"))

    for event, text in (("e1", "ticket 1234 please"), ("e2", "ticket 1235")):
        taken = await tl.inbound.receive(edited("p1", text, event))
        assert taken.record is not None
        assert (taken.record.wakes, taken.target_session_id) == ((), None)

    page = await tl.conversations.transcript(ROOM, view="messages")
    [message] = page.messages
    assert (message.record.text, message.revision) == ("ticket 1235", 2)
    assert [(one.event.value, one.revises) for one in page.records] == [
        ("message", None),
        ("edit", "p1"),
        ("edit", "p1"),
    ]
    read = (await tl.replay.backfill(ROOM, "agent")).records
    assert [(one.speaker, one.wake) for one in read] == [(True, True), *[(False, False)] * 2]
