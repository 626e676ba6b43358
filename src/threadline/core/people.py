"""People: who somebody is on several platforms, and whether they may be written to.

A person is found by contacts: a platform's own id, an e-mail address, an alias. A contact is
verified by a message that came from it, or by a code said there that was given elsewhere. Persons
are merged by a successor, as sessions are: what was written down under the older one stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from threadline.core.model import Metadata, Word

ContactKey = tuple[str, str, str, str]

EMAIL = "email"
ALIAS = "alias"
# What names a person and is no place to write to.
NAMES = frozenset({EMAIL, ALIAS})

EVERYTHING = ""
BY_SYSTEM = "system"


class ConsentState(Word):
    """Whether something may be written."""

    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A human. `languages` are those whose words for "stop" are listened for, besides English;
    none means all that are known. `successor` is who this one turned out to be."""

    id: int
    scope_id: str
    name: str
    created_at: datetime
    languages: tuple[str, ...] = ()
    successor: int | None = None
    predecessors: tuple[int, ...] = ()
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """One way to a person. `realm` is where the address is unique: a Slack team, else empty.

    `how` says what verified it: `inbound`, `code` or `controller`. `account` heard it last and
    `heard_at` when, within five minutes. `guesses` are the latest codes said here that were wrong.
    """

    scope_id: str
    provider: str
    realm: str
    address: str
    person: int
    created_at: datetime
    verified_at: datetime | None = None
    how: str = ""
    account: str = ""
    heard_at: datetime | None = None
    guesses: tuple[datetime, ...] = ()

    @property
    def key(self) -> ContactKey:
        """What it is stored under."""
        return self.scope_id, self.provider, self.realm, self.address


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A code that a person was given; said in a direct conversation it verifies that contact.

    `provider` restricts where it counts, empty is anywhere.
    """

    person: int
    expires_at: datetime
    provider: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """Whether a subject may be written to, by whom that was said, when and why.

    The subject is a person or a room. `about` is what it is about: everything (empty), a provider,
    or `session:` and a session's id.
    """

    subject: int
    about: str
    state: ConsentState
    by: str
    at: datetime
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """An account through which a session may start conversations."""

    session: int
    provider: str
    account_id: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting of a scope that is changed while servers run."""

    value: Mapping[str, Any]
    by: str
    at: datetime


def about_session(session: str) -> str:
    """What a consent is about that concerns one session only; `session` is its public id."""
    return f"session:{session}"
