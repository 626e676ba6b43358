"""The contract of an adapter: a provider's dialect, pure, both directions side by side (law 8).

An adapter makes refs and message ids, and nobody else does. It verifies and parses what came in,
renders what goes out, and reads what the provider answered. It touches nothing: a transport does.
What not every provider can do is a protocol of its own, asked for with `isinstance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from threadline.core.model import Actor, ConversationRef, InboundMessage, Word
from threadline.core.quick import quick
from threadline.core.wire import (
    ApiCall,
    ApiResponse,
    Doubt,
    OutboundMessage,
    Refused,
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
    is safe to repeat, for `idempotent_for` where that ends. `actor` is who speaks on the platform.
    """

    max_length: int = DEFAULT_LENGTH
    unit: Unit = Unit.CHARACTERS
    attachments: bool = False
    edits: bool = False
    history: bool = False
    child_conversations: bool = False
    idempotent: bool = False
    idempotent_for: timedelta | None = None
    settle_within: timedelta = timedelta(seconds=60)
    answers_in_thread: bool = False
    actor: Actor | None = None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """An out-of-process adapter: where it is called, and who registered it.

    `owner` is the id of the token that did; `secret` is sealed.
    """

    scope_id: str
    provider: str
    account_id: str
    callback: str
    owner: str
    secret: str
    created_at: datetime
    capabilities: Capabilities = Capabilities()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account that somebody speaks for, as its dialect needs it. `secret` signs what we send."""

    scope_id: str
    provider: str
    account_id: str
    callback: str
    secret: str
    capabilities: Capabilities


class Adapter(Protocol):
    """A provider's dialect for one account."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    def verify(self, request: Request) -> bool:
        """Whether the provider signed this, judged on the raw bytes before anything is parsed."""

    def parse(self, request: Request) -> Sequence[InboundMessage]:
        """What was heard. Unknown events are left out, never an exception."""

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
    """An adapter that can ask whether a message of ours arrived, by its key."""

    def look_up(self, message: OutboundMessage) -> ApiCall:
        """The call that asks."""

    def found(self, call: ApiCall, answer: ApiResponse) -> Sent | Refused | Doubt:
        """`Sent` where it is there, `Refused` where it certainly is not."""


class Channels(Protocol):
    """How this process reaches accounts: their dialects and the wires to them."""

    def dialect(self, account: Account) -> Adapter | None:
        """Pure: the same account gives the same dialect; None where there is none here."""

    def transport(self, provider: str) -> Transport:
        """What performs this provider's calls."""

    async def close(self) -> None:
        """Hang up."""
