"""Where a session is pushed to: set, proven, shown, removed. `flows/pushing.py` does the pushing.

A target is proven before anything is sent to it: it has to answer a signed challenge with the
challenge itself. So nobody's transcript goes to a mistyped address, and nobody's server is knocked
at who did not ask for it.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from threadline.core.draft import Draft
from threadline.core.errors import NotFound, ThreadlineError
from threadline.core.fences import following
from threadline.core.model import CONTROLLER, Caller, Controller, Session
from threadline.core.outside import Answer, CallFailed, Fault, Outside, place
from threadline.core.ports import NAME, PUSH, SESSION, Changes, Loaded, Needs, Store, Story
from threadline.core.push import PushState, PushTarget, fault_of, said_in
from threadline.core.rules import authority
from threadline.core.seating import session_named
from threadline.flows.sealing import nonce, seal, unseal

SECRET_BYTES = 32
CHALLENGE_BYTES = 24
PREFIX = "whsec_"


class PushNotProven(ThreadlineError):
    """The push target did not prove that it wants to be pushed to."""

    status = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class PushShown:
    """A push target as it is shown. `secret` is there right after it was set, never again."""

    session_id: str
    url: str
    state: PushState
    set_by: str
    token_id: str | None
    created_at: datetime
    proven_at: datetime | None
    failures: int
    last_error: Fault | None
    last_error_at: datetime | None
    next_attempt_at: datetime | None
    secret: str | None = field(default=None, repr=False)


def _shown(session: Session, target: PushTarget, secret: str | None = None) -> PushShown:
    return PushShown(
        session_id=session.name,
        url=target.url,
        state=target.state,
        set_by=target.set_by,
        token_id=target.token_id,
        created_at=target.created_at,
        proven_at=target.proven_at,
        failures=target.failures,
        last_error=target.last_error,
        last_error_at=target.last_error_at,
        next_attempt_at=target.next_attempt_at,
        secret=secret,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """What the stories below have in common: a session by name, and its target."""

    scope: str
    session: str

    def needs(self) -> Needs:
        """The name."""
        return Needs(rows=[(NAME, (self.scope, self.session))])

    def more(self, loaded: Loaded) -> Needs:
        """The session, and its target, locked."""
        number = loaded.get(NAME, (self.scope, self.session))
        if number is None:
            return Needs()
        return Needs(rows=[(SESSION, number)], hold=[(PUSH, number)])

    def target(self, draft: Draft) -> tuple[Session, PushTarget]:
        """Raises `SessionNotFound`, `SessionRetired`, and `NotFound` where there is no target."""
        session = session_named(draft, self.scope, self.session)
        target = draft.get(PUSH, session.id)
        if target is None:
            raise NotFound("the session has no push target.", session_id=self.session)
        return session, target


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTarget(_Named, Story[PushShown]):
    """A new target in place of any other, unproven, with a secret of its own."""

    url: str
    secret: str = field(repr=False)
    nonce: bytes
    set_by: str
    token_id: str | None

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, PushShown]:
        """Whoever pushes to the one before loses the fence."""
        draft = Draft(loaded)
        session = session_named(draft, self.scope, self.session)
        before = draft.get(PUSH, session.id)
        target = PushTarget(
            session=session.id,
            url=self.url,
            sealed=seal(loaded, self.secret, self.nonce),
            set_by=self.set_by,
            token_id=self.token_id,
            created_at=now,
            fence=following(None if before is None else before.fence, now),
        )
        draft.put(PUSH, session.id, target)
        return draft.changes, _shown(session, target, self.secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTarget(_Named, Story[tuple[PushShown, str, str]]):
    """The target as it is shown, its secret, and how that is sealed."""

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, tuple[PushShown, str, str]]:
        """See `_Named.target`."""
        session, target = self.target(Draft(loaded))
        return Changes(), (_shown(session, target), unseal(loaded, target.sealed), target.sealed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove(_Named, Story[None]):
    """No target any more. A second time changes nothing."""

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """Nothing is sent from this commit on."""
        draft = Draft(loaded)
        session = session_named(draft, self.scope, self.session)
        if draft.get(PUSH, session.id) is not None:
            draft.put(PUSH, session.id, None)
        return draft.changes, None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge(_Named, Story[PushShown]):
    """What became of the challenge; a target that was set anew meanwhile is another one."""

    sealed: str
    fault: Fault | None

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, PushShown]:
        """A target that fails the challenge is kept as it is, with what was wrong."""
        draft = Draft(loaded)
        session, target = self.target(draft)
        if target.sealed != self.sealed:
            raise PushNotProven("it was set anew meanwhile; prove it again.")
        if self.fault is not None:
            target = replace(target, last_error=self.fault, last_error_at=now)
        else:
            target = replace(
                target,
                state=PushState.PROVEN,
                proven_at=now,
                failures=0,
                last_error=None,
                last_error_at=None,
                next_attempt_at=None,
            )
        draft.put(PUSH, session.id, target)
        return draft.changes, _shown(session, target)


def utc() -> datetime:
    """The clock that receivers compare with theirs."""
    return datetime.now(UTC)


def signed(secret: str, identity: str, body: bytes, at: datetime) -> Mapping[str, str]:
    """The headers of Standard Webhooks."""
    from standardwebhooks import Webhook

    return {
        "Content-Type": "application/json",
        "webhook-id": identity,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(identity, at, body.decode()),
    }


class Push:
    """Push targets of sessions."""

    def __init__(
        self, store: Store, outside: Outside, *, clock: Callable[[], datetime] = utc
    ) -> None:
        self._store = store
        self.outside = outside
        self.clock = clock
        # Set after a change, so that the loop of this process need not wait for its next look.
        self.changed = asyncio.Event()

    async def set(
        self, session: str, url: str, *, token_id: str | None = None, caller: Caller = CONTROLLER
    ) -> PushShown:
        """Push the session's records to this URL, once it is proven.

        The answer holds the signing secret, here and never again. Setting again replaces target
        and secret, and has to be proven anew. `token_id` is kept to show who set it. Raises
        `AddressRefused`, `SessionNotFound`, `SessionRetired`, and `Unauthorized` for a session
        without the scope `push`.
        """
        authority.may_push(caller, session)
        place(url, allow_private=self.outside.allow_private)
        made = await self._store.run(
            SetTarget(
                scope=authority.scope_of(caller),
                session=session,
                url=url,
                secret=PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode(),
                nonce=nonce(),
                set_by="controller" if isinstance(caller, Controller) else "session",
                token_id=token_id,
            )
        )
        self.changed.set()
        return made

    async def show(self, session: str, *, caller: Caller = CONTROLLER) -> PushShown:
        """The session's target without its secret. Raises `NotFound` where it has none."""
        authority.may_push(caller, session)
        shown, _, _ = await self._read(session, caller)
        return shown

    async def remove(self, session: str, *, caller: Caller = CONTROLLER) -> None:
        """Push nothing more to the session. Raises `SessionNotFound`."""
        authority.may_push(caller, session)
        await self._store.run(Remove(scope=authority.scope_of(caller), session=session))
        self.changed.set()

    async def prove(self, session: str, *, caller: Caller = CONTROLLER) -> PushShown:
        """Send the signed challenge; from the right answer on the target is pushed to.

        It is a POST of `{"type": "challenge", "challenge": …}` and has to be answered with 200 and
        `{"challenge": …}`. A target that was stopped or fails is taken up again by it. Raises
        `PushNotProven` with the class of what went wrong, and `NotFound`.
        """
        authority.may_push(caller, session)
        shown, secret, sealed = await self._read(session, caller)
        challenge = secrets.token_urlsafe(CHALLENGE_BYTES)
        body = json.dumps({"type": "challenge", "challenge": challenge}).encode()
        headers = signed(secret, f"challenge_{secrets.token_hex(8)}", body, self.clock())
        fault: Fault | None
        try:
            async with self.outside.open() as post:
                fault = _judged(await post(shown.url, headers, body), challenge)
        except CallFailed as failure:
            fault = failure.fault
        proven = await self._store.run(
            Judge(
                scope=authority.scope_of(caller),
                session=session,
                sealed=sealed,
                fault=fault,
            )
        )
        if fault is not None:
            raise PushNotProven(f"({fault.value})", fault=fault.value, session_id=session)
        self.changed.set()
        return proven

    async def _read(self, session: str, caller: Caller) -> tuple[PushShown, str, str]:
        scope = authority.scope_of(caller)
        return await self._store.read(ReadTarget(scope=scope, session=session))


def _judged(answer: Answer, challenge: str) -> Fault | None:
    """What is wrong with the answer to a challenge."""
    fault = fault_of(answer)
    if fault is not None:
        return fault
    said = said_in(answer, "challenge")
    right = isinstance(said, str) and hmac.compare_digest(said.encode(), challenge.encode())
    return None if right and answer.status == 200 else Fault.WRONG_CHALLENGE
