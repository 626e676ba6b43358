"""Writing first on Discord: to a person, into channels and threads."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.conftest import Store
from tests.discord.conftest import ref
from tests.firsts import allowed, answered, said, silent, switched, until, welcome
from tests.talk import at_work
from threadline import Threadline
from threadline.core.errors import ConsentRequired, ReplyRouteConflict
from threadline.core.model import ConversationRef, Kind
from threadline.core.sends import SendState
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation

# Everybody is met once: the server lasts longer than a store.
PEOPLE = itertools.count()


@pytest.fixture
async def line(store: Store, discord: Simulation) -> AsyncIterator[Threadline]:
    """Listening and speaking, with two sessions that may write first through the one bot."""
    made = Threadline(store, allow_private=True)
    given = {"token": discord.credentials["token"], "api": f"{discord.url}/api/v10"}
    await made.accounts.connect("discord", given)
    await allowed(made, "discord", "700", "agent", "second")
    async with at_work(made):
        await asyncio.to_thread(discord.do, "attended")
        yield made
    await made.outbox.close()


def thread_of(thread: str) -> ConversationRef:
    """A thread, which is a channel by itself."""
    return ConversationRef("discord", "700", thread, kind=Kind.THREAD)


@pytest.mark.acceptance("H1", "H2", "H4", "H6")
@pytest.mark.case("B072")
async def test_a_person_answers_in_the_direct_message_that_was_opened_and_ends_it(
    line: Threadline, discord: Simulation, clock: StillClock
) -> None:
    """Bob never wrote. His answer comes hours later, to the session that wrote; then he has
    enough, and says so in German."""
    name = f"bob{next(PEOPLE)}"
    user = discord.do("dm", user=name)["recipients"][0]["id"]
    bob = await welcome(line, "Bob", f"discord:{user}", languages=["de"])
    sent = await said(line, "agent", f"person:{bob.id}", "Shall I?")
    channel = discord.do("dm", user=name)["id"]
    place = ConversationRef("discord", "700", channel, kind=Kind.DM)
    clock.move(hours=5)
    discord.do("say", text="yes", channel=channel, user=name)
    reply = await answered(line, place, "agent", "Shall I?", "yes")
    assert sent.delivery is not None
    assert (sent.delivery.ref, reply.person_id) == (place, bob.id)
    with pytest.raises(ReplyRouteConflict):
        await line.initiative.send("second", f"person:{bob.id}", "And me?")
    discord.do("say", text="abmelden!", channel=channel, user=name)
    await silent(line, place, "agent", f"person:{bob.id}", "abmelden!")
    assert len(discord.effects("message", place=channel)) == 1


@pytest.mark.acceptance("H1", "H4", "H5", "H6")
async def test_a_broadcast_and_a_members_later_message_are_in_one_transcript(
    line: Threadline, discord: Simulation, room: dict[str, Any], clock: StillClock
) -> None:
    """Once a human switched the channel on; whoever wrote is answered, the other is told so."""
    place = ref(room["id"])
    await line.conversations.ensure(place)
    with pytest.raises(ConsentRequired):
        await line.initiative.send("agent", str(place), "Lunch?")
    await switched(line, place)
    assert (await said(line, "agent", place, "Lunch?")).state is SendState.DELIVERED
    with pytest.raises(ReplyRouteConflict) as conflict:
        await line.initiative.send("second", str(place), "Dinner?")
    assert conflict.value.facts["session_id"] == "agent"
    clock.move(hours=2)
    discord.do("say", text="yes please", channel=room["id"])
    later = await answered(line, place, "agent", "Lunch?", "yes please")
    assert later.person_id is None


@pytest.mark.acceptance("H1", "H5")
async def test_a_thread_that_somebody_opens_on_a_post_begins_with_it_and_wakes_its_author(
    line: Threadline, discord: Simulation, room: dict[str, Any]
) -> None:
    place = ref(room["id"])
    await switched(line, place)
    await said(line, "agent", place, "Lunch at noon?")
    [post] = discord.effects("message", place=room["id"])
    opened = discord.do("thread", channel=room["id"], name="lunch", message=post["id"])
    discord.do("say", text="yes, do it", channel=opened["id"])
    thread = thread_of(opened["id"])
    await answered(line, thread, "agent", "Lunch at noon?", "yes, do it")
    spoken = [one.text for one in await until(line, thread, "yes, do it") if one.text]
    assert spoken[0] == "Lunch at noon?"


@pytest.mark.acceptance("H1", "H4", "H5")
async def test_a_send_into_a_thread_is_answered_there(
    line: Threadline, discord: Simulation, room: dict[str, Any]
) -> None:
    """A thread of its own, in which nobody said anything yet."""
    opened = discord.do("thread", channel=room["id"], name="ferries")
    thread = thread_of(opened["id"])
    await switched(line, thread)
    assert (await said(line, "agent", thread, "At six.")).state is SendState.DELIVERED
    with pytest.raises(ReplyRouteConflict):
        await line.initiative.send("second", str(thread), "At seven.")
    discord.do("say", text="six it is", channel=opened["id"])
    await answered(line, thread, "agent", "At six.", "six it is")
    assert len(discord.effects("message", place=opened["id"])) == 1
    assert discord.effects("message", place=room["id"]) == []
