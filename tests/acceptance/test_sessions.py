"""Lives of sessions: reassigned, retired, and begun anew under an old name."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.conftest import Store
from tests.speech import ROOM, followed, handed, said, transcript, unread
from threadline import Threadline
from threadline.core.errors import (
    InvalidInput,
    MembershipNotFound,
    NotFound,
    SessionNotFound,
    SessionRetired,
)
from threadline.core.model import ConversationRef, Kind, SessionCaller
from threadline.flows.inbound import Append
from threadline.flows.replay import CaughtUp, Handed
from threadline.testing.clock import StillClock

DM = ConversationRef("slack", "T1", "D1", kind=Kind.DM)


@pytest.fixture
async def tl(store: Store) -> Threadline:
    """Everything, on a store that knows the room."""
    line = Threadline(store)
    await line.conversations.ensure(ROOM)
    return line


async def talk(line: Threadline, count: int, where: ConversationRef = ROOM) -> None:
    """Ada says something `count` times."""
    for _ in range(count):
        await line.inbound.receive(said("hello", conversation=where))


async def rooms_of(line: Threadline, session: str) -> set[str]:
    """Where the session is a member."""
    members, _ = await line.members.conversations_of(session, limit=500)
    return {str(member.ref) for member in members}


@pytest.mark.acceptance("J1")
async def test_reassigning_moves_binding_handles_membership_cursor_and_backlog(
    tl: Threadline,
) -> None:
    """J1: what the old one had not read, the new one reads, and nothing else."""
    await tl.speakers.participant(ROOM, "alpha", "old", aliases=("al",), public=True)
    await tl.speakers.bind(DM_ := await _ensured(tl, DM), "old", policy="all")
    await talk(tl, 3)
    await talk(tl, 2, DM_)
    await tl.replay.ack(ROOM, "old", 2)

    await tl.sessions.reassign("old", "new")

    bound = await tl.speakers.binding(DM)
    assert bound is not None
    assert (bound.session_id, bound.generation) == ("new", 1)
    [seat] = (await tl.speakers.show_group(ROOM)).participants
    assert (seat.handle, seat.session_id, seat.public, seat.aliases) == (
        "alpha",
        "new",
        True,
        ("al",),
    )
    assert await unread(tl, "new") == [3]
    assert await unread(tl, "new", DM) == [1, 2]
    assert await rooms_of(tl, "new") == {str(ROOM), str(DM)}
    with pytest.raises(SessionRetired):
        await tl.replay.backfill(ROOM, "old")
    assert [m.session_id for m in (await tl.members.of(ROOM))[0]] == ["new"]
    assert (await tl.conversations.show(ROOM)).members == 1


async def _ensured(line: Threadline, where: ConversationRef) -> ConversationRef:
    await line.conversations.ensure(where)
    return where


@pytest.mark.acceptance("J1")
async def test_after_reassigning_handle_alias_binding_and_default_route_choose_the_new_one(
    tl: Threadline,
) -> None:
    """J1: whoever addresses the old one is answered by the new one."""
    await tl.speakers.participant(ROOM, "alpha", "old", aliases=("al",))
    await tl.speakers.bind(await _ensured(tl, DM), "old")
    await tl.speakers.default_route("slack", "T1", "old")
    fresh = ConversationRef("slack", "T1", "D2", kind=Kind.DM)

    await tl.sessions.reassign("old", "new")

    taken = [
        await tl.inbound.receive(said("@alpha hi", "m1")),
        await tl.inbound.receive(said("@al hi", "m2")),
        await tl.inbound.receive(said("hi", "m3")),
        await tl.inbound.receive(said("hi", "m1", conversation=DM)),
        await tl.inbound.receive(said("hi", "m1", conversation=fresh)),
    ]
    assert [one.target_session_id for one in taken] == ["new"] * 5
    items = await followed(tl, "new")
    flags = [(one.speaker, one.wake) for one in items if isinstance(one, Handed)]
    assert flags == [(True, True)] * 5


@pytest.mark.acceptance("J1")
async def test_where_both_are_present_the_better_of_both_is_kept(tl: Threadline) -> None:
    """J1: cursor the maximum, stint the earlier, grants and handles united."""
    await tl.members.join(ROOM, "old", policy="since_join")
    await tl.speakers.participant(ROOM, "alpha", "old")
    await talk(tl, 4)
    await tl.speakers.participant(ROOM, "beta", "new")
    await tl.members.update(ROOM, "new", metadata={"kept": True})
    await talk(tl, 4)
    await tl.replay.ack(ROOM, "old", 7)
    await tl.replay.ack(ROOM, "new", 5)

    await tl.sessions.reassign("old", "new")

    member = await tl.members.show(ROOM, "new")
    assert (member.last_read, member.joined_sequence) == (7, 0)
    assert set(member.grants) == {"manual", "group"}
    assert set(member.handles) == {"alpha", "beta"}
    assert member.metadata == {"kept": True}
    assert await unread(tl, "new") == [8]
    state = await tl.conversations.show(ROOM)
    assert state.members == 1


@pytest.mark.acceptance("J1")
async def test_a_cursor_that_was_kept_from_an_earlier_stint_does_not_move_back(
    tl: Threadline,
) -> None:
    """J1, law 7: the new one had left, but had read further than the old one."""
    await talk(tl, 9)
    await tl.members.join(ROOM, "new")
    await tl.members.update(ROOM, "new", override="all")
    await tl.replay.ack(ROOM, "new", 8)
    await tl.members.leave(ROOM, "new")
    await tl.members.join(ROOM, "old")
    await tl.replay.ack(ROOM, "old", 2)

    await tl.sessions.reassign("old", "new")

    member = await tl.members.show(ROOM, "new")
    assert member.last_read == 8
    assert member.override is not None
    assert await unread(tl, "new") == [9]


@pytest.mark.acceptance("J1")
async def test_more_rooms_than_one_chunk_holds_are_moved_and_are_readable_meanwhile(
    tl: Threadline,
) -> None:
    """J1: the successor counts at once, whatever chunk a room is in."""
    rooms = [ConversationRef("slack", "T1", f"R{n}") for n in range(230)]
    await asyncio.gather(*(tl.conversations.ensure(room) for room in rooms))
    await asyncio.gather(*(tl.members.join(room, "old") for room in rooms))
    await asyncio.gather(
        *(tl.inbound.receive(said("hello", "m1", conversation=room)) for room in rooms)
    )
    missing: list[ConversationRef] = []
    done = asyncio.Event()

    async def look() -> None:
        while not await known(tl, "new"):
            pass
        finished = False
        while not finished:
            finished = done.is_set()
            for room in rooms[::-23]:
                try:
                    if await unread(tl, "new", room) != [1]:
                        missing.append(room)
                except MembershipNotFound:
                    missing.append(room)

    async def work() -> None:
        await tl.sessions.reassign("old", "new")
        done.set()

    await asyncio.gather(look(), work())

    assert missing == []
    assert len(await rooms_of(tl, "new")) == 230
    assert sorted(handed(await followed(tl, "new"))) == [1] * 230


async def known(tl: Threadline, session: str) -> bool:
    """Whether a session is there."""
    try:
        await tl.sessions.show(session)
    except SessionNotFound:
        return False
    return True


@pytest.mark.acceptance("J1", "C12")
async def test_what_the_old_one_said_itself_is_not_unread_and_stops_no_reader(
    tl: Threadline,
) -> None:
    """J1: a page is filled with what others said, however much the old one said before it."""
    await tl.members.join(ROOM, "old")
    await tl.store.run_all([Append(said("mine"), said_by="old") for _ in range(1_100)])
    await talk(tl, 3)

    await tl.sessions.reassign("old", "new")

    pages = [await tl.replay.backfill(ROOM, "new", limit=limit) for limit in (1, 2, 3)]
    assert [[one.record.sequence for one in page.records] for page in pages] == [
        [1_101],
        [1_101, 1_102],
        [1_101, 1_102, 1_103],
    ]
    assert [page.more for page in pages] == [True, True, False]
    assert handed(await followed(tl, "new")) == [1_101, 1_102, 1_103]


@pytest.mark.acceptance("J1")
async def test_an_expiring_binding_keeps_its_expiry_through_reassigning(
    tl: Threadline, clock: StillClock
) -> None:
    """J1: for the binding and the membership it granted."""
    await tl.speakers.bind(ROOM, "old", expires_at=clock.at + timedelta(hours=1))

    await tl.sessions.reassign("old", "new")
    before = await tl.speakers.binding(ROOM)
    await unread(tl, "new")
    clock.move(hours=1)

    assert before is not None
    assert before.session_id == "new"
    assert await tl.speakers.binding(ROOM) is None
    with pytest.raises(MembershipNotFound):
        await tl.replay.backfill(ROOM, "new")
    await tl.upkeep.round()
    assert (await tl.conversations.show(ROOM)).members == 0


@pytest.mark.acceptance("J1")
async def test_reassigning_on_and_on_ends_at_the_last_one(tl: Threadline) -> None:
    """J1: a chain of three; the backlog and the right to answer go all the way."""
    await tl.speakers.bind(ROOM, "one")
    await tl.inbound.receive(said("for one", "m1"))

    await tl.sessions.reassign("one", "two")
    await tl.sessions.reassign("two", "three")

    page = await tl.replay.backfill(ROOM, "three")
    assert [(item.record.text, item.speaker, item.wake) for item in page.records] == [
        ("for one", True, True)
    ]
    taken = await tl.inbound.receive(said("for three", "m2"))
    assert taken.target_session_id == "three"


@pytest.mark.acceptance("J1")
async def test_a_session_is_not_reassigned_to_itself_nor_to_nobody(tl: Threadline) -> None:
    """J1: a refusal changes nothing."""
    await tl.members.join(ROOM, "old")
    with pytest.raises(InvalidInput):
        await tl.sessions.reassign("old", "old")
    with pytest.raises(InvalidInput):
        await tl.sessions.reassign("old", "")
    with pytest.raises(SessionNotFound):
        await tl.sessions.reassign("unknown", "new")

    assert await rooms_of(tl, "old") == {str(ROOM)}


@pytest.mark.acceptance("J1")
async def test_a_follower_that_is_open_while_it_inherits_hears_the_inherited_rooms(
    tl: Threadline,
) -> None:
    """J1: within its connection, without asking again."""
    await tl.members.join(ROOM, "old")
    await tl.inbound.receive(said("backlog", "m1"))
    await tl.sessions.create("new")
    other = await _ensured(tl, DM)
    await tl.members.join(other, "new")
    got: list[str] = []
    stream = tl.replay.follow("new")
    async for item in stream:
        if isinstance(item, CaughtUp) and item.ref == other:
            await tl.sessions.reassign("old", "new")
        elif isinstance(item, Handed):
            got.append(item.record.text)
            if got == ["backlog"]:
                await tl.inbound.receive(said("more", "m2"))
        if got[-1:] == ["more"]:
            break
    await stream.aclose()  # type: ignore[attr-defined]

    assert got == ["backlog", "more"]


@pytest.mark.acceptance("J2")
async def test_a_retired_session_keeps_no_membership_handle_binding_or_route(
    tl: Threadline,
) -> None:
    """J2: nothing is delivered to it again; its records keep its name."""
    await tl.speakers.participant(ROOM, "alpha", "agent", aliases=("al",))
    await tl.speakers.group(ROOM, default_handle="alpha")
    await tl.speakers.bind(await _ensured(tl, DM), "agent")
    await tl.speakers.default_route("slack", "T1", "agent")
    await tl.store.run(Append(said("my words", "s1"), said_by="agent"))
    await tl.inbound.receive(said("@alpha", "m1"))

    await tl.sessions.retire("agent")

    taken = [
        await tl.inbound.receive(said("@alpha hi", "m2")),
        await tl.inbound.receive(said("hi", "m3")),
        await tl.inbound.receive(said("hi", "m1", conversation=DM)),
        await tl.inbound.receive(
            said("hi", "m1", conversation=ConversationRef("slack", "T1", "D9", kind=Kind.DM))
        ),
        await tl.inbound.receive(said("a reply", "m4", reply_to="s1")),
    ]
    assert [one.target_session_id for one in taken] == [None] * 5
    assert [one.record.wakes for one in taken if one.record] == [()] * 5
    assert [one.readers for one in taken] == [0] * 5
    for attempt in (
        tl.replay.backfill(ROOM, "agent"),
        tl.replay.ack(ROOM, "agent", 1),
        tl.members.join(ROOM, "agent"),
        tl.speakers.bind(ROOM, "agent"),
        tl.speakers.participant(ROOM, "beta", "agent"),
        tl.members.show(ROOM, "agent"),
        followed(tl, "agent"),
        tl.conversations.transcript(ROOM, caller=SessionCaller("agent")),
    ):
        with pytest.raises(SessionRetired):
            await attempt
    assert (await tl.speakers.show_group(ROOM)).participants == []
    assert await tl.speakers.binding(DM) is None
    assert (await tl.members.of(ROOM))[0] == []
    records = (await tl.conversations.transcript(ROOM)).records
    assert (records[0].source_session_id, records[1].target_session_id) == ("agent", "agent")
    assert (await tl.sessions.show("agent")).retired_at is not None


@pytest.mark.acceptance("J2")
async def test_retiring_is_safe_to_run_twice_and_reaches_every_room(tl: Threadline) -> None:
    """J2: more rooms than one chunk holds."""
    rooms = [ConversationRef("slack", "T1", f"R{n}") for n in range(130)]
    await asyncio.gather(*(tl.conversations.ensure(room) for room in rooms))
    await asyncio.gather(*(tl.members.join(room, "agent") for room in rooms[:70]))
    await asyncio.gather(*(tl.speakers.bind(room, "agent") for room in rooms[70:]))

    first = await tl.sessions.retire("agent")
    second = await tl.sessions.retire("agent")

    assert first == second
    states = [await tl.conversations.show(room) for room in rooms]
    assert {(state.members, state.bound) for state in states} == {(0, False)}


@pytest.mark.acceptance("J3")
@pytest.mark.parametrize("ending", ["retired", "reassigned"])
async def test_a_new_session_under_an_old_name_inherits_nothing(
    tl: Threadline, ending: str
) -> None:
    """J3: no membership, no voice, no cursor, not even what was addressed to the name."""
    await tl.speakers.participant(ROOM, "alpha", "agent")
    await tl.speakers.bind(await _ensured(tl, DM), "agent")
    await tl.inbound.receive(said("@alpha secret", "m1"))
    await tl.store.run(Append(said("my words", "s1"), said_by="agent"))
    old = await tl.sessions.show("agent")
    if ending == "retired":
        await tl.sessions.retire("agent")
    else:
        await tl.sessions.reassign("agent", "heir")

    with pytest.raises(SessionRetired):
        await tl.members.join(ROOM, "agent")
    new = await tl.sessions.create("agent")

    assert new.id != old.id
    assert await rooms_of(tl, "agent") == set()
    assert await followed(tl, "agent") == []
    with pytest.raises(MembershipNotFound):
        await tl.replay.backfill(ROOM, "agent")
    await tl.members.join(ROOM, "agent")
    page = await tl.replay.backfill(ROOM, "agent")
    told = [(one.record.text, one.speaker, one.wake) for one in page.records]
    assert told == [("@alpha secret", False, False), ("my words", False, False)]
    assert page.last_read is None


@pytest.mark.acceptance("J5")
async def test_what_was_addressed_to_the_old_one_is_handed_to_the_new_one_as_its_own(
    tl: Threadline,
) -> None:
    """J5: speaker and wake are compared through the successor."""
    await tl.speakers.participant(ROOM, "alpha", "old")
    await tl.speakers.participant(ROOM, "beta", "other")
    await tl.inbound.receive(said("@alpha now", "m1"))
    await tl.inbound.receive(said("@beta you", "m2"))

    await tl.sessions.reassign("old", "new")

    mine = [(i.speaker, i.wake) for i in (await tl.replay.backfill(ROOM, "new")).records]
    streamed = [(i.speaker, i.wake) for i in await followed(tl, "new") if isinstance(i, Handed)]
    theirs = [(i.speaker, i.wake) for i in (await tl.replay.backfill(ROOM, "other")).records]
    assert mine == streamed == [(True, True), (False, False)]
    assert theirs == [(False, False), (True, True)]
    records = (await tl.conversations.transcript(ROOM)).records
    assert records[0].target_session_id == "old"


@pytest.mark.acceptance("J1", "C13")
async def test_an_eviction_outlives_reassigning_to_others(tl: Threadline) -> None:
    """J1: the old one's eviction gives the new one nothing."""
    await tl.members.join(ROOM, "old")
    await tl.inbound.receive(said("hello", "m1"))
    await tl.members.leave(ROOM, "old", evict=True)

    await tl.sessions.reassign("old", "new")

    with pytest.raises(MembershipNotFound):
        await tl.replay.backfill(ROOM, "new")
    assert await rooms_of(tl, "new") == set()


@pytest.mark.acceptance("J1")
async def test_aliases_follow_a_session_and_are_unique(tl: Threadline) -> None:
    """J1: a further name reads and acknowledges like the first."""
    await tl.sessions.create("agent")
    await tl.sessions.create("other")
    await tl.sessions.alias("agent", "nick")
    await tl.members.join(ROOM, "nick")
    await tl.inbound.receive(said("hello", "m1"))

    with pytest.raises(InvalidInput):
        await tl.sessions.alias("other", "nick")

    assert await unread(tl, "agent") == await unread(tl, "nick") == [1]
    assert [m.session_id for m in (await tl.members.of(ROOM))[0]] == ["agent"]
    await tl.sessions.alias("agent", "nick", remove=True)
    with pytest.raises(NotFound):
        await tl.replay.backfill(ROOM, "nick")
    assert await transcript(tl) == [(1, "hello")]
