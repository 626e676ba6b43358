"""What the answers about sends, people, consent and the audit look like (see `answers`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from threadline.core.people import ConsentState
from threadline.core.sends import SendState
from threadline.entrypoints.http.answers import Delivery, Shape


class RepeatedDaily(Shape):
    """A time of day on the clocks of a zone."""

    at: str
    zone: str


class Attempt(Shape):
    """What became of one channel. `outcome` is a delivery's state, or the code of the refusal."""

    provider: str
    account_id: str
    address: str
    outcome: str
    reason: str
    at: datetime
    delivery: str | None


class SaidFirst(Shape):
    """Who said the same before, and when."""

    id: str
    session_id: str
    at: datetime


class Send(Shape):
    """One thing said on a session's own initiative, and what became of each channel. `text` is
    empty once nothing of it waits: what was said stands in the transcript."""

    id: str
    session_id: str
    to: str
    via: str
    state: SendState
    created_at: datetime
    text: str
    reason: str
    person: str | None
    at: datetime | None
    repeat: RepeatedDaily | None
    delivery: Delivery | None
    tried: list[Attempt]
    first: SaidFirst | None
    repeated: bool


class Sends(Shape):
    """A page of sends, newest first."""

    sends: list[Send]
    next: str | None


class Contact(Shape):
    """A way to a person. `how` says what verified it: inbound, code or controller."""

    provider: str
    realm: str
    address: str
    verified_at: datetime | None
    how: str
    account_id: str
    heard_at: datetime | None


class Person(Shape):
    """A person. `merged` are the ids under which it was known before."""

    id: str
    name: str
    languages: list[str]
    created_at: datetime
    merged: list[str]
    contacts: list[Contact]
    metadata: dict[str, Any]


class People(Shape):
    """A page of people, by their ids."""

    people: list[Person]
    next: str | None


class Code(Shape):
    """A code to be said by a person in the channel it wants verified. Shown once."""

    code: str
    expires_at: datetime
    provider: str


class Consent(Shape):
    """What was decided about writing to a person or in a room."""

    subject: str
    about: str
    state: ConsentState
    by: str
    at: datetime
    why: str


class Consents(Shape):
    """All that was decided about a person or a room."""

    consents: list[Consent]


class Grant(Shape):
    """An account through which a session may start conversations."""

    session_id: str
    provider: str
    account_id: str
    by: str
    at: datetime


class Grants(Shape):
    """The accounts granted to a session."""

    accounts: list[Grant]


class Allowances(Shape):
    """The limits in force, and who set them when; without that they are the standard ones."""

    limits: dict[str, int]
    by: str
    at: datetime | None


class Entry(Shape):
    """One thing that happened, by whom and to what."""

    number: int
    at: datetime
    by: str
    action: str
    subject: str
    facts: dict[str, Any]


class Audit(Shape):
    """A page of entries, newest first."""

    entries: list[Entry]
    next: int | None


class Verified(Shape):
    """Whether the chain of entries is whole, else which one does not fit and why."""

    whole: bool
    entries: int
    broken_at: int | None
    reason: str
