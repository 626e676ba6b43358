"""What a session says on its own initiative: to whom, through what, and what became of each way.

A send is more than its delivery: it may wait for its time, and where one channel certainly did not
take it the next may be tried. It never tries a second one after any part was accepted or may have
been (H10).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta

from threadline.core.deliveries import Words
from threadline.core.model import Attachment, Metadata, Word

AUTO = "auto"


class SendState(Word):
    """How far a send is."""

    SCHEDULED = "scheduled"
    OPEN = "open"
    DELIVERED = "delivered"
    FAILED = "failed"
    UNCERTAIN = "uncertain"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    SUPPRESSED = "suppressed"


WAITING = frozenset({SendState.SCHEDULED, SendState.OPEN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One way of sending: through which account, to which address or place.

    `place` is a conversation's address as text where the place itself was named; else `address` is
    the person's id on the platform.
    """

    provider: str
    account_id: str
    realm: str = ""
    address: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What became of one channel. `outcome` is a delivery's state, or the code of the refusal."""

    channel: Channel
    outcome: str
    at: datetime
    reason: str = ""
    conversation: int | None = None
    delivery: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A send of every day: at a time of day on the clocks of a zone."""

    at: str
    zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One thing said on one's own initiative.

    `to` is what was asked for, as it was written; `left` are the channels not tried yet. `due_at`
    is when it is worth a look: its time, or that a channel failed. `step` counts its changes, so
    that two who work on it do not both take the same step; `reserved` is what its limits were
    counted under. `intent` names what it is about, so that nobody tells the same person the same
    thing twice.
    """

    id: int
    scope_id: str
    session: int
    to: str
    via: str
    text: str
    created_at: datetime
    person: int | None = None
    state: SendState = SendState.OPEN
    tried: tuple[Tried, ...] = ()
    left: tuple[Channel, ...] = ()
    at: datetime | None = None
    due_at: datetime | None = None
    expires_at: datetime | None = None
    step: int = 0
    reserved: tuple[str, ...] = ()
    reason: str = ""
    attachments: tuple[Attachment, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    about: tuple[str, int] | None = None
    intent: str = ""
    intent_for: timedelta | None = None
    first: FirstSaid | None = None
    repeat: Repeat | None = None
    origin_of: int | None = None

    @property
    def words(self) -> Words:
        """What is said."""
        return Words(
            text=self.text,
            about=self.about,
            attachments=self.attachments,
            metadata=self.metadata,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSaid:
    """Who said first what an intent names, when, and until when it counts."""

    send: int
    session: str
    at: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A send as it was asked for: what a key stands for."""

    to: str
    via: str
    words: Words
    at: datetime | None = None
    intent: str = ""
    intent_for: timedelta | None = None
    repeat: Repeat | None = None

    @property
    def digest(self) -> str:
        """The request as one text, the same for the same request."""
        return json.dumps(asdict(self), sort_keys=True, default=str, ensure_ascii=True)
