"""What kept a message from being said, told as it was."""

from __future__ import annotations

import pytest

from tests.outbox.conftest import ROOM, Platform
from threadline import Threadline
from threadline.core.deliveries import DeliveryState, Failure
from threadline.testing.clock import StillClock


@pytest.mark.parametrize("failed", [0, 2], ids=["never tried", "tried before"])
async def test_what_nobody_spoke_for_says_so_at_its_end(
    tl: Threadline, platform: Platform, clock: StillClock, failed: int
) -> None:
    """The adapter went away and did not come back: that is no attempt that failed."""
    platform.fault("status", status=503, times=failed)
    sent = await tl.outbound.publish(ROOM, "agent", "Lunch is ready.")
    for _ in range(failed):
        await tl.outbox.round()
        clock.move(seconds=2)
    await tl.adapters.remove("chat", "A1")
    await tl.outbox.round()
    clock.move(hours=2)
    await tl.outbox.round()

    done = await tl.deliveries.show(sent.id)
    assert (done.state, done.attempts, done.failure) == (DeliveryState.EXPIRED, failed, None)
    assert done.reason.endswith("nobody speaks for this account at the moment.")
    assert "attempts failed" not in done.reason


async def test_what_failed_at_last_says_how_often(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """With the platform's own word."""
    platform.fault("status", status=503, times=2)
    sent = await tl.outbound.publish(ROOM, "agent", "Lunch is ready.")
    for _ in range(2):
        await tl.outbox.round()
        clock.move(seconds=2)
    clock.move(hours=2)
    await tl.outbox.round()
    done = await tl.deliveries.show(sent.id)
    assert (done.state, done.failure) == (DeliveryState.EXPIRED, Failure.TRANSIENT)
    assert "2 attempts failed, the last one: " in done.reason
