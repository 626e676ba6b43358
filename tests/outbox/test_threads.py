"""Where an account answers in threads, an answer goes to the thread that the record opens."""

from __future__ import annotations

import pytest

from tests.conftest import Store
from tests.outbox.conftest import ROOM, Platform, furnished, hears, records
from tests.speech import unread
from threadline import Threadline
from threadline.core.model import ConversationRef, Kind


async def test_an_answer_goes_to_the_thread_that_its_record_opens(
    store: Store, platform: Platform
) -> None:
    """Law 11: said there, recorded there behind a copy of its root, read by whoever is enrolled."""
    line = await furnished(Threadline(store, allow_private=True), platform, answers_in_thread=True)
    thread = ConversationRef("chat", "A1", "q1", ROOM.conversation_id, kind=Kind.THREAD)
    await hears(line, "When do we open?", "q1")

    sent = await line.outbound.publish(ROOM, "agent", "At nine.", reply_to=1, key="k")
    again = await line.outbound.publish(ROOM, "agent", "At nine.", reply_to=1, key="k")
    await line.outbox.round()
    beside = await line.outbound.publish(ROOM, "agent", "Good morning.")
    await line.outbox.round()
    await line.outbox.close()

    assert (sent.ref, again.id, again.ref) == (thread, sent.id, thread)
    assert beside.ref == ROOM
    said = [(one["text"], one["place"]) for one in platform.entries("effect")]
    assert said == [("At nine.", "q1"), ("Good morning.", ROOM.conversation_id)]
    assert [one.text for one in await records(line)] == ["When do we open?", "Good morning."]
    assert [
        (one.text, one.copied_from, one.source_session_id) for one in await records(line, thread)
    ] == [
        ("When do we open?", 1, None),
        ("At nine.", None, "agent"),
    ]
    back = await hears(line, "And on Sundays?", "q2", where=thread, thread_root="q1")
    assert back.target_session_id == "agent"
    assert await unread(line, "agent", thread) == [1, 3]


async def test_a_thread_is_answered_in_itself_and_a_room_that_has_none_in_the_room(
    store: Store, platform: Platform
) -> None:
    """Only a room's record opens a thread, and only where the account says so."""
    line = await furnished(Threadline(store, allow_private=True), platform)
    await hears(line, "When do we open?", "q1")

    sent = await line.outbound.publish(ROOM, "agent", "At nine.", reply_to=1)
    await line.outbox.round()
    await line.outbox.close()

    assert sent.ref == ROOM
    assert [one.text for one in await records(line)] == ["When do we open?", "At nine."]


@pytest.mark.case("B082")
async def test_an_answer_belongs_to_the_record_it_answers_and_not_to_the_newest(
    store: Store, platform: Platform
) -> None:
    """B082: somebody else wrote later, in the room and in a thread of their own."""
    line = await furnished(Threadline(store, allow_private=True), platform, answers_in_thread=True)
    first, second = (
        ConversationRef("chat", "A1", root, ROOM.conversation_id, kind=Kind.THREAD)
        for root in ("a1", "b1")
    )
    await hears(line, "Are you open?", "a1")
    await hears(line, "Where are you?", "b1")
    await hears(line, "In the harbour?", "b2", where=second, thread_root="b1")

    by_number = await line.outbound.publish(ROOM, "agent", "Yes.", reply_to=1)
    by_name = await line.outbound.publish(ROOM, "agent", "Until six.", reply_to="a1")
    below = await line.outbound.publish(second, "agent", "At the pier.", reply_to="b2")
    await line.outbox.round()
    await line.outbox.close()

    assert (by_number.ref, by_name.ref, below.ref) == (first, first, second)
    places = {one["text"]: one["place"] for one in platform.entries("effect")}
    assert places == {"Yes.": "a1", "Until six.": "a1", "At the pier.": "b1"}
    assert [one.text for one in await records(line)] == ["Are you open?", "Where are you?"]
    answers = [
        [(one.text, one.reply_to) for one in await records(line, where) if one.source_session_id]
        for where in (first, second)
    ]
    assert answers == [[("Yes.", "a1"), ("Until six.", "a1")], [("At the pier.", "b2")]]
