"""IRC logs, longer, later, broken off or hostile: ids stay, nothing is hidden."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.archives.test_irc import ACCOUNT, FILES, LOG, NAME, Held, entries, ids, read
from threadline.archives.irc import IrcLog
from threadline.archives.lines import MAX_LINE
from threadline.core.archive import Options, Tally
from threadline.core.errors import ArchiveError
from threadline.core.model import InboundMessage


@pytest.mark.parametrize("name", FILES)
def test_a_longer_log_adds_only_new_ids(exports: Path, name: str) -> None:
    lines = (exports / name).read_bytes().splitlines(keepends=True)
    whole = ids(b"".join(lines), name=name)

    for cut in range(1, len(lines), max(1, len(lines) // 12)):
        before = ids(b"".join(lines[:cut]), name=name)
        assert before == whole[: len(before)]


@pytest.mark.parametrize("name", [FILES[2], FILES[6]])
def test_a_log_that_begins_later_has_the_same_ids(exports: Path, name: str) -> None:
    lines = (exports / name).read_bytes().splitlines(keepends=True)

    later = ids(b"".join(lines[3:]), name=name)

    assert later == ids(b"".join(lines), name=name)[3:]


def test_every_cut_is_a_beginning(exports: Path) -> None:
    data = (exports / FILES[2]).read_bytes()
    whole = ids(data)

    for cut in range(40, len(data)):
        try:
            before = ids(data[:cut])
        except ArchiveError:
            continue
        assert before[:-1] == whole[: len(before) - 1]


def test_equal_lines_in_one_minute_are_distinct_messages() -> None:
    made = ids("[09:15] <ann> ok\n" * 3 + "[09:15] * ann ok\n" + "[09:15] <ben> ok\n")

    assert len(set(made)) == 5
    assert made[1:3] == [f"{made[0]}.2", f"{made[0]}.3"]


def test_ids_do_not_depend_on_the_zone_or_the_ends_of_lines() -> None:
    assert ids(LOG) == ids(LOG, zone=ZoneInfo("Asia/Tokyo")) == ids(LOG.replace("\n", "\r\n"))


@pytest.mark.parametrize(
    "log", ["", "\n", "hello\n", '{"messages": []}', "[10:00] once\n" * 9, "=== RUN Test\n" * 9]
)
def test_what_is_no_log_is_refused_by_name(log: str) -> None:
    assert not IrcLog().recognises(Held({NAME: log.encode()}))
    with pytest.raises(ArchiveError, match="#docs-20240314"):
        read(log)


@pytest.mark.parametrize(
    "line",
    [
        "[09:15] <" + "a" * 200_000 + "> hi",
        "[09:15] " + " " * 200_000,
        "[09:15] * " + "a" * 200_000,
        "=== " + "a" * 200_000,
        "=== a [" + "]" * 200_000,
        "=== a" + " [] " * 50_000,
        "--- Log opened Thu Foo 11 10:01:00 2007",
        "--- Day changed Thu Feb 31 2007",
        "2024-02-31 10:00:00\tann\thi",
        "2024-03-14 10:00:00\t *\t",
        "[0000-00-00T00:00:00+0000] <ann> hi",
        "[0001-01-01T00:00:00+2300] <ann> hi",
        "[9999-12-31T23:59:59-2300] <ann> hi",
        "9999-12-31 23:59:59\tann\thi",
    ],
)
def test_no_line_holds_the_reader_up(line: str) -> None:
    said = entries(LOG * 4 + line + "\n" + LOG, zone=ZoneInfo("America/New_York"))

    assert len(said) in (25, 26)
    assert all(item.actor.id for item in said)


def test_a_line_without_end_is_cut_and_noted() -> None:
    items, tally = read(LOG + "[09:18] <ann> " + "\xe9" * MAX_LINE + "\n" + LOG)

    said = [item for item in items if isinstance(item, InboundMessage)]
    assert len(said) == 11
    assert max(len(item.text.encode()) for item in said) <= 3 * MAX_LINE
    assert len(tally.problems) == 1


HEADS = [
    "[09:15] ",
    "[23:59:59] ",
    "12:01 ",
    "01:00 ",
    "2024-03-14 09:15:00\t",
    "[2024-03-14T09:15:00+0200] ",
    "=== ",
    "--- Day changed Fri Jan 12 2007",
    "",
]
FORMS = ["<ann> ", "* ann ", "*** ", "-!- ", "-ann- ", "• ann: ", "@ann\t", " *\t", "--\t", ""]


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for log in (data, LOG.encode() * 10 + data):
        with suppress(ArchiveError):
            read(log)


@given(
    st.lists(st.tuples(st.sampled_from(HEADS), st.sampled_from(FORMS), st.text(max_size=20))),
    st.sampled_from(["docs.log", NAME, "a-2024-03-14_23.log"]),
)
@settings(deadline=None)
def test_any_lines_are_read_and_each_has_an_id_of_its_own(
    lines: list[tuple[str, str, str]], name: str
) -> None:
    log = LOG * 20 + "".join(f"{head}{form}{text}\n" for head, form, text in lines)

    said = entries(log.encode("utf-8", "surrogatepass"), name=name)

    assert len(said) >= 100
    assert len({item.message_id for item in said}) == len(said)
    assert all(item.sent_at is None or item.sent_at.tzinfo is UTC for item in said)


def test_a_long_log_needs_no_more_memory_than_a_short_one() -> None:
    clocks = [datetime(2015, 1, 1) + timedelta(hours=n) for n in range(10_000)]
    log = "".join(f"[{at:%H:%M}] <ann> this is {n}\n" for n, at in enumerate(clocks))
    source = Held({NAME: log.encode()})

    tracemalloc.start()
    count = sum(1 for _ in IrcLog().read(source, ACCOUNT, Options(), Tally()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == 10_002
    assert peak < 300_000
