"""Writing first on Telegram: in private chats, groups, topics, and a group that moves meanwhile."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest

from tests.firsts import answered, silent, switched
from tests.initiative.conftest import heard, line, met, telegram, transcript
from tests.initiative.conftest import said as shown
from threadline import Threadline
from threadline.core.errors import ConsentRequired, ReplyRouteConflict
from threadline.core.model import ConversationRef, Kind
from threadline.core.sends import SendState
from threadline.flows.send_status import SendStatus
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation

__all__ = ["line", "telegram"]

PEOPLE = itertools.count(12_000)
GROUPS = itertools.count(-900, -1)
SUPERGROUPS = itertools.count(-1_000_000_000_900, -1)


def at(chat: int, topic: int = 0) -> ConversationRef:
    """A chat's conversation, or that of a topic in it."""
    if topic:
        return ConversationRef("telegram", "7001", str(topic), str(chat), kind=Kind.THREAD)
    return ConversationRef("telegram", "7001", str(chat), kind=Kind.DM if chat > 0 else Kind.ROOM)


async def send(line: Threadline, to: object, text: str, **more: Any) -> SendStatus:
    """What became of what `agent` writes first."""
    sent = await line.initiative.send("agent", str(to), text, **more)
    await line.outbox.round()
    return await line.initiative.show(sent.id)


@pytest.mark.acceptance("H1", "H2", "H6")
async def test_a_person_answers_hours_later_and_says_stop_in_russian(
    line: Threadline, telegram: Simulation, clock: StillClock
) -> None:
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    person = await line.people.show(f"telegram:{ada}")
    await line.people.change(person.id, languages=["ru"])
    assert (await send(line, f"telegram:{ada}", "Shall I?")).state is SendState.DELIVERED
    clock.move(hours=7)
    telegram.do("write", chat=ada, text="yes, do it", user=ada)
    await heard(line, telegram)
    reply = await answered(line, at(ada), "agent", "Shall I?", "yes, do it")
    assert reply.person_id == person.id
    telegram.do("write", chat=ada, text="СТОП", user=ada)
    await heard(line, telegram)
    await silent(line, at(ada), "agent", f"telegram:{ada}", "СТОП")
    assert shown(telegram, ada) == ["Shall I?"]


@pytest.mark.acceptance("H1", "H4", "H5")
async def test_a_broadcast_in_a_group_and_what_a_member_says_later_are_one_transcript(
    line: Threadline, telegram: Simulation, clock: StillClock
) -> None:
    """Two sessions have one bot: whoever wrote gets the answer, the other is told so."""
    group = next(GROUPS)
    await line.sessions.create("second")
    await line.consents.grant("second", "telegram", "7001")
    telegram.do("write", chat=group, text="hello all", user=next(PEOPLE))
    await heard(line, telegram)
    with pytest.raises(ConsentRequired):
        await send(line, at(group), "Lunch?")
    await switched(line, at(group))
    assert (await send(line, at(group), "Lunch?")).state is SendState.DELIVERED
    with pytest.raises(ReplyRouteConflict) as conflict:
        await line.initiative.send("second", str(at(group)), "Dinner?")
    assert conflict.value.facts["session_id"] == "agent"
    clock.move(hours=3)
    telegram.do("write", chat=group, text="yes please", user=next(PEOPLE))
    await heard(line, telegram)
    await answered(line, at(group), "agent", "Lunch?", "yes please")
    assert (await transcript(line, str(at(group))))[0].text == "hello all"


@pytest.mark.acceptance("H1", "H4", "H5")
async def test_a_topic_of_a_forum_is_answered_in_that_topic(
    line: Threadline, telegram: Simulation
) -> None:
    """Neither the forum's own chat nor the topic beside it has a word of it."""
    forum = next(SUPERGROUPS)
    topics = [
        telegram.do("forum", chat=forum, topic=name)["message_thread_id"]
        for name in ("ferries", "food")
    ]
    await heard(line, telegram)
    await switched(line, at(forum))
    ferries, food = (at(forum, topic) for topic in topics)
    assert (await send(line, ferries, "The ferry is late.")).state is SendState.DELIVERED
    assert (await send(line, food, "Soup today.")).state is SendState.DELIVERED
    assert [
        (one["text"], one["topic"]) for one in telegram.effects("message", place=str(forum))
    ] == [("The ferry is late.", topics[0]), ("Soup today.", topics[1])]
    telegram.do("write", chat=forum, text="how late?", user=next(PEOPLE), topic=topics[0])
    await heard(line, telegram)
    await answered(line, ferries, "agent", "The ferry is late.", "how late?")
    texts = [one.text for one in await transcript(line, str(food))]
    assert texts == ["Soup today."]


@pytest.mark.acceptance("H1", "H5")
@pytest.mark.parametrize("how", ["told", "only when it is sent", "after it was heard there"])
async def test_what_is_scheduled_goes_where_the_group_went_meanwhile(
    line: Threadline, telegram: Simulation, clock: StillClock, how: str
) -> None:
    """The supergroup is another chat with other numbers; its switch is the group's."""
    old, new = next(GROUPS), next(SUPERGROUPS)
    telegram.do("write", chat=old, text="hello all", user=next(PEOPLE))
    await heard(line, telegram)
    await switched(line, at(old))
    later = clock() + timedelta(hours=5)
    sent = await line.initiative.send("agent", str(at(old)), "Still on for five?", at=later)
    if how == "after it was heard there":
        telegram.do("write", chat=new, text="we are here now", user=next(PEOPLE))
        await heard(line, telegram)
    telegram.do("upgraded", chat=old, to=new, tell=how != "only when it is sent")
    await heard(line, telegram)
    clock.move(hours=5)
    await line.initiative.round()
    await line.outbox.round()
    done = await line.initiative.show(sent.id)
    assert done.state is SendState.DELIVERED, done.reason
    assert (shown(telegram, old), shown(telegram, new)) == ([], ["Still on for five?"])
    telegram.do("write", chat=new, text="yes, at five", user=next(PEOPLE))
    await heard(line, telegram)
    await answered(line, at(new), "agent", "Still on for five?", "yes, at five")
