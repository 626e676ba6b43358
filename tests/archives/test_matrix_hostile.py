"""Matrix files that break off or lie: refused by name or noted, never half and never a crash."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline.archives.matrix import MatrixExport
from threadline.core.archive import Account, Item, Options, Tally
from threadline.core.errors import ArchiveError
from threadline.core.model import InboundMessage

ACCOUNT = Account(provider="matrix", account_id="@agent:hs.example")
ROOM = "!room:hs.example"
FILES = ["matrix-elementexport-made-1.json", "matrix-nio-sync.json"]


@dataclass
class Held:
    """A source that is in memory."""

    files: dict[str, bytes]
    title: str = "history"

    def names(self) -> list[str]:
        return sorted(self.files)

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.files[name])


def read(data: bytes, **options: Any) -> tuple[list[Item], Tally]:
    tally = Tally()
    source = Held({"events.json": data})
    return list(MatrixExport().read(source, ACCOUNT, Options(**options), tally)), tally


def event(kind: str, content: dict[str, Any], **more: Any) -> dict[str, Any]:
    number = more.pop("number", 1)
    return {
        "type": kind,
        "event_id": f"${number}",
        "sender": "@ann:hs.example:8448",
        "room_id": ROOM,
        "origin_server_ts": 1_700_000_000_000 + number,
        "content": content,
        **more,
    }


def text(body: str, number: int = 1, **content: Any) -> dict[str, Any]:
    return event("m.room.message", {"msgtype": "m.text", "body": body, **content}, number=number)


def element(*events: Any) -> bytes:
    head = {"room_name": "Kitchen", "room_creator": "Ann", "topic": "", "export_date": "today"}
    return json.dumps({**head, "exported_by": "Ann", "messages": list(events)}, indent=1).encode()


def said(items: list[Item]) -> list[InboundMessage]:
    return [item for item in items if isinstance(item, InboundMessage)]


def test_a_malformed_entry_is_noted_and_the_next_one_is_read() -> None:
    items, tally = read(
        element(
            7,
            ["x"],
            {"type": "m.room.message"} | {"sender": 5, "content": {}},
            event("m.room.message", {"body": 5, "msgtype": "m.text"}),
            event("m.room.message", {"body": "no id"}, event_id=None),
            event("m.room.message", {"body": "bad room"}, event_id="$\x00"),
            text("good", 2) | {"origin_server_ts": "yesterday"},
        )
    )

    assert [(each.text, each.sent_at) for each in said(items)] == [("good", None)]
    assert tally.skipped["malformed"] == len(tally.problems) == 6
    assert tally.problems[0].startswith("events.json: event 1:")


def test_a_bad_line_is_noted_and_a_last_line_that_breaks_off_is_refused() -> None:
    good = json.dumps(text("good")).encode()

    items, tally = read(good + b"\n{oops}\n\n" + good + b"\n")

    assert len(said(items)) == 2
    assert tally.problems == ["events.json: line 2: this is no Matrix event."]
    with pytest.raises(ArchiveError, match=r"events\.json: line 2"):
        read(good + b"\n" + good[:50])


def test_nul_and_half_surrogates_never_come_out() -> None:
    line = json.dumps(text("a\x00b\ud800c")).encode()

    for data in (line, b"[" + line + b"]"):
        [message] = said(read(data)[0])
        assert message.text.isprintable()
        assert "\x00" not in message.text
        message.text.encode()


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_breaks_off_anywhere_is_refused_whole(exports: Path, name: str) -> None:
    data = (exports / name).read_bytes().rstrip()

    def offsets() -> Iterator[int]:
        yield from range(0, min(2000, len(data)), 97)
        yield from range(2000, len(data), len(data) // 40)
        yield from range(len(data) - 5, len(data))

    for offset in offsets():
        items = MatrixExport().read(Held({name: data[:offset]}), ACCOUNT, Options(), Tally())
        with pytest.raises(ArchiveError) as refused:
            next(items)
        assert name in str(refused.value) or offset == 0


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b'{"a": [1]}', b"From me\n", b"\xff"])
def test_what_holds_no_matrix_events_is_refused(data: bytes) -> None:
    assert not MatrixExport().recognises(Held({"a.json": data}))
    with pytest.raises(ArchiveError):
        read(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        *("body", "msgtype", "m.relates_to", "m.new_content", "url", "file", "info", "membership"),
        *("displayname", "m.mentions", "m.poll", "topic", "name", "rel_type", "event_id"),
    ]
)
CONTENT = st.dictionaries(KEYS, JSON | st.dictionaries(KEYS, JSON, max_size=3), max_size=4)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            [
                *("m.room.message", "m.room.member", "m.reaction", "m.room.redaction", "m.sticker"),
                *("m.poll.start", "m.room.encrypted", "m.room.topic", "m.room.name", "x"),
            ]
        )
        | JSON,
        "sender": st.just("@a:hs") | JSON,
        "event_id": st.just("$1") | JSON,
        "room_id": st.just(ROOM) | JSON,
        "state_key": st.just("@a:hs") | JSON,
        "redacts": JSON,
        "origin_server_ts": st.integers() | JSON,
        "unsigned": JSON | st.fixed_dictionaries({"prev_content": CONTENT | JSON}),
        "content": CONTENT | JSON,
    },
)


@settings(max_examples=200, deadline=None)
@given(st.lists(EVENTS, max_size=4), st.integers(0, 40))
def test_no_event_however_odd_ends_the_reading_with_another_error(
    events: list[Any], cut: int
) -> None:
    document = json.dumps({"messages": events}).encode()
    lines = b"\n".join(json.dumps(each).encode() for each in events)
    for data in (document, lines, document[: len(document) - cut]):
        source = Held({"a.json": data})
        MatrixExport().recognises(source)
        try:
            items = list(MatrixExport().read(source, ACCOUNT, Options(), Tally()))
        except ArchiveError:
            continue
        for item in said(items):
            item.text.encode()
            assert "\x00" not in item.text


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"", b"{", b'[{"type":', b'{"room_name":']))
def test_random_bytes_are_refused_by_name_or_read(data: bytes, before: bytes) -> None:
    source = Held({"a.json": before + data})
    MatrixExport().recognises(source)
    try:
        list(MatrixExport().read(source, ACCOUNT, Options(), Tally()))
    except ArchiveError as refused:
        where = str(refused)
    else:
        where = "a.json"
    assert "a.json" in where


def test_json_nested_without_end_is_refused_or_noted() -> None:
    deep = b"[" * 100_000
    with pytest.raises(ArchiveError):
        read(deep)
    items, tally = read(json.dumps(text("good")).encode() + b"\n" + deep + b"\n")
    assert len(said(items)) == 1
    assert len(tally.problems) == 1
