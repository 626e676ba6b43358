"""What a member may read: its policy, where its slice begins, and its cursor.

Everything is computed from the stint's joining, never stored. The cursor is
max(last_read, visible_from - 1); only the session's own ack moves it, and only forward.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from threadline.core.errors import InvalidInput
from threadline.core.model import (
    SINCE_JOIN,
    BackfillPolicy,
    Conversation,
    Grant,
    Membership,
    Policy,
    Reason,
)


def begins_at(policy: Policy, member: Membership, conversation: Conversation) -> int:
    """The first sequence this policy lets the member read."""
    match policy.backfill:
        case BackfillPolicy.ALL:
            return conversation.earliest_sequence
        case BackfillPolicy.SINCE_JOIN:
            return member.joined_sequence + 1
        case BackfillPolicy.LAST_N:
            first = member.joined_sequence - (policy.n or 1) + 1
            return max(conversation.lowest_sequence, first)


def breadth(policy: Policy, member: Membership, conversation: Conversation) -> tuple[bool, int]:
    """What policies are compared by; the smallest shows most."""
    narrow = policy.backfill is BackfillPolicy.SINCE_JOIN
    return narrow, begins_at(policy, member, conversation)


def valid_grants(member: Membership, now: datetime) -> dict[Reason, Grant]:
    """The grants that have not expired."""
    return {
        reason: grant
        for reason, grant in member.grants.items()
        if grant.expires_at is None or now < grant.expires_at
    }


def expires_at(member: Membership, now: datetime) -> datetime | None:
    """When the first of the grants that hold now expires; None where none does."""
    ends = [grant.expires_at for grant in valid_grants(member, now).values()]
    return min((at for at in ends if at is not None), default=None)


def is_active(member: Membership | None, now: datetime) -> bool:
    """Whether the session is a member at this instant, whatever a sweep has done."""
    if member is None or member.closed_at is not None:
        return False
    return any(g.expires_at is None or now < g.expires_at for g in member.grants.values())


def effective(member: Membership, conversation: Conversation, now: datetime) -> Policy:
    """The override, else the valid grant that shows most.

    That is the one that begins lowest; `since_join`, which also keeps imported records back, only
    where nothing else is granted: both others begin no later and keep nothing back.
    """
    if member.override is not None:
        return member.override
    policies = [grant.policy for grant in valid_grants(member, now).values()]
    if not policies:
        return SINCE_JOIN
    return min(policies, key=lambda policy: breadth(policy, member, conversation))


def visible_from(member: Membership, conversation: Conversation, now: datetime) -> int:
    """The first sequence the member may read."""
    return begins_at(effective(member, conversation, now), member, conversation)


def live_only(member: Membership, conversation: Conversation, now: datetime) -> bool:
    """Whether imported records are kept from the member."""
    return effective(member, conversation, now).backfill is BackfillPolicy.SINCE_JOIN


def cursor(member: Membership, conversation: Conversation, now: datetime) -> int:
    """The sequence behind which reading starts."""
    start = visible_from(member, conversation, now) - 1
    return start if member.last_read is None else max(start, member.last_read)


def ack(
    member: Membership, sequence: int, *, conversation: Conversation, now: datetime
) -> Membership:
    """Read up to `sequence`. The cursor never moves back; under it, nothing happens (law 7).

    Raises `InvalidInput` over the head, or below min(0, lowest - 1).
    """
    if isinstance(sequence, bool) or not isinstance(sequence, int):
        raise InvalidInput("a sequence is a whole number.", sequence=str(sequence))
    if sequence > conversation.head:
        raise InvalidInput(
            f"the newest sequence is {conversation.head}, {sequence} was not said yet.",
            sequence=sequence,
            head=conversation.head,
        )
    floor = min(0, conversation.lowest_sequence - 1)
    if sequence < floor:
        raise InvalidInput(
            f"the lowest acknowledgement here is {floor}.", sequence=sequence, lowest=floor
        )
    lost = gap(member, conversation, now)
    if sequence <= (lost[0] - 1 if lost else cursor(member, conversation, now)):
        return member
    return replace(member, last_read=sequence)


def gap(
    member: Membership, conversation: Conversation, now: datetime, *, handed: int | None = None
) -> tuple[int, int] | None:
    """What retention took from under the member's cursor: first and last sequence, or None.

    The slice of an `all` member begins at the floor until its first ack, so before that nothing
    was taken from it. `handed` is how far a connection was handed on: it is owed what follows.
    """
    read = member.last_read
    if effective(member, conversation, now).backfill is not BackfillPolicy.ALL:
        read = cursor(member, conversation, now)
    if handed is not None:
        read = handed if read is None else max(read, handed)
    if read is None:
        return None
    floor = conversation.earliest_sequence
    return (read + 1, floor - 1) if read + 1 < floor else None
