"""The stories of people: read, made, changed, merged, split, and given codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from threadline.core.auditing import audit, named
from threadline.core.draft import Draft
from threadline.core.errors import Conflict, InvalidInput, NotFound
from threadline.core.ids import number_of, public
from threadline.core.joining import carry, count_together, decisions_of, heir_of
from threadline.core.meeting import CODE_SPACE
from threadline.core.model import Caller
from threadline.core.people import (
    EVERYTHING,
    NAMES,
    Code,
    Consent,
    ConsentState,
    Contact,
    Person,
)
from threadline.core.ports import (
    CODE,
    CONTACT,
    ENDED_CODES,
    PEOPLE,
    PERSON,
    Changes,
    Loaded,
    Page,
    Story,
    fetch,
    paged,
)
from threadline.core.rules import authority
from threadline.core.rules.membership import merged as merge_metadata
from threadline.flows.planning import (
    EPOCH,
    Recipient,
    contacts_of,
    find_person,
    first_contacts,
    folded,
)

CODE_FOR = timedelta(minutes=15)
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


def realm_of(provider: str, realm: str) -> str:
    """Where an address is unique; an e-mail address or an alias is so everywhere."""
    return "" if provider in NAMES else realm


def _is_of(draft: Draft, contact: Contact, person: Person) -> bool:
    """Whether a contact is this person's, whatever else of them changes."""
    owner = heir_of(draft, contact.person)
    return owner is not None and owner.id == person.id


def _any_off(rows: Mapping[str, Consent]) -> bool:
    return any(row.state is ConsentState.OFF for row in rows.values())


def _opens(sides: list[tuple[dict[str, Consent], list[Contact]]]) -> bool:
    """Whether a merge lets an address be written to that could not be before."""
    on = [{one for one, row in rows.items() if row.state is ConsentState.ON} for rows, _ in sides]
    if any(_any_off({EVERYTHING: rows[EVERYTHING]}) for rows, _ in sides if EVERYTHING in rows):
        return False
    for (_, contacts), mine, theirs in zip(sides, on, reversed(on), strict=True):
        ways = {one.provider for one in contacts if one.verified_at and one.provider not in NAMES}
        for way in ways:
            gained = {one for one in theirs - mine if one in ("", way) or ":" in one}
            if gained and not mine & {EVERYTHING, way}:
                return True
    return False


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
        paged(draft, [page for one in rows for page in first_contacts(one)])
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
            key = (self.scope, provider, realm_of(provider, self.realm), folded(provider, address))
            before = draft.get(CONTACT, key)
            if before is not None and not _is_of(draft, before, person):
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
            if there is None or not _is_of(draft, there, person):
                raise NotFound("this person has no such contact.", contact=f"{provider}:{address}")
            if provider not in NAMES and _any_off(decisions_of(draft, person.id)):
                # Who writes from it next would be somebody new, who never said stop.
                authority.human(self.caller, "takes an address away from who said stop")
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
        contacts = contacts_of(draft, other)
        before = [
            (decisions_of(draft, kept.id), contacts_of(draft, kept)),
            (decisions_of(draft, other.id), contacts),
        ]
        if len(before[0][1]) + len(contacts) > MAX_CONTACTS:
            raise InvalidInput(f"a person has at most {MAX_CONTACTS} contacts.", field="other")
        carry(draft, other.id, kept.id)
        count_together(draft, self.scope, other.id, kept.id)
        if _opens(before):
            authority.human(self.caller, "joins one who may be written to with one who may not")
        own: dict[Any, Contact | None] = {}
        fetch(draft, CONTACT, [one.key for one in contacts])
        for contact in contacts:
            moved = replace(contact, person=kept.id)
            draft.put(CONTACT, contact.key, moved)
            own[contact.key] = moved
        # Each of them points straight at who is kept: no chain grows with the merges.
        earlier = fetch(draft, PERSON, other.predecessors)
        for one in (other, *(row for row in earlier if row is not None)):
            draft.put(PERSON, one.id, replace(one, successor=kept.id))
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
        if contact is None or not _is_of(draft, contact, person):
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
        carry(draft, person.id, made.id)
        count_together(draft, self.scope, person.id, made.id)
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
        keys = [(scope, bytes(key)) for scope, key in rows]
        fetch(loaded, CODE, keys)
        for one in keys:
            changes.put(CODE, one, None)
        return changes, len(rows)
