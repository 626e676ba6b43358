"""The number that says which of two holders is the later one.

Whoever shows a number that is not the newest sets nothing back.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def following(fence: int | None, now: datetime) -> int:
    """The next fence; where no row is left that knows the last one, the time in microseconds.

    What was removed and made again does not begin at 1 once more, for somebody may still hold a
    number of the row that was.

    >>> following(7, datetime.now(UTC)), following(None, datetime(2026, 1, 1, tzinfo=UTC))
    (8, 1767225600000000)
    """
    return (now - _EPOCH) // timedelta(microseconds=1) if fence is None else fence + 1
