"""Import windows: who may import, where it writes, what waits meanwhile, and how it ends.

`live_only | complete | failed → pending → complete | failed`. A window has an owner, a fencing
token and a lease that each call renews; a gated one also a hard end. Past either it fails with the
reason; a late `complete` is refused. Closing a gated window, either way, first settles who joined
meanwhile and drains what waited; the last chunk's transaction flips the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from threadline.core.errors import (
    HistorySwept,
    HydrationConflict,
    HydrationPending,
    StaleToken,
)
from threadline.core.model import (
    LOCAL_PROVIDERS,
    About,
    Conversation,
    History,
    Hydration,
    Window,
    WindowMode,
)
from threadline.core.rules.limits import Limits
from threadline.core.rules.membership import merged


def is_gated(conversation: Conversation) -> bool:
    """Whether live traffic waits and members read nothing."""
    window = conversation.about.window
    return window is not None and window.mode is WindowMode.GATED


def is_over(window: Window, now: datetime) -> str:
    """Why an open window ended by itself; empty while it has not."""
    if window.closing is not None:
        return ""
    if window.ends_at is not None and now >= window.ends_at:
        return "the import took longer than a gated window may"
    if now >= window.lease_expires_at:
        return f"the importer {window.owner!r} went silent"
    return ""


def history(conversation: Conversation) -> tuple[History, str]:
    """How much of the past the transcript holds, and why not more."""
    about = conversation.about
    if conversation.earliest_sequence > conversation.lowest_sequence:
        return History.PARTIAL, "retention removed the beginning"
    match about.hydration:
        case Hydration.COMPLETE:
            return History.COMPLETE, ""
        case Hydration.FAILED:
            return History.PARTIAL, about.reason or "the import failed"
        case Hydration.PENDING:
            return History.PARTIAL, "an import is under way"
        case Hydration.LIVE_ONLY:
            local = conversation.ref.provider in LOCAL_PROVIDERS
            return (History.COMPLETE if local else History.NONE), ""


def refuse_gated(conversation: Conversation) -> None:
    """Raise `HydrationPending` while a gated import hides the conversation."""
    window = conversation.about.window
    if window is not None and window.mode is WindowMode.GATED:
        raise HydrationPending(
            f"(owner {window.owner!r}, until {window.lease_expires_at.isoformat()})",
            owner=window.owner,
            until=window.lease_expires_at.isoformat(),
        )


def begin(
    conversation: Conversation,
    *,
    owner: str,
    token: str,
    mode: WindowMode | None,
    now: datetime,
    limits: Limits,
    metadata: Mapping[str, Any] | None = None,
) -> About:
    """Open a window, or give the owner its open one again.

    Raises `HydrationPending` while another imports, `HistorySwept` where nothing can be put in
    front any more.
    """
    about = conversation.about
    window = about.window
    if window is not None:
        if window.closing is None and window.owner == owner and mode in (None, window.mode):
            return replace(about, window=renewed(window, now, limits))
        raise HydrationPending(
            f"(owner {window.owner!r}, until {window.lease_expires_at.isoformat()})",
            owner=window.owner,
            until=window.lease_expires_at.isoformat(),
        )
    if mode is None and about.hydration is Hydration.FAILED:
        mode = about.last_mode
    if mode is None:
        mode = WindowMode.PREPENDING if about.has_live else WindowMode.GATED
    swept = conversation.earliest_sequence > conversation.lowest_sequence
    if mode is WindowMode.PREPENDING and swept:
        raise HistorySwept(earliest=conversation.earliest_sequence)
    number = about.windows + 1
    opened = Window(
        number=number,
        token=token,
        owner=owner,
        mode=mode,
        began_at=now,
        lease_expires_at=now + limits.lease,
        ends_at=now + limits.gate if mode is WindowMode.GATED else None,
        metadata=merged({}, metadata),
    )
    return replace(about, hydration=Hydration.PENDING, window=opened, windows=number, reason="")


def renewed(window: Window, now: datetime, limits: Limits) -> Window:
    """The window with its lease counted anew."""
    return replace(window, lease_expires_at=now + limits.lease)


def held_by(conversation: Conversation, token: str, now: datetime) -> Window:
    """The open window this token holds. Raises `StaleToken` or `HydrationConflict`."""
    window = conversation.about.window
    if window is None:
        state = conversation.about.hydration.value
        raise HydrationConflict(f"no import is under way (it is {state}).", hydration=state)
    if window.token != token or window.closing is not None:
        raise StaleToken("Begin again to resume.", owner=window.owner)
    if reason := is_over(window, now):
        raise StaleToken(f"({reason}) Begin again to resume.", owner=window.owner)
    return window


def closing(
    about: About,
    end: Hydration,
    reason: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> About:
    """The window begins to close; what waits has to be drained before it is closed."""
    window = about.window
    if window is None:
        return about
    if metadata:
        window = replace(window, metadata=merged(window.metadata, metadata))
    return replace(about, window=replace(window, closing=end, reason=reason))


def closed(about: About) -> About:
    """The window is closed and its state is the conversation's."""
    window = about.window
    if window is None or window.closing is None:
        return about
    return replace(
        about,
        hydration=window.closing,
        window=None,
        reason=window.reason,
        last_mode=window.mode,
        metadata=merged(about.metadata, window.metadata),
    )
