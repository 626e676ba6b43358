"""Writing first on WhatsApp: within a day of the person's last words, or as a template."""

from __future__ import annotations

import pytest

from tests.whatsapp.test_story import Scene, meta, scene
from threadline.core.errors import WindowClosed
from threadline.core.sends import SendState
from threadline.testing.clock import StillClock

__all__ = ["meta", "scene"]


@pytest.mark.acceptance("H8", "H1")
async def test_outside_the_window_only_a_template_leaves(scene: Scene, clock: StillClock) -> None:
    """Refused before the call, then sent as the template that is named."""
    line, number = scene.line, scene.ref.account_id
    await line.consents.grant("agent", "whatsapp", number)
    sent = await line.initiative.send("agent", f"whatsapp:{scene.user}", "Inside.")
    assert (await line.initiative.settled(sent)).state is SendState.DELIVERED
    clock.move(hours=25)
    before = len(scene.effects())
    with pytest.raises(WindowClosed):
        await line.initiative.send("agent", f"whatsapp:{scene.user}", "Too late.")
    template = {"name": "order_ready", "language": "en_GB"}
    named = await line.initiative.send(
        "agent", f"whatsapp:{scene.phone}", "Ready.", metadata={"template": template}
    )
    done = await line.initiative.settled(named)
    assert (done.state, len(scene.platform.effects("message")) > before) == (
        SendState.DELIVERED,
        True,
    )
    assert done.delivery is not None
    assert done.delivery.ref == scene.ref
