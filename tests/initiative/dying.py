"""A process that writes first and dies at a step: `dying.py JSON`.

`step` is `after-opening`, when the platform has opened the conversation and not a word is written
down; `before-intent`; or `after-intent`, when it is written down and not answered. Without `to` it
does what is due. A death is `kill -9`, as a power cut is.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import datetime
from typing import Any

from tests.conftest import open_at
from tests.outbox.node import die
from threadline import Threadline
from threadline.app import Reach
from threadline.flows.sends import WriteSend
from threadline.testing.clock import StillClock


class Deadly:
    """A store that dies around the intent."""

    def __init__(self, below: Any, step: str) -> None:
        self._below = below
        self._step = step

    async def run(self, story: Any) -> Any:
        """Run one story."""
        if isinstance(story, WriteSend) and self._step == "before-intent":
            die()
        answer = await self._below.run(story)
        if isinstance(story, WriteSend) and self._step == "after-intent":
            die()
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)


class Wire:
    """A wire that dies with the opened conversation in its hands."""

    def __init__(self, below: Any) -> None:
        self._below = below

    async def perform(self, call: Any) -> Any:
        """See `core.wire.Transport`."""
        await self._below.perform(call)
        die()


class Channels:
    """The usual ones, with that wire where it is asked for."""

    def __init__(self, below: Any, step: str) -> None:
        self._below = below
        self._step = step

    def transport(self, provider: str) -> Any:
        """The wire."""
        below = self._below.transport(provider)
        return Wire(below) if self._step == "after-opening" else below

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)


async def main(asked: dict[str, Any]) -> None:
    """Begin, and never come to the end."""
    clock = StillClock(datetime.fromisoformat(asked["now"]))
    store: Any = await open_at(asked["store"], bytes.fromhex(asked["key"]), clock=clock)
    channels: Any = Channels(Reach(allow_private=True), asked["step"])
    deadly: Any = Deadly(store, asked["step"])
    line = Threadline(deadly, channels=channels)
    if "to" in asked:
        await line.initiative.send("agent", asked["to"], asked["text"], key=asked["text"])
    else:
        await line.initiative.round()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
