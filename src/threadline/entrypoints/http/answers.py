"""What answers look like, for OpenAPI and the tests: `shapes.plain` of a flow's answer is one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from litestar.openapi import ResponseSpec

from threadline.core.deliveries import DeliveryState, Failure
from threadline.core.model import (
    BackfillPolicy,
    Direction,
    Event,
    FanOut,
    GroupMode,
    History,
    Hydration,
    Kind,
    Origin,
    Provenance,
    WindowMode,
)
from threadline.core.tokens import TokenKind


class Shape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What all answers have in common: every field is always there."""


class Problem(Shape):
    """A refusal (RFC 9457). `code` is stable; `facts` are the values the sentence is about."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    facts: dict[str, Any]


class Ref(Shape):
    """A conversation's address."""

    provider: str
    account_id: str
    conversation_id: str
    parent_conversation_id: str | None
    scope_id: str
    kind: Kind | None


class Conversation(Shape):
    """A conversation with its counters. `max_age` in seconds."""

    id: str
    ref: Ref
    text: str
    kind: Kind
    title: str
    head: int
    next_sequence: int
    lowest_sequence: int
    earliest_sequence: int
    hydration: Hydration
    history: History
    reason: str
    members: int
    held: int
    kind_mismatches: int
    bound: bool
    grouped: bool
    oldest_hydrated_message_id: str | None
    max_retained_entries: int | None
    max_age: float | None
    created_at: datetime
    parent: str | None
    moved_to: str | None
    metadata: dict[str, Any]


class Conversations(Shape):
    """A page of conversations."""

    conversations: list[Conversation]
    next: str | None


class Speaker(Shape):
    """Who spoke."""

    id: str
    name: str
    is_bot: bool
    is_self: bool


class File(Shape):
    """A file as data. `size` in bytes."""

    id: str
    type: str
    name: str
    size: int | None
    url: str


class Record(Shape):
    """One entry of a transcript. (conversation, sequence) is its id."""

    sequence: int
    direction: Direction
    event: Event
    provenance: Provenance
    message_id: str | None
    id_space: str
    actor: Speaker
    text: str
    explicit_target: str | None
    reply_to: str | None
    revises: str | None
    attachments: list[File]
    source_session_id: str | None
    target_session_id: str | None
    route: str | None
    wakes: list[str]
    person_id: str | None
    origin: Origin | None
    copied_from: int | None
    blanked: bool
    refused: str | None
    signed: bool
    sent_at: datetime | None
    recorded_at: datetime
    metadata: dict[str, Any]


class HandedRecord(Record):
    """A record as a session gets it: whether it shall speak, and whether this wakes it."""

    conversation: str
    ref: Ref
    speaker: bool
    wake: bool


class Message(Shape):
    """A message with its latest text; `revision` counts its edits."""

    record: Record
    revision: int
    deleted: bool


class Transcript(Shape):
    """A page of a transcript; `messages` with `view=messages`."""

    conversation: str
    ref: Ref
    records: list[Record]
    history: History
    reason: str
    head: int
    earliest: int
    next: int | None
    messages: list[Message] | msgspec.UnsetType = msgspec.UNSET


class Taken(Shape):
    """What became of a message. `record` is null where it is held or was swept."""

    record: Record | None
    sequence: int | None
    duplicate: bool
    held: bool
    target_session_id: str | None
    route: str | None
    readers: int


class Refusal(Shape):
    """Why one item of a batch was not taken."""

    code: str
    detail: str
    facts: dict[str, Any]


class Result(Taken):
    """What became of one item of a batch."""

    error: Refusal | msgspec.UnsetType = msgspec.UNSET


class Results(Shape):
    """One result an item, in the order of the items."""

    results: list[Result]


class Window(Shape):
    """An import window: opened (`token`, `mode`, `lease_expires_at`) or closed (`reason`)."""

    hydration: Hydration
    token: str | msgspec.UnsetType | None = msgspec.UNSET
    mode: WindowMode | msgspec.UnsetType | None = msgspec.UNSET
    lease_expires_at: datetime | msgspec.UnsetType | None = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET


class Grant(Shape):
    """How much of the past is read."""

    policy: BackfillPolicy
    n: int | None


class Member(Shape):
    """A membership. `policy` is the one in force."""

    conversation: str
    ref: Ref
    text: str
    session_id: str
    policy: BackfillPolicy
    n: int | None
    override: Grant | None
    grants: dict[str, Grant]
    handles: list[str]
    joined_at: datetime
    joined_sequence: int
    last_read: int | None
    cursor: int
    visible_from: int
    head: int
    active: bool
    metadata: dict[str, Any]


class Members(Shape):
    """A page of memberships."""

    members: list[Member]
    next: int | None


class Memberships(Shape):
    """A page of what a session reads."""

    conversations: list[Member]
    next: int | None


class Range(Shape):
    """Sequences that retention took before they were read."""

    first: int
    last: int


class Backfill(Shape):
    """A page of what a member has not read."""

    conversation: str
    ref: Ref
    records: list[HandedRecord]
    history: History
    reason: str
    head: int
    earliest: int
    last_read: int | None
    visible_from: int
    more: bool
    gap: Range | None


class Cursor(Shape):
    """How far a member has read."""

    conversation: str
    session_id: str
    last_read: int | None


class Missed(Range):
    """A gap in one of a session's conversations."""

    conversation: str


class Inbox(Shape):
    """What a session has not acknowledged, over all its conversations."""

    records: list[HandedRecord]
    gaps: list[Missed]
    more: bool


class Session(Shape):
    """A session."""

    id: str
    session_id: str
    scope_id: str
    created_at: datetime
    retired_at: datetime | None
    successor: str | None
    aliases: list[str]
    metadata: dict[str, Any]


class Sessions(Shape):
    """A page of sessions."""

    sessions: list[Session]
    next: str | None


class Binding(Shape):
    """A conversation belongs to a session."""

    conversation: str
    ref: Ref
    text: str
    session_id: str
    generation: int
    expires_at: datetime | None
    metadata: dict[str, Any]


class Seat(Shape):
    """A session under a handle."""

    handle: str
    session_id: str
    public: bool
    aliases: list[str]
    metadata: dict[str, Any]


class Group(Shape):
    """Who speaks in a conversation with several sessions."""

    conversation: str
    ref: Ref
    text: str
    mode: GroupMode
    default_handle: str | None
    last_addressed_handle: str | None
    fan_out: FanOut
    metadata: dict[str, Any]
    participants: list[Seat]


class Route(Shape):
    """Who gets an account's new direct messages."""

    provider: str
    account_id: str
    session_id: str | None


class Delivery(Shape):
    """One thing a session said, and what became of it."""

    id: str
    conversation: str
    ref: Ref
    text: str
    session_id: str
    state: DeliveryState
    failure: Failure | None
    reason: str
    attempts: int
    created_at: datetime
    settled_at: datetime | None
    sequence: int | None
    message_ids: list[str]
    reply_to: int | None
    origin: Origin | None
    parts: int
    confirmed: int
    next_attempt_at: datetime | None
    expires_at: datetime | None
    parked: bool
    resent: int
    possible_duplicate: bool
    send: str | None
    words: str
    repeated: bool


class Deliveries(Shape):
    """A page of deliveries, newest first."""

    deliveries: list[Delivery]
    next: str | None


class Token(Shape):
    """A token; `token` is the secret, right after it was made and never again."""

    id: str
    kind: TokenKind
    name: str
    scope_id: str | None
    provider: str
    account_id: str
    session_id: str | None
    scopes: list[str]
    conversation_id: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    human: bool
    token: str | None


class Tokens(Shape):
    """A page of tokens."""

    tokens: list[Token]
    next: str | None


class Hit(Shape):
    """A record that has the words."""

    conversation: str
    ref: Ref
    record: Record


class Hits(Shape):
    """Hits, newest first. What was recorded after `indexed_through` is not searched yet."""

    hits: list[Hit]
    next: str | None
    indexed_through: datetime | None


TAKEN: Any = Taken | Results


def shown(kind: Any, *statuses: int) -> dict[int, ResponseSpec]:
    """The `responses` of a route: what it answers with, under 200 or under these."""
    about = ((kind if isinstance(kind, type) else Taken).__doc__ or "").strip().split("\n")[0]
    spec = ResponseSpec(data_container=kind, generate_examples=False, description=about)
    return dict.fromkeys(statuses or (200,), spec)
