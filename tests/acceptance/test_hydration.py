"""Importing history: windows that gate or prepend, what waits meanwhile, and how they end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.conftest import Store, open_at
from tests.speech import (
    ROOM,
    followed,
    handed,
    numbered,
    said,
    spoken,
    transcript,
    unread,
)
from threadline import Threadline
from threadline.core.errors import (
    HistorySwept,
    HydrationConflict,
    HydrationPending,
    InvalidInput,
    StaleToken,
    Unauthorized,
)
from threadline.core.model import (
    AdapterCaller,
    ConversationRef,
    Direction,
    Event,
    History,
    Hydration,
    Provenance,
    SessionCaller,
    WindowMode,
)
from threadline.core.recording import Door
from threadline.core.rules.limits import Limits
from threadline.flows.inbound import Append
from threadline.flows.replay import CaughtUp, Handed
from threadline.testing.clock import StillClock


async def gated(line: Threadline, **more: str) -> str:
    """An open gated import of the room; answers its token."""
    asked = {"owner": "importer", "mode": "gated"} | more
    state = await line.hydration.begin(ROOM, ensure=True, **asked)  # type: ignore[arg-type]
    assert state.token is not None
    return state.token


async def prepending(line: Threadline, **more: str) -> str:
    """An open prepending import of the room; answers its token."""
    return await gated(line, **({"mode": "prepending"} | more))


@pytest.mark.acceptance("D1")
async def test_while_a_gated_import_is_under_way_callers_and_readers_are_told_to_wait(
    tl: Threadline,
) -> None:
    """D1: direct append and backfill are refused, imports and joining are not."""
    token = await gated(tl)

    taken = await tl.hydration.records(ROOM, token, numbered(1, 2))
    with pytest.raises(HydrationPending) as refused:
        await tl.inbound.append(said("now", "m9"))
    member = await tl.members.join(ROOM, "agent")
    with pytest.raises(HydrationPending):
        await tl.replay.backfill(ROOM, "agent")
    with pytest.raises(HydrationPending):
        await tl.replay.ack(ROOM, "agent", 1)

    assert [one.sequence for one in taken] == [1, 2]
    assert refused.value.facts["owner"] == "importer"
    assert member.active
    assert await transcript(tl) == [(1, "1"), (2, "2")]


@pytest.mark.acceptance("D1", "B3")
async def test_a_duplicate_of_a_stored_message_is_answered_as_ever_while_gated(
    tl: Threadline,
) -> None:
    """D1, B3: it is no error, whoever brings it."""
    await tl.inbound.receive(said("first", "m1"))
    await gated(tl)

    appended = await tl.inbound.append(said("again", "m1"))
    received = await tl.inbound.receive(said("again", "m1"))

    assert [one.duplicate for one in (appended, received)] == [True, True]
    assert not received.held
    assert appended.record is not None
    assert (appended.record.sequence, appended.record.text) == (1, "first")


@pytest.mark.acceptance("A10", "G6")
async def test_what_a_session_said_and_was_heard_first_while_gated_is_the_sessions(
    tl: Threadline,
) -> None:
    """A10: an import or an echo only was quicker; the reader is not shown its own words."""
    await tl.conversations.ensure(ROOM)
    await tl.members.join(ROOM, "agent")
    token = await gated(tl)
    await tl.inbound.receive(said("hello", "w9"))

    again = await tl.store.run(Append(spoken("hello", "w9"), Door.HEARD, said_by="agent"))
    await tl.hydration.complete(ROOM, token)

    [record] = (await tl.conversations.transcript(ROOM)).records
    assert (again.held, again.duplicate) == (True, True)
    assert (record.direction, record.source_session_id) == (Direction.OUTBOUND, "agent")
    assert await unread(tl, "agent") == []


@pytest.mark.acceptance("D2")
@pytest.mark.parametrize("ending", ["complete", "fail"])
async def test_what_was_held_is_appended_in_arrival_order_however_the_import_ends(
    tl: Threadline, ending: str
) -> None:
    """D2: also after a failure."""
    await tl.members.join(await _made(tl), "agent")
    token = await gated(tl)
    held = [await tl.inbound.receive(one) for one in numbered(13, 11)]
    await tl.hydration.records(ROOM, token, numbered(1, 2))

    if ending == "complete":
        state = await tl.hydration.complete(ROOM, token)
    else:
        state = await tl.hydration.fail(ROOM, token, "the disk is full")

    assert all(one.held and one.record is None and one.readers == 1 for one in held)
    assert await transcript(tl) == [(1, "1"), (2, "2"), (3, "13"), (4, "12"), (5, "11")]
    assert state.hydration.value == ("complete" if ending == "complete" else "failed")
    assert await unread(tl, "agent") == [1, 2, 3, 4, 5]


async def _made(line: Threadline) -> ConversationRef:
    await line.conversations.ensure(ROOM)
    return ROOM


CHILD = """
import asyncio, sys
from pathlib import Path
from tests.conftest import KEY, open_at
from tests.speech import ROOM, numbered
from threadline import Threadline

async def main():
    line = Threadline(await open_at(sys.argv[1], KEY))
    state = await line.hydration.begin(ROOM, owner="importer", mode="gated", ensure=True)
    await line.hydration.records(ROOM, state.token, numbered(1, 3))
    for message in numbered(11, 13):
        assert (await line.inbound.receive(message)).held
    print(state.token, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.acceptance("D2")
async def test_what_was_held_survives_a_kill_while_pending(store_url: str, key: bytes) -> None:
    """D2: after a kill -9 the importer goes on with its token and the held messages follow."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", CHILD, store_url),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert child.stdout is not None
    token = (await child.stdout.readline()).decode().strip()
    child.kill()
    await child.wait()
    store = await open_at(store_url, key)
    line = Threadline(store)

    again = await line.inbound.receive(said("12", "m12"))
    more = await line.hydration.records(ROOM, token, numbered(3, 4))
    await line.hydration.complete(ROOM, token)

    assert (again.held, again.duplicate) == (True, True)
    assert [one.duplicate for one in more] == [True, False]
    texts = [text for _, text in await transcript(line)]
    assert texts == ["1", "2", "3", "4", "11", "12", "13"]
    await store.close()


@pytest.mark.acceptance("D3")
async def test_words_of_ours_confirmed_while_pending_are_recorded_after_completion(
    tl: Threadline,
) -> None:
    """D3: as ours, with the session that said them, so that it does not get them back."""
    await tl.sessions.create("agent")
    token = await gated(tl)
    await tl.members.join(ROOM, "agent")

    settled = await tl.store.run(Append(spoken("done", "s1"), Door.HEARD, said_by="agent"))
    await tl.hydration.records(ROOM, token, numbered(1, 2))
    await tl.hydration.complete(ROOM, token)

    page = await tl.conversations.transcript(ROOM)
    assert settled.held
    assert [(r.sequence, r.direction.value) for r in page.records] == [
        (1, "inbound"),
        (2, "inbound"),
        (3, "outbound"),
    ]
    assert page.records[2].source_session_id == "agent"
    assert await unread(tl, "agent") == [1, 2]


@pytest.mark.acceptance("D4")
async def test_only_a_pending_import_can_be_completed_or_failed(tl: Threadline) -> None:
    """D4: complete needs pending; failed after complete is an error."""
    await tl.conversations.ensure(ROOM)
    with pytest.raises(HydrationConflict):
        await tl.hydration.complete(ROOM, "no-token")
    token = await gated(tl)
    await tl.hydration.complete(ROOM, token)

    with pytest.raises(HydrationConflict):
        await tl.hydration.fail(ROOM, token, "too late")
    with pytest.raises(HydrationConflict):
        await tl.hydration.complete(ROOM, token)
    with pytest.raises(HydrationConflict):
        await tl.hydration.records(ROOM, token, numbered(1, 1))

    state = await tl.conversations.show(ROOM)
    assert (state.hydration, state.history) == (Hydration.COMPLETE, History.COMPLETE)
    assert await transcript(tl) == []


@pytest.mark.acceptance("D4")
async def test_beginning_again_gives_the_owner_its_window_and_refuses_others(
    tl: Threadline,
) -> None:
    """D4: begin is idempotent while pending; another owner hears who holds it, and until when."""
    first = await gated(tl)

    second = await gated(tl)
    unstated = await tl.hydration.begin(ROOM, owner="importer")
    with pytest.raises(HydrationPending) as refused:
        await tl.hydration.begin(ROOM, owner="somebody else")
    with pytest.raises(StaleToken):
        await tl.hydration.records(ROOM, "guessed", numbered(1, 1))

    assert first == second == unstated.token
    assert set(refused.value.facts) == {"owner", "until"}
    assert refused.value.facts["owner"] == "importer"


@pytest.mark.acceptance("D4")
async def test_each_call_renews_the_lease_but_not_the_end_of_a_gated_window(
    tl: Threadline, clock: StillClock
) -> None:
    """D4: ten minutes of silence, or fifteen minutes in all."""
    token = await gated(tl)

    clock.move(minutes=9)
    await tl.hydration.records(ROOM, token, numbered(1, 1))
    clock.move(minutes=5, seconds=59)
    await tl.hydration.records(ROOM, token, numbered(2, 2))
    clock.move(seconds=1)
    with pytest.raises(StaleToken):
        await tl.hydration.records(ROOM, token, numbered(3, 3))
    await tl.upkeep.round()

    state = await tl.conversations.show(ROOM)
    assert state.hydration is Hydration.FAILED
    assert "longer" in state.reason
    assert await transcript(tl) == [(1, "1"), (2, "2")]


@pytest.mark.acceptance("D5")
async def test_a_failed_import_stays_readable_and_every_page_says_that_it_is_partial(
    tl: Threadline,
) -> None:
    """D5: with the reason."""
    await tl.members.join(await _made(tl), "agent")
    token = await gated(tl)
    await tl.hydration.records(ROOM, token, numbered(1, 3))

    await tl.hydration.fail(ROOM, token, "the export breaks off")

    pages = [await tl.replay.backfill(ROOM, "agent", limit=2)]
    await tl.replay.ack(ROOM, "agent", 2)
    pages.append(await tl.replay.backfill(ROOM, "agent", limit=2))
    listed = await tl.conversations.transcript(ROOM)
    own = await tl.conversations.transcript(ROOM, session="agent", order="desc")
    assert [[one.record.sequence for one in page.records] for page in pages] == [[1, 2], [3]]
    told = [(page.history, page.reason) for page in pages]
    told += [(page.history, page.reason) for page in (listed, own)]
    assert told == [(History.PARTIAL, "the export breaks off")] * 4


@pytest.mark.acceptance("D5")
async def test_history_is_none_before_an_import_partial_during_and_complete_after_it(
    tl: Threadline,
) -> None:
    """D5: what a page says follows the state."""
    said_so = []
    await tl.inbound.receive(said("hello", "m9"))
    said_so.append((await tl.conversations.transcript(ROOM)).history)
    token = await prepending(tl)
    said_so.append((await tl.conversations.transcript(ROOM)).history)
    await tl.hydration.complete(ROOM, token)
    said_so.append((await tl.conversations.transcript(ROOM)).history)
    local = await tl.conversations.ensure("web/office/lobby")

    assert said_so == [History.NONE, History.PARTIAL, History.COMPLETE]
    assert local.history is History.COMPLETE


@pytest.mark.acceptance("D6")
@pytest.mark.parametrize("mode", ["gated", "prepending"])
async def test_a_failed_import_is_resumed_in_its_mode_without_duplicates(
    tl: Threadline, mode: str
) -> None:
    """D6: known ids are skipped, unknown ones go where the mode puts them."""
    history = numbered(1, 5) if mode == "gated" else numbered(5, 1)
    token = await gated(tl, mode=mode)
    await tl.hydration.records(ROOM, token, history[:3])
    await tl.hydration.fail(ROOM, token, "interrupted")

    state = await tl.hydration.begin(ROOM, owner="importer")
    assert state.token not in (None, token)
    taken = await tl.hydration.records(ROOM, state.token or "", history)
    await tl.hydration.complete(ROOM, state.token or "")

    assert state.mode is WindowMode(mode)
    assert [one.duplicate for one in taken] == [True, True, True, False, False]
    assert [text for _, text in await transcript(tl)] == ["1", "2", "3", "4", "5"]
    shown = await tl.conversations.show(ROOM)
    assert (shown.hydration, shown.history, shown.reason) == (
        Hydration.COMPLETE,
        History.COMPLETE,
        "",
    )


@pytest.mark.acceptance("D7")
@pytest.mark.parametrize("mode", ["gated", "prepending"])
async def test_a_dead_importers_lease_runs_out_and_its_late_complete_is_refused(
    tl: Threadline, clock: StillClock, mode: str
) -> None:
    """D7: failed with the reason, held traffic flows."""
    await tl.members.join(await _made(tl), "agent")
    token = await gated(tl, mode=mode)
    await tl.hydration.records(ROOM, token, numbered(2, 2))
    await tl.inbound.receive(said("live", "m9"))

    clock.move(minutes=10)
    with pytest.raises(StaleToken):
        await tl.hydration.complete(ROOM, token)
    await tl.upkeep.round()
    with pytest.raises(HydrationConflict):
        await tl.hydration.complete(ROOM, token)

    state = await tl.conversations.show(ROOM)
    assert state.hydration is Hydration.FAILED
    assert "importer" in state.reason
    page = await tl.replay.backfill(ROOM, "agent")
    assert [one.record.text for one in page.records] == ["2", "live"]
    assert (page.history, page.reason) == (History.PARTIAL, state.reason)


@pytest.mark.acceptance("D7")
@pytest.mark.parametrize("mode", ["gated", "prepending"])
async def test_the_next_message_ends_a_window_that_ran_out_before_any_sweep(
    tl: Threadline, clock: StillClock, mode: str
) -> None:
    """D7: by the clock, not by the sweep, and whichever way the message comes."""
    await gated(tl, mode=mode)
    await tl.inbound.receive(said("one", "m1"))
    clock.move(minutes=10)

    await tl.inbound.append(said("two", "m2"))
    await tl.inbound.receive(said("three", "m3"))

    assert [text for _, text in await transcript(tl)] == ["one", "two", "three"]
    assert (await tl.conversations.show(ROOM)).hydration is Hydration.FAILED


@pytest.mark.acceptance("D7")
async def test_another_importer_takes_over_a_window_that_ran_out(
    tl: Threadline, clock: StillClock
) -> None:
    """D7: the fence is the token; what was held is appended before the new window opens."""
    old = await gated(tl)
    await tl.hydration.records(ROOM, old, numbered(1, 2))
    await tl.inbound.receive(said("live", "m9"))
    clock.move(minutes=10)

    state = await tl.hydration.begin(ROOM, owner="another", mode="gated")
    with pytest.raises(StaleToken):
        await tl.hydration.records(ROOM, old, numbered(3, 3))
    await tl.hydration.records(ROOM, state.token or "", numbered(2, 3))
    await tl.hydration.complete(ROOM, state.token or "")

    assert await transcript(tl) == [(1, "1"), (2, "2"), (3, "live"), (4, "3")]


@pytest.mark.acceptance("D8")
async def test_history_is_put_in_front_of_a_live_conversation_and_read_in_order(
    tl: Threadline,
) -> None:
    """D8: -4…0 before 1…3, in pages of two, each once, while live appends go on."""
    for message in numbered(101, 103):
        await tl.inbound.receive(message)
    await tl.members.join(ROOM, "early")
    await tl.replay.ack(ROOM, "early", 3)
    state = await tl.hydration.begin(ROOM, owner="importer")
    token = state.token or ""
    await tl.hydration.records(ROOM, token, numbered(5, 3))
    await tl.hydration.records(ROOM, token, numbered(2, 1))
    await tl.hydration.complete(ROOM, token)

    await tl.members.join(ROOM, "late")
    pages = []
    for ack in (-3, -1, 1, 3):
        page = await tl.replay.backfill(ROOM, "late", limit=2)
        pages.append([one.record.sequence for one in page.records])
        await tl.replay.ack(ROOM, "late", ack)
        await tl.inbound.receive(said("more", f"live{ack}"))

    assert state.mode is WindowMode.PREPENDING
    assert pages == [[-4, -3], [-2, -1], [0, 1], [2, 3]]
    assert await unread(tl, "late") == [4, 5, 6, 7]
    assert await unread(tl, "early") == [4, 5, 6, 7]
    listed = await transcript(tl, session="early")
    assert listed[:8] == list(
        zip(range(-4, 4), ["1", "2", "3", "4", "5", "101", "102", "103"], strict=True)
    )


@pytest.mark.acceptance("D8")
async def test_live_traffic_flows_while_history_is_put_in_front(tl: Threadline) -> None:
    """D8: neither waits for the other."""
    await tl.inbound.receive(said("live 1", "a1"))
    token = await prepending(tl)

    sequences = []
    for n in (9, 8, 7):
        [imported] = await tl.hydration.records(ROOM, token, numbered(n, n))
        live = await tl.inbound.append(said("live", f"a{n}"))
        sequences += [imported.sequence, live.sequence]

    assert sequences == [0, 2, -1, 3, -2, 4]
    assert [number for number, _ in await transcript(tl)] == [-2, -1, 0, 1, 2, 3, 4]


@pytest.mark.acceptance("D8")
async def test_a_follower_reads_imported_and_live_records_each_once_in_order(
    tl: Threadline,
) -> None:
    """D8: one connection, one cursor, no seam between history and live."""
    for message in numbered(101, 103):
        await tl.inbound.receive(message)
    token = await prepending(tl)
    await tl.hydration.records(ROOM, token, numbered(5, 1))
    await tl.hydration.complete(ROOM, token)
    await tl.members.join(ROOM, "late")

    stream = tl.replay.follow("late")
    got: list[int] = []
    caught_up = 0
    async for item in stream:
        if isinstance(item, Handed):
            got.append(item.record.sequence)
            await tl.replay.ack(ROOM, "late", item.record.sequence)
        elif isinstance(item, CaughtUp):
            caught_up += 1
            await tl.inbound.receive(said("after", "z1"))
            await tl.inbound.receive(said("after", "z2"))
        if got and got[-1] == 5:
            break
    await stream.aclose()  # type: ignore[attr-defined]

    assert got == [-4, -3, -2, -1, 0, 1, 2, 3, 4, 5]
    assert caught_up == 1


@pytest.mark.acceptance("D8")
async def test_the_slice_of_an_all_member_begins_at_the_floor_at_its_first_ack(
    tl: Threadline,
) -> None:
    """D8: before its first ack it is replayed what comes in front, after it is not."""
    await tl.inbound.receive(said("live 1", "a1"))
    await tl.inbound.receive(said("live 2", "a2"))
    await tl.members.join(ROOM, "acked")
    await tl.members.join(ROOM, "silent")
    await tl.replay.ack(ROOM, "acked", 1)
    token = await prepending(tl)
    await tl.hydration.records(ROOM, token, numbered(2, 1))

    assert await unread(tl, "acked") == [2]
    assert await unread(tl, "silent") == [-1, 0, 1, 2]


@pytest.mark.acceptance("D9")
@pytest.mark.parametrize("mode", ["gated", "prepending"])
@pytest.mark.parametrize("first", ["join", "import"])
async def test_a_since_join_member_never_sees_imported_history(
    tl: Threadline, mode: str, first: str
) -> None:
    """D9: whichever came first, on every path."""
    await tl.inbound.receive(said("before", "a1"))
    if first == "join":
        await tl.members.join(ROOM, "agent", policy="since_join")
    token = await gated(tl, mode=mode)
    await tl.hydration.records(ROOM, token, numbered(5, 3))
    await tl.hydration.complete(ROOM, token)
    if first == "import":
        await tl.members.join(ROOM, "agent", policy="since_join")
    live = await tl.inbound.receive(said("after", "a2"))
    again = await gated(tl, mode="gated")
    await tl.hydration.records(ROOM, again, numbered(2, 1))
    await tl.hydration.complete(ROOM, again)
    await tl.search.catch_up()

    me = SessionCaller("agent")
    assert await unread(tl, "agent") == [live.sequence]
    assert handed(await followed(tl, "agent")) == [live.sequence]
    assert await transcript(tl, caller=me) == [(live.sequence, "after")]
    assert (await tl.replay.lag(ROOM, "agent")).unread == 1
    hits = [await tl.search.find(word, caller=me) for word in ("1", "3", "before")]
    assert [found.hits for found in hits] == [[], [], []]
    assert len((await tl.search.find("after", caller=me)).hits) == 1


@pytest.mark.acceptance("D9")
async def test_a_wider_grant_shows_what_a_since_join_grant_keeps_back(tl: Threadline) -> None:
    """D9: the effective policy is the grant that shows most, also where both begin alike."""
    await tl.conversations.ensure(ROOM)
    await tl.speakers.bind(ROOM, "agent")
    await tl.members.join(ROOM, "agent", policy="all")
    token = await gated(tl)
    await tl.hydration.records(ROOM, token, numbered(1, 2))
    await tl.hydration.complete(ROOM, token)

    shown = await tl.members.show(ROOM, "agent")

    assert shown.policy.backfill.value == "all"
    assert await unread(tl, "agent") == [1, 2]


@pytest.mark.acceptance("D10")
@pytest.mark.parametrize("mode", ["gated", "prepending"])
async def test_importing_the_same_history_twice_changes_nothing(tl: Threadline, mode: str) -> None:
    """D10: twice over, and overlapping with live traffic by id."""
    await tl.inbound.receive(said("4", "m4"))
    history = numbered(1, 5) if mode == "gated" else numbered(5, 1)
    token = await gated(tl, mode=mode)
    await tl.hydration.records(ROOM, token, history)
    await tl.hydration.complete(ROOM, token)
    once = (await tl.conversations.transcript(ROOM)).records
    state = await tl.conversations.show(ROOM)

    token = await gated(tl, mode=mode)
    taken = await tl.hydration.records(ROOM, token, history)
    await tl.hydration.complete(ROOM, token)
    live = [await tl.inbound.receive(one) for one in numbered(1, 5)]

    assert all(one.duplicate for one in (*taken, *live))
    assert (await tl.conversations.transcript(ROOM)).records == once
    assert await tl.conversations.show(ROOM) == state
    assert sorted(record.text for record in once) == ["1", "2", "3", "4", "5"]
    assert [r.text for r in once if r.provenance is Provenance.LIVE] == ["4"]


@pytest.mark.acceptance("D10")
async def test_a_held_message_that_the_import_also_brings_is_one_record(tl: Threadline) -> None:
    """D10: the winner is whoever came first into the transcript."""
    token = await gated(tl)
    await tl.inbound.receive(said("two", "m2"))
    await tl.hydration.records(ROOM, token, numbered(1, 2))
    await tl.hydration.complete(ROOM, token)

    assert await transcript(tl) == [(1, "1"), (2, "2")]
    assert (await tl.conversations.show(ROOM)).held == 0


@pytest.mark.acceptance("D12")
async def test_while_gated_a_session_finds_the_conversation_on_no_path(tl: Threadline) -> None:
    """D12: list, search, inbox and stream leave it out; its other conversations go on."""
    other = ConversationRef("slack", "T1", "C2")
    await tl.inbound.receive(said("secret word", "m1"))
    await tl.inbound.receive(said("open word", "m1", conversation=other))
    for where in (ROOM, other):
        await tl.members.join(where, "agent")
    await tl.search.catch_up()
    await gated(tl)
    await tl.inbound.receive(said("held word", "m2"))
    me = SessionCaller("agent")

    with pytest.raises(HydrationPending):
        await tl.conversations.transcript(ROOM, caller=me)
    with pytest.raises(HydrationPending):
        await tl.replay.backfill(ROOM, "agent", caller=me)
    items = await followed(tl, "agent")
    listed, _ = await tl.members.conversations_of("agent", caller=me)
    found = await tl.search.find("word", caller=me)

    assert [item.record.text for item in items if isinstance(item, Handed)] == ["open word"]
    assert [item.ref for item in items if isinstance(item, CaughtUp)] == [other]
    assert [one.ref for one in listed] == [other]
    assert [one.record.text for one in found.hits] == ["open word"]
    assert await followed(tl, "agent", conversation=ROOM) == []


@pytest.mark.acceptance("D12")
async def test_a_redelivery_of_a_held_message_answers_held_and_duplicate(tl: Threadline) -> None:
    """D12: under the same unique key, so it comes out once."""
    token = await gated(tl)

    first = await tl.inbound.receive(said("hello", "m1"))
    second = await tl.inbound.receive(said("hello again", "m1"))
    nameless = [await tl.inbound.receive(said("no id")) for _ in range(2)]
    await tl.hydration.complete(ROOM, token)

    assert (first.held, first.duplicate) == (True, False)
    assert (second.held, second.duplicate, second.record) == (True, True, None)
    assert [(one.held, one.duplicate) for one in nameless] == [(True, False)] * 2
    assert await transcript(tl) == [(1, "hello"), (2, "no id"), (3, "no id")]


@pytest.mark.acceptance("D12")
async def test_a_follower_hears_what_was_held_as_soon_as_the_window_closes(
    tl: Threadline,
) -> None:
    """D12: the connection that was open all the while gets it, once."""
    await tl.inbound.receive(said("before", "m0"))
    await tl.members.join(ROOM, "agent")
    token = ""
    got: list[str] = []
    stream = tl.replay.follow("agent")
    async for item in stream:
        if isinstance(item, CaughtUp):
            token = await gated(tl)
            await tl.inbound.receive(said("held", "m9"))
            await tl.hydration.records(ROOM, token, numbered(1, 1))
            await tl.hydration.complete(ROOM, token)
        elif isinstance(item, Handed):
            got.append(item.record.text)
        if got[-1:] == ["held"]:
            break
    await stream.aclose()  # type: ignore[attr-defined]

    assert got == ["before", "1", "held"]


@pytest.mark.acceptance("D13")
@pytest.mark.parametrize(
    "limits", [Limits(hold_entries=3), Limits(hold_bytes=4 * 256 + 3)], ids=["entries", "bytes"]
)
async def test_a_full_hold_fails_the_window_and_loses_nothing(store: Store, limits: Limits) -> None:
    """D13: with `hold_full`; everything acknowledged is drained in order."""
    tl = Threadline(store, limits)
    token = await gated(tl)

    taken = [await tl.inbound.receive(one) for one in numbered(1, 6)]

    assert all(one.held or one.record is not None for one in taken)
    assert await transcript(tl) == [(n, str(n)) for n in range(1, 7)]
    state = await tl.conversations.show(ROOM)
    assert (state.hydration, state.reason, state.held) == (Hydration.FAILED, "hold_full", 0)
    with pytest.raises(HydrationConflict):
        await tl.hydration.records(ROOM, token, numbered(9, 9))


@pytest.mark.acceptance("D13")
async def test_newcomers_queue_behind_while_a_window_drains_in_chunks(store: Store) -> None:
    """D13: the order of arrival is kept over the seam, also for those who come meanwhile."""
    tl = Threadline(store, Limits(chunk=2))
    await tl.members.join(await _made(tl), "agent")
    token = await gated(tl)
    for message in numbered(1, 7):
        await tl.inbound.receive(message)

    _, taken = await asyncio.gather(
        tl.hydration.complete(ROOM, token),
        asyncio.gather(*(tl.inbound.receive(one) for one in numbered(8, 30))),
    )

    assert await transcript(tl) == [(n, str(n)) for n in range(1, 31)]
    assert all(one.held or one.sequence is not None for one in taken)
    assert await unread(tl, "agent") == list(range(1, 31))


@pytest.mark.acceptance("D13")
async def test_a_poisoned_held_message_is_kept_as_refused_and_stops_nobody(
    tl: Threadline,
) -> None:
    """D13: it was acknowledged, so it may not vanish, and may not block the others either."""
    token = await gated(tl)
    await tl.inbound.receive(said("one", "m1"))
    await tl.inbound.receive(said("text", "e1", event=Event.EDIT))
    await tl.inbound.receive(said("two", "m2"))

    await tl.hydration.complete(ROOM, token)

    records = (await tl.conversations.transcript(ROOM)).records
    assert [record.text for record in records] == ["one", "text", "two"]
    assert records[1].event.value == "notice"
    assert records[1].metadata["refused"] == "invalid_input"


@pytest.mark.acceptance("D14")
async def test_who_joins_since_join_while_gated_gets_what_was_held_and_nothing_imported(
    tl: Threadline,
) -> None:
    """D14: a held message is said when it is appended."""
    token = await gated(tl)
    await tl.hydration.records(ROOM, token, numbered(1, 3))
    await tl.members.join(ROOM, "agent", policy="since_join")
    await tl.hydration.records(ROOM, token, numbered(4, 5))
    await tl.inbound.receive(said("held", "m9"))
    await tl.hydration.complete(ROOM, token)
    await tl.inbound.receive(said("live", "m10"))

    page = await tl.replay.backfill(ROOM, "agent")

    assert [one.record.text for one in page.records] == ["held", "live"]


@pytest.mark.acceptance("D14")
async def test_last_n_of_who_joined_while_gated_is_computed_at_closing(tl: Threadline) -> None:
    """D14: the last three of what was imported, then what was held."""
    token = await gated(tl)
    await tl.members.join(ROOM, "agent", policy="last_n", n=3)
    await tl.hydration.records(ROOM, token, numbered(1, 5))
    await tl.inbound.receive(said("held", "m9"))
    await tl.hydration.complete(ROOM, token)

    page = await tl.replay.backfill(ROOM, "agent")

    assert [one.record.text for one in page.records] == ["3", "4", "5", "held"]


@pytest.mark.acceptance("D14")
async def test_who_joined_before_the_window_keeps_its_beginning(tl: Threadline) -> None:
    """D14: only those who joined while gated are computed anew."""
    await tl.inbound.receive(said("zero", "m0"))
    await tl.members.join(ROOM, "before", policy="last_n", n=1)
    token = await gated(tl)
    await tl.hydration.records(ROOM, token, numbered(1, 5))
    await tl.members.join(ROOM, "meanwhile", policy="last_n", n=1)
    await tl.hydration.complete(ROOM, token)

    assert await unread(tl, "before") == [1, 2, 3, 4, 5, 6]
    assert await unread(tl, "meanwhile") == [6]


@pytest.mark.acceptance("D14")
async def test_a_held_message_wakes_its_speaker_when_it_is_appended_and_imports_wake_nobody(
    tl: Threadline,
) -> None:
    """D14: routing and waking are decided at commit, not on arrival."""
    await tl.conversations.ensure(ROOM)
    token = await gated(tl)
    await tl.inbound.receive(said("anybody there?", "m9"))
    await tl.hydration.records(ROOM, token, numbered(1, 2))
    await tl.speakers.bind(ROOM, "agent")
    await tl.hydration.complete(ROOM, token)

    page = await tl.replay.backfill(ROOM, "agent")
    listed = (await tl.conversations.transcript(ROOM)).records

    assert [(one.record.text, one.speaker, one.wake) for one in page.records] == [
        ("anybody there?", True, True)
    ]
    assert [(record.target, record.wakes) for record in listed[:2]] == [(None, ())] * 2


@pytest.mark.acceptance("D15")
async def test_nothing_is_put_in_front_of_what_retention_took(tl: Threadline) -> None:
    """D15: `history_swept`, and a number is never used twice."""
    for message in numbered(101, 103):
        await tl.inbound.receive(message)
    token = await prepending(tl)
    await tl.hydration.records(ROOM, token, numbered(9, 8))
    await tl.conversations.change(ROOM, max_retained_entries=4)
    await tl.upkeep.sweep()

    with pytest.raises(HistorySwept):
        await tl.hydration.records(ROOM, token, numbered(7, 7))
    await tl.hydration.complete(ROOM, token)
    with pytest.raises(HistorySwept):
        await tl.hydration.begin(ROOM, owner="importer")
    late = await tl.hydration.begin(ROOM, owner="importer", mode="gated")
    [taken] = await tl.hydration.records(ROOM, late.token or "", numbered(7, 7))
    [known] = await tl.hydration.records(ROOM, late.token or "", numbered(8, 8))

    state = await tl.conversations.show(ROOM)
    assert (state.lowest_sequence, state.earliest_sequence) == (-1, 0)
    assert taken.sequence == 4
    assert (known.duplicate, known.sequence, known.record) == (True, -1, None)


@pytest.mark.acceptance("A6", "D1")
async def test_a_window_writes_into_its_own_conversation_and_no_other(tl: Threadline) -> None:
    """A6: a record that names another conversation is refused; nothing of the chunk is written."""
    adapter = AdapterCaller("default", "slack", "T1")
    foreign = ConversationRef("slack", "T2", "C1")
    await tl.inbound.receive(said("private", "p1", conversation=foreign))
    state = await tl.hydration.begin(
        ROOM, owner="importer", mode="gated", ensure=True, caller=adapter
    )

    for other in (foreign, ConversationRef("slack", "T1", "C2")):
        chunk = [*numbered(1, 1), said("forged", "p2", conversation=other)]
        with pytest.raises((InvalidInput, Unauthorized)):
            await tl.hydration.records(ROOM, state.token or "", chunk, caller=adapter)

    assert await transcript(tl) == []
    assert await transcript(tl, foreign) == [(1, "private")]


@pytest.mark.acceptance("A6")
async def test_an_import_cannot_move_addresses_of_another_account(tl: Threadline) -> None:
    """A6: `same_as` in an imported record reaches no further than the token."""
    adapter = AdapterCaller("default", "slack", "T1")
    foreign = ConversationRef("slack", "T2", "C1")
    await tl.inbound.receive(said("private", "p1", conversation=foreign))
    state = await tl.hydration.begin(
        ROOM, owner="importer", mode="prepending", ensure=True, caller=adapter
    )

    with pytest.raises((InvalidInput, Unauthorized)):
        await tl.hydration.records(
            ROOM, state.token or "", [said("x", "m1", same_as=(foreign,))], caller=adapter
        )

    assert await transcript(tl, foreign) == [(1, "private")]
    assert (await tl.conversations.show(foreign)).moved_to is None


@pytest.mark.acceptance("D10")
async def test_imported_words_of_our_own_stay_outbound(tl: Threadline) -> None:
    """D10: history tells who spoke; an echo of it later is a duplicate."""
    token = await gated(tl)
    await tl.hydration.records(ROOM, token, [spoken("we said", "s1")])
    await tl.hydration.complete(ROOM, token)

    echo = await tl.inbound.receive(spoken("we said", "s1"))

    assert echo.duplicate
    assert echo.record is not None
    assert echo.record.direction is Direction.OUTBOUND
