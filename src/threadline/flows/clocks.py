"""Times of day on people's clocks, which twice a year skip an hour or repeat one."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from threadline.core.errors import InvalidInput
from threadline.core.sends import Repeat

_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
DAYS = 3


def checked_repeat(repeat: Repeat) -> None:
    """Raise `InvalidInput` for what is no time of day or no zone."""
    if not _TIME.fullmatch(repeat.at):
        raise InvalidInput("repeat.at is a time of day such as 08:30.", field="repeat")
    _zone(repeat.zone)


def next_of(repeat: Repeat, after: datetime) -> datetime:
    """The first instant after this one at which a daily send is due, once per local date.

    A time that the clocks skip is the first instant that exists after it; of a time that comes
    twice it is the first one.

    >>> spring = datetime(2026, 3, 28, 12, tzinfo=UTC)
    >>> next_of(Repeat(at="02:30", zone="Europe/Berlin"), spring).isoformat()
    '2026-03-29T01:00:00+00:00'
    """
    zone = _zone(repeat.zone)
    hour, minute = map(int, repeat.at.split(":"))
    first = after.astimezone(zone).date() - timedelta(days=1)
    for day in range(DAYS + 1):
        local = datetime.combine(first + timedelta(days=day), time(hour, minute))
        at = _instant(local, zone)
        if at > after:
            return at
    raise AssertionError("every day has this time or one after it")


def _instant(local: datetime, zone: ZoneInfo) -> datetime:
    """The instant of a local time, or the first one after the gap it lies in."""
    there = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if there.astimezone(zone).replace(tzinfo=None) == local:
        return there
    # Clocks skip by at most a few hours; the first minute that exists again ends the gap.
    low = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    while low.astimezone(zone).replace(tzinfo=None) < local:
        low += timedelta(minutes=1)
    return low


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            f"{name!r} is no time zone; write one such as Europe/Berlin.", field="repeat"
        ) from None
