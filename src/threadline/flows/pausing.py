"""Waiting for whichever comes first: a bell, the end of the process, or time."""

from __future__ import annotations

import asyncio
from typing import Any


async def pause(bell: Any, stopping: asyncio.Event, seconds: float) -> None:
    """Until something rings, the process stops, or time passed."""
    if seconds <= 0:
        return
    waits = [
        asyncio.ensure_future(bell.wait(seconds)),
        asyncio.ensure_future(stopping.wait()),
    ]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
