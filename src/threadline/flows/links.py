"""Room links: made and shown once, known by a keyed hash only, revoked with their guests."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput, NotFound
from threadline.core.guests import Link
from threadline.core.ids import number_of, public
from threadline.core.model import (
    CONTROLLER,
    BackfillPolicy,
    Caller,
    ConversationRef,
    Policy,
)
from threadline.core.ports import (
    CONVERSATION,
    ENDED_LINKS,
    GUEST,
    GUESTS_OF_ENDED,
    GUESTS_OF_LINK,
    LINK,
    LINKS_OF,
    Changes,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
    fetch,
)
from threadline.core.rules import admission, authority
from threadline.core.rules.authority import Where
from threadline.core.rules.limits import LIMITS, Limits, clamp
from threadline.flows.logins import since_epoch
from threadline.flows.looking import found, peeking, where_of
from threadline.flows.tokens import BYTES, MAX_NAME

LASTS = timedelta(days=7)
LONGEST = timedelta(days=90)
GRACE = timedelta(hours=1)
KEPT = timedelta(days=30)
CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """A link as it is shown. `secret` is there right after it was made, never again."""

    id: str
    conversation: str
    name: str
    policy: BackfillPolicy
    n: int | None
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    secret: str | None = field(default=None, repr=False)


def _shown(link: Link, secret: str | None = None) -> LinkState:
    return LinkState(
        id=public(link.id),
        conversation=public(link.conversation),
        name=link.name,
        policy=link.policy.backfill,
        n=link.policy.n,
        created_at=link.created_at,
        expires_at=link.expires_at,
        revoked_at=link.revoked_at,
        secret=secret,
    )


def link_key(loaded: Loaded, secret: str) -> bytes:
    """What a link's secret is stored under."""
    return loaded.id_key("link", secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeLink(Story[LinkState]):
    """Write a link's hash."""

    where: Where
    caller: Caller
    secret: str = field(repr=False)
    name: str
    policy: Policy
    expires_at: datetime | None

    def needs(self) -> Needs:
        """The room."""
        return peeking(self.where)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, LinkState]:
        """Raises `InvalidInput` for one that would never hold, or for too long."""
        draft = Draft(loaded)
        conversation = found(draft, self.where, self.caller)
        ends = now + LASTS if self.expires_at is None else self.expires_at
        # Whoever asks for all of it by a clock of its own is not refused for a minute.
        if not now < ends <= now + LONGEST + GRACE:
            raise InvalidInput(
                f"expires_at is in the future, at most {LONGEST.days} days from now.",
                field="expires_at",
            )
        link = Link(
            id=draft.fresh(),
            hash=link_key(loaded, self.secret),
            conversation=conversation.id,
            policy=self.policy,
            created_at=now,
            expires_at=ends,
            name=self.name,
        )
        draft.put(LINK, link.id, link)
        return draft.changes, _shown(link, self.secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLinks(Story[tuple[list[LinkState], str | None]]):
    """A page of a room's links, by their ids."""

    where: Where
    caller: Caller
    after: int
    limit: int

    def needs(self) -> Needs:
        """The room."""
        return peeking(self.where)

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[list[LinkState], str | None]]:
        """The second answer is where the next page begins."""
        conversation = found(loaded, self.where, self.caller)
        rows = loaded.page(Page(LINKS_OF, (conversation.id, self.after, self.limit + 1)))
        page = rows[: self.limit]
        following = public(page[-1].id) if len(rows) > self.limit else None
        return Changes(), ([_shown(row) for row in page], following)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeLink(Story[LinkState]):
    """End a link, and its guests with it. A second time changes nothing."""

    link: int
    caller: Caller

    def needs(self) -> Needs:
        """The link, and the first of its guests."""
        return Needs(rows=[(LINK, self.link)])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, LinkState]:
        """One of another scope does not exist for the caller."""
        draft = Draft(loaded)
        link = draft.get(LINK, self.link)
        room = None if link is None else draft.get(CONVERSATION, link.conversation)
        if link is None or room is None or not authority.owns(self.caller, room.ref):
            raise NotFound("there is no such link.", link=public(self.link))
        if link.revoked_at is None:
            link = replace(link, revoked_at=now)
            draft.put(LINK, link.id, link)
            guests = draft.page(Page(GUESTS_OF_LINK, (link.id, CHUNK)))
            _send_away(draft, [one for (one,) in guests])
        return draft.changes, _shown(link)


def _send_away(draft: Draft, guests: list[int]) -> None:
    fetch(draft, GUEST, guests)
    for guest in guests:
        if draft.get(GUEST, guest) is not None:
            draft.put(GUEST, guest, None)


@dataclass(frozen=True, slots=True)
class Tidy(Story[int]):
    """Remove the guests of links that ended, and links that ended a month ago."""

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, int]:
        """Answers how many rows went, at most two chunks."""
        draft = Draft(loaded)
        guests = [one for (one,) in draft.page(Page(GUESTS_OF_ENDED, (since_epoch(now), CHUNK)))]
        links = [one for (one,) in draft.page(Page(ENDED_LINKS, (since_epoch(now - KEPT), CHUNK)))]
        _send_away(draft, guests)
        fetch(draft, LINK, links)
        for link in links if len(guests) < CHUNK else ():
            draft.put(LINK, link, None)
        return draft.changes, len(guests) + len(links)


class Links:
    """Ways into a room for people without a token."""

    def __init__(self, store: Store, limits: Limits = LIMITS) -> None:
        self._store = store
        self._limits = limits

    async def create(
        self,
        where: ConversationRef | str,
        *,
        name: str = "",
        policy: BackfillPolicy | str = BackfillPolicy.SINCE_JOIN,
        n: int | None = None,
        expires_at: datetime | None = None,
        caller: Caller = CONTROLLER,
    ) -> LinkState:
        """Make a link into a room; its secret is in the answer and nowhere else.

        Whoever has it enters the room as a guest and reads as `policy` says. It ends at
        `expires_at`: left out in 7 days, at most in 90. Raises `InvalidInput` and `NotFound`.
        """
        authority.may_control(caller)
        if len(name) > MAX_NAME or not name.isprintable():
            raise InvalidInput(f"a name has at most {MAX_NAME} printable characters.", field="name")
        until = None if expires_at is None else admission.aware(expires_at, "expires_at")
        return await self._store.run(
            MakeLink(
                where=where_of(where),
                caller=caller,
                secret=secrets.token_urlsafe(BYTES),
                name=name,
                policy=Policy.of(policy, n),
                expires_at=until,
            )
        )

    async def page(
        self,
        where: ConversationRef | str,
        *,
        after: str | None = None,
        limit: int | None = None,
        caller: Caller = CONTROLLER,
    ) -> tuple[list[LinkState], str | None]:
        """A page of a room's links without their secrets, and the cursor of the next.

        A link that ended is shown for another 30 days.
        """
        authority.may_control(caller)
        number = -1 if after is None else number_of(after)
        if number is None:
            raise InvalidInput("the cursor is not one a page gave.", after=after)
        size = clamp(limit, self._limits)
        return await self._store.read(
            ReadLinks(where=where_of(where), caller=caller, after=number, limit=size)
        )

    async def revoke(self, link_id: str, *, caller: Caller = CONTROLLER) -> LinkState:
        """End a link at once; its guests are out. Raises `NotFound`."""
        authority.may_control(caller)
        number = number_of(link_id)
        if number is None:
            raise NotFound("there is no such link.", link=link_id[:64])
        return await self._store.run(RevokeLink(link=number, caller=caller))

    async def tidy(self) -> int:
        """Remove what ended: guests at once, links after a month; answers how many rows."""
        gone = 0
        while found_ := await self._store.run(Tidy()):
            gone += found_
            if found_ < CHUNK:
                break
        return gone
