"""A send that somebody lets be said once more: counted again, answered by its author, once only."""

from __future__ import annotations

import itertools

import pytest

from tests.initiative.conftest import heard, met, said, transcript
from tests.initiative.test_channels import HUMAN, Both, both, discord
from threadline import Threadline
from threadline.core.errors import LimitReached, NotSent
from threadline.core.sends import SendState
from threadline.testing.simulation import Simulation

PEOPLE = itertools.count(98_000)
__all__ = ["both", "discord"]


@pytest.mark.acceptance("H7")
async def test_what_failed_and_is_resent_counts_and_its_answer_comes_back(
    line: Threadline, telegram: Simulation
) -> None:
    """What was given back when it failed is taken again, and so is the claim."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    await line.consents.set_limits({"recipient_per_hour": 1})
    telegram.do("block", user=ada)
    lost = await line.initiative.send("agent", f"telegram:{ada}", "once")
    await line.outbox.round()
    failed = await line.initiative.show(lost.id)
    assert failed.state is SendState.FAILED
    assert failed.delivery is not None
    telegram.do("unblock", user=ada)
    await line.deliveries.resend(failed.delivery.id)
    assert (await line.initiative.show(lost.id)).state is SendState.OPEN
    await line.outbox.round()
    assert (await line.initiative.show(lost.id)).state is SendState.DELIVERED
    assert said(telegram, ada) == ["once"]
    with pytest.raises(LimitReached):
        await line.initiative.send("agent", f"telegram:{ada}", "twice")
    telegram.do("write", chat=ada, text="yes", user=ada)
    await heard(line, telegram)
    answer = (await transcript(line, f"telegram/7001/{ada}"))[-1]
    assert (answer.text, answer.target_session_id) == ("yes", "agent")


async def test_a_channel_that_fails_again_takes_nothing_from_the_one_that_said_it(
    both: Both,
) -> None:
    """The send stays delivered, and stays counted."""
    await both.line.consents.set_limits({"recipient_per_hour": 1})
    both.telegram.do("block", user=both.user)
    sent = await both.ended(await both.line.initiative.send("agent", both.to, "hello"))
    assert sent.state is SendState.DELIVERED
    first = sent.tried[0]["delivery"]
    await both.line.deliveries.resend(first)
    assert (await both.ended(sent)).state is SendState.DELIVERED
    with pytest.raises(NotSent, match="recipient_per_hour is 1"):
        await both.line.initiative.send("agent", both.to, "more")


@pytest.mark.acceptance("H7")
async def test_what_is_resent_counts_for_who_the_person_turned_out_to_be(
    line: Threadline, telegram: Simulation
) -> None:
    """It failed before two persons became one, and is said to that one."""
    ada, other = next(PEOPLE), next(PEOPLE)
    await met(line, telegram, ada, other)
    await line.consents.set_limits({"recipient_per_hour": 1})
    failed = await refused(line, telegram, ada)
    kept = await line.people.show(f"telegram:{other}")
    gone = await line.people.show(f"telegram:{ada}")
    await line.people.merge(kept.id, gone.id, caller=HUMAN)
    await line.deliveries.resend(failed)
    await line.outbox.round()
    assert said(telegram, ada) == ["once"]
    with pytest.raises(LimitReached):
        await line.initiative.send("agent", f"telegram:{ada}", "twice")


@pytest.mark.acceptance("H7")
async def test_what_fails_after_a_split_is_given_back_to_both(
    line: Threadline, telegram: Simulation
) -> None:
    """It was counted for whoever has the contact since; nothing was said to anybody."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    await line.consents.set_limits({"recipient_per_hour": 1})
    telegram.do("block", user=ada)
    lost = await line.initiative.send("agent", f"telegram:{ada}", "once")
    person = await line.people.show(f"telegram:{ada}")
    await line.people.split(person.id, f"telegram:{ada}", caller=HUMAN)
    await line.outbox.round()
    assert (await line.initiative.show(lost.id)).state is SendState.FAILED
    telegram.do("unblock", user=ada)
    await line.initiative.send("agent", f"telegram:{ada}", "again")


async def refused(line: Threadline, telegram: Simulation, ada: int) -> str:
    """The delivery of a send that certainly was not said, to who takes messages again by now."""
    telegram.do("block", user=ada)
    sent = await line.initiative.send("agent", f"telegram:{ada}", "once")
    await line.outbox.round()
    assert (await line.initiative.show(sent.id)).state is SendState.FAILED
    telegram.do("unblock", user=ada)
    assert sent.delivery is not None
    return sent.delivery.id
