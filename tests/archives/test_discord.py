"""Discord exports: a file is a channel, its ids stay strings, its replies and files are kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.archives.conftest import Held, ReadAll, Rows, read_held, said
from threadline.archives.discord import DiscordChatExporter
from threadline.core.archive import Ended, Item, Place, Tally
from threadline.core.errors import ArchiveError
from threadline.core.model import Direction, Event, InboundMessage, Kind

FILES = ["discord-dce-made-1.json", "discord-dce-made-2.json", "discord-dce-made-3.json"]
SNOWFLAKE = "1167948408422400077"
AUTHOR = {"id": "42", "name": "ann", "nickname": "Annie", "isBot": False}


def entry(ident: str = SNOWFLAKE, **more: Any) -> dict[str, Any]:
    return {
        "id": ident,
        "type": "Default",
        "timestamp": "2023-10-28T22:52:02.22+02:00",
        "timestampEdited": None,
        "content": "hi",
        "author": AUTHOR,
        **more,
    }


def channel(*entries: Any, **of: Any) -> bytes:
    return json.dumps(
        {
            "guild": {"id": "7", "name": "Guild"},
            "channel": {
                "id": "9",
                "type": "GuildTextChat",
                "categoryId": "8",
                "category": "Text",
                "name": "ops",
                **of,
            },
            "dateRange": {"after": None, "before": None},
            "messages": list(entries),
            "messageCount": len(entries),
        }
    ).encode()


def read(data: bytes | dict[str, bytes], **options: Any) -> tuple[list[Item], Tally]:
    files = data if isinstance(data, dict) else {"ops.json": data}
    return read_held(DiscordChatExporter(), Held(files), **options)


def tell(*entries: Any, **options: Any) -> list[InboundMessage]:
    return said(read(channel(*entries), **options)[0])


@pytest.mark.acceptance("D11")
@pytest.mark.parametrize("name", FILES)
def test_a_channel_reads_as_it_was_counted(
    exports: Path, rows: Rows, read_all: ReadAll, name: str
) -> None:
    row = rows[f"exports/{name}"]

    items, tally = read_all(exports / name)

    places = [item for item in items if isinstance(item, Place)]
    assert len(places) == row["conversations"]
    assert [place.parent for place in places] == [None]
    assert len(tally.authors) == row["authors"]
    assert f"{tally.first:%Y-%m-%dT%H:%M:%SZ}" == row["first"]
    assert f"{tally.last:%Y-%m-%dT%H:%M:%SZ}" == row["last"]
    kinds = ("edited", "reactions", "attachments", "embeds", "stickers", "pinned", "empty_content")
    for kind in ("messages", "system", *kinds):
        assert tally.counts[kind] == row.get(kind, 0), kind
    assert tally.counts["replies"] == row.get("references", 0)
    assert tally.counts["unique_messages"] == row.get("unique_messages", row["messages"])
    assert len(said(items)) == row["messageCount_field"]
    assert not tally.problems
    bots = {message.actor.id for message in said(items) if message.actor.is_bot}
    assert len(bots) == row.get("bots", 0)


@pytest.mark.acceptance("D11")
@pytest.mark.parametrize("name", FILES)
def test_every_entry_comes_as_it_stands_with_its_id(
    exports: Path, read_all: ReadAll, name: str
) -> None:
    items, _ = read_all(exports / name)

    written = json.loads((exports / name).read_bytes())["messages"]
    assert [m.message_id for m in said(items)] == [each["id"] for each in written]
    texts = [(m.text, each["content"]) for m, each in zip(said(items), written, strict=True)]
    assert all(text == content for text, content in texts if content)


def test_the_channels_place_comes_first_and_its_end_last(exports: Path, read_all: ReadAll) -> None:
    items, _ = read_all(exports / FILES[0])

    place = items[0]
    assert isinstance(place, Place)
    assert (place.ref.conversation_id, place.ref.parent_conversation_id) == (
        "662445018316800002",
        None,
    )
    assert place.title == "ubuntu-help"
    assert items[-1] == Ended(place.ref)


def test_a_thread_knows_its_channel_and_the_message_it_hangs_on(
    exports: Path, read_all: ReadAll
) -> None:
    items, _ = read_all(exports / FILES[1])

    place = items[0]
    assert isinstance(place, Place)
    assert (place.ref.kind, place.ref.parent) == (Kind.THREAD, None)
    assert place.thread_root == "1167958978991226940"
    for message in said(items):
        assert message.parent is not None
        assert message.parent.conversation_id == "662445018316800002"
        assert message.thread_root == place.thread_root


@pytest.mark.parametrize(
    ("channel_type", "kind"),
    [
        ("DirectTextChat", Kind.DM),
        ("DirectGroupTextChat", Kind.ROOM),
        ("GuildTextChat", Kind.ROOM),
        ("GuildNews", Kind.ROOM),
        ("GuildPublicThread", Kind.THREAD),
        ("GuildPrivateThread", Kind.THREAD),
    ],
)
def test_the_kind_follows_the_channels_type(channel_type: str, kind: Kind) -> None:
    (message,) = said(read(channel(entry(), type=channel_type))[0])

    assert message.conversation.kind is kind


@pytest.mark.parametrize(
    ("written", "event"),
    [
        ("Default", Event.MESSAGE),
        ("Reply", Event.MESSAGE),
        ("ChatInputCommand", Event.MESSAGE),
        ("20", Event.MESSAGE),
        ("RecipientRemove", Event.MEMBER),
        ("GuildMemberJoin", Event.MEMBER),
        ("ChannelPinnedMessage", Event.NOTICE),
        ("Call", Event.NOTICE),
        ("46", Event.NOTICE),
    ],
)
def test_what_is_no_message_is_no_message(written: str, event: Event) -> None:
    (told,) = tell(entry(type=written))

    assert told.event is event


def test_a_reply_names_what_it_answers_here_and_nowhere_else() -> None:
    here = entry("2", type="Reply", reference={"messageId": "1", "channelId": "9"})
    there = entry("3", type="Reply", reference={"messageId": "1", "channelId": "8"})
    gone = entry("4", type="Reply", reference={"messageId": None})
    pin = entry("5", type="ChannelPinnedMessage", reference={"messageId": "1", "channelId": "9"})

    told = tell(here, there, gone, pin)

    assert [message.reply_to for message in told] == ["1", None, None, None]
    assert told[3].metadata["reference"] == {"message_id": "1", "channel_id": "9"}


def test_times_are_utc_and_local_ones_are_in_the_given_zone() -> None:
    local = entry(timestamp="2023-10-28T22:00:00")

    assert tell(entry())[0].sent_at == datetime(2023, 10, 28, 20, 52, 2, 220_000, UTC)
    assert tell(local)[0].sent_at == datetime(2023, 10, 28, 22, tzinfo=UTC)
    zone = ZoneInfo("Europe/Berlin")
    assert tell(local, zone=zone)[0].sent_at == datetime(2023, 10, 28, 20, tzinfo=UTC)


def test_files_stickers_reactions_and_edits_are_kept() -> None:
    (message,) = tell(
        entry(
            timestampEdited="2023-10-28T23:00:00+00:00",
            attachments=[
                {
                    "id": "1",
                    "url": "https://cdn.example/a",
                    "fileName": "a.png",
                    "fileSizeBytes": 3,
                },
                {"id": "2", "url": "x_Files/b.png", "fileName": "..\\b.png", "fileSizeBytes": -1},
            ],
            stickers=[{"id": "3", "name": "wave", "sourceUrl": "https://cdn.example/s"}],
            reactions=[{"emoji": {"id": "", "name": "😂"}, "count": 3, "users": [{"id": "5"}]}],
        )
    )

    one, two, sticker = message.attachments
    assert (one.name, one.size, one.url) == ("a.png", 3, "https://cdn.example/a")
    assert (two.name, two.size, two.url) == ("b.png", None, "")
    assert (sticker.type, sticker.name) == ("sticker", "wave")
    assert message.metadata["reactions"] == [{"name": "😂", "count": 3, "users": ["5"]}]
    assert message.metadata["edited_at"] == "2023-10-28T23:00:00+00:00"


def test_what_was_passed_on_and_cards_speak_for_a_message_without_words() -> None:
    forwarded = entry("1", content="", forwardedMessage={"content": "look"})
    card = entry("2", content="", embeds=[{"title": "Build", "description": "passed"}])

    assert [message.text for message in tell(forwarded, card)] == ["look", "Build\npassed"]


def test_what_we_said_goes_out() -> None:
    (message,) = tell(entry(), self_id="42")

    assert message.actor.is_self
    assert message.direction is Direction.OUTBOUND


def test_parts_of_a_channel_are_one_conversation_in_the_order_of_their_numbers() -> None:
    files = {
        "ops.json": channel(entry("1")),
        "ops [part 2].json": channel(entry("2")),
        "ops [part 10].json": channel(entry("10")),
        "Other.json": channel(entry("3"), id="10"),
        "readme.txt": b"not ours",
    }

    items, tally = read(files)

    assert DiscordChatExporter().recognises(Held(files))
    assert [type(item).__name__ for item in items if not isinstance(item, InboundMessage)] == [
        "Place",
        "Ended",
        "Place",
        "Ended",
    ]
    assert [message.message_id for message in said(items)] == ["3", "1", "2", "10"]
    assert sum(tally.skipped.values()) == 1


def test_a_thread_beside_its_channel_is_a_thread() -> None:
    thread = channel(entry("2"), id="11", type="GuildPublicThread", categoryId="9")

    items, tally = read({"a.json": channel(entry("1")), "b.json": thread})

    room, place = [item for item in items if isinstance(item, Place)]
    assert place.parent == room.ref
    assert tally.counts["threads"] == 1


def test_an_empty_channel_is_a_conversation() -> None:
    items, _ = read(channel())

    assert [type(item) for item in items] == [Place, Ended]


@pytest.mark.parametrize(
    "bad",
    [
        7,
        None,
        {},
        entry(author=None),
        entry(author={"name": "x"}),
        entry(timestamp="soon"),
        entry(timestamp=None),
        {**entry(), "id": 1.5},
        {**entry(), "id": ""},
    ],
)
def test_a_malformed_entry_is_noted_and_the_others_are_read(bad: Any) -> None:
    items, tally = read(channel(bad, entry("2")))

    assert [message.message_id for message in said(items)] == ["2"]
    assert tally.problems[0].startswith("ops.json: message 1:")


def test_a_count_that_is_not_right_is_noted() -> None:
    data = channel(entry()).replace(b'"messageCount": 1', b'"messageCount": 2')

    assert "2 messages" in read(data)[1].problems[0]


@pytest.mark.case("B158")
def test_no_text_holds_what_no_store_holds() -> None:
    (message,) = tell(
        entry(content="a\x00b\ud83d", author={"id": "1", "nickname": "\udc00"}), zone=UTC
    )

    assert (message.text, message.actor.name) == ("a\ufffdb\ufffd", "\ufffd")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (channel(entry()).replace(b'"id": "9"', b'"id": null'), "id"),
        (b'{"guild": {}, "channel": {"id": "9"}, "dateRange": {}}', "no messages"),
        (b'{"guild": {}, "messages": [{}], "channel": {"id": "9"}}', "before its messages"),
        (channel(entry()) + b"[]", "follows"),
        (channel(entry()).replace(b'"messages": [', b'"messages": {'), "list"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(ArchiveError, match=what):
        read(data)


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_anywhere_is_never_read_as_whole(exports: Path, name: str) -> None:
    whole = (exports / name).read_bytes().rstrip()

    for size in {*range(0, len(whole), len(whole) // 20), len(whole) - 1}:
        cut = {"cut.json": whole[:size]}
        if not DiscordChatExporter().recognises(Held(cut)):
            assert size < 2_000
            continue
        with pytest.raises(ArchiveError, match=r"cut\.json: offset"):
            read(cut)


def test_no_other_export_is_taken_for_discords(exports: Path) -> None:
    for folder in (exports, exports.parent / "webhooks"):
        for path in sorted(folder.iterdir()):
            held = Held({path.name: path.read_bytes()})
            assert DiscordChatExporter().recognises(held) == (path.name in FILES), path.name
