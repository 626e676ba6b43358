"""What is planned ends at once where it may not be said any more; what is daily comes again."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from tests.initiative.conftest import heard, met, said
from threadline import Threadline
from threadline.core.model import Controller
from threadline.core.sends import Repeat, SendState
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation

PEOPLE = itertools.count(95_000)
HUMAN = Controller(human=True)


@pytest.mark.acceptance("H6")
@pytest.mark.parametrize("by", ["the person", "a controller"])
async def test_what_is_planned_for_a_person_ends_with_their_stop(
    line: Threadline, telegram: Simulation, clock: StillClock, by: str
) -> None:
    """At once, by whichever name it was planned, under an earlier id too, and the daily ones."""
    ada, eve, bob = (next(PEOPLE) for _ in range(3))
    await met(line, telegram, ada, eve, bob)
    later = clock() + timedelta(hours=5)
    daily = Repeat(at=f"{clock():%H:%M}", zone="UTC")
    one, two = [(await line.people.show(f"telegram:{user}")).id for user in (ada, eve)]
    planned = [
        await line.initiative.send("agent", to, "later", at=later)
        for to in (f"telegram:{ada}", f"telegram/7001/{ada}", f"person:{one}", f"person:{two}")
    ]
    planned.append(await line.initiative.send("agent", f"person:{one}", "daily", repeat=daily))
    other = await line.initiative.send("agent", f"telegram:{bob}", "later", at=later)
    await line.people.merge(one, two)
    if by == "the person":
        telegram.do("write", chat=ada, text="stop", user=ada)
        await heard(line, telegram)
    else:
        await line.consents.set("off", person=one, why="asked by telephone")
    shown = [(await line.initiative.show(each.id)).state for each in planned]
    assert shown == [SendState.CANCELLED] * 5
    assert (await line.initiative.show(other.id)).state is SendState.SCHEDULED
    await line.consents.set("on", person=one, caller=HUMAN)
    clock.move(hours=5)
    await line.initiative.round()
    await line.outbox.round()
    assert (said(telegram, ada), said(telegram, eve)) == ([], [])
    assert said(telegram, bob) == ["later"]


async def test_a_daily_send_is_not_taken_for_what_it_said_the_day_before(
    line: Threadline, telegram: Simulation, clock: StillClock
) -> None:
    """Its intent keeps others from saying the same, and not itself."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    daily = Repeat(at=f"{clock():%H:%M}", zone="UTC")
    to = f"telegram:{ada}"
    await line.initiative.send("agent", to, "pills?", repeat=daily, intent="pills")
    clock.move(days=1, seconds=3)
    for _ in range(3):
        await line.initiative.round()
        await line.outbox.round()
        other = await line.initiative.send("agent", to, "the pills!", intent="pills")
        assert other.state is SendState.SUPPRESSED
        clock.move(days=1, seconds=-1)
    assert said(telegram, ada) == ["pills?"] * 3


async def test_a_daily_send_ends_with_its_session(
    line: Threadline, telegram: Simulation, clock: StillClock
) -> None:
    """Else every day would leave a row of its own for ever."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    daily = Repeat(at=f"{clock():%H:%M}", zone="UTC")
    await line.initiative.send("agent", f"telegram:{ada}", "daily", repeat=daily)
    await line.sessions.retire("agent")
    for _ in range(3):
        clock.move(days=1)
        await line.initiative.round()
    states = [one.state for one in await line.initiative.list()]
    assert states == [SendState.CANCELLED]
