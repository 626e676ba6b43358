"""Reported failures: what an outage, a limit or a death on the way does to what sessions say."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conftest import Store
from tests.outbox.conftest import (
    HALL,
    ROOM,
    Platform,
    echo,
    furnished,
    platform,
    programs,
    records,
    texts,
    tl,
)
from tests.outbox.test_deaths import Installation, finish, installation, prepared
from threadline import Threadline
from threadline.core.deliveries import DeliveryState, Failure
from threadline.core.errors import InvalidInput
from threadline.core.model import SessionCaller
from threadline.testing.clock import StillClock

__all__ = ["installation", "platform", "programs", "tl"]

PENDING, DELIVERED = DeliveryState.PENDING, DeliveryState.DELIVERED
UNCERTAIN, EXPIRED = DeliveryState.UNCERTAIN, DeliveryState.EXPIRED
AGENT = SessionCaller("agent", scopes=frozenset({"read", "publish"}))


async def outlast(line: Threadline, clock: StillClock, **span: float) -> None:
    """Let the outbox work for so long, looking whenever something may be due."""
    end = clock.at + timedelta(**span)
    while clock.at < end:
        await line.outbox.round()
        clock.move(seconds=30)


@pytest.mark.case("B131")
@pytest.mark.parametrize("idempotent", [False, True], ids=["certain", "repeated under its key"])
async def test_an_outage_of_half_an_hour_drops_nothing(
    store: Store, platform: Platform, clock: StillClock, idempotent: bool
) -> None:
    """B131: of twenty messages all arrive, each conversation's in their order."""
    line = await furnished(Threadline(store, allow_private=True), platform, idempotent=idempotent)
    # Where the key makes it safe, an answer that tells nothing is asked for again as well.
    platform.fault("status", status=500 if idempotent else 503, times=10_000)
    sent = []
    for n in range(20):
        where = (ROOM, HALL)[n % 2]
        sent.append(await line.outbound.publish(where, "agent", f"number {n}"))
        clock.move(seconds=3)
    await outlast(line, clock, minutes=30)
    assert platform.said == []
    assert {(await line.deliveries.show(one.id)).settled_at for one in sent} == {None}

    platform.say("calm")
    await outlast(line, clock, minutes=6)

    assert {(await line.deliveries.show(one.id)).state for one in sent} == {DELIVERED}
    assert await texts(line, ROOM) == [f"number {n}" for n in range(0, 20, 2)]
    assert await texts(line, HALL) == [f"number {n}" for n in range(1, 20, 2)]
    assert sorted(platform.said) == sorted(f"number {n}" for n in range(20))
    await line.outbox.close()


@pytest.mark.case("B115")
async def test_an_hour_long_limit_holds_its_conversation_alone_and_outlives_a_restart(
    store: Store, platform: Platform, clock: StillClock
) -> None:
    """B115: written down with its time; the other room's message leaves a second later."""
    line = await furnished(Threadline(store, allow_private=True), platform)
    platform.fault("status", status=429, headers={"retry-after": "5820"}, place="room")
    day = timedelta(days=1)
    limited = await line.outbound.publish(ROOM, "agent", "*A*", time_to_live=day)
    await line.outbox.round()
    due = clock.at + timedelta(seconds=5820)
    clock.move(seconds=1)
    quick = await line.outbound.publish(HALL, "agent", "B")
    await line.outbox.round()
    assert (await line.deliveries.show(quick.id)).state is DELIVERED
    assert [one["text"] for one in platform.entries("call")] == ["*A*", "B"]

    clock.move(seconds=9)
    restarted = Threadline(store, allow_private=True)
    await restarted.outbox.round()
    waiting = await restarted.deliveries.show(limited.id)
    assert (waiting.state, waiting.failure) == (PENDING, Failure.RATE_LIMITED)
    assert waiting.next_attempt_at == due
    clock.at = due - timedelta(seconds=1)
    await restarted.outbox.round()
    assert platform.calls == 2
    clock.at = due
    await restarted.outbox.round()

    assert [one["text"] for one in platform.entries("call")] == ["*A*", "B", "*A*"]
    assert platform.said == ["B", "*A*"]
    for one in (line, restarted):
        await one.outbox.close()


@pytest.mark.case("B165")
async def test_what_was_held_back_for_hours_expires_or_says_when_it_was_written(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """B165: by the time each may live, and never in silence."""
    platform.fault("status", status=503, times=10_000)
    written = clock.at
    news = await tl.outbound.publish(
        ROOM, "agent", "Lunch is ready.", time_to_live=timedelta(hours=1)
    )
    report = await tl.outbound.publish(
        ROOM, "agent", "The report.", time_to_live=timedelta(days=30)
    )
    await outlast(tl, clock, minutes=10)
    clock.at = written + timedelta(hours=15, minutes=13)
    platform.say("calm")
    await outlast(tl, clock, minutes=6)

    told = await tl.outbound.settled(news, caller=AGENT)
    assert (told.state, told.failure, told.sequence) == (EXPIRED, Failure.TRANSIENT, None)
    assert "it was not sent" in told.reason
    [late] = await records(tl)
    assert (late.text, late.metadata) == ("The report.", {"written_at": written.isoformat()})
    shown = await tl.deliveries.show(report.id, caller=AGENT)
    assert (shown.state, shown.created_at) == (DELIVERED, written)
    assert platform.said == ["The report."]

    await tl.outbound.publish(ROOM, "agent", "Lunch was ready.", caller=AGENT)
    await tl.outbox.round()
    assert platform.said[1:] == ["Lunch was ready."]
    assert (await records(tl))[-1].metadata == {}


@pytest.mark.parametrize("span", [timedelta(0), timedelta(seconds=-1), timedelta(days=31)])
async def test_a_message_lives_for_a_time_that_makes_sense(tl: Threadline, span: timedelta) -> None:
    with pytest.raises(InvalidInput, match="30 days"):
        await tl.outbound.publish(ROOM, "agent", "x", time_to_live=span)
    assert (await tl.deliveries.page()).deliveries == []


async def test_what_is_resent_lives_as_long_as_it_was_given(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """And not the usual hour, however often it is resent and however late."""
    day = timedelta(days=1)
    sent = await tl.outbound.publish(ROOM, "agent", "The report.", time_to_live=day)
    usual = await tl.outbound.publish(HALL, "agent", "Lunch is ready.")
    clock.at += 2 * day
    await outlast(tl, clock, minutes=1)
    for _ in range(2):
        for one in (sent, usual):
            assert (await tl.deliveries.show(one.id)).state is EXPIRED
            await tl.deliveries.resend(one.id)

        found = [await tl.deliveries.show(one.id) for one in (sent, usual)]
        lives = [one.expires_at - clock.at for one in found if one.expires_at is not None]
        assert lives == [day, timedelta(hours=1)]
        clock.at += 2 * day
        await outlast(tl, clock, minutes=1)

    assert platform.said == []


@pytest.mark.case("B130")
async def test_what_is_resent_in_doubt_says_that_it_may_be_there_twice(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """B130: only on a person's word; one delivery with both attempts, one record."""
    platform.fault("drop")
    sent = await tl.outbound.publish(ROOM, "agent", "Pay the invoice.")
    await outlast(tl, clock, hours=2)
    parked = await tl.deliveries.show(sent.id)
    assert (parked.state, parked.parked, platform.calls) == (UNCERTAIN, True, 1)

    await tl.deliveries.resend(sent.id)
    await tl.outbox.round()

    after, trail = await tl.deliveries.why(sent.id)
    assert (after.state, after.resent, after.possible_duplicate) == (DELIVERED, 1, True)
    assert [one.note for one in trail if "attempt" in one.note] == [
        "attempt 1",
        "resent by a person; attempt 1 may have been said, so it may be there twice",
        "attempt 2",
    ]
    assert platform.said == ["Pay the invoice."] * 2
    [record] = await records(tl)
    assert record.metadata["possible_duplicate"] is True
    assert (record.metadata["resent"], record.message_id) == (1, "m2")
    assert (await echo(tl, "Pay the invoice.", "m1", f"{sent.id}.1")).duplicate
    assert len(await records(tl)) == 1


async def test_what_certainly_was_not_said_is_resent_as_no_duplicate(
    tl: Threadline, platform: Platform
) -> None:
    platform.fault("status", status=400)
    sent = await tl.outbound.publish(ROOM, "agent", "Once.")
    await tl.outbox.round()
    await tl.deliveries.resend(sent.id)
    await tl.outbox.round()

    after = await tl.deliveries.show(sent.id)
    assert (after.state, after.resent, after.possible_duplicate) == (DELIVERED, 1, False)
    assert [one.metadata for one in await records(tl)] == [{"resent": 1}]


@pytest.mark.case("B127")
async def test_a_death_behind_the_providers_yes_is_settled_by_what_it_shows(
    installation: Installation, platform: Platform
) -> None:
    """B127: killed before the answer was written down; not sent again, its token proves it."""
    [sent] = await prepared(installation, platform, "one")
    node = installation.start("never")
    platform.fault("say_and_kill", pid=node.pid)
    assert finish(node) == -9
    assert installation.run("never") == 0

    async with installation.open() as line:
        assert (await line.deliveries.show(sent)).state is UNCERTAIN
        assert await texts(line) == []
        [effect] = platform.entries("effect")
        await echo(line, "one", effect["message_id"], effect["key"])
        assert (await line.deliveries.show(sent)).state is DELIVERED
        assert await texts(line) == ["one"]
    assert installation.run("never") == 0
    assert platform.said == ["one"]


@pytest.mark.case("B127")
async def test_a_death_before_the_durable_mark_sends_it_once(
    installation: Installation, platform: Platform
) -> None:
    """B127: the mark is committed before the first byte; without it nothing can have left."""
    [sent] = await prepared(installation, platform, "one")
    assert installation.run("before-mark") == -9
    async with installation.open() as line:
        before = await line.deliveries.show(sent)
        assert (before.state, before.attempts, platform.calls) == (PENDING, 0, 0)

    assert installation.run("never") == 0

    async with installation.open() as line:
        after = await line.deliveries.show(sent)
        assert (after.state, after.attempts) == (DELIVERED, 1)
        assert await texts(line) == platform.said == ["one"]
    assert platform.calls == 1
