"""Every sample export, from the file through the importer into a transcript, counted at the end."""

from __future__ import annotations

import json
import mailbox
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Store
from threadline import Threadline
from threadline.archives import identify
from threadline.core.archive import Account, Options, Tally
from threadline.core.model import Event, Hydration, TranscriptRecord
from threadline.entrypoints.files import open_source
from threadline.flows.importing import Summary

DATA = Path(__file__).parents[1] / "data"
ROWS: dict[str, dict[str, Any]] = {
    row["file"].removeprefix("exports/"): row
    for row in map(json.loads, (DATA / "counts.jsonl").read_text().splitlines())
}
REFUSED = ("mattermost", "rocketchat", "zulip")
EXPORTS = [
    path.name for path in sorted((DATA / "exports").iterdir()) if not path.name.startswith(REFUSED)
]
# Matrix's events may name no room, a mailbox's conversations are counted by their references.
COUNTED = ("discord", "irc", "slack", "telegram", "whatsapp")


def expected(name: str) -> int:
    """How many messages an export holds, each id counted once."""
    row = ROWS[name]
    count = int(row.get("unique_messages", row["messages"]))
    ids: list[str] = []
    if name.startswith("mbox"):
        box = mailbox.mbox(DATA / "exports" / name, create=False)
        ids = [str(mail["message-id"]).strip() for mail in box if mail["message-id"]]
        box.close()
    elif name.startswith("matrix") and name.endswith(".jsonl"):
        # A library's samples: two different messages share an event id.
        lines = (DATA / "exports" / name).read_text().splitlines()
        events = [json.loads(line)["body"] for line in lines]
        told = [it for it in events if isinstance(it, dict) and it.get("type") == "m.room.message"]
        ids = [event["event_id"] for event in told]
    return count - (len(ids) - len(set(ids)))


async def imported(line: Threadline, name: str) -> Summary:
    """Import one file, as the command line does."""
    account = Account(provider=name.split("-")[0], account_id="archive")
    tally = Tally()
    with open_source(DATA / "exports" / name) as source:
        reader = identify(source)
        items = reader.read(source, account, Options(conversation="sample"), tally)
        return await line.importing.run(items, tally, owner="test", account=account)


async def everything(line: Threadline) -> dict[str, list[TranscriptRecord]]:
    """Every transcript by its address, in order, with dense sequences."""
    found: dict[str, list[TranscriptRecord]] = {}
    after = ""
    while True:
        states, following = await line.conversations.page(after=after, limit=500)
        for state in states:
            assert state.hydration is Hydration.COMPLETE
            records: list[TranscriptRecord] = []
            while not records or records[-1].sequence < state.head:
                last = records[-1].sequence if records else state.lowest_sequence - 1
                page = await line.conversations.transcript(state.ref, after=last, limit=500)
                if not page.records:
                    break
                records += page.records
            numbers = [record.sequence for record in records]
            assert numbers == list(range(state.lowest_sequence, state.next_sequence))
            found[str(state.ref)] = records
        if following is None:
            return found
        after = following


@pytest.mark.acceptance("D11", "D10")
@pytest.mark.parametrize("name", EXPORTS)
async def test_an_export_imports_to_its_counts_and_again_to_nothing(
    store: Store, name: str
) -> None:
    """D11, D10: the figures were counted by a program that shares no code with this one."""
    line = Threadline(store)

    first = await imported(line, name)
    once = await everything(line)
    second = await imported(line, name)
    twice = await everything(line)

    said = [
        record
        for records in once.values()
        for record in records
        if record.event is Event.MESSAGE and record.copied_from is None
    ]
    assert len(said) == expected(name)
    assert (first.refused, first.failed, second.written) == (0, "", 0)
    assert second.known == first.written + first.known
    assert len(once) == first.conversations + first.threads
    if name.startswith(COUNTED):
        assert first.conversations == ROWS[name]["conversations"]
    assert twice == once
