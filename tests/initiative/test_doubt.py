"""A send nobody is sure of: shown as that, counted until a person says what became of it."""

from __future__ import annotations

import asyncio

import pytest

from tests.whatsapp.test_story import Scene, meta, scene
from threadline.core.errors import LimitReached
from threadline.core.sends import SendState
from threadline.flows.send_status import SendStatus
from threadline.testing.clock import StillClock

__all__ = ["meta", "scene"]


async def in_doubt(scene: Scene, clock: StillClock, text: str) -> SendStatus:
    """The only send of a day, of which nobody knows whether it was said, set aside."""
    line = scene.line
    await line.consents.grant("agent", "whatsapp", scene.ref.account_id)
    await line.consents.set_limits({"recipient_per_day": 1, "recipient_per_hour": 0})
    scene.platform.fault("status", status=502, place=scene.user)
    sent = await line.initiative.send("agent", f"whatsapp:{scene.user}", text)
    assert sent.delivery is not None
    bell = line.store.bell(everything=True)
    async with asyncio.timeout(60):
        while not (await line.deliveries.show(sent.delivery.id)).parked:
            clock.move(seconds=20)
            await bell.wait(0.2)
    bell.close()
    assert (await line.initiative.show(sent.id)).state is SendState.UNCERTAIN
    return sent


@pytest.mark.acceptance("H10", "H7")
@pytest.mark.parametrize("said", [True, False], ids=["it was said", "it was not"])
async def test_a_send_in_doubt_is_uncertain_until_a_person_knows_better(
    scene: Scene, clock: StillClock, said: bool
) -> None:
    """No status ever comes: its send is uncertain as soon as it is parked, and holds its place in
    the limit. Who looked there says what is true, and the send follows."""
    line, to = scene.line, f"whatsapp:{scene.user}"
    sent = await in_doubt(scene, clock, "Hello?")
    assert sent.delivery is not None
    found = await line.initiative.show(sent.id)
    assert found.state is SendState.UNCERTAIN
    assert [one["outcome"] for one in found.tried] == ["uncertain"]
    with pytest.raises(LimitReached):
        await line.initiative.send("agent", to, "Still there?")
    if said:
        await line.deliveries.confirm(sent.delivery.id)
    else:
        await line.deliveries.drop(sent.delivery.id)
    found = await line.initiative.show(sent.id)
    assert found.state is (SendState.DELIVERED if said else SendState.CANCELLED)
    if said:
        with pytest.raises(LimitReached):
            await line.initiative.send("agent", to, "Still there?")
    else:
        await line.initiative.send("agent", to, "Still there?")
    actions = [one.action for one in await line.audits.list() if one.action.startswith("send.")]
    assert "send.uncertain" in actions
