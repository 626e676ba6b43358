"""People and the ways to them: found, verified, merged and split, nothing written down lost.

A contact is verified where its owner wrote from it, where a code was said there that the person was
given elsewhere, or where a controller that is a human vouches for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from threadline.core.auditing import audit, named
from threadline.core.draft import Draft
from threadline.core.errors import Conflict, InvalidInput, NotFound, Unauthorized
from threadline.core.ids import number_of, public
from threadline.core.meeting import CODE_SPACE, heir_of
from threadline.core.model import CONTROLLER, Caller, Controller
from threadline.core.people import EVERYTHING, Code, ConsentState, Contact, Person
from threadline.core.ports import (
    CODE,
    CONSENT,
    CONSENTS_OF,
    CONTACT,
    ENDED_CODES,
    PEOPLE,
    PERSON,
    Changes,
    Loaded,
    Page,
    Store,
    Story,
)
from threadline.core.rules import admission, authority
from threadline.core.rules.limits import LIMITS, Limits, clamp
from threadline.core.rules.membership import merged as merge_metadata
from threadline.flows.planning import EPOCH, Recipient, contacts_of, find_person, folded

LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
CODE_LETTERS = 8
CODE_FOR = timedelta(minutes=15)
MAX_NAME = 200
MAX_ADDRESS = 500
MAX_CONTACTS = 50
SWEEP = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactState:
    """A way to a person, as it is shown. `how` says what verified it."""

    provider: str
    realm: str
    address: str
    verified_at: datetime | None
    how: str
    account_id: str
    heard_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonState:
    """A person, as it is shown. `merged` are the ids under which it was known before."""

    id: str
    name: str
    languages: tuple[str, ...]
    created_at: datetime
    merged: tuple[str, ...] = ()
    contacts: tuple[ContactState, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenCode:
    """A code to be said by a person in the channel it wants verified. Shown once."""

    code: str = field(repr=False)
    expires_at: datetime
    provider: str = ""


def person_state(draft: Draft, person: Person, own: dict[Any, Contact | None]) -> PersonState:
    """A person with its contacts; `own` are those this story changed, None where it took one."""
    rows = {one.key: one for one in contacts_of(draft, person)}
    for key, one in own.items():
        if one is not None and one.person in (person.id, *person.predecessors):
            rows[key] = one
        else:
            rows.pop(key, None)
    return PersonState(
        id=public(person.id),
        name=person.name,
        languages=person.languages,
        created_at=person.created_at,
        merged=tuple(public(one) for one in person.predecessors),
        contacts=tuple(
            ContactState(
                provider=one.provider,
                realm=one.realm,
                address=one.address,
                verified_at=one.verified_at,
                how=one.how,
                account_id=one.account,
                heard_at=one.heard_at,
            )
            for _, one in sorted(rows.items())
        ),
        metadata=person.metadata,
    )


def known(draft: Draft, scope: str, person_id: str) -> Person:
    """The person behind an id, or who it turned out to be. Raises `NotFound`."""
    found = heir_of(draft, number_of(person_id.removeprefix("person:")))
    if found is None or found.scope_id != scope:
        raise NotFound("there is no such person.", person=person_id)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPerson(Story[PersonState]):
    """One person, by id or by anything that finds it."""

    scope: str
    who: str

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, PersonState]:
        """Raises `NotFound`."""
        draft = Draft(loaded)
        if ":" in self.who:
            person = find_person(draft, self.scope, Recipient.of(self.who))
            if person is None:
                raise NotFound("nobody is known by that.", person=self.who)
        else:
            person = known(draft, self.scope, self.who)
        return draft.changes, person_state(draft, person, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPeople(Story[list[PersonState]]):
    """A page of people."""

    scope: str
    after: int
    name: str
    limit: int

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[PersonState]]:
        """In the order of their ids."""
        draft = Draft(loaded)
        rows = draft.page(Page(PEOPLE, (self.scope, self.after, self.name, self.limit)))
        return draft.changes, [person_state(draft, one, {}) for one in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePerson(Story[PersonState]):
    """Make a person, or change one; add and take contacts."""

    scope: str
    caller: Caller
    person: str | None = None
    name: str | None = None
    languages: tuple[str, ...] | None = None
    metadata: Mapping[str, Any] | None = None
    add: tuple[tuple[str, str, bool], ...] = ()
    take: tuple[tuple[str, str, str], ...] = ()
    realm: str = ""

    @property
    def repeatable(self) -> bool:
        """A new person without contacts would be made twice."""
        return self.person is not None or bool(self.add)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, PersonState]:
        """Raises `NotFound`, and `Conflict` where a contact is somebody else's."""
        draft = Draft(loaded)
        by = named(self.caller)
        if self.person is None:
            person = Person(
                id=draft.fresh(), scope_id=self.scope, name=self.name or "", created_at=now
            )
            audit(draft, self.scope, by, "person.made", now, subject=f"person {public(person.id)}")
        else:
            person = known(draft, self.scope, self.person)
        changed = replace(
            person,
            name=person.name if self.name is None else self.name,
            languages=person.languages if self.languages is None else self.languages,
            metadata=merge_metadata(person.metadata, self.metadata),
        )
        draft.put(PERSON, changed.id, changed)
        own: dict[Any, Contact | None] = {}
        for provider, address, verified in self.add:
            key = (self.scope, provider, self.realm, folded(provider, address))
            before = draft.get(CONTACT, key)
            if before is not None and heir_of(draft, before.person) != person:
                raise Conflict(
                    f"{provider}:{address} is known as another person's. Merge the two, or take it "
                    "from there first.",
                    person=public(before.person),
                )
            base = before or Contact(
                scope_id=key[0],
                provider=key[1],
                realm=key[2],
                address=key[3],
                person=person.id,
                created_at=now,
            )
            if verified and base.verified_at is None:
                base = replace(base, verified_at=now, how="controller")
            draft.put(CONTACT, key, base)
            own[key] = base
            audit(
                draft,
                self.scope,
                by,
                "contact.verified" if verified else "contact.added",
                now,
                subject=f"person {public(person.id)}",
                provider=provider,
            )
        for provider, realm, address in self.take:
            key = (self.scope, provider, realm, folded(provider, address))
            there = draft.get(CONTACT, key)
            if there is None or heir_of(draft, there.person) != person:
                raise NotFound("this person has no such contact.", contact=f"{provider}:{address}")
            draft.put(CONTACT, key, None)
            own[key] = None
            audit(
                draft,
                self.scope,
                by,
                "contact.taken",
                now,
                subject=f"person {public(person.id)}",
                provider=provider,
            )
        state = person_state(draft, changed, own)
        if len(state.contacts) > MAX_CONTACTS:
            raise InvalidInput(f"a person has at most {MAX_CONTACTS} contacts.")
        return draft.changes, state


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Story[PersonState]):
    """Two persons turn out to be one: the older id points at the one that is kept."""

    scope: str
    caller: Caller
    keep: str
    other: str

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, PersonState]:
        """What was decided against writing holds for both. Raises `NotFound`, `InvalidInput`."""
        draft = Draft(loaded)
        kept, other = known(draft, self.scope, self.keep), known(draft, self.scope, self.other)
        if kept.id == other.id:
            return draft.changes, person_state(draft, kept, {})
        for row in draft.page(Page(CONSENTS_OF, (other.id, EVERYTHING, SWEEP))):
            _carry(draft, kept, row.about, other)
        _carry(draft, kept, EVERYTHING, other)
        own: dict[Any, Contact | None] = {}
        for contact in contacts_of(draft, other):
            moved = replace(contact, person=kept.id)
            draft.put(CONTACT, contact.key, moved)
            own[contact.key] = moved
        draft.put(PERSON, other.id, replace(other, successor=kept.id))
        merged = replace(
            kept,
            predecessors=tuple(dict.fromkeys((*kept.predecessors, other.id, *other.predecessors))),
            languages=tuple(dict.fromkeys((*kept.languages, *other.languages))),
            metadata={**other.metadata, **kept.metadata},
        )
        draft.put(PERSON, kept.id, merged)
        audit(
            draft,
            self.scope,
            named(self.caller),
            "person.merged",
            now,
            subject=f"person {public(kept.id)}",
            other=public(other.id),
        )
        return draft.changes, person_state(draft, merged, own)


def _carry(draft: Draft, kept: Person, about: str, other: Person) -> None:
    """What was decided for the other person; off wins over on."""
    theirs = draft.get(CONSENT, (other.id, about))
    mine = draft.get(CONSENT, (kept.id, about))
    if theirs is None or (mine is not None and mine.state is ConsentState.OFF):
        return
    if mine is None or theirs.state is ConsentState.OFF:
        draft.put(CONSENT, (kept.id, about), replace(theirs, subject=kept.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Story[PersonState]):
    """A contact turns out to be somebody else's: a new person has it, with the same decisions."""

    scope: str
    caller: Caller
    person: str
    provider: str
    realm: str
    address: str
    name: str

    @property
    def repeatable(self) -> bool:
        """A second time would find the contact elsewhere."""
        return False

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, PersonState]:
        """Raises `NotFound`."""
        draft = Draft(loaded)
        person = known(draft, self.scope, self.person)
        key = (self.scope, self.provider, self.realm, folded(self.provider, self.address))
        contact = draft.get(CONTACT, key)
        if contact is None or heir_of(draft, contact.person) != person:
            raise NotFound("this person has no such contact.", contact=self.address)
        made = Person(
            id=draft.fresh(),
            scope_id=self.scope,
            name=self.name or self.address,
            created_at=now,
            languages=person.languages,
        )
        draft.put(PERSON, made.id, made)
        moved = replace(contact, person=made.id)
        draft.put(CONTACT, key, moved)
        for about in (EVERYTHING, self.provider):
            row = draft.get(CONSENT, (person.id, about))
            if row is not None:
                draft.put(CONSENT, (made.id, about), replace(row, subject=made.id))
        audit(
            draft,
            self.scope,
            named(self.caller),
            "person.split",
            now,
            subject=f"person {public(person.id)}",
            other=public(made.id),
        )
        return draft.changes, person_state(draft, made, {key: moved})


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveCode(Story[datetime]):
    """Write a code down, as a hash, until it is said or ends."""

    scope: str
    caller: Caller
    person: str
    provider: str
    code: str = field(repr=False)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, datetime]:
        """Answers when it ends. Raises `NotFound`."""
        draft = Draft(loaded)
        person = known(draft, self.scope, self.person)
        ends = now + CODE_FOR
        key = (self.scope, draft.id_key(CODE_SPACE, self.code))
        draft.put(CODE, key, Code(person=person.id, expires_at=ends, provider=self.provider))
        audit(
            draft,
            self.scope,
            named(self.caller),
            "code.given",
            now,
            subject=f"person {public(person.id)}",
            provider=self.provider,
        )
        return draft.changes, ends


@dataclass(frozen=True, slots=True)
class ForgetCodes(Story[int]):
    """Drop codes that ended."""

    limit: int = SWEEP

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, int]:
        """Answers how many."""
        changes = Changes()
        until = (now - EPOCH) // timedelta(microseconds=1)
        rows = loaded.page(Page(ENDED_CODES, (until, self.limit)))
        for scope, key in rows:
            loaded.get(CODE, (scope, bytes(key)))
            changes.put(CODE, (scope, bytes(key)), None)
        return changes, len(rows)


class People:
    """Who people are on several platforms."""

    def __init__(self, store: Store, limits: Limits = LIMITS) -> None:
        self._store = store
        self._limits = limits

    async def make(
        self,
        name: str,
        *,
        contacts: Sequence[str] = (),
        languages: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        verified: bool = False,
        caller: Caller = CONTROLLER,
    ) -> PersonState:
        """A new person; `contacts` are written `PROVIDER:ADDRESS`, `email:…` or `alias:…`.

        `verified` vouches for them, which only a controller marked human may. Raises
        `Unauthorized`, `Conflict` where a contact is somebody else's, `InvalidInput`.
        """
        return await self._write(
            caller,
            name=_name(name),
            languages=_languages(languages),
            metadata=metadata,
            contacts=contacts,
            verified=verified,
        )

    async def change(
        self,
        person: str,
        *,
        name: str | None = None,
        languages: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        contacts: Sequence[str] = (),
        without: Sequence[str] = (),
        realm: str = "",
        verified: bool = False,
        caller: Caller = CONTROLLER,
    ) -> PersonState:
        """Change a person, add contacts and take some away (`without`).

        `realm` is where an added address is unique: the team, for Slack. Raises `NotFound` and
        what `make` raises.
        """
        return await self._write(
            caller,
            person=person,
            name=None if name is None else _name(name),
            languages=None if languages is None else _languages(languages),
            metadata=metadata,
            contacts=contacts,
            without=without,
            realm=realm,
            verified=verified,
        )

    async def _write(
        self,
        caller: Caller,
        *,
        contacts: Sequence[str] = (),
        without: Sequence[str] = (),
        realm: str = "",
        verified: bool = False,
        metadata: Mapping[str, Any] | None = None,
        **how: Any,
    ) -> PersonState:
        authority.may_control(caller)
        if verified:
            human(caller, "vouches for an address")
        add = tuple((*_contact(one), verified) for one in contacts)
        take = tuple((provider, realm, address) for provider, address in map(_contact, without))
        return await self._store.run(
            WritePerson(
                scope=authority.scope_of(caller),
                caller=caller,
                add=add,
                take=take,
                realm=realm,
                metadata=None if metadata is None else admission.metadata(metadata, self._limits),
                **how,
            )
        )

    async def show(self, who: str, *, caller: Caller = CONTROLLER) -> PersonState:
        """A person by its id, or by `PROVIDER:ADDRESS`, `email:…`, `alias:…`. Raises `NotFound`."""
        authority.may_control(caller)
        return await self._store.read(ReadPerson(scope=authority.scope_of(caller), who=who))

    async def list(
        self,
        *,
        name: str = "",
        after: str | None = None,
        limit: int | None = None,
        caller: Caller = CONTROLLER,
    ) -> Sequence[PersonState]:
        """People, all or those of a name; `after` is the id of the last one of the page before."""
        authority.may_control(caller)
        number = -1 if after is None else number_of(after)
        if number is None:
            raise NotFound("there is no such person.", after=after)
        return await self._store.read(
            ReadPeople(
                scope=authority.scope_of(caller),
                after=number,
                name=name,
                limit=clamp(limit, self._limits),
            )
        )

    async def merge(self, keep: str, other: str, *, caller: Caller = CONTROLLER) -> PersonState:
        """Two persons are one. Every record of either stays; OFF wins. Raises `NotFound`."""
        authority.may_control(caller)
        return await self._store.run(
            Merge(scope=authority.scope_of(caller), caller=caller, keep=keep, other=other)
        )

    async def split(
        self,
        person: str,
        contact: str,
        *,
        realm: str = "",
        name: str = "",
        caller: Caller = CONTROLLER,
    ) -> PersonState:
        """A contact is somebody else's: answers the new person who has it. Raises `NotFound`."""
        authority.may_control(caller)
        provider, address = _contact(contact)
        return await self._store.run(
            Split(
                scope=authority.scope_of(caller),
                caller=caller,
                person=person,
                provider=provider,
                realm=realm,
                address=address,
                name=name,
            )
        )

    async def code(
        self, person: str, *, provider: str = "", caller: Caller = CONTROLLER
    ) -> GivenCode:
        """A code for a person to say in a channel of its own, which is verified by that.

        It counts for 15 minutes and once; five wrong ones an hour are looked at. Raises `NotFound`.
        """
        authority.may_control(caller)
        code = "".join(secrets.choice(LETTERS) for _ in range(CODE_LETTERS))
        ends = await self._store.run(
            GiveCode(
                scope=authority.scope_of(caller),
                caller=caller,
                person=person,
                provider=provider,
                code=code,
            )
        )
        return GivenCode(code=f"{code[:4]}-{code[4:]}", expires_at=ends, provider=provider)

    async def forget_codes(self) -> int:
        """Drop codes that ended; answers how many. Part of upkeep."""
        dropped = 0
        while found := await self._store.run(ForgetCodes()):
            dropped += found
        return dropped


def human(caller: Caller, deed: str) -> None:
    """Raise `Unauthorized` unless a controller marked human asks: agents grant nothing."""
    if not isinstance(caller, Controller) or not caller.human:
        raise Unauthorized(
            f"only a human {deed}: use a controller's token that is marked human.", human=True
        )


def _name(name: str) -> str:
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidInput(f"a person's name has 1 to {MAX_NAME} characters.", field="name")
    return name.strip()


def _languages(given: Sequence[str]) -> tuple[str, ...]:
    for one in given:
        if not 2 <= len(one) <= 35 or not one.replace("-", "").isalnum():
            raise InvalidInput(f"{one!r} is no language code such as de or pt-BR.")
    return tuple(dict.fromkeys(given))


def _contact(text: str) -> tuple[str, str]:
    """Provider and address of what a caller wrote. Raises `InvalidInput`."""
    found = Recipient.of(text)
    if not found.provider or len(found.address) > MAX_ADDRESS:
        raise InvalidInput(
            f"{text!r} is no contact: write PROVIDER:ADDRESS, email:ADDRESS or alias:NAME.",
            field="contacts",
        )
    if found.provider == "email" and "@" not in found.address:
        raise InvalidInput(f"{found.address!r} is no e-mail address.", field="contacts")
    return found.provider, found.address
