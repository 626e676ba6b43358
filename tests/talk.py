"""A person at a simulated platform, a server connected to it, and the agent who answers."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from tests.http.conftest import Site
from threadline import Threadline
from threadline.core.model import ConversationRef, TranscriptRecord
from threadline.testing.simulation import Simulation


@dataclass
class Talk(ABC):
    """What every such scene has: say where the person talks, and the rest is here."""

    line: Threadline
    site: Site
    platform: Simulation

    @property
    @abstractmethod
    def ref(self) -> ConversationRef:
        """Where the person talks."""

    async def arrives(self) -> None:
        """Nothing is on its way any more."""
        await asyncio.to_thread(self.platform.idle)

    async def answers(self, text: str, **more: Any) -> Any:
        """The agent says something; what became of it."""
        sent = await self.line.outbound.publish(self.ref, "agent", text, **more)
        return await self.line.outbound.settled(sent, patience=60)

    async def records(self) -> list[TranscriptRecord]:
        """The transcript."""
        return (await self.line.conversations.transcript(self.ref, limit=100)).records


async def connected(site: Site, provider: str, given: dict[str, str]) -> dict[str, Any]:
    """An account connected by the calls that `threadline connect` makes."""
    boss = await site.controller()
    body = {"provider": provider, "given": given, "public_url": site.url}
    made = await boss.post("/v1/accounts", json=body)
    assert made.status_code == 200, made.text
    found: dict[str, Any] = made.json()
    return found
