"""Writing first on Slack: to people whose message has to be opened, into channels and threads."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from tests import talk
from tests.conftest import Store
from tests.firsts import allowed, answered, said, silent, switched, until, welcome
from tests.slack.conftest import TEAM, given, ref
from threadline import Threadline
from threadline.core.errors import ConsentRequired, ReplyRouteConflict
from threadline.core.model import ConversationRef, Kind
from threadline.core.sends import SendState
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation

# Everybody is met once: the workspace lasts longer than a store.
PEOPLE = itertools.count()


@pytest.fixture
async def line(store: Store, slack: Simulation) -> AsyncIterator[Threadline]:
    """Listening and speaking, with two sessions that may write first in this workspace."""
    made = Threadline(store, allow_private=True)
    await made.accounts.connect("slack", given(slack, socket=True))
    await allowed(made, "slack", TEAM, "agent", "second")
    async with talk.at_work(made):
        await asyncio.to_thread(slack.do, "attended")
        yield made
    await made.outbox.close()


def dm_of(slack: Simulation, *users: str) -> ConversationRef:
    """The direct message with these people, opened by nobody yet but asked for by its name."""
    kind = Kind.DM if len(users) == 1 else Kind.ROOM
    return ConversationRef("slack", TEAM, slack.do("dm", users=list(users))["id"], kind=kind)


@pytest.mark.acceptance("H1", "H2", "H4")
@pytest.mark.case("B072", "B073")
async def test_a_direct_message_that_the_send_opens_is_the_one_the_answer_comes_to(
    line: Threadline, slack: Simulation, clock: StillClock
) -> None:
    """Ann never wrote: a human vouches for her. The send makes the only conversation there is, she
    answers hours later, and another session on the same bot cannot take her answers."""
    name = f"ann{next(PEOPLE)}"
    user = slack.do("person", user=name)["id"]
    ann = await welcome(line, "Ann", f"slack:{user}", realm=TEAM)
    sent = await said(line, "agent", f"person:{ann.id}", "Shall I book Friday?")
    assert sent.delivery is not None
    place = dm_of(slack, name)
    clock.move(hours=5)
    slack.do("say", text="works for me", channel=place.conversation_id, user=name)
    reply = await answered(line, place, "agent", "Shall I book Friday?", "works for me")
    assert (sent.delivery.ref, reply.person_id) == (place, ann.id)
    with pytest.raises(ReplyRouteConflict) as conflict:
        await line.initiative.send("second", f"person:{ann.id}", "And me?")
    assert conflict.value.facts["session_id"] == "agent"


@pytest.mark.acceptance("H4", "H5")
async def test_two_posts_of_one_bot_are_each_answered_below_their_own_words(
    line: Threadline, slack: Simulation, room: str
) -> None:
    """A post opens its thread: it begins with the post, and an unmentioned reply wakes whoever
    wrote that, though both sessions speak through one account."""
    await switched(line, ref(room))
    words = {"agent": "Lunch at noon?", "second": "Mine."}
    for name, text in words.items():
        assert (await said(line, name, ref(room), text)).state is SendState.DELIVERED
    posts = {one["text"]: one["id"] for one in slack.effects("message", place=room)}
    for name, text in words.items():
        thread = ref(room, posts[text])
        slack.do("say", text=f"yes, {name}", channel=room, thread=posts[text])
        await answered(line, thread, name, text, f"yes, {name}")
        first = (await until(line, thread, text))[0]
        assert (first.text, first.copied_from is None) == (text, False)


@pytest.mark.acceptance("H5")
async def test_a_message_of_several_people_is_a_room_and_opens_threads(
    line: Threadline, slack: Simulation
) -> None:
    """Its switch decides, not what one of them once said."""
    names = [f"bob{next(PEOPLE)}", f"eve{next(PEOPLE)}"]
    place = dm_of(slack, *names)
    channel = place.conversation_id
    await line.conversations.ensure(place)
    with pytest.raises(ConsentRequired):
        await line.initiative.send("agent", str(place), "Shall we meet?")
    await switched(line, place)
    await said(line, "agent", place, "Shall we meet?")
    [post] = slack.effects("message", place=channel)
    slack.do("say", text="at three", channel=channel, user=names[1], thread=post["id"])
    slack.do("say", text="or at four", channel=channel, user=names[0])
    await answered(line, ref(channel, post["id"]), "agent", "Shall we meet?", "at three")
    await answered(line, place, "agent", "Shall we meet?", "or at four", asked=False)


@pytest.mark.acceptance("H1", "H4", "H5")
async def test_a_send_into_a_thread_is_answered_there(
    line: Threadline, slack: Simulation, room: str
) -> None:
    """Nobody was in the thread yet: what it hangs on stands first, the answer is the writer's."""
    await switched(line, ref(room))
    root = slack.do("say", text="Who takes the ferry?", channel=room)["ts"]
    await until(line, ref(room), "Who takes the ferry?")
    thread = ref(room, root)
    sent = await said(line, "agent", thread, "I looked it up: at six.")
    [post] = slack.effects("message", place=room)
    assert (sent.state, post["thread"]) == (SendState.DELIVERED, root)
    with pytest.raises(ReplyRouteConflict):
        await line.initiative.send("second", str(thread), "At seven.")
    slack.do("say", text="thanks, six it is", channel=room, thread=root)
    await answered(line, thread, "agent", "I looked it up: at six.", "thanks, six it is")
    texts = [one.text for one in await until(line, thread, "thanks, six it is")]
    assert texts[0] == "Who takes the ferry?"


@pytest.mark.acceptance("H5")
async def test_an_answer_in_a_thread_of_a_direct_message_comes_below_what_it_answers(
    line: Threadline, slack: Simulation
) -> None:
    """Some people answer everything in threads."""
    name = f"tom{next(PEOPLE)}"
    user = slack.do("person", user=name)["id"]
    tom = await welcome(line, "Tom", f"slack:{user}", realm=TEAM)
    await said(line, "agent", f"person:{tom.id}", "Shall I?")
    channel = dm_of(slack, name).conversation_id
    [post] = slack.effects("message", place=channel)
    slack.do("say", text="do", channel=channel, user=name, thread=post["id"])
    thread = ref(channel, post["id"])
    reply = await answered(line, thread, "agent", "Shall I?", "do")
    assert (await until(line, thread, "do"))[0].text == "Shall I?"
    assert reply.person_id == tom.id


@pytest.mark.acceptance("H6")
@pytest.mark.parametrize("threaded", [False, True], ids=["beside", "in a thread"])
async def test_stop_in_ones_own_language_is_the_end_of_it(
    line: Threadline, slack: Simulation, threaded: bool
) -> None:
    """Wherever in the direct message it is said."""
    name = f"lea{next(PEOPLE)}"
    user = slack.do("person", user=name)["id"]
    lea = await welcome(line, "Lea", f"slack:{user}", realm=TEAM, languages=["fr"])
    await said(line, "agent", f"person:{lea.id}", "Bonjour !")
    place = dm_of(slack, name)
    channel = place.conversation_id
    [post] = slack.effects("message", place=channel)
    where = {"thread": post["id"]} if threaded else {}
    slack.do("say", text="Arrêt.", channel=channel, user=name, **where)
    there = ref(channel, post["id"]) if threaded else place
    await silent(line, there, "agent", f"person:{lea.id}", "Arrêt.")
    assert len(slack.effects("message", place=channel)) == 1
