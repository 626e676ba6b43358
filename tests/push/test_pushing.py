"""What a push target is sent, and what its answers do."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.conftest import OpenStore, Store
from tests.push.conftest import ROOM, Running
from tests.push.receiver import SECONDS, Receiver, Reply, Waits, acks, receiving, says
from threadline import Threadline
from threadline.core.errors import NotFound
from threadline.core.model import Actor, ConversationRef, InboundMessage
from threadline.core.push import PushPace, PushState
from threadline.flows.push import PushNotProven, PushShown
from threadline.testing.clock import StillClock
from threadline.transports.guarded import Guarded

ADA = Actor("ada", "Ada")


async def say(tl: Threadline, *texts: str, room: str = ROOM) -> None:
    """Ada says something."""
    for text in texts:
        message = InboundMessage(conversation=ConversationRef.parse(room), text=text, actor=ADA)
        await tl.inbound.append(message)


async def proven(tl: Threadline, receiver: Receiver, session: str = "coder") -> PushShown:
    """A target that was set and proven; the answer holds its secret."""
    made = await tl.push.set(session, receiver.url)
    await tl.push.prove(session)
    return made


async def read_to(tl: Threadline, sequence: int, session: str = "coder", room: str = ROOM) -> None:
    """Ask until the session's cursor is there."""
    async with asyncio.timeout(SECONDS):
        while (await tl.replay.backfill(room, session)).last_read != sequence:
            pass


async def state_of(tl: Threadline, *states: PushState) -> PushShown:
    """Ask until the target is in one of these states."""
    async with asyncio.timeout(SECONDS):
        while (shown := await tl.push.show("coder")).state not in states:
            pass
    return shown


@pytest.mark.acceptance("L3")
async def test_records_arrive_signed_and_only_an_ack_moves_the_cursor(
    tl: Threadline, receiver: Receiver, running: Running, coder: str
) -> None:
    target = await proven(tl, receiver)
    await say(tl, "one", "two")

    async with running(tl):
        got = await receiver.next()
        await read_to(tl, 2)
        await say(tl, "three")
        live = await receiver.next()
        await read_to(tl, 3)

    assert target.secret is not None
    assert target.secret.startswith("whsec_")
    data = got.verified(target.secret)
    assert (data["type"], got.texts, live.texts) == ("records", ["one", "two"], ["three"])
    assert data["ref"]["conversation_id"] == "lobby"
    assert [one["sequence"] for one in data["records"]] == [1, 2]
    assert {one["conversation"] for one in data["records"]} == {data["conversation"]}
    assert got.headers["webhook-id"] != live.headers["webhook-id"]
    assert [one.verified(target.secret)["type"] for one in receiver.challenges] == ["challenge"]


@pytest.mark.acceptance("L3")
async def test_a_bare_200_gets_everything_again_after_the_back_off(
    tl: Threadline, receiver: Receiver, running: Running, clock: StillClock, coder: str
) -> None:
    """The same batch under the same id, so that a receiver can drop it; nothing is lost."""
    await proven(tl, receiver)
    await say(tl, "one", "two")
    receiver.answers += [says(), says(204), says(200, {"ok": True})]
    waits = Waits(clock, held=True)

    async with running(tl, wait=waits):
        batches, asked = [await receiver.next()], []
        await say(tl, "three")
        for _ in range(3):
            seconds, over = await waits.next()
            asked.append(seconds)
            assert len(receiver.got) == len(batches)
            assert (await tl.replay.backfill(ROOM, "coder")).last_read is None
            assert (await tl.push.show("coder")).last_error == "not_acknowledged"
            over.set()
            batches.append(await receiver.next())
        assert (await receiver.next()).texts == ["three"]
        await read_to(tl, 3)
        shown = await tl.push.show("coder")

    assert asked == [1.0, 2.0, 4.0]
    assert [one.texts for one in batches] == [["one", "two"]] * 4
    assert len({one.headers["webhook-id"] for one in batches}) == 1
    assert (shown.state, shown.last_error) == ("proven", None)


@pytest.mark.acceptance("L3")
@pytest.mark.parametrize("ack", [0, 4, -1, 99, "3", True, 2.0, None, [3]])
async def test_an_ack_outside_of_the_batch_is_ignored_and_reported(
    tl: Threadline, receiver: Receiver, running: Running, clock: StillClock, coder: str, ack: Any
) -> None:
    await proven(tl, receiver)
    await say(tl, "one", "two", "three")
    receiver.answers.append(says(200, {"ack": ack}))
    waits = Waits(clock, held=True)

    async with running(tl, wait=waits):
        await receiver.next()
        _, over = await waits.next()
        shown = await tl.push.show("coder")
        page = await tl.replay.backfill(ROOM, "coder")
        over.set()
        again = await receiver.next()

    wanted = "not_acknowledged" if ack is None else "wrong_acknowledgement"
    assert (shown.last_error, page.last_read) == (wanted, None)
    assert again.texts == ["one", "two", "three"]


async def test_a_part_may_be_acknowledged(
    tl: Threadline, receiver: Receiver, running: Running, waits: Waits, coder: str
) -> None:
    """What lies behind it comes at once, and not as a repeat."""
    await proven(tl, receiver)
    await say(tl, "one", "two", "three")
    receiver.answers.append(says(200, {"ack": 1}))

    async with running(tl):
        first, second = await receiver.next(), await receiver.next()
        await read_to(tl, 3)

    assert second.texts == ["two", "three"]
    assert first.headers["webhook-id"] != second.headers["webhook-id"]
    assert waits.seconds == []


@pytest.mark.acceptance("L3")
async def test_an_unproven_target_gets_nothing(
    tl: Threadline, receiver: Receiver, running: Running, coder: str
) -> None:
    """Neither before it is proven, nor once it was set anew."""
    await tl.push.set("coder", receiver.url)
    await tl.members.join(ROOM, "other", policy="all")
    async with receiving() as other:
        await proven(tl, other, "other")
        await say(tl, "one")

        async with running(tl):
            assert await other.texts(1) == ["one"]
            assert receiver.connections == 0
            await tl.push.prove("coder")
            assert await receiver.texts(1) == ["one"]
            await read_to(tl, 1)
            await tl.push.set("coder", receiver.url)
            await say(tl, "two")
            assert await other.texts(1) == ["two"]
            await read_to(tl, 2, "other")

    assert [one.texts for one in receiver.got] == [["one"]]


@pytest.mark.acceptance("L3")
@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (says(), "wrong_challenge"),
        (says(200, {}), "wrong_challenge"),
        (says(200, {"challenge": "another"}), "wrong_challenge"),
        (says(200, {"challenge": None}), "wrong_challenge"),
        (says(200, ["challenge"]), "wrong_challenge"),
        (lambda got: Reply(201, got.body), "wrong_challenge"),
        (lambda got: Reply(500, got.body), "server_error"),
        (lambda got: Reply(404, got.body), "client_error"),
        (lambda got: Reply(302, got.body, {"Location": "/elsewhere"}), "redirect"),
        (lambda got: Reply(200, got.body + b" " * 70_000), "answer_too_large"),
    ],
)
async def test_only_the_challenge_itself_proves_a_target(
    tl: Threadline, receiver: Receiver, coder: str, answer: Any, fault: str
) -> None:
    receiver.challenge = answer
    await tl.push.set("coder", receiver.url)

    with pytest.raises(PushNotProven) as refused:
        await tl.push.prove("coder")

    shown = await tl.push.show("coder")
    assert refused.value.facts["fault"] == shown.last_error == fault
    assert (shown.state, shown.proven_at) == ("unproven", None)
    assert len(receiver.challenges) == 1


async def test_a_target_that_was_set_anew_is_not_proven_by_the_old_challenge(
    tl: Threadline, receiver: Receiver, coder: str
) -> None:
    hold = asyncio.Event()
    asked = asyncio.Event()

    def late(got: Any) -> Reply:
        asked.set()
        return Reply(200, got.body, hold=hold)

    receiver.challenge = late
    await tl.push.set("coder", receiver.url)
    proving = asyncio.create_task(tl.push.prove("coder"))
    await asked.wait()
    await tl.push.set("coder", receiver.url + "/new")
    hold.set()

    with pytest.raises(PushNotProven):
        await proving
    assert (await tl.push.show("coder")).state == "unproven"


@pytest.mark.parametrize(("status", "fault"), [(500, "server_error"), (404, "client_error")])
async def test_a_target_that_fails_is_tried_again_later_and_later(
    tl: Threadline,
    receiver: Receiver,
    running: Running,
    clock: StillClock,
    coder: str,
    status: int,
    fault: str,
) -> None:
    await proven(tl, receiver)
    await say(tl, "one")
    receiver.answers += [says(status, {"ack": 1})] * 3
    waits = Waits(clock, held=True)

    async with running(tl, wait=waits):
        asked = []
        for _ in range(3):
            await receiver.next()
            seconds, over = await waits.next()
            asked.append(seconds)
            failing = await tl.push.show("coder")
            over.set()
        await receiver.next()
        await read_to(tl, 1)
        after = await tl.push.show("coder")

    assert asked == [1.0, 2.0, 4.0]
    assert (failing.state, failing.failures, failing.last_error) == ("failing", 3, fault)
    assert failing.next_attempt_at is not None
    assert len({one.headers["webhook-id"] for one in receiver.got}) == 1
    assert (after.state, after.failures, after.last_error, after.next_attempt_at) == (
        "proven",
        0,
        None,
        None,
    )


@pytest.mark.parametrize("form", ["seconds", "date", "past", "nonsense"])
async def test_retry_after_is_honoured(
    tl: Threadline, receiver: Receiver, running: Running, clock: StillClock, coder: str, form: str
) -> None:
    """In both its forms; one that says nothing leaves our own back-off."""
    value = {
        "seconds": "120",
        "date": format_datetime((clock() + timedelta(minutes=5)).astimezone(UTC), usegmt=True),
        "past": format_datetime((clock() - timedelta(minutes=5)).astimezone(UTC), usegmt=True),
        "nonsense": "a while",
    }[form]
    await proven(tl, receiver)
    await say(tl, "one")
    receiver.answers.append(says(429, Retry_After=value))
    waits = Waits(clock)

    async with running(tl, wait=waits):
        await receiver.next()
        await receiver.next()
        await read_to(tl, 1)

    assert waits.seconds == [{"seconds": 120.0, "date": 300.0}.get(form, 1.0)]


@pytest.mark.acceptance("L3")
async def test_a_target_that_is_gone_gets_nothing_more_until_it_is_proven_again(
    tl: Threadline, receiver: Receiver, running: Running, waits: Waits, coder: str
) -> None:
    await proven(tl, receiver)
    await say(tl, "one")
    receiver.answers.append(says(410))

    async with running(tl):
        await receiver.next()
        stopped = await state_of(tl, PushState.STOPPED)
        await tl.members.join(ROOM, "other", policy="all")
        async with receiving() as other:
            await proven(tl, other, "other")
            await say(tl, "two")
            assert await other.texts(2) == ["one", "two"]
        assert len(receiver.got) == 1
        await tl.push.prove("coder")
        assert await receiver.texts(2) == ["one", "two"]

    assert (stopped.last_error, stopped.next_attempt_at) == ("gone", None)
    assert waits.seconds == []


async def test_a_target_that_does_not_answer_is_given_up_and_tried_again(
    store: Store, receiver: Receiver, running: Running, waits: Waits
) -> None:
    tl = Threadline(store, outside=Guarded(allow_private=True, seconds=0.2))
    await tl.conversations.ensure(ROOM)
    await tl.members.join(ROOM, "coder", policy="all")
    await proven(tl, receiver)
    await say(tl, "one")
    never = asyncio.Event()
    receiver.answers.append(lambda got: Reply(hold=never))

    async with running(tl):
        first, second = await receiver.next(), await receiver.next()
        await read_to(tl, 1)

    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert waits.seconds == [1.0]


async def test_a_redirect_is_not_followed(
    tl: Threadline, receiver: Receiver, running: Running, coder: str
) -> None:
    async with receiving() as other:
        await proven(tl, receiver)
        await say(tl, "one")
        receiver.answers.append(says(307, Location=other.url))

        async with running(tl):
            await receiver.next()
            await receiver.next()

        assert other.connections == 0


async def test_an_endless_answer_is_cut(
    tl: Threadline, receiver: Receiver, running: Running, clock: StillClock, coder: str
) -> None:
    await proven(tl, receiver)
    await say(tl, "one")
    receiver.answers.append(lambda got: Reply(200, b'{"ack": 1, "x": "' + b"x" * 100_000 + b'"}'))
    waits = Waits(clock, held=True)

    async with running(tl, wait=waits):
        await waits.next()
        shown = await tl.push.show("coder")
        page = await tl.replay.backfill(ROOM, "coder")

    assert (shown.last_error, page.last_read) == ("answer_too_large", None)


async def test_a_backlog_comes_in_batches_one_at_a_time(
    tl: Threadline, receiver: Receiver, running: Running, coder: str
) -> None:
    """At most a hundred records, and the next batch only once this one was answered."""
    await tl.inbound.receive_all(
        InboundMessage(conversation=ConversationRef.parse(ROOM), text=str(n), actor=ADA)
        for n in range(250)
    )
    await proven(tl, receiver)

    async with running(tl):
        texts = await receiver.texts(250)
        await read_to(tl, 250)

    assert texts == [str(n) for n in range(250)]
    assert [len(one.texts) for one in receiver.got] == [100, 100, 50]


async def test_a_large_batch_is_cut_by_its_size(
    tl: Threadline, receiver: Receiver, running: Running, coder: str
) -> None:
    """A record that alone is larger still goes."""
    await say(tl, "a" * 600_000, "b" * 600_000, "c" * 2_000_000, "d")
    await proven(tl, receiver)

    async with running(tl):
        await read_to(tl, 4)

    assert ["".join(text[0] for text in one.texts) for one in receiver.got] == ["a", "b", "c", "d"]


async def test_one_conversation_does_not_delay_another_and_has_one_request_under_way(
    tl: Threadline, receiver: Receiver, running: Running, coder: str
) -> None:
    elsewhere = "web/office/kitchen"
    await tl.conversations.ensure(elsewhere)
    await tl.members.join(elsewhere, "coder", policy="all")
    await proven(tl, receiver)
    hold = asyncio.Event()
    receiver.answers.append(lambda got: Reply(body=b'{"ack": 1}', hold=hold))

    async with running(tl):
        await say(tl, "slow")
        assert await receiver.texts(1) == ["slow"]
        await say(tl, "waits")
        for text in ("quick", "quicker"):
            await say(tl, text, room=elsewhere)
            assert await receiver.texts(1) == [text]
        await read_to(tl, 2, room=elsewhere)
        under_way = [one.texts for one in receiver.got]
        hold.set()
        assert await receiver.texts(1) == ["waits"]

    assert under_way == [["slow"], ["quick"], ["quicker"]]


@pytest.mark.parametrize("end", ["leave", "retire", "remove", "anew"])
async def test_what_ends_a_reader_ends_what_would_be_sent(
    tl: Threadline, receiver: Receiver, running: Running, clock: StillClock, coder: str, end: str
) -> None:
    """Also what was sent before and would come again after its back-off."""
    await proven(tl, receiver)
    await tl.members.join(ROOM, "other", policy="all")
    await say(tl, "one")
    receiver.otherwise = says()
    waits = Waits(clock, held=True)

    async with receiving() as other, running(tl, wait=waits):
        await receiver.next()
        _, over = await waits.next()
        if end == "leave":
            await tl.members.leave(ROOM, "coder")
        elif end == "retire":
            await tl.sessions.retire("coder")
        elif end == "remove":
            await tl.push.remove("coder")
        else:
            await tl.push.set("coder", receiver.url)
        over.set()
        await proven(tl, other, "other")
        await say(tl, "two")
        assert await other.texts(2) == ["one", "two"]
        await read_to(tl, 2, "other")

    assert len(receiver.got) == 1


@pytest.mark.acceptance("D12")
async def test_a_conversation_whose_history_is_imported_is_left_out(
    tl: Threadline, receiver: Receiver, running: Running, coder: str
) -> None:
    elsewhere = "web/office/kitchen"
    await tl.conversations.ensure(elsewhere)
    await tl.members.join(elsewhere, "coder", policy="all")
    await proven(tl, receiver)
    window = await tl.hydration.begin(ROOM, mode="gated", owner="importer")
    held = InboundMessage(
        conversation=ConversationRef.parse(ROOM), text="held", actor=ADA, message_id="m1"
    )
    await tl.inbound.receive(held)

    async with running(tl):
        await say(tl, "other", room=elsewhere)
        assert await receiver.texts(1) == ["other"]
        await read_to(tl, 1, room=elsewhere)
        assert len(receiver.got) == 1
        assert window.token is not None
        await tl.hydration.complete(ROOM, window.token)
        assert await receiver.texts(1) == ["held"]


async def test_what_retention_took_is_told(
    tl: Threadline, receiver: Receiver, running: Running, coder: str
) -> None:
    await say(tl, "one", "two", "three")
    await tl.replay.ack(ROOM, "coder", 1)
    await tl.conversations.change(ROOM, max_retained_entries=1)
    await tl.upkeep.round()
    await proven(tl, receiver)

    async with running(tl):
        got = await receiver.next()
        await read_to(tl, 3)

    assert (got.texts, got.data["gap"]) == (["three"], {"first": 2, "last": 2})


async def test_a_target_survives_a_restart_with_its_back_off(
    tl: Threadline, receiver: Receiver, running: Running, clock: StillClock, coder: str
) -> None:
    """Whoever takes over waits as long as was asked for, and the batch has the same id."""
    await proven(tl, receiver)
    await say(tl, "one")
    receiver.answers.append(says(503, Retry_After="50"))
    before = Waits(clock, held=True)
    async with running(tl, wait=before):
        await receiver.next()
        assert (await before.next())[0] == 50.0
    clock.move(seconds=20)
    after = Waits(clock)

    async with running(tl, wait=after):
        await receiver.next()
        await read_to(tl, 1)

    assert after.seconds == [30.0]
    assert len({one.headers["webhook-id"] for one in receiver.got}) == 1


async def test_two_nodes_push_once(
    open_store: OpenStore, receiver: Receiver, running: Running
) -> None:
    """One of them holds the target; when it goes, the other goes on at once."""
    stores = await open_store(2)
    one, two = (Threadline(each, outside=Guarded(allow_private=True)) for each in stores)
    await one.conversations.ensure(ROOM)
    await one.members.join(ROOM, "coder", policy="all")
    await proven(one, receiver)

    async with running(two):
        async with running(one):
            for n in range(20):
                await say(one if n % 2 else two, str(n))
            texts = await receiver.texts(20)
            await read_to(one, 20)
        await say(one, "last")
        texts += await receiver.texts(1)
        await read_to(one, 21)

    assert texts == [*(str(n) for n in range(20)), "last"]


async def test_a_pusher_that_was_replaced_says_nothing_more(
    open_store: OpenStore, receiver: Receiver, running: Running, clock: StillClock
) -> None:
    """Its lease ran out while it stood still: its verdict is not counted."""
    stores = await open_store(2)
    one, two = (Threadline(each, outside=Guarded(allow_private=True)) for each in stores)
    await one.conversations.ensure(ROOM)
    await one.members.join(ROOM, "coder", policy="all")
    await proven(one, receiver)
    await say(one, "one")
    hold = asyncio.Event()
    receiver.answers.append(lambda got: Reply(410, hold=hold))
    still = PushPace(lease=timedelta(days=30), scan=timedelta(hours=1))

    async with running(one, pace=still):
        await receiver.next()
        clock.move(days=31)
        async with running(two):
            assert await receiver.texts(1) == ["one"]
            await read_to(two, 1)
            hold.set()
            await say(two, "two")
            assert await receiver.texts(1) == ["two"]
            shown = await two.push.show("coder")

    assert shown.state == "proven"


async def test_the_secret_is_shown_once_and_is_nowhere_else(
    tl: Threadline, receiver: Receiver, running: Running, coder: str, tmp_path: Path
) -> None:
    """Not in what is shown later, not in the log, not in the files of the database."""
    with capture_logs() as logs:
        made = await proven(tl, receiver)
        await say(tl, "quite private")
        receiver.answers += [says(500), acks]
        async with running(tl):
            await receiver.next()
            await receiver.next()
            await say(tl, "and more")
            await receiver.next()
    assert made.secret is not None
    raw = made.secret.removeprefix("whsec_")

    shown = await tl.push.show("coder")
    assert shown.secret is None
    told = json.dumps(logs, default=str) + repr(shown)
    assert "push.failing" in told
    assert "push.recovered" in told
    for canary in (raw, "quite private", receiver.url):
        assert canary not in json.dumps(logs, default=str)
    assert raw not in told
    for file in tmp_path.iterdir():
        if file.is_file():
            assert raw.encode() not in file.read_bytes()


async def test_a_session_without_a_target_has_none_to_show_or_prove(
    tl: Threadline, coder: str
) -> None:
    await tl.push.remove("coder")
    with pytest.raises(NotFound):
        await tl.push.show("coder")
    with pytest.raises(NotFound):
        await tl.push.prove("coder")
