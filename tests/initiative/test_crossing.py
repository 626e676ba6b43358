"""Several platforms at once: one channel after the other, and sessions that set each other off."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from tests.firsts import HUMAN, allowed, answered, said, switched, until
from tests.slack.conftest import TEAM, given
from tests.slack.conftest import ref as slack_ref
from tests.talk import at_work
from tests.whatsapp.test_story import Scene, meta, scene
from threadline import Threadline
from threadline.core.model import ConversationRef, FanOut, Kind, Origin
from threadline.core.ports import Store
from threadline.core.sends import SendState
from threadline.flows.replay import Handed
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation

__all__ = ["meta", "scene"]

PEOPLE = itertools.count(31_000)
GROUPS = itertools.count(-3_100, -1)


@pytest.fixture(scope="module")
def slack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """One simulated Slack."""
    with Simulation("slack", tmp_path_factory.mktemp("slack"), speed=1000.0) as made:
        yield made


@pytest.mark.acceptance("H1", "H8", "H10")
async def test_auto_goes_from_channel_to_channel_and_says_what_became_of_each(
    scene: Scene, telegram: Simulation, slack: Simulation, tmp_path: Path, clock: StillClock
) -> None:
    """Telegram is blocked, WhatsApp's window is closed, Discord refuses: Slack carries it, and the
    answer there is the writer's."""
    line = scene.line
    clock.move(hours=25)
    (tmp_path / "discord").mkdir()
    with Simulation("discord", tmp_path / "discord") as discord:
        dm = discord.do("dm", user="ada")
        token = {"token": discord.credentials["token"], "api": f"{discord.url}/api/v10"}
        await line.accounts.connect("discord", token)
        await line.accounts.connect("slack", given(slack, socket=True))
        await line.accounts.connect("telegram", {**telegram.credentials, "api": telegram.url})
        await asyncio.to_thread(slack.do, "attended")
        number = scene.ref.account_id
        for provider, account in (
            ("discord", "700"),
            ("slack", TEAM),
            ("telegram", "7001"),
            ("whatsapp", number),
        ):
            await line.consents.grant("agent", provider, account)
        ada = next(PEOPLE)
        name = f"ada{ada}"
        telegram.do("write", chat=ada, text="hello", user=ada)
        await until(line, ConversationRef("telegram", "7001", str(ada)), "hello")
        user = slack.do("person", user=name)["id"]
        person = await line.people.show(f"telegram:{ada}")
        other = await line.people.show(f"whatsapp:{scene.user}")
        await line.people.merge(person.id, other.id)
        for way, realm in ((f"discord:{dm['recipients'][0]['id']}", ""), (f"slack:{user}", TEAM)):
            await line.people.change(
                person.id, contacts=[way], realm=realm, verified=True, caller=HUMAN
            )
        await line.consents.set("on", person=person.id, caller=HUMAN)
        telegram.do("block", user=ada)
        discord.do("close", channel=dm["id"])
        done = await said(line, "agent", f"person:{person.id}", "Your train is late.")
        assert discord.effects("message", place=dm["id"]) == []
        channel = slack.do("dm", users=name)["id"]
        slack.do("say", text="thanks", channel=channel, user=name)
        place = ConversationRef("slack", TEAM, channel, kind=Kind.DM)
        reply = await answered(line, place, "agent", "Your train is late.", "thanks")
    # WhatsApp knows this person under two ids; each was asked about.
    assert list(dict.fromkeys((one["provider"], one["outcome"]) for one in done.tried)) == [
        ("telegram", "failed"),
        ("whatsapp", "window_closed"),
        ("discord", "failed"),
        ("slack", "delivered"),
    ]
    assert all(one["reason"] for one in done.tried[:-1])
    assert (done.state, reply.person_id) == (SendState.DELIVERED, person.id)
    assert [one["text"] for one in slack.effects("message", place=channel)] == [
        "Your train is late."
    ]
    assert scene.effects() == []
    silent_places = (ConversationRef("telegram", "7001", str(ada)), scene.ref)
    for silent in silent_places:
        texts = [one.text for one in (await line.conversations.transcript(silent)).records]
        assert "Your train is late." not in texts


@dataclass
class Two:
    """A Slack channel and a Telegram group, with both sessions in each."""

    line: Threadline
    channel: ConversationRef
    group: ConversationRef


@pytest.fixture
async def two(store: Store, telegram: Simulation, slack: Simulation) -> AsyncIterator[Two]:
    """Everything that lets them set each other off, as far as anything does."""
    line = Threadline(store, allow_private=True)
    await line.accounts.connect("slack", given(slack, socket=True))
    await line.accounts.connect("telegram", {**telegram.credentials, "api": telegram.url})
    await allowed(line, "slack", TEAM, "ann", "ben")
    for name in ("ann", "ben"):
        await line.consents.grant(name, "telegram", "7001")
    channel = slack_ref(slack.do("channel")["id"])
    group = ConversationRef("telegram", "7001", str(next(GROUPS)), kind=Kind.ROOM)
    for place in (channel, group):
        await switched(line, place)
        await line.speakers.group(place)
        for name in ("ann", "ben"):
            await line.speakers.participant(place, name, name, public=True)
        await line.speakers.group(place, default_handle="ann")
    async with at_work(line):
        await asyncio.to_thread(slack.do, "attended")
        yield Two(line, channel, group)
    await line.outbox.close()


@pytest.mark.acceptance("F8")
@pytest.mark.parametrize(("triggered", "sends"), [(1, 4), (50, 9)], ids=["calm", "eager"])
async def test_sessions_that_set_each_other_off_over_two_platforms_come_to_an_end(
    two: Two, telegram: Simulation, slack: Simulation, triggered: int, sends: int
) -> None:
    """A person says go on Telegram. Whoever is woken writes first at the other platform, about what
    woke it: each record names the one before, all have one root, and at the end nobody is woken,
    by the bound on what peers trigger or by the hops of the chain."""
    line = two.line
    for place in (two.channel, two.group):
        fan_out = FanOut(
            enabled=True, allow_untargeted=True, max_peer_triggered_publishes=triggered
        )
        await line.speakers.group(place, fan_out=fan_out)
    telegram.do("write", chat=int(two.group.conversation_id), text="go", user=next(PEOPLE))
    go = next(one for one in await until(line, two.group, "go") if one.text == "go")
    assert go.target_session_id == "ann"
    chain: list[Origin] = []
    here, there, record = two.group, two.channel, go
    while record.wakes:
        name = "ann" if here == two.group else "ben"
        words = f"step {len(chain) + 1}"
        about = (str(here), record.sequence)
        sent = await line.initiative.send(name, str(there), words, about=about)
        done = await line.initiative.settled(sent, patience=60)
        assert done.state is SendState.DELIVERED, done.reason
        found = await until(line, there, words)
        before, record = record, next(one for one in found if one.text == words)
        spoken = await line.conversations.show(here)
        assert record.origin is not None
        assert (record.origin.conversation, record.origin.sequence) == (spoken.id, before.sequence)
        chain.append(record.origin)
        here, there = there, here
        assert len(chain) <= sends, "nothing ends it"
    first = await line.conversations.show(two.group)
    assert {one.root for one in chain} == {f"{first.id}:{go.sequence}"}
    assert [one.hops for one in chain] == list(range(1, sends + 1))
    assert len(slack.effects("message", place=two.channel.conversation_id)) == (sends + 1) // 2
    assert len(telegram.effects("message", place=two.group.conversation_id)) == sends // 2


@pytest.mark.case("B059")
async def test_an_answer_goes_where_it_was_asked_whatever_was_said_elsewhere_last(
    scene: Scene, telegram: Simulation, clock: StillClock
) -> None:
    """B059: one session in two places; what it scheduled leaves between two questions."""
    line, group = scene.line, next(GROUPS)
    await line.accounts.connect("telegram", {**telegram.credentials, "api": telegram.url})
    await allowed(line, "telegram", "7001", "agent")
    there = ConversationRef("telegram", "7001", str(group), kind=Kind.ROOM)
    telegram.do("write", chat=group, text="hello", user=next(PEOPLE))
    await until(line, there, "hello")
    await switched(line, there)
    await line.speakers.bind(there, "agent", policy="all")
    stream = line.replay.follow("agent", patience=60)

    async def answer(text: str) -> None:
        """The session answers the record that it was handed, and names no other target."""
        async for item in stream:
            if isinstance(item, Handed) and item.record.text == text:
                sent = await line.outbound.publish(
                    item.ref, "agent", f"to {text}", reply_to=item.record.sequence
                )
                assert (await line.outbound.settled(sent, patience=60)).state == "delivered"
                return

    at = clock() + timedelta(minutes=5)
    job = await line.initiative.send("agent", str(there), "the news", at=at)
    await scene.says("w1")
    await answer("w1")
    clock.move(minutes=6)
    done = await line.initiative.settled(job, patience=60)
    await scene.says("w2")
    await answer("w2")
    await stream.aclose()  # type: ignore[attr-defined]

    assert done.state is SendState.DELIVERED
    assert scene.effects() == ["to w1", "to w2"]
    heard = [one for one in telegram.effects("message") if one["place"] == str(group)]
    assert [one["text"] for one in heard] == ["the news"]
    texts = [one.text for one in (await line.conversations.transcript(there)).records]
    assert texts == ["hello", "the news"]
    assert [one.text for one in await scene.records()] == ["Hello?", "w1", "to w1", "w2", "to w2"]
