"""Bearer tokens: made and shown once, known by a keyed hash only, revoked at once.

A session's token points at the session itself, not at its name. It follows a `reassign`; whoever
gets the name anew after a `retire` gets none of the old tokens.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput, NotFound, Unauthorized
from threadline.core.ids import number_of, public
from threadline.core.model import (
    CONTROLLER,
    AdapterCaller,
    Caller,
    Controller,
    ConversationRef,
    SessionCaller,
)
from threadline.core.ports import (
    SESSION,
    TOKEN,
    TOKEN_BY_ID,
    TOKENS,
    Changes,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
    fetch,
)
from threadline.core.rules import admission, authority
from threadline.core.rules.authority import Where
from threadline.core.rules.limits import LIMITS, Limits, clamp
from threadline.core.seating import ensure_session, heir, numbers_of, session_named
from threadline.core.tokens import SCOPES, Token, TokenKind, holds
from threadline.flows.looking import found, member_of, where_of

BYTES = 32
MAX_NAME = 200
LENT = frozenset({"read", "publish"})
LENT_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenState:
    """A token as it is shown. `token` is the secret: there right after it was made, never again."""

    id: str
    kind: TokenKind
    name: str
    scope_id: str | None
    provider: str
    account_id: str
    session_id: str | None
    conversation_id: str | None
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    human: bool = False
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """Who a token makes of whoever carries it. `id` names the token, for revocation and keys.

    `csrf` is there where a browser carries it by itself, as a cookie: the page has to repeat it.
    """

    id: str
    caller: Caller
    expires_at: datetime | None
    csrf: str = ""


def key_of(loaded: Loaded, secret: str) -> bytes:
    """What a token's secret is stored under."""
    return loaded.id_key("token", secret)


def _shown(token: Token, session: str | None, secret: str | None = None) -> TokenState:
    return TokenState(
        id=public(token.id),
        kind=token.kind,
        name=token.name,
        scope_id=token.scope_id,
        provider=token.provider,
        account_id=token.account_id,
        session_id=session,
        conversation_id=None if token.conversation is None else public(token.conversation),
        scopes=token.scopes,
        created_at=token.created_at,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
        human=token.human,
        token=secret,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Create(Story[TokenState]):
    """Write a token's hash. A session that is unknown is created by a controller's call."""

    secret: str = field(repr=False)
    kind: TokenKind
    name: str
    scope: str | None
    provider: str = ""
    account_id: str = ""
    session: str | None = None
    scopes: tuple[str, ...] = ()
    expires_at: datetime | None = None
    human: bool = False

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, TokenState]:
        """Raises `InvalidInput` for one that would never hold."""
        draft = Draft(loaded)
        if self.expires_at is not None and self.expires_at <= now:
            raise InvalidInput("expires_at is in the past.", field="expires_at")
        session = None
        if self.session is not None:
            session = ensure_session(draft, self.scope or "default", self.session, now)
        token = Token(
            id=draft.fresh(),
            kind=self.kind,
            created_at=now,
            name=self.name,
            scope_id=self.scope,
            provider=self.provider,
            account_id=self.account_id,
            session=None if session is None else session.id,
            scopes=self.scopes,
            expires_at=self.expires_at,
            human=self.human,
        )
        draft.put(TOKEN, key_of(draft, self.secret), token)
        return draft.changes, _shown(token, session.name if session else None, self.secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lend(Story[TokenState]):
    """Write down the hash of a token for one conversation."""

    secret: str = field(repr=False)
    session: str
    scope: str
    where: Where
    caller: Caller
    name: str
    scopes: tuple[str, ...]
    seconds: float
    parent: int | None

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, TokenState]:
        """Only where the session is a member."""
        draft = Draft(loaded)
        conversation = found(draft, self.where, self.caller)
        session, _ = member_of(draft, conversation, self.session, now, caller=self.caller)
        token = Token(
            id=draft.fresh(),
            kind=TokenKind.SESSION,
            created_at=now,
            name=self.name,
            scope_id=session.scope_id,
            session=session.id,
            scopes=self.scopes,
            conversation=conversation.id,
            parent=self.parent,
            expires_at=now + timedelta(seconds=self.seconds),
        )
        draft.put(TOKEN, key_of(draft, self.secret), token)
        return draft.changes, _shown(token, session.name, self.secret)


@dataclass(frozen=True, slots=True)
class Recognise(Story[Bearer | None]):
    """Whom a secret makes of its bearer, None for one that does not hold."""

    secret: str = field(repr=False)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Bearer | None]:
        """Found by the keyed hash: no comparison takes longer the nearer a guess is."""
        draft = Draft(loaded)
        token = draft.get(TOKEN, key_of(loaded, self.secret))
        caller = None if token is None else caller_of(draft, token, now)
        if token is None or caller is None:
            return Changes(), None
        return Changes(), Bearer(id=public(token.id), caller=caller, expires_at=token.expires_at)


def caller_of(draft: Draft, token: Token, now: datetime) -> Caller | None:
    """Whom a token makes of its bearer at this instant, None where it does not hold."""
    if not holds(token, now):
        return None
    match token.kind:
        case TokenKind.CONTROLLER:
            return Controller(token.scope_id, human=token.human)
        case TokenKind.ADAPTER:
            return AdapterCaller(token.scope_id or "default", token.provider, token.account_id)
        case TokenKind.SESSION:
            session = heir(draft, token.session)
            if session is None:
                return None
            if token.parent is not None and not _parent_holds(draft, token.parent, now):
                return None
            scopes = frozenset(token.scopes)
            return SessionCaller(session.name, session.scope_id, scopes, token.conversation)


def _parent_holds(draft: Draft, parent: int, now: datetime) -> bool:
    """Whether the token that another was made with still holds."""
    rows = draft.page(Page(TOKEN_BY_ID, (parent,)))
    found = draft.get(TOKEN, bytes(rows[0][0])) if rows else None
    return found is not None and holds(found, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTokens(Story[tuple[list[TokenState], str | None]]):
    """A page of tokens that a controller may know, by their ids."""

    caller: Controller
    after: int
    limit: int

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[list[TokenState], str | None]]:
        """The second answer is where the next page begins."""
        draft = Draft(loaded)
        rows = loaded.page(Page(TOKENS, (self.after, self.limit + 1)))
        page = rows[: self.limit]
        fetch(loaded, SESSION, [row.session for row in page if row.session is not None])
        seen = [_shown(row, _name(draft, row.session)) for row in page if _within(self.caller, row)]
        return Changes(), (seen, public(page[-1].id) if len(rows) > self.limit else None)


def _name(draft: Draft, session: int | None) -> str | None:
    there = None if session is None else draft.get(SESSION, session)
    return None if there is None else there.name


def _within(caller: Controller, token: Token) -> bool:
    return caller.scope_id is None or caller.scope_id == token.scope_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke(Story[TokenState]):
    """End a token. A second time changes nothing."""

    token: int
    caller: Controller | SessionCaller

    def needs(self) -> Needs:
        """Which hash it has."""
        return Needs(pages=[Page(TOKEN_BY_ID, (self.token,))])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, TokenState]:
        """One of another scope does not exist for the caller; a session ends what it lent."""
        draft = Draft(loaded)
        rows = loaded.page(Page(TOKEN_BY_ID, (self.token,)))
        key = bytes(rows[0][0]) if rows else b""
        token = draft.get(TOKEN, key) if rows else None
        if token is None or not self._reaches(draft, token):
            raise NotFound("there is no such token.", token=public(self.token))
        if token.revoked_at is None:
            token = replace(token, revoked_at=now)
            draft.put(TOKEN, key, token)
        return draft.changes, _shown(token, _name(draft, token.session))

    def _reaches(self, draft: Draft, token: Token) -> bool:
        if isinstance(self.caller, Controller):
            return _within(self.caller, token)
        session = session_named(draft, self.caller.scope_id, self.caller.session)
        return token.conversation is not None and token.session in numbers_of(session)


class Tokens:
    """Making, recognising and revoking tokens."""

    def __init__(self, store: Store, limits: Limits = LIMITS) -> None:
        self._store = store
        self._limits = limits

    async def create(
        self,
        kind: TokenKind | str,
        *,
        name: str = "",
        scope: str | None = "default",
        provider: str | None = None,
        account_id: str | None = None,
        session: str | None = None,
        scopes: Iterable[str] | None = None,
        expires_at: datetime | None = None,
        human: bool = False,
        caller: Caller = CONTROLLER,
    ) -> TokenState:
        """Make a token; its secret is in the answer and nowhere else.

        A controller's covers `scope`, or with None every scope; one that is `human` grants
        consent. An adapter's needs `provider` and `account_id`, a session's `session`; `scopes`
        are `read` and `publish` unless given. Raises `InvalidInput`, `Unauthorized`.
        """
        controller = self._controller(caller)
        if controller.scope_id is not None and scope != controller.scope_id:
            raise Unauthorized("a token reaches no further than the one that makes it.")
        chosen: TokenKind = TokenKind.of(kind)
        _checked_name(name)
        if human and chosen is not TokenKind.CONTROLLER:
            raise InvalidInput(f"human is nothing for a {chosen.value}.", field="human")
        if human:
            authority.human(controller, "makes a human's token")
        if scope is not None:
            ConversationRef("web", "local", "-", scope_id=scope)
        wrong = {
            "provider and account_id": (provider, account_id),
            "session": (session, session),
        }
        wanted = {TokenKind.ADAPTER: "provider and account_id", TokenKind.SESSION: "session"}
        for what, values in wrong.items():
            needed = wanted.get(chosen) == what
            if needed and None in values:
                raise InvalidInput(f"a token of this kind needs {what}.", field=what)
            if not needed and any(one is not None for one in values):
                raise InvalidInput(f"{what} is nothing for a {chosen.value}.", field=what)
        if chosen is TokenKind.ADAPTER:
            if scope is None:
                raise InvalidInput("an adapter has one scope.", field="scope")
            ref = ConversationRef(provider or "", account_id or "", "-", scope_id=scope)
            provider = ref.provider
        if chosen is TokenKind.SESSION and scope is None:
            raise InvalidInput("a session has one scope.", field="scope")
        until = None if expires_at is None else admission.aware(expires_at, "expires_at")
        return await self._store.run(
            Create(
                secret=f"tl_{chosen.value[0]}_{secrets.token_urlsafe(BYTES)}",
                kind=chosen,
                name=name,
                scope=scope,
                provider=provider or "",
                account_id=account_id or "",
                session=session,
                scopes=_scopes(chosen, scopes),
                expires_at=until,
                human=human,
            )
        )

    async def lend(
        self,
        session: str,
        where: ConversationRef | str,
        *,
        scopes: Iterable[str] | None = None,
        seconds: float,
        name: str = "",
        parent: str | None = None,
        caller: Caller = CONTROLLER,
    ) -> TokenState:
        """A session's token for one conversation it is a member of, for at most a day.

        It reads and publishes there (`scopes`, default both) and is good for nothing else.
        `parent` is the id of the token it is made with: it ends with that one. Raises
        `InvalidInput`, `MembershipNotFound`, `NotFound`, and `Unauthorized` beyond the caller's
        own scopes.
        """
        authority.may_read(caller, session)
        authority.unbound(caller)
        chosen = _scopes(TokenKind.SESSION, scopes)
        if not set(chosen) <= LENT:
            raise InvalidInput("for one conversation there are: read, publish.", field="scopes")
        if isinstance(caller, SessionCaller) and not set(chosen) <= caller.scopes:
            raise Unauthorized("a token reaches no further than the one that makes it.")
        if not 0 < seconds <= LENT_SECONDS:
            raise InvalidInput(f"seconds is more than 0, at most {LENT_SECONDS}.", field="seconds")
        number = None if parent is None else number_of(parent)
        if parent is not None and number is None:
            raise NotFound("there is no such token.", token=parent[:64])
        return await self._store.run(
            Lend(
                secret=f"tl_c_{secrets.token_urlsafe(BYTES)}",
                session=session,
                scope=authority.scope_of(caller),
                where=where_of(where),
                caller=caller,
                name=_checked_name(name),
                scopes=chosen,
                seconds=seconds,
                parent=number,
            )
        )

    async def recognise(self, secret: str) -> Bearer | None:
        """Whom a token makes of its bearer; None where it is unknown, expired or revoked."""
        if not secret or len(secret) > MAX_NAME:
            return None
        return await self._store.read(Recognise(secret))

    async def page(
        self, *, after: str | None = None, limit: int | None = None, caller: Caller = CONTROLLER
    ) -> tuple[list[TokenState], str | None]:
        """A page of tokens without their secrets, and the cursor of the next."""
        controller = self._controller(caller)
        number = -1 if after is None else number_of(after)
        if number is None:
            raise InvalidInput("the cursor is not one a page gave.", after=after)
        size = clamp(limit, self._limits)
        return await self._store.read(ReadTokens(caller=controller, after=number, limit=size))

    async def revoke(self, token_id: str, *, caller: Caller = CONTROLLER) -> TokenState:
        """End a token at once; a session's caller those that were lent to one conversation.

        Raises `NotFound`.
        """
        authority.unbound(caller)
        revoker = caller if isinstance(caller, SessionCaller) else self._controller(caller)
        number = number_of(token_id)
        if number is None:
            raise NotFound("there is no such token.", token=token_id[:64])
        return await self._store.run(Revoke(token=number, caller=revoker))

    def _controller(self, caller: Caller) -> Controller:
        authority.may_control(caller)
        assert isinstance(caller, Controller)
        return caller


def _checked_name(name: str) -> str:
    if len(name) > MAX_NAME or not name.isprintable():
        raise InvalidInput(f"a name has at most {MAX_NAME} printable characters.", field="name")
    return name


def _scopes(kind: TokenKind, asked: Iterable[str] | None) -> tuple[str, ...]:
    if kind is not TokenKind.SESSION:
        if asked:
            raise InvalidInput(f"scopes are nothing for a {kind.value}.", field="scopes")
        return ()
    found = tuple(dict.fromkeys(("read", "publish") if asked is None else asked))
    if not found or not set(found) <= set(SCOPES):
        raise InvalidInput(f"scopes are one or more of: {', '.join(SCOPES)}.", field="scopes")
    return found
