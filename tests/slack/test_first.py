"""Writing first on Slack: to a person whose direct message has to be opened, and into a channel."""

from __future__ import annotations

import asyncio

import pytest

from tests import talk
from tests.slack.conftest import TEAM, ref
from tests.talk import seen
from threadline import Threadline
from threadline.core.model import Controller, ConversationRef, Kind
from threadline.testing.simulation import Simulation

HUMAN = Controller(human=True)


@pytest.mark.acceptance("H1", "H2")
@pytest.mark.case("B072", "B073")
async def test_a_direct_message_that_the_send_opens_is_the_one_the_answer_comes_to(
    line: Threadline, slack: Simulation
) -> None:
    """Ann never wrote: a human vouches for her and consents in her name; the send makes the only
    conversation there is."""
    user = slack.do("person", user="first-ann")["id"]
    await line.sessions.create("agent")
    await line.consents.grant("agent", "slack", TEAM)
    ann = await line.people.make("Ann")
    ann = await line.people.change(
        ann.id, contacts=[f"slack:{user}"], realm=TEAM, verified=True, caller=HUMAN
    )
    await line.consents.set("on", person=ann.id, why="asked for it on paper", caller=HUMAN)
    async with talk.at_work(line):
        await asyncio.to_thread(slack.do, "attended")
        sent = await line.initiative.send("agent", f"person:{ann.id}", "Shall I book Friday?")
        assert sent.delivery is not None
        dm = slack.do("dm", users="first-ann")["id"]
        await asyncio.to_thread(slack.effects, "message", place=dm, at_least=1)
        slack.do("say", text="works for me", channel=dm, user="first-ann")
        place = ConversationRef("slack", TEAM, dm, kind=Kind.DM)
        await line.initiative.settled(sent)
        said, reply = await seen(line, place, lambda found: len(found) >= 2, reader="agent")
    assert sent.delivery.ref == place
    assert (said.text, reply.text) == ("Shall I book Friday?", "works for me")
    assert (reply.target_session_id, reply.person_id) == ("agent", ann.id)


@pytest.mark.acceptance("H5")
async def test_an_unmentioned_reply_below_a_post_wakes_its_author(
    line: Threadline, slack: Simulation, room: str
) -> None:
    """A post opens its thread: the thread begins with it, and a second agent may post beside."""
    for name in ("agent", "second"):
        await line.sessions.create(name)
        await line.consents.grant(name, "slack", TEAM)
    place = ref(room)
    await line.conversations.ensure(place)
    await line.consents.set("on", room=place, caller=HUMAN)
    async with talk.at_work(line):
        await asyncio.to_thread(slack.do, "attended")
        await line.initiative.send("second", str(place), "Mine.")
        await asyncio.to_thread(slack.effects, "message", place=room, at_least=1)
        await line.initiative.send("agent", str(place), "Lunch at noon?")
        posts = await asyncio.to_thread(slack.effects, "message", place=room, at_least=2)
        root = next(one["id"] for one in posts if one["text"] == "Lunch at noon?")
        slack.do("say", text="yes, do it", channel=room, thread=root)
        thread = ref(room, root)
        first, reply = await seen(line, thread, lambda found: len(found) >= 2, reader="agent")
    assert (first.text, first.source_session_id) == ("Lunch at noon?", "agent")
    assert (reply.text, reply.target_session_id, reply.wakes) == (
        "yes, do it",
        "agent",
        (first.source,),
    )
