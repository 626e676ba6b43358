"""What is tidied from time to time: floors, expired grants, drift."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest

from tests.conftest import Store
from tests.speech import ROOM, followed, handed, numbered, said, transcript, unread
from threadline import Threadline
from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput, MembershipNotFound
from threadline.core.ids import number_of
from threadline.core.model import BackfillPolicy, ConversationRef, Kind, Policy, Reason
from threadline.core.ports import MEMBER, Changes, Loaded, Story
from threadline.core.rules import membership
from threadline.flows.replay import Gap, Handed
from threadline.testing.clock import StillClock

THREAD = ConversationRef("slack", "T1", "root", "C1", kind=Kind.THREAD)


@pytest.fixture
async def tl(store: Store) -> Threadline:
    """Everything, on a store that knows the room."""
    line = Threadline(store)
    await line.conversations.ensure(ROOM)
    return line


async def say(line: Threadline, first: int, last: int) -> None:
    """Messages from `first` to `last`."""
    for message in numbered(first, last):
        await line.inbound.receive(message)


async def keep(line: Threadline, entries: int) -> int:
    """Keep the newest entries only; answers how many numbers the floor passed."""
    await line.conversations.change(ROOM, max_retained_entries=entries)
    return await line.upkeep.sweep()


@pytest.mark.acceptance("K1")
async def test_retention_by_entries_moves_the_floor_and_keeps_the_numbers(
    tl: Threadline,
) -> None:
    """K1: the newest stay; what is said next goes on counting."""
    await say(tl, 1, 10)

    passed = await keep(tl, 3)
    again = await tl.upkeep.sweep()
    taken = await tl.inbound.receive(said("11", "m11"))

    state = await tl.conversations.show(ROOM)
    assert (passed, again, taken.sequence) == (7, 0, 11)
    assert (state.earliest_sequence, state.lowest_sequence, state.head) == (8, 1, 11)
    assert state.history.value == "partial"
    assert await transcript(tl) == [(n, str(n)) for n in range(8, 12)]


@pytest.mark.acceptance("K1")
async def test_retention_by_age_goes_by_when_it_was_recorded(
    tl: Threadline, clock: StillClock
) -> None:
    """K1: exactly at the age it still stays; a bound that is lifted sweeps no more."""
    await say(tl, 1, 3)
    clock.move(hours=1)
    await say(tl, 4, 5)
    await tl.conversations.change(ROOM, max_age=timedelta(hours=2))

    swept = []
    for hours in (1, 0, 1):
        clock.move(hours=hours, microseconds=not hours)
        swept.append(await tl.upkeep.sweep())
    await tl.conversations.change(ROOM, max_age=None)
    clock.move(days=9)
    swept.append(await tl.upkeep.sweep())

    assert swept == [0, 3, 2, 0]
    assert await transcript(tl) == []
    assert (await tl.inbound.receive(said("6", "m6"))).sequence == 6


@pytest.mark.acceptance("K1")
async def test_more_than_a_thousand_old_records_are_swept_in_one_call(
    tl: Threadline, clock: StillClock
) -> None:
    """K1: however the store pages through them."""
    answers = await tl.inbound.receive_all(numbered(1, 2_500))
    assert len(answers) == 2_500
    await tl.conversations.change(ROOM, max_age=timedelta(hours=1))
    clock.move(hours=2)
    await tl.inbound.receive(said("young", "young"))

    assert await tl.upkeep.sweep() == 2_500
    assert await transcript(tl) == [(2_501, "young")]


@pytest.mark.acceptance("K1")
async def test_a_reader_below_the_floor_gets_the_gap_on_each_page_until_it_acks_past_it(
    tl: Threadline,
) -> None:
    """K1: the range is what it had not read; an ack inside of it narrows it."""
    await tl.members.join(ROOM, "agent")
    await say(tl, 1, 10)
    await tl.replay.ack(ROOM, "agent", 2)
    await keep(tl, 3)

    pages = [await tl.replay.backfill(ROOM, "agent", limit=2) for _ in range(2)]
    await tl.replay.ack(ROOM, "agent", 5)
    pages.append(await tl.replay.backfill(ROOM, "agent", limit=2))
    await tl.replay.ack(ROOM, "agent", 7)
    pages.append(await tl.replay.backfill(ROOM, "agent", limit=2))

    assert [page.gap for page in pages] == [Gap(3, 7), Gap(3, 7), Gap(6, 7), None]
    assert [[one.record.sequence for one in page.records] for page in pages] == [[8, 9]] * 4


@pytest.mark.acceptance("K1")
async def test_a_gap_says_only_what_the_policy_would_have_shown(tl: Threadline) -> None:
    """K1: what was said before a member's slice is no loss of its own."""
    await say(tl, 1, 4)
    await tl.members.join(ROOM, "since", policy="since_join")
    await tl.members.join(ROOM, "last", policy="last_n", n=2)
    await tl.members.join(ROOM, "all")
    await say(tl, 5, 10)
    await keep(tl, 3)
    await tl.members.join(ROOM, "late", policy="since_join")

    pages = {
        name: await tl.replay.backfill(ROOM, name) for name in ("since", "last", "all", "late")
    }

    assert {name: page.gap for name, page in pages.items()} == {
        "since": Gap(5, 7),
        "last": Gap(3, 7),
        "all": None,
        "late": None,
    }
    assert [len(page.records) for page in pages.values()] == [3, 3, 3, 0]


@pytest.mark.acceptance("K1")
async def test_a_follower_gets_one_gap_mark_and_then_goes_on(tl: Threadline) -> None:
    """K1: one mark with the range before what is left."""
    await tl.members.join(ROOM, "agent")
    await say(tl, 1, 10)
    await tl.replay.ack(ROOM, "agent", 2)
    await keep(tl, 3)

    items = await followed(tl, "agent")

    assert items[0] == Gap(3, 7)
    assert [item for item in items if isinstance(item, Gap)] == [Gap(3, 7)]
    assert handed(items) == [8, 9, 10]


@pytest.mark.acceptance("K1")
async def test_an_open_connection_that_falls_below_the_floor_is_told_what_it_missed(
    tl: Threadline,
) -> None:
    """K1: also where nothing was acknowledged yet; what it was handed already is no gap."""
    await tl.members.join(ROOM, "silent")
    await tl.members.join(ROOM, "acked")
    await say(tl, 1, 3)
    await tl.replay.ack(ROOM, "acked", 1)
    got: dict[str, list[object]] = {"silent": [], "acked": []}
    streams = {name: tl.replay.follow(name) for name in got}
    for name, stream in streams.items():
        async for item in stream:
            got[name].append(item)
            if len(got[name]) == 3 + (name == "silent"):
                break
    await say(tl, 4, 10)
    await keep(tl, 2)
    for name, stream in streams.items():
        async for item in stream:
            got[name].append(item)
            if isinstance(item, Handed) and item.record.sequence == 10:
                break
        await stream.aclose()  # type: ignore[attr-defined]

    for items in got.values():
        assert [item for item in items if isinstance(item, Gap)] == [Gap(4, 8)]
        assert [it.record.sequence for it in items if isinstance(it, Handed)][-2:] == [9, 10]


@pytest.mark.acceptance("K1", "B15")
async def test_a_redelivery_after_the_sweep_is_a_duplicate_and_revives_nothing(
    tl: Threadline,
) -> None:
    """B15: live, direct and imported."""
    await say(tl, 1, 5)
    await keep(tl, 1)

    live = await tl.inbound.receive(said("1", "m1"))
    direct = await tl.inbound.append(said("2", "m2"))
    window = await tl.hydration.begin(ROOM, owner="importer", mode="gated")
    [imported] = await tl.hydration.records(ROOM, window.token or "", numbered(3, 3))
    await tl.hydration.complete(ROOM, window.token or "")

    told = [(one.duplicate, one.sequence, one.record) for one in (live, direct, imported)]
    assert told == [(True, 1, None), (True, 2, None), (True, 3, None)]
    assert await transcript(tl) == [(5, "5")]


@pytest.mark.acceptance("K1")
async def test_what_was_swept_is_on_no_read_path(tl: Threadline) -> None:
    """K1: list, stream and search."""
    await tl.members.join(ROOM, "agent")
    await tl.inbound.receive(said("forgotten words", "m1"))
    await say(tl, 2, 3)
    await tl.search.catch_up()
    assert len((await tl.search.find("forgotten")).hits) == 1

    await keep(tl, 2)

    assert (await tl.search.find("forgotten")).hits == []
    assert handed(await followed(tl, "agent")) == [2, 3]
    assert (await tl.replay.lag(ROOM, "agent")).unread == 2


@pytest.mark.acceptance("K1", "D1")
async def test_a_gated_import_is_not_swept_while_it_is_under_way(tl: Threadline) -> None:
    """K1: the floor moves when the window has closed."""
    await tl.conversations.change(ROOM, max_retained_entries=2)
    window = await tl.hydration.begin(ROOM, owner="importer", mode="gated")
    await tl.hydration.records(ROOM, window.token or "", numbered(1, 5))

    during = await tl.upkeep.sweep()
    await tl.hydration.complete(ROOM, window.token or "")
    after = await tl.upkeep.sweep()

    assert (during, after) == (0, 3)


@pytest.mark.acceptance("K1")
async def test_retention_that_keeps_nothing_is_refused(tl: Threadline) -> None:
    """K1: a bound is at least one entry, and a positive span."""
    for wrong in ({"max_retained_entries": 0}, {"max_age": timedelta(0)}):
        with pytest.raises(InvalidInput):
            await tl.conversations.change(ROOM, **wrong)

    state = await tl.conversations.show(ROOM)
    assert (state.max_retained_entries, state.max_age) == (None, None)


@pytest.mark.acceptance("K1")
async def test_sweeping_and_appending_at_the_same_time_lose_nothing(tl: Threadline) -> None:
    """K1: the order stays dense, and the newest are always there."""
    await tl.conversations.change(ROOM, max_retained_entries=5)
    done = asyncio.Event()

    async def sweep() -> None:
        while not done.is_set():
            await tl.upkeep.sweep()

    async def append() -> None:
        await say(tl, 1, 60)
        done.set()

    await asyncio.gather(sweep(), append())
    await tl.upkeep.sweep()

    assert await transcript(tl) == [(n, str(n)) for n in range(56, 61)]


@pytest.mark.acceptance("C14", "E3")
async def test_a_round_ends_what_expired_and_a_second_round_finds_nothing(
    tl: Threadline, clock: StillClock
) -> None:
    """C14: the binding, its grant and the count; what has not expired stays."""
    end = clock.at + timedelta(hours=1)
    rooms = [ConversationRef("slack", "T1", f"R{n}") for n in range(5)]
    for n, room in enumerate(rooms):
        await tl.conversations.ensure(room)
        await tl.speakers.bind(room, "agent", expires_at=end if n % 2 else None)
    clock.at = end

    first = await tl.upkeep.round()
    second = await tl.upkeep.round()

    assert (first.bindings, second.bindings) == (2, 0)
    states = [await tl.conversations.show(room) for room in rooms]
    assert [(state.bound, state.members) for state in states] == [
        (True, 1),
        (False, 0),
        (True, 1),
        (False, 0),
        (True, 1),
    ]


@pytest.mark.acceptance("D7")
async def test_a_round_drains_every_window_that_ran_out(tl: Threadline, clock: StillClock) -> None:
    """D7: also of conversations where nobody says anything any more."""
    rooms = [ConversationRef("slack", "T1", f"R{n}") for n in range(4)]
    for n, room in enumerate(rooms):
        mode = "gated" if n % 2 else "prepending"
        await tl.hydration.begin(room, owner="dead", mode=mode, ensure=True)
        await tl.inbound.receive(said("live", "m1", conversation=room))
    clock.move(minutes=10)
    open_ = await tl.hydration.begin(ROOM, owner="alive", mode="gated")

    first = await tl.upkeep.round()
    second = await tl.upkeep.round()

    assert (first.windows, second.windows) == (4, 0)
    for room in rooms:
        assert (await tl.conversations.show(room)).hydration.value == "failed"
        assert await transcript(tl, room) == [(1, "live")]
    await tl.hydration.complete(ROOM, open_.token or "")


class Drift(Story[None]):
    """What a crash between two writes would have left, had there been two writes."""

    def __init__(self, room: str, seats: Iterable[tuple[str, str]]) -> None:
        self.room = number_of(room)
        self.seats = [(number_of(session), what) for session, what in seats]

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """`lost` removes a membership row, `closed` closes it, the rest are grants to add."""
        draft = Draft(loaded)
        assert self.room is not None
        conversation = draft.taken(self.room)
        assert conversation is not None
        for session, what in self.seats:
            assert session is not None
            member = draft.get(MEMBER, (self.room, session))
            if what == "lost":
                draft.put(MEMBER, (self.room, session), None)
            elif what == "closed":
                assert member is not None
                draft.put(MEMBER, (self.room, session), membership.leave(member, now))
            else:
                for reason in what.split("+"):
                    member = membership.join(
                        member,
                        conversation,
                        session,
                        by=Reason(reason),
                        policy=Policy(BackfillPolicy.ALL),
                        now=now,
                    )
                draft.put(MEMBER, (self.room, session), member)
        return draft.changes, None


async def drift(line: Threadline, **seats: str) -> None:
    """Bring the room's memberships out of step with who speaks in it."""
    room = (await line.conversations.show(ROOM)).id
    pairs = [((await line.sessions.create(name)).id, what) for name, what in seats.items()]
    await line.store.run(Drift(room, pairs))


async def reconcile(line: Threadline, where: ConversationRef = ROOM) -> list[str]:
    """One reconciling of a conversation."""
    number = number_of((await line.conversations.show(where)).id)
    assert number is not None
    return await line.upkeep.reconcile(number)


async def grants(line: Threadline, where: ConversationRef = ROOM) -> dict[str, set[str]]:
    """The members with their reasons."""
    members, _ = await line.members.of(where, limit=500)
    return {member.session_id: set(member.grants) for member in members}


@pytest.mark.case("B062", "B069")
@pytest.mark.parametrize("loss", ["lost", "closed"])
async def test_a_membership_that_was_lost_is_repaired_and_a_second_reconciling_is_idle(
    tl: Threadline, loss: str
) -> None:
    """B062, B069: memberships equal participants plus the binding again."""
    await tl.speakers.participant(ROOM, "alpha", "seated")
    await tl.speakers.bind(ROOM, "bound")
    await tl.members.join(ROOM, "invited")
    await tl.members.update(ROOM, "seated", metadata={"kept": loss == "closed"})
    await drift(tl, seated=loss, bound=loss)

    first = await reconcile(tl)
    second = await reconcile(tl)
    taken = await tl.inbound.receive(said("@alpha", "m1"))

    assert (sum("missing" in sentence for sentence in first), second) == (2, [])
    assert await grants(tl) == {"seated": {"group"}, "bound": {"binding"}, "invited": {"manual"}}
    assert (await tl.conversations.show(ROOM)).members == 3
    assert (await tl.members.show(ROOM, "seated")).handles == ("alpha",)
    assert taken.target_session_id == "seated"
    assert await unread(tl, "seated") == [1]
    await tl.speakers.remove_participant(ROOM, "alpha")
    assert "seated" not in await grants(tl)


@pytest.mark.case("B069")
async def test_a_membership_whose_reason_is_gone_ends_and_other_reasons_stay(
    tl: Threadline,
) -> None:
    """B069: each reason is judged alone."""
    await tl.members.join(ROOM, "invited")
    await tl.speakers.participant(ROOM, "alpha", "seated")
    await drift(tl, ghost="group+binding", invited="group", seated="binding")

    first = await reconcile(tl)
    second = await reconcile(tl)

    assert first
    assert second == []
    assert await grants(tl) == {"invited": {"manual"}, "seated": {"group"}}
    assert (await tl.members.show(ROOM, "seated")).handles == ("alpha",)
    with pytest.raises(MembershipNotFound):
        await tl.replay.backfill(ROOM, "ghost")


@pytest.mark.case("B062", "B069")
async def test_reconciling_undoes_no_removal_and_no_policy(
    tl: Threadline, clock: StillClock
) -> None:
    """B062, C13: removed, evicted and expired stay so; overrides are kept."""
    await tl.speakers.participant(ROOM, "alpha", "removed")
    await tl.speakers.participant(ROOM, "beta", "evicted")
    await tl.speakers.participant(ROOM, "gamma", "narrowed")
    await tl.speakers.bind(ROOM, "expired", expires_at=clock.at + timedelta(hours=1))
    await tl.members.leave(ROOM, "removed", reason="group")
    await tl.members.leave(ROOM, "evicted", evict=True)
    await tl.members.update(ROOM, "narrowed", override="since_join")
    clock.move(hours=1)
    before = await tl.members.show(ROOM, "narrowed")

    await reconcile(tl)
    await reconcile(tl)

    assert await grants(tl) == {"narrowed": {"group"}}
    assert await tl.members.show(ROOM, "narrowed") == before


@pytest.mark.case("B069")
@pytest.mark.acceptance("J2")
async def test_reconciling_makes_no_member_of_a_retired_session(tl: Threadline) -> None:
    """B069, J2: a handle that dangles is reported, not repaired."""
    await tl.speakers.participant(ROOM, "alpha", "gone")
    await drift(tl, gone="lost")
    await tl.sessions.retire("gone")

    said_so = await reconcile(tl)

    assert any("gone session" in sentence for sentence in said_so)
    assert await grants(tl) == {}


@pytest.mark.case("B069")
async def test_reconciling_a_thread_keeps_who_was_enrolled_from_its_room(tl: Threadline) -> None:
    """B069: their reason lies in the room."""
    await tl.speakers.participant(ROOM, "alpha", "seated")
    await tl.speakers.bind(ROOM, "bound")
    await tl.inbound.receive(said("root", "root"))
    await tl.inbound.receive(said("reply", "m2", conversation=THREAD, thread_root="root"))
    before = await grants(tl, THREAD)

    found = await reconcile(tl, THREAD)

    assert before == {"seated": {"group"}, "bound": {"binding"}}
    assert found == []
    assert await grants(tl, THREAD) == before


@pytest.mark.case("B069")
async def test_reconciling_a_group_of_many_hundreds_drifts_nobody_out(tl: Threadline) -> None:
    """B069: more seats, and more aliases, than one page of either holds."""
    count = 520
    await asyncio.gather(
        *(tl.speakers.participant(ROOM, f"h{n}", f"s{n}", aliases=(f"a{n}",)) for n in range(count))
    )
    await drift(tl, s7="lost")

    found = await reconcile(tl)
    again = await reconcile(tl)

    assert (sum("missing" in sentence for sentence in found), again) == (1, [])
    assert (await tl.conversations.show(ROOM)).members == count
    member = await tl.members.show(ROOM, "s7")
    assert member.handles == ("h7",)
