"""Room links and who came in by them. A link's secret and a guest's are kept as keyed hashes only.

A guest is a row, not an account: it is good for one room, as long as its link holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from threadline.core.ids import number_of, public
from threadline.core.model import Actor, Conversation, Grant, Membership, Policy, Reason
from threadline.core.quick import quick
from threadline.core.rules import visibility

PREFIX = "guest-"


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A way into one room. `revoked_at` ends it at once, `expires_at` by itself."""

    id: int
    hash: bytes
    conversation: int
    policy: Policy
    created_at: datetime
    expires_at: datetime
    name: str = ""
    revoked_at: datetime | None = None

    @property
    def ends_at(self) -> datetime:
        """From when on it opens nothing."""
        return self.expires_at if self.revoked_at is None else min(self.revoked_at, self.expires_at)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A guest in a room. `joined_sequence` is the head when it came, as a member's."""

    id: int
    hash: bytes
    conversation: int
    link: int
    name: str
    joined_at: datetime
    joined_sequence: int

    @property
    def actor(self) -> Actor:
        """Who speaks when it does: a random id, and a name nobody verified."""
        return Actor(PREFIX + public(self.id), self.name)


def opens(link: Link, now: datetime) -> bool:
    """Whether the link may be used at this instant."""
    return now < link.ends_at


def visitor_of(actor_id: str) -> int | None:
    """The guest behind an actor's id, None where it is none."""
    return number_of(actor_id.removeprefix(PREFIX)) if actor_id.startswith(PREFIX) else None


def slice_of(visitor: Visitor, link: Link, conversation: Conversation) -> tuple[int, bool]:
    """The first sequence the guest may read, and whether imported records are kept from it.

    The rule is the members' own, so that a policy means the same to whoever has it.
    """
    as_member = Membership(
        conversation=conversation.id,
        session=0,
        joined_at=visitor.joined_at,
        joined_sequence=visitor.joined_sequence,
        grants={Reason.MANUAL: Grant(link.policy)},
    )
    first = visibility.begins_at(link.policy, as_member, conversation)
    return first, visibility.live_only(as_member, conversation, visitor.joined_at)
