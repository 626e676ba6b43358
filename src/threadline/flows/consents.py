"""Who may be written to, through which accounts and how often: what people and controllers decide.

A person's own word counts at once and is written down where it is said (`core.meeting`). Here is
what a controller decides; only one that is a human turns something on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from threadline.core.auditing import audit, named
from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput, NotFound
from threadline.core.ids import number_of, public
from threadline.core.model import CONTROLLER, Caller, ConversationRef, Kind
from threadline.core.people import (
    EVERYTHING,
    Consent,
    ConsentState,
    Granted,
    Setting,
    about_session,
)
from threadline.core.planned import end_planned
from threadline.core.ports import (
    CONSENT,
    CONSENTS_OF,
    GRANTED,
    SESSION,
    SETTING,
    Changes,
    Loaded,
    Page,
    Store,
    Story,
    fetch,
)
from threadline.core.rules import allowance, authority
from threadline.core.rules.authority import Where
from threadline.core.seating import ensure_session, heir, numbers_of, session_named
from threadline.core.sending import LIMITS as LIMITS_NAME
from threadline.flows.looking import found, where_of
from threadline.flows.persons import known
from threadline.flows.planning import WAY, granted_to

MANY = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentStatus:
    """What was decided about writing to a person or in a room. `about` is empty for everything,
    else a provider, or `session:NAME`."""

    subject: str
    about: str
    state: ConsentState
    by: str
    at: datetime
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantStatus:
    """An account through which a session may start conversations."""

    session_id: str
    provider: str
    account_id: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowanceStatus:
    """The limits in force, and who set them when; without that they are the standard ones."""

    limits: Mapping[str, int]
    by: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whom a consent is about: a person by id, or a room by its address or id."""

    scope: str
    caller: Caller
    person: str | None = None
    room: Where | None = None

    def number(self, draft: Draft) -> tuple[int, str]:
        """Its surrogate id and what it is called. Raises `NotFound`, and `InvalidInput` for a
        direct conversation, where the person decides."""
        if self.person is not None:
            person = known(draft, self.scope, self.person)
            return person.id, f"person:{public(person.id)}"
        assert self.room is not None
        conversation = found(draft, self.room, self.caller)
        if conversation.kind is Kind.DM:
            raise InvalidInput("a direct conversation has no switch: the person consents.")
        if conversation.kind is Kind.THREAD and conversation.about.parent is not None:
            raise InvalidInput("a thread has its room's switch.")
        return conversation.id, conversation.ref.text


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteConsent(Story[ConsentStatus]):
    """Decide whether something may be written."""

    subject: Subject
    about: str
    state: ConsentState
    why: str

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, ConsentStatus]:
        """Raises `NotFound`, `SessionNotFound`."""
        draft = Draft(loaded)
        number, name = self.subject.number(draft)
        about = self.about
        if about.startswith("session:"):
            session = session_named(draft, self.subject.scope, about.removeprefix("session:"))
            about = about_session(public(session.id))
        by = named(self.subject.caller)
        row = Consent(subject=number, about=about, state=self.state, by=by, at=now, why=self.why)
        draft.put(CONSENT, (number, about), row)
        audit(
            draft,
            self.subject.scope,
            by,
            f"consent.{self.state.value}",
            now,
            subject=name,
            about=self.about,
            why=self.why,
        )
        off = self.state is ConsentState.OFF and about == EVERYTHING
        if off and self.subject.person is not None:
            end_planned(draft, number, "writing to this person was turned off.", now)
        return draft.changes, _status(name, row, self.about)


def _status(name: str, row: Consent, about: str | None = None) -> ConsentStatus:
    return ConsentStatus(
        subject=name,
        about=row.about if about is None else about,
        state=row.state,
        by=row.by,
        at=row.at,
        why=row.why,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConsents(Story[list[ConsentStatus]]):
    """All that was decided about a person or a room."""

    subject: Subject

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[ConsentStatus]]:
        """Raises `NotFound`."""
        draft = Draft(loaded)
        number, name = self.subject.number(draft)
        first = draft.get(CONSENT, (number, EVERYTHING))
        rows = [] if first is None else [first]
        rows += draft.page(Page(CONSENTS_OF, (number, EVERYTHING, MANY)))
        # All at once: one by one they would take a round each.
        fetch(draft, SESSION, {it for it in map(_session_of, rows) if it is not None})
        return draft.changes, [_status(name, one, _about(draft, one)) for one in rows]


def _session_of(row: Consent) -> int | None:
    return number_of(row.about.removeprefix("session:")) if ":" in row.about else None


def _about(draft: Draft, row: Consent) -> str:
    """What a consent is about as it was asked for: a session by its name."""
    number = _session_of(row)
    session = None if number is None else heir(draft, number) or draft.get(SESSION, number)
    return row.about if session is None else about_session(session.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteGrant(Story[GrantStatus | None]):
    """Grant an account to a session, or take it away."""

    session: str
    scope: str
    provider: str
    account_id: str
    caller: Caller
    granted: bool

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, GrantStatus | None]:
        """A controller's grant creates an unknown session. Raises `NotFound`, `SessionRetired`."""
        draft = Draft(loaded)
        by = named(self.caller)
        subject = f"session {self.session}"
        account = f"{self.provider}/{self.account_id}"
        if self.granted:
            session = ensure_session(draft, self.scope, self.session, now, caller=self.caller)
            row = Granted(
                session=session.id,
                provider=self.provider,
                account_id=self.account_id,
                by=by,
                at=now,
            )
            draft.put(GRANTED, (session.id, self.provider, self.account_id), row)
            audit(draft, self.scope, by, "account.granted", now, subject=subject, account=account)
            return draft.changes, _grant(self.session, row)
        session = session_named(draft, self.scope, self.session)
        gone = False
        for number in numbers_of(session):
            if draft.get(GRANTED, (number, self.provider, self.account_id)) is not None:
                draft.put(GRANTED, (number, self.provider, self.account_id), None)
                gone = True
        if not gone:
            raise NotFound("this account is not granted to it.", grant=account)
        audit(draft, self.scope, by, "account.withdrawn", now, subject=subject, account=account)
        return draft.changes, None


def _grant(name: str, row: Granted) -> GrantStatus:
    return GrantStatus(
        session_id=name,
        provider=row.provider,
        account_id=row.account_id,
        by=row.by,
        at=row.at,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGrants(Story[list[GrantStatus]]):
    """The accounts granted to a session."""

    session: str
    scope: str

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[GrantStatus]]:
        """Raises `SessionNotFound`."""
        draft = Draft(loaded)
        session = session_named(draft, self.scope, self.session)
        return draft.changes, [_grant(session.name, one) for one in granted_to(draft, session)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAllowances(Story[AllowanceStatus]):
    """Change limits, at once and for every server on the store."""

    scope: str
    caller: Caller
    numbers: Mapping[str, int]

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, AllowanceStatus]:
        """Raises `InvalidInput`."""
        draft = Draft(loaded)
        stored = draft.get(SETTING, (self.scope, LIMITS_NAME))
        before = allowance.STANDARD if stored is None else allowance.read(stored.value)
        after = allowance.changed(before, self.numbers)
        by = named(self.caller)
        row = Setting(value=allowance.written(after), by=by, at=now)
        draft.put(SETTING, (self.scope, LIMITS_NAME), row)
        audit(draft, self.scope, by, "limits.changed", now, subject="limits", **self.numbers)
        return draft.changes, AllowanceStatus(limits=row.value, by=by, at=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAllowances(Story[AllowanceStatus]):
    """The limits in force."""

    scope: str

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, AllowanceStatus]:
        """The standard ones where nobody set any."""
        stored = loaded.get(SETTING, (self.scope, LIMITS_NAME))
        if stored is None:
            return Changes(), AllowanceStatus(limits=allowance.written(allowance.STANDARD))
        value = allowance.written(allowance.read(stored.value))
        return Changes(), AllowanceStatus(limits=value, by=stored.by, at=stored.at)


class Consents:
    """Whether people and rooms may be written to, through which accounts, and how often."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def set(
        self,
        state: ConsentState | str,
        *,
        person: str | None = None,
        room: ConversationRef | str | None = None,
        about: str = EVERYTHING,
        why: str = "",
        caller: Caller = CONTROLLER,
    ) -> ConsentStatus:
        """Turn writing to a person, or in a room, on or off.

        `about` narrows it to a provider, or to `session:NAME`. Turning on needs a controller that
        is marked human. Raises `Unauthorized`, `NotFound`, `InvalidInput`.
        """
        authority.may_control(caller)
        word: ConsentState = ConsentState.of(state)
        if word is ConsentState.ON:
            authority.human(caller, "grants consent")
        if about and not about.startswith("session:") and (room or not WAY.fullmatch(about)):
            # Nothing would ever ask for it, and it would be shown as if it held.
            raise InvalidInput(
                "about is empty for everything, session:NAME, or for a person a provider as it is "
                "in addresses.",
                field="about",
            )
        if len(why) > 500 or len(about) > 250:
            raise InvalidInput("why has at most 500 characters, about 250.", field="why")
        return await self._store.run(
            WriteConsent(subject=_subject(caller, person, room), about=about, state=word, why=why)
        )

    async def list(
        self,
        *,
        person: str | None = None,
        room: ConversationRef | str | None = None,
        caller: Caller = CONTROLLER,
    ) -> Sequence[ConsentStatus]:
        """What was decided about a person or a room. Raises `NotFound`."""
        authority.may_control(caller)
        return await self._store.read(ReadConsents(subject=_subject(caller, person, room)))

    async def grant(
        self, session: str, provider: str, account_id: str, *, caller: Caller = CONTROLLER
    ) -> GrantStatus:
        """Let a session start conversations through an account. Raises `SessionRetired`."""
        authority.may_control(caller)
        done = await self._store.run(self._granting(session, provider, account_id, caller, True))
        assert done is not None
        return done

    async def withdraw(
        self, session: str, provider: str, account_id: str, *, caller: Caller = CONTROLLER
    ) -> None:
        """Take an account away from a session; what is not sent yet is cancelled.

        Raises `NotFound`.
        """
        authority.may_control(caller)
        await self._store.run(self._granting(session, provider, account_id, caller, False))

    def _granting(
        self, session: str, provider: str, account_id: str, caller: Caller, granted: bool
    ) -> WriteGrant:
        # Checks both as a conversation's address does.
        ref = ConversationRef(provider, account_id, "-")
        return WriteGrant(
            session=session,
            scope=authority.scope_of(caller),
            provider=ref.provider,
            account_id=ref.account_id,
            caller=caller,
            granted=granted,
        )

    async def granted(self, session: str, *, caller: Caller = CONTROLLER) -> Sequence[GrantStatus]:
        """The accounts granted to a session; a session sees its own. Raises `SessionNotFound`."""
        authority.may_read(caller, session)
        return await self._store.read(ReadGrants(session=session, scope=authority.scope_of(caller)))

    async def limits(self, *, caller: Caller = CONTROLLER) -> AllowanceStatus:
        """The limits in force."""
        authority.may_control(caller)
        return await self._store.read(ReadAllowances(scope=authority.scope_of(caller)))

    async def set_limits(
        self, given: Mapping[str, Any], *, caller: Caller = CONTROLLER
    ) -> AllowanceStatus:
        """Change limits; 0 is unlimited, and what is not named stays. Raises `InvalidInput`."""
        authority.may_control(caller)
        return await self._store.run(
            WriteAllowances(scope=authority.scope_of(caller), caller=caller, numbers=dict(given))
        )


def _subject(caller: Caller, person: str | None, room: ConversationRef | str | None) -> Subject:
    if (person is None) is (room is None):
        raise InvalidInput("name either a person or a room.", field="person")
    return Subject(
        scope=authority.scope_of(caller),
        caller=caller,
        person=person,
        room=None if room is None else where_of(room),
    )
