"""The contract of an adapter: a provider's dialect, pure, both directions side by side (law 8).

An adapter makes refs and message ids, and nobody else does. It verifies and parses what came in,
renders what goes out, and reads what the provider answered. It touches nothing: a transport does.
What not every provider can do is a protocol of its own, asked for with `isinstance`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, runtime_checkable

from threadline.core.model import Actor, Attachment, ConversationRef, InboundMessage, Word
from threadline.core.quick import quick
from threadline.core.wire import (
    ApiCall,
    ApiResponse,
    Batch,
    Doubt,
    Heard,
    OutboundMessage,
    Refused,
    Reply,
    Request,
    Sent,
    Transport,
)

DEFAULT_LENGTH = 4_000


class Unit(Word):
    """What a platform counts the length of a text in."""

    CHARACTERS = "characters"
    UTF16 = "utf16"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an account's platform can do, and within which bounds.

    `max_length` counts in `unit` and is per message. `settle_within` is how long an uncertain
    outcome may settle by itself before its lane goes on. With `idempotent` a call with the same key
    is safe to repeat, for `idempotent_for` where that ends. With `answers_in_thread` an answer to a
    room's record goes to the thread it opens, whose address is that record's id below the room.
    With `own_threads` a thread's id is its alone in the account, so its address names no room.
    Where it `opens_threads`, a post in a room is answered in the thread below it. `realm` is where
    ids of people are unique, empty for the whole platform; `window` is how long after a person's
    words free ones are taken. `actor` is who speaks on the platform.

    With `attachments` it takes files: `uploads` are bytes of ours, which it `fetches` itself where
    it takes no bytes; `links` are public addresses. Of those it takes `max_files` a message, each
    of `max_file` bytes and all of `max_together`, 0 being no bound of its own; the words beside
    them have `max_caption`.
    """

    max_length: int = DEFAULT_LENGTH
    unit: Unit = Unit.CHARACTERS
    attachments: bool = False
    uploads: bool = False
    fetches: bool = False
    links: bool = False
    max_files: int = 0
    max_file: int = 0
    max_together: int = 0
    max_caption: int = 0
    edits: bool = False
    history: bool = False
    child_conversations: bool = False
    idempotent: bool = False
    idempotent_for: timedelta | None = None
    settle_within: timedelta = timedelta(seconds=60)
    answers_in_thread: bool = False
    opens_threads: bool = False
    own_threads: bool = False
    realm: str = ""
    window: timedelta | None = None
    actor: Actor | None = None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """Who speaks for an account: an adapter elsewhere, or a dialect of this house.

    An adapter elsewhere has a `callback`; `owner` is the id of the token that registered it. A
    connected account has none: it has an `installation`, the name in the path of its webhook, and
    `settings` that are no secret. `secret` is sealed: what signs, or the credentials as JSON.
    """

    scope_id: str
    provider: str
    account_id: str
    callback: str
    owner: str
    secret: str = field(repr=False)
    created_at: datetime
    capabilities: Capabilities = Capabilities()
    installation: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account that somebody speaks for, as its dialect needs it.

    `secret` signs what we send to an adapter elsewhere. A connected account has `credentials`,
    `settings` and the `actor` it is on the platform; while it is being connected its
    `account_id` is empty.
    """

    scope_id: str
    provider: str
    account_id: str
    callback: str = ""
    secret: str = field(default="", repr=False)
    capabilities: Capabilities = Capabilities()
    installation: str = ""
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def actor(self) -> Actor | None:
        """Who it is on the platform, once that is known."""
        return self.capabilities.actor


class Adapter(Protocol):
    """A provider's dialect for one account."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    def verify(self, request: Request) -> bool:
        """Whether the provider signed this, judged on the raw bytes before anything is parsed."""

    def parse(self, request: Request) -> Heard:
        """What this account hears in it. Total: unknown events are skipped and counted."""

    def render(self, message: OutboundMessage) -> ApiCall:
        """The call that says it."""

    def read(self, call: ApiCall, answer: ApiResponse) -> ApiCall | Sent | Refused | Doubt:
        """What an answer means. Total: every status and every body has one meaning."""


@runtime_checkable
class Children(Protocol):
    """An adapter that can open a conversation below another one."""

    def open_child(
        self, parent: ConversationRef, root: str | None, title: str, key: str
    ) -> ApiCall:
        """The call that opens it; `root` is the message it hangs on."""

    def read_child(
        self, parent: ConversationRef, call: ApiCall, answer: ApiResponse
    ) -> ConversationRef | Refused | Doubt:
        """The address of the child."""


@runtime_checkable
class Challenged(Protocol):
    """An adapter elsewhere, which proves that its callback is its own."""

    def challenge(self, words: str) -> ApiCall:
        """The signed call that asks for these words back."""

    def is_proven(self, words: str, answer: ApiResponse) -> bool:
        """Whether it gave them."""


@runtime_checkable
class Lookup(Protocol):
    """An adapter that can ask whether a message of ours is there: by its key, never by its text."""

    def look_up(self, message: OutboundMessage) -> ApiCall:
        """The call that asks."""

    def found(self, call: ApiCall, answer: ApiResponse) -> ApiCall | Sent | Refused | Doubt:
        """`Sent` where it is there, or a further call. Nothing else proves anything: what is not
        there yet may still come."""


@runtime_checkable
class Handshaking(Protocol):
    """An adapter whose provider asks the webhook for particular words."""

    def handshake(self, request: Request) -> Reply | None:
        """What a verified request is answered once it was recorded; None where any 2xx will do."""


@runtime_checkable
class Spacing(Protocol):
    """An adapter whose provider numbers messages per place: their ids have an id space."""

    def id_space(self, ref: ConversationRef) -> str:
        """That of the ids heard in a conversation; empty where it has none. Total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A page of what was said before: oldest first within the page, pages from new to old.

    `older` fetches the page before it. `children` are conversations below this one that have a
    past of their own; `stirred` says when something was last said in them, where that is told.
    `edits` are the last ones of its messages, which stand there as they read now.
    """

    messages: tuple[InboundMessage, ...] = ()
    edits: tuple[InboundMessage, ...] = ()
    older: ApiCall | None = None
    children: tuple[ConversationRef, ...] = ()
    stirred: Mapping[ConversationRef, datetime] = field(default_factory=dict)


@runtime_checkable
class Remembering(Protocol):
    """An adapter whose provider can be asked what was said."""

    def history(self, ref: ConversationRef, before: str | None = None) -> ApiCall:
        """The call for the newest page, or for the one before a message id."""

    def read_history(
        self, ref: ConversationRef, call: ApiCall, answer: ApiResponse
    ) -> Past | Refused | Doubt:
        """The page."""


@runtime_checkable
class Direct(Protocol):
    """An adapter that knows by itself where the conversation with a person is."""

    def direct(self, address: str) -> ConversationRef:
        """The conversation with whom this address is. Raises `InvalidConversation`."""


@runtime_checkable
class Opening(Protocol):
    """An adapter whose provider has to be asked for the conversation with a person."""

    @property
    def opens_at_once(self) -> int:
        """How many openings of one account are under way at the most."""

    def open_direct(self, address: str, key: str) -> ApiCall:
        """The call that opens it; the same person gets the same one."""

    def read_direct(
        self, address: str, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | ConversationRef | Refused | Doubt:
        """The conversation, or a further call."""


@runtime_checkable
class Fetching(Protocol):
    """An adapter whose files are fetched with its credentials.

    What it asks for is asked for at its `hosts` only, and so is whatever an answer leads on to.
    """

    @property
    def hosts(self) -> tuple[str, ...]:
        """Where its files may be: origins such as `https://api.example.org`, or `https://*.` and a
        name for every name below it."""

    def file(self, attachment: Attachment) -> ApiCall:
        """The call that brings the bytes, or the first of several."""

    def read_file(
        self, attachment: Attachment, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | bytes | Refused | Doubt:
        """The bytes, or the next call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One thing a person is asked for while an account is connected.

    `name` is its key among the credentials, or among the settings where it is no `secret`; `where`
    says where in the provider's pages it is found. An empty answer takes the `default`, or is made
    up where it is `made` (a secret that only has to be the same on both sides); without either
    the answer is required unless `optional`.
    """

    name: str
    where: str
    secret: bool = True
    default: str = ""
    made: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who an account is, as the provider answered. `settings` are kept beside those asked for."""

    account_id: str
    actor: Actor
    settings: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Connectable(Protocol):
    """An adapter of this house: made from an `Account`, its credentials checked by a live call."""

    @classmethod
    def asks(cls) -> tuple[Ask, ...]:
        """What has to be known, in the order in which a person comes across it."""

    def check(self) -> ApiCall:
        """The call that says who we are."""

    def read_check(
        self, call: ApiCall, answer: ApiResponse
    ) -> ApiCall | Identity | Refused | Doubt:
        """Who we are, or a further call."""

    def webhook(self, url: str | None) -> ApiCall | None:
        """The call that tells the provider where to send events (None: nowhere any more); None
        where a person has to do it by hand."""

    def listens(self) -> bool:
        """Whether a listener of ours fetches its events, so that it needs no webhook."""


@runtime_checkable
class Listener(Protocol):
    """A transport that fetches events: a poll or a socket, one owner per account."""

    def listen(self, account: Account, cursor: str | None) -> AsyncGenerator[Batch, None]:
        """Batches for as long as it is read; closing the generator hangs up.

        Raises `Unsent` or `Lost` where waiting may help and `Unauthenticated` or `Conflict` of
        `core.errors` where only a person can.
        """


class Channels(Protocol):
    """How this process reaches accounts: their dialects and the wires to them."""

    def dialect(self, account: Account) -> Adapter | None:
        """Pure: the same account gives the same dialect; None where there is none here."""

    def connectable(self, provider: str) -> type[Connectable] | None:
        """The dialect of a provider that this house speaks; None where it does not.

        Raises `ConfigError` where its extra is not installed.
        """

    def transport(self, provider: str) -> Transport:
        """What performs this provider's calls."""

    def files(self, seconds: float) -> Transport:
        """What fetches files, each within so many seconds."""

    async def close(self) -> None:
        """Hang up."""
