"""What a send goes through: its key, its time, its intent, its second channel."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.conftest import open_at
from tests.initiative.conftest import heard, met, said, transcript
from threadline import Threadline
from threadline.core.errors import (
    DeliveryConflict,
    IdempotencyConflict,
    InvalidConversation,
    InvalidInput,
    LimitReached,
    NoAddress,
    NotFound,
)
from threadline.core.model import Controller, SessionCaller
from threadline.core.sends import Repeat, SendState
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation

PEOPLE = itertools.count(9000)
HUMAN = Controller(human=True)


async def test_the_same_key_is_the_same_send_and_another_text_a_conflict(
    line: Threadline, telegram: Simulation
) -> None:
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    to = f"telegram:{ada}"
    sent = await asyncio.gather(
        *(line.initiative.send("agent", to, "once", key="k1") for _ in range(5))
    )
    assert len({one.id for one in sent}) == 1
    assert sorted(one.repeated for one in sent) == [False, True, True, True, True]
    with pytest.raises(IdempotencyConflict):
        await line.initiative.send("agent", to, "twice", key="k1")
    await line.outbox.round()
    assert said(telegram, ada) == ["once"]


async def test_what_is_scheduled_leaves_when_it_is_due_and_can_be_taken_back(
    line: Threadline, telegram: Simulation, clock: StillClock
) -> None:
    """Its time to live counts from then; consent is asked again at that moment."""
    ada, bob = next(PEOPLE), next(PEOPLE)
    await met(line, telegram, ada, bob)
    later = clock() + timedelta(hours=5)
    kept = await line.initiative.send("agent", f"telegram:{ada}", "tea?", at=later)
    gone = await line.initiative.send("agent", f"telegram:{ada}", "coffee?", at=later)
    stopped = await line.initiative.send("agent", f"telegram:{bob}", "cake?", at=later)
    assert (await line.initiative.cancel(gone.id)).state is SendState.CANCELLED
    telegram.do("write", chat=bob, text="stop", user=bob)
    await heard(line, telegram)
    assert (await line.initiative.show(stopped.id)).state is SendState.CANCELLED
    clock.move(hours=4)
    await line.initiative.round()
    await line.outbox.round()
    assert said(telegram, ada) == []
    clock.move(hours=1)
    await line.initiative.round()
    await line.outbox.round()
    assert said(telegram, ada) == ["tea?"]
    assert said(telegram, bob) == []
    assert (await line.initiative.show(kept.id)).state is SendState.DELIVERED
    refused = await line.initiative.show(stopped.id)
    assert (refused.state, refused.reason) == (SendState.CANCELLED, "this person said stop.")
    with pytest.raises(DeliveryConflict):
        await line.initiative.cancel(kept.id)


async def test_what_nobody_worked_on_in_time_expires_and_says_so(
    line: Threadline, telegram: Simulation, clock: StillClock
) -> None:
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    at = clock() + timedelta(minutes=1)
    late = await line.initiative.send("agent", f"telegram:{ada}", "now!", at=at)
    clock.move(hours=3)
    await line.initiative.round()
    await line.outbox.round()
    assert (await line.initiative.show(late.id)).state is SendState.EXPIRED
    assert said(telegram, ada) == []


@pytest.mark.case("B163")
@pytest.mark.parametrize(
    ("zone", "first", "nights"),
    [
        ("Europe/Berlin", datetime(2026, 3, 27, 12, tzinfo=UTC), 4),
        ("Europe/Berlin", datetime(2026, 10, 23, 12, tzinfo=UTC), 4),
        ("America/New_York", datetime(2026, 3, 6, 12, tzinfo=UTC), 4),
        ("America/New_York", datetime(2026, 10, 30, 12, tzinfo=UTC), 4),
    ],
)
@pytest.mark.parametrize("at", ["02:30", "01:30"])
async def test_a_daily_send_leaves_once_a_day_also_when_the_clocks_change(
    sqlite_url: str,
    key: bytes,
    telegram: Simulation,
    zone: str,
    first: datetime,
    nights: int,
    at: str,
) -> None:
    """One for each local date, over a restart before every look."""
    from zoneinfo import ZoneInfo

    clock = StillClock(first)
    ada = next(PEOPLE)
    store = await open_at(sqlite_url, key, clock=clock)
    line = Threadline(store, allow_private=True)
    await line.accounts.connect("telegram", {**telegram.credentials, "api": telegram.url})
    await line.sessions.create("agent")
    await line.consents.grant("agent", "telegram", "7001")
    await met(line, telegram, ada)
    await line.initiative.send("agent", f"telegram:{ada}", "daily", repeat=Repeat(at=at, zone=zone))
    days = []
    for _ in range(nights * 48):
        clock.move(minutes=30)
        await line.initiative.round()
        sends = await line.initiative.list()
        days = [one.created_at.astimezone(ZoneInfo(zone)) for one in sends if one.repeat is None]
    dates = [one.date() for one in days]
    assert len(dates) == len(set(dates)) == nights
    await line.outbox.close()
    await store.close()
    store = await open_at(sqlite_url, key, clock=clock)
    again = Threadline(store, allow_private=True)
    assert await again.initiative.round() == 0
    await store.close()


async def test_the_same_thing_is_not_said_twice_by_whichever_session(
    line: Threadline, telegram: Simulation, clock: StillClock
) -> None:
    """The second is told who said it first and when; the transcript says so and wakes nobody."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    to = f"telegram:{ada}"
    first = await line.initiative.send("agent", to, "Your flight is late.", intent="flight-1")
    await line.outbox.round()
    second = await line.initiative.send("agent", to, "The flight is late!", intent="flight-1")
    assert second.state is SendState.SUPPRESSED
    assert second.first is not None
    assert (second.first["id"], second.first["session_id"]) == (first.id, "agent")
    assert said(telegram, ada) == ["Your flight is late."]
    last = (await transcript(line, f"telegram/7001/{ada}"))[-1]
    assert (last.event.value, last.wakes) == ("notice", ())
    assert "flight-1" in last.text
    clock.move(hours=25)
    third = await line.initiative.send("agent", to, "Late again.", intent="flight-1")
    assert third.state is SendState.OPEN


@pytest.mark.acceptance("H7", "H3")
async def test_what_failed_is_given_back_and_the_window_is_exact(
    line: Threadline, telegram: Simulation, clock: StillClock
) -> None:
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    await line.consents.set_limits({"recipient_per_hour": 1})
    to = f"telegram:{ada}"
    telegram.do("block", user=ada)
    lost = await line.initiative.send("agent", to, "lost")
    await line.outbox.round()
    assert (await line.initiative.show(lost.id)).state is SendState.FAILED
    telegram.do("unblock", user=ada)
    await line.initiative.send("agent", to, "one")
    clock.move(minutes=59, seconds=59)
    with pytest.raises(LimitReached) as full:
        await line.initiative.send("agent", to, "two")
    assert full.value.facts["frees_at"] == (clock() + timedelta(seconds=1)).isoformat()
    clock.move(seconds=1)
    await line.initiative.send("agent", to, "two")
    await line.consents.set_limits({"recipient_per_hour": 0})
    await line.initiative.send("agent", to, "three")


@pytest.mark.acceptance("H10")
@pytest.mark.parametrize("dies", [True, False], ids=["after part one", "refused"])
async def test_a_second_channel_is_tried_only_where_nothing_can_have_been_taken(
    line: Threadline, telegram: Simulation, tmp_path: Path, dies: bool
) -> None:
    """Telegram takes part one and dies: nothing else is tried. It refuses: Discord is."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    (tmp_path / "discord").mkdir()
    with Simulation("discord", tmp_path / "discord") as discord:
        given = {"token": discord.credentials["token"], "api": f"{discord.url}/api/v10"}
        await line.accounts.connect("discord", given)
        await line.consents.grant("agent", "discord", "700")
        dm = discord.do("dm", user="second")
        user = dm["recipients"][0]["id"]
        person = await line.people.show(f"telegram:{ada}")
        await line.people.change(
            person.id, contacts=[f"discord:{user}"], verified=True, caller=HUMAN
        )
        await line.consents.set("on", person=person.id, about="discord", caller=HUMAN)
        long = "word " * 1500
        if dies:
            telegram.fault("drop", place=str(ada))
        else:
            telegram.do("block", user=ada)
        sent = await line.initiative.send("agent", f"person:{person.id}", long)
        for _ in range(3):
            await line.outbox.round()
            await line.initiative.round()
        done = await line.initiative.show(sent.id)
        got = discord.effects("message", place=dm["id"])
    channels = [one["provider"] for one in done.tried]
    if dies:
        assert (channels, got) == (["telegram"], [])
        assert len(said(telegram, ada)) >= 1
    else:
        assert channels == ["telegram", "discord"]
        assert [one["outcome"] for one in done.tried] == ["failed", "delivered"]
        assert got
        assert done.state is SendState.DELIVERED


@pytest.mark.case("B153")
async def test_a_target_is_judged_when_it_is_named(line: Threadline, telegram: Simulation) -> None:
    """No form crashes at send time, and what reaches nobody says so."""
    for wrong in ("@someone", "", "telegram", "person:x", "https://x.example"):
        with pytest.raises((InvalidInput, InvalidConversation, NoAddress)):
            await line.initiative.send("agent", wrong, "hi")
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    a = await line.initiative.send("agent", f" telegram:{ada} ", "hi")
    b = await line.initiative.send("agent", f"telegram: {ada}", "hi")
    assert a.delivery is not None
    assert b.delivery is not None
    assert a.delivery.ref == b.delivery.ref
    with pytest.raises(NoAddress):
        await line.initiative.send("agent", "email:nobody@example.org", "hi")


async def test_the_id_of_anothers_send_turns_no_page(
    line: Threadline, telegram: Simulation
) -> None:
    """It would tell that there is such a send, and when it was made."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    await line.sessions.create("other")
    sent = await line.initiative.send("agent", f"telegram:{ada}", "mine")
    agent, other = SessionCaller("agent"), SessionCaller("other")
    assert await line.initiative.list(before=sent.id, caller=agent) == []
    for caller in (other, Controller("elsewhere")):
        with pytest.raises(NotFound):
            await line.initiative.list(before=sent.id, caller=caller)


@pytest.mark.case("B076")
async def test_who_wrote_once_is_reached_after_a_restart(
    sqlite_url: str, key: bytes, clock: StillClock, telegram: Simulation
) -> None:
    """The address stands in the store, not in a process."""
    ada = next(PEOPLE)
    for life in range(2):
        store = await open_at(sqlite_url, key, clock=clock)
        line = Threadline(store, allow_private=True)
        if life == 0:
            await line.accounts.connect("telegram", {**telegram.credentials, "api": telegram.url})
            await line.sessions.create("agent")
            await line.consents.grant("agent", "telegram", "7001")
            await met(line, telegram, ada)
        else:
            await line.initiative.send("agent", f"telegram:{ada}", "still there")
            await line.outbox.round()
        await line.outbox.close()
        await store.close()
    assert said(telegram, ada) == ["still there"]
