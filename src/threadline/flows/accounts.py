"""Accounts of ours on a platform: connected once a live call said who we are.

What opens an account is sealed before it is written down. Its webhook's path holds a name, the
installation: the path picks the secret, and what the verified body says picks the account among
those with that name.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from threadline.core.adapters import (
    Account,
    Ask,
    Channels,
    Connectable,
    Identity,
    Registration,
)
from threadline.core.draft import Draft
from threadline.core.errors import (
    AccountTaken,
    CallbackFailed,
    InvalidInput,
    NotFound,
    Unauthenticated,
)
from threadline.core.model import CONTROLLER, Caller, ConversationRef
from threadline.core.ports import ADAPTER, INSTALLED, LISTENER, Changes, Loaded, Page, Store, Story
from threadline.core.rules import authority
from threadline.core.wire import ApiCall, Doubt, Lost, Refused, Unsent
from threadline.flows.registered import AccountKey, AdapterState, account_of, adapter_state
from threadline.flows.sealing import nonce, seal, sealable

PATH = "/v1/webhooks"
STEPS = 8
SECRET_CHARACTERS = 32
MAX_VALUE = 8_000
TOGETHER = 1_000
NAME = re.compile(r"[A-Za-z0-9._:@+-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """An account that was connected, and how its events come.

    `webhook` is the path events are sent to, empty where a listener fetches them; `announced` says
    that the provider was told. `secrets` are those that were made up here and that the provider's
    pages have to be given, shown once.
    """

    state: AdapterState
    webhook: str = ""
    announced: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAccount(Story[AdapterState]):
    """Write a connected account down, with its credentials sealed."""

    key: AccountKey
    account: Account
    fresh: bytes = field(repr=False)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, AdapterState]:
        """Connecting again changes it. Raises `AccountTaken` where an adapter elsewhere has it."""
        draft = Draft(loaded)
        before = draft.get(ADAPTER, self.key)
        if before is not None and before.callback:
            raise AccountTaken(
                f"{self.key[1]}/{self.key[2]} is spoken for by an adapter elsewhere, at "
                f"{before.callback}. Remove that registration first."
            )
        account = self.account
        row = Registration(
            scope_id=account.scope_id,
            provider=account.provider,
            account_id=account.account_id,
            callback="",
            owner="",
            secret=seal(draft, sealable(account.credentials), self.fresh),
            created_at=now if before is None else before.created_at,
            capabilities=account.capabilities,
            installation=account.installation,
            settings=dict(account.settings),
        )
        draft.put(ADAPTER, self.key, row)
        listener = draft.get(LISTENER, self.key)
        if listener is not None:
            # Whoever listens with the old credentials has to look again.
            draft.put(
                LISTENER,
                self.key,
                replace(
                    listener, owner="", fence=listener.fence + 1, leased_until=None, trouble=""
                ),
            )
        return draft.changes, adapter_state(draft, row, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadInstalled(Story[tuple[datetime, list[Account]]]):
    """The accounts behind the path of a webhook, opened; and what time it is."""

    provider: str
    installation: str

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[datetime, list[Account]]]:
        """Of every scope: the body that its secret verifies tells which."""
        rows = loaded.page(Page(INSTALLED, (self.provider, self.installation, TOGETHER)))
        return Changes(), (now, [account_of(loaded, row) for row in rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAccount(Story[Account]):
    """One account as its dialect needs it."""

    key: AccountKey

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Account]:
        """Raises `NotFound`."""
        row = loaded.get(ADAPTER, self.key)
        if row is None:
            name = f"{self.key[1]}/{self.key[2]}"
            raise NotFound(f"{name} is not connected.", account=name)
        return Changes(), account_of(loaded, row)


class Accounts:
    """Accounts of this house."""

    def __init__(self, store: Store, channels: Channels | None = None) -> None:
        self._store = store
        self._channels = channels

    async def asks(self, provider: str, *, caller: Caller = CONTROLLER) -> tuple[Ask, ...]:
        """What has to be known to connect. Raises `InvalidInput` for a provider nobody speaks."""
        authority.may_control(caller)
        return self._kind(provider).asks()

    async def connect(
        self,
        provider: str,
        given: Mapping[str, str],
        *,
        installation: str | None = None,
        public_url: str = "",
        scope: str | None = None,
        caller: Caller = CONTROLLER,
    ) -> Connected:
        """Connect an account, once the provider said who it is.

        `given` answers `asks(provider)`; `installation` is the name in the path of its webhook, by
        default the account's id; `public_url` is where the provider reaches this server: with it
        the provider is told where to send events, if that can be done by a call. Connecting again
        changes the credentials and keeps everything else. Raises `InvalidInput` naming what is
        missing, `Unauthenticated` where the provider refuses the credentials, `CallbackFailed`
        where it cannot be reached, `AccountTaken`.
        """
        authority.may_control(caller)
        kind = self._kind(provider)
        account, made = _read(kind.asks(), given, provider, scope or authority.scope_of(caller))
        identity = await self._who(provider, kind(account))  # type: ignore[call-arg]
        settings = {**account.settings, **identity.settings}
        name = installation or identity.account_id
        if not NAME.fullmatch(name):
            raise InvalidInput(
                f"the installation {name!r} is no part of a path: choose a name of letters, "
                "digits and ._:@+-",
                field="installation",
            )
        account = replace(
            account,
            account_id=ConversationRef(provider, identity.account_id, "-").account_id,
            installation=name,
            settings=settings,
        )
        dialect: Any = kind(account)  # type: ignore[call-arg]
        account = replace(
            account,
            capabilities=replace(dialect.capabilities, actor=identity.actor),
            settings={**settings, "events": "fetched" if dialect.listens() else "sent"},
        )
        key = (account.scope_id, account.provider, account.account_id)
        state = await self._store.run(WriteAccount(key=key, account=account, fresh=nonce()))
        if dialect.listens():
            return Connected(state=state)
        path = f"{PATH}/{provider}/{name}"
        announced = False
        if public_url:
            call = dialect.webhook(public_url.rstrip("/") + path)
            if call is not None:
                await self._told(provider, call)
                announced = True
        return Connected(
            state=state, webhook=path, announced=announced, secrets={} if announced else made
        )

    async def disconnect(
        self,
        provider: str,
        account_id: str,
        *,
        scope: str | None = None,
        caller: Caller = CONTROLLER,
    ) -> bool:
        """Tell the provider that nobody listens any more; whether it could be told.

        The row itself is removed by `adapters.remove`. Raises `NotFound`.
        """
        authority.may_control(caller)
        key = (scope or authority.scope_of(caller), provider, account_id)
        account = await self._store.read(OpenAccount(key=key))
        dialect: Any = None if self._channels is None else self._channels.dialect(account)
        if not isinstance(dialect, Connectable) or dialect.listens():
            return False
        call = dialect.webhook(None)
        if call is None:
            return False
        try:
            await self._told(provider, call)
        except CallbackFailed:
            return False
        return True

    async def check(
        self,
        provider: str,
        account_id: str,
        *,
        scope: str | None = None,
        caller: Caller = CONTROLLER,
    ) -> Identity:
        """Ask the provider once more who the account is: what `doctor` does.

        Raises what `connect` raises, and `NotFound`.
        """
        authority.may_control(caller)
        key = (scope or authority.scope_of(caller), provider, account_id)
        account = await self._store.read(OpenAccount(key=key))
        return await self._who(provider, self._kind(provider)(account))  # type: ignore[call-arg]

    def _kind(self, provider: str) -> type[Connectable]:
        kind = None if self._channels is None else self._channels.connectable(provider)
        if kind is None:
            raise InvalidInput(
                f"threadline does not speak {provider!r} itself. An adapter of your own registers "
                "at POST /v1/adapters.",
                field="provider",
            )
        return kind

    async def _who(self, provider: str, dialect: Connectable) -> Identity:
        """Who the provider says we are."""
        assert self._channels is not None
        wire = self._channels.transport(provider)
        call = dialect.check()
        for _ in range(STEPS):
            try:
                answer = await wire.perform(call)
            except (Unsent, Lost) as error:
                raise CallbackFailed(f"({provider} cannot be reached: {error})") from None
            match dialect.read_check(call, answer):
                case Identity() as identity:
                    return identity
                case Refused(reason=reason):
                    raise Unauthenticated(f"{provider} refuses these credentials: {reason}")
                case Doubt(reason=reason):
                    raise CallbackFailed(f"({provider} answered strangely: {reason})")
                case ApiCall() as call:
                    pass
        raise CallbackFailed(f"({provider} went on asking for further calls)")

    async def _told(self, provider: str, call: ApiCall) -> None:
        assert self._channels is not None
        try:
            answer = await self._channels.transport(provider).perform(call)
        except (Unsent, Lost) as error:
            raise CallbackFailed(f"({provider} cannot be reached: {error})") from None
        if not 200 <= answer.status < 300:
            raise CallbackFailed(
                f"({provider} does not take the webhook: HTTP {answer.status}, "
                f"{answer.body[:200].decode('utf-8', 'replace')})"
            )


def _read(
    asks: tuple[Ask, ...], given: Mapping[str, str], provider: str, scope: str
) -> tuple[Account, dict[str, str]]:
    """The answers sorted into credentials and settings, and the secrets that were made up."""
    unknown = sorted(set(given) - {one.name for one in asks})
    if unknown:
        names = ", ".join(one.name for one in asks)
        raise InvalidInput(f"{provider} is not asked for {unknown[0]!r}, but for {names}.")
    credentials: dict[str, str] = {}
    settings: dict[str, Any] = {}
    made: dict[str, str] = {}
    for one in asks:
        value = given.get(one.name, "").strip() or one.default
        if not value and one.made:
            value = made[one.name] = secrets.token_urlsafe(SECRET_CHARACTERS)
        if not value and not one.optional:
            raise InvalidInput(f"{one.name} is missing: {one.where}", field=one.name)
        if len(value) > MAX_VALUE or not value.isprintable():
            raise InvalidInput(
                f"{one.name} has at most {MAX_VALUE} printable characters.", field=one.name
            )
        if value and one.secret and _placeholder(value):
            raise InvalidInput(
                f"{one.name} is a placeholder, not a secret: {one.where}", field=one.name
            )
        if value:
            (credentials if one.secret else settings)[one.name] = value
    account = Account(
        scope_id=scope,
        provider=provider,
        account_id="",
        credentials=credentials,
        settings=settings,
    )
    return account, made


PLACEHOLDERS = re.compile(
    r"(your|my|the|change|replace|example|secret|token|todo|xxx+|placeholder|dummy|test|foo)"
    r"([-_ ]?(your|my|me|this|secret|token|key|here|app|bot|signing|x+))*",
    re.IGNORECASE,
)


def _placeholder(value: str) -> bool:
    """Whether it is what a person left in from an example."""
    bare = value.strip("<>[]{}$. ")
    return bare != value or PLACEHOLDERS.fullmatch(bare) is not None or len(set(bare)) < 3
