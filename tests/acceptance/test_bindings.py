"""A conversation belongs to a session: generations, conflicts, expiry, and the membership."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.conftest import OpenStore, Store
from tests.speech import ROOM, followed, said, transcript, unread
from threadline import Threadline
from threadline.core.errors import (
    BindingConflict,
    InvalidInput,
    MembershipNotFound,
    NotFound,
    SessionNotFound,
    Unauthorized,
)
from threadline.core.model import AdapterCaller, ConversationRef, Kind, SessionCaller
from threadline.testing.clock import StillClock

OTHER = ConversationRef("slack", "T1", "C2")
DM = ConversationRef("slack", "T1", "D1", kind=Kind.DM)
THREAD = ConversationRef("slack", "T1", "17.1", "C1", kind=Kind.THREAD)


@pytest.fixture
async def tl(store: Store) -> Threadline:
    """Everything, on a store that knows the room."""
    line = Threadline(store)
    await line.conversations.ensure(ROOM)
    return line


async def is_member(line: Threadline, session: str) -> bool:
    """Whether the session is in the room at this instant."""
    try:
        return (await line.members.show(ROOM, session)).active
    except NotFound:
        return False


@pytest.mark.acceptance("E1")
async def test_the_first_binding_has_generation_one_and_binding_again_keeps_it(
    tl: Threadline, clock: StillClock
) -> None:
    """E1: same session, same conversation, same generation."""
    first = await tl.speakers.bind(ROOM, "agent")

    clock.move(minutes=5)
    second = await tl.speakers.bind(ROOM, "agent")

    assert (first.generation, first.session_id, first.expires_at) == (1, "agent", None)
    assert second == first
    assert await tl.speakers.binding(ROOM) == first


@pytest.mark.acceptance("E1")
async def test_leaving_the_expiry_out_keeps_it_and_null_clears_it(
    tl: Threadline, clock: StillClock
) -> None:
    """E1: for the binding and for the membership that it grants."""
    end = clock.at + timedelta(hours=1)
    set_ = await tl.speakers.bind(ROOM, "agent", expires_at=end)
    kept = await tl.speakers.bind(ROOM, "agent")
    moved = await tl.speakers.bind(ROOM, "agent", expires_at=end + timedelta(hours=1))
    cleared = await tl.speakers.bind(ROOM, "agent", expires_at=None)
    clock.move(days=30)

    assert [one.expires_at for one in (set_, kept, moved, cleared)] == [
        end,
        end,
        end + timedelta(hours=1),
        None,
    ]
    assert {one.generation for one in (set_, kept, moved, cleared)} == {1}
    assert await is_member(tl, "agent")
    assert await tl.speakers.binding(ROOM) == cleared


@pytest.mark.acceptance("E1")
async def test_a_binding_merges_metadata_and_null_removes_a_key(tl: Threadline) -> None:
    """E1: what is left out stays."""
    await tl.speakers.bind(ROOM, "agent", metadata={"a": 1, "b": {"c": 2}})

    bound = await tl.speakers.bind(ROOM, "agent", metadata={"a": None, "d": 3})

    assert bound.metadata == {"b": {"c": 2}, "d": 3}
    assert await tl.speakers.binding(ROOM) == bound


@pytest.mark.acceptance("E1")
async def test_an_expiry_that_is_past_or_has_no_zone_is_refused(
    tl: Threadline, clock: StillClock
) -> None:
    """E1: nothing is bent silently, and nothing is written."""
    for wrong in (clock.at, clock.at - timedelta(seconds=1), clock.at.replace(tzinfo=None)):
        with pytest.raises(InvalidInput):
            await tl.speakers.bind(ROOM, "agent", expires_at=wrong)

    assert await tl.speakers.binding(ROOM) is None
    assert not await is_member(tl, "agent")


@pytest.mark.acceptance("E2")
async def test_another_session_is_refused_and_told_who_holds_it(tl: Threadline) -> None:
    """E2: and gets no membership by the attempt."""
    await tl.speakers.bind(ROOM, "agent")

    with pytest.raises(BindingConflict) as refused:
        await tl.speakers.bind(ROOM, "rival")

    assert refused.value.facts["session_id"] == "agent"
    assert not await is_member(tl, "rival")
    bound = await tl.speakers.binding(ROOM)
    assert bound is not None
    assert (bound.session_id, bound.generation) == ("agent", 1)


@pytest.mark.acceptance("E2")
async def test_of_many_that_bind_at_once_exactly_one_wins(tl: Threadline) -> None:
    """E2: and only the winner is a member."""
    names = [f"agent-{n}" for n in range(12)]

    answers = await asyncio.gather(
        *(tl.speakers.bind(ROOM, name) for name in names), return_exceptions=True
    )

    won = [one for one in answers if not isinstance(one, BaseException)]
    lost = [one for one in answers if isinstance(one, BindingConflict)]
    assert (len(won), len(lost)) == (1, 11)
    assert {error.facts["session_id"] for error in lost} == {won[0].session_id}
    assert [name for name in names if await is_member(tl, name)] == [won[0].session_id]


@pytest.mark.acceptance("E2")
async def test_of_two_nodes_that_bind_at_once_exactly_one_wins(open_store: OpenStore) -> None:
    """E2: each node has connections of its own; twenty rooms, a race in each."""
    one, two = [Threadline(store) for store in await open_store(2)]
    rooms = [ConversationRef("slack", "T1", f"C{n}") for n in range(20)]
    await asyncio.gather(*(one.conversations.ensure(room) for room in rooms))

    answers = await asyncio.gather(
        *(
            line.speakers.bind(room, name)
            for room in rooms
            for line, name in ((one, "first"), (two, "second"))
        ),
        return_exceptions=True,
    )

    for n, room in enumerate(rooms):
        pair = answers[2 * n : 2 * n + 2]
        won = [it for it in pair if not isinstance(it, BaseException)]
        assert len(won) == 1, pair
        assert [type(it) for it in pair if isinstance(it, BaseException)] == [BindingConflict]
        assert await two.speakers.binding(room) == won[0]
        members, _ = await one.members.of(room)
        assert [member.session_id for member in members] == [won[0].session_id]


@pytest.mark.acceptance("E3", "C14")
@pytest.mark.parametrize("swept", [False, True], ids=["unswept", "swept"])
async def test_an_expired_binding_is_a_miss_on_every_path_at_that_instant(
    tl: Threadline, clock: StillClock, swept: bool
) -> None:
    """E3, C14: whether or not a sweep has been there."""
    end = clock.at + timedelta(hours=1)
    await tl.speakers.bind(ROOM, "agent", expires_at=end)
    await tl.inbound.receive(said("for you", "m1"))
    await tl.search.catch_up()
    me = SessionCaller("agent")
    clock.at = end - timedelta(microseconds=1)
    assert await unread(tl, "agent") == [1]

    clock.at = end
    if swept:
        await tl.upkeep.round()
    taken = await tl.inbound.receive(said("for nobody", "m2"))

    assert await tl.speakers.binding(ROOM) is None
    assert (taken.target_session_id, taken.route) == (None, "none")
    assert taken.record is not None
    assert taken.record.wakes == ()
    for attempt in (
        tl.replay.backfill(ROOM, "agent"),
        tl.replay.ack(ROOM, "agent", 1),
        tl.replay.lag(ROOM, "agent"),
        tl.members.show(ROOM, "agent"),
        tl.members.update(ROOM, "agent", override="all"),
        tl.conversations.transcript(ROOM, caller=me),
        tl.conversations.show(ROOM, caller=me),
    ):
        with pytest.raises(MembershipNotFound):
            await attempt
    assert await followed(tl, "agent") == []
    assert (await tl.members.of(ROOM))[0] == []
    assert (await tl.members.conversations_of("agent"))[0] == []
    assert (await tl.search.find("for", caller=me)).hits == []
    assert not (await tl.conversations.show(ROOM)).bound
    assert await tl.speakers.unbind(ROOM) is None


@pytest.mark.acceptance("E3", "C14")
async def test_a_follower_is_cut_off_at_the_instant_its_binding_expires(
    tl: Threadline, clock: StillClock
) -> None:
    """C14: the connection that was open all the while gets nothing more."""
    await tl.speakers.bind(ROOM, "agent", expires_at=clock.at + timedelta(hours=1))
    await tl.members.join(await _other(tl), "agent")
    got: list[str] = []
    stream = tl.replay.follow("agent")
    await tl.inbound.receive(said("heard", "m1"))
    async for item in stream:
        if hasattr(item, "record"):
            got.append(item.record.text)
        if got == ["heard"]:
            got.append("expired")
            clock.move(hours=1)
            await tl.inbound.receive(said("not for you", "m2"))
            await tl.inbound.receive(said("elsewhere", "m1", conversation=OTHER))
        if got[-1:] == ["elsewhere"]:
            break
    await stream.aclose()  # type: ignore[attr-defined]

    assert got == ["heard", "expired", "elsewhere"]


async def _other(line: Threadline) -> ConversationRef:
    await line.conversations.ensure(OTHER)
    return OTHER


@pytest.mark.acceptance("E3")
@pytest.mark.parametrize("swept", [False, True], ids=["unswept", "swept"])
@pytest.mark.parametrize("heir", ["agent", "successor"])
async def test_the_bind_after_an_expiry_has_the_next_generation(
    tl: Threadline, clock: StillClock, swept: bool, heir: str
) -> None:
    """E3: a new stint under the default policy, whether or not a sweep has been there."""
    await tl.speakers.bind(ROOM, "agent", expires_at=clock.at + timedelta(hours=1), policy="all")
    await tl.inbound.receive(said("in the first", "m1"))
    clock.move(hours=1)
    if swept:
        await tl.upkeep.round()
    await tl.inbound.receive(said("in between", "m2"))

    bound = await tl.speakers.bind(ROOM, heir)
    await tl.inbound.receive(said("in the second", "m3"))

    assert (bound.generation, bound.session_id, bound.expires_at) == (2, heir, None)
    member = await tl.members.show(ROOM, heir)
    assert (member.policy.backfill.value, member.joined_sequence) == ("since_join", 2)
    assert await unread(tl, heir) == [3]
    state = await tl.conversations.show(ROOM)
    assert state.members == 1
    assert await is_member(tl, "agent") == (heir == "agent")


@pytest.mark.acceptance("E3")
async def test_generations_only_rise(tl: Threadline, clock: StillClock) -> None:
    """E3: through unbinding, expiry and other holders."""
    seen = []
    for n in range(6):
        end = clock.at + timedelta(minutes=1)
        seen.append((await tl.speakers.bind(ROOM, f"agent-{n % 2}", expires_at=end)).generation)
        if n % 3:
            await tl.speakers.unbind(ROOM)
        else:
            clock.move(minutes=1)

    assert seen == [1, 2, 3, 4, 5, 6]


@pytest.mark.acceptance("E3")
async def test_an_expired_binding_takes_only_the_membership_that_it_granted(
    tl: Threadline, clock: StillClock
) -> None:
    """E3: what a group or a hand granted stays."""
    await tl.speakers.bind(ROOM, "agent", expires_at=clock.at + timedelta(hours=1))
    await tl.members.join(ROOM, "agent", policy="all")
    await tl.inbound.receive(said("hello", "m1"))

    clock.move(hours=1)
    before = await tl.members.show(ROOM, "agent")
    await tl.upkeep.round()
    after = await tl.members.show(ROOM, "agent")

    assert before == after
    assert list(after.grants) == ["manual"]
    assert await unread(tl, "agent") == [1]
    assert (await tl.conversations.show(ROOM)).members == 1


@pytest.mark.acceptance("E3", "F13")
async def test_a_default_route_takes_over_a_dm_whose_binding_expired(
    tl: Threadline, clock: StillClock
) -> None:
    """E3, F13: the old holder's membership is gone, and is not counted on."""
    await tl.conversations.ensure(DM)
    await tl.speakers.bind(DM, "agent", expires_at=clock.at + timedelta(hours=1))
    await tl.speakers.default_route("slack", "T1", "desk")
    clock.move(hours=1)

    taken = await tl.inbound.receive(said("hello", "m1", conversation=DM))
    await tl.upkeep.round()

    assert (taken.target_session_id, taken.route) == ("desk", "default_route")
    bound = await tl.speakers.binding(DM)
    assert bound is not None
    assert (bound.session_id, bound.generation) == ("desk", 2)
    members, _ = await tl.members.of(DM)
    assert [member.session_id for member in members] == ["desk"]
    assert (await tl.conversations.show(DM)).members == 1


@pytest.mark.acceptance("E3")
@pytest.mark.parametrize("swept", [False, True], ids=["unswept", "swept"])
async def test_a_thread_whose_own_binding_expired_is_routed_by_its_rooms(
    tl: Threadline, clock: StillClock, swept: bool
) -> None:
    """E3: an expired binding is none, so the room's counts again."""
    await tl.speakers.bind(ROOM, "desk")
    await tl.inbound.receive(said("in the thread", "m1", conversation=THREAD))
    await tl.speakers.bind(THREAD, "agent", expires_at=clock.at + timedelta(hours=1))
    mine = await tl.inbound.receive(said("you", "m2", conversation=THREAD))
    clock.move(hours=1)
    if swept:
        await tl.upkeep.round()

    theirs = await tl.inbound.receive(said("you", "m3", conversation=THREAD))

    assert (mine.target_session_id, theirs.target_session_id) == ("agent", "desk")


@pytest.mark.acceptance("E6")
async def test_binding_grants_membership_and_unbinding_takes_it_in_one_transaction(
    tl: Threadline,
) -> None:
    """E6: no reader ever sees one without the other."""
    states: set[tuple[bool, bool]] = set()
    done = asyncio.Event()

    async def look() -> None:
        while not done.is_set():
            state = await tl.conversations.show(ROOM)
            states.add((state.bound, state.members == 1))

    async def work() -> None:
        for _ in range(15):
            await tl.speakers.bind(ROOM, "agent")
            await tl.speakers.unbind(ROOM)
        done.set()

    await asyncio.gather(look(), work())

    assert states <= {(True, True), (False, False)}
    assert not await is_member(tl, "agent")


@pytest.mark.acceptance("E6", "C9")
async def test_a_binding_grants_since_join_or_what_it_asked_for(tl: Threadline) -> None:
    """E6, C9: a renewal keeps the policy, unless it states another."""
    await tl.inbound.receive(said("before", "m1"))
    await tl.speakers.bind(ROOM, "agent")
    first = await unread(tl, "agent")
    await tl.speakers.bind(ROOM, "agent", policy="all")
    await tl.speakers.bind(ROOM, "agent", metadata={"renewed": True})
    second = await unread(tl, "agent")
    await tl.speakers.bind(ROOM, "agent", policy="since_join")

    assert (first, second, await unread(tl, "agent")) == ([], [1], [])


@pytest.mark.acceptance("E6")
async def test_leaving_by_the_binding_ends_the_binding(tl: Threadline) -> None:
    """E6: the reason and what it stands for go together."""
    await tl.speakers.bind(ROOM, "agent")
    await tl.members.join(ROOM, "agent")

    await tl.members.leave(ROOM, "agent", reason="binding")

    assert await tl.speakers.binding(ROOM) is None
    assert list((await tl.members.show(ROOM, "agent")).grants) == ["manual"]
    assert (await tl.speakers.bind(ROOM, "rival")).generation == 2


@pytest.mark.acceptance("E6")
async def test_leaving_by_another_reason_leaves_the_binding(tl: Threadline) -> None:
    """E6: the membership stays, because the binding does."""
    await tl.speakers.bind(ROOM, "agent")
    await tl.members.join(ROOM, "agent")

    await tl.members.leave(ROOM, "agent", reason="manual")

    assert await tl.speakers.binding(ROOM) is not None
    assert list((await tl.members.show(ROOM, "agent")).grants) == ["binding"]


@pytest.mark.acceptance("E2", "E6")
async def test_a_refused_bind_of_an_unknown_session_leaves_no_session_behind(
    tl: Threadline,
) -> None:
    """E2: a refusal writes nothing at all."""
    await tl.speakers.bind(ROOM, "agent")
    with pytest.raises(BindingConflict):
        await tl.speakers.bind(ROOM, "nobody-yet")

    sessions, _ = await tl.sessions.page()

    assert [one.session_id for one in sessions] == ["agent"]
    assert await transcript(tl) == []


@pytest.mark.acceptance("E4")
async def test_unbinding_names_what_was_ended_and_leaves_what_others_granted(
    tl: Threadline,
) -> None:
    """E4: by conversation and by session; group-granted membership stays."""
    rooms = [ROOM, await _other(tl)]
    for room in rooms:
        await tl.speakers.bind(room, "agent")
    await tl.speakers.participant(OTHER, "bot", "agent")

    ended = await tl.speakers.unbind_session("agent")
    nothing = await tl.speakers.unbind(ROOM)

    assert sorted(str(one.ref) for one in ended) == sorted(str(room) for room in rooms)
    assert {one.session_id for one in ended} == {"agent"}
    assert nothing is None
    assert not await is_member(tl, "agent")
    assert list((await tl.members.show(OTHER, "agent")).grants) == ["group"]


@pytest.mark.acceptance("E2", "A6")
async def test_an_adapter_binds_inside_its_own_account_only(tl: Threadline) -> None:
    """E2, A6: by ref unauthorized, by id not found."""
    stranger = AdapterCaller("default", "slack", "T2")
    await tl.sessions.create("agent")
    own = AdapterCaller("default", "slack", "T1")
    state = await tl.conversations.show(ROOM)

    with pytest.raises(Unauthorized):
        await tl.speakers.bind(ROOM, "agent", caller=stranger)
    with pytest.raises(NotFound):
        await tl.speakers.bind(state.id, "agent", caller=stranger)
    bound = await tl.speakers.bind(state.id, "agent", caller=own)

    assert bound.generation == 1


async def test_an_adapter_brings_no_session_into_being(tl: Threadline) -> None:
    """A6, A7: only a controller's join, bind or participant call creates an unknown session."""
    adapter = AdapterCaller("default", ROOM.provider, ROOM.account_id)
    await tl.conversations.ensure(ROOM)

    with pytest.raises(SessionNotFound):
        await tl.speakers.bind(ROOM, "nobody", caller=adapter)
    with pytest.raises(SessionNotFound):
        await tl.speakers.participant(ROOM, "n", "nobody", caller=adapter)

    await tl.sessions.create("somebody")
    assert (await tl.speakers.bind(ROOM, "somebody", caller=adapter)).session_id == "somebody"
