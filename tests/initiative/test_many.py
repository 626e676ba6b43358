"""Many at once: what is due, listed, forgotten or merged is asked for together."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from tests.initiative.conftest import met, said
from threadline import Threadline
from threadline.core.model import Controller
from threadline.core.people import ConsentState
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation

PEOPLE = itertools.count(80_000)
HUMAN = Controller(human=True)
# More than a store asks for one after the other.
MANY = 70


async def test_many_that_are_due_at_once_leave_are_listed_and_forgotten(
    line: Threadline, telegram: Simulation, clock: StillClock
) -> None:
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    await line.consents.set_limits({"recipient_per_hour": 0, "recipient_per_day": 0})
    later = clock() + timedelta(hours=1)
    for number in range(MANY):
        await line.initiative.send(
            "agent", f"telegram:{ada}", f"{number}", at=later, intent=f"{number}"
        )
    clock.move(hours=1)
    assert await line.initiative.round() == MANY
    sends = await line.initiative.list(limit=MANY)
    assert len({one.delivery.id for one in sends if one.delivery is not None}) == MANY
    own = await line.initiative.list(session="agent", limit=MANY)
    assert [one.id for one in own] == [one.id for one in sends]
    while await line.outbox.round():
        pass
    assert sorted(said(telegram, ada), key=int) == [f"{number}" for number in range(MANY)]
    clock.move(hours=25)
    assert await line.initiative.forget_intents() == MANY


async def test_many_people_are_listed_and_many_that_were_one_are_found(line: Threadline) -> None:
    made = [
        (await line.people.make(f"P{number}", contacts=[f"alias:many-{number}"])).id
        for number in range(MANY)
    ]
    listed = await line.people.list(limit=MANY)
    assert {one.id for one in listed} == set(made)
    assert all(len(one.contacts) == 1 for one in listed)
    kept, *others = [(await line.people.make("One")).id for _ in range(MANY)]
    for one in others:
        await line.people.merge(kept, one)
    assert len((await line.people.show(others[0])).merged) == MANY - 1
    await line.consents.set("off", person=kept)


async def test_many_codes_are_forgotten_at_once(line: Threadline, clock: StillClock) -> None:
    for number in range(MANY):
        person = await line.people.make(f"Person {number}")
        await line.people.code(person.id)
    clock.move(hours=2)
    assert await line.people.forget_codes() == MANY


@pytest.mark.acceptance("H6")
async def test_many_decisions_of_a_person_are_carried_over_at_once(line: Threadline) -> None:
    """One for each of many sessions, none of which is lost when two persons turn out to be one."""
    ann, other = await line.people.make("Ann"), await line.people.make("A. Smith")
    for number in range(MANY):
        await line.sessions.create(f"agent-{number}")
        await line.consents.set(
            "off", person=other.id, about=f"session:agent-{number}", caller=HUMAN
        )
    await line.people.merge(ann.id, other.id)
    found = await line.consents.list(person=ann.id)
    assert [one.state for one in found] == [ConsentState.OFF] * MANY
