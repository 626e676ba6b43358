"""`Idempotency-Key`: the same request under the same key does its work once.

A key is written in the transaction of the first story that runs under it, so a refused request
uses up nothing and a committed one is never done again for other words. What is kept is a keyed
digest of the payload, for 30 days, and never a body: the second answer is made anew from what is
there, which is the same because the stories of these requests find what they made before. Where
that cannot be, as for a secret that is shown once, `once` refuses the second time.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, TypeVar

from threadline.core.deliveries import Intent
from threadline.core.errors import AlreadyDone, IdempotencyConflict, InvalidInput, ThreadlineError
from threadline.core.ports import INTENT, Bell, Changes, Hit, Loaded, Needs, Store, Story

T = TypeVar("T")

MAX_KEY = 255
# Keys of requests stand beside those of publications, under a session that no session has.
NOBODY = 0


def checked_key(key: str | None) -> str | None:
    """The key as it may be kept. Raises `InvalidInput`."""
    if key is not None and not (0 < len(key) <= MAX_KEY and key.isprintable()):
        raise InvalidInput(f"a key has 1 to {MAX_KEY} printable characters.", field="key")
    return key


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A key as its owner used it: for which request, with which payload (a digest of it)."""

    owner: str
    request: str
    key: str
    payload: str

    def name(self, loaded: Loaded) -> tuple[int, bytes]:
        """The row it is kept under."""
        words = "\n".join((self.owner, self.request, self.key))
        return NOBODY, loaded.id_key("request", words)

    def digest(self, loaded: Loaded) -> bytes:
        """The keyed digest of the payload."""
        return loaded.id_key("payload", self.payload)

    def known(self, loaded: Loaded) -> bool:
        """Whether it was used before, for the same. Raises `IdempotencyConflict` otherwise."""
        intent = loaded.get(INTENT, self.name(loaded))
        if intent is not None and intent.digest != self.digest(loaded):
            raise IdempotencyConflict(
                "this key was used for another payload; take a new key.", key=self.key
            )
        return intent is not None

    def message_id(self, number: int = 0) -> str:
        """An id for a message that has none, so that it is known the second time (law 3)."""
        words = "\n".join((self.owner, self.request, self.key, str(number)))
        return f"key-{hashlib.sha256(words.encode()).hexdigest()[:32]}"


@dataclass(frozen=True, slots=True)
class Look(Story[bool]):
    """Whether a key was used before."""

    claim: Claim

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, bool]:
        """Raises `IdempotencyConflict`."""
        return Changes(), self.claim.known(loaded)


@dataclass(frozen=True, slots=True)
class Mark(Story[None]):
    """Nothing but the key."""

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """Writes nothing itself."""
        return Changes(), None


@dataclass(frozen=True, slots=True)
class Keyed(Story[T]):
    """Another story, and the key in the same transaction."""

    story: Story[T]
    claim: Claim
    once: bool

    @property
    def payload(self) -> Any:
        """See `Story.payload`."""
        return self.story.payload

    def needs(self) -> Needs:
        """See `Story.needs`."""
        return self.story.needs()

    def more(self, loaded: Loaded) -> Needs:
        """See `Story.more`."""
        return self.story.more(loaded)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, T]:
        """Raises `IdempotencyConflict`, `AlreadyDone`, and what the story refuses with."""
        known = self.claim.known(loaded)
        if known and self.once:
            raise AlreadyDone(key=self.claim.key)
        changes, answer = self.story.decide(loaded, now)
        if not known:
            intent = Intent(
                digest=self.claim.digest(loaded), conversation=0, delivery=0, created_at=now
            )
            changes.put(INTENT, self.claim.name(loaded), intent)
        return changes, answer


class KeyedStore:
    """See `core.ports.Store`: the store for one request under a key.

    Only its first story carries the key; what comes after belongs to the same request.
    """

    kind: ClassVar[str] = "keyed"

    def __init__(self, store: Store, claim: Claim, *, once: bool = False) -> None:
        self._store = store
        self.schema = store.schema
        self.witness = store.witness
        self.claim = claim
        self.once = once
        self.repeated = False
        self._written = False

    @property
    def broken(self) -> ThreadlineError | None:
        """See `core.ports.Store.broken`."""
        return self._store.broken

    async def run(self, story: Story[T]) -> T:
        """See `core.ports.Store.run`. Raises `IdempotencyConflict` and `AlreadyDone` as well."""
        if self._written:
            return await self._store.run(story)
        self.repeated = await self._store.read(Look(self.claim))
        answer = await self._store.run(Keyed(story, self.claim, self.once))
        self._written = True
        return answer

    async def run_all(self, stories: Iterable[Story[T]]) -> list[T | Exception]:
        """See `core.ports.Store.run_all`."""
        await self.run(Mark())
        return await self._store.run_all(stories)

    async def read(self, story: Story[T]) -> T:
        """See `core.ports.Store.read`."""
        return await self._store.read(story)

    async def find(
        self, words: str, conversations: Sequence[int] | None, before: Hit | None, limit: int
    ) -> list[Hit]:
        """See `core.ports.Store.find`."""
        return await self._store.find(words, conversations, before, limit)

    def bell(
        self,
        *,
        conversations: Iterable[int] = (),
        session: int | None = None,
        everything: bool = False,
    ) -> Bell:
        """See `core.ports.Store.bell`."""
        return self._store.bell(conversations=conversations, session=session, everything=everything)

    def check(self) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """See `core.ports.Store.check`."""
        return self._store.check()
