"""What only a provider knows of itself, as its tests hand it to the contract kit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any

from threadline.core.adapters import Account
from threadline.core.deliveries import Failure
from threadline.core.model import ConversationRef
from threadline.core.wire import ApiCall, ApiResponse, Request

Answers = Callable[[ApiCall], ApiResponse]

MENTIONS = ("@everyone", "@here", "@channel", "@all", "@room", "<!channel>", "<@101>", "<@&7>")


class Seal(Enum):
    """What a signature of the platform covers."""

    BYTES = "every byte of the body"
    MEANING = "every field of the body, however it is written down"
    NOTHING = "nothing of the body: a secret in a header that only the platform knows"


class LawBroken(AssertionError):
    """A dialect breaks a law of the contract; the text says which, how, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer in which the platform says no, and what that has to be read as."""

    answer: ApiResponse
    failure: Failure
    wait: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """How the conversation with a person is opened: by what name, and what the platform answers."""

    address: str
    answers: Answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """How a thread is opened: below which room, on which message, and what is answered."""

    room: ConversationRef
    root: str | None
    answer: ApiResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class Specimen:
    """One connected account of a provider, and the platform around it as plain functions.

    `account` is a connected one: credentials, settings, the actor it is. `webhooks` are recorded
    events of its own by a title, not yet signed; those named in `quiet` say nothing and are
    answered only. `sign` signs one as the platform does, with the secrets of the account it is
    given; `seal` says what that covers, `window` how old it may be.

    `says` is the event in which a person says a text; `shows` is the text that people read when a
    call was performed; `pings` names whom it notifies; `takes` is the platform's yes to it;
    `echoes` the event in which our own message comes back, where it does. `refusals` are the
    platform's ways to say no, a rate limit at least.

    `checks` are the answers to `check()`, in their order. `past` answers the history calls of the
    conversation that the webhook with this title is in; `directs` and `children` open the one that
    it is in. `places` are further conversations that it may be asked to speak in. `on_the_wire`
    names what is asked for and used by the transport only; `learned` names settings that
    `read_check` answers for other accounts than this one.
    """

    account: Account
    webhooks: Mapping[str, Request]
    shows: Callable[[ApiCall], str]
    takes: Answers
    pings: Callable[[ApiCall], Iterable[str]]
    refusals: Sequence[Refusal]
    says: Callable[[str], Request] | None = None
    sign: Callable[[Request, Account], Request] | None = None
    seal: Seal = Seal.BYTES
    window: timedelta | None = None
    echoes: Callable[[ApiCall, ApiResponse], Request] | None = None
    checks: Sequence[ApiResponse] = ()
    past: Mapping[str, Answers] = field(default_factory=dict)
    directs: Mapping[str, Direct] = field(default_factory=dict)
    children: Mapping[str, Child] = field(default_factory=dict)
    places: Sequence[ConversationRef] = ()
    quiet: frozenset[str] = frozenset()
    on_the_wire: frozenset[str] = frozenset()
    learned: frozenset[str] = frozenset()
    mentions: Sequence[str] = MENTIONS
    dialect: type | None = None
    examples: int = 40

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.account.provider

    def kind(self) -> Any:
        """The class of the dialect: as given, else the one registered under the account's provider.

        Raises `LawBroken` where there is none.
        """
        if self.dialect is not None:
            return self.dialect
        from threadline.adapters.registry import GROUP, load, providers

        known = providers().get(self.name)
        if known is None:
            raise LawBroken(
                f"no provider is called {self.name!r}: a package registers one by an entry point "
                f"of the group {GROUP!r}, whose name is the provider's."
            )
        return load(known.dialect, known)

    def made(self, account: Account | None = None) -> Any:
        """The dialect of the account, or of another one."""
        return self.kind()(account or self.account)

    def signed(self, request: Request, account: Account | None = None) -> Request:
        """A request as the platform sends it."""
        return request if self.sign is None else self.sign(request, account or self.account)
