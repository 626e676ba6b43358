"""Writing first on WhatsApp: within a day of the person's last words, or as a template."""

from __future__ import annotations

import asyncio

import pytest

from tests.firsts import allowed, answered, silent
from tests.whatsapp.test_story import Scene, meta, scene
from threadline.core.deliveries import DeliveryState
from threadline.core.errors import ReplyRouteConflict, WindowClosed
from threadline.core.sends import SendState
from threadline.flows.send_status import SendStatus
from threadline.testing.clock import StillClock

__all__ = ["meta", "scene"]

TEMPLATE = {"template": {"name": "order_ready", "language": "en_GB"}}


async def send(scene: Scene, to: str, text: str, **more: object) -> SendStatus:
    """What became of what `agent` writes first."""
    sent = await scene.line.initiative.send("agent", to, text, **more)  # type: ignore[arg-type]
    return await scene.line.initiative.settled(sent)


@pytest.mark.acceptance("H8", "H1")
@pytest.mark.parametrize("by", ["user id", "phone"])
async def test_inside_the_window_words_leave_and_outside_of_it_only_a_template(
    scene: Scene, clock: StillClock, by: str
) -> None:
    """Whichever of a person's two ids is written to, the answer stands below in one transcript. A
    closed window is refused before the call, and opens again with the answer to the template."""
    line = scene.line
    await allowed(line, "whatsapp", scene.ref.account_id, "agent")
    to = f"whatsapp:{scene.user if by == 'user id' else scene.phone}"
    assert (await send(scene, to, "Shall I?")).state is SendState.DELIVERED
    clock.move(hours=5)
    await scene.says("yes, do it")
    reply = await answered(line, scene.ref, "agent", "Shall I?", "yes, do it")
    assert reply.person_id == (await line.people.show(to)).id

    clock.move(hours=25)
    before = len(scene.platform.effects("message"))
    with pytest.raises(WindowClosed) as closed:
        await send(scene, to, "Too late.")
    assert closed.value.facts["last_heard_at"]
    assert len(scene.platform.effects("message")) == before
    named = await send(scene, to, "Ready.", metadata=TEMPLATE)
    assert named.state is SendState.DELIVERED
    assert named.delivery is not None
    assert named.delivery.ref == scene.ref
    clock.move(hours=1)
    await scene.says("on my way")
    await answered(line, scene.ref, "agent", "Ready.", "on my way")
    assert (await send(scene, to, "Good.")).state is SendState.DELIVERED


@pytest.mark.acceptance("H8", "H3")
async def test_a_window_that_the_provider_knows_to_be_closed_is_a_typed_outcome(
    scene: Scene,
) -> None:
    """Our own clock may be late: what the provider refuses is no record."""
    line = scene.line
    await allowed(line, "whatsapp", scene.ref.account_id, "agent")
    before = [one.text for one in await scene.records()]
    await asyncio.to_thread(scene.platform.do, "forget", user=scene.user)
    lost = await send(scene, f"whatsapp:{scene.user}", "Are you there?")
    assert lost.state is SendState.FAILED
    assert lost.delivery is not None
    assert (lost.delivery.state, lost.delivery.failure) == (DeliveryState.FAILED, "window_closed")
    assert [one["outcome"] for one in lost.tried] == ["failed"]
    assert [one.text for one in await scene.records()] == before


@pytest.mark.acceptance("H4", "H6")
async def test_another_session_takes_no_answers_and_stop_in_spanish_ends_it(
    scene: Scene,
) -> None:
    line, to = scene.line, f"whatsapp:{scene.user}"
    await allowed(line, "whatsapp", scene.ref.account_id, "agent", "second")
    person = await line.people.show(to)
    await line.people.change(person.id, languages=["es"])
    await send(scene, to, "Shall I?")
    with pytest.raises(ReplyRouteConflict):
        await line.initiative.send("second", to, "And me?")
    await scene.says("Baja")
    await silent(line, scene.ref, "agent", to, "Baja")
    assert scene.effects() == ["Shall I?"]
