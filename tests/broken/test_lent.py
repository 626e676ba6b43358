from __future__ import annotations

from typing import Any

from tests.files.conftest import PICTURE
from tests.files.conftest import twilio as twilio
from tests.files.test_sending import PEOPLE, given, place
from tests.files.test_sending import line as line
from tests.http.conftest import problem, running
from threadline import Threadline
from threadline.core.deliveries import DeliveryState
from threadline.core.model import ConversationRef, Event, InboundMessage
from threadline.testing.simulation import Simulation


async def test_an_address_of_a_deleted_file_leads_nowhere(line: Threadline, twilio: Simulation) -> None:
    async with running(line) as site:
        phone = f"whatsapp:+1555{next(PEOPLE)}"
        known = {**twilio.credentials, "public_url": site.url}
        twilio.do("say", text="hi", phone=phone.partition("+")[2].join(("+", "")))
        where = await place(line, "twilio", twilio.url, known, phone)
        sent = await line.outbound.publish(where, "agent", "look", attachments=[await given(line)])
        done = await line.outbound.settled(sent, patience=60)
        assert done.state is DeliveryState.DELIVERED
        [effect] = twilio.effects("message", place=phone, at_least=1)
        [url] = effect["files"]
        stranger = site.client()
        assert (await stranger.get(url)).content == PICTURE
        record = (await line.conversations.transcript(where)).records[-1]
        await line.inbound.append(
            InboundMessage(
                conversation=ConversationRef.parse(where),
                actor=record.actor,
                event=Event.DELETE,
                revises=record.message_id,
                message_id="gone",
                signed=True,
            )
        )
        answer = await stranger.get(url)
        assert answer.status_code in (404, 410), answer.status_code
