"""Who fetches the events of an account, and how far it has come.

One owner an account across all nodes, under a lease with a fence: a cursor that comes under an
older fence is refused, so whoever was asleep and wakes up sets nothing back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from threadline.core.errors import StaleToken
from threadline.core.fences import following
from threadline.core.quick import quick

LEASE: Final = timedelta(seconds=30)
MAX_CURSOR: Final = 64 * 1024


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """The listener of an account. `owner` is the node that has it until `leased_until`.

    `cursor` is where the provider goes on, in its own words. `trouble` is why nothing is heard,
    in words for a person, since `trouble_at`; `heard_at` is the last time something was fetched.
    """

    owner: str = ""
    fence: int = 0
    leased_until: datetime | None = None
    cursor: str | None = None
    heard_at: datetime | None = None
    trouble: str = ""
    trouble_at: datetime | None = None


def is_taken(row: Listening, owner: str, now: datetime) -> bool:
    """Whether another node has it."""
    return bool(
        row.owner and row.owner != owner and row.leased_until is not None and now < row.leased_until
    )


def taken(row: Listening | None, owner: str, now: datetime) -> Listening | None:
    """The lease for `owner`, or None while another node's holds."""
    fence = following(None if row is None else row.fence, now)
    row = row or Listening()
    if is_taken(row, owner, now):
        return None
    return replace(row, owner=owner, fence=fence, leased_until=now + LEASE)


def held(row: Listening | None, fence: int, now: datetime) -> Listening:
    """The lease made longer. Raises `StaleToken` once another node has it."""
    if row is None or row.fence != fence:
        raise StaleToken("another node listens to this account by now.")
    return replace(row, leased_until=now + LEASE)
