"""Joining and leaving: stints, grants by reason, override, eviction.

Joining is idempotent. A membership closes when its last reason goes. On rejoining a new stint
begins and the cursor is kept; the override survives until it is cleared by name. An evicted
session comes back only by a later explicit grant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from threadline.core.model import (
    NOTHING,
    Conversation,
    Grant,
    Membership,
    Metadata,
    Policy,
    Reason,
    Window,
    WindowMode,
)
from threadline.core.rules.visibility import is_active


def gate_of(window: Window | None) -> int | None:
    """The number of the gated import that is under way, if one is."""
    if window is None or window.mode is not WindowMode.GATED:
        return None
    return window.number


def join(
    member: Membership | None,
    conversation: Conversation,
    session: int,
    *,
    by: Reason,
    policy: Policy,
    now: datetime,
    expires_at: datetime | None = None,
    replace_grant: bool = False,
    head: int | None = None,
) -> Membership:
    """Grant membership for a reason; the same reason again changes nothing.

    `replace_grant` lets a re-bind state its policy and expiry anew. `head` is where the stint
    begins, when that is not the conversation's head (a thread's enrolment precedes its root).
    """
    grant = Grant(policy, expires_at)
    if member is not None and is_active(member, now):
        if by in member.grants and not replace_grant:
            old = member.grants[by]
            if old.expires_at is None or now < old.expires_at:
                return member
        if member.grants.get(by) == grant:
            return member
        return replace(member, grants={**member.grants, by: grant})
    start = conversation.head if head is None else head
    if member is None:
        return Membership(
            conversation=conversation.id,
            session=session,
            joined_at=now,
            joined_sequence=start,
            grants={by: grant},
            gate=gate_of(conversation.about.window),
        )
    return replace(
        member,
        joined_at=now,
        joined_sequence=start,
        grants={by: grant},
        closed_at=None,
        evicted=False,
        gate=gate_of(conversation.about.window),
    )


def revoke(member: Membership, by: Reason, now: datetime) -> Membership:
    """Take one reason away; the last one closes the membership."""
    grants = {reason: grant for reason, grant in member.grants.items() if reason is not by}
    if len(grants) == len(member.grants):
        return member
    closed = member.closed_at if grants else now
    return replace(member, grants=grants, closed_at=closed)


def leave(member: Membership, now: datetime) -> Membership:
    """Take every reason away."""
    return replace(member, grants={}, handles=(), closed_at=now)


def evict(member: Membership, now: datetime) -> Membership:
    """Close the membership so that only an explicit grant opens it again."""
    return replace(leave(member, now), evicted=True)


def merged(old: Metadata, new: Mapping[str, Any] | None) -> Metadata:
    """Metadata with the new keys laid over it; null removes a key.

    >>> merged({"a": 1, "b": 2}, {"b": None, "c": 3})
    {'a': 1, 'c': 3}
    """
    if not new:
        return old
    both = {**(old or NOTHING), **new}
    return {key: value for key, value in both.items() if value is not None}
