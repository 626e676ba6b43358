"""Accounts whose events we fetch: a poll or a socket each, one owner across all nodes.

What was fetched is recorded, then the place is written down under the fence, and only then the
provider is told. Whoever dies in between is handed the same again, which the ids make harmless.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from datetime import datetime

from threadline.core import listening
from threadline.core.adapters import Account, Adapter, Channels, Connectable, Listener
from threadline.core.errors import (
    ConfigError,
    InvalidInput,
    NotFound,
    StaleToken,
    ThreadlineError,
    Unauthenticated,
)
from threadline.core.listening import MAX_CURSOR, Listening
from threadline.core.ports import (
    CONNECTED,
    LISTENER,
    Changes,
    Loaded,
    Missing,
    Needs,
    Page,
    Store,
    Story,
)
from threadline.core.wire import Batch, Lost, Unsent
from threadline.flows.accounts import OpenAccount
from threadline.flows.hearing import Hearing
from threadline.flows.histories import Histories
from threadline.flows.registered import AccountKey, account_of

LOOK_SECONDS = 5.0
RENEW_SECONDS = 10.0
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
HOPELESS_PAUSE = 300.0
ACCOUNTS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConnected(Story[list[Account]]):
    """Every connected account of every scope, opened."""

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[Account]]:
        """By scope, provider and account."""
        found: list[Account] = []
        after = ("", "", "")
        while True:
            rows = loaded.page(Page(CONNECTED, (*after, ACCOUNTS)))
            found += [account_of(loaded, row) for row in rows]
            if len(rows) < ACCOUNTS:
                return Changes(), found
            after = (rows[-1].scope_id, rows[-1].provider, rows[-1].account_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHeard(Story[datetime | None]):
    """When something was last fetched for an account."""

    key: AccountKey

    def needs(self) -> Needs:
        """Its listener."""
        return Needs(rows=[(LISTENER, self.key)])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, datetime | None]:
        """None where nothing ever was."""
        row = loaded.get(LISTENER, self.key)
        return Changes(), None if row is None else row.heard_at


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeListener(Story[Listening | None]):
    """The lease of an account's listener, None while another node has it."""

    key: AccountKey
    owner: str

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, Listening | None]:
        """See `core.listening.taken`."""
        changes = Changes()
        row = listening.taken(_locked(loaded, self.key), self.owner, now)
        if row is not None:
            changes.put(LISTENER, self.key, row)
        return changes, row


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance(Story[None]):
    """The lease made longer, and with it what became known: the place, or a trouble."""

    key: AccountKey
    fence: int
    cursor: str | None = None
    heard: bool = False
    trouble: str | None = None

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """Raises `StaleToken` once another node has it."""
        changes = Changes()
        row = listening.held(_locked(loaded, self.key), self.fence, now)
        if self.cursor is not None:
            row = replace(row, cursor=self.cursor)
        if self.heard:
            row = replace(row, heard_at=now, trouble="", trouble_at=None)
        if self.trouble is not None and self.trouble != row.trouble:
            row = replace(row, trouble=self.trouble, trouble_at=now)
        changes.put(LISTENER, self.key, row)
        return changes, None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Story[None]):
    """The lease given back, if it is still this one."""

    key: AccountKey
    fence: int

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """Another node may take it at once."""
        changes = Changes()
        row = _locked(loaded, self.key)
        if row is not None and row.fence == self.fence:
            changes.put(LISTENER, self.key, replace(row, owner="", leased_until=None))
        return changes, None


def _locked(loaded: Loaded, key: AccountKey) -> Listening | None:
    try:
        return loaded.get(LISTENER, key)
    except Missing:
        raise Missing(Needs(hold=[(LISTENER, key)])) from None


class Listeners:
    """The worker that fetches the events of connected accounts."""

    def __init__(
        self,
        store: Store,
        hearing: Hearing,
        histories: Histories,
        channels: Channels | None,
        *,
        owner: str = "",
    ) -> None:
        self._store = store
        self._hearing = hearing
        self._histories = histories
        self._channels = channels
        # As with the outbox: the next life of a SQLite server takes back what the last one had.
        unique = f"node-{random.randbytes(8).hex()}"
        self._owner = owner or ("server" if vars(type(store)).get("kind") == "sqlite" else unique)
        self._tasks: dict[AccountKey, asyncio.Task[None]] = {}

    async def run(self, stopping: asyncio.Event, well: Callable[[], None] = lambda: None) -> None:
        """Listen until told to stop: every account that nobody else listens to.

        `well` is called after each look for them.
        """
        try:
            while not stopping.is_set():
                await self._look()
                well()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), LOOK_SECONDS)
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._tasks.clear()

    async def _look(self) -> None:
        """Begin with the accounts that nobody listens to."""
        if self._channels is None:
            return
        for key, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[key]
        for account in await self._store.read(ReadConnected()):
            key = (account.scope_id, account.provider, account.account_id)
            if key in self._tasks:
                continue
            try:
                dialect = self._channels.dialect(account)
            except ConfigError:
                continue  # Its extra is not installed here; `doctor` says so.
            spoken: object = dialect
            if dialect is not None and isinstance(spoken, Connectable) and spoken.listens():
                self._tasks[key] = asyncio.create_task(self._account(key, account, dialect))

    async def _account(self, key: AccountKey, account: Account, dialect: Adapter) -> None:
        """Listen to one account for as long as its lease is ours."""
        row = await self._store.run(TakeListener(key=key, owner=self._owner))
        if row is None:
            return
        try:
            # Not as it was when we looked: who connects it anew after this takes the lease away.
            account = await self._store.read(OpenAccount(key=key))
        except NotFound:
            await self._store.run(Release(key=key, fence=row.fence))
            return
        cursor, failures = row.cursor, 0
        renewing = asyncio.create_task(self._renew(key, row.fence, asyncio.current_task()))
        try:
            while True:
                pause, trouble = LONGEST_PAUSE, ""
                try:
                    async with contextlib.aclosing(self._batches(account, cursor)) as batches:
                        async for batch in batches:
                            await self._take(key, row.fence, account, dialect, batch)
                            cursor = batch.cursor if batch.cursor is not None else cursor
                            failures = 0
                    pause = FIRST_PAUSE
                except (Unsent, Lost) as error:
                    trouble = str(error)
                except StaleToken:
                    return
                except (Unauthenticated, InvalidInput, ConfigError) as error:
                    pause, trouble = HOPELESS_PAUSE, str(error)
                except ThreadlineError as error:
                    trouble = str(error)
                except Exception as error:
                    # Whatever it is: somebody who is told may help, one that ended hears nobody.
                    # Its words may hold a secret.
                    trouble = f"an error of this program, to be reported: {type(error).__name__}."
                failures += 1
                if trouble:
                    await self._told(key, row.fence, trouble)
                pause = pause if pause != LONGEST_PAUSE else _pause(failures)
                await asyncio.sleep(pause * random.uniform(0.8, 1.2))
        finally:
            renewing.cancel()
            with contextlib.suppress(ThreadlineError):
                await asyncio.shield(self._store.run(Release(key=key, fence=row.fence)))

    def _batches(self, account: Account, cursor: str | None) -> AsyncGenerator[Batch, None]:
        assert self._channels is not None
        wire = self._channels.transport(account.provider)
        if not isinstance(wire, Listener):
            raise ConfigError(f"nothing here fetches the events of {account.provider}.")
        return wire.listen(account, cursor)

    async def _take(
        self, key: AccountKey, fence: int, account: Account, dialect: Adapter, batch: Batch
    ) -> None:
        """Record, then move the cursor, then tell the provider: in that order, whatever happens."""
        if batch.gap:
            heard_at = await self._store.read(ReadHeard(key=key))
            await self._histories.repair(account, dialect, batch.rooms, heard_at=heard_at)
        await self._hearing.requests(account, dialect, batch.requests)
        if batch.cursor is not None and len(batch.cursor) > MAX_CURSOR:
            raise InvalidInput("the provider's cursor is longer than any.")
        await self._store.run(Advance(key=key, fence=fence, cursor=batch.cursor, heard=True))
        if batch.done is not None:
            await batch.done()

    async def _told(self, key: AccountKey, fence: int, trouble: str) -> None:
        with contextlib.suppress(ThreadlineError):
            await self._store.run(Advance(key=key, fence=fence, trouble=trouble[:500]))

    async def _renew(
        self, key: AccountKey, fence: int, listener: asyncio.Task[None] | None
    ) -> None:
        """Keep the lease while a poll is long; end the listener when another node has it."""
        last = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            now = asyncio.get_running_loop().time()
            try:
                await self._store.run(Advance(key=key, fence=fence))
                last = now
            except StaleToken:
                lost = True
            except ThreadlineError:
                lost = now - last > listening.LEASE.total_seconds()
            else:
                lost = False
            if lost and listener is not None:
                listener.cancel()
                return


def _pause(failures: int) -> float:
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 10)))
