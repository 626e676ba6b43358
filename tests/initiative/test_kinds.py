"""A place that was named before anybody said what it is becomes what its platform says."""

from __future__ import annotations

import itertools

import pytest

from tests.initiative.conftest import heard, met, said
from threadline import Threadline
from threadline.core.errors import ConsentRequired
from threadline.core.model import Controller, Kind
from threadline.testing.simulation import Simulation

PEOPLE = itertools.count(97_000)
HUMAN = Controller(human=True)


@pytest.mark.acceptance("A3", "H6")
async def test_a_person_whose_chat_was_named_as_a_place_is_listened_to(
    line: Threadline, telegram: Simulation
) -> None:
    """Else it would be a room for ever, in which nobody decides by saying stop."""
    ada = next(PEOPLE)
    place = f"telegram/7001/{ada}"
    assert (await line.conversations.ensure(place)).kind is Kind.ROOM
    await met(line, telegram, ada)
    shown = await line.conversations.show(place)
    assert (shown.kind, shown.kind_mismatches) == (Kind.DM, 0)
    await line.initiative.send("agent", f"telegram:{ada}", "hello")
    await line.outbox.round()
    telegram.do("write", chat=ada, text="stop", user=ada)
    await heard(line, telegram)
    for to in (place, f"telegram:{ada}"):
        with pytest.raises(ConsentRequired):
            await line.initiative.send("agent", to, "still there?")
    assert said(telegram, ada) == ["hello"]


async def test_a_send_to_a_person_says_whose_chat_it_is_that_was_named_before(
    line: Threadline,
) -> None:
    """The place that an opening answers is the person's, also before they say a word."""
    ada = next(PEOPLE)
    place = f"telegram/7001/{ada}"
    await line.conversations.ensure(place)
    person = await line.people.make(
        "Ada", contacts=[f"telegram:{ada}"], verified=True, caller=HUMAN
    )
    await line.consents.set("on", person=person.id, caller=HUMAN)
    await line.initiative.send("agent", f"telegram:{ada}", "hello")
    assert (await line.conversations.show(place)).kind is Kind.DM
    await line.consents.set("off", person=person.id)
    with pytest.raises(ConsentRequired):
        await line.initiative.send("agent", place, "hello")
