"""What the demo on a platform works with: two programs, the words that are said, and the waiting.

A server that is killed is started again where it was. Whatever the platform is asked takes as long
as it takes, in a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from threadline.core.errors import ThreadlineError
from threadline.entrypoints.cli.demo import Kept
from threadline.entrypoints.cli.demo_steps import Steps
from threadline.testing.scenes import Scene

# What is answered; everything else is not.
ANSWERS = {
    "@helper when do we open?": "At nine.",
    "@scribe write down that the oven is fixed.": "Noted: the oven is fixed.",
    "@helper and on Sundays?": "At ten on Sundays.",
    "@helper is there bread left?": "Two loaves.",
    "@scribe flour is low, write it down.": "Noted: flour is low.",
    "@helper keep one for me.": "One loaf is yours.",
}
PATIENCE = 60.0
PAUSE = 0.05


@dataclass(slots=True)
class Means(Steps):
    """A platform, a server of ours connected to it, and what is said on it."""

    name: str
    there: Scene
    home: Path
    url: str = ""
    account: str = ""
    # Where Ada and Ben talk: one room, or a chat of each.
    places: dict[str, str] = field(default_factory=dict)
    # The conversations' ids, by place.
    ids: dict[str, str] = field(default_factory=dict)
    people: list[tuple[str, str]] = field(default_factory=list)
    server: Kept | None = None
    boss: httpx.AsyncClient | None = None

    def ref(self, who: str) -> str:
        """Where somebody talks, as a command names it."""
        return "/".join(quote(one, safe=":@!+") for one in (self.name, self.account, self.at(who)))

    def at(self, who: str) -> str:
        """Where somebody talks."""
        return self.places[who]

    async def serve(self) -> None:
        """Start the server, or start it again where it was."""
        assert self.server is not None
        self.url = await self.server.started()

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask our server, as its administrator. Raises `ThreadlineError` where it refuses."""
        assert self.boss is not None
        answer = await self.boss.request(method, path, json=body)
        if not answer.is_success:
            raise ThreadlineError(
                f"{method} {path} was answered {answer.status_code}: {answer.text}"
            )
        return answer.json()

    async def order(self, order: Callable[..., Any], *facts: Any) -> Any:
        """Something that takes as long as the platform takes."""
        return await asyncio.to_thread(order, *facts)

    async def write(self, lines: Iterable[tuple[str, str]]) -> None:
        """Let people write."""
        for who, text in lines:
            self.people.append((who, text))
            await self.order(self.there.says, self.at(who), who, text)

    async def records(self, place: str = "") -> list[dict[str, Any]]:
        """The messages of a place, or of all."""
        found: list[dict[str, Any]] = []
        for one in [place] if place else list(self.ids):
            page = await self.ask("GET", f"/v1/conversations/{self.ids[one]}/transcript?limit=500")
            found += [record for record in page["records"] if record["event"] == "message"]
        return found

    async def are_whole(self) -> bool:
        """Whether everything said and every answer to it is there once, and where it belongs."""
        for place in self.ids:
            wanted = [text for who, text in self.people if self.places[who] == place]
            wanted += [ANSWERS[text] for text in wanted if text in ANSWERS]
            if Counter(one["text"] for one in await self.records(place)) != Counter(wanted):
                return False
        return True

    async def complete(self) -> None:
        """Wait until all that people wrote is heard, and every answer said or in doubt."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            heard = {one["text"] for one in await self.records()}
            deliveries = (await self.ask("GET", "/v1/deliveries?limit=500"))["deliveries"]
            over = [d for d in deliveries if d["state"] == "delivered" or d["parked"]]
            wanted = {text for _, text in self.people}
            answers = [ANSWERS[text] for text in wanted if text in ANSWERS]
            if wanted <= heard and len(over) >= len(answers):
                return
            await asyncio.sleep(PAUSE)
