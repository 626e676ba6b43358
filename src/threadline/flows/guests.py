"""People in one room by a link: they come in under a name nobody there has, and are known again.

What they do inside is in `visiting`.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from threadline.core.draft import Draft
from threadline.core.errors import (
    HydrationPending,
    InvalidInput,
    NameTaken,
    NotFound,
    TooLarge,
    Unauthorized,
)
from threadline.core.guests import Link, Visitor, opens
from threadline.core.ids import public
from threadline.core.model import (
    BackfillPolicy,
    Caller,
    Conversation,
    Guest,
    TranscriptRecord,
)
from threadline.core.ports import (
    GUEST,
    GUEST_BY_HASH,
    LINK,
    LINK_BY_HASH,
    Changes,
    Loaded,
    Page,
    Store,
    Story,
)
from threadline.core.presence import guests_of, refuse_full, refuse_taken
from threadline.core.recording import Taken
from threadline.core.rules import hydration, naming
from threadline.core.rules.limits import LIMITS, Limits, clamp
from threadline.flows.conversations import TranscriptPage
from threadline.flows.hydration import Hydration
from threadline.flows.links import link_key
from threadline.flows.replay import PATIENCE
from threadline.flows.tokens import BYTES, MAX_NAME, Bearer
from threadline.flows.visiting import SPOKEN, Leave, Place, ReadRoom, Revoked, Say
from threadline.flows.watching import Reset

MAX_FILES = 10

_CLIENT_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestState:
    """A guest in its room. `secret` is the cookie's value, `lasts` how long its link still holds.

    `writes` says whether it may speak: only the web chat carries a guest's words to everybody.
    """

    conversation: str
    title: str
    name: str
    actor_id: str
    csrf: str
    policy: BackfillPolicy
    n: int | None
    writes: bool
    expires_at: datetime
    lasts: timedelta
    secret: str = field(repr=False)


def _guest_key(loaded: Loaded, secret: str) -> bytes:
    return loaded.id_key("guest", secret)


def _state(
    loaded: Loaded, visitor: Visitor, link: Link, room: Conversation, secret: str, now: datetime
) -> GuestState:
    return GuestState(
        conversation=public(room.id),
        title=room.about.title,
        name=visitor.name,
        actor_id=visitor.actor.id,
        csrf=loaded.id_key("csrf", secret).hex(),
        policy=link.policy.backfill,
        n=link.policy.n,
        writes=room.ref.provider == SPOKEN,
        expires_at=link.expires_at,
        lasts=link.ends_at - now,
        secret=secret,
    )


def _behind(loaded: Loaded, secret: str, now: datetime) -> tuple[Visitor, Link] | None:
    """The guest a cookie's value means, as long as its link holds."""
    rows = loaded.page(Page(GUEST_BY_HASH, (_guest_key(loaded, secret),)))
    visitor = loaded.get(GUEST, rows[0][0]) if rows else None
    link = None if visitor is None else loaded.get(LINK, visitor.link)
    if visitor is None or link is None or not opens(link, now):
        return None
    return visitor, link


@dataclass(frozen=True, slots=True, kw_only=True)
class Enter(Story[GuestState]):
    """Let somebody in under a name that nobody here has. `known` is the cookie it came with."""

    link: str
    name: str
    secret: str = field(repr=False)
    known: str | None
    limits: Limits

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, GuestState]:
        """Who is in by this link already stays the same guest, under the name it gives now.

        Raises `NotFound` for a link that opens nothing, `NameTaken`, `Limited` where the room is
        full, `HydrationPending`.
        """
        draft = Draft(loaded)
        rows = loaded.page(Page(LINK_BY_HASH, (link_key(loaded, self.link),)))
        link = loaded.get(LINK, rows[0][0]) if rows else None
        room = None if link is None else draft.taken(link.conversation)
        if link is None or room is None or not opens(link, now):
            raise NotFound("this room link opens nothing (any more).")
        hydration.refuse_gated(room)
        was = None if self.known is None else _behind(draft, self.known, now)
        own = was[0] if was is not None and was[0].link == link.id else None
        others = [one for one in guests_of(draft, room, now, self.limits) if one != own]
        if own is None:
            refuse_full(others, self.limits)
        # A name of its own in other letters. One that is only like it may be like another's too.
        if own is None or not naming.looks(self.name) <= naming.looks(own.name):
            self._refuse_taken(draft, room, others)
        if own is None:
            visitor, secret = self._visitor(draft, link, room, now), self.secret
        else:
            visitor, secret = replace(own, name=self.name), self.known or self.secret
        if visitor != own:
            draft.put(GUEST, visitor.id, visitor)
        return draft.changes, _state(loaded, visitor, link, room, secret, now)

    def _refuse_taken(self, draft: Draft, room: Conversation, others: list[Visitor]) -> None:
        """Who has the name of another guest is told one that is free; never one like a handle's or
        a session's, which people would take for it."""
        refuse_taken(draft, room, self.name, ())
        try:
            refuse_taken(draft, room, self.name, others)
        except NameTaken as taken:
            for number in range(2, len(others) + 3):
                free = f"{self.name} {number}"
                try:
                    refuse_taken(draft, room, naming.checked(free), others)
                except (NameTaken, InvalidInput):
                    continue
                raise NameTaken(f"({self.name!r})", name=self.name, free=free) from taken
            raise

    def _visitor(self, draft: Draft, link: Link, room: Conversation, now: datetime) -> Visitor:
        return Visitor(
            id=draft.fresh(),
            hash=_guest_key(draft, self.secret),
            conversation=room.id,
            link=link.id,
            name=self.name,
            joined_at=now,
            joined_sequence=room.head,
        )


@dataclass(frozen=True, slots=True)
class LookIn(Story[str]):
    """Which room a link leads into."""

    link: str = field(repr=False)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, str]:
        """Raises `NotFound` for a link that opens nothing."""
        rows = loaded.page(Page(LINK_BY_HASH, (link_key(loaded, self.link),)))
        link = loaded.get(LINK, rows[0][0]) if rows else None
        room = None if link is None else loaded.peeked(link.conversation)
        if link is None or room is None or not opens(link, now):
            raise NotFound("this room link opens nothing (any more).")
        return Changes(), room.about.title


@dataclass(frozen=True, slots=True)
class Recall(Story[Bearer | None]):
    """Whom a cookie's value makes of whoever carries it."""

    secret: str = field(repr=False)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Bearer | None]:
        """Found by the keyed hash, as a token is."""
        found = _behind(loaded, self.secret, now)
        room = None if found is None else loaded.peeked(found[0].conversation)
        if found is None or room is None:
            return Changes(), None
        visitor, link = found
        return Changes(), Bearer(
            id=public(visitor.id),
            caller=Guest(room.ref, visitor.actor),
            expires_at=link.expires_at,
            csrf=loaded.id_key("csrf", self.secret).hex(),
        )


@dataclass(frozen=True, slots=True)
class ShowGuest(Story[GuestState]):
    """A guest in its room, by the cookie's value."""

    secret: str = field(repr=False)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, GuestState]:
        """Raises `Revoked`."""
        found = _behind(loaded, self.secret, now)
        room = None if found is None else loaded.peeked(found[0].conversation)
        if found is None or room is None:
            raise Revoked
        return Changes(), _state(loaded, *found, room, self.secret, now)


def _guest(caller: Caller) -> Guest:
    if not isinstance(caller, Guest):
        raise Unauthorized("this is a guest's.")
    return caller


class Guests:
    """People in rooms by a link."""

    def __init__(self, store: Store, hydration: Hydration, limits: Limits = LIMITS) -> None:
        self._store = store
        self._hydration = hydration
        self._limits = limits

    async def door(self, link: str) -> str:
        """The title of the room a link's secret leads into, and nothing else of it: what whoever
        comes in reads at once. Raises `NotFound` for a link that opens nothing.
        """
        if len(link) > MAX_NAME:
            raise NotFound("this room link opens nothing (any more).")
        return await self._store.read(LookIn(link))

    async def enter(self, link: str, name: str, *, known: str | None = None) -> GuestState:
        """Come into a room by the secret of a link, under a name nobody in it has.

        `known` is the secret of an earlier coming in: by the same link it stays the same guest.
        Raises `NotFound` for a link that opens nothing, `NameTaken`, `InvalidInput` for a name with
        nothing to see, `Limited` where the room is full, `HydrationPending`.
        """
        shown = naming.checked(name)
        if len(link) > MAX_NAME:
            raise NotFound("this room link opens nothing (any more).")
        story = Enter(
            link=link,
            name=shown,
            secret=secrets.token_urlsafe(BYTES),
            known=known if known and len(known) <= MAX_NAME else None,
            limits=self._limits,
        )
        return await self._store.run(story)

    async def recognise(self, secret: str) -> Bearer | None:
        """Whom a guest's secret makes of its bearer; None where it has left or its link is over."""
        if not secret or len(secret) > MAX_NAME:
            return None
        return await self._store.read(Recall(secret))

    async def show(self, secret: str) -> GuestState:
        """A guest in its room. Raises `Revoked`."""
        return await self._store.read(ShowGuest(secret))

    async def leave(self, *, caller: Caller) -> None:
        """Give up place and name; what was said stays. Raises `Revoked`."""
        await self._store.run(Leave(_guest(caller)))

    async def transcript(
        self,
        *,
        after: int | None = None,
        before: int | None = None,
        order: str = "asc",
        limit: int | None = None,
        view: str = "records",
        caller: Caller,
    ) -> TranscriptPage:
        """A page of the guest's room between two exclusive sequences, as its link allows.

        Without what the room's keepers alone are to see: wakes, origins, metadata, addresses of
        files. Raises `Revoked` and `HydrationPending`.
        """
        if order not in ("asc", "desc"):
            raise InvalidInput("order is `asc` or `desc`.", order=order)
        if view not in ("records", "messages"):
            raise InvalidInput("view is `records` or `messages`.", view=view)
        return await self._store.read(
            ReadRoom(
                caller=_guest(caller),
                after=after,
                before=before,
                newest_first=order == "desc",
                folded=view == "messages",
                limit=clamp(limit, self._limits),
            )
        )

    async def say(
        self,
        text: str,
        *,
        client_id: str,
        reply_to: int | str | None = None,
        files: Sequence[str] = (),
        caller: Caller,
    ) -> Taken:
        """Say something in the guest's room; the same `client_id` again is the same message.

        `reply_to` is a sequence or a message id, `files` are ids of
        `uploads.give`. Held, as everybody's words, while a gated import is under way. Raises
        `Revoked`, `InvalidInput`, `Conflict`, `TooLarge`, `NotFound`, `Unauthorized`.
        """
        guest = _guest(caller)
        if not text.strip() and not files:
            raise InvalidInput("there is nothing to say.", field="text")
        if len(files) > MAX_FILES:
            raise InvalidInput(f"{MAX_FILES} files at once.", field="files")
        if len(text.encode("utf-8", "replace")) > self._limits.guest_text_bytes:
            raise TooLarge(
                f"a guest says at most {self._limits.guest_text_bytes} bytes at once.",
                field="text",
                limit=self._limits.guest_text_bytes,
            )
        if not _CLIENT_ID.fullmatch(client_id):
            raise InvalidInput(
                "client_id has 1 to 64 letters, digits, '-', '_', '.' or ':'.", field="client_id"
            )
        story = Say(
            caller=guest,
            text=text,
            client_id=client_id,
            reply_to=reply_to,
            files=tuple(files),
            limits=self._limits,
        )
        taken = await self._store.run(story)
        if taken.draining:
            await self._hydration.drain(taken.conversation)
        return taken

    async def follow(
        self, *, after: int | None = None, patience: float = PATIENCE, caller: Caller
    ) -> AsyncIterator[TranscriptRecord]:
        """Every record behind `after`, or from now on, as far as the guest may read; for ever.

        Raises `Revoked`, and `Reset` where `after` lies over the head. While an import hides the
        room nothing comes.
        """
        guest = _guest(caller)
        where, head = await self._store.read(Place(guest))
        if after is not None and after > head:
            raise Reset(f"the head is {head}.", head=head)
        cursor = head if after is None else after
        bell = self._store.bell(conversations=[where])
        try:
            while True:
                page = await self._page(guest, cursor)
                for record in () if page is None else page.records:
                    cursor = record.sequence
                    yield record
                if page is None or page.next is None:
                    await bell.wait(patience)
        finally:
            bell.close()

    async def _page(self, guest: Guest, after: int) -> TranscriptPage | None:
        story = ReadRoom(caller=guest, after=after, limit=self._limits.page)
        try:
            return await self._store.read(story)
        except HydrationPending:
            return None
