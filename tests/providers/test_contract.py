"""Every dialect of this house under the contract that third parties are held to as well."""

from __future__ import annotations

import re

import pytest

from tests.providers.specimens import discord, http, matrix, slack, telegram, twilio, whatsapp
from threadline.adapters.registry import OURS
from threadline.testing import Specimen, contract
from threadline.testing.laws import calls

# One line and one specimen is all that another provider needs here.
test_telegram = contract(telegram.SPECIMEN)
test_discord = contract(discord.SPECIMEN)
test_whatsapp = contract(whatsapp.SPECIMEN)
test_slack = contract(slack.SPECIMEN)
test_twilio = contract(twilio.SPECIMEN)
test_matrix = contract(matrix.SPECIMEN)
test_an_adapter_elsewhere = contract(http.SPECIMEN)


def test_every_provider_of_this_house_is_under_the_contract() -> None:
    held = {
        module.SPECIMEN.name
        for module in globals().values()
        if isinstance(getattr(module, "SPECIMEN", None), Specimen)
    }

    assert {one.name for one in OURS} <= held
    assert {f"test_{one.name}" for one in OURS} <= globals().keys()


# How each platform says that a message is to be another one.
EDITING = re.compile(r"editMessage|chat\.update|m\.replace", re.I)


@pytest.mark.case("B099")
@pytest.mark.parametrize(
    "specimen",
    [one.SPECIMEN for one in (discord, matrix, slack, telegram, twilio, whatsapp)],
    ids=lambda one: one.name,
)
def test_no_call_of_ours_changes_what_was_said(specimen: Specimen) -> None:
    """So there is no last edit that can fail, and no whole answer that is posted after it."""
    made = [call for _, call in calls(specimen, specimen.made())]

    assert made
    assert [one for one in made if one.method == "PATCH"] == []
    assert [one for one in made if EDITING.search(f"{one.url} {one.body!r}")] == []
