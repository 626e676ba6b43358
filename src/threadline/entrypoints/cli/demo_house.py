"""Where a demo shows hours in seconds: a server in this process, on a clock that stands still.

What people write still comes over the platform's own protocol, and what sessions do over HTTP; only
the time is ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from threadline import Threadline
from threadline.core.errors import ThreadlineError
from threadline.core.model import Controller, Direction, TranscriptRecord
from threadline.testing.clock import StillClock

T = TypeVar("T")
HUMAN = Controller(human=True)
PATIENCE = 60.0
ALL = 500


class Somebody(Protocol):
    """A person whom an agent writes to."""

    name: str
    # How they are named by who writes to them, and through which account.
    to: str
    account: tuple[str, str]
    # Who counts what they see.
    judge: str

    async def says(self, text: str) -> None:
        """They write."""

    async def said(self) -> list[str]:
        """What they see of us, by the platform's own count."""

    async def move(self, **by: float) -> None:
        """Let the platform's own clock go on, where it has one that can be moved."""


@dataclass(slots=True)
class House:
    """A server on a clock of its own, and the ledger behind it."""

    line: Threadline
    url: str
    clock: StillClock

    @property
    def time(self) -> str:
        """What the clock shows."""
        return f"{self.clock():%H:%M}"

    async def pass_hours(self, hours: float, *people: Somebody) -> None:
        """Let hours pass, here and where people are, and do what is due then."""
        self.clock.move(hours=hours)
        for one in people:
            await one.move(hours=hours)
        await self.line.initiative.round()

    async def token(self, session: str, *scopes: str) -> str:
        """A session's token. The session is there afterwards."""
        made = await self.line.tokens.create(
            "session", session=session, scopes=scopes, caller=Controller(None)
        )
        return made.token or ""

    async def records(self, place: str) -> list[TranscriptRecord]:
        """A short transcript, empty where there is none."""
        try:
            return (await self.line.conversations.transcript(place, limit=ALL)).records
        except ThreadlineError:
            return []

    async def until(self, look: Callable[[], Awaitable[T | None]]) -> T:
        """What is found, as soon as it is: every commit rings. Raises `ThreadlineError`."""
        bell = self.line.store.bell(everything=True)
        try:
            async with asyncio.timeout(PATIENCE):
                while (found := await look()) is None:
                    await bell.wait(1.0)
                return found
        except TimeoutError:
            raise ThreadlineError(f"nothing came within {PATIENCE:g} seconds.") from None
        finally:
            bell.close()

    async def recorded(self, who: Somebody, text: str) -> TranscriptRecord:
        """What somebody wrote, once it is in the ledger, in whichever conversation that is."""

        async def look() -> TranscriptRecord | None:
            _, found = await self._looked_for(who, text)
            return found

        return await self.until(look)

    async def place(self, who: Somebody, text: str) -> str:
        """The id of the conversation somebody wrote this in, empty where there is none."""
        place, _ = await self._looked_for(who, text)
        return place

    async def _looked_for(self, who: Somebody, text: str) -> tuple[str, TranscriptRecord | None]:
        after: str | None = ""
        while after is not None:
            states, after = await self.line.conversations.page(after=after, limit=ALL)
            for state in states:
                if (state.ref.provider, state.ref.account_id) != who.account:
                    continue
                for record in reversed(await self.records(state.id)):
                    if record.text == text and record.direction is Direction.INBOUND:
                        return state.id, record
        return "", None


@asynccontextmanager
async def at_home(store: str, port: int = 0, *, behind: float = 0.0) -> AsyncIterator[House]:
    """A server on this store, until it is left, whose clock is so many hours behind. Raises what
    opening the store does."""
    from threadline.entrypoints.http.server import ServerSettings, listening, served

    clock = StillClock(datetime.now(UTC) + timedelta(seconds=1, hours=-behind))
    where = ServerSettings(port=port)
    async with Threadline.open(store, clock=clock, allow_private=True) as line:
        with listening(where) as sock:
            where = replace(where, port=sock.getsockname()[1])
            started, asked = asyncio.Event(), asyncio.Event()
            serving = asyncio.create_task(served(line, where, sock, started.set, asked))
            try:
                waiting = asyncio.create_task(started.wait())
                await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if serving.done():
                    serving.result()
                yield House(line, where.url, clock)
            finally:
                asked.set()
                await serving
