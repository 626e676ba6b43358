"""What becomes of one thing a session says: the intent, its right, its attempts, its end.

A local provider (`web`, `internal`) has no network in between: the commit that writes the record
is the proof, so its deliveries are born settled and are never `sending` or `uncertain` (law 9). Any
other goes `pending → sending → delivered | failed | uncertain | expired | cancelled`, part by part,
in the lane of its conversation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from threadline.core.model import Attachment, InboundMessage, Origin, Word
from threadline.core.quick import quick


class DeliveryState(Word):
    """How far a delivery is."""

    PENDING = "pending"
    SENDING = "sending"
    DELIVERED = "delivered"
    FAILED = "failed"
    UNCERTAIN = "uncertain"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Failure(Word):
    """Why a provider refused."""

    RATE_LIMITED = "rate_limited"
    TRANSIENT = "transient"
    PERMANENT = "permanent"
    AUTH = "auth"
    NOT_FOUND = "not_found"
    UNSUPPORTED = "unsupported"
    WINDOW_CLOSED = "window_closed"


OPEN_STATES = frozenset({DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.UNCERTAIN})


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened to a delivery."""

    at: datetime
    state: DeliveryState
    note: str = ""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One outbound intent. (conversation, id) is its key, counted up; `session` is who said it.

    `right` is what allowed it: `binding:<generation>`, `group`, `member`, or for what a session
    said on its own initiative (its `send`) `claim` or `account`. `sequence` is its record, None
    while there is none: not delivered, or held by a gated import.

    `turn` is its place in the lane. `cuts` is where each part of a long text ends, empty for one
    message; `message_ids` are the receipts so far, one a part, "" where a person vouched for it;
    `id_space` is theirs.
    What waits longer than it `lives` is not said; one that is resent lives as long again.
    `attempts` counts calls, `failures` those that ended as transient. `called_at` is the first call
    of the part that is under way; `looks` counts how often the provider was asked whether an
    uncertain one is there. `parked` says that its lane went on without it. `edition` counts
    the resends of what certainly was not said, `resent` all of them. What was delivered keeps no
    text: the record has it.
    """

    conversation: int
    id: int
    session: int
    state: DeliveryState
    right: str
    created_at: datetime
    text: str
    reply_to: str | None = None
    answers: int | None = None
    attachments: tuple[Attachment, ...] = ()
    origin: Origin | None = None
    attempts: int = 0
    failure: Failure | None = None
    reason: str = ""
    settled_at: datetime | None = None
    sequence: int | None = None
    message_ids: tuple[str, ...] = ()
    id_space: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    explicit_target: str | None = None
    turn: int = 0
    cuts: tuple[int, ...] = ()
    failures: int = 0
    due_at: datetime | None = None
    lives: timedelta | None = None
    expires_at: datetime | None = None
    called_at: datetime | None = None
    uncertain_at: datetime | None = None
    looks: int = 0
    parked: bool = False
    resent: int = 0
    edition: int = 0
    trail: tuple[Step, ...] = ()
    send: int | None = None

    @property
    def parts(self) -> int:
        """How many messages it is."""
        return len(self.cuts) or 1

    @property
    def part(self) -> int:
        """The first part without a receipt, from 1; one more than there are when all have one."""
        return len(self.message_ids) + 1

    @property
    def may_be_double(self) -> bool:
        """Whether it was repeated though its first attempt may have been said."""
        return self.resent > self.edition

    @property
    def in_lane(self) -> bool:
        """Whether what comes after it in its conversation waits for it."""
        return self.state in OPEN_STATES and not self.parked


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The order of one conversation's deliveries, and who works on it.

    `fence` rises with every attempt: a verdict under an older one is refused, a proof never is.
    While `owner` is set the lane is leased until `due_at`; else that is when it is worth a look,
    None while nothing waits. `waiting` counts the deliveries in it. `ticket` names the lease, so
    that a mark whose commit was in doubt is recognised when it is made again.
    """

    conversation: int
    fence: int = 0
    owner: str = ""
    due_at: datetime | None = None
    waiting: int = 0
    ticket: int = 0


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A bucket of an account that must not be called before `until`.

    The account's own also remembers the last limit whose bucket nobody knew, and where it was.
    """

    until: datetime | None = None
    limited_at: datetime | None = None
    limited_in: int | None = None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A message id of ours that is in no record yet.

    Either a part of a delivery that is still under way, or (with `message`) an echo that came
    before anybody knew whose words it repeats.
    """

    delivery: int | None = None
    part: int = 1
    position: int | None = None
    message: InboundMessage | None = None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a key stands for: a keyed digest of what was asked, and the delivery it became."""

    digest: bytes
    conversation: int
    delivery: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What is to be said. `reply_to` is a sequence or a message id; `about` a record elsewhere."""

    text: str
    reply_to: int | str | None = None
    about: tuple[str, int] | None = None
    explicit_target: str | None = None
    attachments: tuple[Attachment, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The words as one text, the same for the same words."""
        return json.dumps(asdict(self), sort_keys=True, default=str, ensure_ascii=True)
