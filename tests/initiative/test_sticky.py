"""A decision sticks: no import, second id, split, merge or middleman washes an OFF away or turns
anything on."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from tests.initiative.conftest import met
from threadline import Actor, ConversationRef, InboundMessage, Threadline
from threadline.core.errors import ConsentRequired, InvalidInput, LimitReached, Unauthorized
from threadline.core.model import Controller, Kind
from threadline.core.sends import Repeat, SendState
from threadline.testing.simulation import Simulation

PEOPLE = itertools.count(90_000)
IDS = itertools.count(1)
HUMAN = Controller(human=True)


def words(user: str, text: str, *, also: str = "") -> InboundMessage:
    """What a person writes to the bot, who may be known by another id as well."""
    return InboundMessage(
        conversation=ConversationRef("telegram", "7001", user, kind=Kind.DM),
        same_as=(ConversationRef("telegram", "7001", also),) if also else (),
        actor=Actor(user, f"user {user}"),
        text=text,
        message_id=f"made-{next(IDS)}",
    )


async def refused(line: Threadline, to: str) -> str:
    """Why the agent may not write there."""
    with pytest.raises(ConsentRequired) as no:
        await line.initiative.send("agent", to, "hi")
    return no.value.detail


@pytest.mark.acceptance("H6")
async def test_the_word_stop_does_not_wait_until_an_import_is_over(
    line: Threadline, telegram: Simulation
) -> None:
    """It is held as a record and heeded at once: what is in the lane does not leave."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    place = f"telegram/7001/{ada}"
    written = await line.initiative.send("agent", f"telegram:{ada}", "on its way")
    window = await line.hydration.begin(place, owner="importer", mode="gated")
    held = await line.inbound.receive(words(str(ada), "Stop"))
    assert held.held
    await line.outbox.round()
    assert (await line.initiative.show(written.id)).state is SendState.CANCELLED
    assert "turned off" in await refused(line, f"telegram:{ada}")
    assert window.token is not None
    await line.hydration.complete(place, window.token)
    assert "turned off" in await refused(line, f"telegram:{ada}")
    assert telegram.effects("message", place=str(ada)) == []


@pytest.mark.acceptance("H6")
async def test_who_said_stop_under_one_id_said_it_under_the_other(line: Threadline) -> None:
    """As with a phone number and the opaque id of WhatsApp: both are one person's."""
    old, new, third = (str(next(PEOPLE)) for _ in range(3))
    await line.inbound.receive(words(old, "hello"))
    await line.inbound.receive(words(old, "stop"))
    person = await line.people.show(f"telegram:{old}")
    await line.inbound.receive(words(new, "hello again", also=old))
    assert (await line.people.show(f"telegram:{new}")).id == person.id
    assert "turned off" in await refused(line, f"telegram:{new}")
    await line.inbound.receive(words(third, "me"))
    await line.inbound.receive(words(third, "me too", also=old))
    for one in (old, third):
        assert "turned off" in await refused(line, f"telegram:{one}")


async def test_what_was_decided_about_one_session_outlives_a_split(
    line: Threadline, telegram: Simulation
) -> None:
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    person = await line.people.show(f"telegram:{ada}")
    await line.consents.set("off", person=person.id, about="session:agent")
    await line.people.split(person.id, f"telegram:{ada}")
    assert "session:" in await refused(line, f"telegram:{ada}")


async def test_only_a_human_joins_or_takes_apart_what_turns_something_on(
    line: Threadline, telegram: Simulation
) -> None:
    """A merge with somebody who may be written to, and an address taken from who said stop."""
    ada, eve = next(PEOPLE), next(PEOPLE)
    free = await line.people.make("Free", contacts=[f"email:free{ada}@example.org"])
    await line.consents.set("on", person=free.id, caller=HUMAN)
    silent = await line.people.make("Silent", contacts=[f"telegram:{ada}"])
    await line.people.change(silent.id, contacts=[f"telegram:{ada}"], verified=True, caller=HUMAN)
    for kept, other in ((free, silent), (silent, free)):
        with pytest.raises(Unauthorized):
            await line.people.merge(kept.id, other.id)
    assert "never given" in await refused(line, f"telegram:{ada}")
    await line.people.merge(free.id, silent.id, caller=HUMAN)
    await line.initiative.send("agent", f"telegram:{ada}", "hi")

    await line.inbound.receive(words(str(eve), "hello"))
    await line.inbound.receive(words(str(eve), "stop"))
    person = await line.people.show(f"telegram:{eve}")
    with pytest.raises(Unauthorized):
        await line.people.change(person.id, without=[f"telegram:{eve}"])
    await line.inbound.receive(words(str(eve), "by the way"))
    assert "turned off" in await refused(line, f"telegram:{eve}")


async def test_many_merges_leave_every_earlier_id_known(line: Threadline) -> None:
    people = [await line.people.make(f"P{number}") for number in range(20)]
    for one, other in itertools.pairwise(people):
        await line.people.merge(other.id, one.id)
    assert {(await line.people.show(one.id)).id for one in people} == {people[-1].id}


@pytest.mark.acceptance("H6")
async def test_a_controller_that_writes_words_down_grants_nothing_by_them(
    line: Threadline,
) -> None:
    """It may be an agent's. A human's counts, and the word "stop" counts whoever brings it."""
    ada, bob = str(next(PEOPLE)), str(next(PEOPLE))
    await line.inbound.append(words(ada, "hello"))
    assert "never given" in await refused(line, f"telegram:{ada}")
    await line.inbound.append(words(ada, "hello"), caller=HUMAN)
    await line.initiative.send("agent", f"telegram:{ada}", "hi")
    await line.inbound.append(words(ada, "stop"))
    await line.inbound.append(words(ada, "start"))
    assert "turned off" in await refused(line, f"telegram:{ada}")
    known = await line.people.make("Bob")
    given = await line.people.code(known.id)
    await line.inbound.append(words(bob, given.code))
    assert [one.address for one in (await line.people.show(known.id)).contacts] == []


async def test_an_off_that_nothing_asks_about_is_refused(
    line: Threadline, telegram: Simulation
) -> None:
    """Else it would be shown as turned off, and everything would leave."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    person = await line.people.show(f"telegram:{ada}")
    for about in ("Telegram", "tele gram", "*"):
        with pytest.raises(InvalidInput):
            await line.consents.set("off", person=person.id, about=about)
    await line.conversations.ensure("telegram/7001/-5")
    with pytest.raises(InvalidInput):
        await line.consents.set("off", room="telegram/7001/-5", about="telegram")


async def test_a_person_is_one_recipient_by_whatever_they_are_addressed(
    line: Threadline, telegram: Simulation
) -> None:
    """By id, by the place or by name: one limit, and nothing is said twice."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    person = await line.people.show(f"telegram:{ada}")
    ways = [f"telegram:{ada}", f"telegram/7001/{ada}", f"person:{person.id}"]
    for first in ways:
        intent = f"news for {first}"
        assert (await line.initiative.send("agent", first, "x", intent=intent)).state is not (
            SendState.SUPPRESSED
        )
        for second in ways:
            again = await line.initiative.send("agent", second, "y", intent=intent)
            assert again.state is SendState.SUPPRESSED, (first, second)
    await line.consents.set_limits({"recipient_per_hour": 3})
    for way in ways:
        with pytest.raises(LimitReached):
            await line.initiative.send("agent", way, "one more")


async def test_who_was_written_to_before_a_merge_or_a_split_counts_on(
    line: Threadline, telegram: Simulation
) -> None:
    """Nobody is written to more often, or told the same twice, for being sorted anew."""
    ada, eve = next(PEOPLE), next(PEOPLE)
    await met(line, telegram, ada, eve)
    await line.consents.set_limits({"recipient_per_hour": 2})
    for user in (ada, eve):
        await line.initiative.send("agent", f"telegram:{user}", "news", intent=f"news {user}")
    one, two = [await line.people.show(f"telegram:{user}") for user in (ada, eve)]
    await line.people.merge(one.id, two.id)
    again = await line.initiative.send("agent", f"telegram:{ada}", "news", intent=f"news {eve}")
    assert again.state is SendState.SUPPRESSED
    with pytest.raises(LimitReached):
        await line.initiative.send("agent", f"telegram:{ada}", "more")
    await line.people.split(one.id, f"telegram:{eve}")
    with pytest.raises(LimitReached):
        await line.initiative.send("agent", f"telegram:{eve}", "more")


async def test_a_send_taken_back_leaves_the_claim_to_the_one_before(
    line: Threadline, telegram: Simulation
) -> None:
    """Else the first would be cancelled as if the conversation were another's."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    first = await line.initiative.send("agent", f"telegram:{ada}", "first")
    second = await line.initiative.send("agent", f"telegram:{ada}", "second")
    await line.initiative.cancel(second.id)
    await line.outbox.round()
    assert (await line.initiative.show(first.id)).state is SendState.DELIVERED


@pytest.mark.acceptance("H6")
async def test_nothing_is_planned_for_who_said_stop(line: Threadline, telegram: Simulation) -> None:
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    tomorrow = (await line.initiative.send("agent", f"telegram:{ada}", "now")).created_at
    tomorrow += timedelta(days=1)
    await line.inbound.receive(words(str(ada), "stop"))

    with pytest.raises(ConsentRequired, match="turned off"):
        await line.initiative.send("agent", f"telegram:{ada}", "tomorrow", at=tomorrow)
    daily = Repeat(at="08:30", zone="UTC")
    with pytest.raises(ConsentRequired, match="turned off"):
        await line.initiative.send("agent", f"telegram:{ada}", "every day", repeat=daily)
