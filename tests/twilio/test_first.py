"""Writing first by Twilio: WhatsApp within a day of the person's last words, SMS at any time."""

from __future__ import annotations

import asyncio

import pytest

from tests.firsts import allowed, answered, silent, welcome
from tests.talk import connected
from tests.twilio.test_story import PEOPLE, SMS, Scene, given, scene, twilio
from threadline.core.errors import ReplyRouteConflict, WindowClosed
from threadline.core.model import ConversationRef, Kind
from threadline.core.sends import SendState
from threadline.flows.send_status import SendStatus
from threadline.testing.clock import StillClock

__all__ = ["scene", "twilio"]

TEMPLATE = {"template": {"content_sid": "HX1"}}


async def send(scene: Scene, to: str, text: str, **more: object) -> SendStatus:
    """What became of what `agent` writes first."""
    sent = await scene.line.initiative.send("agent", to, text, **more)  # type: ignore[arg-type]
    return await scene.line.initiative.settled(sent)


@pytest.mark.acceptance("H8", "H1", "H4", "H6")
async def test_inside_the_window_words_leave_and_outside_of_it_only_a_template(
    scene: Scene, clock: StillClock
) -> None:
    """The answer to the template opens the window again; the word "parar" closes it for good."""
    line, to = scene.line, f"twilio:whatsapp:{scene.phone}"
    await allowed(line, "twilio", scene.account, "agent", "second")
    assert (await send(scene, to, "Shall I?")).state is SendState.DELIVERED
    with pytest.raises(ReplyRouteConflict):
        await line.initiative.send("second", to, "And me?")
    clock.move(hours=5)
    await scene.says("yes, do it")
    await answered(line, scene.ref, "agent", "Shall I?", "yes, do it")

    clock.move(hours=25)
    with pytest.raises(WindowClosed):
        await send(scene, to, "Too late.")
    assert scene.effects() == ["Shall I?"]
    assert (await send(scene, to, "Ready.", metadata=TEMPLATE)).state is SendState.DELIVERED
    clock.move(hours=1)
    await scene.says("on my way")
    await answered(line, scene.ref, "agent", "Ready.", "on my way")

    person = await line.people.show(to)
    await line.people.change(person.id, languages=["pt-BR"])
    await scene.says("PARAR")
    await silent(line, scene.ref, "agent", to, "PARAR")
    assert len(scene.effects()) == 2


@pytest.mark.acceptance("H8", "H3")
async def test_a_window_that_twilio_knows_to_be_closed_takes_the_record_with_it(
    scene: Scene,
) -> None:
    """It took the message and says so in a callback: the send failed, for that reason."""
    await allowed(scene.line, "twilio", scene.account, "agent")
    await asyncio.to_thread(scene.platform.do, "forget", who=f"whatsapp:{scene.phone}")
    lost = await send(scene, f"twilio:whatsapp:{scene.phone}", "Are you there?")
    await scene.arrives()
    lost = await scene.line.initiative.show(lost.id)
    assert lost.delivery is not None
    assert (lost.state, lost.delivery.failure) == (SendState.FAILED, "window_closed")
    assert scene.effects() == []


@pytest.mark.acceptance("H1", "H2")
async def test_a_short_message_reaches_somebody_who_never_wrote(
    scene: Scene, clock: StillClock
) -> None:
    """SMS has no window; the number is the conversation."""
    line = scene.line
    made = await connected(scene.site, "twilio", given(scene.platform, scene.site, address=SMS))
    account = made["state"]["account_id"]
    await allowed(line, "twilio", account, "texter")
    phone = f"+155501{next(PEOPLE)}"
    cy = await welcome(line, "Cy", f"twilio:{phone}")
    sent = await line.initiative.send("texter", f"person:{cy.id}", "Your parcel is here.")
    assert (await line.initiative.settled(sent)).state is SendState.DELIVERED
    clock.move(hours=30)
    await asyncio.to_thread(scene.platform.do, "say", text="keep it", phone=phone, to=SMS)
    await scene.arrives()
    place = ConversationRef("twilio", account, phone, kind=Kind.DM)
    reply = await answered(line, place, "texter", "Your parcel is here.", "keep it")
    assert reply.person_id == cy.id
