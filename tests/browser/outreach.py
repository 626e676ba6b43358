"""Sessions that write first to people on a simulated Telegram and in a room of ours."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from tests.browser import scene
from threadline.testing.simulation import Simulation

ACCOUNT = "telegram/7001"


@dataclass
class Outreach:
    """A server with a Telegram account that is granted to `atlas`, and people there."""

    boss: httpx.AsyncClient
    telegram: Simulation

    async def begin(self) -> None:
        """Connect the account and grant it."""
        given = {**self.telegram.credentials, "api": self.telegram.url}
        body = {"provider": "telegram", "given": given, "public_url": str(self.boss.base_url)}
        await scene.done(await self.boss.post("/v1/accounts", json=body))
        await self.grant("atlas", ACCOUNT)

    async def grant(self, session: str, account: str) -> None:
        """Let a session start conversations through an account."""
        await scene.done(await self.boss.put(f"/v1/sessions/{session}/accounts/{account}"))

    async def says(self, user: int, text: str, name: str = "") -> None:
        """Somebody writes to the bot; it is recorded when this is over."""
        tell = self.telegram.do
        await asyncio.to_thread(tell, "say", chat=user, text=text, user=user, name=name)
        await asyncio.to_thread(self.telegram.idle)

    async def meets(self, user: int, name: str, text: str = "hello") -> dict[str, Any]:
        """Somebody writes to the bot, and is a person from then on."""
        await self.says(user, text, name)
        by = {"by": f"telegram:{user}"}
        found: dict[str, Any] = await scene.done(await self.boss.get("/v1/people/find", params=by))
        return found

    async def send(self, to: str, text: str, session: str = "atlas", **more: Any) -> dict[str, Any]:
        """Write first."""
        body = {"session_id": session, "to": to, "text": text, **more}
        found: dict[str, Any] = await scene.done(await self.boss.post("/v1/send", json=body))
        return found


async def town(made: Outreach) -> dict[str, str]:
    """Everything that a page can show of it; the ids of what it is about."""
    boss = made.boss
    ann = await made.meets(4711, "Ann Example", "Hi, are you the release bot?")
    ben = await made.meets(4712, "Ben Beispiel", "hello")
    stopped = await made.meets(4713, "Zoë Stopp", "hello")
    await made.meets(4713, "Zoë Stopp", "stop")
    await scene.done(
        await boss.patch(
            f"/v1/people/{ann['id']}",
            json={
                "contacts": ["email:ann@example.org", "whatsapp:4915100000000"],
                "languages": ["de"],
            },
        )
    )
    await scene.done(
        await boss.post("/v1/people", json={"name": "Noor Quiet", "contacts": ["slack:U0NOOR"]})
    )
    lobby = await scene.ensure(boss, "lobby", "Lobby")
    on = {"conversation": lobby, "state": "on", "why": "The team asked for it."}
    await scene.done(await boss.put("/v1/consent", json=on))
    for session in ("atlas", "scribe"):
        await made.grant(session, "web/chat")
    await made.send(
        f"person:{ann['id']}", "The build of 2.4 is red since 09:12. Shall I roll it back?", wait=20
    )
    await made.meets(4711, "Ann Example", "Yes, do it.")
    await made.send("web/chat/lobby", "Deploy 41 is out.", intent="deploy 41")
    await made.send("web/chat/lobby", "Deploy 41 is out!", "scribe", intent="deploy 41")
    morning = datetime.now(UTC) + timedelta(hours=14)
    await made.send(
        f"person:{ben['id']}", "Good morning Ben, the report is ready.", at=morning.isoformat()
    )
    daily = {"at": "08:30", "zone": "Europe/Berlin"}
    await made.send("web/chat/lobby", "Stand-up in ten minutes.", repeat=daily)
    await boss.post(
        "/v1/send",
        json={"session_id": "atlas", "to": f"person:{stopped['id']}", "text": "One more thing"},
    )
    return {"ann": ann["id"], "ben": ben["id"], "zoe": stopped["id"], "lobby": lobby}
