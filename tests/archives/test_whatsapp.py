"""WhatsApp's text exports: dates are judged over the file, ids survive a longer export."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo

import pytest

from threadline.archives.whatsapp import WHATSAPP, WhatsAppText
from threadline.core.archive import Account, Ended, Item, Options, Place, Tally
from threadline.core.errors import ArchiveError, InvalidInput
from threadline.core.model import Direction, Event, InboundMessage, Kind

ACCOUNT = Account(provider="whatsapp", account_id="15550000001")
FILES = [
    "chatminer-1",
    "chatminer-2",
    "made-and-ar",
    "made-and-de",
    "made-and-en-us",
    "made-and-en-us-old",
    "made-and-es-mx",
    "made-and-fi",
    "made-and-ja",
    "made-and-pt-br",
    "made-big-and-en-gb",
    "made-ios-en-gb",
    "made-ios-en-us",
    "made-ios-fr",
    "mtmxo-1",
]
NAME = "WhatsApp Chat with Ann Example.txt"
CHAT = """\
14/03/2024, 09:15 - Ann: good morning
14/03/2024, 09:15 - Ben: hello
and a second line
14/03/2024, 09:16 - Ann: <Media omitted>
15/03/2024, 21:00 - Ben: bye
"""


@dataclass
class Held:
    """A source that is in memory."""

    files: dict[str, bytes]
    title: str = NAME

    def names(self) -> list[str]:
        return sorted(self.files)

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.files[name])


def read(chat: str | bytes, name: str = NAME, **options: Any) -> tuple[list[Item], Tally]:
    data = chat.encode() if isinstance(chat, str) else chat
    tally = Tally()
    return list(WhatsAppText().read(Held({name: data}), ACCOUNT, Options(**options), tally)), tally


def entries(chat: str | bytes, **options: Any) -> list[InboundMessage]:
    return [item for item in read(chat, **options)[0] if isinstance(item, InboundMessage)]


def ids(chat: str | bytes, **options: Any) -> list[str]:
    return [str(entry.message_id) for entry in entries(chat, **options)]


def place(chat: str, **options: Any) -> Place:
    first = read(chat, **options)[0][0]
    assert isinstance(first, Place)
    return first


def counted(exports: Path, name: str) -> dict[str, Any]:
    for line in (exports.parent / "counts.jsonl").read_text().splitlines():
        row: dict[str, Any] = json.loads(line)
        if row["file"] == f"exports/{name}":
            return row
    raise LookupError(name)


@pytest.mark.acceptance("D11")
@pytest.mark.parametrize("name", FILES)
def test_a_chat_gives_the_figures_that_were_counted_independently(exports: Path, name: str) -> None:
    row = counted(exports, f"whatsapp-{name}.txt")

    items, tally = read((exports / f"whatsapp-{name}.txt").read_bytes())

    said = [item for item in items if isinstance(item, InboundMessage)]
    messages = [item for item in said if item.event is Event.MESSAGE]
    stamps = [item.sent_at for item in said if item.sent_at is not None]
    assert tally.first is not None
    assert tally.last is not None
    assert {
        "messages": len(messages),
        "system": len(said) - len(messages),
        "conversations": sum(isinstance(item, Place) for item in items),
        "authors": len({item.actor.id for item in messages}),
        "first": tally.first.replace(tzinfo=None).isoformat(),
        "last": tally.last.replace(tzinfo=None).isoformat(),
        "multi_line": sum("\n" in item.text for item in messages),
        "deleted": tally.counts["deleted"],
        "media": tally.counts["attachments"],
        "clock_goes_back": sum(after < before for before, after in pairwise(stamps)),
    } == {
        "multi_line": 0,
        "deleted": 0,
        "media": 0,
        "clock_goes_back": 0,
    } | {key: value for key, value in row.items() if key not in ("file", "bytes", "crlf", "bom")}
    assert tally.counts["messages"] == len(messages)
    assert tally.counts["system"] == len(said) - len(messages)
    assert len(tally.authors) == row["authors"]
    assert not tally.problems
    assert len(stamps) == len(said)
    assert len({item.message_id for item in said}) == len(said)


@pytest.mark.acceptance("D11")
def test_only_chats_are_recognised_among_all_sample_exports(exports: Path) -> None:
    recognised = {
        path.name
        for path in exports.iterdir()
        if WhatsAppText().recognises(Held({path.name: path.read_bytes()}, title=path.name))
    }

    assert recognised == {f"whatsapp-{name}.txt" for name in FILES}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("chatminer-1", Kind.ROOM),
        ("made-and-es-mx", Kind.DM),
        ("made-and-ja", Kind.ROOM),
        ("made-ios-en-us", Kind.DM),
        ("made-ios-fr", Kind.ROOM),
        ("mtmxo-1", Kind.DM),
    ],
)
def test_a_chat_of_two_is_a_dm_and_a_group_is_a_room(exports: Path, name: str, kind: Kind) -> None:
    first = place((exports / f"whatsapp-{name}.txt").read_text(encoding="utf-8"))

    assert first.ref.kind is kind


@pytest.mark.parametrize("name", FILES[2:6] + FILES[7:10] + ["made-ios-en-gb", "made-ios-fr"])
def test_joins_and_numbers_are_events_of_members_in_every_language(
    exports: Path, name: str
) -> None:
    said = entries((exports / f"whatsapp-{name}.txt").read_bytes())

    system = [item for item in said if item.event is not Event.MESSAGE]
    notice, member = Event.NOTICE, Event.MEMBER
    assert [item.event for item in system] == [
        notice,  # encryption
        notice,  # created
        member,  # added
        notice,  # subject
        notice,  # picture
        member,  # number
        member,  # left
    ]
    assert {item.actor for item in system} == {WHATSAPP}


def test_a_system_line_with_a_colon_in_a_name_is_kept_whole_and_is_nobodys() -> None:
    chat = '01/02/2024, 10:00 - Ann created group "Trip: Oslo / "2024""\n' + CHAT

    first = entries(chat)[0]

    assert first.text == 'Ann created group "Trip: Oslo / "2024""'
    assert first.event is Event.NOTICE


def test_words_of_whatsapp_in_a_persons_text_stay_that_persons() -> None:
    said = entries("14/03/2024, 09:15 - Ann: Ben left\n14/03/2024, 09:15 - Ben: I added you: ok\n")

    assert [(item.actor.id, item.text) for item in said] == [
        ("Ann", "Ben left"),
        ("Ben", "I added you: ok"),
    ]


@pytest.mark.parametrize(
    ("dates", "order", "settled_by"),
    [
        (["13/02/2024", "14/02/2024"], "dmy", "values"),
        (["02/13/2024", "02/14/2024"], "mdy", "values"),
        (["2024-02-03", "2024-02-04"], "ymd", "values"),
        (["24/02/13", "24/02/14"], "dmy", "values"),
        (["32/02/13", "33/02/14"], "ymd", "values"),
        (["05/05/2024"], "dmy", "values"),
        (["01/02/2024", "02/02/2024", "01/03/2024"], "dmy", "sequence"),
        (["02/01/2024", "02/02/2024", "03/01/2024"], "mdy", "sequence"),
        (["01/02/2024", "02/02/2024", "03/02/2024", "04/02/2024"], "dmy", "sequence"),
        (["02/01/2024", "02/02/2024", "02/03/2024", "02/04/2024"], "mdy", "sequence"),
        (["1.2.24"], "dmy", "form"),
        (["1/2/24"], "dmy", "form"),
    ],
)
def test_the_order_of_a_date_is_judged_over_the_whole_file(
    dates: list[str], order: str, settled_by: str
) -> None:
    metadata = place("".join(f"{date}, 10:00 - Ann: hi\n" for date in dates)).metadata

    assert (metadata["date_order"], metadata["date_order_by"]) == (order, settled_by)


@pytest.mark.parametrize(
    ("head", "order"),
    [
        ("1/2/24, 9:16 AM - ", "mdy"),
        ("1/2/24, 9:16\u202fPM - ", "mdy"),
        ("01/02/24, 9:16 AM - ", "dmy"),
        ("1/2/24, 9:16 am - ", "dmy"),
        ("[1/2/24, 9:16:00 AM] ", "mdy"),
        ("[01/02/2024, 9:16:00 AM] ", "dmy"),
    ],
)
def test_a_date_that_nothing_settles_is_read_as_it_is_formed_and_said_to_be_a_guess(
    head: str, order: str
) -> None:
    items, tally = read(f"{head}Ann: hi\n")

    assert isinstance(items[0], Place)
    assert items[0].metadata["date_order"] == order
    assert tally.skipped == {f"day and month could be either way and were read as {order}": 1}


@pytest.mark.parametrize(
    ("order", "at"),
    [("dmy", datetime(2024, 2, 1, 10, tzinfo=UTC)), ("mdy", datetime(2024, 1, 2, 10, tzinfo=UTC))],
)
def test_an_order_that_is_given_overrides_what_the_file_looks_like(
    order: str, at: datetime
) -> None:
    chat = "01/02/2024, 10:00 - Ann: hi\n20/02/2024, 10:00 - Ann: hi\n"

    items, tally = read(chat, date_order=order)

    assert isinstance(items[0], Place)
    assert items[0].metadata["date_order_by"] == "given"
    assert isinstance(items[1], InboundMessage)
    assert items[1].sent_at == at
    assert bool(tally.problems) is (order == "mdy")


def test_an_unknown_order_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="dmy, mdy, ymd"):
        read(CHAT, date_order="american")


@pytest.mark.parametrize(
    ("clock", "hour"),
    [
        ("12:05 AM", 0),
        ("12:05 PM", 12),
        ("1:05 p.m.", 13),
        ("1:05 p.\u00a0m.", 13),
        ("11:05\u202fpm", 23),
        ("00:05 a. m.", 0),
        ("١:٠٥ م", 13),
        ("午後1:05", 13),
        ("下午1:05", 13),
        ("오후 1:05", 13),
        ("klo 13.05", 13),
        ("kl. 13.05", 13),
    ],
)
def test_a_clock_is_read_in_the_phones_own_manner(clock: str, hour: int) -> None:
    [said] = entries(f"14.3.2024 {clock} - Ann: hi\n")

    assert said.sent_at == datetime(2024, 3, 14, hour, 5, tzinfo=UTC)


def test_local_times_are_of_the_zone_that_is_given_and_the_place_says_which() -> None:
    berlin = ZoneInfo("Europe/Berlin")

    assert entries(CHAT, zone=berlin)[0].sent_at == datetime(2024, 3, 14, 8, 15, tzinfo=UTC)
    assert place(CHAT, zone=berlin).metadata["zone"] == "Europe/Berlin"
    assert place(CHAT).metadata["zone"] == "UTC"


def test_a_time_in_the_hour_that_a_spring_night_leaves_out_is_still_a_time() -> None:
    said = entries("31.03.24, 02:30 - Ann: hi\n", zone=ZoneInfo("Europe/Berlin"))

    assert said[0].sent_at == datetime(2024, 3, 31, 1, 30, tzinfo=UTC)


def test_marks_are_taken_from_names_and_left_in_texts() -> None:
    chat = "\ufeff\u200e[14/03/2024, 09:15:00] \u202a+1 (555) 010-0177\u202c: ok\u2069?\u200e\r\n"

    [said] = entries(chat)

    assert said.actor.id == said.actor.name == "+1 (555) 010-0177"
    assert said.text == "ok\u2069?\u200e"


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("IMG-1.jpg (file attached)\nlook", "image", "IMG-1.jpg"),
        ("PTT-1.opus (Datei angehängt)", "audio", "PTT-1.opus"),
        ("plan: a.pdf (archivo adjunto)", "file", "plan: a.pdf"),
        ("<Media omitted>", "file", ""),
        ("\u200e<attached: 00000012-VIDEO.mp4>", "video", "00000012-VIDEO.mp4"),
        ("\u200eimage omitted", "image", ""),
        ("\u200eaudio omis", "audio", ""),
        ("report.pdf • 3 pages \u200edocument omitted", "file", ""),
    ],
)
def test_a_file_is_an_attachment_and_its_words_stay_the_text(
    text: str, kind: str, name: str
) -> None:
    [said] = entries(f"[14/03/2024, 09:15:00] Ann: {text}\n")

    [file] = said.attachments
    assert (file.type, file.name, said.text) == (kind, name, text)


@pytest.mark.parametrize(
    "text",
    ["image omitted", "<attached: a.jpg>", "../a.jpg (file attached)", "see (file attached)"],
)
def test_what_only_looks_like_a_file_is_text(text: str) -> None:
    [said] = entries(f"[14/03/2024, 09:15:00] Ann: {text}\n")

    assert not said.attachments


def test_our_own_messages_are_outbound() -> None:
    said = entries(CHAT, self_id="Ben")

    assert [(item.direction, item.actor.is_self) for item in said[:2]] == [
        (Direction.INBOUND, False),
        (Direction.OUTBOUND, True),
    ]


@pytest.mark.parametrize(
    ("name", "title", "called"),
    [
        ("WhatsApp Chat with Ann Example.txt", "x.txt", "Ann Example"),
        ("WhatsApp Chat mit Familie: Süd.txt", "x.txt", "Familie: Süd"),
        ("Chat de WhatsApp con Begoña.txt", "x.txt", "Begoña"),
        ("Conversa do WhatsApp com Zé.txt", "x.txt", "Zé"),
        ("Discussion WhatsApp avec Anaïs.txt", "x.txt", "Anaïs"),
        ("_chat.txt", "WhatsApp Chat - Trip.zip", "Trip"),
        ("WhatsApp Chat - Trip/_chat.txt", "exports", "Trip"),
        ("my chat.txt", "my chat.txt", "my chat"),
        (" .txt", " .txt", "WhatsApp"),
    ],
)
def test_a_chat_is_called_as_its_file_is(name: str, title: str, called: str) -> None:
    source = Held({name: CHAT.encode()}, title=title)

    first, *_, last = WhatsAppText().read(source, ACCOUNT, Options(), Tally())

    assert isinstance(first, Place)
    assert (first.ref.conversation_id, first.title) == (called, called)
    assert last == Ended(first.ref)


def test_a_name_that_is_given_is_the_chats_name() -> None:
    first = place(CHAT, conversation="family", title="The family")

    assert (first.ref.conversation_id, first.title) == ("family", "The family")


def test_two_chats_in_one_folder_are_two_conversations_and_take_no_single_name() -> None:
    files = {"WhatsApp Chat with A.txt": CHAT.encode(), "WhatsApp Chat with B.txt": CHAT.encode()}

    items = list(WhatsAppText().read(Held(files), ACCOUNT, Options(), Tally()))

    places = [item for item in items if isinstance(item, Place)]
    assert [each.ref.conversation_id for each in places] == ["A", "B"]
    with pytest.raises(ArchiveError, match="2 chats"):
        list(WhatsAppText().read(Held(files), ACCOUNT, Options(conversation="x"), Tally()))


def test_a_day_that_does_not_exist_is_noted_and_its_text_kept() -> None:
    chat = CHAT + "31/02/2024, 10:00 - Ann: never\n"

    items, tally = read(chat)

    last = items[-2]
    assert isinstance(last, InboundMessage)
    assert (last.text, last.sent_at) == ("never", None)
    assert tally.problems == [f"{NAME}: line 6: there is no such day in the order dmy."]
