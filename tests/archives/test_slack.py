"""Slack exports: every entry keeps its stamp, finds its channel or thread, and reads as written."""

from __future__ import annotations

import io
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.archives.conftest import Held, ReadAll, Rows, read_held, said
from threadline.archives.slack import SlackExport
from threadline.core.archive import Ended, Item, Place, Tally
from threadline.core.errors import ArchiveError
from threadline.core.model import Direction, Event, InboundMessage, Kind
from threadline.core.slack import plain

FILES = ["slack-export-hfaran-1.zip", "slack-export-made-2.zip"]
CHANNELS = [{"id": "C1", "name": "ops", "topic": {"value": "A &amp; B"}}]
PEOPLE = [
    {"id": "U1", "name": "ann", "real_name": "Ann Lee", "profile": {"display_name": "annie"}},
    {"id": "U2", "name": "bob", "real_name": "Bob Ray", "profile": {"display_name": ""}},
    {"id": "U3", "name": "deploy", "real_name": "Deploy", "is_bot": True},
]
DAY = "ops/2024-03-01.json"


def entry(ts: str, text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"type": "message", "user": "U1", "ts": ts, "text": text, **more}


def export(days: dict[str, Any], **lists: Any) -> Held:
    files = {"channels.json": CHANNELS, "users.json": PEOPLE, **days}
    files.update({f"{name}.json": value for name, value in lists.items()})
    return Held({name: json.dumps(value).encode() for name, value in files.items()})


def read(source: Held, **options: Any) -> tuple[list[Item], Tally]:
    return read_held(SlackExport(), source, **options)


def tell(*entries: Any, **options: Any) -> list[InboundMessage]:
    return said(read(export({DAY: list(entries)}), **options)[0])


@pytest.mark.acceptance("D11")
@pytest.mark.parametrize("name", FILES)
def test_an_export_reads_as_it_was_counted(
    exports: Path, rows: Rows, read_all: ReadAll, name: str
) -> None:
    row = rows[f"exports/{name}"]

    items, tally = read_all(exports / name)

    places = [item for item in items if isinstance(item, Place)]
    assert sum(place.parent is None for place in places) == row["conversations"]
    assert sum(place.parent is not None for place in places) == row.get("threads", 0)
    assert len(tally.authors) == row["authors"]
    assert f"{tally.first:%Y-%m-%dT%H:%M:%SZ}" == row["first"]
    assert f"{tally.last:%Y-%m-%dT%H:%M:%SZ}" == row["last"]
    for kind in ("messages", "system", "threads", "replies", "edited", "reactions", "deleted"):
        assert tally.counts[kind] == row.get(kind, 0), kind
    assert tally.counts["attachments"] == row.get("files", 0)
    assert tally.counts["unique_messages"] == row.get("unique_messages", row["messages"])
    assert not tally.problems


@pytest.mark.acceptance("D11")
def test_one_record_comes_for_each_entry_and_the_ids_are_the_stamps(
    exports: Path, read_all: ReadAll
) -> None:
    items, _ = read_all(exports / FILES[1])

    written = set()
    with zipfile.ZipFile(exports / FILES[1]) as archive:
        for name in archive.namelist():
            if name.count("/") == 1:
                written |= {
                    (name.split("/")[0], each["ts"]) for each in json.load(archive.open(name))
                }
    stamps = sorted(ts for _, ts in written)
    assert sorted({(m.message_id or "").removeprefix("delete:") for m in said(items)}) == stamps


def test_a_place_comes_before_its_messages_and_an_end_after_them(
    exports: Path, read_all: ReadAll
) -> None:
    items, _ = read_all(exports / FILES[1])

    opened, ended = set(), set()
    for item in items:
        match item:
            case Place(ref):
                assert ref not in opened
                opened.add(ref)
            case Ended(ref):
                ended.add(ref)
            case InboundMessage(conversation=ref):
                assert ref in opened - ended
    assert opened == ended


def test_a_day_is_sorted_by_its_stamps_whose_digits_are_kept() -> None:
    stamps = ["1700000001.0003889", "1700000001.000389", "1700000000.001700", "999.000001"]

    told = tell(*[entry(ts) for ts in stamps])

    assert [message.message_id for message in told] == [
        "999.000001",
        "1700000000.001700",
        "1700000001.0003889",
        "1700000001.000389",
    ]
    assert told[1].sent_at == datetime(2023, 11, 14, 22, 13, 20, 1700, UTC)


def test_a_thread_is_a_conversation_and_its_root_stays_in_the_channel() -> None:
    root = entry("10.000001", thread_ts="10.000001", reply_count=2)
    reply = entry("11.000001", "yes", user="U2", thread_ts="10.000001")
    shown = entry("12.000001", "all", subtype="thread_broadcast", thread_ts="10.000001")

    items, tally = read(export({DAY: [root, reply, shown]}))

    channel, thread = (item for item in items if isinstance(item, Place))
    assert (channel.ref.text, channel.ref.kind) == ("sample/A1/C1", Kind.ROOM)
    assert (thread.ref.text, thread.ref.kind) == ("sample/A1/C1/10.000001", Kind.THREAD)
    assert (thread.parent, thread.thread_root) == (channel.ref, "10.000001")
    assert [m.conversation for m in said(items)] == [channel.ref, thread.ref, thread.ref]
    assert said(items)[2].metadata["broadcast"] is True
    assert (tally.counts["messages"], tally.counts["replies"]) == (3, 2)


def test_a_root_without_replies_in_the_export_opens_no_thread() -> None:
    items, tally = read(export({DAY: [entry("1.000001", thread_ts="1.000001", reply_count=4)]}))

    assert [item.ref.text for item in items if isinstance(item, Place)] == ["sample/A1/C1"]
    assert tally.counts["threads"] == 0


@pytest.mark.parametrize(
    ("listed", "folder", "text", "kind", "title"),
    [
        ({"dms": [{"id": "D1", "members": ["U1", "U2"]}]}, "D1", "D1", Kind.DM, "annie, Bob Ray"),
        ({"mpims": [{"id": "C7", "name": "mpdm-x"}]}, "mpdm-x", "C7", Kind.ROOM, "mpdm-x"),
        ({"groups": [{"id": "G1", "name": "secret"}]}, "secret", "G1", Kind.ROOM, "secret"),
        ({"groups": [{"id": "G1", "name": "secret"}]}, "G1", "G1", Kind.ROOM, "secret"),
    ],
)
def test_folders_are_found_in_the_lists(
    listed: dict[str, Any], folder: str, text: str, kind: Kind, title: str
) -> None:
    items, tally = read(export({f"{folder}/2024-03-01.json": [entry("1.000001")]}, **listed))

    (place,) = [item for item in items if isinstance(item, Place)]
    assert (place.ref.conversation_id, place.ref.kind, place.title) == (text, kind, title)
    assert not tally.problems


def test_a_folder_that_no_list_names_is_read_under_its_own_name_and_noted() -> None:
    items, tally = read(export({"lost/2024-03-01.json": [entry("1.000001")]}))

    assert said(items)[0].conversation.text == "sample/A1/lost"
    assert "lost" in tally.problems[0]


def test_a_channel_without_a_day_is_no_conversation_but_an_empty_day_is() -> None:
    items, tally = read(export({DAY: []}, groups=[{"id": "G1", "name": "never"}]))

    (place,) = [item for item in items if isinstance(item, Place)]
    assert place.ref.conversation_id == "C1"
    assert place.metadata["topic"] == "A & B"
    assert tally.counts["messages"] == 0


@pytest.mark.parametrize(
    ("fields", "author", "name", "is_bot"),
    [
        ({"user": "U1"}, "U1", "annie", False),
        ({"user": "U2"}, "U2", "Bob Ray", False),
        ({"user": "U3", "bot_id": "B3"}, "U3", "Deploy", True),
        ({"user": "U9"}, "U9", "U9", False),
        ({"user": "U9", "user_profile": {"display_name": "Zoe"}}, "U9", "Zoe", False),
        ({"user": "USLACKBOT"}, "USLACKBOT", "Slackbot", True),
        ({"user": None, "bot_id": "B1", "username": "CI"}, "B1", "CI", True),
        ({"user": None, "username": "hook"}, "hook", "hook", True),
        ({"user": None, "comment": {"user": "U2"}}, "U2", "Bob Ray", False),
    ],
)
def test_the_author_is_whoever_slack_names(
    fields: dict[str, Any], author: str, name: str, is_bot: bool
) -> None:
    (message,) = tell(entry("1.000001", **fields))

    assert (message.actor.id, message.actor.name, message.actor.is_bot) == (author, name, is_bot)


def test_what_we_said_goes_out() -> None:
    (message,) = tell(entry("1.000001", user="U3"), self_id="U3")

    assert message.actor.is_self
    assert message.direction is Direction.OUTBOUND


@pytest.mark.parametrize(
    ("subtype", "event"),
    [
        ("channel_join", Event.MEMBER),
        ("group_leave", Event.MEMBER),
        ("channel_topic", Event.NOTICE),
        ("pinned_item", Event.NOTICE),
        ("huddle_thread", Event.NOTICE),
        ("me_message", Event.MESSAGE),
        ("never_heard_of", Event.NOTICE),
    ],
)
def test_what_is_no_message_is_no_message(subtype: str, event: Event) -> None:
    (told,) = tell(entry("1.000001", subtype=subtype))

    assert told.event is event
    assert told.metadata["subtype"] == subtype


def test_a_tombstone_deletes_what_stood_there() -> None:
    (told,) = tell(entry("1.000001", "This message was deleted.", subtype="tombstone"))

    assert (told.event, told.message_id, told.revises) == (
        Event.DELETE,
        "delete:1.000001",
        "1.000001",
    )
    assert told.text == ""


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("a &lt;b&gt; &amp; c", "a <b> & c"),
        ("&amp;lt;", "&lt;"),
        ("<@U1>: hi", "@annie: hi"),
        ("<@U9|zoe>", "@zoe"),
        ("<@U9>", "@U9"),
        ("<#C1>", "#ops"),
        ("<#C2|general>", "#general"),
        ("<!here> <!subteam^S1|@team> <!date^1^{date}|1 Jan>", "@here @team 1 Jan"),
        ("<https://a.example/?b=1&amp;c=2|link>", "link (https://a.example/?b=1&c=2)"),
        ("<https://a.example>", "https://a.example"),
        ("<mailto:a@b.example|a@b.example>", "a@b.example"),
        ("&lt;@U1&gt; is not a mention", "<@U1> is not a mention"),
        ("1 < 2 > 0", "1 < 2 > 0"),
    ],
)
def test_slacks_writing_is_read_back(written: str, read_as: str) -> None:
    (message,) = tell(entry("1.000001", written))

    assert message.text == read_as


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    if not set("<&") & set(text):
        assert plain(text) == text
    plain(text)


def test_cards_speak_for_a_message_without_words() -> None:
    card = {"fallback": "no", "pretext": "1 commit", "text": "<https://x.example|ab>: fix"}

    (message,) = tell(entry("1.000001", "", subtype="bot_message", attachments=[card]))

    assert message.text == "1 commit\nab (https://x.example): fix"


def test_files_come_along_without_the_exports_key() -> None:
    file = {
        "id": "F1",
        "name": "../../etc/a.png",
        "mimetype": "image/png",
        "size": 7,
        "url_private": "https://files.slack.com/F1/a.png?t=xoxe-1",
    }
    (message,) = tell(entry("1.000001", files=[file, {"id": "F2", "mode": "tombstone"}]))

    one, gone = message.attachments
    assert (one.name, one.size, one.url) == ("a.png", 7, "https://files.slack.com/F1/a.png")
    assert (gone.id, gone.type) == ("F2", "tombstone")


def test_edits_and_reactions_are_kept_beside_the_text() -> None:
    (message,) = tell(
        entry(
            "1.000001",
            edited={"user": "U1", "ts": "2.000000"},
            reactions=[{"name": "+1", "users": ["U1"], "count": 3}],
        )
    )

    assert message.metadata["edited_at"] == "1970-01-01T00:00:02+00:00"
    assert message.metadata["reactions"] == [{"name": "+1", "users": ["U1"], "count": 3}]


@pytest.mark.parametrize(
    "bad",
    [
        7,
        None,
        [],
        {"text": "no stamp"},
        {"ts": 1700000000.0017, "user": "U1"},
        {"ts": "soon", "user": "U1"},
        {"ts": "1.000002"},
        {"ts": "1.000002", "user": " "},
    ],
)
def test_a_malformed_entry_is_noted_and_the_others_are_read(bad: Any) -> None:
    items, tally = read(export({DAY: [bad, entry("1.000001")]}))

    assert [message.message_id for message in said(items)] == ["1.000001"]
    assert tally.skipped["malformed"] == 1
    assert DAY in tally.problems[0]


@pytest.mark.case("B158")
def test_no_text_holds_what_no_store_holds() -> None:
    (message,) = tell(entry("1.000001", "a\x00b\ud83d", user="U9", user_profile={"name": "x\x00"}))

    assert message.text == "a\ufffdb\ufffd"
    assert message.actor.name == "x\ufffd"


@pytest.mark.parametrize("name", ["users.json", "channels.json", DAY])
@pytest.mark.parametrize("keep", [0, 1, 0.3, 0.6, 0.9, -1])
def test_a_file_that_breaks_off_is_named(name: str, keep: float) -> None:
    source = export({DAY: [entry("1.000001"), entry("2.000001")]})
    whole = source.files[name]
    source.files[name] = whole[: int(keep * len(whole)) if isinstance(keep, float) else keep]

    with pytest.raises(ArchiveError, match=f"{name}: offset"):
        read(source)


def test_a_zip_cut_anywhere_is_never_read_as_whole(
    exports: Path, read_all: ReadAll, tmp_path: Path
) -> None:
    whole = (exports / FILES[0]).read_bytes()
    cut = tmp_path / "cut.zip"

    for size in range(0, len(whole), 499):
        cut.write_bytes(whole[:size])
        with pytest.raises(ArchiveError):
            read_all(cut)


def test_an_export_one_folder_down_is_found() -> None:
    inner = export({DAY: [entry("1.000001")]})
    source = Held({f"Acme export/{name}": data for name, data in inner.files.items()})

    assert SlackExport().recognises(source)
    assert len(said(read(source)[0])) == 1


def test_a_folder_of_other_files_is_no_slack_export() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("users.json", "[]")

    assert not SlackExport().recognises(Held({"users.json": b"[]"}))
    assert not SlackExport().recognises(Held({"a.zip": buffer.getvalue()}))
