"""People and an agent in a simulated Discord: heard, recorded, answered, echoed, once each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.discord.conftest import ref
from tests.talk import at_work, furnished, seen
from threadline import Threadline
from threadline.core.deliveries import DeliveryState
from threadline.core.errors import Unauthenticated
from threadline.core.model import Direction, Event, TranscriptRecord
from threadline.testing.simulation import Simulation


async def attended(discord: Simulation) -> None:
    """Wait until a session of ours is open: what happens before it is not told."""
    await asyncio.to_thread(discord.do, "attended")


def numbered(count: int) -> Callable[[list[TranscriptRecord]], bool]:
    """So many records."""
    return lambda found: len(found) >= count


async def test_connecting_asks_discord_who_we_are(line: Threadline, discord: Simulation) -> None:
    state = await line.accounts.connect(
        "discord", {"token": discord.credentials["token"], "api": f"{discord.url}/api/v10"}
    )
    identity = await line.accounts.check("discord", "700")

    assert (state.state.account_id, state.webhook) == ("700", "")
    assert (identity.actor.id, identity.actor.is_self) == ("900", True)
    with pytest.raises(Unauthenticated):
        await line.accounts.connect(
            "discord", {"token": "OTAw.wrong.one7", "api": f"{discord.url}/api/v10"}
        )


@pytest.mark.acceptance("G1", "G6", "G10")
async def test_a_question_is_heard_answered_and_the_echo_is_the_same_record(
    line: Threadline, discord: Simulation, room: dict[str, Any]
) -> None:
    where = room["id"]
    place = await furnished(line, ref(where))
    async with at_work(line):
        await attended(discord)
        question = discord.do("say", text="When do we open?", channel=where)["id"]
        await seen(line, ref(where), numbered(1))
        sent = await line.outbound.publish(place, "agent", "At nine, @everyone.", reply_to=1)
        [effect] = await asyncio.to_thread(discord.effects, "message", place=where, at_least=1)
        discord.do("say", text="Thanks!", channel=where)
        heard = await seen(line, ref(where), numbered(3))

    assert [(it.sequence, it.text) for it in heard] == [
        (1, "When do we open?"),
        (2, "At nine, @everyone."),
        (3, "Thanks!"),
    ]
    answer = heard[1]
    assert (answer.direction, answer.message_id) == (Direction.OUTBOUND, effect["id"])
    assert (answer.actor.id, answer.source_session_id) == ("900", "agent")
    assert (effect["reply_to"], effect["pings"], effect["cards"]) == (question, [], False)
    assert (await line.deliveries.show(sent.id)).state is DeliveryState.DELIVERED


@pytest.mark.acceptance("G5", "G6")
@pytest.mark.parametrize("fault", ["drop", "late_status"])
async def test_a_message_that_was_said_without_an_answer_is_said_once(
    line: Threadline, discord: Simulation, room: dict[str, Any], fault: str
) -> None:
    """The gateway shows our own message with the nonce, which is the proof."""
    where = room["id"]
    place = await furnished(line, ref(where))
    async with at_work(line):
        await attended(discord)
        discord.fault(fault, place=where)
        sent = await line.outbound.publish(place, "agent", "Once.")
        [record] = await seen(line, ref(where), numbered(1))

    assert (record.text, record.source_session_id) == ("Once.", "agent")
    assert len(discord.effects("message", place=where)) == 1
    assert (await line.deliveries.show(sent.id)).state is DeliveryState.DELIVERED


@pytest.mark.acceptance("G5")
async def test_a_message_in_doubt_is_asked_for_again_under_its_nonce(
    line: Threadline, discord: Simulation, room: dict[str, Any]
) -> None:
    """With its echo lost, Discord gives the first message back for the same nonce."""
    where = room["id"]
    place = await furnished(line, ref(where))
    async with at_work(line):
        await attended(discord)
        discord.fault("lose", place=where)
        discord.fault("drop", place=where)
        await line.outbound.publish(place, "agent", "Once.")
        [record] = await seen(line, ref(where), numbered(1))

    [effect] = discord.effects("message", place=where)
    assert (record.message_id, record.source_session_id) == (effect["id"], "agent")
    assert len([it for it in discord.calls("POST message") if it["place"] == where]) == 2


@pytest.mark.acceptance("G8")
@pytest.mark.case("B113")
async def test_a_limit_is_waited_for_and_costs_nothing(
    line: Threadline, discord: Simulation, room: dict[str, Any]
) -> None:
    where = room["id"]
    place = await furnished(line, ref(where))
    async with at_work(line):
        await attended(discord)
        discord.fault("rate_limit", wait=0.2, times=2, place=where)
        one = await line.outbound.publish(place, "agent", "One.")
        await line.outbound.publish(place, "agent", "Two.")
        found = await seen(line, ref(where), numbered(2))

    assert [it.text for it in found] == ["One.", "Two."]
    assert [it["text"] for it in discord.effects("message", place=where)] == ["One.", "Two."]
    assert (await line.deliveries.show(one.id)).state is DeliveryState.DELIVERED


@pytest.mark.acceptance("B2", "B13", "I1", "I2", "I4")
async def test_what_comes_twice_or_out_of_order_is_one_record_each(
    line: Threadline, discord: Simulation, room: dict[str, Any]
) -> None:
    where = room["id"]
    await furnished(line, ref(where))
    async with at_work(line):
        await attended(discord)
        discord.fault("duplicate", place=where)
        first = discord.do("say", text="one", channel=where)["id"]
        discord.fault("reorder", place=where)
        second = discord.do("say", text="two", channel=where)["id"]
        discord.do("edit", channel=where, message=second, text="zwei")
        discord.do("unfurl", channel=where, message=first)
        discord.do("react", channel=where, message=first, emoji="👍")
        discord.do("delete", channel=where, messages=[first])
        discord.redeliver()
        discord.do("say", text="end", channel=where)
        found = await seen(line, ref(where), lambda it: it[-1].text == "end")
        page = (await line.conversations.transcript(ref(where), limit=50)).records

    kinds = [(it.event, it.revises) for it in page]
    assert kinds == [
        (Event.MESSAGE, None),
        (Event.EDIT, second),
        (Event.MESSAGE, None),
        (Event.REACTION, first),
        (Event.DELETE, first),
        (Event.MESSAGE, None),
    ]
    assert [it.sequence for it in page] == [1, 2, 3, 4, 5, 6]
    assert page[0].blanked
    assert found[-1].sequence == 6


@pytest.mark.acceptance("F12", "H5")
async def test_a_thread_on_a_message_begins_with_it_and_is_answered_there(
    line: Threadline, discord: Simulation, room: dict[str, Any]
) -> None:
    where = room["id"]
    await furnished(line, ref(where))
    async with at_work(line):
        await attended(discord)
        root = discord.do("say", text="Lunch?", channel=where)["id"]
        await seen(line, ref(where), numbered(1))
        discord.do("thread", channel=where, message=root)
        discord.do("say", text="At noon.", channel=root, user="bob")
        found = await seen(line, ref(root), numbered(2), "agent")
        await line.outbound.publish(ref(root), "agent", "I come too.", reply_to=2)
        [effect] = await asyncio.to_thread(discord.effects, "message", place=root, at_least=1)

    assert [(it.text, it.copied_from) for it in found] == [("Lunch?", 1), ("At noon.", None)]
    assert found[1].target_session_id == "agent"
    assert effect["text"] == "I come too."


async def test_what_was_missed_while_away_is_read_from_history(
    line: Threadline, discord: Simulation, room: dict[str, Any]
) -> None:
    """The session is over, so nothing is replayed; the gap is read, and each is there once."""
    where = room["id"]
    await furnished(line, ref(where))
    async with at_work(line):
        await attended(discord)
        discord.do("say", text="before", channel=where)
        await seen(line, ref(where), numbered(1))
    discord.do("invalidate")
    discord.do("say", text="meanwhile", channel=where)
    async with at_work(line):
        found = await seen(line, ref(where), numbered(2))

    assert [it.text for it in found] == ["before", "meanwhile"]
