"""The page's login: a controller's token exchanged for a session value of its own.

The value is random, kept as a keyed hash, and ends with its token. What the page has to repeat in
`X-CSRF-Token` is made of the value with the store's key, so nothing more is kept.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from threadline.core.draft import Draft
from threadline.core.errors import Unauthenticated, Unauthorized
from threadline.core.ids import public
from threadline.core.ports import ENDED_LOGINS, LOGIN, TOKEN, Changes, Loaded, Page, Store, Story
from threadline.core.tokens import Login, TokenKind
from threadline.flows.tokens import BYTES, MAX_NAME, Bearer, caller_of, key_of

LASTS = timedelta(days=7)
CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginState:
    """A login as it was made: `secret` is the cookie's value, shown here and never again."""

    secret: str = field(repr=False)
    bearer: Bearer
    lasts: timedelta


def _login_key(loaded: Loaded, secret: str) -> bytes:
    return loaded.id_key("login", secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIn(Story[LoginState]):
    """Write down a login under a controller's token."""

    token: str = field(repr=False)
    secret: str = field(repr=False)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, LoginState]:
        """Raises `Unauthenticated` for a token that does not hold, `Unauthorized` for others."""
        draft = Draft(loaded)
        key = key_of(loaded, self.token)
        token = draft.get(TOKEN, key)
        caller = None if token is None else caller_of(draft, token, now)
        if token is None or caller is None:
            raise Unauthenticated("the token is unknown, expired or revoked.")
        if token.kind is not TokenKind.CONTROLLER:
            raise Unauthorized("the page is for a controller's token.")
        ends = now + LASTS if token.expires_at is None else min(now + LASTS, token.expires_at)
        draft.put(LOGIN, _login_key(loaded, self.secret), Login(key, ends))
        bearer = Bearer(
            id=public(token.id),
            caller=caller,
            expires_at=ends,
            csrf=loaded.id_key("csrf", self.secret).hex(),
        )
        return draft.changes, LoginState(secret=self.secret, bearer=bearer, lasts=ends - now)


@dataclass(frozen=True, slots=True)
class Recall(Story[Bearer | None]):
    """Whom a login makes of whoever carries it, as long as its token holds."""

    secret: str = field(repr=False)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Bearer | None]:
        """Found by the keyed hash, as a token is."""
        draft = Draft(loaded)
        login = draft.get(LOGIN, _login_key(loaded, self.secret))
        if login is None or now >= login.ends:
            return Changes(), None
        token = draft.get(TOKEN, login.token)
        caller = None if token is None else caller_of(draft, token, now)
        if token is None or caller is None:
            return Changes(), None
        return Changes(), Bearer(
            id=public(token.id),
            caller=caller,
            expires_at=login.ends,
            csrf=loaded.id_key("csrf", self.secret).hex(),
        )


@dataclass(frozen=True, slots=True)
class LogOut(Story[None]):
    """End a login. A second time changes nothing."""

    secret: str = field(repr=False)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """The row goes."""
        draft = Draft(loaded)
        key = _login_key(loaded, self.secret)
        if draft.get(LOGIN, key) is not None:
            draft.put(LOGIN, key, None)
        return draft.changes, None


@dataclass(frozen=True, slots=True)
class ForgetLogins(Story[int]):
    """Remove logins that ended; they open nothing any more."""

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, int]:
        """Answers how many there were, at most `CHUNK`."""
        draft = Draft(loaded)
        rows = draft.page(Page(ENDED_LOGINS, (since_epoch(now), CHUNK)))
        for (key,) in rows:
            if draft.get(LOGIN, bytes(key)) is not None:
                draft.put(LOGIN, bytes(key), None)
        return draft.changes, len(rows)


def since_epoch(at: datetime) -> int:
    """Whole microseconds, as a store compares times."""
    return (at - datetime(1970, 1, 1, tzinfo=at.tzinfo)) // timedelta(microseconds=1)


class Logins:
    """The page's logins."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def log_in(self, token: str) -> LoginState:
        """Exchange a controller's token for a login of at most a week.

        Raises `Unauthenticated` for a token that does not hold, `Unauthorized` for one of another
        kind.
        """
        if not token or len(token) > MAX_NAME:
            raise Unauthenticated("the token is unknown, expired or revoked.")
        return await self._store.run(LogIn(token=token, secret=secrets.token_urlsafe(BYTES)))

    async def recognise(self, secret: str) -> Bearer | None:
        """Whom a login makes of its bearer; None where it is unknown or over, or its token is."""
        if not secret or len(secret) > MAX_NAME:
            return None
        return await self._store.read(Recall(secret))

    async def log_out(self, secret: str) -> None:
        """End a login at once."""
        await self._store.run(LogOut(secret))

    async def forget(self) -> int:
        """Remove logins that are over; answers how many."""
        gone = 0
        while found := await self._store.run(ForgetLogins()):
            gone += found
            if found < CHUNK:
                break
        return gone
