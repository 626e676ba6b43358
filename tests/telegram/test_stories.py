"""The whole way with a simulated Telegram: heard, recorded, answered, and once each."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.conftest import open_at
from threadline import Threadline
from threadline.core.deliveries import DeliveryState, Failure
from threadline.core.model import ConversationRef, Direction, Event, TranscriptRecord
from threadline.core.wire import ApiCall
from threadline.flows.listening import ReadConnected
from threadline.flows.statuses import DeliveryStatus
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation

SIMULATOR = "tests.telegram.platform:Platform"
PEOPLE = itertools.count(100)
GROUPS = itertools.count(-100, -1)
SUPERGROUPS = itertools.count(-1000000000100, -1)


@pytest.fixture(scope="module")
def telegram(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """One simulated Telegram for all stories; each has people and groups of its own."""
    with Simulation(SIMULATOR, tmp_path_factory.mktemp("telegram")) as made:
        yield made


@pytest.fixture
async def tl(
    sqlite_url: str, key: bytes, clock: StillClock, telegram: Simulation
) -> AsyncIterator[Threadline]:
    """A line with the bot connected by poll."""
    store = await open_at(sqlite_url, key, clock=clock)
    line = Threadline(store, allow_private=True)
    await line.accounts.connect("telegram", {**telegram.credentials, "api": telegram.url})
    yield line
    await line.outbox.close()
    await store.close()


@contextlib.asynccontextmanager
async def listening(line: Threadline) -> AsyncIterator[None]:
    """The worker that polls, as the server runs it."""
    stopping = asyncio.Event()
    worker = asyncio.create_task(line.listeners.run(stopping))
    yield
    stopping.set()
    await worker


async def heard(line: Threadline, telegram: Simulation) -> None:
    """Poll until Telegram has nothing left that we did not confirm."""
    async with listening(line):
        await asyncio.to_thread(telegram.idle)


async def transcript(line: Threadline, ref: str) -> list[TranscriptRecord]:
    """A short transcript."""
    return (await line.conversations.transcript(ref, limit=500)).records


async def bound(line: Threadline, ref: str) -> None:
    """The place is there and `agent` speaks in it."""
    await line.conversations.ensure(ConversationRef.parse(ref))
    await line.speakers.bind(ref, "agent", policy="all")


async def say(line: Threadline, ref: str, text: str, **more: Any) -> DeliveryStatus:
    """`agent` says something, and all that is due leaves."""
    sent = await line.outbound.publish(ref, "agent", text, **more)
    await line.outbox.round()
    return await line.deliveries.show(sent.id)


def said(telegram: Simulation, chat: int) -> list[str]:
    """What people in a chat saw of the bot."""
    return [one["text"] for one in telegram.effects("message") if one["place"] == str(chat)]


@pytest.mark.acceptance("H1", "H2", "G1", "F9")
@pytest.mark.case("B072")
async def test_a_person_writes_is_answered_and_answers(
    tl: Threadline, telegram: Simulation
) -> None:
    """The first test of the story: one conversation, one record each, in order, and the person's
    reply names the record it answers and wakes who said it."""
    ada = next(PEOPLE)
    place = f"telegram/7001/{ada}"
    await bound(tl, place)
    telegram.do("write", chat=ada, text="When do we open?", user=ada)
    await heard(tl, telegram)
    sent = await say(tl, place, "At **nine**.", reply_to=1)
    telegram.do("write", chat=ada, text="Good", user=ada, reply=2)
    await heard(tl, telegram)

    question, answer, reply = await transcript(tl, place)
    assert (question.text, question.direction, question.actor.id) == (
        "When do we open?",
        Direction.INBOUND,
        str(ada),
    )
    assert (sent.state, sent.message_ids) == (DeliveryState.DELIVERED, ("2",))
    assert (answer.text, answer.message_id, answer.reply_to) == ("At **nine**.", "2", "1")
    assert (answer.actor.id, answer.actor.is_self) == ("7001", True)
    assert (reply.reply_to, reply.target_session_id, reply.route) == ("2", "agent", "reply")
    assert {one.id_space for one in (question, answer, reply)} == {str(ada)}
    [effect] = [one for one in telegram.effects("message") if one["place"] == str(ada)]
    assert (effect["text"], effect["reply_to"], effect["previews"]) == ("At nine.", 1, False)
    assert [one["type"] for one in effect["entities"]] == ["bold"]


@pytest.mark.acceptance("B2", "D2")
async def test_whatever_order_and_however_often_it_is_one_record_each(
    tl: Threadline, telegram: Simulation
) -> None:
    """Updates that come twice, late, and again after they were confirmed."""
    ada = next(PEOPLE)
    telegram.fault("duplicate", place=str(ada))
    telegram.do("write", chat=ada, text="one", user=ada)
    telegram.fault("reorder", place=str(ada))
    telegram.do("write", chat=ada, text="two", user=ada)
    telegram.do("write", chat=ada, text="three", user=ada)
    await heard(tl, telegram)
    await asyncio.to_thread(telegram.redeliver)
    await heard(tl, telegram)

    texts = [one.text for one in await transcript(tl, f"telegram/7001/{ada}")]
    assert sorted(texts) == ["one", "three", "two"]


@pytest.mark.case("B005")
async def test_an_answer_in_a_group_stays_in_the_group(
    tl: Threadline, telegram: Simulation
) -> None:
    """B005: whoever asked there also writes to the bot in private, before it and after it."""
    ada, group = next(PEOPLE), next(GROUPS)
    private, room = f"telegram/7001/{ada}", f"telegram/7001/{group}"
    for place in (private, room):
        await bound(tl, place)
    telegram.do("write", chat=ada, text="between us", user=ada)
    telegram.do("write", chat=group, text="for all", user=ada)
    telegram.do("write", chat=ada, text="and between us again", user=ada)
    await heard(tl, telegram)
    [asked] = await transcript(tl, room)
    sent = await say(tl, room, "To all.", reply_to=asked.sequence)

    assert sent.state is DeliveryState.DELIVERED
    assert (said(telegram, group), said(telegram, ada)) == (["To all."], [])
    assert [one.text for one in await transcript(tl, room)] == ["for all", "To all."]
    alone = await transcript(tl, private)
    assert [one.direction for one in alone] == [Direction.INBOUND] * 2


@pytest.mark.acceptance("H5", "H11", "G10")
@pytest.mark.case("B003")
async def test_an_answer_in_a_topic_stays_in_the_topic(
    tl: Threadline, telegram: Simulation
) -> None:
    """The topic is a thread below its forum; General is the forum itself."""
    forum = next(SUPERGROUPS)
    topic = telegram.do("forum", chat=forum, topic="Plans")["message_thread_id"]
    telegram.do("write", chat=forum, text="in general")
    telegram.do("write", chat=forum, text="in plans", topic=topic)
    room, thread = f"telegram/7001/{forum}", f"telegram/7001/{forum}/{topic}"
    await bound(tl, room)
    await bound(tl, thread)
    await heard(tl, telegram)
    await say(tl, thread, "there", reply_to=1)
    await say(tl, room, "here")

    assert [one.text for one in await transcript(tl, room)] == ["in general", "here"]
    assert [one.text for one in await transcript(tl, thread)] == ["in plans", "there"]
    assert [
        (one["text"], one["topic"])
        for one in telegram.effects("message")
        if one["place"] == str(forum)
    ] == [("there", topic), ("here", None)]


@pytest.mark.acceptance("A9", "B14")
@pytest.mark.parametrize("told", [True, False], ids=["told of it", "found out by sending"])
async def test_a_group_that_became_a_supergroup_goes_on(
    tl: Threadline, telegram: Simulation, told: bool
) -> None:
    """One conversation under both addresses: what is said goes to the new one, and the new chat's
    numbers, which begin anew, are new messages."""
    group, to = next(GROUPS), next(SUPERGROUPS)
    old, new = f"telegram/7001/{group}", f"telegram/7001/{to}"
    for text in ("one", "two", "three"):
        telegram.do("write", chat=group, text=text)
    await heard(tl, telegram)
    await bound(tl, old)
    telegram.do("upgraded", chat=group, to=to, tell=told)
    if told:
        await heard(tl, telegram)
    sent = await say(tl, old, "still here", reply_to=1)
    ours = int(sent.message_ids[0])
    telegram.do("write", chat=to, text="and I", reply=ours)
    await heard(tl, telegram)

    records = await transcript(tl, new)
    texts = [one.text for one in records if one.event is Event.MESSAGE]
    notices = [one.text for one in records if one.event is Event.NOTICE]
    assert sent.state is DeliveryState.DELIVERED
    assert texts == ["one", "two", "three", "still here", "and I"]
    assert notices == (["This group became a supergroup."] if told else [])
    assert [one.sequence for one in await transcript(tl, old)] == [one.sequence for one in records]
    assert records[-1].message_id == str(ours + 1)
    assert (records[-1].reply_to, records[-1].target_session_id) == (str(ours), "agent")
    assert (said(telegram, group), said(telegram, to)) == ([], ["still here"])
    assert str((await tl.conversations.show(old)).ref) == new


@pytest.mark.acceptance("G5", "G12")
@pytest.mark.case("B025", "B099")
@pytest.mark.parametrize("fault", ["drop", "late_status", "reset"])
async def test_what_nobody_knows_is_never_said_twice_and_holds_nobody_up(
    tl: Threadline, telegram: Simulation, clock: StillClock, fault: str
) -> None:
    """Uncertain and parked at once; the next message leaves; no time makes it be repeated."""
    ada = next(PEOPLE)
    place = f"telegram/7001/{ada}"
    telegram.do("write", chat=ada, text="hi", user=ada)
    await bound(tl, place)
    telegram.fault(fault, place=str(ada), **({"status": 502} if fault == "late_status" else {}))
    lost = await say(tl, place, "lost?")
    await say(tl, place, "next")
    clock.move(days=2)
    await tl.outbox.round()

    after = await tl.deliveries.show(lost.id)
    assert (after.state, after.parked, after.attempts) == (DeliveryState.UNCERTAIN, True, 1)
    assert said(telegram, ada) == (["next"] if fault == "reset" else ["lost?", "next"])
    assert [
        one.text for one in await transcript(tl, str(place)) if one.direction == "outbound"
    ] == ["next"]


@pytest.mark.acceptance("G5")
async def test_an_answer_to_what_a_person_vouched_for_finds_it(
    tl: Threadline, telegram: Simulation
) -> None:
    """The id that was given by hand is counted as Telegram counts: within the chat."""
    ada = next(PEOPLE)
    place = f"telegram/7001/{ada}"
    telegram.do("write", chat=ada, text="hi", user=ada)
    await bound(tl, place)
    telegram.fault("drop", place=str(ada))
    lost = await say(tl, place, "lost?")
    [effect] = [one for one in telegram.effects("message") if one["place"] == str(ada)]

    await tl.deliveries.confirm(lost.id, str(effect["message_id"]))
    telegram.do("write", chat=ada, text="Not lost.", user=ada, reply=effect["message_id"])
    await heard(tl, telegram)

    said, _, answer = await transcript(tl, place)
    assert (said.text, said.id_space) == ("lost?", str(ada))
    assert (answer.reply_to, answer.target_session_id) == (said.message_id, "agent")
    assert answer.route == "reply"


@pytest.mark.acceptance("G8", "G16")
@pytest.mark.case("B113")
async def test_a_groups_limit_stops_the_group_and_a_persons_the_bot(
    tl: Threadline, telegram: Simulation, clock: StillClock
) -> None:
    """As long as Telegram asked, in no attempt's name, and nothing is called meanwhile."""
    ada, group = next(PEOPLE), next(GROUPS)
    private, room = f"telegram/7001/{ada}", f"telegram/7001/{group}"
    for chat, place in ((ada, private), (group, room)):
        telegram.do("write", chat=chat, text="hi")
        await bound(tl, place)
    telegram.fault("rate_limit", place=str(group), wait=30)
    first = await say(tl, room, "one")
    await say(tl, private, "meanwhile")
    assert (said(telegram, group), said(telegram, ada)) == ([], ["meanwhile"])

    telegram.fault("rate_limit", place=str(ada), wait=20)
    await say(tl, private, "two")
    clock.move(seconds=19)
    await tl.outbox.round()
    assert (said(telegram, group), said(telegram, ada)) == ([], ["meanwhile"])
    clock.move(seconds=12)
    await tl.outbox.round()
    assert (said(telegram, group), said(telegram, ada)) == (["one"], ["meanwhile", "two"])
    assert (await tl.deliveries.show(first.id)).state is DeliveryState.DELIVERED


@pytest.mark.case("B108")
async def test_what_cannot_be_parsed_is_read_as_it_was_written(
    tl: Threadline, telegram: Simulation
) -> None:
    """One visible message, and the transcript holds the original."""
    ada = next(PEOPLE)
    place = f"telegram/7001/{ada}"
    telegram.do("write", chat=ada, text="hi", user=ada)
    await bound(tl, place)
    refused = {"ok": False, "error_code": 400, "description": "Bad Request: can't parse entities"}
    telegram.fault("answer", place=str(ada), status=400, body=refused)
    await say(tl, place, "**Okay!** Part 2 - ready.")

    assert said(telegram, ada) == ["**Okay!** Part 2 - ready."]
    [record] = await transcript(tl, place)
    assert record.text == "**Okay!** Part 2 - ready."


@pytest.mark.acceptance("G11", "G7")
@pytest.mark.case("B157")
async def test_a_long_text_comes_in_parts_of_telegrams_length(
    tl: Threadline, telegram: Simulation
) -> None:
    """Counted in UTF-16; Telegram refuses longer ones, so that they arrive is the proof."""
    ada = next(PEOPLE)
    place = f"telegram/7001/{ada}"
    telegram.do("write", chat=ada, text="hi", user=ada)
    await bound(tl, place)
    text = "😀" * 3000 + " **and** `more`"
    sent = await say(tl, place, text)

    assert (sent.state, len(sent.message_ids)) == (DeliveryState.DELIVERED, 2)
    assert "".join(said(telegram, ada)) == "😀" * 3000 + " and more"
    assert [one.text for one in await transcript(tl, place)] == [text]


@pytest.mark.acceptance("G2", "H3")
@pytest.mark.parametrize(
    ("chat", "why", "reason"),
    [
        (None, "", "the person has not started the bot yet; only they can."),
        ("dm", "bot was blocked by the user", "the person blocked the bot."),
    ],
)
async def test_who_cannot_be_reached_is_told_and_nothing_is_recorded(
    tl: Threadline, telegram: Simulation, chat: str | None, why: str, reason: str
) -> None:
    """In words for a person."""
    ada = next(PEOPLE)
    place = f"telegram/7001/{ada}"
    if chat is not None:
        telegram.do("write", chat=ada, text="hi", user=ada)
        telegram.do("lock", chat=ada, why=why)
    await bound(tl, place)
    sent = await say(tl, place, "hello?")

    assert (sent.state, sent.failure, sent.reason) == (
        DeliveryState.FAILED,
        Failure.NOT_FOUND,
        reason,
    )
    assert await transcript(tl, place) == []


@pytest.mark.acceptance("I5")
async def test_a_file_that_somebody_sent_is_fetched_with_two_calls(
    tl: Threadline, telegram: Simulation
) -> None:
    """Through the same guarded wire as everything else."""
    ada = next(PEOPLE)
    telegram.do("give", chat=ada, content="bytes of it", name="note.txt")
    await heard(tl, telegram)
    [record] = await transcript(tl, f"telegram/7001/{ada}")
    [file] = record.attachments
    assert (record.text, file.name, file.size) == ("here", "note.txt", 11)

    account = (await tl.store.read(ReadConnected()))[0]
    channels = tl.outbox.channels
    dialect: Any = channels.dialect(account)
    step: Any = dialect.file(file)
    while isinstance(step, ApiCall):
        step = dialect.read_file(file, step, await channels.transport("telegram").perform(step))
    assert step == b"bytes of it"
