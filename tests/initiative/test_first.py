"""Writing first: what a session says on its own and what is answered stand in one transcript."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tests.initiative.conftest import heard, said, transcript
from threadline import Threadline
from threadline.core.errors import (
    ConsentRequired,
    InvalidInput,
    LimitReached,
    NoAddress,
    ReplyRouteConflict,
    Unauthorized,
)
from threadline.core.model import Controller
from threadline.core.sends import SendState
from threadline.testing.simulation import Simulation

PEOPLE = itertools.count(5000)
HUMAN = Controller(human=True)


@pytest.mark.acceptance("H1", "H2")
@pytest.mark.case("B072")
async def test_the_reply_to_what_a_session_wrote_first_stands_below_it(
    line: Threadline, telegram: Simulation
) -> None:
    """A person of whom only the consent is known: one conversation, both in order, the author
    woken, and both in its context."""
    ada = next(PEOPLE)
    telegram.do("write", chat=ada, text="hello", user=ada)
    await heard(line, telegram)
    sent = await line.initiative.send("agent", f"telegram:{ada}", "Shall I book Friday?")
    await line.outbox.round()
    telegram.do("write", chat=ada, text="works for me", user=ada)
    await heard(line, telegram)
    hello, said, reply = await transcript(line, f"telegram/7001/{ada}")
    assert (said.text, said.source_session_id) == ("Shall I book Friday?", "agent")
    assert (reply.text, reply.target_session_id, reply.route) == (
        "works for me",
        "agent",
        "binding",
    )
    assert said.metadata == {"send": sent.id}
    assert hello.person_id == said.person_id == reply.person_id is not None
    assert reply.wakes
    done = await line.initiative.show(sent.id)
    assert done.state is SendState.DELIVERED
    context = await line.context.read(f"telegram/7001/{ada}", "agent", budget=4000)
    words = str(context)
    assert words.index("Shall I book Friday?") < words.index("works for me")


@pytest.mark.acceptance("H12")
async def test_without_the_account_granted_nothing_is_looked_up(
    line: Threadline, telegram: Simulation
) -> None:
    """The answer is the same for a person that exists and for one that does not."""
    await line.sessions.create("other")
    answers = []
    for to in ("telegram:1", "person:0000000000001", "telegram/7001/1", "email:a@example.org"):
        with pytest.raises(Unauthorized) as refused:
            await line.initiative.send("other", to, "hi")
        answers.append(refused.value.code)
    assert set(answers) == {"unauthorized"}


@pytest.mark.acceptance("H6")
async def test_who_never_wrote_or_said_stop_is_not_written_to(
    line: Threadline, telegram: Simulation
) -> None:
    """Default deny; stop is sticky and silences a bound session too; only the person's own word,
    or a human, turns it on."""
    ada, bob = next(PEOPLE), next(PEOPLE)
    with pytest.raises(ConsentRequired):
        await line.initiative.send("agent", f"telegram:{bob}", "hi")
    telegram.do("write", chat=ada, text="hello", user=ada)
    await heard(line, telegram)
    await line.initiative.send("agent", f"telegram:{ada}", "hi")
    await line.outbox.round()
    telegram.do("write", chat=ada, text="STOP!", user=ada)
    await heard(line, telegram)
    with pytest.raises(ConsentRequired):
        await line.initiative.send("agent", f"telegram:{ada}", "still there?")
    ref = f"telegram/7001/{ada}"
    with pytest.raises(ConsentRequired):
        await line.outbound.publish(ref, "agent", "still there?")
    stop = next(one for one in await transcript(line, ref) if one.text == "STOP!")
    assert stop.wakes == ()
    person = await line.people.show(f"telegram:{ada}")
    with pytest.raises(Unauthorized):
        await line.consents.set("on", person=person.id)
    telegram.do("write", chat=ada, text="What is the price?", user=ada)
    await heard(line, telegram)
    question = (await transcript(line, ref))[-1]
    answered = await line.outbound.publish(ref, "agent", "Nine.", reply_to=question.sequence)
    assert answered.state.value == "pending"
    telegram.do("write", chat=ada, text="start", user=ada)
    await heard(line, telegram)
    await line.initiative.send("agent", f"telegram:{ada}", "welcome back")
    actions = [one.action for one in await line.audits.list()]
    assert {"send", "send.refused", "consent.off", "consent.on", "account.granted"} <= set(actions)
    assert (await line.audits.verify()).whole


@pytest.mark.case("B139")
async def test_a_name_that_is_somebody_elses_id_gives_and_takes_no_right(
    line: Threadline, telegram: Simulation
) -> None:
    """B139: consent, a stop and a person's address go by the provider's id alone."""
    ada, bob, eve = next(PEOPLE), next(PEOPLE), next(PEOPLE)
    telegram.do("write", chat=ada, text="hello", user=ada, name="alice")
    telegram.do("write", chat=eve, text="hello", user=eve, name=str(bob))
    await heard(line, telegram)
    known = await line.people.show(f"telegram:{eve}")

    with pytest.raises(ConsentRequired):
        await line.initiative.send("agent", f"telegram:{bob}", "hi")
    for name in ("alice", "@alice"):
        with pytest.raises((InvalidInput, NoAddress, ConsentRequired)):
            await line.initiative.send("agent", f"telegram:{name}", "hi")
    telegram.do("write", chat=eve, text="stop", user=eve, name=str(ada))
    await heard(line, telegram)
    sent = await line.initiative.send("agent", f"telegram:{ada}", "hi")
    await line.outbox.round()

    assert (await line.initiative.show(sent.id)).state is SendState.DELIVERED
    assert said(telegram, ada) == ["hi"]
    assert said(telegram, bob) == said(telegram, eve) == []
    with pytest.raises(ConsentRequired):
        await line.initiative.send("agent", f"telegram:{eve}", "hi")
    assert (await line.people.show(f"telegram:{eve}")).id == known.id
    assert (await line.people.show(f"telegram:{ada}")).id != known.id


@pytest.mark.acceptance("H7")
async def test_a_limit_holds_under_parallel_sends_and_names_itself(
    line: Threadline, telegram: Simulation
) -> None:
    """Six at once, three allowed: three leave, and what failed is given back."""
    ada = next(PEOPLE)
    telegram.do("write", chat=ada, text="hello", user=ada)
    await heard(line, telegram)
    await line.consents.set_limits({"recipient_per_hour": 3})
    sends = [line.initiative.send("agent", f"telegram:{ada}", f"{n}") for n in range(6)]
    results = await asyncio.gather(*sends, return_exceptions=True)
    refused = [one for one in results if isinstance(one, LimitReached)]
    assert len(refused) == 3
    assert refused[0].facts["limit"] == "recipient_per_hour"
    assert refused[0].facts["number"] == 3


@pytest.mark.acceptance("H4")
async def test_two_agents_on_one_bot_do_not_take_each_others_answers(
    line: Threadline, telegram: Simulation
) -> None:
    """The second is told whom an answer would reach."""
    ada = next(PEOPLE)
    await line.sessions.create("second")
    await line.consents.grant("second", "telegram", "7001")
    telegram.do("write", chat=ada, text="hello", user=ada)
    await heard(line, telegram)
    await line.initiative.send("agent", f"telegram:{ada}", "first")
    with pytest.raises(ReplyRouteConflict):
        await line.initiative.send("second", f"telegram:{ada}", "mine")
    await line.outbox.round()
    with pytest.raises(ReplyRouteConflict) as conflict:
        await line.initiative.send("second", f"telegram:{ada}", "mine")
    assert conflict.value.facts["session_id"] == "agent"


@pytest.mark.acceptance("H13", "H3")
async def test_an_answer_before_the_settlement_finds_who_wrote_and_a_failure_leaves_nothing(
    line: Threadline, telegram: Simulation
) -> None:
    """The claim stands for the binding until the send is proven; a failed one takes it along."""
    ada, bob = next(PEOPLE), next(PEOPLE)
    for one in (ada, bob):
        telegram.do("write", chat=one, text="hello", user=one)
    await heard(line, telegram)
    await line.initiative.send("agent", f"telegram:{ada}", "early")
    telegram.do("write", chat=ada, text="yes", user=ada)
    await heard(line, telegram)
    reply = (await transcript(line, f"telegram/7001/{ada}"))[-1]
    assert (reply.text, reply.target_session_id, reply.route) == ("yes", "agent", "claim")
    telegram.do("block", user=bob)
    sent = await line.initiative.send("agent", f"telegram:{bob}", "lost")
    await line.outbox.round()
    assert (await line.initiative.show(sent.id)).state is SendState.FAILED
    state = await line.conversations.show(f"telegram/7001/{bob}")
    assert (state.members, state.bound, state.next_sequence) == (0, False, 2)
    assert (await line.consents.limits()).limits["recipient_per_hour"] == 5
