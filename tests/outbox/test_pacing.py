"""When a message leaves: order, limits, age, and doubt that does not last for ever."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import OpenStore, Store
from tests.outbox.conftest import (
    HALL,
    ROOM,
    SECRET,
    Platform,
    echo,
    furnished,
    hears,
    records,
    texts,
)
from threadline import Threadline
from threadline.core.deliveries import DeliveryState, Failure
from threadline.core.errors import DeliveryConflict
from threadline.core.rules.pacing import PACE
from threadline.core.wire import ApiCall, ApiResponse
from threadline.testing.clock import StillClock

PENDING, DELIVERED = DeliveryState.PENDING, DeliveryState.DELIVERED
UNCERTAIN, FAILED = DeliveryState.UNCERTAIN, DeliveryState.FAILED
THREE = "".join(f"{n:04d} " for n in range(2_000))


def limit(seconds: float, bucket: str | None = None) -> dict[str, Any]:
    """A rate limit as an adapter names it."""
    return {"refused": "rate_limited", "wait": seconds, "bucket": bucket}


@pytest.mark.acceptance("G8")
@pytest.mark.case("B040")
async def test_a_rate_limit_holds_its_conversation_and_survives_a_restart(
    store: Store, platform: Platform, clock: StillClock
) -> None:
    """G8: no call inside the window, the order kept, everything else flows, no attempt lost."""
    tl = await furnished(Threadline(store, allow_private=True), platform)
    platform.fault("status", status=429, headers={"retry-after": "30"}, place="room")
    one = await tl.outbound.publish(ROOM, "agent", "one")
    await tl.outbound.publish(ROOM, "agent", "two")
    await tl.outbound.publish(HALL, "agent", "elsewhere")
    await tl.outbox.round()
    limited = await tl.deliveries.show(one.id)
    calls = platform.calls

    restarted = Threadline(store, allow_private=True)
    clock.move(seconds=29)
    taken_back = await tl.outbound.publish(ROOM, "agent", "three")
    await tl.deliveries.cancel(taken_back.id)
    await restarted.outbox.round()
    inside = (platform.calls, platform.said)
    clock.move(seconds=1)
    await restarted.outbox.round()

    assert (limited.state, limited.failure) == (PENDING, Failure.RATE_LIMITED)
    assert limited.next_attempt_at == clock.at
    assert inside == (calls, ["elsewhere"])
    assert platform.said == ["elsewhere", "one", "two"]
    assert await texts(tl) == ["one", "two"]
    for line in (tl, restarted):
        await line.outbox.close()


@pytest.mark.acceptance("G16")
@pytest.mark.parametrize("bucket", ["account", "route", None])
async def test_a_limit_of_the_account_stops_the_account(
    tl: Threadline, platform: Platform, clock: StillClock, bucket: str | None
) -> None:
    """G16: named so, or a second unknown one elsewhere within ten seconds."""
    platform.fault("refuse", answer=limit(60, bucket), place="room")
    await tl.outbound.publish(ROOM, "agent", "room 1")
    await tl.outbox.round()
    clock.move(seconds=9)
    if bucket is None:
        platform.fault("refuse", answer=limit(60), place="hall")
    await tl.outbound.publish(HALL, "agent", "hall 1")
    await tl.outbox.round()
    await tl.conversations.ensure("chat/A1/third")
    await tl.speakers.bind("chat/A1/third", "agent")
    await tl.outbound.publish("chat/A1/third", "agent", "third 1")

    await tl.outbox.round()
    inside = platform.said
    clock.move(seconds=60)
    await tl.outbox.round()

    assert inside == []
    assert sorted(platform.said) == ["hall 1", "room 1", "third 1"]


@pytest.mark.acceptance("G16")
async def test_two_limits_that_lie_apart_are_their_conversations(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """G16: the account goes on."""
    await tl.conversations.ensure("chat/A1/third")
    await tl.speakers.bind("chat/A1/third", "agent")
    for place, name in ((ROOM, "room"), (HALL, "hall")):
        platform.fault("refuse", answer=limit(60), place=name)
        await tl.outbound.publish(place, "agent", f"{name} 1")
        await tl.outbox.round()
        clock.move(seconds=11)
    await tl.outbound.publish("chat/A1/third", "agent", "third 1")

    await tl.outbox.round()

    assert platform.said == ["third 1"]


@pytest.mark.acceptance("G9")
async def test_what_is_too_old_is_never_sent(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """G9: after an outage of fifteen hours nothing of the backlog leaves; a person may resend."""
    old = [await tl.outbound.publish(ROOM, "agent", f"old {n}") for n in range(20)]
    clock.move(hours=15)
    fresh = await tl.outbound.publish(ROOM, "agent", "fresh")

    await tl.outbox.round()

    assert {(await tl.deliveries.show(one.id)).state for one in old} == {DeliveryState.EXPIRED}
    assert platform.said == await texts(tl) == ["fresh"]
    await tl.deliveries.resend(old[3].id)
    await tl.outbox.round()
    assert platform.said == ["fresh", "old 3"]
    assert (await tl.deliveries.show(fresh.id)).state is DELIVERED


@pytest.mark.acceptance("G8", "G9")
async def test_a_limit_beyond_the_time_to_live_expires_at_once_and_says_so(
    tl: Threadline, platform: Platform
) -> None:
    """What comes behind it in the lane may live long enough."""
    platform.fault("refuse", answer=limit(7_200))
    sent = await tl.outbound.publish(ROOM, "agent", "Not today.")

    await tl.outbox.round()

    after = await tl.deliveries.show(sent.id)
    assert (after.state, after.failure) == (DeliveryState.EXPIRED, Failure.RATE_LIMITED)
    assert "time to live" in after.reason


@pytest.mark.acceptance("G12")
async def test_a_doubt_blocks_its_lane_no_longer_than_it_may_settle(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """G12: message 2 leaves after `settle_within`; the parked one is listed."""
    platform.fault("drop")
    one = await tl.outbound.publish(ROOM, "agent", "one")
    two = await tl.outbound.publish(ROOM, "agent", "two")
    await tl.outbox.round()
    clock.move(seconds=59)
    await tl.outbox.round()
    blocked = await tl.deliveries.show(two.id)

    clock.move(seconds=1)
    await tl.outbox.round()

    assert blocked.state is PENDING
    assert (await tl.deliveries.show(two.id)).state is DELIVERED
    [parked] = (await tl.deliveries.page(state="uncertain")).deliveries
    assert (parked.id, parked.parked, parked.attempts) == (one.id, True, 1)
    assert platform.said == ["one", "two"]
    assert await texts(tl) == ["two"]


@pytest.mark.acceptance("G12")
async def test_where_nothing_settles_by_itself_the_lane_goes_on_at_once(
    store: Store, platform: Platform
) -> None:
    """`settle_within` 0, as on Telegram."""
    tl = await furnished(Threadline(store, allow_private=True), platform, settle_within=0)
    platform.fault("drop")
    one = await tl.outbound.publish(ROOM, "agent", "one")
    await tl.outbound.publish(ROOM, "agent", "two")

    await tl.outbox.round()

    assert (await tl.deliveries.show(one.id)).parked
    assert platform.said == ["one", "two"]
    await tl.outbox.close()


@pytest.mark.acceptance("G5")
async def test_a_platform_that_knows_our_keys_is_asked_again_with_the_same(
    store: Store, platform: Platform, clock: StillClock
) -> None:
    """Idempotent sends settle by themselves: one effect, one record, nobody is bothered."""
    tl = await furnished(
        Threadline(store, allow_private=True), platform, idempotent=True, idempotent_for=120
    )
    platform.say("idempotent")
    platform.fault("drop")
    platform.fault("status", status=503)
    sent = await tl.outbound.publish(ROOM, "agent", "Once.")

    for _ in range(6):
        await tl.outbox.round()
        clock.move(seconds=10)

    after = await tl.deliveries.show(sent.id)
    assert (after.state, after.attempts, platform.calls) == (DELIVERED, 3, 3)
    assert platform.said == await texts(tl) == ["Once."]
    assert {one["key"] for one in platform.entries("call")} == {f"{sent.id}.1"}
    await tl.outbox.close()


@pytest.mark.acceptance("G7", "G11")
async def test_a_long_text_goes_in_parts_and_resumes_at_the_first_without_receipt(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """G7: one record, after the last receipt; it holds the text and all three ids."""
    platform.fault("refuse", answer={"refused": "transient"}, part=2)
    sent = await tl.outbound.publish(ROOM, "agent", THREE)
    await tl.outbound.publish(ROOM, "agent", "behind")
    await tl.outbox.round()
    partly = await tl.deliveries.show(sent.id)
    assert (partly.state, partly.parts, partly.confirmed) == (PENDING, 3, 1)
    assert await texts(tl) == []

    clock.move(seconds=2)
    await tl.outbox.round()

    assert [one["part"] for one in platform.entries("call")] == [1, 2, 2, 3, 1]
    assert "".join(platform.said[:3]) == THREE
    [long, behind] = await records(tl)
    assert (long.text, long.message_id, behind.text) == (THREE, "m1", "behind")
    after = await tl.deliveries.show(sent.id)
    assert (after.message_ids, after.confirmed) == (("m1", "m2", "m3"), 3)
    assert (await echo(tl, "a part", "m3")).duplicate
    reply = await hears(tl, "To the last part.", "r1", reply_to="m3")
    assert (reply.target_session_id, reply.route) == ("agent", "reply")


@pytest.mark.acceptance("G13")
async def test_parts_that_went_out_before_a_failure_are_in_the_transcript(
    tl: Threadline, platform: Platform
) -> None:
    """G13: its text is what was delivered, and it says so; a reply to part 1 finds it."""
    platform.fault("status", status=400, part=2)
    sent = await tl.outbound.publish(ROOM, "agent", THREE)

    await tl.outbox.round()

    after = await tl.deliveries.show(sent.id)
    assert (after.state, after.failure, after.confirmed) == (FAILED, Failure.PERMANENT, 1)
    [record] = await records(tl)
    assert (record.text, record.metadata["parts"]) == (platform.said[0], "1/3")
    assert (record.message_id, record.source_session_id) == ("m1", "agent")
    reply = await hears(tl, "And then?", "r1", reply_to="m1")
    assert reply.target_session_id == "agent"
    with pytest.raises(DeliveryConflict, match="record 1"):
        await tl.deliveries.resend(sent.id)


@pytest.mark.acceptance("G13", "G14")
async def test_a_late_proof_of_a_part_is_that_part(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """Part 2 was lost, given up, and then shown by the platform: known, no record of its own."""
    platform.fault("drop", part=2)
    sent = await tl.outbound.publish(ROOM, "agent", THREE)
    await tl.outbox.round()
    clock.move(minutes=2)
    await tl.outbox.round()
    await tl.deliveries.drop(sent.id)
    assert [one.metadata["parts"] for one in await records(tl)] == ["1/3"]

    await echo(tl, platform.said[1], "m2", f"{sent.id}.2")
    await echo(tl, platform.said[1], "m2")

    assert len(await records(tl)) == 1
    assert (await tl.deliveries.show(sent.id)).message_ids == ("m1", "m2")


class Sleeper:
    """Performs calls for one node, which can be put to sleep before and after each."""

    def __init__(self, line: Threadline) -> None:
        self._below = line.outbox.channels.transport("chat")
        self.called, self.wake = asyncio.Event(), asyncio.Event()

    async def perform(self, call: ApiCall) -> ApiResponse:
        """The answer, once the node wakes."""
        answer = await self._below.perform(call)
        self.called.set()
        await self.wake.wait()
        return answer


def asleep(line: Threadline) -> Sleeper:
    """Let a node fall asleep over its next answer."""
    sleeper = Sleeper(line)
    line.outbox.channels.transport = lambda provider: sleeper  # type: ignore[method-assign]
    return sleeper


@pytest.mark.acceptance("G14")
@pytest.mark.parametrize("verdict", [True, False], ids=["a verdict", "a proof"])
async def test_the_fence_stops_a_late_verdict_and_never_a_late_proof(
    open_store: OpenStore, platform: Platform, clock: StillClock, verdict: bool
) -> None:
    """G14: a paused node wakes after its lane was taken over."""
    paused, other = (
        Threadline(store, allow_private=True, node=f"n{n}")
        for n, store in enumerate(await open_store(2))
    )
    await furnished(paused, platform)
    if verdict:
        platform.fault("status", status=400)
    sent = await paused.outbound.publish(ROOM, "agent", "one")
    await paused.outbound.publish(ROOM, "agent", "two")
    sleeper = asleep(paused)
    working = asyncio.create_task(paused.outbox.round())
    await sleeper.called.wait()

    clock.move(seconds=61)
    await other.outbox.round()
    taken_over = await other.deliveries.show(sent.id)
    sleeper.wake.set()
    await working

    assert taken_over.state is UNCERTAIN
    after = await other.deliveries.show(sent.id)
    assert after.state is (UNCERTAIN if verdict else DELIVERED)
    clock.move(seconds=61)
    await other.outbox.round()
    assert await texts(other) == (["two"] if verdict else ["one", "two"])
    assert platform.calls == 2
    for line in (paused, other):
        await line.outbox.close()


async def test_failures_that_pass_are_tried_again_ever_later(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """Back-off with jitter; only its age ends it, and then it says what kept it."""
    platform.fault("refuse", answer={"refused": "transient", "reason": "busy"}, times=100)
    sent = await tl.outbound.publish(ROOM, "agent", "Again.")
    waits = []
    for _ in range(60):
        await tl.outbox.round()
        now = await tl.deliveries.show(sent.id)
        if now.next_attempt_at is None:
            break
        waits.append(now.next_attempt_at - clock.at)
        clock.at = now.next_attempt_at

    assert (now.state, now.failure) == (DeliveryState.EXPIRED, Failure.TRANSIENT)
    assert clock.at - sent.created_at == PACE.time_to_live
    assert f"{now.attempts} attempts failed, the last one: busy" in now.reason
    assert now.attempts > PACE.max_failures
    for number, wait in enumerate(waits[:-1]):
        whole = min(timedelta(seconds=2**number), PACE.longest_wait)
        assert whole / 2 <= wait <= whole
    assert await texts(tl) == []


@pytest.mark.acceptance("G12")
async def test_an_answer_without_proof_is_a_doubt(tl: Threadline, platform: Platform) -> None:
    """A bare 200 proves nothing."""
    platform.fault("mute")
    sent = await tl.outbound.publish(ROOM, "agent", "Hm?")

    await tl.outbox.round()

    after = await tl.deliveries.show(sent.id)
    assert (after.state, after.reason) == (
        UNCERTAIN,
        "the adapter took it and gave no message_id.",
    )
    assert await texts(tl) == []


async def test_one_account_that_hangs_does_not_stop_another(
    store: Store, platform: Platform
) -> None:
    """The lanes in hand are bounded for each account."""
    tl = await furnished(Threadline(store, allow_private=True), platform)
    await tl.adapters.register("chat", "B1", platform.url, secret=SECRET)
    for n in range(20):
        place = replace(ROOM, conversation_id=f"slow {n}")
        await tl.conversations.ensure(place)
        await tl.speakers.bind(place, "agent")
        platform.fault("slow", place=f"slow {n}")
        await tl.outbound.publish(place, "agent", "Slow.")
    quick = replace(ROOM, account_id="B1", conversation_id="quick")
    await tl.conversations.ensure(quick)
    await tl.speakers.bind(quick, "agent")
    sent = await tl.outbound.publish(quick, "agent", "Quick.")
    stopping = asyncio.Event()
    working = asyncio.create_task(tl.outbox.run(stopping))

    settled = await tl.outbound.settled(sent, patience=30)
    platform.say("release")
    stopping.set()
    await working

    assert settled.state is DELIVERED
    await tl.outbox.close()
