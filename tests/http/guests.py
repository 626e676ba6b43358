"""What several tests do with rooms and their guests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from tests.http.conftest import Site


@dataclass
class Person:
    """A guest's browser: its cookies, and what the page repeats."""

    client: httpx.AsyncClient
    me: dict[str, Any]

    async def say(self, text: str, client_id: str = "1", **more: Any) -> httpx.Response:
        """Say something as the page does."""
        body = {"text": text, "client_id": client_id, **more}
        which = {"guest": self.me["guest"]}
        return await self.client.post("/chat/messages", json=body, params=which)

    @property
    def cookie(self) -> str:
        """The name of its cookie."""
        return f"threadline_guest_{self.me['guest']}"

    async def texts(self, **query: Any) -> list[str]:
        """What it may read."""
        answer = await self.client.get("/chat/messages", params=query)
        assert answer.status_code == 200, answer.text
        return [one["text"] for one in answer.json()["records"]]


async def link(boss: httpx.AsyncClient, room: str, **body: Any) -> dict[str, Any]:
    """A new link into a room."""
    made = await boss.post(f"/v1/conversations/{room}/links", json=body)
    assert made.status_code == 200, made.text
    found: dict[str, Any] = made.json()
    return found


async def came_in(site: Site, path: str, name: str) -> Person:
    """Somebody who opened a link and gave a name."""
    client = site.client()
    answer = await client.post(path, json={"name": name})
    assert answer.status_code == 200, answer.text
    client.headers["X-CSRF-Token"] = answer.json()["csrf"]
    return Person(client, answer.json())
