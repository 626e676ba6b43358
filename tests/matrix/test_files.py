"""Files through a real homeserver: what the bot sends a person opens, and the other way round."""

from __future__ import annotations

import pytest
from mautrix.types import ContentURI

from tests.matrix.conftest import People
from tests.matrix.homeserver import Homeserver
from tests.matrix.test_story import Line, meeting
from tests.matrix.test_story import line as line
from threadline.core.deliveries import DeliveryState
from threadline.core.errors import FileGone
from threadline.core.model import Attachment, InboundMessage

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


@pytest.mark.acceptance("I5")
async def test_a_picture_goes_to_the_room_and_a_document_comes_back(
    line: Line, people: People, synapse: Homeserver
) -> None:
    ada, room, where = await meeting(line, people, synapse)
    given = await line.tl.uploads.give(
        PICTURE, name="naïve cat.png", type="image/png", session="agent"
    )
    sent = await line.tl.outbound.publish(
        where, "agent", "**look**", attachments=[given.attachment]
    )
    assert (await line.settled(sent.id)).state == DeliveryState.DELIVERED
    event = (await line.tl.deliveries.show(sent.id)).message_ids[0]
    got = (await ada.client.get_event(room, event)).serialize()["content"]  # type: ignore[arg-type]

    assert (got["msgtype"], got["body"], got["filename"]) == (
        "m.image",
        "**look**",
        "naïve cat.png",
    )
    assert got["info"] == {"mimetype": "image/png", "size": len(PICTURE)}
    assert await ada.client.download_media(ContentURI(got["url"])) == PICTURE

    place = await ada.client.upload_media(b"hello", mime_type="text/plain", filename="a.txt")
    content = {"msgtype": "m.file", "body": "a.txt", "url": str(place), "info": {"size": 5}}
    await ada.sends(room, "m.room.message", content)
    await line.until(
        where, lambda found: any(one.actor.id == ada.user and one.attachments for one in found)
    )
    [heard] = [
        one
        for one in (await line.tl.conversations.transcript(where)).records
        if one.actor.id == ada.user and one.attachments
    ]
    assert await line.tl.files.read(where, heard.sequence) == b"hello"
    ours = (await line.tl.deliveries.show(sent.id)).sequence or 0
    assert await line.tl.files.read(where, ours) == PICTURE
    nowhere = await line.tl.inbound.append(
        InboundMessage(
            conversation=where,
            actor=heard.actor,
            attachments=(Attachment(id="mxc://localhost/nowhere"),),
        )
    )
    assert nowhere.record is not None
    with pytest.raises(FileGone):
        await line.tl.files.open(where, nowhere.record.sequence)
