"""Reported failures: several files in one message, and what is wrong with one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Store
from tests.files.conftest import KIB, PICTURE, discord
from tests.files.test_sending import given, line, place, said
from threadline import Threadline
from threadline.core.deliveries import DeliveryState, Failure
from threadline.core.errors import FileNotCarried
from threadline.core.files import Bounds
from threadline.core.model import Attachment
from threadline.core.uploads import link_of, upload_of
from threadline.testing.simulation import Simulation

__all__ = ["discord", "line"]

WORDS = "four *pictures*"
NO_HISTORY = {"code": 160002, "message": "Cannot reply without permission to read history"}


async def album(line: Threadline, sizes: tuple[int, ...]) -> list[Attachment]:
    """So many files, each of its own bytes."""
    return [
        await given(line, PICTURE + bytes([n]) * size, name=f"{n}.png")
        for n, size in enumerate(sizes, 1)
    ]


@pytest.mark.case("B105")
async def test_a_second_try_of_an_album_carries_the_same_bytes_and_words(
    line: Threadline, discord: Simulation
) -> None:
    """B105: the first call is refused after it read the files; none is empty, none is missing."""
    room = discord.do("channel")["id"]
    known = {"token": discord.credentials["token"]}
    where = await place(line, "discord", f"{discord.url}/api/v10", known, room)
    await said(line, where, "before")
    files = await album(line, (1_000, 2_000, 3_000, 4_000))
    discord.fault("answer", status=403, body=NO_HISTORY, place=room)

    done = await said(line, where, WORDS, attachments=files, reply_to=1)

    assert (done.state, done.attempts, len(done.message_ids)) == (DeliveryState.DELIVERED, 1, 1)
    statuses = [one["status"] for one in discord.calls("POST message") if one["place"] == room]
    assert statuses == [200, 403, 200]
    [_, effect] = discord.effects("message", place=room)
    assert effect["text"] == WORDS
    assert effect["files"] == [
        [f"{n}.png", "image/png", (PICTURE + bytes([n]) * size).decode("latin-1")]
        for n, size in enumerate((1_000, 2_000, 3_000, 4_000), 1)
    ]
    record = (await line.conversations.transcript(where)).records[-1]
    assert [one.name for one in record.attachments] == [f"{n}.png" for n in range(1, 5)]


@pytest.mark.case("B105")
async def test_an_album_with_a_file_that_cannot_be_read_is_not_said_without_it(
    line: Threadline, discord: Simulation
) -> None:
    """B105: it says which one is missing, and nothing of it is shown or recorded."""
    room = discord.do("channel")["id"]
    known = {"token": discord.credentials["token"]}
    where = await place(line, "discord", f"{discord.url}/api/v10", known, room)
    files = await album(line, (1, 2, 3, 4))
    third = upload_of(files[2])
    assert third is not None
    line.uploads.cabinet.drop([link_of(third).key])

    waiting = await said(line, where, WORDS, attachments=files)

    assert (waiting.state, waiting.failure) == (DeliveryState.PENDING, Failure.TRANSIENT)
    assert "3.png: its file is not on this disk" in waiting.reason
    assert discord.effects("message", place=room) == []
    assert (await line.conversations.transcript(where)).records == []


@pytest.mark.case("B105")
async def test_what_is_too_large_alone_or_together_is_refused_by_name(
    store: Store, discord: Simulation, tmp_path: Path
) -> None:
    """B105: before anything is written, so that nothing of an album is left out in silence."""
    line = Threadline(store, allow_private=True, files=Bounds(folder=str(tmp_path / "files")))
    await line.sessions.create("agent")
    room = discord.do("channel")["id"]
    known = {"token": discord.credentials["token"]}
    where = await place(line, "discord", f"{discord.url}/api/v10", known, room)
    mib = 1024 * KIB
    alone = await album(line, (1, 1, 10 * mib, 1))
    together = await album(line, (9 * mib, 9 * mib, 8 * mib))

    with pytest.raises(FileNotCarried, match=r"3\.png: discord takes 10485760 bytes") as first:
        await line.outbound.publish(where, "agent", WORDS, attachments=alone)
    with pytest.raises(FileNotCarried, match="in one message") as second:
        await line.outbound.publish(where, "agent", WORDS, attachments=together)

    assert (first.value.facts["number"], first.value.facts["name"]) == (2, "3.png")
    assert second.value.facts["limit"] < 26 * mib
    assert (await line.deliveries.page()).deliveries == []
    await line.outbox.close()
