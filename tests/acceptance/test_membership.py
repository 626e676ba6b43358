"""Membership and replay: who reads, from where on, and how far it has read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Hashable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.speech import ROOM, followed, handed, numbered, said, spoken, transcript, unread
from threadline import Threadline
from threadline.core.errors import InvalidInput, MembershipNotFound
from threadline.core.model import (
    ALL,
    CONTROLLER,
    SINCE_JOIN,
    BackfillPolicy,
    ConversationRef,
    Kind,
    Policy,
    Reason,
    SessionCaller,
)
from threadline.core.ports import Changes, Loaded, Needs, Page, Story
from threadline.core.recording import Taken
from threadline.flows.inbound import Append
from threadline.flows.members import Join
from threadline.flows.replay import CaughtUp, Gap, Handed
from threadline.testing.clock import StillClock

SIDE = ConversationRef("slack", "T1", "C2")
THREAD = ConversationRef("slack", "T1", "m1", "C1", kind=Kind.THREAD)
LAST_3 = Policy(BackfillPolicy.LAST_N, 3)
SOON = 30.0


async def say(line: Threadline, first: int, last: int, **more: Any) -> None:
    """Somebody says these numbers."""
    for answer in await line.inbound.receive_all(numbered(first, last, **more)):
        assert isinstance(answer, Taken)


@pytest.mark.acceptance("C1")
@pytest.mark.parametrize(
    ("policy", "seen"),
    [
        (("all", None), list(range(1, 11))),
        (("since_join", None), []),
        (("last_n", 3), [8, 9, 10]),
        (("last_n", 1), [10]),
        (("last_n", 99), list(range(1, 11))),
    ],
)
async def test_a_latecomer_reads_what_its_policy_shows_of_the_past(
    tl: Threadline, policy: tuple[str, int | None], seen: list[int]
) -> None:
    """C1: and everything that follows."""
    await say(tl, 1, 10)

    member = await tl.members.join(ROOM, "late", policy=policy[0], n=policy[1])
    before = await unread(tl, "late")
    await say(tl, 11, 12)

    assert before == seen
    assert await unread(tl, "late") == [*seen, 11, 12]
    assert member.visible_from == (seen or [11])[0]
    mine = SessionCaller("late")
    assert [n for n, _ in await transcript(tl, caller=mine)] == [*seen, 11, 12]


@pytest.mark.acceptance("C1")
@pytest.mark.parametrize(
    ("policy", "n"), [("last_n", None), ("last_n", 0), ("last_n", -1), ("all", 3), ("some", None)]
)
async def test_a_policy_that_makes_no_sense_is_refused(
    tl: Threadline, policy: str, n: int | None
) -> None:
    """C1: nobody joins by half a wish."""
    await say(tl, 1, 1)

    with pytest.raises(InvalidInput):
        await tl.members.join(ROOM, "late", policy=policy, n=n)
    with pytest.raises(MembershipNotFound):
        await tl.members.leave(ROOM, (await tl.sessions.create("late")).session_id)


@pytest.mark.acceptance("C2")
async def test_joining_again_changes_nothing_and_a_further_reason_is_added(
    tl: Threadline, clock: StillClock
) -> None:
    """C2: not the stint, not the policy, not the cursor, not the count."""
    await say(tl, 1, 5)
    first = await tl.members.join(ROOM, "agent", policy="since_join")
    await say(tl, 6, 7)
    await tl.replay.ack(ROOM, "agent", 6)
    clock.move(hours=1)

    again = await tl.members.join(ROOM, "agent", policy="all")
    await tl.speakers.participant(ROOM, "desk", "agent")
    both = await tl.members.show(ROOM, "agent")

    assert (again.joined_at, again.joined_sequence) == (first.joined_at, first.joined_sequence)
    assert (again.policy, again.grants, again.cursor) == (SINCE_JOIN, {"manual": SINCE_JOIN}, 6)
    assert both.grants == {"manual": SINCE_JOIN, "group": ALL}
    assert (both.joined_sequence, both.policy) == (5, ALL)
    assert (await tl.conversations.show(ROOM)).members == 1


@pytest.mark.acceptance("C2")
async def test_many_who_let_one_session_join_at_once_make_one_member(tl: Threadline) -> None:
    """C2: idempotent also in one batch."""
    await say(tl, 1, 1)

    await asyncio.gather(*(tl.members.join(ROOM, "agent") for _ in range(20)))

    assert (await tl.conversations.show(ROOM)).members == 1
    assert len((await tl.members.of(ROOM))[0]) == 1
    assert len((await tl.sessions.page())[0]) == 1


@pytest.mark.acceptance("C3")
async def test_the_last_reason_closes_the_membership(tl: Threadline) -> None:
    """C3: one after the other."""
    await say(tl, 1, 2)
    await tl.members.join(ROOM, "agent")
    await tl.speakers.participant(ROOM, "desk", "agent")
    await tl.speakers.bind(ROOM, "agent")

    one = await tl.members.leave(ROOM, "agent", reason=Reason.MANUAL)
    two = await tl.members.leave(ROOM, "agent", reason="group")
    readable = await unread(tl, "agent")
    three = await tl.members.leave(ROOM, "agent", reason="binding")

    assert [set(it.grants) for it in (one, two, three)] == [
        {"group", "binding"},
        {"binding"},
        set(),
    ]
    assert [it.active for it in (one, two, three)] == [True, True, False]
    assert readable == []
    assert (await tl.speakers.show_group(ROOM)).participants == []
    assert await tl.speakers.binding(ROOM) is None
    with pytest.raises(MembershipNotFound):
        await tl.replay.backfill(ROOM, "agent")
    assert (await tl.conversations.show(ROOM)).members == 0


@pytest.mark.acceptance("C3")
@pytest.mark.parametrize("how", [{}, {"evict": True}], ids=["leave", "evict"])
async def test_leaving_or_evicting_takes_every_reason(tl: Threadline, how: dict[str, Any]) -> None:
    """C3: with the voice that went with it."""
    await say(tl, 1, 2)
    await tl.members.join(ROOM, "agent")
    await tl.speakers.participant(ROOM, "desk", "agent")
    await tl.speakers.bind(ROOM, "agent")

    left = await tl.members.leave(ROOM, "agent", **how)

    assert (left.active, left.grants, left.handles) == (False, {}, ())
    assert await tl.speakers.binding(ROOM) is None
    assert (await tl.speakers.show_group(ROOM)).participants == []


@pytest.mark.acceptance("C3")
async def test_a_reason_that_is_not_there_takes_nothing_away(tl: Threadline) -> None:
    """C3: an unknown word is refused, an absent reason changes nothing."""
    await say(tl, 1, 2)
    before = await tl.members.join(ROOM, "agent")

    after = await tl.members.leave(ROOM, "agent", reason="binding")
    with pytest.raises(InvalidInput):
        await tl.members.leave(ROOM, "agent", reason="boredom")

    assert after == before


@pytest.mark.acceptance("C4")
@pytest.mark.parametrize("how", [{}, {"evict": True}], ids=["leave", "evict"])
async def test_who_was_removed_reads_and_acknowledges_nothing(
    tl: Threadline, how: dict[str, Any]
) -> None:
    """C4: on every path of a session."""
    await say(tl, 1, 3)
    await tl.members.join(ROOM, "agent")
    await tl.search.catch_up()
    await tl.members.leave(ROOM, "agent", **how)

    await _reads_nothing(tl, "agent")

    with pytest.raises(MembershipNotFound) as refused:
        await tl.replay.ack(ROOM, "agent", 1)
    assert refused.value.code == "membership_not_found"


async def _reads_nothing(line: Threadline, session: str) -> None:
    mine = SessionCaller(session)
    paths: list[Awaitable[Any]] = [
        line.replay.backfill(ROOM, session),
        line.replay.ack(ROOM, session, 1),
        line.replay.lag(ROOM, session),
        line.members.show(ROOM, session),
        line.members.update(ROOM, session, override="all"),
        line.conversations.transcript(ROOM, caller=mine),
        line.conversations.transcript(ROOM, session=session),
        line.conversations.show(ROOM, caller=mine),
    ]
    for path in paths:
        with pytest.raises(MembershipNotFound):
            await path
    assert await followed(line, session) == []
    assert await followed(line, session, conversation=ROOM) == []
    assert (await line.search.find("1", caller=mine)).hits == []
    assert (await line.search.find("1", session=session)).hits == []
    assert (await line.members.conversations_of(session, caller=mine))[0] == []
    assert session not in {one.session_id for one in (await line.members.of(ROOM))[0]}


@pytest.mark.acceptance("C4")
@pytest.mark.parametrize("how", [{}, {"evict": True}], ids=["leave", "evict"])
@pytest.mark.parametrize("only", [None, ROOM], ids=["every room", "this room"])
async def test_a_stream_hands_on_nothing_that_was_fetched_before_the_removal(
    tl: Threadline, how: dict[str, Any], only: ConversationRef | None
) -> None:
    """C4: the third record of the page is never seen, nor what is said afterwards."""
    await say(tl, 1, 5)
    await tl.members.join(ROOM, "agent")
    stream = tl.replay.follow("agent", conversation=only, once=True)
    first = [await anext(stream), await anext(stream)]

    await tl.members.leave(ROOM, "agent", **how)
    await say(tl, 6, 6)
    rest = [item async for item in stream]

    assert handed(first) == [1, 2]
    assert rest == []


@pytest.mark.acceptance("C4")
async def test_a_stream_of_other_rooms_goes_on_after_a_removal(tl: Threadline) -> None:
    """C4: what was fetched elsewhere is fetched again, not lost."""
    for where in (ROOM, SIDE):
        await say(tl, 1, 5, conversation=where)
        await tl.members.join(where, "agent")
    stream = tl.replay.follow("agent", once=True)
    first = await anext(stream)
    assert isinstance(first, Handed)

    gone, kept = (ROOM, SIDE) if first.ref == ROOM else (SIDE, ROOM)
    await tl.members.leave(gone, "agent")
    rest = [item async for item in stream]

    assert handed(rest) == [1, 2, 3, 4, 5]
    assert {item.ref for item in rest if not isinstance(item, Gap)} == {kept}


@pytest.mark.acceptance("C5")
async def test_an_acknowledgement_goes_forward_only(tl: Threadline) -> None:
    """C5: 3 then 2 stays 3."""
    await say(tl, 1, 4)
    await tl.members.join(ROOM, "agent")

    after = [(await tl.replay.ack(ROOM, "agent", n)).last_read for n in (3, 2, 0, 3)]

    assert after == [3, 3, 3, 3]
    assert await unread(tl, "agent") == [4]


@pytest.mark.acceptance("C5")
async def test_an_acknowledgement_stays_within_what_was_said(tl: Threadline) -> None:
    """C5: over the head, or below what was ever allotted, is refused."""
    await say(tl, 1, 3)
    await tl.members.join(ROOM, "agent")

    for wrong in (4, -1, 10**18):
        with pytest.raises(InvalidInput):
            await tl.replay.ack(ROOM, "agent", wrong)
    untouched = (await tl.members.show(ROOM, "agent")).last_read
    begun = await tl.hydration.begin(ROOM, owner="importer")
    assert begun.token is not None
    await tl.hydration.records(ROOM, begun.token, [said("0", "h0"), said("-1", "h1")])
    await tl.hydration.complete(ROOM, begun.token)
    with pytest.raises(InvalidInput):
        await tl.replay.ack(ROOM, "agent", -3)
    await tl.replay.ack(ROOM, "agent", -2)
    first = await unread(tl, "agent")
    await tl.replay.ack(ROOM, "agent", -1)

    assert untouched is None
    assert first == [-1, 0, 1, 2, 3]
    assert await unread(tl, "agent") == [0, 1, 2, 3]


@pytest.mark.acceptance("C5")
@pytest.mark.parametrize("odd", [True, 1.0, "1", None])
async def test_an_acknowledgement_is_a_whole_number(tl: Threadline, odd: Any) -> None:
    """C5: nothing is guessed."""
    await say(tl, 1, 3)
    await tl.members.join(ROOM, "agent")

    with pytest.raises(InvalidInput):
        await tl.replay.ack(ROOM, "agent", odd)

    assert (await tl.members.show(ROOM, "agent")).last_read is None


@pytest.mark.acceptance("C6")
async def test_an_acknowledgement_below_the_joining_opens_nothing(tl: Threadline) -> None:
    """C6: joined at 5, ack(1), nothing of 1…5 ever shows."""
    await say(tl, 1, 5)
    await tl.members.join(ROOM, "agent", policy="since_join")

    for low in (1, 0, 3, 5):
        await tl.replay.ack(ROOM, "agent", low)
        assert await unread(tl, "agent") == []
    await say(tl, 6, 6)

    assert await unread(tl, "agent") == [6]
    assert [n for n, _ in await transcript(tl, session="agent")] == [6]
    assert handed(await followed(tl, "agent")) == [6]


@pytest.mark.acceptance("C6")
async def test_an_old_acknowledgement_opens_nothing_after_the_policy_was_narrowed(
    tl: Threadline,
) -> None:
    """C6: `all`, ack low, then `since_join`."""
    await say(tl, 1, 5)
    await tl.members.join(ROOM, "agent", policy="all")
    await tl.replay.ack(ROOM, "agent", 1)

    await tl.members.update(ROOM, "agent", override="since_join")
    narrowed = await unread(tl, "agent")
    await tl.replay.ack(ROOM, "agent", 2)

    assert narrowed == []
    assert await unread(tl, "agent") == []
    assert (await tl.members.show(ROOM, "agent")).cursor == 5


@pytest.mark.acceptance("C7")
@pytest.mark.parametrize(
    ("policy", "n", "seen"),
    [("all", None, [4, 5, 6]), ("since_join", None, [6]), ("last_n", 1, [5, 6])],
)
async def test_who_comes_back_goes_on_where_it_stopped(
    tl: Threadline, policy: str, n: int | None, seen: list[int]
) -> None:
    """C7: acked 3, left, 4–5 said, joined again; the cursor is kept in every case."""
    await tl.conversations.ensure(ROOM)
    await tl.members.join(ROOM, "agent", policy=policy, n=n)
    await say(tl, 1, 3)
    await tl.replay.ack(ROOM, "agent", 3)
    await tl.members.leave(ROOM, "agent")
    await say(tl, 4, 5)

    back = await tl.members.join(ROOM, "agent", policy=policy, n=n)
    await say(tl, 6, 6)

    assert back.last_read == 3
    assert await unread(tl, "agent") == seen


@pytest.mark.acceptance("C8")
async def test_an_override_narrows_a_grant_and_lifting_it_restores_the_grant(
    tl: Threadline,
) -> None:
    """C8: `since_join` wins over a group's `all`, and back."""
    await say(tl, 1, 5)
    await tl.speakers.participant(ROOM, "desk", "agent")

    narrowed = await tl.members.update(ROOM, "agent", override="since_join")
    narrow = await unread(tl, "agent")
    last = await tl.members.update(ROOM, "agent", override="last_n", n=2)
    few = await unread(tl, "agent")
    kept = await tl.members.update(ROOM, "agent", metadata={"note": 1})
    lifted = await tl.members.update(ROOM, "agent", override=None)

    assert (narrowed.policy, narrow) == (SINCE_JOIN, [])
    assert (last.policy, few) == (Policy(BackfillPolicy.LAST_N, 2), [4, 5])
    assert kept.override == last.override
    assert (lifted.override, lifted.policy) == (None, ALL)
    assert await unread(tl, "agent") == [1, 2, 3, 4, 5]


@pytest.mark.acceptance("C8")
async def test_an_override_widens_a_grant_too(tl: Threadline) -> None:
    """C8: it stands in the grant's place, whichever shows more."""
    await say(tl, 1, 5)
    await tl.members.join(ROOM, "agent", policy="since_join")

    await tl.members.update(ROOM, "agent", override="all")

    assert await unread(tl, "agent") == [1, 2, 3, 4, 5]


@pytest.mark.acceptance("C9")
async def test_a_binding_shows_what_follows_it_and_a_group_shows_everything(
    tl: Threadline,
) -> None:
    """C9: unless the bind asked for something else."""
    await say(tl, 1, 5)

    await tl.speakers.bind(ROOM, "bound")
    await tl.speakers.participant(ROOM, "desk", "grouped")

    assert (await tl.members.show(ROOM, "bound")).grants == {"binding": SINCE_JOIN}
    assert (await tl.members.show(ROOM, "grouped")).grants == {"group": ALL}
    assert await unread(tl, "bound") == []
    assert await unread(tl, "grouped") == [1, 2, 3, 4, 5]


@pytest.mark.acceptance("C9")
@pytest.mark.parametrize(
    ("asked", "n", "seen"), [("all", None, [1, 2, 3, 4, 5]), ("last_n", 3, [3, 4, 5])]
)
async def test_a_binding_shows_what_it_was_asked_for(
    tl: Threadline, asked: str, n: int | None, seen: list[int]
) -> None:
    """C9: and keeps it when it is bound again without a word about it."""
    await say(tl, 1, 5)

    await tl.speakers.bind(ROOM, "agent", policy=asked, n=n)
    await tl.speakers.bind(ROOM, "agent")

    assert await unread(tl, "agent") == seen


@pytest.mark.acceptance("C10")
@pytest.mark.parametrize("policy", ["all", "since_join"])
@pytest.mark.parametrize("before", [0, 1, 7, 120])
async def test_joining_amid_traffic_leaves_no_gap_and_no_repetition(
    tl: Threadline, policy: str, before: int
) -> None:
    """C10: joined, streamed and appended at once; what is handed on is contiguous."""
    await tl.conversations.ensure(ROOM)
    if before:
        await say(tl, 1, before)
    last = before + 60

    async def talk() -> None:
        for message in numbered(before + 1, last):
            await tl.inbound.receive(message)

    async def read() -> list[int]:
        member = await tl.members.join(ROOM, "agent", policy=policy)
        missed = member.joined_sequence if policy == "since_join" else 0
        seen: list[int] = []
        stream = tl.replay.follow("agent", patience=SOON)
        async for item in stream:
            if isinstance(item, Handed):
                seen.append(item.record.sequence)
            if seen[-1:] == [last] or (isinstance(item, CaughtUp) and missed == last):
                break
        await stream.aclose()  # type: ignore[attr-defined]
        assert seen == list(range(missed + 1, last + 1))
        return seen

    talking = asyncio.create_task(talk())
    readers = []
    for turn in range(4):
        for _ in range(turn * 3):
            await asyncio.sleep(0)
        readers.append(await read())
        await tl.members.leave(ROOM, "agent")
    await talking

    assert readers[0][-1] == last


@pytest.mark.acceptance("C10")
async def test_many_who_join_amid_traffic_each_get_a_contiguous_slice(tl: Threadline) -> None:
    """C10: in one batch with the appends, at every place among them."""
    await say(tl, 1, 3)
    stories: list[Story[Any]] = []
    for n in range(4, 44):
        stories.append(Append(said(str(n), f"m{n}")))
        stories.append(_join(f"agent{n}", SINCE_JOIN if n % 2 else ALL))

    answers = await tl.store.run_all(stories)

    assert not [one for one in answers if isinstance(one, Exception)]
    for n in range(4, 44):
        start = n + 1 if n % 2 else 1
        assert await unread(tl, f"agent{n}") == list(range(start, 44)), n


def _join(session: str, policy: Policy, where: ConversationRef = ROOM) -> Join:
    return Join(
        where=where,
        session=session,
        scope="default",
        caller=CONTROLLER,
        policy=policy,
    )


@dataclass(slots=True)
class Effort:
    """What a story asked for and wrote: the cost of an append in rows, free of any clock."""

    loaded: set[Hashable] = field(default_factory=set)
    rows: int = 0
    written: int = 0


class Watching:
    """A `Loaded` that notes what is asked of it."""

    def __init__(self, loaded: Loaded, effort: Effort) -> None:
        self._loaded = loaded
        self._effort = effort

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loaded, name)

    def get(self, noun: Any, key: Any) -> Any:
        """Note the row."""
        found = self._loaded.get(noun, key)
        self._effort.loaded.add((noun.name, str(key)))
        return found

    def page(self, page: Page[Any]) -> list[Any]:
        """Note how many rows the question has."""
        rows = self._loaded.page(page)
        self._effort.loaded.add(page.query.name)
        self._effort.rows += len(rows)
        return rows


@dataclass(frozen=True, slots=True)
class Watched(Story[Taken]):
    """An append that is watched."""

    append: Append
    effort: Effort

    def needs(self) -> Needs:
        """The append's."""
        return self.append.needs()

    def more(self, loaded: Loaded) -> Needs:
        """The append's, counted."""
        needs = self.append.more(loaded)
        self.effort.loaded |= {(noun.name, str(key)) for noun, key in (*needs.rows, *needs.hold)}
        return needs

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Taken]:
        """The append's, watched."""
        changes, taken = self.append.decide(Watching(loaded, self.effort), now)
        self.effort.written = len(changes.rows) + len(changes.records)
        return changes, taken


async def effort_of(line: Threadline, text: str) -> tuple[int, int, int]:
    """What it takes to say something in the room."""
    effort = Effort()
    await line.store.run(Watched(Append(said(text, text)), effort))
    return len(effort.loaded), effort.rows, effort.written


@pytest.mark.acceptance("C11")
async def test_an_append_asks_no_more_of_ten_thousand_members_than_of_ten(tl: Threadline) -> None:
    """C11: it loads and writes the same number of rows."""
    await say(tl, 1, 1)
    await tl.speakers.participant(ROOM, "desk", "agent")
    await tl.speakers.group(ROOM, default_handle="desk")
    texts = ("hello", "@desk hello", "@agent9 hello")
    await tl.store.run_all([_join(f"agent{n}", ALL) for n in range(9)])
    few = [await effort_of(tl, f"{text} 1") for text in texts]
    await tl.store.run_all([_join(f"agent{n}", ALL) for n in range(9, 9_999)])

    many = [await effort_of(tl, f"{text} 2") for text in texts]

    assert (await tl.conversations.show(ROOM)).members == 10_000
    assert many == few
    assert all(rows == 0 and loaded < 10 for loaded, rows, _ in many)
    assert await unread(tl, "agent9998") == list(range(1, 8))


@pytest.mark.acceptance("C12")
async def test_devices_of_one_session_share_the_farthest_acknowledgement(tl: Threadline) -> None:
    """C12: whoever acknowledges, in whichever order; the other sees it."""
    await say(tl, 1, 9)
    await tl.members.join(ROOM, "agent")
    phone, laptop = SessionCaller("agent"), SessionCaller("agent")

    await asyncio.gather(
        *(tl.replay.ack(ROOM, "agent", n, caller=phone) for n in (2, 5, 4)),
        *(tl.replay.ack(ROOM, "agent", n, caller=laptop) for n in (7, 3)),
    )

    assert (await tl.members.show(ROOM, "agent")).last_read == 7
    assert await unread(tl, "agent", caller=phone) == [8, 9]
    assert await unread(tl, "agent", caller=laptop) == [8, 9]
    assert handed(await followed(tl, "agent", caller=laptop)) == [8, 9]


@pytest.mark.acceptance("C13")
async def test_eviction_takes_the_voice_and_the_reconciler_does_not_bring_it_back(
    tl: Threadline,
) -> None:
    """C13: handles, binding, membership; only a later explicit grant re-admits."""
    taken = await tl.inbound.receive(said("1", "m1"))
    await tl.speakers.participant(ROOM, "desk", "agent", aliases=("front",))
    await tl.speakers.participant(ROOM, "help", "agent")
    await tl.speakers.group(ROOM, default_handle="desk", last_addressed_handle="help")
    await tl.speakers.bind(ROOM, "agent")

    await tl.members.leave(ROOM, "agent", evict=True)
    found = await tl.upkeep.reconcile(taken.conversation)
    await tl.upkeep.round()
    spoken_to = [await tl.inbound.receive(said(text)) for text in ("hi", "@front hi", "@help hi")]

    assert found == []
    group = await tl.speakers.show_group(ROOM)
    assert (group.participants, group.last_addressed_handle) == ([], None)
    assert await tl.speakers.binding(ROOM) is None
    assert {one.target_session_id for one in spoken_to} == {None}
    with pytest.raises(MembershipNotFound):
        await tl.replay.backfill(ROOM, "agent")
    await tl.members.join(ROOM, "agent")
    assert await unread(tl, "agent") == [1, 2, 3, 4]


@pytest.mark.acceptance("C13")
async def test_the_evicted_come_back_neither_by_a_default_route_nor_by_a_thread(
    tl: Threadline,
) -> None:
    """C13: what nobody granted on purpose re-admits nobody."""
    dm = ConversationRef("slack", "T1", "D1", kind=Kind.DM)
    await tl.speakers.default_route("slack", "T1", "agent")
    await tl.inbound.receive(said("hi", "d1", conversation=dm))
    await tl.members.leave(dm, "agent", evict=True)
    await tl.inbound.receive(said("1", "m1"))
    await tl.speakers.participant(ROOM, "desk", "agent")
    await tl.inbound.receive(said("2", "m2", conversation=THREAD, thread_root="m1"))
    await tl.members.leave(THREAD, "agent", evict=True)
    await tl.speakers.participant(ROOM, "other", "other")

    again = await tl.inbound.receive(said("hi again", "d2", conversation=dm))
    await tl.inbound.receive(said("3", "m3", conversation=THREAD, thread_root="m1"))

    assert again.target_session_id is None
    for where in (dm, THREAD):
        with pytest.raises(MembershipNotFound):
            await tl.replay.backfill(where, "agent")
    assert (await tl.members.show(THREAD, "other")).active


@pytest.mark.acceptance("C13")
async def test_an_override_outlives_leaving_and_joining(tl: Threadline) -> None:
    """C13: only a change of it clears it."""
    await say(tl, 1, 5)
    await tl.members.join(ROOM, "agent", policy="all")
    await tl.members.update(ROOM, "agent", override="last_n", n=3)

    await tl.members.leave(ROOM, "agent")
    back = await tl.members.join(ROOM, "agent", policy="all")
    await tl.members.leave(ROOM, "agent", evict=True)
    again = await tl.members.join(ROOM, "agent", policy="all")
    cleared = await tl.members.update(ROOM, "agent", override=None)

    assert [one.override for one in (back, again, cleared)] == [LAST_3, LAST_3, None]
    assert await unread(tl, "agent") == [1, 2, 3, 4, 5]


@pytest.mark.acceptance("C14")
async def test_an_expired_binding_shows_nothing_on_any_path_before_any_sweep(
    tl: Threadline, clock: StillClock
) -> None:
    """C14: from that instant on."""
    await say(tl, 1, 3)
    await tl.search.catch_up()
    until = clock() + timedelta(minutes=5)
    await tl.speakers.bind(ROOM, "agent", policy="all", expires_at=until)
    clock.move(minutes=4, seconds=59.999)
    before = await unread(tl, "agent")

    clock.move(seconds=0.001)

    assert before == [1, 2, 3]
    await _reads_nothing(tl, "agent")
    assert await tl.speakers.binding(ROOM) is None
    await tl.upkeep.round()
    assert (await tl.conversations.show(ROOM)).members == 0


@pytest.mark.acceptance("C14")
async def test_an_expired_grant_leaves_the_others_as_they_are(
    tl: Threadline, clock: StillClock
) -> None:
    """C14: what the binding showed in addition is gone, what the hand granted is not."""
    await say(tl, 1, 3)
    await tl.members.join(ROOM, "agent", policy="since_join")
    until = clock() + timedelta(minutes=5)
    await tl.speakers.bind(ROOM, "agent", policy="all", expires_at=until)
    await say(tl, 4, 4)
    before = await unread(tl, "agent")

    clock.move(minutes=5)

    assert before == [1, 2, 3, 4]
    assert await unread(tl, "agent") == [4]
    assert (await tl.members.show(ROOM, "agent")).grants == {"manual": SINCE_JOIN}


@pytest.mark.acceptance("C14")
async def test_a_stream_ends_for_an_expired_grant_at_that_instant(
    tl: Threadline, clock: StillClock
) -> None:
    """C14: also for records that were fetched while it held."""
    await say(tl, 1, 5)
    until = clock() + timedelta(minutes=5)
    await tl.speakers.bind(ROOM, "agent", policy="all", expires_at=until)
    stream = tl.replay.follow("agent", once=True)
    first = [await anext(stream), await anext(stream)]

    clock.move(minutes=5)
    rest = [item async for item in stream]

    assert handed(first) == [1, 2]
    assert rest == []


@pytest.mark.acceptance("C15")
@pytest.mark.parametrize("only", [None, ROOM, "id"], ids=["every room", "by ref", "by id"])
async def test_a_connection_repeats_nothing_and_is_caught_up_once(
    tl: Threadline, only: Any
) -> None:
    """C15: nothing is acknowledged, more is said, and still each comes once."""
    await say(tl, 1, 3)
    member = await tl.members.join(ROOM, "agent")
    where = member.conversation if only == "id" else only
    stream = tl.replay.follow("agent", conversation=where, patience=SOON)
    backlog = [await anext(stream) for _ in range(4)]

    live = []
    for n in (4, 5, 6):
        await say(tl, n, n)
        live.append(await anext(stream))
    await stream.aclose()  # type: ignore[attr-defined]

    assert handed(backlog) == [1, 2, 3]
    assert isinstance(backlog[3], CaughtUp)
    assert handed(live) == [4, 5, 6]


@pytest.mark.acceptance("C15")
async def test_what_was_not_acknowledged_comes_again_in_the_next_connection(
    tl: Threadline,
) -> None:
    """C15: and only that; the backlog of each conversation is announced as out."""
    await say(tl, 1, 3)
    await say(tl, 1, 2, conversation=SIDE)
    await tl.members.join(ROOM, "agent")
    await tl.members.join(SIDE, "agent")

    first = await followed(tl, "agent")
    await tl.replay.ack(ROOM, "agent", 2)
    await tl.replay.ack(SIDE, "agent", 2)
    second = await followed(tl, "agent")

    assert sorted(handed(first)) == [1, 1, 2, 2, 3]
    assert handed(second) == [3]
    for items in (first, second):
        caught_up = [one.ref for one in items if isinstance(one, CaughtUp)]
        assert len(caught_up) == 2
        assert set(caught_up) == {ROOM, SIDE}


@pytest.mark.acceptance("C15")
async def test_the_end_of_the_backlog_comes_after_all_of_it(tl: Threadline) -> None:
    """C15: also where it fills several pages, and where there is none."""
    await say(tl, 1, 230)
    await tl.members.join(ROOM, "agent")

    items = await followed(tl, "agent")
    await tl.replay.ack(ROOM, "agent", 230)
    nothing = await followed(tl, "agent")

    assert handed(items) == list(range(1, 231))
    assert isinstance(items[-1], CaughtUp)
    assert [type(one) for one in nothing] == [CaughtUp]


@pytest.mark.acceptance("C15")
async def test_who_comes_back_within_a_connection_is_not_handed_the_same_again(
    tl: Threadline,
) -> None:
    """C15: leaving and joining while the stream is open repeats nothing."""
    await say(tl, 1, 2)
    await tl.members.join(ROOM, "agent")
    stream = tl.replay.follow("agent", patience=SOON)
    first = [await anext(stream) for _ in range(3)]

    await tl.members.leave(ROOM, "agent")
    await tl.members.join(ROOM, "agent")
    await say(tl, 3, 3)
    after = await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]

    assert handed(first) == [1, 2]
    assert handed([after]) == [3]


@pytest.mark.acceptance("C15")
async def test_a_sessions_own_words_are_left_out_unless_asked_for(tl: Threadline) -> None:
    """C15: they are read past, not repeated."""
    await say(tl, 1, 1)
    await tl.members.join(ROOM, "agent")
    await tl.store.run(Append(spoken("mine", "o1"), said_by="agent"))
    await say(tl, 3, 3)

    assert handed(await followed(tl, "agent")) == [1, 3]
    assert handed(await followed(tl, "agent", own=True)) == [1, 2, 3]
    assert await unread(tl, "agent") == [1, 3]
    assert (await tl.replay.lag(ROOM, "agent")).unread == 2
