"""WhatsApp's text exports, longer, later, broken off or hostile: ids stay, nothing is hidden."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.archives.test_whatsapp import ACCOUNT, CHAT, FILES, NAME, Held, entries, ids, read
from threadline.archives.lines import MAX_LINE
from threadline.archives.whatsapp import WhatsAppText
from threadline.core.archive import Options, Tally
from threadline.core.errors import ArchiveError
from threadline.core.model import InboundMessage


@pytest.mark.parametrize("name", FILES)
def test_a_longer_export_adds_only_new_ids(exports: Path, name: str) -> None:
    data = (exports / f"whatsapp-{name}.txt").read_bytes()
    whole = ids(data)
    lines = data.splitlines(keepends=True)

    for cut in range(1, len(lines), max(1, len(lines) // 40)):
        # The last entry of a cut may go on; all before it are what they will be.
        before = ids(b"".join(lines[:cut]))
        assert before[:-1] == whole[: len(before) - 1]


@pytest.mark.parametrize("name", ["made-and-ar", "made-ios-fr", "chatminer-2"])
def test_every_cut_is_a_beginning_or_is_refused(exports: Path, name: str) -> None:
    data = (exports / f"whatsapp-{name}.txt").read_bytes()
    whole = ids(data)

    # Steps of five end at each byte of a character in turn.
    for cut in range(0, len(data), 5):
        try:
            before = ids(data[:cut])
        except ArchiveError:
            continue
        assert before[:-1] == whole[: len(before) - 1]


@pytest.mark.parametrize("name", ["made-and-de", "made-ios-en-gb", "made-big-and-en-gb"])
def test_an_export_that_begins_later_has_the_same_ids(exports: Path, name: str) -> None:
    lines = (exports / f"whatsapp-{name}.txt").read_bytes().splitlines(keepends=True)
    whole = ids(b"".join(lines))

    later = ids(b"".join(lines[15:]))

    assert len(later) < len(whole)
    assert later == whole[-len(later) :]


def test_ids_do_not_depend_on_how_dates_and_zones_are_read() -> None:
    assert ids(CHAT) == ids(CHAT, date_order="mdy") == ids(CHAT, zone=ZoneInfo("Asia/Tokyo"))
    short, long = CHAT.replace("/2024", "/24"), CHAT
    assert ids(short) == ids(long)
    assert ids(CHAT.replace("\n", "\r\n")) == ids(CHAT) == ids(CHAT.strip() + "\n\n\n")


def test_equal_lines_in_one_minute_are_distinct_messages() -> None:
    chat = "14/03/2024, 09:15 - Ann: ok\n" * 3 + "14/03/2024, 09:15 - Ben: ok\n"

    made = ids(chat)

    assert len(set(made)) == 4
    assert made[1:3] == [f"{made[0]}.2", f"{made[0]}.3"]


@pytest.mark.parametrize("chat", ["", "\n\n", "hello\n", '{"messages": []}', "\0" * 100])
def test_what_is_no_chat_is_refused_by_name(chat: str) -> None:
    assert not WhatsAppText().recognises(Held({NAME: chat.encode()}))
    with pytest.raises(ArchiveError, match="Ann Example"):
        read(chat)


def test_a_file_that_breaks_off_inside_a_character_names_file_and_line() -> None:
    with pytest.raises(ArchiveError, match=r"Ann Example\.txt: line 7") as caught:
        read((CHAT + "15/03/2024, 21:01 - Ben: ok\nbye 👋🏽").encode()[:-1])
    assert caught.value.facts["line"] == 7


def test_no_text_holds_what_a_store_refuses() -> None:
    [said] = entries("14/03/2024, 09:15 - A\0nn: a\0b\x0c\x1c\x85c\n")

    assert (said.actor.id, said.text) == ("A\ufffdnn", "a\ufffdb\x0c\x1c\x85c")


def test_a_text_without_end_is_cut_and_noted() -> None:
    chat = CHAT + "15/03/2024, 21:01 - Ben: " + "é" * MAX_LINE + "\n" + CHAT

    items, tally = read(chat)

    said = [item for item in items if isinstance(item, InboundMessage)]
    assert max(len(item.text.encode()) for item in said) <= MAX_LINE
    assert len(said) == 9
    assert len(tally.problems) == 1


@pytest.mark.parametrize(
    "line",
    [
        "\u200e" * 200_000,
        "[" + "1" * 200_000,
        "14/03/2024," + " " * 200_000,
        "14/03/2024, 09:15 - " + "~ hat " * 50_000,
        "14/03/2024, 09:15 - " + "غير " * 160,
        "14/03/2024, 09:15 - Ann: " + "x" * 200_000 + "(file attached)",
        "14/03/2024, 09:15 - Ann: " + "<This message" * 20_000 + ">",
        "14/03/2024, 99:99 - Ann: no such hour",
        "14/03/2024, 09:15 - : nobody",
        "14/03/2024, 09:15 - " + "é" * 600 + ": a name too long",
    ],
)
def test_no_line_holds_the_reader_up(line: str) -> None:
    said = entries(CHAT + line + "\n" + CHAT)

    assert len(said) in (8, 9)
    assert all(item.actor.id for item in said)


HEADS = [
    "14/03/2024, 09:15 - ",
    "[3/4/24, 9:15:00\u202fAM] ",
    "٩\u200f/٤\u200f/٢٠٢٤، ١٠:٠١ ص - ",
    "2024/02/30 23:31 - ",
    "0.0.0 klo 8.01 - ",
    "99/99/9999, 23:59 - ",
]


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for chat in (data, CHAT.encode() + data):
        with suppress(ArchiveError):
            read(chat)


@given(
    st.lists(st.tuples(st.sampled_from(HEADS), st.text(max_size=30)), min_size=1, max_size=12),
    st.sampled_from([None, "dmy", "mdy", "ymd"]),
)
@settings(deadline=None)
def test_any_lines_behind_headers_are_read_whole(
    lines: list[tuple[str, str]], order: str | None
) -> None:
    chat = "".join(f"{head}{text}\n" for head, text in lines)
    data = chat.encode("utf-8", "replace")

    said = entries(data, date_order=order)

    assert len(said) >= len(lines)
    assert len(set(ids(data))) == len(said)
    assert all(item.sent_at is None or item.sent_at.tzinfo is UTC for item in said)


def test_one_chat_twice_in_a_folder_is_refused() -> None:
    files = {f"{folder}/WhatsApp Chat with A.txt": CHAT.encode() for folder in "ab"}

    with pytest.raises(ArchiveError, match="'A' as well"):
        list(WhatsAppText().read(Held(files), ACCOUNT, Options(), Tally()))


def test_a_long_chat_needs_no_more_memory_than_a_short_one() -> None:
    begin = datetime(2015, 1, 1)
    heads = [f"{begin + timedelta(days=n // 20):%d/%m/%Y}, 10:00 - Ann" for n in range(10_000)]
    source = Held({NAME: "".join(f"{at}: this is {n}\n" for n, at in enumerate(heads)).encode()})

    tracemalloc.start()
    count = sum(1 for _ in WhatsAppText().read(source, ACCOUNT, Options(), Tally()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == 10_002
    assert peak < 300_000
