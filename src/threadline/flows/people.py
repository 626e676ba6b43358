"""People and the ways to them: found, verified, merged and split, nothing written down lost.

A contact is verified where its owner wrote from it, where a code was said there that the person was
given elsewhere, or where a controller that is a human vouches for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from threadline.core.errors import InvalidInput, NotFound
from threadline.core.ids import number_of
from threadline.core.model import CONTROLLER, Caller
from threadline.core.ports import Store
from threadline.core.rules import admission, authority
from threadline.core.rules.limits import LIMITS, Limits, clamp
from threadline.flows.persons import (
    ForgetCodes,
    GiveCode,
    GivenCode,
    Merge,
    PersonState,
    ReadPeople,
    ReadPerson,
    Split,
    WritePerson,
    realm_of,
)
from threadline.flows.planning import Recipient

LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
CODE_LETTERS = 8
CODE_FOR = timedelta(minutes=15)
MAX_NAME = 200
MAX_ADDRESS = 500


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
        realm: str = "",
        verified: bool = False,
        caller: Caller = CONTROLLER,
    ) -> PersonState:
        """A new person; `contacts` are written `PROVIDER:ADDRESS`, `email:…` or `alias:…`.

        `realm` is where they are unique: the team, for Slack. `verified` vouches for them, which
        only a controller marked human may. Raises `Unauthorized`, `Conflict` where a contact is
        somebody else's, `InvalidInput`.
        """
        return await self._write(
            caller,
            name=_name(name),
            languages=_languages(languages),
            metadata=metadata,
            contacts=contacts,
            realm=realm,
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
            authority.human(caller, "vouches for an address")
        add = tuple((*_contact(one), verified) for one in contacts)
        take = tuple(
            (provider, realm_of(provider, realm), address)
            for provider, address in map(_contact, without)
        )
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
            raise NotFound("there is no such person.", person=after)
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
                realm=realm_of(provider, realm),
                address=address,
                name=_name(name) if name else "",
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
