"""Logs of IRC channels: irssi, WeeChat, EnergyMech, Textual, ZNC, and those Ubuntu publishes.

Two readings of each file. The first takes the clocks: a log of bare times may run over midnight,
or on a clock of twelve hours that says neither forenoon nor afternoon. The second says the lines.
A line without a stamp has the time of the one before.

The day is the line's own, or that of the last "Log opened" or "Day changed", or the one in the
file's name; where there is none, the messages have no time and keep their clock in the metadata.
The conversation is called as the file is, without the day: the logs of many days are one
conversation. Of a single file only the channel is taken from a name that holds one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from threadline.archives.irc_lines import (
    Line,
    Stamp,
    What,
    day_of,
    parse,
    tells_of_members,
    without_day,
)
from threadline.archives.lines import MAX_LINE, Ids, clean, head, numbered, stem
from threadline.core.archive import Account, Ended, Item, Options, Place, Source, Tally, broken
from threadline.core.model import (
    Actor,
    ConversationRef,
    Direction,
    Event,
    InboundMessage,
    Kind,
)

IRC = Actor("irc", "IRC", is_bot=True)
HALF = 12 * 3600
# A clock that goes back further was not set back, it went round.
SET_BACK = 3600

_ENDINGS = (".log", ".txt", ".weechatlog")
_TIMELESS = "times that neither the log nor its name tells in full"


def _seconds(clock: time) -> int:
    return clock.hour * 3600 + clock.minute * 60 + clock.second


@dataclass(slots=True)
class _Clocks:
    """What the bare times of a whole file tell: whether twelve or twenty-four hours go round."""

    channel: str = ""
    lines: int = 0
    first: int | None = None
    elapsed: int = 0
    _hours: set[int] = field(default_factory=set)
    _before: time | None = None
    _passed_one: bool = False

    def see(self, line: Line) -> None:
        self.lines += 1
        self.channel = self.channel or line.channel
        if line.what in (What.DAY, What.CLOSED) or line.stamp is None or line.stamp.day:
            return
        clock, before = line.stamp.clock, self._before or line.stamp.clock
        self._hours.add(clock.hour)
        self._passed_one |= before.hour == 12 and clock.hour == 1
        self.first = _seconds(clock) % HALF if self.first is None else self.first
        step = (_seconds(clock) - _seconds(before) + SET_BACK) % HALF - SET_BACK
        self.elapsed += step
        self._before = clock

    @property
    def is_half(self) -> bool:
        """Whether one o'clock follows twelve, and no hour is written that only a full day has."""
        return self._passed_one and self._hours <= set(range(1, 13))

    def half(self, hour: int | None) -> int | None:
        """The half of the day in which the file is at this hour; None where both or none fit."""
        if hour is None or self.first is None:
            return None
        fits = [
            half
            for half in (0, 1)
            if (self.first + half * HALF) // 3600
            <= hour
            <= (self.first + half * HALF + self.elapsed) // 3600
        ]
        return fits[0] if len(fits) == 1 else None


class _Calendar:
    """The times of one file's lines, in the order they are written."""

    def __init__(self, day: date | None, zone: tzinfo, *, is_half: bool, half: int | None) -> None:
        self._zone = zone
        self._is_half = is_half
        self._half = half
        self._begin(day)

    def _begin(self, day: date | None) -> None:
        self._day = day
        self._before: int | None = None
        self._turns = self._rounds = 0
        self.label, self.clock = (day.isoformat() if day else ""), ""
        self.at: datetime | None = None

    def begin(self, day: date) -> None:
        """A new day, as the log says itself."""
        self._begin(day)
        self._half = None

    def go(self, stamp: Stamp | None) -> None:
        """Move to a line. `label` and `clock` are its time as written, `at` is what is meant."""
        if stamp is None:
            return
        self.clock = stamp.clock.isoformat()
        if stamp.day is not None:
            self.label = stamp.day.isoformat()
            self.at = stamp.instant or self._aware(stamp.day, stamp.clock)
        else:
            self._go_on(stamp.clock)

    def _go_on(self, clock: time) -> None:
        now = _seconds(clock)
        before = now if self._before is None else self._before
        if self._before is None and self._is_half:
            self._rounds = now // HALF if self._half is None else self._half
        self._before = now
        # The label counts what is seen up to here only: a longer export gives the same ids.
        self._turns += before - now > SET_BACK
        self.label = f"{self._day or ''}+{self._turns}"
        if not self._is_half:
            self.at = self._aware(self._day, clock, self._turns)
            return
        self._rounds += before % HALF - now % HALF > SET_BACK
        days, half = divmod(self._rounds, 2)
        seconds = now % HALF + half * HALF
        meant = time(seconds // 3600, seconds // 60 % 60, seconds % 60)
        self.at = self._aware(self._day, meant, days)

    def _aware(self, day: date | None, clock: time, later: int = 0) -> datetime | None:
        if day is None:
            return None
        try:
            local = datetime.combine(day, clock, self._zone) + timedelta(days=later)
            return local.astimezone(UTC)
        except OverflowError:
            return None


class IrcLog:
    """Plain logs of channels, one file or a folder of many days and channels."""

    format = "IRC log"

    def recognises(self, source: Source) -> bool:
        return any(_is_log(source, name) for name in _candidates(source)[:16])

    def read(
        self, source: Source, account: Account, options: Options, tally: Tally
    ) -> Iterator[Item]:
        names = [name for name in _candidates(source) if _is_log(source, name)]
        if not names:
            raise broken(source.title, "too few lines here are as those of an IRC log are.")
        files: dict[str, list[str]] = {}
        for name in names:
            files.setdefault(_called(source, name), []).append(name)
        if len(files) > 1 and (options.conversation or options.title):
            raise broken(source.title, f"these are {len(files)} channels; one name is not enough.")
        for conversation, parts in files.items():
            seen = {name: _survey(source, name) for name in parts}
            if options.conversation:
                conversation = options.conversation
            elif len(names) == 1:
                conversation = seen[names[0]].channel or _channel(conversation)
            log = _Log(source, account.ref(conversation, kind=Kind.ROOM), options, tally)
            yield from log.read(conversation, seen)
            yield Ended(log.ref)


@dataclass(slots=True)
class _Log:
    """The maker of messages of one channel, and the only maker of their ids."""

    source: Source
    ref: ConversationRef
    options: Options
    tally: Tally
    ids: Ids = field(default_factory=Ids)

    def read(self, title: str, seen: dict[str, _Clocks]) -> Iterator[Item]:
        metadata = {
            "zone": str(self.options.zone or UTC),
            "clock": "12 h" if any(clocks.is_half for clocks in seen.values()) else "24 h",
        }
        yield Place(self.ref, self.options.title or title, metadata=metadata)
        begins = self.options.date
        for name, clocks in seen.items():
            yield from self._file(name, clocks, begins.date() if begins else None)
            # The day a person names is that of the first file.
            begins = None

    def _file(self, name: str, clocks: _Clocks, given: date | None) -> Iterator[InboundMessage]:
        day, hour = day_of(stem(name)) or (None, None)
        calendar = _Calendar(
            given or day,
            self.options.zone or UTC,
            is_half=clocks.is_half,
            half=None if given else clocks.half(hour),
        )
        with self.source.open(name) as stream:
            for number, data, is_whole in numbered(stream):
                text = decoded(data)
                line = parse(text)
                if line is None:
                    if text.strip():
                        self.tally.problem(f"{name}: line {number}", "this is no line of a log.")
                    continue
                if not is_whole:
                    what = f"the line is longer than {MAX_LINE} bytes and was cut."
                    self.tally.problem(f"{name}: line {number}", what)
                if line.what is What.DAY and line.stamp and line.stamp.day:
                    calendar.begin(line.stamp.day)
                elif line.what is not What.CLOSED:
                    calendar.go(line.stamp)
                    yield self._tell(line, calendar)

    def _tell(self, line: Line, calendar: _Calendar) -> InboundMessage:
        metadata: dict[str, object] = {}
        at = calendar.at
        if at is None:
            self.tally.skipped[_TIMELESS] += 1
            if calendar.clock:
                metadata["clock"] = calendar.clock
        is_self = bool(line.nick) and line.nick == self.options.self_id
        actor = Actor(line.nick, line.nick, is_self=is_self) if line.nick else IRC
        event = Event.MESSAGE
        match line.what:
            case What.SYSTEM:
                self.tally.counts["system"] += 1
                event = Event.MEMBER if tells_of_members(line.text) else Event.NOTICE
            case What.NOTICE:
                self.tally.counts["notices"] += 1
                event = Event.NOTICE
            case _:
                self.tally.heard(line.nick, at)
        if line.what is What.ACTION:
            self.tally.counts["actions"] += 1
            metadata["action"] = True
        said = f"{line.what.value} {line.text}"
        return InboundMessage(
            conversation=self.ref,
            text=line.text,
            actor=actor,
            message_id=self.ids.make(calendar.label, calendar.clock, line.nick, said),
            direction=Direction.OUTBOUND if is_self else Direction.INBOUND,
            event=event,
            sent_at=at,
            metadata=metadata,
        )


def decoded(data: bytes) -> str:
    """The text of a line. Channels mix encodings, so each line is judged by itself."""
    for encoding in ("utf-8", "cp1252"):
        try:
            return clean(data.decode(encoding))
        except UnicodeDecodeError:
            continue
    return clean(data.decode("latin-1"))


def _survey(source: Source, name: str) -> _Clocks:
    clocks = _Clocks()
    with source.open(name) as stream:
        for _, data, _ in numbered(stream):
            if (line := parse(decoded(data))) is not None:
                clocks.see(line)
    return clocks


def _candidates(source: Source) -> list[str]:
    names = source.names()
    return names if len(names) == 1 else [each for each in names if each.lower().endswith(_ENDINGS)]


def _is_log(source: Source, name: str) -> bool:
    """Whether the first line is one of a log, nearly all of the next, and half without doubt."""
    lines = [parse(decoded(each.rstrip(b"\r"))) for each in head(source, name)[:50]]
    if not lines or lines[0] is None:
        return False
    parsed = [line for line in lines if line is not None]
    certain = sum(line.is_certain for line in parsed)
    return len(parsed) * 5 >= len(lines) * 4 and certain * 2 >= len(lines)


def _called(source: Source, name: str) -> str:
    """What a file's channel is called: its folders and its name, without the day."""
    folders, _, _ = name.rpartition("/")
    parts = [clean(folders), without_day(stem(name))]
    called = "/".join(part for part in parts if part.strip())
    return called or without_day(stem(source.title)).strip() or stem(name).strip() or "irc"


def _channel(called: str) -> str:
    """The channel in a name that holds one, like that of a WeeChat log."""
    _, mark, channel = called.rpartition("/")[2].partition("#")
    return mark + channel if channel.strip() else called
