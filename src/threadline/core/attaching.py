"""Who runs a session's agent, and what each of its runs was started for.

One attach a session: a lease with a fence. A run is written down before it starts, with the records
it is about. Whoever finds it after a crash does the same run again, or sees that it was answered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from threadline.core.errors import AlreadyAttached, AttachmentLost, InvalidInput
from threadline.core.quick import quick

LEASE_SECONDS: Final = 30.0
MIN_SECONDS: Final = 5.0
MAX_SECONDS: Final = 3600.0
MAX_WORD: Final = 200


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who runs the agent of `session`. `holder` tells one attach from another and is a secret of
    the holder's; `name` is what others are shown. The fence rises whenever it changes hands."""

    session: int
    holder: str
    name: str
    fence: int
    expires_at: datetime


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the agent about the records `first` to `last` of a conversation."""

    conversation: int
    session: int
    first: int
    last: int
    began_at: datetime
    starts: int = 1
    failures: int = 0


def checked_word(text: str, field: str) -> str:
    """A holder or its name. Raises `InvalidInput`."""
    if not (0 < len(text) <= MAX_WORD and text.isprintable()):
        raise InvalidInput(f"{field} has 1 to {MAX_WORD} printable characters.", field=field)
    return text


def take(
    lease: Lease | None, session: int, holder: str, name: str, seconds: float, now: datetime
) -> Lease:
    """The lease for whoever asks first, or again after a crash; or once it ran out.

    Raises `AlreadyAttached` with who holds it and until when.
    """
    if lease is not None and lease.holder != holder and now < lease.expires_at:
        raise AlreadyAttached(
            f"{lease.name} runs this session's agent until {lease.expires_at:%Y-%m-%d %H:%M:%S} "
            "UTC, and longer while it lives. Stop it there, or wait until then.",
            holder=lease.name,
            until=lease.expires_at,
        )
    return Lease(
        session=session,
        holder=holder,
        name=name,
        fence=1 if lease is None else lease.fence + 1,
        expires_at=now + timedelta(seconds=seconds),
    )


def renew(lease: Lease | None, fence: int, seconds: float, now: datetime) -> Lease:
    """A longer lease. One that ran out and that nobody took is still its holder's."""
    return replace(held(lease, fence), expires_at=now + timedelta(seconds=seconds))


def held(lease: Lease | None, fence: int) -> Lease:
    """The lease, if this fence is its newest. Raises `AttachmentLost`."""
    if lease is None or lease.fence != fence:
        name = "nobody" if lease is None else lease.name
        raise AttachmentLost(f"by now it is run by {name}.", holder=name)
    return lease


def begin(run: Run | None, fresh: Run, *, cursor: int, head: int, failures: int) -> Run:
    """The run to do: the open one with its own records, else the fresh one.

    A run is open until its records are acknowledged, so `cursor` alone says whether it is. Raises
    `InvalidInput` for records that are none, or are acknowledged.
    """
    if run is not None and run.last > cursor:
        return replace(run, starts=run.starts + 1, failures=max(run.failures, failures))
    if not cursor < fresh.first <= fresh.last <= head:
        raise InvalidInput(
            "a run is about records behind the cursor and up to the head.",
            cursor=cursor,
            head=head,
        )
    return fresh


def key_of(conversation: str, first: int) -> str:
    """Under which key a run's reply is said, once whoever runs it how often."""
    return f"attach/{conversation}/{first}"
