"""What was given to be said stays as long as it may be read, and no longer."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable

import pytest

from tests.files.conftest import PICTURE
from tests.files.test_sending import LOBBY, PEOPLE, given, place
from tests.files.test_sending import line as line
from tests.http.conftest import problem, running
from tests.http.guests import came_in, link
from threadline import Threadline
from threadline.core.deliveries import DeliveryState
from threadline.core.errors import SessionRetired
from threadline.core.model import (
    ConversationRef,
    Event,
    InboundMessage,
    TranscriptRecord,
    WindowMode,
)
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation


async def deleted(line: Threadline, where: str, record: TranscriptRecord) -> None:
    """Its author takes a message back."""
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


class Slow(io.BytesIO):
    """Bytes that are read twice, once to know them and once to keep them; in between, this."""

    def __init__(self, content: bytes, between: Callable[[], object]) -> None:
        super().__init__(content)
        self._between, self._times = between, 0

    def read(self, size: int | None = -1, /) -> bytes:
        """What is next."""
        self._times += self.tell() == 0
        if self._times == 2:
            self._times += 1
            self._between()
        return super().read(size)


async def test_giving_again_in_vain_takes_no_bytes_away(line: Threadline) -> None:
    """The first answer was lost, say; the file was said meanwhile, and ours is the only copy."""
    file = await given(line, key="report")
    sent = await line.outbound.publish(LOBBY, "agent", "x", attachments=[file])
    loop = asyncio.get_running_loop()

    def retire() -> None:
        asyncio.run_coroutine_threadsafe(line.sessions.retire("agent"), loop).result(30)

    with pytest.raises(SessionRetired):
        await line.uploads.give(Slow(PICTURE, retire), session="agent", key="report")

    assert await line.files.read(LOBBY, sent.sequence or 0) == PICTURE


async def test_who_uses_a_name_again_takes_no_file_of_the_one_before(line: Threadline) -> None:
    file = await given(line, key="report")
    sent = await line.outbound.publish(LOBBY, "agent", "x", attachments=[file])
    await line.sessions.retire("agent")
    await line.sessions.create("agent")

    again = await given(line, key="report")

    assert again.id != file.id
    assert await line.files.read(LOBBY, sent.sequence or 0) == PICTURE


async def test_a_file_a_guest_says_during_an_import_stays(
    line: Threadline, clock: StillClock
) -> None:
    async with running(line) as site:
        room = (await line.conversations.show(LOBBY)).id
        ann = await came_in(site, (await link(await site.controller(), room))["url_path"], "Ann")
        made = (await ann.client.post("/chat/files", content=PICTURE)).json()
        window = await line.hydration.begin(LOBBY, owner="me", mode=WindowMode.GATED)
        body = {"text": "look", "client_id": "one", "files": [made["id"]]}
        first = await ann.client.post("/chat/messages", json=body)
        again = await ann.client.post("/chat/messages", json=body)
        await line.hydration.complete(LOBBY, window.token or "")
    clock.move(days=2)
    await line.uploads.tidy()

    assert (first.json()["held"], first.json()["duplicate"]) == (True, False)
    assert (again.json()["held"], again.json()["duplicate"]) == (True, True)
    [record] = (await line.conversations.transcript(LOBBY)).records
    assert await line.files.read(LOBBY, record.sequence) == PICTURE
    await deleted(line, LOBBY, record)
    assert await line.uploads.tidy() == 1


async def test_an_address_of_a_deleted_file_leads_nowhere(
    line: Threadline, twilio: Simulation
) -> None:
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
        await deleted(line, where, record)
        problem(await stranger.get(url), 404, "not_found")
