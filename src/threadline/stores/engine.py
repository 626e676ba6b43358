"""How a batch of stories becomes one transaction. Written once, for both engines.

needs of all → loaded with one statement per kind → more → loaded → each story decides in arrival
order, seeing the changes of those before it → saved with one statement per kind → committed.

Nothing here touches a driver: `Batch.work` is a generator that yields an `Operation` and is sent
the rows. SQLite runs it inside the writer thread, PostgreSQL awaits between its steps.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from threadline.core.errors import ThreadlineError
from threadline.core.model import TranscriptRecord
from threadline.core.ports import (
    ADDRESS,
    CONVERSATION,
    FOLLOWERS,
    NO_NEEDS,
    RECORD,
    Changes,
    Missing,
    Needs,
    Noun,
    Page,
    Story,
)
from threadline.stores.bodies import micros
from threadline.stores.codec import Codec, Row
from threadline.stores.rows import LOADED, SAVED, Cache, way_of

ROUNDS = 64
NO_ADDRESSES: Mapping[str, int] = MappingProxyType({})

_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class Operation:
    """One statement to run: over a set of rows, or with plain arguments."""

    statement: str
    rows: Sequence[Row] = ()
    args: Row | None = None


Work = Generator[Operation, list[Row], list[Any]]


@dataclass(slots=True)
class _Dirty:
    """What a batch will save, collected over its stories."""

    rows: dict[Noun[Any, Any], dict[Any, Any]] = field(
        default_factory=lambda: {noun: {} for noun in SAVED}
    )
    records: list[tuple[int, TranscriptRecord]] = field(default_factory=list)
    revisions: list[Row] = field(default_factory=list)
    unindexed: list[Row] = field(default_factory=list)
    indexed: list[Row] = field(default_factory=list)
    swept: list[Row] = field(default_factory=list)


class Batch:
    """The stories of one transaction, what was loaded for them and what they changed."""

    def __init__(
        self,
        codec: Codec,
        now: datetime,
        cache: Cache | None = None,
        *,
        reading: bool = False,
        addresses: Mapping[str, int] = NO_ADDRESSES,
    ) -> None:
        self._addresses = addresses
        self._codec = codec
        self._reading = reading
        self._held = "" if reading else "!"
        self._lockable = cache is None and not reading
        self._now = now
        self._rows: dict[Noun[Any, Any], dict[Any, Any]] = {noun: {} for noun in LOADED}
        if cache is not None:
            # What the batch loads and changes is known from then on, or forgotten with its failure.
            self._rows |= cache.rows
        self._pages: dict[Page[Any], list[Any]] = {}
        self._origin: dict[Noun[Any, Any], dict[Any, Any]] = {noun: {} for noun in SAVED}
        self._locked: set[int] = set()
        self._keys: dict[tuple[str, str], bytes] = {}
        self._dirty = _Dirty()
        self._drawn: list[int] = []
        self._given = 0
        self.conversations: set[int] = set()
        self.sessions: set[int] = set()

    # --- what stories see -------------------------------------------------------------------

    def _peek(self, noun: Noun[Any, Any], key: Any) -> Any:
        return self._rows[noun].get(key, _UNKNOWN)

    def get(self, noun: Noun[Any, Any], key: Any) -> Any:
        """See `Loaded.get`."""
        value = self._rows[noun].get(key, _UNKNOWN)
        if value is _UNKNOWN:
            raise Missing(Needs(rows=[(noun, key)]))
        return value

    def page(self, page: Page[Any]) -> list[Any]:
        """See `Loaded.page`."""
        found = self._pages.get(page)
        if found is None:
            raise Missing(Needs(pages=[page]))
        return found

    def taken(self, where: str | int) -> Any:
        """See `Loaded.taken`."""
        number = where if isinstance(where, int) else self._peek(ADDRESS, where)
        if number is None:
            return None
        found = _UNKNOWN if number is _UNKNOWN else self._peek(CONVERSATION, number)
        if found is _UNKNOWN or (self._lockable and number not in self._locked):
            if isinstance(where, int):
                raise Missing(Needs(take_ids=(where,)))
            raise Missing(Needs(take=(where,)))
        return found

    def peeked(self, where: str | int) -> Any:
        """See `Loaded.peeked`."""
        number = where if isinstance(where, int) else self._peek(ADDRESS, where)
        if number is None:
            return None
        found = _UNKNOWN if number is _UNKNOWN else self._peek(CONVERSATION, number)
        if found is _UNKNOWN:
            if isinstance(where, int):
                raise Missing(Needs(rows=[(CONVERSATION, where)]))
            raise Missing(Needs(peek=(where,)))
        return found

    def id_key(self, space: str, message_id: str) -> bytes:
        """See `Loaded.id_key`."""
        made = self._keys.get((space, message_id))
        if made is None:
            made = self._keys[space, message_id] = self._codec.id_key(space, message_id)
        return made

    def fresh(self) -> int:
        """See `Loaded.fresh`."""
        # A story that decides again is given the same numbers, else it would ask for more for ever.
        if self._given == len(self._drawn):
            self._drawn.append(secrets.randbits(62) + 1)
        self._given += 1
        return self._drawn[self._given - 1]

    def addresses(self) -> dict[str, int]:
        """The addresses it found or gave, for the batches that come after its commit."""
        return {ref: it for ref, it in self._rows[ADDRESS].items() if it is not None}

    # --- the transaction ---------------------------------------------------------------------

    def work(self, stories: Sequence[Story[Any]]) -> Work:
        """Load, decide, save. Returns an answer or a refusal per story, in order."""
        # Readings change nothing, so what one asked for stays true for the next.
        alone = len(stories) == 1 or self._reading
        yield from self._load([story.needs() for story in stories], pages=alone)
        second: list[Needs] = []
        for story in stories:
            try:
                second.append(story.more(self))
            except Missing as missing:
                second.append((yield from self._more_again(story, missing)))
            except ThreadlineError:
                second.append(NO_NEEDS)
        yield from self._load(second, pages=alone)
        answers: list[Any] = []
        for story, needs in zip(stories, second, strict=True):
            if needs.pages and not alone:
                yield from self._load([needs], pages=True)
            self._drawn.clear()
            self._given = 0
            try:
                changes, answer = story.decide(self, self._now)
            except Missing as missing:
                answers.append((yield from self._decide_again(story, missing)))
            except ThreadlineError as refusal:
                answers.append(refusal)
            else:
                self._apply(changes)
                answers.append(answer)
            if self._pages and not self._reading:
                self._pages.clear()
        yield from self._save()
        return answers

    def _more_again(
        self, story: Story[Any], missing: Missing
    ) -> Generator[Operation, list[Row], Needs]:
        for _ in range(ROUNDS):
            yield from self._load([missing.needs], pages=True)
            try:
                return story.more(self)
            except Missing as further:
                missing = further
            except ThreadlineError:
                return NO_NEEDS
        raise RuntimeError(f"{type(story).__name__}.more asks for more in every round")

    def _decide_again(
        self, story: Story[Any], missing: Missing
    ) -> Generator[Operation, list[Row], Any]:
        for _ in range(ROUNDS):
            yield from self._load([missing.needs], pages=True)
            self._given = 0
            try:
                changes, answer = story.decide(self, self._now)
            except Missing as further:
                missing = further
            except ThreadlineError as refusal:
                return refusal
            else:
                self._apply(changes)
                return answer
        raise RuntimeError(f"{type(story).__name__}.decide asks for more in every round")

    def _apply(self, changes: Changes) -> None:
        dirty = self._dirty
        for noun, key, value in changes.rows:
            origin, rows = self._origin[noun], self._rows[noun]
            if key not in origin:
                origin[key] = rows.get(key)
            rows[key] = dirty.rows[noun][key] = value
        if changes.records:
            known = self._rows[RECORD]
            for conversation, record in changes.records:
                known[conversation, record.sequence] = record
            dirty.records += changes.records
        for row in changes.revisions:
            followers = self._rows[FOLLOWERS]
            if row[:2] in followers:
                followers[row[:2]] = (*(followers[row[:2]] or ()), row[2:])
            dirty.revisions.append(row)
        if changes.blanked:
            dirty.unindexed += changes.blanked
        if changes.indexed:
            dirty.indexed += [(at, n, micros(when), text) for at, n, when, text in changes.indexed]
        if changes.swept:
            dirty.swept += changes.swept
        self.conversations |= changes.conversations
        self.sessions |= changes.sessions

    # --- loading -----------------------------------------------------------------------------

    def _load(
        self, needs: Iterable[Needs], *, pages: bool = False
    ) -> Generator[Operation, list[Row], None]:
        wanted: dict[Noun[Any, Any], dict[Any, None]] = {}
        held: dict[Noun[Any, Any], dict[Any, None]] = {}
        refs: dict[str, None] = {}
        take: dict[str, None] = {}
        lock: dict[int, None] = {}
        asked: list[Page[Any]] = []
        for one in needs:
            for ref in one.take:
                take[ref] = refs[ref] = None
            for ref in one.peek:
                refs[ref] = None
            for number in one.take_ids:
                lock[number] = None
            for noun, key in one.hold:
                held.setdefault(noun, {})[key] = None
            for noun, key in one.rows:
                wanted.setdefault(noun, {})[key] = None
            if pages:
                asked += one.pages
        if refs:
            known = self._addresses
            self._rows[ADDRESS] |= {ref: known[ref] for ref in refs if ref in known}
            yield from self._fetch(ADDRESS, refs)
            for ref in refs:
                number = self._peek(ADDRESS, ref)
                if number is not None and ref in take:
                    lock[number] = None
                elif number is not None:
                    wanted.setdefault(CONVERSATION, {})[number] = None
        if lock and self._lockable:
            fresh = sorted(number for number in lock if number not in self._locked)
            self._locked.update(fresh)
            known = self._rows[CONVERSATION]
            new = [number for number in fresh if number not in self._origin[CONVERSATION]]
            for number in new:
                known.pop(number, None)
            yield from self._fetch(CONVERSATION, new, self._held)
        elif lock:
            wanted.setdefault(CONVERSATION, {}).update(lock)
        for noun, keys in held.items():
            if self._lockable:
                yield from self._fetch(noun, sorted(keys), self._held)
            else:
                wanted.setdefault(noun, {}).update(keys)
        for noun, keys in wanted.items():
            yield from self._fetch(noun, keys)
        if asked:
            yield from self._save()
            for page in asked:
                yield from self._ask(page)

    def _fetch(
        self, noun: Noun[Any, Any], keys: Iterable[Any], mark: str = ""
    ) -> Generator[Operation, list[Row], None]:
        missing = [key for key in keys if self._peek(noun, key) is _UNKNOWN]
        if not missing:
            return
        known = self._rows[noun]
        for key in missing:
            known[key] = None
        params = missing if isinstance(missing[0], tuple) else [(key,) for key in missing]
        decode = self._codec.decoders[noun]
        for row in (yield Operation(f"{noun.name}.load{mark}", params)):
            key, value = decode(row)
            # Followers come as several rows of one key, everything else as one.
            before = known[key] if noun is FOLLOWERS else None
            known[key] = value if before is None else before + value
        if noun is FOLLOWERS:
            # What this batch decided already and has not saved yet.
            asked = set(missing)
            for revision in self._dirty.revisions:
                if revision[:2] in asked:
                    known[revision[:2]] = (*(known[revision[:2]] or ()), revision[2:])

    def _ask(self, page: Page[Any]) -> Generator[Operation, list[Row], None]:
        args = page.args
        if args and isinstance(args[0], tuple):
            rows = yield Operation(page.query.name, args)
        else:
            rows = yield Operation(page.query.name, args=args)
        if page.query.of is None:
            self._pages[page] = rows
            return
        decode = self._codec.decoders[page.query.of]
        self._pages[page] = [decode(row)[1] for row in rows]

    # --- saving ------------------------------------------------------------------------------

    def _save(self) -> Generator[Operation, list[Row], None]:
        dirty, self._dirty = self._dirty, _Dirty()
        for noun in SAVED:
            if noun is RECORD and dirty.records:
                row = self._codec.record_row
                yield Operation("records.add", [row(number, it) for number, it in dirty.records])
            if changed := dirty.rows[noun]:
                yield from self._write(noun, changed)
        if dirty.revisions:
            yield Operation("revisions.add", dirty.revisions)
        if dirty.unindexed:
            yield Operation("search.drop", dirty.unindexed)
        for conversation, floor in dirty.swept:
            yield Operation("search.sweep", args=(conversation, floor))
            yield Operation("search.unplace", args=(conversation, floor))
            yield Operation("records.sweep", args=(conversation, floor))
        if dirty.indexed:
            yield Operation("search.place", dirty.indexed)
            yield Operation("search.add", dirty.indexed)

    def _write(
        self, noun: Noun[Any, Any], changed: dict[Any, Any]
    ) -> Generator[Operation, list[Row], None]:
        encode = self._codec.encoders[noun]
        origin = self._origin[noun]
        ways: dict[str, list[Row]] = {}
        for key, value in changed.items():
            before = origin[key]
            origin[key] = value
            way = way_of(noun, before, value)
            if way == "drop":
                row = key if isinstance(key, tuple) else (key,)
            elif way == "advance":
                row = (key, value.next_sequence, value.lowest_sequence, value.earliest_sequence)
            elif way == "read":
                row = (*key, value.last_read)
            else:
                row = encode(key, value)
            ways.setdefault(way, []).append(row)
        for way, rows in ways.items():
            yield Operation(f"{noun.name}.{way}", rows)
