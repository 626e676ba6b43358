"""When a WhatsApp entry was written: the header of a line, and the order of day and month.

The phone writes dates as its owner likes them and does not say how. So the order is judged over
the whole file: a value that can be no month, then which reading runs forward in small steps, and
at last how the date is written. An order that a person names overrides all of this.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time
from typing import NamedTuple

from threadline.core.errors import InvalidInput

MARKS = "\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ufeff"
YEARS = range(1990, 2100)
ORDERS = {"dmy": (0, 1, 2), "mdy": (1, 0, 2), "ymd": (2, 1, 0)}

_FORENOON = frozenset(["am", "ص", "πμ", "午前", "上午", "凌晨", "早上", "清晨", "오전"])
_AFTERNOON = frozenset(["pm", "م", "μμ", "午後", "下午", "中午", "晚上", "오후"])

# Never without a bound: a line of marks alone would else be tried in every division.
_M = f"[{MARKS}]{{0,4}}"
_S = "[ \u00a0\u2009\u202f]"
_HEADER = re.compile(
    rf"{_M}(?P<ios>\[)?{_M}(?P<a>\d{{1,4}}){_M}(?P<sep>[./-]){_S}?{_M}(?P<b>\d\d?){_M}(?P=sep)"
    rf"{_S}?{_M}(?P<c>\d{{1,4}}){_M}\.?[,،]?{_S}{{1,4}}{_M}"
    # "klo 8.01", "kl. 8.01", "오후 3:04", "下午3:04"
    rf"(?:(?P<before>[^\W\d_][^\d\[\]]{{0,11}}?){_S}{{0,4}})?"
    r"(?P<hour>\d\d?)[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d))?"
    rf"(?:{_S}{{0,4}}(?P<after>[AaPp]\.?{_S}?[Mm]\.?|[ΠΜπμ]\.{_S}?[Μμ]\.|[صم]))?{_M}"
    rf"(?(ios)\]{_S}?|{_S}[-–]{_S})"
)
_DOTS = re.compile(rf"{_S}|\.")
_MARK = re.compile(f"[{MARKS}]")


def unmarked(text: str) -> str:
    """The text without the marks of direction that WhatsApp puts between its parts."""
    return text if text.isascii() else _MARK.sub("", text)


class Written(NamedTuple):
    """A date as it stands in the file: three numbers, and how they are written."""

    numbers: tuple[int, int, int]
    separator: str
    is_padded: bool
    has_short_year: bool
    has_upper_half: bool

    @property
    def label(self) -> str:
        """The date in one form for all phones, whatever its order means."""
        a, b, c = self.numbers
        return f"{a}/{b}/{c + 2000 if c < 100 and a < 100 else c}"


class Header(NamedTuple):
    """The beginning of an entry: its date as written, its clock, and what follows."""

    written: Written
    clock: time
    is_ios: bool
    rest: str


def header(line: str) -> Header | None:
    """The header a line begins with, or None: then it continues the entry before."""
    found = _HEADER.match(line)
    if found is None:
        return None
    ios, a, separator, b, c, before, hour, minute, second, after = found.groups()
    half = before or after
    clock = _hour(int(hour), half) if half else int(hour), int(minute), int(second or 0)
    if clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        return None
    numbers = int(a), int(b), int(c)
    written = Written(
        numbers,
        separator,
        (len(a) == 2 and numbers[0] < 10) or (len(b) == 2 and numbers[1] < 10),
        len(c) < 3 and len(a) < 3,
        after in ("AM", "PM"),
    )
    return Header(written, time(*clock), ios is not None, line[found.end() :])


def _hour(hour: int, half: str) -> int:
    half = half.casefold() if half.isalpha() else _DOTS.sub("", half).casefold()
    if half in _AFTERNOON:
        return hour + 12 if hour < 12 else hour
    return 0 if half in _FORENOON and hour == 12 else hour


def day(written: Written, order: str) -> date | None:
    """The day that is meant, or None where there is no such day."""
    on, month, year = (written.numbers[place] for place in ORDERS[order])
    if year < 100 and written.has_short_year:
        year += 2000
    if year not in YEARS:
        return None
    try:
        return date(year, month, on)
    except ValueError:
        return None


class Calendar:
    """The local times of entries, in one order. Most entries have the day of the one before."""

    def __init__(self, order: str) -> None:
        self.order = order
        self._written: Written | None = None
        self._day: date | None = None

    def moment(self, header: Header) -> datetime | None:
        """When an entry was written, without a zone; None where there is no such day."""
        if header.written != self._written:
            self._written = header.written
            self._day = day(header.written, self.order)
        return None if self._day is None else datetime.combine(self._day, header.clock)


class _Reading:
    """How well one order fits the dates of a file."""

    def __init__(self) -> None:
        self.impossible = 0
        self.backward = 0
        self.first: date | None = None
        self.last: date | None = None
        self._before: date | None = None

    def see(self, on: date | None) -> None:
        if on is None:
            self.impossible += 1
            return
        # One day back is a clock set back at midnight.
        if self._before is not None and (self._before - on).days > 1:
            self.backward += 1
        self._before = on
        self.first = on if self.first is None or on < self.first else self.first
        self.last = on if self.last is None or on > self.last else self.last

    @property
    def span(self) -> int:
        return (self.last - self.first).days if self.first and self.last else 0


class DateOrder:
    """The judge of day and month over a whole file. `see` every date, then `decide` once."""

    def __init__(self) -> None:
        self._readings = {order: _Reading() for order in ORDERS}
        self._before: Written | None = None
        self._changes = 0
        self._is_ambiguous = False
        self._looks_american = True

    def see(self, written: Written) -> None:
        if written == self._before:
            return
        self._before = written
        self._changes += 1
        for order, reading in self._readings.items():
            reading.see(day(written, order))
        self._is_ambiguous |= day(written, "dmy") != day(written, "mdy")
        self._looks_american &= (
            written.separator == "/"
            and written.has_short_year
            and written.has_upper_half
            and not written.is_padded
        )

    def decide(self, given: str | None) -> tuple[str, str]:
        """The order, and what settled it: `given`, `values`, `sequence` or (a guess) `form`."""
        if given is not None:
            if given not in ORDERS:
                raise InvalidInput(
                    f"date_order {given!r} is unknown; use one of: {', '.join(ORDERS)}.",
                    value=given,
                )
            return given, "given"
        dmy, mdy, ymd = (self._readings[order] for order in ORDERS)
        if ymd.impossible < min(dmy.impossible, mdy.impossible):
            return "ymd", "values"
        if dmy.impossible != mdy.impossible:
            return _smaller(dmy.impossible, mdy.impossible), "values"
        if not self._is_ambiguous:
            return "dmy", "values"
        if dmy.backward != mdy.backward:
            return _smaller(dmy.backward, mdy.backward), "sequence"
        # People talk on days that follow each other; read wrongly these are months apart.
        if self._changes > 2 and max(dmy.span, mdy.span) > 5 * min(dmy.span, mdy.span):
            return _smaller(dmy.span, mdy.span), "sequence"
        return "mdy" if self._looks_american else "dmy", "form"


def _smaller(dmy: int, mdy: int) -> str:
    return "dmy" if dmy < mdy else "mdy"
