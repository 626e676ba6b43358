"""The bounds of DESIGN section 3 in one value, so that a test or an operator may narrow them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes in bytes or entries, times as spans."""

    wake_within: timedelta = timedelta(hours=1)
    max_hops: int = 8
    max_bot_wakes: int = 8
    max_wakes: int = 16
    hold_entries: int = 10_000
    hold_bytes: int = 64 * 1024 * 1024
    lease: timedelta = timedelta(minutes=10)
    gate: timedelta = timedelta(minutes=15)
    text_bytes: int = 4 * 1024 * 1024
    metadata_bytes: int = 64 * 1024
    attachments: int = 100
    page: int = 100
    max_page: int = 500
    guests: int = 500
    guest_text_bytes: int = 16 * 1024
    chunk: int = 1_000


LIMITS = Limits()


def clamp(limit: int | None, limits: Limits = LIMITS) -> int:
    """A page's size: absent or 0 is the default, over the maximum is the maximum.

    >>> clamp(None), clamp(0), clamp(7), clamp(9_999)
    (100, 100, 7, 500)
    """
    if limit is None or limit <= 0:
        return limits.page
    return min(limit, limits.max_page)
