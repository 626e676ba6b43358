"""What is let be said once more in Slack, where its answer got lost as well."""

from __future__ import annotations

import pytest

from tests.conftest import Store
from tests.slack.conftest import given, ref
from tests.talk import furnished
from threadline import Threadline
from threadline.core.deliveries import DeliveryState
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation


@pytest.mark.acceptance("G5")
async def test_what_is_resent_in_doubt_is_looked_for_again(
    store: Store, slack: Simulation, room: str, clock: StillClock
) -> None:
    """All looks of the first attempt were in vain, for it was never said; the second was."""
    line, place = Threadline(store, allow_private=True), ref(room)
    await line.accounts.connect("slack", given(slack, socket=True))
    await furnished(line, place)
    slack.fault("status", status=500, place=room)
    sent = await line.outbound.publish(place, "agent", "Lunch is ready.")
    for _ in range(30):
        await line.outbox.round()
        clock.move(seconds=5)
    assert (await line.deliveries.show(sent.id)).parked

    slack.fault("drop", place=room)
    await line.deliveries.resend(sent.id)
    for _ in range(30):
        await line.outbox.round()
        clock.move(seconds=5)

    done = await line.deliveries.show(sent.id)
    assert (done.state, done.attempts) == (DeliveryState.DELIVERED, 2)
    assert [one["text"] for one in slack.effects("message", place=room)] == ["Lunch is ready."]
    await line.outbox.close()
