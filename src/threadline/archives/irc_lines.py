"""One line of an IRC log: when, who, and what was said or happened.

Clients write one line per event and differ in two columns, the stamp and the mark behind it. So a
line is cut in these two, and each is read by a table; the client's name is not needed.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from enum import Enum
from typing import NamedTuple

MODES = "@+%&~!"


class What(Enum):
    """What a line of a log is."""

    MESSAGE = "message"
    ACTION = "action"
    NOTICE = "notice"
    SYSTEM = "system"
    DAY = "day"
    CLOSED = "closed"


class Stamp(NamedTuple):
    """When, as far as the line says it: a clock, perhaps a day, perhaps a whole instant."""

    clock: time
    day: date | None = None
    instant: datetime | None = None


class Line(NamedTuple):
    """What one line says. A line of the log itself (`DAY`, `CLOSED`) holds no message.

    `is_certain` is False for what other files hold as well: any words behind a stamp or a "===".
    """

    what: What
    stamp: Stamp | None
    nick: str = ""
    text: str = ""
    channel: str = ""
    is_certain: bool = True


_WEECHAT = re.compile(r"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\t([^\t]*)\t(.*)", re.DOTALL)
_INSTANT = re.compile(
    r"\[(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.\d{1,6})?(Z|[+-]\d\d:?\d\d)?\] ", re.ASCII
)
_CLOCK = re.compile(r"(\[)?(\d\d):(\d\d)(?::(\d\d))?(?(1)\]) ", re.ASCII)
_MESSAGE = re.compile(rf"<[ {MODES}]?([^>\s][^>]{{0,99}})>(?: (.*))?", re.DOTALL)
_ACTION = re.compile(r" {0,2}\* (\S{1,100})(?: (.*))?", re.DOTALL)
_BULLET = re.compile(r"• ([^\s:]{1,100}):(?: (.*))?", re.DOTALL)
_EVENT = re.compile(r"(?:-!-|\*\*\*|===) (.*)", re.DOTALL)
_NOTICE = re.compile(r"-([^\s:]{1,100})(?::[^\s-]\S*)?- (.*)", re.DOTALL)
_DOES = re.compile(r"(\S{1,100}) (.+)", re.DOTALL)
_LOG = re.compile(
    r"--- (?P<what>Log opened|Log closed|Day changed)(?: for (?P<channel>\S+))?"
    r" \w{3} (?P<month>[A-Z][a-z]{2}) +(?P<day>\d\d?)(?: \d\d:\d\d:\d\d)? (?P<year>\d{4})",
    re.ASCII,
)
# Ubuntu's logs write "===" before actions and events alike; only the words tell them apart.
_HAPPENED = re.compile(
    r"\S+ is now known as \S+"
    r"|\S+ +\[\S*\] +has (?:joined|left|quit)\b.*"
    r"|\S+ (?:has (?:joined|left|quit|set|changed)|was kicked|sets mode|changed the topic)\b.*"
    r"|(?:Topic|mode|Mode|ServerMode|Netsplit)\b.*",
    re.DOTALL,
)
_MEMBER = re.compile(
    r"is now known as|joined|left (?:#|the channel|IRC)|has (?:left|quit)|parted|kicked"
    r"|^(?:Netsplit|Joins|Parts|Quits)\b"
)
# A day in a file's name: "-20130901", "2004-11-15", and an hour behind it: "2004-11-15_03".
_NAMED = re.compile(
    r"(?<!\d)[-_.]?(?P<year>(?:19|20)\d\d)([-_.]?)(?P<month>\d\d)\2(?P<day>\d\d)"
    r"(?:_(?P<hour>[01]\d|2[0-3]))?(?!\d)",
    re.ASCII,
)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def tells_of_members(text: str) -> bool:
    """Whether an event is about who is in the channel, and under which name."""
    return _MEMBER.search(text[:1000]) is not None


def parse(line: str) -> Line | None:
    """What a line says; None where it is no line of a log."""
    if line.startswith("==="):
        return _unstamped(line)
    if line.startswith("--- "):
        return _of_the_log(line)
    if found := _WEECHAT.fullmatch(line):
        return _columns(found)
    elif found := _INSTANT.match(line):
        stamp = _instant(*found.groups())
        if stamp is not None:
            return _behind(stamp, line[found.end() :], is_open=True)
    elif found := _CLOCK.match(line):
        clock = _clock(*found.groups()[1:])
        if clock is not None:
            return _behind(Stamp(clock), line[found.end() :], is_open=bool(found[1]))
    return None


def _behind(stamp: Stamp, text: str, *, is_open: bool) -> Line | None:
    """What stands behind a stamp; in an open form all that is no saying is an event."""
    if found := _MESSAGE.fullmatch(text):
        return Line(What.MESSAGE, stamp, found[1], found[2] or "")
    if found := _EVENT.fullmatch(text):
        return Line(What.SYSTEM, stamp, text=found[1])
    if found := _ACTION.fullmatch(text) or _BULLET.fullmatch(text):
        return Line(What.ACTION, stamp, found[1], found[2] or "")
    if found := _NOTICE.fullmatch(text):
        return Line(What.NOTICE, stamp, found[1], found[2])
    if is_open and text.strip():
        return Line(What.SYSTEM, stamp, text=text, is_certain=stamp.instant is not None)
    return None


def _unstamped(line: str) -> Line | None:
    found = _EVENT.fullmatch(line)
    if found is None:
        return None
    if _HAPPENED.fullmatch(found[1]):
        return Line(What.SYSTEM, None, text=found[1])
    if does := _DOES.fullmatch(found[1]):
        return Line(What.ACTION, None, does[1], does[2], is_certain=False)
    return Line(What.SYSTEM, None, text=found[1], is_certain=False)


def _columns(found: re.Match[str]) -> Line | None:
    """WeeChat's three columns: stamp, nick or mark, text."""
    *numbers, prefix, text = found.groups()
    year, month, on, hour, minute, second = numbers
    day, clock = _day(year, month, on), _clock(hour, minute, second)
    if day is None or clock is None:
        return None
    stamp = Stamp(clock, day)
    match prefix.strip():
        case "*":
            does = _DOES.fullmatch(text)
            return Line(What.ACTION, stamp, does[1], does[2]) if does else None
        case "-->" | "<--" | "--" | "=!=" | "":
            # A notice is shown among WeeChat's own lines, and counted as one of them.
            return Line(What.SYSTEM, stamp, text=text)
        case nick:
            return Line(What.MESSAGE, stamp, (nick.lstrip(MODES) or nick)[:100], text)


def _of_the_log(line: str) -> Line | None:
    found = _LOG.match(line)
    if found is None or found["month"] not in _MONTHS:
        return None
    day = _day(found["year"], str(_MONTHS.index(found["month"]) + 1), found["day"])
    if day is None:
        return None
    what = What.CLOSED if found["what"] == "Log closed" else What.DAY
    return Line(what, Stamp(time(), day), channel=found["channel"] or "")


def _instant(day: str, clock: str, zone: str | None) -> Stamp | None:
    try:
        written = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone == 'Z' else zone or ''}")
        return Stamp(written.time(), written.date(), written.astimezone(UTC) if zone else None)
    except (ValueError, OverflowError):
        return None


def _day(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def _clock(hour: str, minute: str, second: str | None) -> time | None:
    try:
        return time(int(hour), int(minute), int(second or 0))
    except ValueError:
        return None


def day_of(name: str) -> tuple[date, int | None] | None:
    """The day a file's name tells, and the hour where one stands behind it.

    >>> day_of("2004-11-15_03")
    (datetime.date(2004, 11, 15), 3)
    """
    for found in _NAMED.finditer(name):
        day = _day(found["year"], found["month"], found["day"])
        if day is not None:
            return day, int(found["hour"]) if found["hour"] else None
    return None


def without_day(name: str) -> str:
    """The name without its day, so that the logs of many days are one conversation."""
    return _NAMED.sub("", name).strip("-_. ")
