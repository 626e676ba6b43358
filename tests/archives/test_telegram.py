"""Telegram exports: a chat or an account, under the addresses bots know, to the last letter."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.archives.conftest import Held, ReadAll, Rows, read_held, said
from threadline.archives.telegram import TelegramDesktop
from threadline.core.archive import Ended, Item, Place, Tally
from threadline.core.model import Direction, Event, InboundMessage, Kind

FILES = [
    "telegram-full-made-1.json",
    "telegram-single-chatminer-1.json",
    "telegram-single-tgparser-1.json",
]


def entry(number: Any = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "type": "message",
        "date": "2024-01-15T10:30:00",
        "date_unixtime": "1705315800",
        "from": "Ann",
        "from_id": "user42",
        "text": "hi",
        **more,
    }


def service(number: int, action: str, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "type": "service",
        "date_unixtime": "1705315800",
        "actor": "Ann",
        "actor_id": "user42",
        "action": action,
        "text": "",
        **more,
    }


def chat(*entries: Any, **of: Any) -> dict[str, Any]:
    return {"name": "Ops", "type": "private_supergroup", "id": 1234567890, **of} | {
        "messages": list(entries)
    }


def account(*chats: Any, left: Any = ()) -> bytes:
    return json.dumps(
        {
            "about": "Here is the data you requested.",
            "personal_information": {"user_id": 1},
            "contacts": {"list": [{"first_name": "]}", "date": '"'}]},
            "chats": {"about": "all", "list": list(chats)},
            "left_chats": {"about": "left", "list": list(left)},
        }
    ).encode()


def read(data: bytes, file: str = "result.json", **options: Any) -> tuple[list[Item], Tally]:
    return read_held(TelegramDesktop(), Held({file: data}, file), **options)


def read_chat(*entries: Any, **of: Any) -> tuple[list[Item], Tally]:
    return read(json.dumps(chat(*entries, **of)).encode())


def tell(*entries: Any, **of: Any) -> list[InboundMessage]:
    return said(read_chat(*entries, **of)[0])


@pytest.mark.acceptance("D11")
@pytest.mark.parametrize("name", FILES)
def test_an_export_reads_as_it_was_counted(
    exports: Path, rows: Rows, read_all: ReadAll, name: str
) -> None:
    row = rows[f"exports/{name}"]

    items, tally = read_all(exports / name)

    places = [item for item in items if isinstance(item, Place)]
    assert len(places) == len({place.ref for place in places}) == row["conversations"]
    assert all(place.parent is None for place in places)
    assert len(tally.authors) == row["authors"]
    assert f"{tally.first:%Y-%m-%dT%H:%M:%SZ}" == row["first"]
    assert f"{tally.last:%Y-%m-%dT%H:%M:%SZ}" == row["last"]
    kinds = ("replies", "edited", "forwarded", "media", "reactions", "text_as_list", "null_from")
    for kind in ("messages", "system", "empty_chats", *kinds):
        assert tally.counts[kind] == row.get(kind, 0), kind
    assert tally.counts["unique_messages"] == row["messages"]
    assert len(said(items)) == row["messages"] + row["system"]
    assert not tally.problems


@pytest.mark.acceptance("D11")
def test_every_chat_comes_under_the_address_bots_know(exports: Path, read_all: ReadAll) -> None:
    items, _ = read_all(exports / FILES[0])

    places = {item.title: item.ref for item in items if isinstance(item, Place)}
    assert {title: (ref.conversation_id, ref.kind) for title, ref in places.items()} == {
        "Vito Norrland": ("5550000", Kind.DM),
        "Ubuntu help 🐧": ("-1000005550001", Kind.ROOM),
        "Weekend: plans": ("-5550002", Kind.ROOM),
        "Saved Messages": ("5550001", Kind.DM),
        "Echo Bot": ("5559000", Kind.DM),
        "Empty group": ("-5559001", Kind.ROOM),
        "Old channel": ("-1000005559002", Kind.ROOM),
    }


def test_a_place_comes_before_its_messages_and_an_end_after_them(
    exports: Path, read_all: ReadAll
) -> None:
    items, _ = read_all(exports / FILES[0])

    here = None
    for item in items:
        match item:
            case Place(ref):
                assert here is None
                here = ref
            case Ended(ref):
                assert ref == here
                here = None
            case InboundMessage(conversation=ref):
                assert ref == here
    assert here is None


@pytest.mark.parametrize(
    ("kind", "number", "address"),
    [
        ("personal_chat", 42, "42"),
        ("bot_chat", 42, "42"),
        ("private_group", 42, "-42"),
        ("private_supergroup", 1234567890, "-1001234567890"),
        ("public_channel", 1234567890, "-1001234567890"),
        ("public_supergroup", 12345678901, "-1012345678901"),
        ("private_channel", "-1001234567890", "-1001234567890"),
    ],
)
def test_addresses_are_those_of_the_bot_api(kind: str, number: Any, address: str) -> None:
    (message,) = tell(entry(), type=kind, id=number)

    assert message.conversation.conversation_id == address


def test_ids_count_for_the_chat_where_all_see_the_same_ones_and_else_for_the_export() -> None:
    (shared,) = tell(entry(7))
    (own,) = tell(entry(7), type="private_group", id=42)

    assert (shared.message_id, shared.id_space) == ("7", "-1001234567890")
    assert (own.message_id, own.id_space) == ("7", "-42:export")


@pytest.mark.parametrize(
    ("text", "flat"),
    [
        ("plain", "plain"),
        ("", ""),
        ([], ""),
        (["a ", {"type": "bold", "text": "b"}, " c"], "a b c"),
        ([{"type": "text_link", "text": "here", "href": "https://x.example"}], "here"),
        ([{"type": "pre", "text": "x <y>\n", "language": "sh"}, {"type": "odd"}, 7], "x <y>\n"),
        (None, ""),
    ],
)
def test_text_is_put_together_exactly(text: Any, flat: str) -> None:
    (message,) = tell(entry(text=text))

    assert message.text == flat


@pytest.mark.parametrize(
    ("fields", "author", "name"),
    [
        ({}, "42", "Ann"),
        ({"from": None}, "42", "Deleted Account"),
        ({"from_id": "channel1234567890"}, "-1001234567890", "Ann"),
        ({"from_id": 42}, "42", "Ann"),
        ({"from_id": None}, "Ann", "Ann"),
        ({"from_id": None, "from": None}, "-1001234567890", "Ops"),
    ],
)
def test_the_author_is_who_bots_would_see(fields: dict[str, Any], author: str, name: str) -> None:
    (message,) = tell(entry(**fields))

    assert (message.actor.id, message.actor.name) == (author, name)


def test_a_bots_chat_tells_the_bot_from_its_user() -> None:
    one, bot = tell(entry(1), entry(2, from_id="user99"), type="bot_chat", id=99)

    assert (one.actor.is_bot, bot.actor.is_bot) == (False, True)


def test_what_we_said_goes_out() -> None:
    (message,) = said(read(json.dumps(chat(entry())).encode(), self_id="42")[0])

    assert message.actor.is_self
    assert message.direction is Direction.OUTBOUND


def test_the_instant_is_believed_and_local_time_needs_a_zone() -> None:
    local = entry()
    del local["date_unixtime"]
    data = json.dumps(chat(local)).encode()

    assumed, _ = read(data)
    placed, _ = read(data, zone=ZoneInfo("Europe/Berlin"))

    assert tell(entry())[0].sent_at == datetime(2024, 1, 15, 10, 50, tzinfo=UTC)
    assert said(assumed)[0].sent_at == datetime(2024, 1, 15, 10, 30, tzinfo=UTC)
    assert said(placed)[0].sent_at == datetime(2024, 1, 15, 9, 30, tzinfo=UTC)
    assert isinstance(assumed[0], Place)
    assert isinstance(placed[0], Place)
    assert assumed[0].metadata["zone_assumed"] == "UTC"
    assert "zone_assumed" not in placed[0].metadata


@pytest.mark.parametrize(
    ("told", "event", "text"),
    [
        (service(1, "invite_members", members=["Bo", None]), Event.MEMBER, "Bo, somebody"),
        (service(1, "join_group_by_link"), Event.MEMBER, "join group by link"),
        (service(1, "remove_members", members=["Bo"]), Event.MEMBER, "remove members: Bo"),
        (service(1, "pin_message", message_id=3), Event.NOTICE, "pin message"),
        (service(1, "edit_group_title", title="New"), Event.NOTICE, "edit group title: New"),
        (entry(type="unsupported", text=""), Event.NOTICE, "unsupported"),
    ],
)
def test_what_is_no_message_is_told_in_words(told: Any, event: Event, text: str) -> None:
    (message,) = tell(told)

    assert message.event is event
    assert message.text.endswith(text)


def test_media_are_described_and_never_a_path() -> None:
    photo = entry(1, photo="photos/../photo_1.jpg", photo_file_size=9)
    file = entry(2, file="(File not included.)", file_name="../a.ogg", mime_type="audio/ogg")
    poll = entry(3, poll={"question": "Tea?", "answers": [{"text": "yes", "voters": 2}]})
    place = entry(4, location_information={"latitude": 52.1, "longitude": 4.3})

    told = tell(photo, file, poll, place)

    assert [(one.type, one.name, one.size) for m in told for one in m.attachments] == [
        ("photo", "photo_1.jpg", 9),
        ("audio/ogg", "a.ogg", None),
    ]
    assert told[2].metadata["poll"] == {
        "question": "Tea?",
        "answers": [{"text": "yes", "voters": 2}],
    }
    assert told[3].metadata["location"] == {"latitude": 52.1, "longitude": 4.3}


def test_edits_forwards_replies_and_reactions_are_kept() -> None:
    (message,) = tell(
        entry(
            2,
            edited_unixtime="1705315900",
            forwarded_from=None,
            reply_to_message_id=1,
            reactions=[{"type": "emoji", "emoji": "👍", "count": 2}, {"type": "paid", "count": 1}],
        )
    )

    assert message.reply_to == "1"
    assert message.metadata["edited_at"] == "2024-01-15T10:51:40+00:00"
    assert message.metadata["forwarded"] is True
    assert message.metadata["reactions"] == [
        {"name": "👍", "count": 2},
        {"name": "paid", "count": 1},
    ]


def test_a_topic_is_a_thread_as_far_as_answers_show_it() -> None:
    items, tally = read_chat(
        entry(1, text="general"),
        service(2, "topic_created", title="Plans"),
        entry(3, text="in it", reply_to_message_id=2),
        entry(4, text="an answer in it", reply_to_message_id=3),
        entry(5, text="general again", reply_to_message_id=1),
    )

    room, topic = [item for item in items if isinstance(item, Place)]
    assert topic.ref.text == "sample/A1/-1001234567890/2"
    assert (topic.ref.kind, topic.title, topic.parent) == (Kind.THREAD, "Plans", room.ref)
    places = [room.ref, topic.ref, topic.ref, topic.ref, room.ref]
    assert [message.conversation for message in said(items)] == places
    assert [message.reply_to for message in said(items)] == [None, None, None, "3", "1"]
    assert tally.counts["threads"] == 1
    assert [item.ref for item in items if isinstance(item, Ended)] == [topic.ref, room.ref]


def test_messages_without_ids_get_the_same_ids_every_time(exports: Path, read_all: ReadAll) -> None:
    one, two = (said(read_all(exports / FILES[1])[0]) for _ in range(2))

    assert [message.message_id for message in one] == [message.message_id for message in two]
    twins = [{**entry(), "id": None}] * 2
    assert len({message.message_id for message in tell(*twins)}) == 2


def test_a_chat_without_an_id_stands_under_the_given_name_or_its_files() -> None:
    data = json.dumps({"messages": [entry()]}).encode()

    given, _ = read(data, conversation="42", title="Ann")
    not_given, _ = read(data, file="ann.json")

    assert isinstance(given[0], Place)
    assert (given[0].ref.conversation_id, given[0].title) == ("42", "Ann")
    assert isinstance(not_given[0], Place)
    assert not_given[0].ref.conversation_id == "ann.json"


def test_no_other_export_is_taken_for_telegrams(exports: Path) -> None:
    for folder in (exports, exports.parent / "webhooks"):
        for path in sorted(folder.iterdir()):
            held = Held({path.name: path.read_bytes()})
            assert TelegramDesktop().recognises(held) == (path.name in FILES), path.name


def test_a_folder_is_read_by_its_result() -> None:
    files = {"Export/result.json": account(chat(entry())), "Export/photos/a.jpg": b"\xff"}

    assert TelegramDesktop().recognises(Held(files))
