"""A clock that stands still until it is moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class StillClock:
    """Give it to a store as `clock`; every story then sees the time a test chose.

    >>> clock = StillClock()
    >>> clock()
    datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
    >>> clock.move(minutes=90)
    datetime.datetime(2026, 1, 1, 1, 30, tzinfo=datetime.timezone.utc)
    """

    def __init__(self, at: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at

    def move(self, **by: float) -> datetime:
        """Move on by `days=`, `hours=`, `minutes=`, `seconds=`; negative numbers move back."""
        self.at += timedelta(**by)
        return self.at
