"""What becomes of a message that goes over the network: proof, refusal, doubt."""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import OpenStore, Store
from tests.outbox.conftest import (
    HALL,
    ROOM,
    Platform,
    echo,
    furnished,
    hears,
    records,
    texts,
)
from tests.speech import unread
from threadline import Threadline
from threadline.core.deliveries import DeliveryState, Failure
from threadline.core.errors import (
    DeliveryConflict,
    FileNotCarried,
    HydrationPending,
    Unauthorized,
)
from threadline.core.model import Actor, Attachment, Direction, InboundMessage, SessionCaller
from threadline.testing.clock import StillClock

PENDING, DELIVERED = DeliveryState.PENDING, DeliveryState.DELIVERED
UNCERTAIN, FAILED = DeliveryState.UNCERTAIN, DeliveryState.FAILED


@pytest.mark.acceptance("G1", "G10")
async def test_what_the_platform_confirmed_is_one_record_of_our_bot(
    tl: Threadline, platform: Platform
) -> None:
    """G1: an intent first, no record; with the proof the record, and peers see it."""
    await hears(tl, "When do we open?", "q1")

    sent = await tl.outbound.publish(ROOM, "agent", "At nine.", reply_to=1)
    before = await texts(tl)
    await tl.outbox.round()

    assert (sent.state, sent.sequence, before) == (PENDING, None, ["When do we open?"])
    after = await tl.deliveries.show(sent.id)
    assert (after.state, after.sequence, after.message_ids) == (DELIVERED, 2, ("m1",))
    [_, answer] = await records(tl)
    assert (answer.text, answer.message_id, answer.direction) == ("At nine.", "m1", "outbound")
    assert (answer.actor.id, answer.actor.is_self, answer.actor.is_bot) == ("A1", True, True)
    assert (answer.source_session_id, answer.reply_to) == ("agent", "q1")
    assert platform.entries("call")[0]["reply_to"] == "q1"
    assert await unread(tl, "reader", ROOM) == [1, 2]
    assert await unread(tl, "agent", ROOM) == [1]
    context = await tl.deliveries.context(ROOM, "agent")
    assert context is not None
    assert (context.delivery, context.message_ids) == (sent.id, ("m1",))


@pytest.mark.acceptance("G2")
@pytest.mark.parametrize(
    ("fault", "failure"),
    [
        ({"status": 400}, Failure.PERMANENT),
        ({"status": 401}, Failure.AUTH),
        ({"status": 404}, Failure.NOT_FOUND),
        ({"status": 302}, Failure.PERMANENT),
        ({"status": 501}, Failure.UNSUPPORTED),
        ({"answer": {"refused": "window_closed", "reason": "24 h"}}, Failure.WINDOW_CLOSED),
        ({"answer": {"refused": "of a kind nobody knows"}}, Failure.PERMANENT),
    ],
    ids=lambda given: str(given),
)
async def test_what_the_platform_refuses_leaves_no_record(
    tl: Threadline, platform: Platform, fault: dict[str, object], failure: Failure
) -> None:
    """G2: class, reason and attempts are in the delivery; the next message leaves at once."""
    platform.fault("refuse" if "answer" in fault else "status", **fault)
    one = await tl.outbound.publish(ROOM, "agent", "Refused.")
    await tl.outbound.publish(ROOM, "agent", "Taken.")

    await tl.outbox.round()

    after = await tl.deliveries.show(one.id)
    assert (after.state, after.failure, after.attempts) == (FAILED, failure, 1)
    assert after.reason
    assert (after.sequence, after.message_ids) == (None, ())
    assert await texts(tl) == platform.said == ["Taken."]


@pytest.mark.acceptance("G3")
@pytest.mark.case("B024")
async def test_a_key_is_one_call_to_the_platform(tl: Threadline, platform: Platform) -> None:
    """G3: in a row, at once, before and after it was sent."""
    many = await asyncio.gather(
        *(tl.outbound.publish(ROOM, "agent", "Once.", key="k") for _ in range(6))
    )
    await tl.outbox.round()
    again = await tl.outbound.publish(ROOM, "agent", "Once.", key="k")
    await tl.outbound.publish(ROOM, "agent", "Once.", key="k2")
    await tl.outbox.round()

    assert {one.id for one in many} == {again.id}
    assert (again.repeated, again.state, again.message_ids) == (True, DELIVERED, ("m1",))
    assert platform.said == ["Once.", "Once."]
    assert await texts(tl) == ["Once.", "Once."]


@pytest.mark.acceptance("G4")
async def test_who_may_not_speak_causes_no_call(tl: Threadline, platform: Platform) -> None:
    """G4: a public participant may without a binding, a reader may not."""
    await tl.speakers.participant(HALL, "helper", "helper", public=True)

    with pytest.raises(Unauthorized):
        await tl.outbound.publish(ROOM, "reader", "May I?")
    await tl.outbound.publish(HALL, "helper", "I may.")
    await tl.outbox.round()

    assert platform.said == ["I may."]
    assert platform.calls == 1


@pytest.mark.acceptance("G5")
@pytest.mark.case("B025")
@pytest.mark.parametrize("fault", [{"fault": "drop"}, {"fault": "late_error", "status": 502}])
async def test_an_answer_that_was_lost_is_settled_by_the_echo(
    tl: Threadline, platform: Platform, clock: StillClock, fault: dict[str, object]
) -> None:
    """G5: uncertain, never sent again; the echo with our token is the proof, however late."""
    platform.fault(**fault)  # type: ignore[arg-type]
    sent = await tl.outbound.publish(ROOM, "agent", "Did you get it?")
    await tl.outbox.round()
    doubtful = await tl.deliveries.show(sent.id)
    clock.move(minutes=5)
    await tl.outbox.round()
    clock.move(days=3)
    await tl.outbox.round()
    parked = await tl.deliveries.show(sent.id)

    taken = await echo(tl, "Did you get it?", "m1", platform.entries("effect")[0]["key"])

    assert (doubtful.state, doubtful.parked, parked.parked) == (UNCERTAIN, False, True)
    assert [one.id for one in (await tl.deliveries.page(state="uncertain")).deliveries] == []
    after = await tl.deliveries.show(sent.id)
    assert (after.state, after.sequence, after.message_ids) == (DELIVERED, 1, ("m1",))
    assert taken.duplicate
    [record] = await records(tl)
    assert (record.source_session_id, record.message_id) == ("agent", "m1")
    assert platform.calls == 1


@pytest.mark.acceptance("G5")
async def test_without_an_echo_an_uncertain_message_waits_for_a_person(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """G5: confirmed with the platform's id, resent at the tail and marked, or dropped."""
    platform.fault("drop", times=3)
    sent = []
    for text in ("one", "two", "three"):
        sent.append(await tl.outbound.publish(ROOM, "agent", text))
        await tl.outbox.round()
        clock.move(minutes=2)
    await tl.outbox.round()
    listed = (await tl.deliveries.page(state="uncertain")).deliveries
    assert [one.id for one in listed] == [one.id for one in reversed(sent)]
    assert all(one.parked for one in listed)
    # Whoever looks whether it is there has to know what to look for.
    assert [one.words for one in listed] == ["three", "two", "one"]

    confirmed = await tl.deliveries.confirm(sent[0].id, "m1")
    dropped = await tl.deliveries.drop(sent[1].id)
    await tl.outbound.publish(ROOM, "agent", "four")
    resent = await tl.deliveries.resend(sent[2].id)
    await tl.outbox.round()

    assert (confirmed.state, confirmed.sequence, confirmed.words) == (DELIVERED, 1, "")
    assert (dropped.state, dropped.sequence) == (DeliveryState.CANCELLED, None)
    assert (resent.state, resent.resent) == (PENDING, 1)
    assert platform.said == ["one", "two", "three", "four", "three"]
    assert await texts(tl) == ["one", "four", "three"]
    assert (await records(tl))[-1].metadata["resent"] == 1
    with pytest.raises(DeliveryConflict):
        await tl.deliveries.resend(sent[0].id)


@pytest.mark.acceptance("G6", "A10")
async def test_an_echo_that_is_quicker_than_the_answer_makes_one_record(
    tl: Threadline, platform: Platform
) -> None:
    """G6: also without a token: it waits until it is known whose words it repeats."""
    platform.fault("slow")
    sent = await tl.outbound.publish(ROOM, "agent", "Quick.")
    working = asyncio.create_task(tl.outbox.round())
    await asyncio.to_thread(platform.say, "arrived")

    early = await echo(tl, "Quick.", "m1")
    again = await echo(tl, "Quick.", "m1")
    before = await texts(tl)
    platform.say("release")
    await working

    assert (early.held, early.duplicate, again.duplicate, before) == (True, False, True, [])
    [record] = await records(tl)
    assert (record.message_id, record.source_session_id) == ("m1", "agent")
    assert (await tl.deliveries.show(sent.id)).sequence == 1
    assert (await echo(tl, "Quick.", "m1")).duplicate


@pytest.mark.acceptance("G6", "A10")
async def test_an_own_message_that_nobody_here_said_is_recorded_once_that_is_clear(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """A10: somebody used our account by hand; it waits while it may be ours, and is nobody's."""
    by_hand = await echo(tl, "By hand.", "h1")
    platform.fault("drop")
    await tl.outbound.publish(ROOM, "agent", "Lost.")
    await tl.outbox.round()
    waiting = await echo(tl, "Also by hand.", "h2")
    assert (by_hand.held, waiting.held, await texts(tl)) == (False, True, ["By hand."])

    clock.move(minutes=2)
    await tl.outbox.round()

    assert await texts(tl) == ["By hand.", "Also by hand."]
    assert [one.source_session_id for one in await records(tl)] == [None, None]
    assert {one.direction for one in await records(tl)} == {Direction.OUTBOUND}


@pytest.mark.acceptance("G6", "A10")
async def test_many_own_messages_that_waited_are_recorded_in_their_order(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """However many there are, and also while the next message of the lane has to wait."""
    platform.fault("drop")
    platform.fault("refuse", answer={"refused": "rate_limited", "wait": 600})
    await tl.outbound.publish(ROOM, "agent", "Lost.")
    await tl.outbound.publish(ROOM, "agent", "Later.")
    await tl.outbox.round()
    for number in range(30):
        assert (await echo(tl, f"by hand {number}", f"h{number}")).held

    clock.move(minutes=2)
    await tl.outbox.round()

    assert await texts(tl) == [f"by hand {number}" for number in range(30)]


@pytest.mark.acceptance("G15")
async def test_a_lane_full_of_lost_rights_is_emptied(tl: Threadline, platform: Platform) -> None:
    """An eviction takes back whatever waits, however much it is; the others' words stay."""
    await tl.speakers.participant(ROOM, "helper", "helper", public=True)
    sent = [await tl.outbound.publish(ROOM, "agent", f"{n}") for n in range(150)]
    await tl.outbound.publish(ROOM, "helper", "I stay.")

    await tl.members.leave(ROOM, "agent", evict=True)
    await tl.outbox.round()

    states = {(await tl.deliveries.show(one.id)).state for one in sent}
    assert states == {DeliveryState.CANCELLED}
    assert platform.said == ["I stay."]


@pytest.mark.acceptance("G6")
async def test_a_record_an_import_brought_first_becomes_the_sessions(
    tl: Threadline, platform: Platform
) -> None:
    """The confirmed id is known: that record gets the source session and stays the one."""
    platform.fault("slow")
    await tl.outbound.publish(ROOM, "agent", "Imported as well.")
    working = asyncio.create_task(tl.outbox.round())
    await asyncio.to_thread(platform.say, "arrived")
    message = InboundMessage(
        conversation=ROOM, text="Imported as well.", actor=Actor("A1"), message_id="m1"
    )
    await tl.inbound.receive(message)

    platform.say("release")
    await working

    [record] = await records(tl)
    assert (record.sequence, record.source_session_id) == (1, "agent")
    assert (record.direction, await unread(tl, "agent", ROOM)) == (Direction.OUTBOUND, [])


@pytest.mark.acceptance("D3")
async def test_what_is_confirmed_while_history_is_imported_is_recorded_after_it(
    tl: Threadline, platform: Platform
) -> None:
    """D3: sent at once, held like everything that was heard, its parts known afterwards."""
    window = await tl.hydration.begin(ROOM, owner="importer", mode="gated")
    sent = await tl.outbound.publish(ROOM, "agent", "word " * 1_000)
    await tl.outbox.round()
    during = await tl.deliveries.show(sent.id)
    with pytest.raises(HydrationPending):
        await tl.inbound.append(InboundMessage(conversation=ROOM, text="x", actor=Actor("a")))

    assert window.token is not None
    await tl.hydration.complete(ROOM, window.token)

    assert (during.state, during.sequence, during.parts) == (DELIVERED, None, 2)
    after = await tl.deliveries.show(sent.id)
    assert (after.state, after.sequence) == (DELIVERED, 1)
    assert [one.text for one in await records(tl)] == ["word " * 1_000]
    assert (await echo(tl, "word", "m2")).duplicate


@pytest.mark.acceptance("G15", "C13")
@pytest.mark.parametrize("how", ["unbound", "bound anew", "evicted", "retired", "taken back"])
async def test_a_right_that_was_lost_meanwhile_cancels_without_a_call(
    tl: Threadline, platform: Platform, how: str
) -> None:
    """G15: looked at again by the attempt; an eviction takes what waits with it at once."""
    sent = await tl.outbound.publish(ROOM, "agent", "Too late.")
    match how:
        case "unbound":
            await tl.speakers.unbind(ROOM)
        case "bound anew":
            await tl.speakers.unbind(ROOM)
            await tl.speakers.bind(ROOM, "agent")
        case "evicted":
            await tl.members.leave(ROOM, "agent", evict=True)
            assert (await tl.deliveries.show(sent.id)).state is DeliveryState.CANCELLED
        case "retired":
            await tl.sessions.retire("agent")
        case _:
            caller = SessionCaller("agent", scopes=frozenset({"read", "publish"}))
            await tl.deliveries.cancel(sent.id, caller=caller)

    await tl.outbox.round()

    after = await tl.deliveries.show(sent.id)
    assert (after.state, after.attempts) == (DeliveryState.CANCELLED, 0)
    assert after.reason
    assert platform.calls == 0
    assert await texts(tl) == []


@pytest.mark.acceptance("J1")
async def test_what_waits_moves_with_a_session_that_is_reassigned(
    tl: Threadline, platform: Platform
) -> None:
    """The successor speaks: the right, the name and the record are its own."""
    sent = await tl.outbound.publish(ROOM, "agent", "Still true.")
    await tl.sessions.reassign("agent", "heir")

    await tl.outbox.round()

    assert (await tl.deliveries.show(sent.id)).state is DELIVERED
    assert [one.source_session_id for one in await records(tl)] == ["heir"]


@pytest.mark.case("B035")
async def test_an_adapter_that_is_away_destroys_nothing(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """What waits is sent once somebody speaks for the account again, attachment and all."""
    await furnished(tl, platform, attachments=True)
    plan = Attachment(id="f1", name="plan.pdf", type="application/pdf", size=9)
    sent = await tl.outbound.publish(ROOM, "agent", "Patience.", attachments=[plan])
    await tl.adapters.remove("chat", "A1")
    await tl.outbox.round()
    waiting = await tl.deliveries.show(sent.id)
    await furnished(tl, platform)

    clock.move(minutes=1)
    await tl.outbox.round()

    assert (waiting.state, waiting.attempts) == (PENDING, 0)
    assert "nobody speaks" in waiting.reason
    assert platform.said == await texts(tl) == ["Patience."]
    assert [one.attachments for one in await records(tl)] == [(plan,)]


@pytest.mark.acceptance("G2")
async def test_what_a_platform_cannot_take_is_refused_before_any_call(
    tl: Threadline, platform: Platform
) -> None:
    """Attachments where there are none, and a text of more messages than anybody reads."""
    with pytest.raises(FileNotCarried):
        await tl.outbound.publish(ROOM, "agent", "See.", attachments=[Attachment(name="a")])
    book = await tl.outbound.publish(ROOM, "agent", "word " * 100_000)
    await tl.outbox.round()

    assert len((await tl.deliveries.page()).deliveries) == 1
    assert book.failure is Failure.UNSUPPORTED
    assert "messages long" in book.reason
    assert platform.calls == 0


async def test_a_callback_where_nobody_listens_costs_attempts_and_no_doubt(
    store: Store, platform: Platform, clock: StillClock
) -> None:
    """No byte left, so it is tried again until attempts or age end it."""
    line = await furnished(Threadline(store, allow_private=True), platform)
    sent = await line.outbound.publish(ROOM, "agent", "Hello?")
    platform.kill()
    seen = set()

    for _ in range(40):
        await line.outbox.round()
        seen.add((await line.deliveries.show(sent.id)).state)
        clock.move(minutes=6)

    after = await line.deliveries.show(sent.id)
    assert seen == {PENDING, DeliveryState.EXPIRED}
    assert 5 < after.attempts <= 12
    await line.outbox.close()


@pytest.mark.acceptance("G3", "G14")
async def test_two_nodes_send_every_message_once_and_in_order(
    open_store: OpenStore, platform: Platform
) -> None:
    """On one PostgreSQL: a lane is one node's at a time."""
    nodes = [
        Threadline(store, allow_private=True, node=f"n{n}")
        for n, store in enumerate(await open_store(2))
    ]
    await furnished(nodes[0], platform)
    for n in range(10):
        await nodes[n % 2].outbound.publish(ROOM, "agent", f"room {n}", key=f"r{n}")
        await nodes[n % 2].outbound.publish(HALL, "agent", f"hall {n}", key=f"h{n}")

    async def work(node: Threadline) -> None:
        while (await nodes[0].deliveries.page(state="pending")).deliveries:
            await node.outbox.round()

    await asyncio.gather(*(work(node) for node in nodes))

    assert await texts(nodes[0]) == [f"room {n}" for n in range(10)]
    assert await texts(nodes[1], HALL) == [f"hall {n}" for n in range(10)]
    for place in ("room", "hall"):
        said = [one for one in platform.said if one.startswith(place)]
        assert said == [f"{place} {n}" for n in range(10)]
    for node in nodes:
        await node.outbox.close()


@pytest.mark.acceptance("A10")
async def test_a_token_of_another_conversation_proves_nothing(
    tl: Threadline, platform: Platform
) -> None:
    """An adapter settles what stands in the place it names, and was called; no other."""
    platform.fault("drop", place="hall")
    sent = await tl.outbound.publish(HALL, "agent", "In the hall.")
    await tl.outbox.round()
    unsent = await tl.outbound.publish(ROOM, "agent", "Not yet.")

    elsewhere = await echo(tl, "In the room.", "x1", f"{sent.id}.1")
    uncalled = await echo(tl, "Also in the room.", "x2", f"{unsent.id}.1")

    assert (elsewhere.held, uncalled.held) == (False, False)
    assert await texts(tl) == ["In the room.", "Also in the room."]
    assert (await tl.deliveries.show(sent.id)).state is UNCERTAIN
    assert (await tl.deliveries.show(unsent.id)).state is PENDING


async def test_a_round_beside_the_worker_begins_on_no_lane_twice(
    tl: Threadline, platform: Platform
) -> None:
    """Both look at once, and each lane is one's."""
    sent = [await tl.outbound.publish(ROOM, "agent", f"number {n}") for n in range(5)]
    stopping = asyncio.Event()
    running = asyncio.create_task(tl.outbox.run(stopping))
    while not all([(await tl.deliveries.show(one.id)).state is DELIVERED for one in sent]):
        await asyncio.gather(*(tl.outbox.round() for _ in range(3)))
    stopping.set()
    await running

    assert platform.said == [f"number {n}" for n in range(5)]


async def test_two_looks_at_once_make_one_attempt(tl: Threadline, platform: Platform) -> None:
    await tl.outbound.publish(ROOM, "agent", "once")
    made = await asyncio.gather(tl.outbox.round(), tl.outbox.round())
    assert platform.said == ["once"]
    assert max(made) == 1
    assert not tl.outbox._hands.accounts, "no place of the account is taken for ever"
