"""People and an agent in a simulated Slack: heard, recorded, answered, echoed, once each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests import talk
from tests.http.conftest import Site, running
from tests.slack.conftest import TEAM, connected, given, ref
from tests.talk import connected as connected_to
from tests.talk import furnished, seen
from threadline import Threadline
from threadline.core.deliveries import DeliveryState, Failure
from threadline.core.errors import Unauthenticated
from threadline.core.model import ConversationRef, Direction, Event, TranscriptRecord
from threadline.flows.replay import Handed
from threadline.testing.simulation import Simulation


@asynccontextmanager
async def at_work(line: Threadline, slack: Simulation) -> AsyncIterator[None]:
    """Listening and speaking, once Slack has us on a socket."""
    async with talk.at_work(line):
        await asyncio.to_thread(slack.do, "attended")
        yield


def numbered(count: int) -> Callable[[list[TranscriptRecord]], bool]:
    """So many records."""
    return lambda found: len(found) >= count


async def records(line: Threadline, place: ConversationRef) -> list[TranscriptRecord]:
    """The transcript."""
    return (await line.conversations.transcript(place, limit=100)).records


async def test_connecting_asks_slack_who_we_are(line: Threadline, slack: Simulation) -> None:
    identity = await line.accounts.check("slack", TEAM)
    app = await line.accounts.connect("slack", given(slack, socket=True, app_id="A0SIMAPP"))

    assert (identity.account_id, identity.actor.id, identity.actor.is_self) == (
        TEAM,
        "U0SIMBOT",
        True,
    )
    assert (app.state.account_id, app.webhook) == (f"{TEAM}:A0SIMAPP", "")
    for wrong in ({"bot_token": "xoxb-9-8-wr0ng"}, {"app_token": "xapp-1-wr0ng"}, {"app_id": "AX"}):
        with pytest.raises(Unauthenticated):
            await line.accounts.connect("slack", given(slack, socket=True) | wrong)


@pytest.mark.case("B155")
async def test_a_missing_scope_is_named_while_connecting(
    line: Threadline, slack: Simulation
) -> None:
    slack.do("scopes", scopes=["chat:write", "users:read"])
    with pytest.raises(Unauthenticated, match="channels:history"):
        await line.accounts.check("slack", TEAM)


@pytest.mark.acceptance("G1", "G6", "G10")
@pytest.mark.case("B110")
async def test_a_question_is_heard_answered_and_the_echo_is_the_same_record(
    line: Threadline, slack: Simulation, room: str
) -> None:
    place = await furnished(line, ref(room))
    async with at_work(line, slack):
        slack.do("say", text="<@U0SIMBOT> When do we open?", channel=room)
        await seen(line, place, numbered(1))
        words = "At **nine**, @here <!channel>: https://x.example"
        sent = await line.outbound.publish(place, "agent", words, reply_to=1)
        [effect] = await asyncio.to_thread(slack.effects, "message", place=room, at_least=1)
        slack.do("say", text="Thanks!", channel=room)
        heard = await seen(line, place, numbered(3))

    assert [(it.sequence, it.text) for it in heard] == [
        (1, "When do we open?"),
        (2, words),
        (3, "Thanks!"),
    ]
    answer = heard[1]
    assert (answer.direction, answer.message_id) == (Direction.OUTBOUND, effect["id"])
    assert (answer.actor.id, answer.source_session_id) == ("U0SIMBOT", "agent")
    assert (effect["pings"], effect["cards"], effect["thread"]) == ([], False, None)
    assert (await line.deliveries.show(sent.id)).state is DeliveryState.DELIVERED


@pytest.mark.acceptance("G5", "G6")
@pytest.mark.parametrize(("fault", "shown"), [("drop", True), ("late_status", False)])
async def test_a_message_that_was_said_without_an_answer_is_said_once(
    line: Threadline, slack: Simulation, room: str, fault: str, shown: bool
) -> None:
    """The echo hands our key back, or the history does; where both are lost nothing is repeated."""
    place = await furnished(line, ref(room))
    slack.do("expect", metadata=shown)
    async with at_work(line, slack):
        if not shown:
            slack.fault("lose", place=room)
        slack.fault(fault, place=room)
        sent = await line.outbound.publish(place, "agent", "Once.")
        [record] = await seen(line, place, numbered(1))

    assert (record.text, record.source_session_id) == ("Once.", "agent")
    [effect] = slack.effects("message", place=room)
    assert record.message_id == effect["id"]
    assert (await line.deliveries.show(sent.id)).state is DeliveryState.DELIVERED


@pytest.mark.acceptance("G8")
@pytest.mark.case("B113")
async def test_a_limit_is_waited_for_and_costs_nothing(
    line: Threadline, slack: Simulation, room: str
) -> None:
    place = await furnished(line, ref(room))
    async with at_work(line, slack):
        slack.fault("rate_limit", wait=1, place=room)
        one = await line.outbound.publish(place, "agent", "One.")
        await line.outbound.publish(place, "agent", "Two.")
        found = await seen(line, place, numbered(2))

    assert [it.text for it in found] == ["One.", "Two."]
    assert [it["text"] for it in slack.effects("message", place=room)] == ["One.", "Two."]
    assert (await line.deliveries.show(one.id)).state is DeliveryState.DELIVERED


async def test_a_refusal_says_why(line: Threadline, slack: Simulation, room: str) -> None:
    place = await furnished(line, ref(room))
    slack.do("scopes", scopes=["chat:write", "channels:history"])
    slack.do("leave", channel=room, user="simbot")
    async with at_work(line, slack):
        sent = await line.outbound.publish(place, "agent", "Hello?")
        done = await line.outbound.settled(sent, patience=60)

    assert (done.state, done.failure) == (DeliveryState.FAILED, Failure.AUTH)
    assert "invite the app" in done.reason
    assert not slack.effects("message", place=room)


@pytest.mark.acceptance("B2", "I1", "I2", "I4")
async def test_what_comes_twice_or_out_of_order_is_one_record_each(
    line: Threadline, slack: Simulation, room: str
) -> None:
    place = await furnished(line, ref(room))
    async with at_work(line, slack):
        slack.fault("duplicate", place=room)
        first = slack.do("say", text="one https://harbour.example", channel=room)["ts"]
        slack.fault("reorder", place=room)
        second = slack.do("say", text="two", channel=room)["ts"]
        slack.do("edit", channel=room, ts=second, text="zwei")
        slack.do("unfurl", channel=room, ts=first)
        slack.do("react", channel=room, ts=first)
        slack.do("delete", channel=room, ts=first)
        await asyncio.to_thread(slack.idle)
        slack.do("say", text="end", channel=room)
        await seen(line, place, lambda it: it[-1].text == "end")
        page = await records(line, place)

    kinds = sorted((it.event, it.revises or "") for it in page)
    assert kinds == sorted(
        [
            (Event.MESSAGE, ""),
            (Event.MESSAGE, ""),
            (Event.MESSAGE, ""),
            (Event.EDIT, second),
            (Event.REACTION, first),
            (Event.DELETE, first),
        ]
    )
    assert [it.sequence for it in page] == [1, 2, 3, 4, 5, 6]
    assert [it.blanked for it in page if it.message_id == first] == [True]


@pytest.mark.acceptance("F12", "H5")
@pytest.mark.case("B097")
async def test_a_thread_on_our_own_post_begins_with_it_and_is_answered_there(
    line: Threadline, slack: Simulation, room: str
) -> None:
    """What is also shown in the channel is in the thread, once."""
    place = await furnished(line, ref(room))
    async with at_work(line, slack):
        await line.outbound.publish(place, "agent", "Lunch?")
        [post] = await seen(line, place, numbered(1))
        assert post.message_id is not None
        thread = ref(room, post.message_id)
        slack.do("say", text="At noon.", channel=room, thread=post.message_id, broadcast=True)
        found = await seen(line, thread, numbered(2), "agent")
        await line.outbound.publish(thread, "agent", "I come too.", reply_to=2)
        effects = await asyncio.to_thread(slack.effects, "message", place=room, at_least=2)

    assert [(it.text, it.copied_from) for it in found] == [("Lunch?", 1), ("At noon.", None)]
    assert found[1].target_session_id == "agent"
    assert (effects[1]["text"], effects[1]["thread"]) == ("I come too.", post.message_id)
    assert [it.text for it in await records(line, place)] == ["Lunch?"]


@pytest.mark.case("B027")
async def test_a_change_that_changed_no_word_is_no_record_and_wakes_nobody(
    line: Threadline, slack: Simulation, room: str
) -> None:
    """B027: three notices, each with an id of its own, before a real edit and three after it."""
    place = await furnished(line, ref(room))
    async with at_work(line, slack):
        told = slack.do("say", text="<@U0SIMBOT> say hi", channel=room)["ts"]
        for text in ("<@U0SIMBOT> say hello", ""):
            for _ in range(3):
                slack.do("recount", channel=room, ts=told)
            if text:
                slack.do("edit", channel=room, ts=told, text=text)
        slack.do("say", text="end", channel=room)
        await seen(line, place, lambda it: it[-1].text == "end")
        await asyncio.to_thread(slack.idle)
    page = await line.conversations.transcript(place, view="messages")

    assert [(it.event, it.text, it.revises, bool(it.wakes)) for it in page.records] == [
        (Event.MESSAGE, "say hi", None, True),
        (Event.EDIT, "say hello", told, False),
        (Event.MESSAGE, "end", None, True),
    ]
    assert [(it.record.text, it.revision) for it in page.messages] == [("say hello", 1), ("end", 0)]
    assert slack.effects("message", place=room) == []


@pytest.mark.case("B046")
async def test_what_waits_while_a_thread_is_answered_is_answered_in_its_own(
    line: Threadline, slack: Simulation, room: str
) -> None:
    """B046: during a turn in thread A somebody writes in B, and then in A again."""
    place = await furnished(line, ref(room))
    async with at_work(line, slack):
        roots = [slack.do("say", text=text, channel=room)["ts"] for text in ("A", "B")]
        threads = [ref(room, root) for root in roots]
        await seen(line, place, numbered(2))
        stream = line.replay.follow("agent", patience=60)
        heard: list[tuple[ConversationRef, str]] = []

        async def turn() -> tuple[ConversationRef, int]:
            """The next record that calls the agent in a thread."""
            async for item in stream:
                if isinstance(item, Handed) and item.ref in threads and not item.record.copied_from:
                    heard.append((item.ref, item.record.text))
                    return item.ref, item.record.sequence
            raise AssertionError("the stream ended")

        async def answer(where: ConversationRef, sequence: int) -> None:
            sent = await line.outbound.publish(
                where, "agent", f"answer to {heard[-1][1]}", reply_to=sequence
            )
            done = await line.outbound.settled(sent, patience=60)
            assert done.state is DeliveryState.DELIVERED
            await line.replay.ack(where, "agent", sequence)

        slack.do("say", text="a1", channel=room, thread=roots[0])
        running = await turn()
        slack.do("say", text="b1", channel=room, thread=roots[1])
        slack.do("say", text="a2", channel=room, thread=roots[0])
        await asyncio.to_thread(slack.idle)
        await answer(*running)
        for _ in range(2):
            await answer(*await turn())
        await stream.aclose()  # type: ignore[attr-defined]

    # Between two conversations there is no order; within each there is.
    by_thread = [[text for where, text in heard if where == one] for one in threads]
    assert (len(heard), by_thread) == (3, [["a1", "a2"], ["b1"]])
    said = [(it["text"], it["thread"]) for it in slack.effects("message", place=room)]
    answers = [[text for text, thread in said if thread == root] for root in roots]
    assert (len(said), answers) == (3, [["answer to a1", "answer to a2"], ["answer to b1"]])
    there = [[it.text for it in await records(line, one)] for one in threads]
    assert there[0] == ["A", "a1", "a2", "answer to a1", "answer to a2"]
    assert there[1] == ["B", "b1", "answer to b1"]


@pytest.mark.case("B056")
async def test_what_we_said_after_coming_back_hides_nothing_that_was_missed(
    line: Threadline, slack: Simulation, room: str
) -> None:
    """B056: our own word is stored before the catching up; what was missed comes before what is
    said from then on."""
    place = await furnished(line, ref(room))
    async with at_work(line, slack):
        slack.do("say", text="p5", channel=room)
        await seen(line, place, numbered(1))
    for text in ("p6", "p7"):
        slack.do("say", text=text, channel=room)
    sent = await line.outbound.publish(place, "agent", "out1")
    await line.outbox.round()
    assert (await line.deliveries.show(sent.id)).sequence == 2
    async with at_work(line, slack):
        slack.do("say", text="p8", channel=room)
        await seen(line, place, lambda it: it[-1].text == "p8")
    async with at_work(line, slack):
        slack.do("say", text="p9", channel=room)
        await seen(line, place, lambda it: it[-1].text == "p9")

    found = await records(line, place)
    assert [it.text for it in found] == ["p5", "out1", "p6", "p7", "p8", "p9"]
    assert [bool(it.wakes) for it in found] == [True, False, True, True, True, True]


async def test_what_was_missed_while_away_is_read_from_history_with_its_threads(
    line: Threadline, slack: Simulation, room: str
) -> None:
    place = await furnished(line, ref(room))
    async with at_work(line, slack):
        root = slack.do("say", text="before", channel=room)["ts"]
        await seen(line, place, numbered(1))
    slack.do("say", text="meanwhile", channel=room)
    slack.do("say", text="below", channel=room, thread=root)
    async with at_work(line, slack):
        found = await seen(line, place, numbered(2))
        below = await seen(line, ref(room, root), numbered(2), "agent")

    assert [it.text for it in found] == ["before", "meanwhile"]
    assert [it.text for it in below] == ["before", "below"]


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
async def test_an_order_to_come_again_loses_nothing(
    line: Threadline, slack: Simulation, room: str, reason: str
) -> None:
    place = await furnished(line, ref(room))
    async with at_work(line, slack):
        slack.do("say", text="one", channel=room)
        await seen(line, place, numbered(1))
        opened = slack.do("attended")["opened"]
        slack.do("refresh", reason=reason)
        slack.do("say", text="two", channel=room)
        await asyncio.to_thread(slack.do, "attended", opened=opened + 1)
        found = await seen(line, place, numbered(2))

    assert [it.text for it in found] == ["one", "two"]


@pytest.mark.case("B117")
async def test_the_past_of_a_channel_comes_with_its_threads_in_small_pages(
    line: Threadline, slack: Simulation, room: str
) -> None:
    slack.do("expect", page=3)
    stamps = [slack.do("say", text=f"{number}", channel=room)["ts"] for number in range(7)]
    for number in range(5):
        slack.do("say", text=f"below {number}", channel=room, thread=stamps[2])
    told = await line.histories.hydrate(ref(room))
    again = await line.histories.hydrate(ref(room))

    assert (told.partial, again.written) == ("", 0)
    said = [it.text for it in await records(line, ref(room)) if it.event is Event.MESSAGE]
    assert said == [f"{number}" for number in range(7)]
    thread = [it.text for it in await records(line, ref(room, stamps[2])) if not it.copied_from]
    assert thread == [f"below {number}" for number in range(5)]


@pytest.mark.acceptance("B6", "G5", "G6")
async def test_a_killed_server_hears_what_it_missed_and_says_nothing_twice(
    tmp_path: Path, slack: Simulation, room: str
) -> None:
    """It dies while Slack has taken its message and not answered; the history settles it."""
    found = await talk.killed_while_it_spoke(tmp_path, slack, connected, ref(room), 10)

    theirs = [it.text for it in found if it.source_session_id is None]
    assert sorted(theirs) == sorted(talk.before_and_after(10))


# --- the Events API --------------------------------------------------------------------------


@pytest.fixture
async def site(
    sqlite_url: str, key: bytes, slack: Simulation
) -> AsyncIterator[tuple[Threadline, Site]]:
    """A server that Slack sends events to, its address verified by the challenge.

    Its clock is the real one: Slack signs the time.
    """
    async with (
        Threadline.open(sqlite_url, key=key, allow_private=True) as line,
        running(line) as made,
    ):
        account = await connected_to(made, "slack", given(slack, socket=False))
        await asyncio.to_thread(slack.do, "request_url", url=made.url + account["webhook"])
        yield line, made
        await asyncio.to_thread(slack.idle)
        slack.calm()
        slack.webhook("")


async def test_events_that_slack_sends_are_recorded_once_and_answered(
    site: tuple[Threadline, Site], slack: Simulation, room: str
) -> None:
    line, _ = site
    place = await furnished(line, ref(room))
    slack.fault("duplicate", place=room)
    await asyncio.to_thread(slack.do, "say", text="<@U0SIMBOT> Open?", channel=room)
    await asyncio.to_thread(slack.idle)
    sent = await line.outbound.publish(place, "agent", "Yes.")
    done = await line.outbound.settled(sent, patience=60)
    await asyncio.to_thread(slack.idle)
    await asyncio.to_thread(slack.redeliver)
    await asyncio.to_thread(slack.idle)

    assert done.state is DeliveryState.DELIVERED
    page = [it for it in await records(line, place) if it.event is Event.MESSAGE]
    assert [it.text for it in page] == ["Open?", "Yes."]
    assert len(slack.effects("message", place=room)) == 1


@pytest.mark.case("B134")
async def test_a_forged_event_is_refused_over_http(site: tuple[Threadline, Site]) -> None:
    _, made = site
    async with httpx.AsyncClient(base_url=made.url, trust_env=False) as stranger:
        posted = await stranger.post(
            f"/v1/webhooks/slack/{TEAM}",
            json={"type": "url_verification", "challenge": "x"},
            headers={"x-slack-signature": "v0=00", "x-slack-request-timestamp": "soon"},
        )

    assert posted.status_code == 401


async def test_without_a_secret_events_are_not_taken(line: Threadline, slack: Simulation) -> None:
    for secret in ({}, {"signing_secret": "short"}):
        bare = {"bot_token": slack.credentials["bot_token"], "api": f"{slack.url}/api"}
        with pytest.raises(Unauthenticated, match="signing secret"):
            await line.accounts.connect("slack", bare | secret)
