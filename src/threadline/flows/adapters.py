"""Adapters that run elsewhere: registered durably, after they proved that their callback is theirs.

Who registers is a token: a controller's, or one of the account itself. As long as that token holds,
nobody else takes the account.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from threadline.core.adapters import (
    Account,
    Capabilities,
    Challenged,
    Channels,
    Children,
    Registration,
)
from threadline.core.draft import Draft
from threadline.core.errors import (
    AccountTaken,
    CallbackFailed,
    InvalidInput,
    NoAdapter,
    NotFound,
    OutcomeUnknown,
)
from threadline.core.ids import number_of
from threadline.core.model import (
    CONTROLLER,
    AdapterCaller,
    Caller,
    Controller,
    ConversationRef,
)
from threadline.core.places import create
from threadline.core.ports import (
    ADAPTER,
    ADAPTERS,
    LISTENER,
    TOKEN,
    TOKEN_BY_ID,
    Changes,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
)
from threadline.core.rules import authority, delivery
from threadline.core.rules.limits import LIMITS, Limits, clamp
from threadline.core.tokens import holds
from threadline.core.wire import Doubt, Lost, Refused, Unsent
from threadline.flows.capabilities import (
    checked_callback,
    checked_secret,
    new_secret,
    read_capabilities,
)
from threadline.flows.conversations import State, shown
from threadline.flows.looking import found, where_of
from threadline.flows.registered import AccountKey, AdapterState, account_of, adapter_state
from threadline.flows.sealing import nonce, seal

MAX_TITLE = 200


def _free_for(loaded: Loaded, key: AccountKey, owner: str, now: datetime) -> Registration | None:
    """What is registered by this owner. Raises `AccountTaken` while another's token holds."""
    before = loaded.get(ADAPTER, key)
    if before is None or before.owner == owner:
        return before
    number = number_of(before.owner)
    if number is not None:
        rows = loaded.page(Page(TOKEN_BY_ID, (number,)))
        token = loaded.get(TOKEN, bytes(rows[0][0])) if rows else None
        if token is None or not holds(token, now):
            return before
    raise AccountTaken(
        f"{key[1]}/{key[2]} was registered with another token. Remove that registration, or revoke "
        "that token.",
        provider=key[1],
        account_id=key[2],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare(Story[str]):
    """Whether the account is free for this owner, and which secret it signs with already."""

    key: AccountKey
    owner: str

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, str]:
        """The secret is empty where there is none yet."""
        before = _free_for(loaded, self.key, self.owner, now)
        if before is None:
            return Changes(), ""
        return Changes(), account_of(loaded, before).secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Register(Story[AdapterState]):
    """Write a registration down. Its callback was proven."""

    key: AccountKey
    owner: str
    callback: str
    capabilities: Capabilities
    secret: str = field(repr=False)
    fresh: bytes = field(repr=False)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, AdapterState]:
        """Raises `AccountTaken` where another was quicker."""
        draft = Draft(loaded)
        before = _free_for(draft, self.key, self.owner, now)
        scope, provider, account = self.key
        made = Registration(
            scope_id=scope,
            provider=provider,
            account_id=account,
            callback=self.callback,
            owner=self.owner,
            secret=seal(draft, self.secret, self.fresh),
            created_at=now if before is None else before.created_at,
            capabilities=self.capabilities,
        )
        draft.put(ADAPTER, self.key, made)
        return draft.changes, adapter_state(draft, made, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAdapter(Story[AdapterState]):
    """One registration."""

    key: AccountKey

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, AdapterState]:
        """Raises `NotFound`."""
        row = loaded.get(ADAPTER, self.key)
        if row is None:
            name = f"{self.key[1]}/{self.key[2]}"
            raise NotFound(f"nobody is registered for {name}.", account=name)
        return Changes(), adapter_state(loaded, row, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAdapters(Story[tuple[list[AdapterState], str | None]]):
    """A page of a scope's registrations, by provider and account."""

    scope: str
    after: tuple[str, str]
    limit: int

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[list[AdapterState], str | None]]:
        """The second answer is where the next page begins."""
        rows = loaded.page(Page(ADAPTERS, (self.scope, *self.after, self.limit + 1)))
        page = rows[: self.limit]
        more = f"{page[-1].provider}/{page[-1].account_id}" if len(rows) > self.limit else None
        return Changes(), ([adapter_state(loaded, row, now) for row in page], more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove(Story[AdapterState]):
    """End a registration. What waits for the account goes on waiting, as long as it may live."""

    key: AccountKey
    owner: str | None

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, AdapterState]:
        """Raises `NotFound`, and `AccountTaken` for an adapter that did not register it."""
        draft = Draft(loaded)
        row = draft.get(ADAPTER, self.key)
        if row is None:
            name = f"{self.key[1]}/{self.key[2]}"
            raise NotFound(f"nobody is registered for {name}.", account=name)
        if self.owner is not None:
            _free_for(draft, self.key, self.owner, now)
        draft.put(ADAPTER, self.key, None)
        draft.put(LISTENER, self.key, None)
        return draft.changes, adapter_state(draft, row, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAccount(Story[tuple[Account, ConversationRef]]):
    """The account of a conversation, and its address."""

    where: ConversationRef | int
    caller: Caller

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[Account, ConversationRef]]:
        """Raises `NoAdapter` where nobody speaks for it."""
        conversation = found(loaded, self.where, self.caller)
        ref = conversation.ref
        row = loaded.get(ADAPTER, (ref.scope_id, ref.provider, ref.account_id))
        if row is None:
            raise NoAdapter(f"nobody speaks for {ref.provider}/{ref.account_id}.")
        return Changes(), (account_of(loaded, row), ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddChild(Story[State]):
    """Make the conversation an adapter opened known, below the one it was opened in."""

    ref: ConversationRef
    parent: ConversationRef
    root: str | None
    title: str

    def needs(self) -> Needs:
        """Both addresses."""
        return Needs(take=(self.ref.text,), peek=(self.parent.text,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, State]:
        """One that is known stays as it is."""
        draft = Draft(loaded)
        there = draft.taken(self.ref.text) or create(
            draft, self.ref, now, parent=self.parent, root=self.root, title=self.title
        )
        return draft.changes, shown(there, now)


class Adapters:
    """Adapters outside of this process."""

    def __init__(
        self, store: Store, channels: Channels | None = None, limits: Limits = LIMITS
    ) -> None:
        self._store = store
        self._channels = channels
        self._limits = limits

    async def register(
        self,
        provider: str,
        account_id: str,
        callback: str,
        *,
        capabilities: Mapping[str, Any] | Capabilities | None = None,
        secret: str | None = None,
        owner: str = "",
        scope: str | None = None,
        caller: Caller = CONTROLLER,
    ) -> AdapterState:
        """Register who speaks for an account, once its callback gave a signed challenge back.

        `capabilities` are as in `docs/how-to/adapters.md`; `secret` (`whsec_…`) signs what is sent,
        made and answered once where it is left out. `owner` is the id of the token that registers:
        as long as that holds, another gets `AccountTaken`. Registering again changes callback and
        capabilities and keeps the secret. Raises `CallbackFailed`, `InvalidInput`, `Unauthorized`.
        """
        key = self._key(provider, account_id, scope, caller)
        if key[1] in delivery.LOCAL:
            raise AccountTaken(f"{key[1]} is threadline's own.", provider=key[1])
        can = read_capabilities(capabilities)
        where = checked_callback(callback)
        known = await self._store.read(Prepare(key=key, owner=owner))
        made = secret or known or new_secret()
        checked_secret(made)
        await self._prove(
            Account(
                scope_id=key[0],
                provider=key[1],
                account_id=key[2],
                callback=where,
                secret=made,
                capabilities=can,
            )
        )
        state = await self._store.run(
            Register(
                key=key,
                owner=owner,
                callback=where,
                capabilities=can,
                secret=made,
                fresh=nonce(),
            )
        )
        if secret is None and not known:
            return replace(state, secret=made)
        return state

    async def _prove(self, account: Account) -> None:
        channels = self._channels
        dialect: object = None if channels is None else channels.dialect(account)
        if channels is None or not isinstance(dialect, Challenged):
            raise InvalidInput(f"{account.provider} is not spoken by adapters elsewhere.")
        words = secrets.token_urlsafe(24)
        try:
            answer = await channels.transport(account.provider).perform(dialect.challenge(words))
        except (Unsent, Lost) as error:
            raise CallbackFailed(f"(POST {account.callback}/challenge: {error})") from None
        if not dialect.is_proven(words, answer):
            raise CallbackFailed(
                f"(POST {account.callback}/challenge answered HTTP {answer.status} without the "
                "words it was sent)"
            )

    async def show(
        self,
        provider: str,
        account_id: str,
        *,
        scope: str | None = None,
        caller: Caller = CONTROLLER,
    ) -> AdapterState:
        """One registration. Raises `NotFound`, and `Unauthorized` for a foreign account."""
        return await self._store.read(
            ReadAdapter(key=self._key(provider, account_id, scope, caller))
        )

    async def page(
        self,
        *,
        after: str | None = None,
        limit: int | None = None,
        scope: str | None = None,
        caller: Caller = CONTROLLER,
    ) -> tuple[list[AdapterState], str | None]:
        """A page of registrations and the cursor of the next; an adapter sees its own."""
        if isinstance(caller, AdapterCaller):
            try:
                own = await self.show(caller.provider, caller.account_id, caller=caller)
            except NotFound:
                return [], None
            return [own], None
        authority.may_control(caller)
        provider, _, account = (after or "").partition("/")
        return await self._store.read(
            ReadAdapters(
                scope=scope or authority.scope_of(caller),
                after=(provider, account),
                limit=clamp(limit, self._limits),
            )
        )

    async def remove(
        self,
        provider: str,
        account_id: str,
        *,
        owner: str = "",
        scope: str | None = None,
        caller: Caller = CONTROLLER,
    ) -> AdapterState:
        """End a registration; what waits for it is sent once another is there, or expires.

        A controller ends any of its scope, an adapter its own. Raises `NotFound`, `AccountTaken`.
        """
        key = self._key(provider, account_id, scope, caller)
        whose = None if isinstance(caller, Controller) else owner
        return await self._store.run(Remove(key=key, owner=whose))

    async def open_child(
        self,
        where: ConversationRef | str,
        *,
        root: str | None = None,
        title: str = "",
        key: str | None = None,
        caller: Caller = CONTROLLER,
    ) -> State:
        """Let the adapter open a conversation below another; answers the child.

        `root` is the message id it hangs on. The same `key` opens one. Raises `NoAdapter` where
        the account's adapter cannot, `CallbackFailed` where it refused, `OutcomeUnknown`.
        """
        place = where_of(where)
        authority.may_write(caller, place)
        if len(title) > MAX_TITLE or not title.isprintable():
            raise InvalidInput(f"a title has at most {MAX_TITLE} printable characters.")
        account, ref = await self._store.read(ReadAccount(where=place, caller=caller))
        channels = self._channels
        dialect: object = None if channels is None else channels.dialect(account)
        can = account.capabilities.child_conversations
        if channels is None or not can or not isinstance(dialect, Children):
            raise NoAdapter(f"the adapter of {ref.provider}/{ref.account_id} opens none.")
        name = key or secrets.token_urlsafe(18)
        call = dialect.open_child(ref, root, title, f"child.{name}")
        try:
            answer = await channels.transport(account.provider).perform(call)
        except Unsent as error:
            raise CallbackFailed(f"({error})") from None
        except Lost as error:
            raise OutcomeUnknown(f"({error}) Ask again with the same key.") from None
        child = dialect.read_child(ref, call, answer)
        match child:
            case Refused(failure=failure, reason=reason):
                raise CallbackFailed(f"({failure.value}: {reason})", refused=failure.value)
            case Doubt(reason=reason):
                raise OutcomeUnknown(f"({reason}) Ask again with the same key.")
            case ConversationRef():
                pass
        return await self._store.run(AddChild(ref=child, parent=ref, root=root, title=title))

    def _key(self, provider: str, account_id: str, scope: str | None, caller: Caller) -> AccountKey:
        ref = ConversationRef(
            provider, account_id, "-", scope_id=scope or authority.scope_of(caller)
        )
        authority.may_write(caller, ref)
        return ref.scope_id, ref.provider, ref.account_id
