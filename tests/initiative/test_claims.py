"""Whose the answer is, where it is not clear what became of what was said first."""

from __future__ import annotations

import itertools

import pytest

from tests.initiative.conftest import heard, met, transcript
from threadline import Threadline
from threadline.core.sends import SendState
from threadline.testing.simulation import Simulation

PEOPLE = itertools.count(120_000)


async def in_doubt(line: Threadline, telegram: Simulation, ada: int) -> str:
    """The delivery of a send of which nobody knows whether it was said, set aside."""
    telegram.fault("status", status=502, place=str(ada))
    sent = await line.initiative.send("agent", f"telegram:{ada}", "Shall I?")
    await line.outbox.round()
    assert (await line.initiative.show(sent.id)).state is SendState.UNCERTAIN
    assert sent.delivery is not None
    return sent.delivery.id


async def answered_by(line: Threadline, telegram: Simulation, ada: int) -> str | None:
    """The session that an answer is given to."""
    telegram.do("write", chat=ada, text="yes", user=ada)
    await heard(line, telegram)
    return (await transcript(line, f"telegram/7001/{ada}"))[-1].target_session_id


@pytest.mark.acceptance("H13")
@pytest.mark.parametrize("confirmed", [False, True], ids=["in doubt", "confirmed"])
async def test_a_send_taken_back_leaves_the_claim_to_the_one_in_doubt(
    line: Threadline, telegram: Simulation, confirmed: bool
) -> None:
    """The earlier one may have been said, and the answer is to it."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    first = await in_doubt(line, telegram, ada)
    second = await line.initiative.send("agent", f"telegram:{ada}", "And?")
    await line.initiative.cancel(second.id)
    if confirmed:
        await line.deliveries.confirm(first)
    assert await answered_by(line, telegram, ada) == "agent"


@pytest.mark.acceptance("H13")
async def test_what_was_given_up_and_turns_out_to_be_said_is_answered_by_its_author(
    line: Threadline, telegram: Simulation
) -> None:
    """Given up it leaves no claim; confirmed it is the binding all the same."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    first = await in_doubt(line, telegram, ada)
    await line.deliveries.drop(first)
    await line.deliveries.confirm(first)
    assert await answered_by(line, telegram, ada) == "agent"


@pytest.mark.acceptance("J2", "H4")
async def test_the_claim_of_a_retired_session_holds_nobody_off(
    line: Threadline, telegram: Simulation
) -> None:
    """What it said stays in doubt; another session may write, and is answered."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    await line.sessions.create("other")
    await line.consents.grant("other", "telegram", "7001")
    await in_doubt(line, telegram, ada)
    await line.sessions.retire("agent")
    await line.initiative.send("other", f"telegram:{ada}", "Hello?")
    assert await answered_by(line, telegram, ada) == "other"


@pytest.mark.acceptance("J2")
async def test_the_claim_of_a_retired_session_keeps_no_message_from_the_default_route(
    line: Threadline, telegram: Simulation
) -> None:
    """Who writes in the direct chat reaches the session that the account names."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    await line.sessions.create("desk")
    await in_doubt(line, telegram, ada)
    await line.sessions.retire("agent")
    await line.speakers.default_route("telegram", "7001", "desk")
    assert await answered_by(line, telegram, ada) == "desk"
