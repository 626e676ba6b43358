"""Every dialect of this house under the contract that third parties are held to as well."""

from __future__ import annotations

from tests.providers.specimens import discord, http, matrix, slack, telegram, twilio, whatsapp
from threadline.adapters.registry import OURS
from threadline.testing import Specimen, contract

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
