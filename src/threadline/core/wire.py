"""What passes between a dialect and a wire: calls and answers as values, no socket in sight.

A dialect renders what is to be said into an `ApiCall`; a transport performs it and brings the
`ApiResponse`; the dialect reads that as proof, refusal, doubt, or a further call. A transport that
brings no answer says which of two things happened, because everything depends on it: nothing left
(`Unsent`, so it may be tried again), or something did (`Lost`, so it may have been said).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from threadline.core.deliveries import Failure
from threadline.core.model import Attachment, ConversationRef, InboundMessage, Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a provider sent to a webhook, byte for byte. Header names are lower case.

    `received_at` is when the bytes were here, by the store's clock: what a signature's own time is
    held against. A listener leaves it out, for nothing it brings is signed.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    query: Mapping[str, str] = field(default_factory=dict)
    received_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundMessage:
    """What an adapter is asked to say: one message, or one part of a long one.

    `key` names this part for ever; a provider with idempotent sends is given it. `reply_to` is a
    message id of this conversation, `parts` how many messages the whole text became, `part` counts
    from 1, `attempt` counts the calls made for this delivery, `called_at` is when the first one of
    this part was made.
    """

    conversation: ConversationRef
    text: str
    key: str
    session_id: str
    delivery: str = ""
    reply_to: str | None = None
    attachments: tuple[Attachment, ...] = ()
    part: int = 1
    parts: int = 1
    attempt: int = 1
    called_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A field of a form: a value, or a file of ours whose bytes go there."""

    name: str
    value: str = field(default="", repr=False)
    file: Attachment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """One call towards a provider, as data.

    `route` is what the provider counts its limits by; `key` goes out as the idempotency key and as
    the id of a signed message; `secret` signs it as Standard Webhooks do. Url, headers and body may
    hold credentials: none of them is ever shown. An answer longer than `most` bytes is no answer.
    `message` never leaves: it is what the call says, for a dialect that may have to say it in other
    words.

    In place of a body a call may have a `form`, or the bytes of a `file` of ours; those are put in
    just before it leaves. One that is `unseen` shows nobody anything, so a repeat does no harm.
    """

    method: str
    url: str = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    route: str = ""
    most: int = 1_048_576
    key: str = ""
    secret: str = field(default="", repr=False)
    message: OutboundMessage | None = field(default=None, repr=False)
    form: tuple[Part, ...] = field(default=(), repr=False)
    file: Attachment | None = None
    unseen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """A provider's answer. Header names are lower case."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a webhook is answered where the provider waits for particular words."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a platform says about a message of ours after it took it.

    `token` is the delivery's key where the platform hands it back. `refused` None says that the
    message is there; else it was taken and could not be handed on. `id_space` is that of
    `message_id`, where the platform has such.
    """

    conversation: ConversationRef
    message_id: str
    id_space: str = ""
    token: str | None = None
    refused: Refused | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What one account hears in what a provider sent.

    `skipped` names what this account knows and does not record, one word per event; `foreign`
    counts what is for other accounts.
    """

    messages: tuple[InboundMessage, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    skipped: tuple[str, ...] = ()
    foreign: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a listener brings at once, each part as a webhook would have brought it.

    `cursor` is where to go on after it; it is stored after the messages are, and then `done` is
    awaited, which is what tells the provider. `gap` says that something may be missing before it,
    in the conversations named by `rooms`, or in any of the account where that is None.
    """

    requests: tuple[Request, ...] = ()
    cursor: str | None = None
    done: Callable[[], Awaitable[None]] | None = None
    gap: bool = False
    rooms: tuple[ConversationRef, ...] | None = None


class Unsent(Exception):
    """No byte of the call left: it certainly was not said."""


class Lost(Exception):
    """The call left and no answer came: it may have been said."""


class Overlong(Lost):
    """The answer is longer than the call allows."""


class Bucket(Word):
    """What a rate limit is counted by."""

    CONVERSATION = "conversation"
    ROUTE = "route"
    ACCOUNT = "account"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Proof: the id the provider gave the message.

    `id_space` is that of the ids heard where it was said. `conversation` is where it was said,
    which may be another address than was asked for: then the conversation has that one as well, and
    it is its newest.
    """

    message_id: str
    id_space: str = ""
    conversation: ConversationRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The provider said no, so it was not said.

    `wait` is in seconds, as the provider stated it; None where it did not. `bucket` None is not
    known.
    """

    failure: Failure
    reason: str = ""
    wait: float | None = None
    bucket: Bucket | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """An answer that tells neither: it may have been said."""

    reason: str


class Transport(Protocol):
    """Performs calls. The only place that knows whether bytes left."""

    async def perform(self, call: ApiCall) -> ApiResponse:
        """The provider's answer, whatever its status.

        Never repeats a call by itself, never follows a redirect. Raises `Unsent` or `Lost`.
        """
