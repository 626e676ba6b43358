"""Reported failures: characters and clocks."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.speech import ROOM, followed, handed, said, transcript
from threadline import Threadline
from threadline.core.errors import InvalidInput
from threadline.core.model import Actor, ConversationRef
from threadline.core.recording import Taken

ROOT = Path(__file__).parents[2]
NUL: dict[str, dict[str, Any]] = {
    "text": {"text": "a\x00b"},
    "actor.name": {"actor": Actor("U1", "A\x00da")},
    "actor.id": {"actor": Actor("U\x001")},
    "metadata.note": {"metadata": {"note": "\x00"}},
    "metadata key": {"metadata": {"\x00": 1}},
    "message_id": {"message_id": "m\x00"},
    "reply_to": {"reply_to": "m\x00"},
}
ODD = {
    "no character": "word \ufffe end",
    "directions": "word \u202e\u2066end\u2069",
    "a megabyte of marks": "word " + "\u0301" * 500_000 + " end",
    "everything": "word " + "".join(map(chr, range(1, 0xD800, 37))) + " end",
}


@pytest.mark.case("B158")
@pytest.mark.parametrize("field", NUL)
async def test_a_nul_is_refused_wherever_it_stands_and_nothing_breaks_later(
    tl: Threadline, field: str
) -> None:
    """B158: beside it the store reads, searches and follows as before."""
    await tl.inbound.receive(said("word", "m0"))
    await tl.members.join(ROOM, "agent")
    given = {"text": "word"} | NUL[field]

    with pytest.raises(InvalidInput, match="NUL"):
        await tl.inbound.receive(said(given.pop("text"), given.pop("message_id", None), **given))
    await tl.search.catch_up()

    assert len((await tl.search.find("word")).hits) == 1
    assert handed(await followed(tl, "agent")) == [1]


@pytest.mark.case("B158")
@pytest.mark.parametrize("title", ODD)
async def test_odd_characters_are_stored_listed_found_and_followed(
    tl: Threadline, title: str
) -> None:
    """B158: nothing raises later, and the index stays whole."""
    text = ODD[title]
    await tl.inbound.receive(
        said(text, "m1", actor=Actor("U1", text[:40]), metadata={"note": text[:200]})
    )
    await tl.members.join(ROOM, "agent")

    await tl.search.catch_up()

    assert await transcript(tl) == [(1, text)]
    assert len((await tl.search.find("word")).hits) == 1
    assert handed(await followed(tl, "agent")) == [1]
    async with tl.store.check() as findings:
        assert [finding async for finding in findings] == []


HANDLES = {
    "@Jose\u0301": "José",
    "@JOSÉ": "José",
    "＠josé": "José",
    "@jose\u0301\u200b": "José",
    "jose\u0301: hi": "José",
    "@jose": None,
}


@pytest.mark.case("B160")
@pytest.mark.parametrize("address", HANDLES)
async def test_a_handle_is_found_in_every_composed_form(tl: Threadline, address: str) -> None:
    """B160: in the text, in the field and in the list of mentions alike; an accent is a letter."""
    await tl.conversations.ensure(ROOM)
    await tl.speakers.participant(ROOM, "José", "José")
    bare = address.removesuffix(": hi")

    answers = [
        await tl.inbound.receive(said(address)),
        await tl.inbound.receive(said("hi", explicit_target=bare)),
        await tl.inbound.receive(said("hi", mentions=(bare,))),
    ]

    assert [one.target_session_id for one in answers] == [HANDLES[address]] * 3


@pytest.mark.case("B160")
async def test_ids_that_differ_only_in_their_form_are_different_ids(tl: Threadline) -> None:
    """B160: byte for byte, never normalised."""
    composed, decomposed = "Jos\u00e9", "Jose\u0301"
    rooms = [ConversationRef("slack", "T1", one) for one in (composed, decomposed, "JOS\u00c9")]

    taken = [
        await tl.inbound.receive(said("x", message, conversation=room))
        for room in rooms
        for message in (composed, decomposed)
    ]

    assert [one.sequence for one in taken] == [1, 2] * 3
    assert len({one.conversation for one in taken}) == 3


INSTANT = datetime(2026, 3, 2, 12, tzinfo=UTC)
CLOCKS = """
import asyncio, json, sys
from datetime import datetime
from tests.conftest import KEY, open_at
from tests.speech import ROOM, said
from threadline import Threadline

async def main():
    line = Threadline(await open_at(sys.argv[1], KEY))
    for text in ("2026-03-02T12:00:00+00:00", "2026-03-02T20:00:00+08:00"):
        await line.inbound.receive(said(text, sent_at=datetime.fromisoformat(text)))
    refused = ""
    try:
        await line.inbound.receive(said("naive", sent_at=datetime(2026, 3, 2, 12)))
    except Exception as error:
        refused = str(error)
    records = (await line.conversations.transcript(ROOM)).records
    times = [(one.sent_at.isoformat(), one.recorded_at.isoformat()) for one in records]
    print(json.dumps({"refused": refused, "times": times}))
    await line.store.close()

asyncio.run(main())
"""


@pytest.mark.case("B161")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/New_York"])
async def test_an_instant_is_the_same_in_every_zone_the_process_may_run_in(
    store_url: str, zone: str
) -> None:
    """B161: aware times are stored as UTC, naive ones refused, and output carries an offset."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CLOCKS,
        store_url,
        cwd=ROOT,
        env=os.environ | {"TZ": zone, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
    )

    out, _ = await child.communicate()

    told = json.loads(out)
    assert "sent_at has no zone" in told["refused"]
    assert [sent for sent, _ in told["times"]] == [INSTANT.isoformat()] * 2
    assert all(recorded.endswith("+00:00") for _, recorded in told["times"])


@pytest.mark.case("B161")
async def test_a_time_outside_the_calendar_fails_alone(tl: Threadline) -> None:
    """B161: the first and last hours of the calendar have no instant in UTC."""
    east, west = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
    edges = [datetime.min.replace(tzinfo=east), datetime.max.replace(tzinfo=west)]

    answers = await tl.inbound.receive_all(
        [*(said("edge", sent_at=at) for at in edges), said("now", sent_at=INSTANT)]
    )

    assert [isinstance(one, Taken) for one in answers] == [False, False, True]
    assert await transcript(tl) == [(1, "now")]
    [record] = (await tl.conversations.transcript(ROOM)).records
    assert record.sent_at == INSTANT


@pytest.mark.case("B161")
@pytest.mark.parametrize("at", [datetime.min, datetime.max, datetime(1969, 12, 31, 23, 59)])
async def test_a_far_time_is_kept_to_the_microsecond(tl: Threadline, at: datetime) -> None:
    """B161: before the epoch and at the ends of the calendar."""
    sent_at = at.replace(tzinfo=UTC)

    await tl.inbound.receive(said("x", sent_at=sent_at))

    [record] = (await tl.conversations.transcript(ROOM)).records
    assert record.sent_at == sent_at
