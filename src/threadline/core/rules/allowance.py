"""How often something may be written first: exact over a sliding window, reserved and refunded.

Every reservation is remembered with its time, so a window is exact: the limit frees when the oldest
one in it becomes older than the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

from threadline.core.errors import InvalidInput

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
HIGHEST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowances:
    """How many sends are allowed in a sliding window; 0 is unlimited."""

    recipient_per_hour: int = 5
    recipient_per_day: int = 20
    session_per_hour: int = 200
    session_per_day: int = 0
    account_per_hour: int = 1_000
    account_per_day: int = 0

    def of(self, subject: str) -> tuple[tuple[str, timedelta, int], ...]:
        """The limits of one kind of subject: name, window, number."""
        hour, day = f"{subject}_per_hour", f"{subject}_per_day"
        return (hour, HOUR, getattr(self, hour)), (day, DAY, getattr(self, day))


STANDARD = Allowances()
NAMES = tuple(one.name for one in fields(Allowances))


def changed(before: Allowances, given: Mapping[str, Any]) -> Allowances:
    """Allowances with some numbers changed. Raises `InvalidInput` for what is no limit."""
    for name, value in given.items():
        if name not in NAMES:
            raise InvalidInput(f"{name!r} is no limit; there are {', '.join(NAMES)}.", field=name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= HIGHEST:
            raise InvalidInput(
                f"{name} is a whole number from 0 (unlimited) to {HIGHEST}.", field=name
            )
    return replace(before, **dict(given))


def read(value: Mapping[str, Any]) -> Allowances:
    """Allowances as they are stored. Raises `InvalidInput`, so that nothing passes unlimited."""
    return changed(STANDARD, value)


def written(allowances: Allowances) -> dict[str, int]:
    """Allowances as they are stored."""
    return asdict(allowances)


@dataclass(frozen=True, slots=True)
class Quota:
    """The reservations of one subject, oldest first: microseconds since 1970, and whose it is."""

    taken: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Over:
    """A limit that is reached, and when it frees."""

    name: str
    limit: int
    frees_at: datetime


def over(
    quota: Quota, limits: tuple[tuple[str, timedelta, int], ...], now: datetime, epoch: datetime
) -> Over | None:
    """The limit that one more would pass, the one that frees last; None where it is allowed."""
    found: Over | None = None
    micro = timedelta(microseconds=1)
    here = (now - epoch) // micro
    for name, window, limit in limits:
        if not limit:
            continue
        since = here - window // micro
        inside = [at for at, _ in quota.taken if at > since]
        if len(inside) < limit:
            continue
        frees = epoch + (inside[len(inside) - limit] + window // micro) * micro
        if found is None or frees > found.frees_at:
            found = Over(name, limit, frees)
    return found


def reserve(quota: Quota, mark: int, now: datetime, epoch: datetime) -> Quota:
    """One more; what no window reaches any more is forgotten."""
    micro = timedelta(microseconds=1)
    here = (now - epoch) // micro
    since = here - DAY // micro
    kept = [one for one in quota.taken if one[0] > since]
    return Quota((*kept[-(HIGHEST - 1) :], (here, mark)))


def joined(quota: Quota, other: Quota) -> Quota:
    """What two subjects that turn out to be one had reserved, each once."""
    both = sorted({*quota.taken, *other.taken})
    return Quota(tuple(both[-HIGHEST:]))


def refund(quota: Quota, mark: int) -> Quota:
    """Without what this one had reserved."""
    return Quota(tuple(one for one in quota.taken if one[1] != mark))
