"""Where an account answers in threads, an answer goes to the thread that the record opens."""

from __future__ import annotations

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
