"""Many of everything: members, rooms, handles, edits, in numbers that no single round loads."""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import Store, open_at
from tests.speech import ROOM, deleted, edited, followed, handed, said, unread
from threadline import Threadline
from threadline.core.model import ConversationRef, Kind, SessionCaller
from threadline.testing.clock import StillClock

MANY = 130
THREAD = ConversationRef("slack", "T1", "root", "C1", kind=Kind.THREAD)


@pytest.fixture
async def tl(store: Store) -> Threadline:
    """Everything, on a store that knows the room."""
    line = Threadline(store)
    await line.conversations.ensure(ROOM)
    return line


@pytest.mark.acceptance("C11")
async def test_a_room_of_many_members_is_listed_page_by_page(tl: Threadline) -> None:
    """C11: each once, on pages of any size."""
    names = {f"agent-{n}" for n in range(MANY)}
    await asyncio.gather(*(tl.members.join(ROOM, name) for name in names))

    listed: list[str] = []
    after: int | None = -1
    while after is not None:
        members, after = await tl.members.of(ROOM, after=after, limit=100)
        listed += [member.session_id for member in members]

    assert sorted(listed) == sorted(names)
    assert len((await tl.members.of(ROOM, limit=500))[0]) == MANY


@pytest.mark.acceptance("C11", "D12")
async def test_a_session_in_many_rooms_lists_follows_and_searches_them_all(
    tl: Threadline,
) -> None:
    """C11: a page, a connection and a question each reach every room."""
    rooms = [ConversationRef("slack", "T1", f"R{n}") for n in range(MANY)]
    await asyncio.gather(*(tl.conversations.ensure(room) for room in rooms))
    await asyncio.gather(*(tl.members.join(room, "agent") for room in rooms))
    await asyncio.gather(
        *(tl.inbound.receive(said("needle", "m1", conversation=room)) for room in rooms)
    )
    await tl.search.catch_up()
    me = SessionCaller("agent")

    listed, following = await tl.members.conversations_of("agent", limit=500, caller=me)
    found = await tl.search.find("needle", limit=500, caller=me)

    assert (len(listed), following) == (MANY, None)
    assert {hit.ref for hit in found.hits} == set(rooms)
    assert handed(await followed(tl, "agent")) == [1] * MANY


@pytest.mark.acceptance("F12")
async def test_a_thread_enrols_every_participant_of_a_crowded_room(tl: Threadline) -> None:
    """F12: capitals and aliases included, which sort otherwise than they are compared."""
    count = 1_010
    await asyncio.gather(
        *(
            tl.speakers.participant(ROOM, f"H{n}", f"s{n}", aliases=(f"Z{n}", f"a{n}")[: n % 3])
            for n in range(count)
        )
    )

    await tl.inbound.receive(said("reply", "m1", conversation=THREAD))

    state = await tl.conversations.show(THREAD)
    assert state.members == count
    assert await unread(tl, "s999", THREAD) == [1]
    assert len((await tl.speakers.show_group(ROOM)).participants) > MANY


@pytest.mark.acceptance("A9")
async def test_a_crowded_room_that_moves_keeps_everybody(tl: Threadline) -> None:
    """A9: handles and members of the older are the newer's."""
    moved = ConversationRef("slack", "T1", "C9")
    await asyncio.gather(
        *(tl.speakers.participant(ROOM, f"H{n}", f"s{n}", aliases=(f"Z{n}",)) for n in range(MANY))
    )
    await tl.inbound.receive(said("old", "m1"))
    await tl.inbound.receive(said("new", "m1", conversation=moved))

    await tl.inbound.receive(said("both", "m2", conversation=moved, same_as=(ROOM,)))

    assert (await tl.conversations.show(moved)).members == MANY
    taken = await tl.inbound.receive(said("@z77 hi", "m3", conversation=moved))
    assert taken.target_session_id == "s77"


@pytest.mark.acceptance("I1", "I6")
async def test_a_message_edited_many_times_is_folded_and_deleted_with_all_its_edits(
    tl: Threadline,
) -> None:
    """I1, I6: on the engine's own rows, nothing cached."""
    await tl.members.join(ROOM, "agent")
    await tl.inbound.receive(said("one", "m1"))
    await tl.inbound.receive_all([edited("m1", f"edit {n}", f"e{n}") for n in range(MANY)])

    [message] = (await tl.conversations.transcript(ROOM, view="messages", limit=1)).messages
    await tl.inbound.receive(deleted("m1", "d1"))

    assert (message.record.text, message.revision) == (f"edit {MANY - 1}", MANY)
    page = await tl.conversations.transcript(ROOM, limit=500)
    assert {record.text for record in page.records} == {""}


@pytest.mark.acceptance("J1", "J2", "I6")
async def test_nothing_of_this_leans_on_what_a_process_has_in_memory(
    store_url: str, key: bytes, clock: StillClock
) -> None:
    """J1, J2: the same after a restart, where every row has to be loaded."""
    rooms = [ConversationRef("slack", "T1", f"R{n}") for n in range(MANY)]
    first = await open_at(store_url, key, clock=clock)
    line = Threadline(first)
    await asyncio.gather(*(line.conversations.ensure(room) for room in rooms))
    await asyncio.gather(
        *(line.speakers.participant(room, "alpha", "old", aliases=("al",)) for room in rooms)
    )
    await line.inbound.receive(said("one", "m1", conversation=rooms[0]))
    await line.inbound.receive_all(
        [edited("m1", "more", f"e{n}", conversation=rooms[0]) for n in range(MANY)]
    )
    await first.close()

    second = await open_at(store_url, key, clock=clock)
    line = Threadline(second)
    await line.sessions.reassign("old", "new")
    await line.inbound.receive(deleted("m1", "d1", conversation=rooms[0]))
    moved, _ = await line.members.conversations_of("new", limit=500)
    await second.close()

    third = await open_at(store_url, key, clock=clock)
    line = Threadline(third)
    await line.sessions.retire("new")
    states = [await line.conversations.show(room) for room in rooms]
    page = await line.conversations.transcript(rooms[0], limit=500)
    await third.close()

    assert len(moved) == MANY
    assert {member.handles for member in moved} == {("alpha",)}
    assert {state.members for state in states} == {0}
    assert {record.text for record in page.records} == {""}
