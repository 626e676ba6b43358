"""The nouns: who said what, where, and who may read it.

This file comes first and imports nothing of ours but the errors. Everything is a value: frozen,
slotted, identity first. Sequences are integers, times are aware UTC datetimes, ids are strings
that are never parsed as numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote

from threadline.core.errors import InvalidConversation, InvalidInput
from threadline.core.quick import quick

MAX_TEXT_BYTES = 4 * 1024 * 1024
MAX_ID_BYTES = 1024
LOCAL_PROVIDERS = frozenset({"web", "internal"})

Metadata = Mapping[str, Any]
NOTHING: Metadata = MappingProxyType({})

_SAFE = re.compile(r"[A-Za-z0-9._~:@!$+=,-]+")


class Word(StrEnum):
    """An enumeration that accepts its words in any case and names the words it knows."""

    @classmethod
    def _missing_(cls, value: object) -> Word | None:
        if isinstance(value, str):
            for word in cls:
                if word.value == value.strip().casefold():
                    return word
        return None

    @classmethod
    def of(cls, value: object) -> Any:
        """The member for a word said by a person; `InvalidInput` names the known ones."""
        try:
            return cls(str(value))
        except ValueError:
            known = ", ".join(word.value for word in cls)
            name = re.sub(r"(?<=.)([A-Z])", r" \1", cls.__name__).lower()
            raise InvalidInput(
                f"{name} {value!r} is unknown; use one of: {known}.",
                value=str(value),
            ) from None


class Kind(Word):
    """What sort of place a conversation is. Never part of its identity."""

    DM = "dm"
    ROOM = "room"
    THREAD = "thread"


class Direction(Word):
    """Whether people said it to us or we said it to them."""

    INBOUND = "inbound"
    OUTBOUND = "outbound"


class Event(Word):
    """What an entry of the transcript is."""

    MESSAGE = "message"
    EDIT = "edit"
    DELETE = "delete"
    REACTION = "reaction"
    MEMBER = "member"
    NOTICE = "notice"


class Provenance(Word):
    """Heard as it was said, or imported from a history."""

    LIVE = "live"
    HYDRATED = "hydrated"


class Hydration(Word):
    """Where the import of a conversation's history stands."""

    LIVE_ONLY = "live_only"
    PENDING = "pending"
    COMPLETE = "complete"
    FAILED = "failed"


class WindowMode(Word):
    """How an import writes: at the head while live traffic waits, or in front of it."""

    GATED = "gated"
    PREPENDING = "prepending"


class BackfillPolicy(Word):
    """How much of what was said before it joined a member may read."""

    ALL = "all"
    SINCE_JOIN = "since_join"
    LAST_N = "last_n"


class Reason(Word):
    """Why a session is a member."""

    MANUAL = "manual"
    BINDING = "binding"
    GROUP = "group"


class GroupMode(Word):
    """Whether an unaddressed message has a speaker."""

    OPEN = "open"
    MENTION = "mention"


class History(Word):
    """How much of a conversation's past the transcript holds."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    NONE = "none"


def escape_part(part: str) -> str:
    """One part of a ref as its text form writes it."""
    return (
        part if _SAFE.fullmatch(part) else quote(part, safe="._~:@!$+=,-", errors="surrogatepass")
    )


def _part(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidConversation(
            f"{name} must be a string, not {type(value).__name__}.", part=name
        )
    if not value.strip():
        raise InvalidConversation(f"{name} is missing or blank.", part=name)
    if len(value) * 4 > MAX_ID_BYTES and len(value.encode("utf-8", "surrogatepass")) > MAX_ID_BYTES:
        raise InvalidConversation(f"{name} is longer than {MAX_ID_BYTES} bytes.", part=name)
    if not value.isascii() or not value.isprintable():
        if "\x00" in value:
            raise InvalidConversation(f"{name} holds a NUL character.", part=name)
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidConversation(
                f"{name} holds half of a surrogate pair.", part=name
            ) from None
    return value


def folded_provider(name: str) -> str:
    """A provider's name as it is compared and stored: in any case it is the same provider."""
    return name.strip().casefold()


@dataclass(frozen=True, slots=True)
class ConversationRef:
    """The address of a conversation. Equal addresses are one conversation, whatever their kind.

    Raises `InvalidConversation` where a part is missing, blank or no string (law 8).

    >>> ref = ConversationRef("Slack", "T1", "1700000000.001700", parent_conversation_id="C9")
    >>> str(ref)
    'slack/T1/C9/1700000000.001700'
    >>> ConversationRef.parse(str(ref)) == ref
    True
    """

    provider: str
    account_id: str
    conversation_id: str
    parent_conversation_id: str | None = None
    scope_id: str = "default"
    kind: Kind | None = field(default=None, compare=False)
    text: str = field(init=False, repr=False, compare=False, default="")

    def __post_init__(self) -> None:
        put = object.__setattr__
        provider = _part(folded_provider(_part(self.provider, "provider")), "provider")
        put(self, "provider", provider)
        _part(self.account_id, "account_id")
        _part(self.conversation_id, "conversation_id")
        _part(self.scope_id, "scope_id")
        parts = [provider, self.account_id, self.conversation_id]
        if self.parent_conversation_id is not None:
            parts.insert(2, _part(self.parent_conversation_id, "parent_conversation_id"))
        if self.kind is not None and type(self.kind) is not Kind:
            put(self, "kind", Kind.of(self.kind))
        text = "/".join([escape_part(part) for part in parts])
        if self.scope_id != "default":
            text += "?scope=" + escape_part(self.scope_id)
        put(self, "text", text)

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str, kind: Kind | None = None) -> ConversationRef:
        """Read the text form back, exactly. Raises `InvalidConversation` on any other form."""
        path, mark, scope = text.strip().partition("?scope=")
        parts = [unquote(part, errors="surrogatepass") for part in path.split("/")]
        match parts:
            case [provider, account, conversation]:
                parent = None
            case [provider, account, parent, conversation]:
                pass
            case _:
                raise InvalidConversation(
                    f"{text!r} is not provider/account/conversation or "
                    "provider/account/parent/conversation.",
                    given=text,
                )
        scope_id = unquote(scope, errors="surrogatepass") if mark else "default"
        return cls(provider, account, conversation, parent, scope_id, kind)

    @property
    def parent(self) -> ConversationRef | None:
        """The room a thread belongs to, where the thread's address names it."""
        if self.parent_conversation_id is None:
            return None
        return ConversationRef(
            self.provider,
            self.account_id,
            self.parent_conversation_id,
            None,
            self.scope_id,
            Kind.ROOM,
        )


@dataclass(frozen=True, slots=True)
class Actor:
    """Who spoke. `is_self` is decided once, by the adapter."""

    id: str
    name: str = ""
    is_bot: bool = False
    is_self: bool = False


SYSTEM = Actor("threadline", "threadline", is_bot=True)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message, as data. `size` in bytes; `name` is never a path."""

    id: str = ""
    type: str = ""
    name: str = ""
    size: int | None = None
    url: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """The record a message is about, the root of the exchange, and how many wakes lie between."""

    conversation: str
    sequence: int
    root: str = ""
    hops: int = 0


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class InboundMessage:
    """What an adapter heard, an archive held or a caller said: one entry, not yet recorded.

    `message_id` is the provider's id, or the event's id from the adapter's one maker where the
    event is no message. `thread_root` is the message a thread hangs on, in the parent's ids.
    `sent_at` is the provider's clock; a naive time is refused. `token` is the key of the delivery
    an own message repeats, where the platform hands it back.
    """

    conversation: ConversationRef
    text: str = ""
    actor: Actor
    message_id: str | None = None
    id_space: str = ""
    direction: Direction = Direction.INBOUND
    event: Event = Event.MESSAGE
    explicit_target: str | None = None
    mentions: tuple[str, ...] = ()
    reply_to: str | None = None
    revises: str | None = None
    thread_root: str | None = None
    parent: ConversationRef | None = None
    attachments: tuple[Attachment, ...] = ()
    sent_at: datetime | None = None
    origin: Origin | None = None
    same_as: tuple[ConversationRef, ...] = ()
    signed: bool = False
    token: str | None = None
    metadata: Metadata = field(default_factory=dict)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptRecord:
    """One entry of a transcript. (conversation, sequence) is its id.

    `source_session_id` and `target_session_id` are the sessions' names when it was recorded;
    `source` and `target` the surrogate ids behind them. `route` is the step of `rules.speaking`
    that chose the target. `wakes` holds surrogate ids (at most 16).
    """

    sequence: int
    direction: Direction
    event: Event = Event.MESSAGE
    provenance: Provenance = Provenance.LIVE
    message_id: str | None = None
    id_space: str = ""
    actor: Actor
    text: str = ""
    explicit_target: str | None = None
    reply_to: str | None = None
    revises: str | None = None
    attachments: tuple[Attachment, ...] = ()
    source_session_id: str | None = None
    target_session_id: str | None = None
    route: str | None = None
    wakes: tuple[str, ...] = ()
    person_id: str | None = None
    origin: Origin | None = None
    copied_from: int | None = None
    blanked: bool = False
    refused: str | None = None
    signed: bool = False
    sent_at: datetime | None = None
    recorded_at: datetime
    metadata: Metadata = field(default_factory=dict)
    source: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """A backfill policy with its number where it has one.

    >>> Policy.of("last_n", 3)
    Policy(backfill=<BackfillPolicy.LAST_N: 'last_n'>, n=3)
    """

    backfill: BackfillPolicy
    n: int | None = None

    @classmethod
    def of(cls, backfill: BackfillPolicy | str, n: int | None = None) -> Policy:
        """Check a policy a caller asked for. Raises `InvalidInput`."""
        word: BackfillPolicy = BackfillPolicy.of(backfill)
        if word is BackfillPolicy.LAST_N:
            if n is None or isinstance(n, bool) or not isinstance(n, int) or n < 1:
                raise InvalidInput("last_n needs n, a whole number of at least 1.", n=n)
        elif n is not None:
            raise InvalidInput(f"n goes with last_n only, not with {word.value}.", n=n)
        return cls(word, n)


ALL = Policy(BackfillPolicy.ALL)
SINCE_JOIN = Policy(BackfillPolicy.SINCE_JOIN)


@dataclass(frozen=True, slots=True)
class Grant:
    """What one reason allows a member to read, and until when."""

    policy: Policy
    expires_at: datetime | None = None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """One session in one conversation. `joined_sequence` is the head when this stint began.

    `gate` is set while the stint began inside a gated import: its joining is then computed again
    when the import closes. `handles` are the names the session speaks under here.
    """

    conversation: int
    session: int
    joined_at: datetime
    joined_sequence: int
    last_read: int | None = None
    grants: Mapping[Reason, Grant] = field(default_factory=dict)
    override: Policy | None = None
    closed_at: datetime | None = None
    evicted: bool = False
    handles: tuple[str, ...] = ()
    gate: int | None = None
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FanOut:
    """Whether what a peer publishes may wake the others, and how often per root."""

    enabled: bool = False
    allow_untargeted: bool = False
    max_peer_triggered_publishes: int = 1
    max_total_peer_deliveries: int = 8


@dataclass(frozen=True, slots=True)
class Group:
    """Who speaks in a conversation with several sessions. Never who reads."""

    mode: GroupMode = GroupMode.OPEN
    default_handle: str | None = None
    fan_out: FanOut = FanOut()
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Participant:
    """A session under a handle in one conversation. `public` may publish without a binding."""

    conversation: int
    handle: str
    session: int
    public: bool = False
    aliases: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Binding:
    """A conversation belongs to a session. `generation` rises at every re-bind."""

    session: int
    generation: int
    expires_at: datetime | None = None
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claim:
    """A binding in waiting: a session wrote first, and its `delivery` is not confirmed yet.

    Where a group speaks, `handle` is the name the session speaks under.
    """

    session: int
    delivery: int
    handle: str | None = None


@dataclass(frozen=True, slots=True)
class Party:
    """The other party of a direct conversation: its id on the platform, unique in `realm`."""

    realm: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """An import that is under way, or that is closing and drains what waited."""

    number: int
    token: str = field(repr=False)
    owner: str
    mode: WindowMode
    began_at: datetime
    lease_expires_at: datetime
    ends_at: datetime | None = None
    closing: Hydration | None = None
    reason: str = ""
    metadata: Metadata = field(default_factory=dict)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a conversation's row holds beside its counters: all that changes seldom.

    `roster` counts the changes of the participants, `parent_roster` is the parent's when its
    participants were last enrolled here: a difference says that enrolment has to be repaired.
    `kind_guessed` says that nobody has stated its kind yet: the first provider that does is right.
    """

    created_at: datetime
    title: str = ""
    metadata: Metadata = field(default_factory=dict)
    hydration: Hydration = Hydration.LIVE_ONLY
    window: Window | None = None
    windows: int = 0
    last_mode: WindowMode | None = None
    reason: str = ""
    oldest_hydrated_message_id: str | None = None
    has_live: bool = False
    max_retained_entries: int | None = None
    max_age: timedelta | None = None
    members: int = 0
    group: Group | None = None
    roster: int = 0
    last_addressed_handle: str | None = None
    binding: Binding | None = None
    generation: int = 0
    claim: Claim | None = None
    party: Party | None = None
    parent: int | None = None
    parent_roster: int | None = None
    thread_root: str | None = None
    budget: Mapping[str, int] = field(default_factory=dict)
    held: int = 0
    held_bytes: int = 0
    next_hold: int = 1
    deliveries: int = 0
    echoes: int = 0
    kind_mismatches: int = 0
    kind_guessed: bool = False
    moved_to: int | None = None


@quick
@dataclass(frozen=True, slots=True)
class Conversation:
    """The one row an append locks. Its `ref` is the newest of its addresses."""

    id: int
    ref: ConversationRef
    kind: Kind
    about: About
    next_sequence: int = 1
    lowest_sequence: int = 1
    earliest_sequence: int = 1

    @property
    def head(self) -> int:
        """The newest sequence there is; 0 while nothing was said."""
        return self.next_sequence - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """An agent's seat. Names point at it, rows point at its id.

    `successor` is set by `reassign`; `predecessors` are those this one took over from.
    """

    id: int
    scope_id: str
    name: str
    created_at: datetime
    retired_at: datetime | None = None
    successor: int | None = None
    predecessors: tuple[int, ...] = ()
    aliases: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)


@quick
@dataclass(frozen=True, slots=True)
class Known:
    """Where a message id stands: its record, or (sequence None) only revisions that wait for it."""

    sequence: int | None
    part: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """A message that waits for a gated import to close, as it came.

    `said_by` is the session whose confirmed words these are, `delivery` what brought them there.
    """

    conversation: int
    position: int
    key: bytes
    message: InboundMessage
    size: int
    said_by: int | None = None
    delivery: int | None = None


@dataclass(frozen=True, slots=True)
class Controller:
    """May do all in its scope; None is every scope. Only one that is `human` grants consent."""

    scope_id: str | None = "default"
    human: bool = False


@dataclass(frozen=True, slots=True)
class AdapterCaller:
    """May act for one account of one provider in one scope."""

    scope_id: str
    provider: str
    account_id: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "provider", folded_provider(self.provider))


@dataclass(frozen=True, slots=True)
class SessionCaller:
    """May read and acknowledge for one session; with `conversation` there and nowhere else."""

    session: str
    scope_id: str = "default"
    scopes: frozenset[str] = frozenset({"read"})
    conversation: int | None = None


@dataclass(frozen=True, slots=True)
class Guest:
    """A person in one room by a link."""

    conversation: ConversationRef
    actor: Actor


Caller = Controller | AdapterCaller | SessionCaller | Guest

CONTROLLER = Controller()
