"""What becomes of one thing a session says: the intent, its right, its attempts, its end.

A local provider (`web`, `internal`) has no network in between: the commit that writes the record is
the proof, so its deliveries are born settled and are never `sending` or `uncertain` (law 9).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from threadline.core.model import Attachment, Origin, Word
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


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One outbound intent. (conversation, id) is its key, counted up; `session` is who said it.

    `right` is what allowed it: `binding:<generation>`, `group` or `member`. `sequence` is its
    record, None while there is none: not delivered, or held by a gated import.
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
    metadata: Mapping[str, Any] = field(default_factory=dict)


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
