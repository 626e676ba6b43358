"""What a session has not acknowledged, as one answer: all of it, or the first that comes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

from threadline.flows.replay import CaughtUp, Gap, Handed

# What comes together is answered together.
GATHER_SECONDS = 0.02


class Inbox:
    """Records for one answer, at most `size`."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.records: list[Handed] = []
        self.gaps: list[Gap] = []

    @property
    def full(self) -> bool:
        """Whether there may be more."""
        return len(self.records) >= self._size

    def _take(self, item: Handed | CaughtUp | Gap) -> None:
        if isinstance(item, Handed):
            self.records.append(item)
        elif isinstance(item, Gap):
            self.gaps.append(item)

    async def fill(self, source: AsyncIterator[Handed | CaughtUp | Gap]) -> None:
        """Take until the source ends or the answer is full."""
        async with contextlib.aclosing(source) as items:  # type: ignore[type-var]
            async for item in items:
                self._take(item)
                if self.full:
                    return

    async def wait(
        self,
        source: AsyncIterator[Handed | CaughtUp | Gap],
        seconds: float,
        ends: Iterable[asyncio.Event],
    ) -> None:
        """Take the first that comes, and what comes with it; nothing once one of `ends` is set."""
        until = asyncio.get_running_loop().time() + seconds
        ended = [asyncio.create_task(one.wait()) for one in ends]
        coming: asyncio.Task[Any] = asyncio.ensure_future(anext(source))
        try:
            while not self.full:
                left = until - asyncio.get_running_loop().time()
                if self.records:
                    left = min(left, GATHER_SECONDS)
                done, _ = await asyncio.wait(
                    {coming, *ended}, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED
                )
                if coming not in done or any(task.done() for task in ended):
                    return
                self._take(coming.result())
                coming = asyncio.ensure_future(anext(source))
        finally:
            for task in (coming, *ended):
                task.cancel()
            await asyncio.gather(coming, *ended, return_exceptions=True)
            await _closed(source)


async def _closed(source: Any) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()
