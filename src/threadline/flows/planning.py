"""Whom a send is for and through which channels it may go, read before anything is written.

Without an account granted nothing is even looked up (H12). The channels of a person are tried in a
fixed order: where they were heard last first, then by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput, NoAddress
from threadline.core.ids import number_of, public
from threadline.core.joining import heir_of
from threadline.core.meeting import contact_of
from threadline.core.model import Caller, ConversationRef, Session
from threadline.core.people import ALIAS, EMAIL, Contact, Granted, Person
from threadline.core.places import refuse_nested
from threadline.core.ports import (
    ADAPTER,
    CONTACT,
    CONTACTS_AT,
    CONTACTS_OF,
    CONVERSATION,
    GRANTED_TO,
    Changes,
    Loaded,
    Page,
    Story,
    fetch,
    paged,
)
from threadline.core.rules import delivery
from threadline.core.seating import numbers_of, session_named
from threadline.core.sending import not_granted
from threadline.core.sends import AUTO, Channel

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PEOPLE_AT_ONCE = 100
WAY = re.compile(r"[a-z][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Recipient:
    """Whom a send is for: a person, an address on a platform, or a place."""

    person: int | None = None
    provider: str = ""
    address: str = ""
    place: ConversationRef | None = None
    conversation: int | None = None

    @staticmethod
    def of(text: str) -> Recipient:
        """Read what a caller wrote: `person:ID`, `telegram:4711`, `email:ann@example.org`, a
        conversation's address or its id. Raises `InvalidInput` and `InvalidConversation`.

        >>> Recipient.of("telegram:4711").address
        '4711'
        """
        given = text.strip()
        before = re.split("[:/]", given, maxsplit=1)[0]
        mark = given[len(before) : len(before) + 1]
        rest = given[len(before) + 1 :]
        if mark == "/":
            return Recipient(place=ConversationRef.parse(given))
        if mark == ":" and before == "person":
            number = number_of(rest)
            if number is None:
                raise InvalidInput(f"{rest!r} is no person's id.", field="to")
            return Recipient(person=number)
        if mark == ":" and rest.strip() and WAY.fullmatch(before):
            return Recipient(provider=before, address=rest.strip())
        number = number_of(given)
        if mark or number is None:
            raise InvalidInput(
                f"{text!r} is no recipient: write person:ID, PROVIDER:ADDRESS, email:ADDRESS, or a "
                "conversation's address or id.",
                field="to",
            )
        return Recipient(conversation=number)


@dataclass(frozen=True, slots=True)
class Plan:
    """Who writes to whom, and the channels in the order in which they are tried."""

    session: Session
    person: Person | None
    channels: tuple[Channel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan(Story[Plan]):
    """Find the channels of a send."""

    session: str
    scope: str
    to: Recipient
    via: str
    caller: Caller

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Plan]:
        """Raises `Unauthorized` where no account is granted, `NoAddress` where none reaches."""
        draft = Draft(loaded)
        session = session_named(draft, self.scope, self.session)
        accounts = granted_to(draft, session, self.via)
        if not accounts:
            raise not_granted(session, self.via if self.via != AUTO else "any account")
        if self.to.place is not None or self.to.conversation is not None:
            return draft.changes, self._to_place(draft, session, accounts)
        person = find_person(draft, self.scope, self.to)
        if person is None and self.to.provider in (EMAIL, ALIAS, ""):
            raise NoAddress("nobody is known by that.", to=self._told)
        channels = self._to_person(draft, person, accounts)
        if not channels:
            raise NoAddress(
                "none of the accounts granted reaches a verified address of this person.",
                to=self._told,
            )
        return draft.changes, Plan(session, person, channels)

    @property
    def _told(self) -> str:
        if self.to.person is not None:
            return f"person:{public(self.to.person)}"
        return f"{self.to.provider}:{self.to.address}"

    def _to_place(self, draft: Draft, session: Session, accounts: list[Granted]) -> Plan:
        ref = self.to.place
        if self.to.conversation is not None:
            there = draft.get(CONVERSATION, self.to.conversation)
            # What is not there and what is not the session's to know look alike.
            ref = None if there is None else there.ref
        known = {(one.provider, one.account_id) for one in accounts}
        if ref is None or (ref.provider, ref.account_id) not in known:
            raise not_granted(session, "this account")
        if ref.provider == delivery.INTERNAL or ref.scope_id != self.scope:
            raise not_granted(session, "this account")
        if self.to.place is not None and ref.parent is not None:
            refuse_nested(draft, ref)
        channel = Channel(provider=ref.provider, account_id=ref.account_id, place=ref.text)
        there = draft.peeked(ref.text)
        contact = None if there is None else contact_of(draft, there)
        person = None if contact is None else heir_of(draft, contact.person)
        return Plan(session, person, (channel,))

    def _to_person(
        self, draft: Draft, person: Person | None, accounts: list[Granted]
    ) -> tuple[Channel, ...]:
        keys: list[Any] = [(self.scope, one.provider, one.account_id) for one in accounts]
        rows = fetch(draft, ADAPTER, keys)
        realms = {
            key[1:]: "" if row is None else row.capabilities.realm
            for key, row in zip(keys, rows, strict=True)
        }
        contacts = [] if person is None else contacts_of(draft, person)
        if self.to.provider not in (EMAIL, ALIAS, ""):
            named = (self.to.provider, self.to.address)
            contacts = [one for one in contacts if (one.provider, one.address) == named]
        found: list[tuple[Any, Channel]] = []
        for one in accounts:
            realm = realms[one.provider, one.account_id]
            if person is None and one.provider == self.to.provider:
                # Nobody is known there; consent will say so.
                found.append((("", one.account_id), _channel(one, realm, self.to.address)))
            for contact in contacts:
                if (contact.provider, contact.realm) != (one.provider, realm):
                    continue
                if contact.verified_at is None:
                    continue
                heard = contact.heard_at or EPOCH
                there = contact.account == one.account_id
                place = (not there, EPOCH - heard, one.provider, one.account_id, contact.address)
                found.append((place, _channel(one, realm, contact.address)))
        return tuple(channel for _, channel in sorted(found, key=lambda it: it[0]))


def _channel(one: Granted, realm: str, address: str) -> Channel:
    return Channel(provider=one.provider, account_id=one.account_id, realm=realm, address=address)


def granted_to(draft: Draft, session: Session, via: str = AUTO) -> list[Granted]:
    """The accounts through which a session may start conversations, those of `via` only."""
    provider, _, account = via.partition("/")
    found: dict[tuple[str, str], Granted] = {}
    for number in numbers_of(session):
        after = ("", "")
        while True:
            rows = draft.page(Page(GRANTED_TO, (number, *after, PEOPLE_AT_ONCE)))
            found.update({(one.provider, one.account_id): one for one in rows})
            if len(rows) < PEOPLE_AT_ONCE:
                break
            after = (rows[-1].provider, rows[-1].account_id)
    return [
        one
        for key, one in sorted(found.items())
        if via == AUTO or (one.provider == provider and account in ("", one.account_id))
    ]


def contacts_of(draft: Draft, person: Person) -> list[Contact]:
    """Every way to a person, as it is after the changes of this story's past."""
    found: list[Contact] = []
    pages = first_contacts(person)
    while pages:
        more = []
        for page, rows in zip(pages, paged(draft, pages), strict=True):
            found += rows
            if len(rows) == PEOPLE_AT_ONCE:
                last = rows[-1]
                after = (last.provider, last.realm, last.address)
                more.append(Page(CONTACTS_OF, (page.args[0], *after, PEOPLE_AT_ONCE)))
        pages = more
    return found


def first_contacts(person: Person) -> list[Page[Contact]]:
    """The first pages of a person's contacts, under each id it is known by."""
    numbers = (person.id, *person.predecessors)
    return [Page(CONTACTS_OF, (one, "", "", "", PEOPLE_AT_ONCE)) for one in numbers]


def find_person(draft: Draft, scope: str, to: Recipient) -> Person | None:
    """The person a recipient means, None where nobody is known."""
    if to.person is not None:
        person = heir_of(draft, to.person)
        return person if person is not None and person.scope_id == scope else None
    if to.provider in (EMAIL, ALIAS):
        found = draft.get(CONTACT, (scope, to.provider, "", folded(to.provider, to.address)))
        return None if found is None else heir_of(draft, found.person)
    rows = draft.page(Page(CONTACTS_AT, (scope, to.address, to.provider, "", 2)))
    near = [one for one in rows if one.provider == to.provider]
    exact = draft.get(CONTACT, (scope, to.provider, "", to.address))
    known = [exact] if exact is not None else near
    people = {one.person for one in known}
    if len(people) > 1:
        raise InvalidInput(
            "this id is a different person in each workspace; name the person instead.", field="to"
        )
    return heir_of(draft, people.pop()) if people else None


def folded(provider: str, address: str) -> str:
    """An e-mail address or alias as it is compared."""
    return address.strip().casefold() if provider in (EMAIL, ALIAS) else address.strip()
