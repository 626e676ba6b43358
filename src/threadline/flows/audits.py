"""Reading the audit, and proving that nobody changed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from threadline.core.auditing import head_of, sealed
from threadline.core.chains import FIRST, Chain, Entry
from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput
from threadline.core.model import CONTROLLER, Caller
from threadline.core.ports import AUDITED, AUDITED_AFTER, CHAIN, Changes, Loaded, Page, Store, Story
from threadline.core.rules import admission, authority
from threadline.core.rules.limits import LIMITS, Limits, clamp

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NEWEST = 1 << 62
CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the chain is whole: how many entries were read, and what does not fit where."""

    entries: int
    broken_at: int | None = None
    reason: str = ""

    @property
    def whole(self) -> bool:
        """Whether nothing was changed, taken out or added."""
        return self.broken_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAudit(Story[list[Entry]]):
    """A page of entries, newest first."""

    scope: str
    before: int
    action: str
    since: datetime | None
    limit: int

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[Entry]]:
        """Those of one action where it is named."""
        since = 0
        if self.since is not None:
            since = max(0, (self.since - EPOCH) // timedelta(microseconds=1))
        page = Page(AUDITED, (self.scope, self.before, self.action, since, self.limit))
        return Changes(), loaded.page(page)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyChunk(Story[tuple[list[Entry], int, bool, int | None]]):
    """The next entries of a chain, held against their digests."""

    scope: str
    after: int
    digest: bytes

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[list[Entry], int, bool, int | None]]:
        """Answers them, how many were written, whether the chain ends with them, and the first
        number that does not fit."""
        draft = Draft(loaded)
        head = draft.get(CHAIN, self.scope) or Chain()
        rows = draft.page(Page(AUDITED_AFTER, (self.scope, self.after, CHUNK)))
        before, expected = self.digest, self.after
        for one in rows:
            expected += 1
            if one.number != expected or one.digest != sealed(draft, one, before):
                return draft.changes, (rows, head.count, False, expected)
            before = one.digest
        ends = head == Chain(expected, head_of(draft, self.scope, expected, before))
        return draft.changes, (rows, head.count, ends, None)


class Audits:
    """The audit of one scope."""

    def __init__(self, store: Store, limits: Limits = LIMITS) -> None:
        self._store = store
        self._limits = limits

    async def list(
        self,
        *,
        action: str = "",
        before: int | None = None,
        since: datetime | None = None,
        limit: int | None = None,
        caller: Caller = CONTROLLER,
    ) -> Sequence[Entry]:
        """Entries, newest first; `before` is the number of the last one of the page before.

        Raises `InvalidInput` for a `since` without its zone.
        """
        authority.may_control(caller)
        if since is not None and since.tzinfo is None:
            raise InvalidInput("since needs a time zone.", field="since")
        return await self._store.read(
            ReadAudit(
                scope=authority.scope_of(caller),
                before=NEWEST if before is None else max(0, min(before, NEWEST)),
                action=action,
                since=None if since is None else admission.aware(since, "since"),
                limit=clamp(limit, self._limits),
            )
        )

    async def verify(self, *, caller: Caller = CONTROLLER) -> Verdict:
        """Read the whole chain and say whether it is whole."""
        authority.may_control(caller)
        scope, number, digest = authority.scope_of(caller), 0, FIRST
        while True:
            rows, count, ends, wrong = await self._store.read(
                VerifyChunk(scope=scope, after=number, digest=digest)
            )
            if wrong is not None:
                return Verdict(
                    entries=number,
                    broken_at=wrong,
                    reason=f"entry {wrong} is not the one that was written.",
                )
            if rows:
                number, digest = rows[-1].number, rows[-1].digest
            if len(rows) < CHUNK:
                break
        if number < count:
            return Verdict(
                entries=number,
                broken_at=number + 1,
                reason=f"{count} entries were written, {number} are there.",
            )
        if not ends:
            return Verdict(
                entries=number, broken_at=number, reason="the head of the chain differs."
            )
        return Verdict(entries=number)
