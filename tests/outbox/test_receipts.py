"""What a platform says about a message of ours after it took it."""

from __future__ import annotations

import pytest

from tests.outbox.conftest import ROOM, Platform, records, texts
from threadline import Threadline
from threadline.core.deliveries import DeliveryState, Failure
from threadline.core.wire import Receipt, Refused
from threadline.flows.hearing import HearReceipt

CLOSED = Refused(failure=Failure.WINDOW_CLOSED, reason="the person wrote too long ago")


async def tells(
    line: Threadline, message_id: str, token: str | None = None, refused: Refused | None = None
) -> bool:
    """The platform says something about one message."""
    told = Receipt(conversation=ROOM, message_id=message_id, token=token, refused=refused)
    return (await line.store.run(HearReceipt(receipt=told))).ours


async def doubtful(line: Threadline, platform: Platform) -> tuple[str, str]:
    """A delivery nobody is sure of, and its key."""
    platform.fault("drop")
    sent = await line.outbound.publish(ROOM, "agent", "Are you there?")
    await line.outbox.round()
    assert (await line.deliveries.show(sent.id)).state is DeliveryState.UNCERTAIN
    return sent.id, platform.entries("effect")[0]["key"]


@pytest.mark.acceptance("G5")
async def test_that_it_is_there_proves_what_nobody_was_sure_of(
    tl: Threadline, platform: Platform
) -> None:
    """G5: by our key, once, however often it is said."""
    sent, key = await doubtful(tl, platform)

    first = await tells(tl, "m1", key)
    again = await tells(tl, "m1", key)

    after = await tl.deliveries.show(sent)
    assert (first, again) == (True, True)
    assert (after.state, after.message_ids) == (DeliveryState.DELIVERED, ("m1",))
    assert await texts(tl) == ["Are you there?"]
    assert platform.calls == 1


async def test_what_could_not_be_handed_on_has_failed_whatever_is_said_later(
    tl: Threadline, platform: Platform
) -> None:
    """A platform's words come in any order: that it took the message is no news by then."""
    sent, key = await doubtful(tl, platform)

    await tells(tl, "m1", key, CLOSED)
    await tells(tl, "m1", key)
    await tl.outbox.round()

    after = await tl.deliveries.show(sent)
    assert (after.state, after.failure) == (DeliveryState.FAILED, Failure.WINDOW_CLOSED)
    assert await texts(tl) == []
    assert platform.calls == 1


async def test_a_message_that_was_taken_and_reached_nobody_stays_and_is_said_to_have_failed(
    tl: Threadline, platform: Platform
) -> None:
    """It was posted, so its record stays; a notice beside it tells whoever reads on."""
    sent = await tl.outbound.publish(ROOM, "agent", "Good morning.")
    await tl.outbox.round()
    [name] = (await tl.deliveries.show(sent.id)).message_ids

    await tells(tl, name, None, CLOSED)
    await tells(tl, name, None, CLOSED)

    after = await tl.deliveries.show(sent.id)
    said, notice = await records(tl)
    assert (after.state, after.sequence) == (DeliveryState.FAILED, 1)
    assert (said.text, notice.event) == ("Good morning.", "notice")
    assert "the person wrote too long ago" in notice.text
    assert notice.wakes == ()


async def test_what_is_said_about_a_message_that_is_not_ours_changes_nothing(
    tl: Threadline, platform: Platform
) -> None:
    """Neither by an unknown id nor by a key that was never given out."""
    await tl.outbound.publish(ROOM, "agent", "Good morning.")
    await tl.outbox.round()
    before = await records(tl)

    known = [
        await tells(tl, "nobody's", None, CLOSED),
        await tells(tl, "m9", "0000000000001.0000000000009.1", CLOSED),
        await tells(tl, "m9", "no key"),
    ]

    assert known == [False, False, False]
    assert await records(tl) == before
