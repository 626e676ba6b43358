"""Writing first on Discord: to a person, and into a channel."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.discord.conftest import ref
from tests.talk import at_work, seen
from threadline import Threadline
from threadline.core.model import Controller, ConversationRef, Kind
from threadline.testing.simulation import Simulation

HUMAN = Controller(human=True)


@pytest.mark.acceptance("H1", "H2")
async def test_a_person_answers_in_the_direct_message_that_was_opened(
    line: Threadline, discord: Simulation
) -> None:
    dm = discord.do("dm", user="first-bob")
    user = next(one["id"] for one in dm["recipients"])
    await line.sessions.create("agent")
    await line.consents.grant("agent", "discord", "700")
    bob = await line.people.make("Bob", contacts=[f"discord:{user}"], verified=True, caller=HUMAN)
    await line.consents.set("on", person=bob.id, caller=HUMAN)
    place = ConversationRef("discord", "700", dm["id"], kind=Kind.DM)
    async with at_work(line):
        await asyncio.to_thread(discord.do, "attended")
        sent = await line.initiative.send("agent", f"person:{bob.id}", "Shall I?")
        await line.initiative.settled(sent)
        discord.do("say", text="yes", channel=dm["id"], user="first-bob")
        said, reply = await seen(line, place, lambda found: len(found) >= 2, reader="agent")
    assert (said.text, said.source_session_id) == ("Shall I?", "agent")
    assert (reply.text, reply.target_session_id, reply.person_id) == ("yes", "agent", bob.id)


@pytest.mark.acceptance("H5")
async def test_a_broadcast_and_a_members_later_message_are_in_one_transcript(
    line: Threadline, discord: Simulation, room: dict[str, Any]
) -> None:
    await line.sessions.create("agent")
    await line.consents.grant("agent", "discord", "700")
    place = ref(room["id"])
    await line.conversations.ensure(place)
    await line.consents.set("on", room=place, caller=HUMAN)
    async with at_work(line):
        await asyncio.to_thread(discord.do, "attended")
        sent = await line.initiative.send("agent", str(place), "Lunch?")
        await line.initiative.settled(sent)
        discord.do("say", text="yes please", channel=room["id"])
        said, later = await seen(line, place, lambda found: len(found) >= 2, reader="agent")
    assert (said.text, later.text, later.target_session_id) == ("Lunch?", "yes please", "agent")
    assert later.person_id is None
