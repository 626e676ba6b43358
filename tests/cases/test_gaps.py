"""Reported failures: what is read after a connection was away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import Store
from tests.discord import conftest as discords
from tests.flows.test_gaps import ACCOUNT, AT, CALLER, ROOM, Listed
from tests.flows.test_gaps import said as minute
from tests.slack import conftest as slacks
from tests.talk import at_work, furnished, seen
from threadline import Threadline
from threadline.core.adapters import Past
from threadline.core.model import ConversationRef, Event, InboundMessage, TranscriptRecord
from threadline.core.wire import ApiCall, ApiResponse
from threadline.testing.simulation import Simulation


def said(number: int, millis: int, **more: Any) -> InboundMessage:
    """A message of this number, so many milliseconds after the beginning."""
    made: InboundMessage = minute(number, **more)
    return replace(made, sent_at=AT + timedelta(milliseconds=millis))


class Edited(Listed):
    """A platform whose messages stand there as they read now, and tell when they were changed."""

    def __init__(self, *messages: InboundMessage, edits: tuple[InboundMessage, ...]) -> None:
        super().__init__(*messages)
        self.edits = edits

    def read_history(self, ref: ConversationRef, call: ApiCall, answer: ApiResponse) -> Past:
        """The page with its edits."""
        return replace(super().read_history(ref, call, answer), edits=self.edits)


@pytest.mark.case("B121")
async def test_a_gap_is_read_behind_an_id_and_edits_in_it_are_edits(store: Store) -> None:
    """B121: what shares its instant with the last one heard is heard, once; what was changed long
    before it is no message again; and who reads the gap twice hears nothing twice."""
    known = [said(3, 300), said(10, 1000)]
    edit = replace(
        said(3, 1001), text="number 3!", event=Event.EDIT, revises="m3", message_id="m3:edit:1"
    )
    of_new = replace(edit, revises="m12", message_id="m12:edit:1", text="number 12")
    old = replace(edit, message_id="m3:edit:0", sent_at=AT + timedelta(milliseconds=400))
    platform = Edited(
        replace(known[0], text="number 3!"),
        known[1],
        said(11, 1000),
        said(12, 1001),
        edits=(old, edit, of_new),
    )
    line = Threadline(store, channels=platform)
    await line.inbound.receive_all(known, caller=CALLER)

    for _ in range(2):
        await line.histories.repair(ACCOUNT, platform)

    page = await line.conversations.transcript(ROOM, view="messages")
    assert [(one.message_id, one.event.value) for one in page.records] == [
        ("m3", "message"),
        ("m10", "message"),
        ("m11", "message"),
        ("m12", "message"),
        ("m3:edit:1", "edit"),
        ("m12:edit:1", "edit"),
    ]
    assert page.records[4].wakes == ()
    folded = [(one.record.text, one.revision) for one in page.messages]
    assert folded == [("number 3!", 1), ("number 10", 0), ("number 11", 0), ("number 12", 1)]


@pytest.fixture(scope="module", params=["slack", "discord"])
def platform(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A platform whose history shows its messages as they read now."""
    name = request.param
    with Simulation(name, tmp_path_factory.mktemp(name), speed=1000.0) as made:
        yield made


def edits_of(found: list[TranscriptRecord]) -> list[tuple[str, str | None]]:
    """What was changed, and which message that was."""
    return [(one.text, one.revises) for one in found if one.event is Event.EDIT]


@pytest.mark.case("B121")
async def test_what_was_edited_while_we_were_away_is_an_edit_and_only_once(
    sqlite_url: str, key: bytes, platform: Simulation
) -> None:
    """B121: heard live or found in the history, an edit is the same one."""
    there: Any = slacks if platform.name == "slack" else discords
    room = platform.do("channel")["id"]
    place = there.ref(room)

    def say(text: str) -> str:
        made: Mapping[str, str] = platform.do("say", text=text, channel=room)
        return made["ts" if platform.name == "slack" else "id"]

    def edit(message: str, text: str) -> None:
        name = "ts" if platform.name == "slack" else "message"
        platform.do("edit", channel=room, text=text, **{name: message})

    async with there.connected(sqlite_url, key, platform) as line:
        await furnished(line, place)
        async with at_work(line):
            await asyncio.to_thread(platform.do, "attended")
            first, second = say("one"), say("two")
            edit(second, "two, changed")
            await seen(line, place, lambda found: len(found) >= 3)
            say("three")
            await seen(line, place, lambda found: len(found) >= 4)
        if platform.name == "discord":
            platform.do("invalidate")
        edit(first, "one, changed")
        say("four")
        async with at_work(line):
            found = await seen(line, place, lambda found: len(found) >= 6)

    assert sorted(edits_of(found)) == [("one, changed", first), ("two, changed", second)]
    texts = [one.text for one in found if one.event is Event.MESSAGE]
    assert texts == ["one", "two", "three", "four"]
