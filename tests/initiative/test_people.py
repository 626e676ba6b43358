"""Who people are on several platforms: verified by a code, merged and split, nothing lost."""

from __future__ import annotations

import itertools

import pytest

from tests.initiative.conftest import heard, met, transcript
from threadline import Threadline
from threadline.core.errors import Conflict, ConsentRequired, Unauthorized
from threadline.core.model import Controller, SessionCaller
from threadline.core.rules.consent import START_WORDS, STOP_WORDS, Wish, wish
from threadline.testing.simulation import Simulation

PEOPLE = itertools.count(12000)
HUMAN = Controller(human=True)


@pytest.mark.acceptance("H6")
async def test_a_code_said_in_a_channel_makes_it_that_persons(
    line: Threadline, telegram: Simulation
) -> None:
    """Once, for a while; five wrong ones an hour are looked at, and no more."""
    ada, eve = next(PEOPLE), next(PEOPLE)
    known = await line.people.make("Ada", contacts=[f"email:ada{ada}@example.org"])
    given = await line.people.code(known.id, provider="telegram")
    telegram.do("write", chat=ada, text=given.code.lower(), user=ada)
    await heard(line, telegram)
    found = await line.people.show(f"telegram:{ada}")
    assert found.id == known.id
    assert {(one.provider, one.how) for one in found.contacts} == {
        ("email", ""),
        ("telegram", "code"),
    }
    [said] = await transcript(line, f"telegram/7001/{ada}")
    assert said.person_id == known.id
    telegram.do("write", chat=eve, text=given.code, user=eve)
    for number in range(5):
        telegram.do("write", chat=eve, text=f"AAAA-000{number}", user=eve)
    fresh = await line.people.code(known.id)
    telegram.do("write", chat=eve, text=fresh.code, user=eve)
    await heard(line, telegram)
    assert (await line.people.show(f"telegram:{eve}")).id != known.id


async def test_two_who_are_one_are_merged_and_split_without_losing_a_record(
    line: Threadline, telegram: Simulation
) -> None:
    """OFF wins over ON; the older id still finds who it became."""
    ada, other = next(PEOPLE), next(PEOPLE)
    await met(line, telegram, ada, other)
    telegram.do("write", chat=other, text="stop", user=other)
    await heard(line, telegram)
    one = await line.people.show(f"telegram:{ada}")
    two = await line.people.show(f"telegram:{other}")
    await line.consents.set("on", person=one.id, caller=HUMAN)
    merged = await line.people.merge(one.id, two.id)
    assert (merged.id, merged.merged) == (one.id, (two.id,))
    assert len(merged.contacts) == 2
    assert (await line.people.show(two.id)).id == one.id
    with pytest.raises(ConsentRequired):
        await line.initiative.send("agent", f"telegram:{ada}", "hi")
    apart = await line.people.split(one.id, f"telegram:{other}", name="Other")
    assert (await line.people.show(f"telegram:{other}")).id == apart.id
    telegram.do("write", chat=other, text="me again", user=other)
    await heard(line, telegram)
    records = await transcript(line, f"telegram/7001/{other}")
    assert records[-1].person_id == apart.id
    assert [it.text for it in records if it.event.value == "message"] == [
        "hello",
        "stop",
        "me again",
    ]


async def test_an_address_is_one_persons_and_only_a_human_vouches(line: Threadline) -> None:
    number = next(PEOPLE)
    first = await line.people.make("Ann", contacts=[f"alias:ann{number}"])
    with pytest.raises(Conflict):
        await line.people.make("Anne", contacts=[f"alias:ANN{number}"])
    with pytest.raises(Unauthorized):
        await line.people.change(first.id, contacts=["discord:1"], verified=True)
    agent = SessionCaller("agent", scopes=frozenset({"read", "send"}))
    for deed in (
        line.people.make("Mallory", caller=agent),
        line.consents.set("on", person=first.id, caller=agent),
        line.consents.grant("agent", "discord", "700", caller=agent),
        line.consents.set_limits({"recipient_per_hour": 0}, caller=agent),
        line.audits.list(caller=agent),
    ):
        with pytest.raises(Unauthorized):
            await deed


def test_every_word_for_stop_is_understood_alone_and_nothing_longer() -> None:
    """In its language, in English always, in any where none is known; never inside a sentence."""
    for language, words in STOP_WORDS.items():
        for word in words:
            for spelled in (word, word.upper(), f" /{word}!! "):
                assert wish(spelled, [language]) is Wish.STOP
                assert wish(spelled) is Wish.STOP
            assert wish(f"{word} the train at nine") is None
    for language, words in START_WORDS.items():
        assert all(wish(word, [f"{language}-XX"]) is Wish.START for word in words)
    assert wish("стоп", ["de"]) is None
    assert wish("cancel") is None
