"""Who the other party of a direct conversation is, met in the transaction that records its words.

Whoever writes first becomes a person with a verified contact, and may be written to from then on.
The word "stop" turns that off before anything else is decided; a code that a person was given
elsewhere makes this contact that person's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from threadline.core.auditing import audit
from threadline.core.draft import Draft
from threadline.core.ids import public
from threadline.core.joining import carry, count_together, heir_of
from threadline.core.model import (
    Conversation,
    Direction,
    Event,
    InboundMessage,
    Kind,
    Party,
)
from threadline.core.people import (
    EVERYTHING,
    Consent,
    ConsentState,
    Contact,
    ContactKey,
    Person,
)
from threadline.core.planned import end_planned
from threadline.core.ports import ADAPTER, CODE, CONSENT, CONTACT, PERSON, fetch
from threadline.core.rules import delivery
from threadline.core.rules.consent import LONGEST, Wish, wish
from threadline.core.threads import parent_of

HEARD_EVERY = timedelta(minutes=5)
GUESSES = 5
GUESSES_WITHIN = timedelta(hours=1)
# As `flows.people` makes them: two groups of letters and digits without look-alikes.
CODE_SAID = re.compile(
    r"\s*([0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{4})[- ]?([0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{4})\s*"
)
CODE_SPACE = "code"


STOPPED = "asked not to be written to any more; only a person's own word turns that on again."
NOT_ANY_MORE = "this person said stop."
STARTED = "may be written to again."


@dataclass(frozen=True, slots=True)
class Met:
    """Who spoke: the person's public id. What was said is `quiet` where it wakes nobody; `told` is
    what the transcript says about it."""

    person: str | None = None
    quiet: bool = False
    told: str = ""


NOBODY_MET = Met()


def is_met(draft: Draft, conversation: Conversation, message: InboundMessage) -> bool:
    """Whether a live message is a person's own, in a direct conversation or in one of its threads:
    on a platform, or on our own page, where nobody else could decide whether they are written to.
    """
    return (
        message.direction is Direction.INBOUND
        and message.event is Event.MESSAGE
        and not message.actor.is_bot
        and not message.actor.is_self
        and conversation.ref.provider != delivery.INTERNAL
        and (
            is_direct(draft, conversation)
            or (message.parent is not None and message.parent.kind is Kind.DM)
        )
    )


def is_direct(draft: Draft, conversation: Conversation) -> bool:
    """Whether this is one person's: a direct conversation, or a thread in one."""
    if conversation.kind is not Kind.THREAD or conversation.about.party is not None:
        return conversation.kind is not Kind.ROOM
    above = parent_of(draft, conversation)
    return above is not None and above.kind is Kind.DM


def contact_of(draft: Draft, conversation: Conversation) -> Contact | None:
    """The contact behind a direct conversation or its thread, None where nobody is known there."""
    party, ref = conversation.about.party, conversation.ref
    if party is None and conversation.kind is Kind.THREAD and is_direct(draft, conversation):
        above = parent_of(draft, conversation)
        party = None if above is None else above.about.party
    if party is None:
        return None
    return draft.get(CONTACT, (ref.scope_id, ref.provider, party.realm, party.address))


def meet(
    draft: Draft, conversation: Conversation, message: InboundMessage, now: datetime
) -> tuple[Conversation, Met]:
    """Know who spoke, and do what a lone word or a code asks for."""
    ref, about = conversation.ref, conversation.about
    party = about.party
    if party is None or party.address != message.actor.id:
        there = draft.get(ADAPTER, (ref.scope_id, ref.provider, ref.account_id))
        party = Party("" if there is None else there.capabilities.realm, message.actor.id)
        conversation = replace(conversation, about=replace(about, party=party))
        draft.save(conversation)
    key: ContactKey = (ref.scope_id, ref.provider, party.realm, party.address)
    contact = draft.get(CONTACT, key)
    said = message.sent_at if message.sent_at is not None and message.sent_at < now else now
    if contact is None:
        contact = _new(draft, key, message, now)
    elif contact.verified_at is None:
        contact = replace(contact, verified_at=now, how="inbound")
        _granted(draft, contact, now)
    heard = contact.heard_at is None or said - contact.heard_at >= HEARD_EVERY
    if heard or contact.account != ref.account_id:
        contact = replace(contact, heard_at=said, account=ref.account_id)
    if draft.get(CONTACT, key) != contact:
        draft.put(CONTACT, key, contact)
    _aliases(draft, message, contact, now)
    code = CODE_SAID.fullmatch(message.text) if len(message.text) <= 20 else None
    if code is not None:
        contact = _verified(draft, contact, "".join(code.groups()).upper(), now)
    asked = None
    if len(message.text) <= LONGEST:
        person = heir_of(draft, contact.person)
        asked = wish(message.text, () if person is None else person.languages)
    told = "" if asked is None else _decide(draft, contact, asked, now)
    if told:
        told = f"{message.actor.name or message.actor.id} {told}"
    return conversation, Met(public(contact.person), asked is Wish.STOP, told)


def heed(draft: Draft, conversation: Conversation, message: InboundMessage, now: datetime) -> Met:
    """Turn off what a message asks to be turned off, and nothing else: it has to wait behind an
    import, or is brought by somebody who may not speak for the person."""
    contact = contact_of(draft, conversation)
    party = conversation.about.party
    if contact is None or (party is not None and party.address != message.actor.id):
        return NOBODY_MET
    person = heir_of(draft, contact.person)
    languages = () if person is None else person.languages
    stop = wish(message.text, languages) is Wish.STOP
    told = _decide(draft, contact, Wish.STOP, now) if stop else ""
    if told:
        told = f"{message.actor.name or message.actor.id} {told}"
    return Met(public(contact.person), stop, told)


def _new(
    draft: Draft,
    key: ContactKey,
    message: InboundMessage,
    now: datetime,
) -> Contact:
    scope, provider, realm, address = key
    name = message.actor.name or address
    person = _under_another_id(draft, message, key)
    if person is None:
        made = Person(id=draft.fresh(), scope_id=scope, name=name, created_at=now)
        draft.put(PERSON, made.id, made)
        person = made.id
    contact = Contact(
        scope_id=scope,
        provider=provider,
        realm=realm,
        address=address,
        person=person,
        created_at=now,
        verified_at=now,
        how="inbound",
    )
    draft.put(CONTACT, key, contact)
    _granted(draft, contact, now)
    return contact


def _granted(draft: Draft, contact: Contact, now: datetime) -> None:
    """Who writes may be answered, and written to on that platform, unless that was ever decided."""
    if draft.get(CONSENT, (contact.person, contact.provider)) is not None:
        return
    by = f"person {public(contact.person)}"
    row = Consent(
        subject=contact.person,
        about=contact.provider,
        state=ConsentState.ON,
        by=by,
        at=now,
        why="wrote first",
    )
    draft.put(CONSENT, (contact.person, contact.provider), row)
    audit(
        draft,
        contact.scope_id,
        by,
        "consent.on",
        now,
        subject=by,
        about=contact.provider,
        why=row.why,
    )


def _other_ids(message: InboundMessage, key: ContactKey) -> list[ContactKey]:
    """Other ids of who speaks, where a direct conversation is named by its person's id."""
    scope, provider, realm, _ = key
    if message.conversation.conversation_id != message.actor.id:
        return []
    return [
        (scope, provider, realm, other.conversation_id)
        for other in message.same_as
        if other.provider == provider
    ]


def _under_another_id(draft: Draft, message: InboundMessage, key: ContactKey) -> int | None:
    """Who is known already by another id of the one who speaks."""
    known = fetch(draft, CONTACT, _other_ids(message, key))
    return next((one.person for one in known if one is not None), None)


def _aliases(draft: Draft, message: InboundMessage, contact: Contact, now: datetime) -> None:
    """Other ids of the same person; what was decided under them holds on."""
    for key in _other_ids(message, contact.key):
        known = draft.get(CONTACT, key)
        if known is not None and known.person == contact.person:
            continue
        if known is not None:
            _same(draft, contact.scope_id, known.person, contact.person)
        created = now if known is None else known.created_at
        draft.put(CONTACT, key, replace(contact, address=key[3], created_at=created))


def _same(draft: Draft, scope: str, other: int, kept: int) -> None:
    """Who said stop under either id said it, and was written to under either."""
    carry(draft, other, kept, only_off=True)
    count_together(draft, scope, other, kept)


def _verified(draft: Draft, contact: Contact, code: str, now: datetime) -> Contact:
    """A code said here makes this contact that person's; wrong ones are counted and bounded."""
    recent = tuple(at for at in contact.guesses if now - at < GUESSES_WITHIN)
    if len(recent) >= GUESSES:
        return contact
    key = (contact.scope_id, draft.id_key(CODE_SPACE, code))
    known = draft.get(CODE, key)
    fits = known is not None and known.provider in ("", contact.provider)
    if known is None or not fits or now >= known.expires_at:
        contact = replace(contact, guesses=(*recent, now))
        draft.put(CONTACT, contact.key, contact)
        return contact
    draft.put(CODE, key, None)
    person = heir_of(draft, known.person)
    if person is None:
        return contact
    before = contact.person
    contact = replace(contact, person=person.id, verified_at=now, how="code", guesses=())
    draft.put(CONTACT, contact.key, contact)
    if before != person.id:
        _same(draft, contact.scope_id, before, person.id)
    _granted(draft, contact, now)
    audit(
        draft,
        contact.scope_id,
        f"person {public(person.id)}",
        "contact.verified",
        now,
        subject=f"person {public(person.id)}",
        provider=contact.provider,
        how="code",
    )
    return contact


def _decide(draft: Draft, contact: Contact, asked: Wish, now: datetime) -> str:
    """The person's own word: off for everything, or on again. Answers what to tell, if anything."""
    before = draft.get(CONSENT, (contact.person, EVERYTHING))
    is_off = before is not None and before.state is ConsentState.OFF
    if is_off is (asked is Wish.STOP):
        return ""
    state = ConsentState.OFF if asked is Wish.STOP else ConsentState.ON
    by = f"person {public(contact.person)}"
    why = f"said so on {contact.provider}"
    row = Consent(subject=contact.person, about=EVERYTHING, state=state, by=by, at=now, why=why)
    draft.put(CONSENT, (contact.person, EVERYTHING), row)
    audit(draft, contact.scope_id, by, f"consent.{state.value}", now, subject=by, why=why)
    if asked is Wish.STOP:
        end_planned(draft, contact.person, NOT_ANY_MORE, now)
    return STOPPED if asked is Wish.STOP else STARTED
