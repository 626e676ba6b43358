"""IRC logs: many clients' lines, clocks that go round, ids that survive a longer log."""

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

from threadline.archives.irc import IRC, IrcLog
from threadline.core.archive import Account, Ended, Item, Options, Place, Tally
from threadline.core.errors import ArchiveError
from threadline.core.model import Direction, Event, InboundMessage, Kind

ACCOUNT = Account(provider="irc", account_id="libera")
FILES = [
    "irc-energymech-ubuntu-1-20130901.log",
    "irc-irssi-ubuntu-1.log",
    "irc-textual-lizmat-1.txt",
    "irc-ubuntulogs-1-2004-11-15_03.txt",
    "irc-ubuntulogs-2-2008-07-14_18.txt",
    "irc-ubuntulogs-3-2011-05-29_19.txt",
    "irc-weechat-ubuntu-1.weechatlog",
]
NAME = "#docs-20240314.log"
LOG = """\
[09:15:00] <ann> good morning
[09:15:20] *** ben (ben@host.example) has joined #docs
[09:16:00] <@ben> hello
[09:16:10] * ann waves
[09:17:00] -ChanServ- welcome
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


def read(log: str | bytes, name: str = NAME, **options: Any) -> tuple[list[Item], Tally]:
    data = log.encode() if isinstance(log, str) else log
    tally = Tally()
    source = Held({name: data}, title=name)
    return list(IrcLog().read(source, ACCOUNT, Options(**options), tally)), tally


def entries(log: str | bytes, **options: Any) -> list[InboundMessage]:
    return [item for item in read(log, **options)[0] if isinstance(item, InboundMessage)]


def ids(log: str | bytes, **options: Any) -> list[str]:
    return [str(entry.message_id) for entry in entries(log, **options)]


def times(log: str, **options: Any) -> list[str]:
    """The times in short: "14 09:15" is on the 14th."""
    return [f"{entry.sent_at:%d %H:%M}" for entry in entries(log, **options)]


def place(log: str | bytes, **options: Any) -> Place:
    first = read(log, **options)[0][0]
    assert isinstance(first, Place)
    return first


def counted(exports: Path, name: str) -> dict[str, Any]:
    for line in (exports.parent / "counts.jsonl").read_text().splitlines():
        row: dict[str, Any] = json.loads(line)
        if row["file"] == f"exports/{name}":
            return row
    raise LookupError(name)


def wraps(said: list[InboundMessage], face: str) -> int:
    """How often the clock goes back by more than an hour, as its face shows it."""
    shown = [f"{item.sent_at:{face}}" for item in said if item.sent_at is not None]
    hours = [int(each[:2]) * 60 + int(each[3:5]) for each in shown]
    return sum(before - after > 60 for before, after in pairwise(hours))


@pytest.mark.acceptance("D11")
@pytest.mark.parametrize("name", FILES)
def test_a_log_gives_the_figures_that_were_counted_independently(exports: Path, name: str) -> None:
    row = counted(exports, name)

    items, tally = read((exports / name).read_bytes(), name)

    said = [item for item in items if isinstance(item, InboundMessage)]
    messages = [item for item in said if item.event is Event.MESSAGE]
    found = {
        "messages": len(messages),
        "system": len(said) - len(messages) - tally.counts["notices"],
        "conversations": sum(isinstance(item, Place) for item in items),
        "authors": len({item.actor.id for item in messages}),
        "actions": sum("action" in item.metadata for item in messages),
        "notices": tally.counts["notices"],
    }
    assert found == {"notices": 0} | {key: row[key] for key in found if key in row}
    assert tally.counts["messages"] == row["messages"]
    assert tally.counts["system"] == row["system"]
    assert len(tally.authors) == row["authors"]
    assert not tally.problems
    assert not tally.skipped
    assert len({item.message_id for item in said}) == len(said)


@pytest.mark.acceptance("D11")
@pytest.mark.parametrize("name", FILES)
def test_first_and_last_are_the_times_that_were_found_independently(
    exports: Path, name: str
) -> None:
    row = counted(exports, name)
    data = (exports / name).read_bytes()
    # A clock of twelve hours is compared as it is written: 12:18 is the 18th minute of its half.
    clock = "%I:%M" if place(data, name=name).metadata["clock"] == "12 h" else "%H:%M"

    items, tally = read(data, name)

    said = [item for item in items if isinstance(item, InboundMessage)]
    assert tally.first is not None
    assert tally.last is not None
    first, last = row["first"].partition(" (")[0], row["last"].partition(" (")[0]
    day, _, at = first.replace("T", " ").partition(" ")
    assert f"{tally.first:%Y-%m-%d}" == day
    assert f"{tally.first:{clock}}" == at[:5]
    assert f"{tally.last:{clock}}" == last.rpartition("T")[2][:5]
    assert wraps(said, clock) == row.get("midnight_or_12h_wraps", 0)


@pytest.mark.acceptance("D11")
def test_only_logs_are_recognised_among_all_sample_exports(exports: Path) -> None:
    recognised = {
        path.name
        for path in exports.iterdir()
        if IrcLog().recognises(Held({path.name: path.read_bytes()}, title=path.name))
    }

    assert recognised == set(FILES)


def test_a_log_of_bare_times_runs_over_midnight_into_the_next_day(exports: Path) -> None:
    _, tally = read((exports / FILES[0]).read_bytes(), FILES[0])

    assert tally.first == datetime(2013, 9, 1, 18, 38, tzinfo=UTC)
    assert tally.last == datetime(2013, 9, 2, 6, 34, 6, tzinfo=UTC)


def test_the_hour_in_a_name_tells_the_half_of_a_clock_of_twelve_hours(exports: Path) -> None:
    _, tally = read((exports / FILES[3]).read_bytes(), FILES[3])

    assert tally.first == datetime(2004, 11, 15, 0, 18, tzinfo=UTC)
    assert tally.last == datetime(2004, 11, 15, 4, 51, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "begins", "ends"),
    [
        ("a-2024-03-14.log", "14 10:00", "14 13:00"),
        ("a-2024-03-14_11.log", "14 10:00", "14 13:00"),
        ("a-2024-03-14_23.log", "14 22:00", "15 01:00"),
        ("a-2024-03-14_08.log", "14 10:00", "14 13:00"),
    ],
)
def test_a_clock_of_twelve_hours_goes_on_in_halves_of_days(
    name: str, begins: str, ends: str
) -> None:
    half = times("[10:00] <ann> hi\n[12:30] <ann> hi\n[01:00] <ann> hi\n", name=name)
    whole = times("[10:00] <a> b\n[12:30] <a> b\n[01:00] <a> b\n[11:00] <a> b\n[12:10] <a> b\n")

    assert (half[0], half[2]) == (begins, ends)
    assert whole == ["14 10:00", "14 12:30", "14 13:00", "14 23:00", "15 00:10"]


def test_a_clock_set_back_by_an_hour_stays_on_its_day() -> None:
    log = "[02:59] <ann> a\n[02:00] <ann> b\n[23:59] <ann> c\n[00:01] <ann> d\n[00:00] <ann> e\n"

    assert times(log) == ["14 02:59", "14 02:00", "14 23:59", "15 00:01", "15 00:00"]


def test_lines_of_the_log_itself_set_the_day() -> None:
    log = """\
--- Log opened Thu Jan 11 23:58:00 2007
23:59 < ann> one
--- Day changed Fri Jan 12 2007
00:01 <@ben> two
--- Log closed Fri Jan 12 00:05:00 2007
--- Log opened Mon Jan 15 08:00:00 2007
08:00 < ann> three
"""

    assert times(log, name="docs.log") == ["11 23:59", "12 00:01", "15 08:00"]
    assert read(log, "docs.log")[1].counts["system"] == 0


def test_the_day_that_is_given_goes_before_that_in_the_name() -> None:
    assert times(LOG, date=datetime(2020, 2, 29, tzinfo=UTC))[0] == "29 09:15"


def test_without_a_day_messages_have_no_time_and_keep_their_clock() -> None:
    items, tally = read(LOG, "docs.log")

    said = [item for item in items if isinstance(item, InboundMessage)]
    assert {item.sent_at for item in said} == {None}
    assert said[0].metadata == {"clock": "09:15:00"}
    assert list(tally.skipped.values()) == [5]


def test_a_line_without_a_stamp_has_the_time_of_the_one_before() -> None:
    log = "[09:15] <ann> hi\n=== ben [~ben@host.example]  has joined #docs\n=== ben waves\n"

    said = entries(log)

    assert {item.sent_at for item in said} == {datetime(2024, 3, 14, 9, 15, tzinfo=UTC)}
    assert [(item.event, item.actor.id, item.text) for item in said[1:]] == [
        (Event.MEMBER, IRC.id, "ben [~ben@host.example]  has joined #docs"),
        (Event.MESSAGE, "ben", "waves"),
    ]


def test_times_are_of_the_zone_that_is_given_unless_the_log_knows_its_own(exports: Path) -> None:
    tokyo = ZoneInfo("Asia/Tokyo")

    assert entries(LOG, zone=tokyo)[0].sent_at == datetime(2024, 3, 14, 0, 15, tzinfo=UTC)
    assert place(LOG, zone=tokyo).metadata["zone"] == "Asia/Tokyo"
    _, tally = read((exports / FILES[2]).read_bytes(), FILES[2], zone=tokyo)
    assert tally.first == datetime(2021, 4, 22, 8, 1, 4, tzinfo=UTC)


def test_every_form_of_line_is_what_it_is() -> None:
    said = entries(LOG)

    assert [(item.event, item.actor.id, item.text) for item in said] == [
        (Event.MESSAGE, "ann", "good morning"),
        (Event.MEMBER, IRC.id, "ben (ben@host.example) has joined #docs"),
        (Event.MESSAGE, "ben", "hello"),
        (Event.MESSAGE, "ann", "waves"),
        (Event.NOTICE, "ChanServ", "welcome"),
    ]
    assert [item.metadata for item in said[2:4]] == [{}, {"action": True}]


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("10:00 -!- ann [a@host.example] has joined #docs", Event.MEMBER),
        ("10:00 -!- ann is now known as anne", Event.MEMBER),
        ("10:00 -!- Netsplit a <-> b quits: ann", Event.MEMBER),
        ("10:00 -!- ann was kicked from #docs by ben [bye]", Event.MEMBER),
        ("10:00 -!- mode/#docs [+o ann] by ben", Event.NOTICE),
        ("10:00 -!- ann changed the topic of #docs to: 12:30 <nobody> says", Event.NOTICE),
        ("2024-03-14 10:00:00\t-->\tann (a@host.example) has joined #docs", Event.MEMBER),
        ("2024-03-14 10:00:00\t--\tMode #docs [+o ann] by ben", Event.NOTICE),
        ("2024-03-14 10:00:00\t=!=\tsomething went wrong", Event.NOTICE),
        ("[2024-03-14T10:00:00Z] ann (a@host.example) left IRC (Quit: bye)", Event.MEMBER),
        ("[10:00:00] *** Quits: ann (a@host.example)", Event.MEMBER),
        ("=== ann is now known as anne", Event.MEMBER),
    ],
)
def test_what_happens_in_a_channel_is_no_message_of_anybody(line: str, event: Event) -> None:
    [said] = entries(line + "\n")

    assert (said.event, said.actor) == (event, IRC)


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("#docs-20240314.log", "#docs"),
        ("docs-2024-03-14_03.txt", "docs"),
        ("irc.libera.#docs.weechatlog", "#docs"),
        ("##c.log", "##c"),
        ("#docs/2024-03-14.log", "#docs"),
        ("2024-03-14.log", "2024-03-14"),
        ("docs.log", "docs"),
    ],
)
def test_a_channel_is_called_as_its_file_is_without_the_day(name: str, called: str) -> None:
    first = place(LOG, name=name)

    assert first.ref.conversation_id == first.title == called
    assert first.ref.kind is Kind.ROOM


def test_a_log_that_names_its_channel_is_called_so() -> None:
    log = "--- Log opened for #help Thu Jan 11 10:01:00 2007\n10:01 < ann> hi\n"

    assert place(log).ref.conversation_id == "#help"


def test_a_name_that_is_given_is_the_channels_name() -> None:
    first = place(LOG, conversation="#other", title="Other")

    assert (first.ref.conversation_id, first.title) == ("#other", "Other")


def test_a_folder_holds_the_days_of_many_channels() -> None:
    files = {
        "#docs/2024-03-14.log": b"[23:59] <ann> one\n",
        "#docs/2024-03-15.log": b"[00:01] <ann> two\n",
        "#help/2024-03-14.log": b"[10:00] <ben> three\n",
        "notes.txt": b"no log at all\n",
    }

    items = list(IrcLog().read(Held(files, title="logs"), ACCOUNT, Options(), Tally()))

    docs, help_ = (item for item in items if isinstance(item, Place))
    assert (docs.ref.conversation_id, help_.ref.conversation_id) == ("#docs", "#help")
    said = [item.text if isinstance(item, InboundMessage) else type(item) for item in items]
    assert said == [Place, "one", "two", Ended, Place, "three", Ended]
    with pytest.raises(ArchiveError, match="2 channels"):
        list(IrcLog().read(Held(files), ACCOUNT, Options(conversation="#x"), Tally()))


def test_our_own_messages_are_outbound() -> None:
    said = entries(LOG, self_id="ben")

    assert [item.direction for item in said].count(Direction.OUTBOUND) == 1
    assert said[2].actor.is_self


def test_lines_in_other_encodings_are_read_each_by_itself() -> None:
    said = entries(
        b"[09:15] <ann> caf\xc3\xa9\n[09:15] <ann> caf\xe9 \x80\n[09:15] <ann> \x81\xe9\n"
    )

    assert [item.text for item in said] == ["café", "café €", "\x81é"]


def test_control_bytes_are_kept_but_for_the_one_no_store_takes() -> None:
    said = entries("[09:15] <ann> a\x02b\x15\x1c\x0c\x00c\n")

    assert [item.text for item in said] == ["a\x02b\x15\x1c\x0c\ufffdc"]


def test_a_line_that_is_none_of_a_log_is_noted_and_passed_over() -> None:
    items, tally = read(LOG * 4 + "what is this\n[99:99] <ann> no such hour\n" + LOG)

    assert sum(isinstance(item, InboundMessage) for item in items) == 25
    assert tally.problems == [
        f"{NAME}: line 21: this is no line of a log.",
        f"{NAME}: line 22: this is no line of a log.",
    ]
