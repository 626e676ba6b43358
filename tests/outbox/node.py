"""One node as a process that dies where it is told to: `node.py URL KEYFILE STEP`.

STEP is `before-mark`, `after-mark`, `after-answer`, `after-settle` or `never`. It begins at a line
on standard input, works until every delivery is settled or parked, then exits 0. A death is
`kill -9`, as a power cut is.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import timedelta
from typing import Any

from threadline import Threadline
from threadline.core.rules.pacing import Pace
from threadline.core.wire import ApiCall, ApiResponse
from threadline.flows.outbox import Begin, Settle

PACE = Pace(lease=timedelta(seconds=3))


def die() -> None:
    """As a power cut: nothing is tidied up."""
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly:
    """A wire that dies before a byte leaves, or with the answer in its hands."""

    def __init__(self, below: Any, step: str) -> None:
        self._below = below
        self._step = step

    async def perform(self, call: ApiCall) -> ApiResponse:
        """See `core.wire.Transport`."""
        if self._step == "after-mark":
            die()
        answer: ApiResponse = await self._below.perform(call)
        if self._step == "after-answer":
            die()
        return answer


class Channels:
    """The usual ones, with that wire."""

    def __init__(self, below: Any, step: str) -> None:
        self._below = below
        self._step = step

    def dialect(self, account: Any) -> Any:
        """As usual."""
        return self._below.dialect(account)

    def connectable(self, provider: str) -> Any:
        """As usual."""
        return self._below.connectable(provider)

    def transport(self, provider: str) -> Deadly:
        """The deadly one."""
        return Deadly(self._below.transport(provider), self._step)

    def files(self, seconds: float) -> Any:
        """As usual."""
        return self._below.files(seconds)

    async def close(self) -> None:
        """As usual."""
        await self._below.close()


class Store:
    """The store, with a death around the stories of an attempt."""

    def __init__(self, below: Any, step: str) -> None:
        self._below = below
        self._step = step
        self.kind = below.kind

    async def run(self, story: Any) -> Any:
        """Run it, or die before or after it."""
        if isinstance(story, Begin) and self._step == "before-mark":
            die()
        answer = await self._below.run(story)
        if isinstance(story, Settle) and self._step == "after-settle":
            die()
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)


async def under_way(line: Threadline) -> bool:
    """Whether anything is still to be done without a person."""
    for state in ("pending", "sending", "uncertain"):
        for one in (await line.deliveries.page(state=state, limit=500)).deliveries:
            if not one.parked:
                return True
    return False


async def main(url: str, key_file: str, step: str) -> None:
    """Work until nothing is under way."""
    async with Threadline.open(url, key_file=key_file, indexing=False, allow_private=True) as tl:
        store: Any = Store(tl.store, step)
        line = Threadline(
            store, channels=Channels(tl.outbox.channels, step), node="node", pace=PACE
        )
        sys.stdin.readline()
        stopping = asyncio.Event()
        working = asyncio.create_task(line.outbox.run(stopping))
        bell = line.store.bell(everything=True)
        while await under_way(line):
            await bell.wait(1.0)
        bell.close()
        stopping.set()
        await working


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
