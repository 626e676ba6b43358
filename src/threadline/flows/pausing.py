"""Waiting for whichever comes first, and for what is under way when the process ends."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

GRACE_SECONDS = 6.0


async def pause(
    bell: Any, stopping: asyncio.Event, seconds: float, freed: asyncio.Event | None = None
) -> None:
    """Until something rings, the process stops, hands were freed (told once), or time passed."""
    if seconds <= 0:
        return
    waits = [asyncio.ensure_future(bell.wait(seconds)), asyncio.ensure_future(stopping.wait())]
    if freed is not None:
        waits.append(asyncio.ensure_future(freed.wait()))
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if freed is not None:
            freed.clear()
        for one in waits:
            one.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def finish(tasks: Collection[asyncio.Task[None]]) -> None:
    """Let what is under way end; what takes longer than the grace is cut off."""
    tasks = list(tasks)
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=GRACE_SECONDS)
    for task in late:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
