"""Every law sees what it is for, and says what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.providers.broken import BREAKS, Break
from tests.providers.specimens import discord, telegram
from threadline.testing import LawBroken, Specimen, contract, laws_for
from threadline.testing.providers import LAWS

NAMES = {law.name: law for law in LAWS}


@pytest.mark.parametrize("case", BREAKS, ids=str)
def test_a_dialect_that_breaks_a_law_is_told_which(case: Break) -> None:
    law = NAMES[case.law]

    with pytest.raises(LawBroken) as caught:
        law.hold(case.specimen())

    told = str(caught.value)
    assert case.seen in told
    assert told.startswith(f"{case.specimen().name} breaks a law of the contract.\n  Law:  ")
    assert f"  Law:  {law.name}: {law.sentence}\n  Seen: " in told
    assert told.endswith(f"  Do:   {law.advice}")


def test_every_law_has_a_dialect_that_breaks_it() -> None:
    assert {case.law for case in BREAKS} == NAMES.keys()


@pytest.mark.parametrize(
    ("law", "specimen", "seen"),
    [
        ("one-maker", replace(discord.SPECIMEN, past={}), "needs `past`"),
        ("one-maker", replace(discord.SPECIMEN, directs={}), "needs `directs`"),
        ("one-maker", replace(discord.SPECIMEN, children={}), "needs `children`"),
        ("identity", replace(discord.SPECIMEN, checks=[]), "needs `checks`"),
        ("recorded-events", replace(discord.SPECIMEN, webhooks={}), "no `webhooks`"),
        ("refusals", replace(telegram.SPECIMEN, refusals=[]), "no rate limit with its `wait`"),
        ("signature", replace(telegram.SPECIMEN, sign=lambda request, _: request), "not believed"),
    ],
)
def test_a_specimen_that_shows_too_little_is_not_enough(
    law: str, specimen: Specimen, seen: str
) -> None:
    """What is not handed in is not looked at, so it has to be missed."""
    with pytest.raises(LawBroken, match=seen):
        NAMES[law].hold(specimen)


def test_a_provider_nobody_registered_is_told_how() -> None:
    account = replace(telegram.SPECIMEN.account, provider="nobody")
    nobody = replace(telegram.SPECIMEN, account=account)

    with pytest.raises(LawBroken, match=r"'threadline\.providers'"):
        contract(nobody)


def test_laws_are_held_without_pytest_as_well() -> None:
    for law in laws_for(telegram.SPECIMEN)[:3]:
        law.hold(telegram.SPECIMEN)
