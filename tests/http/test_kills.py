"""`threadline serve` killed under load: what was acknowledged is there once, streams go on."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.http.conftest import LOBBY, Events, Served, message

ROOMS = 2
WRITERS = 8
STREAMS = 50
EACH = 25
KILLS = 3
GIVE_UP = 90.0


@dataclass
class World:
    """A server, who writes and who reads, and what was acknowledged."""

    served: Served
    rooms: list[str] = field(default_factory=list)
    acknowledged: Counter[str] = field(default_factory=Counter)
    up: asyncio.Event = field(default_factory=asyncio.Event)
    progress: asyncio.Condition = field(default_factory=asyncio.Condition)

    def client(self, token: str | None = None) -> httpx.AsyncClient:
        """A client of the server that runs now."""
        bearer = {"Authorization": f"Bearer {token or self.served.token}"}
        return httpx.AsyncClient(base_url=self.served.url, headers=bearer, timeout=30)

    async def insist(self, path: str, body: dict[str, Any], **headers: str) -> Any:
        """Send it until it is acknowledged, however often the server dies meanwhile."""
        while True:
            await self.up.wait()
            try:
                async with self.client() as client:
                    answer = await client.post(path, json=body, headers=headers)
            except httpx.HTTPError:
                await asyncio.sleep(0)
                continue
            if answer.status_code == 503:
                continue
            assert answer.status_code in (200, 202), answer.text
            async with self.progress:
                self.acknowledged[body["text"]] += 1
                self.progress.notify_all()
            return answer.json()

    async def until(self, count: int) -> None:
        """Wait until so much is acknowledged."""
        async with self.progress:
            await self.progress.wait_for(lambda: self.acknowledged.total() >= count)


async def write(world: World, writer: int) -> None:
    """Every second thing said is a session's, under a key; the other ones have message ids."""
    for number in range(EACH):
        room = world.rooms[number % ROOMS]
        text = f"{writer}.{number}"
        if writer % 2:
            body = {"session_id": "coder", "text": text}
            key = {"Idempotency-Key": text}
            await world.insist(f"/v1/conversations/{room}/messages", body, **key)
        else:
            said = message(text, message_id=text)
            await world.insist(f"/v1/conversations/{room}/transcript", said)


async def follow(world: World, room: str, head: int) -> list[tuple[int, str]]:
    """A conversation's stream from its beginning to this sequence, over every restart."""
    seen: list[tuple[int, str]] = []
    while not seen or seen[-1][0] < head:
        await world.up.wait()
        last = {"Last-Event-ID": f"{room}:{seen[-1][0]}"} if seen else {}
        try:
            async with (
                world.client() as client,
                client.stream(
                    "GET", f"/v1/conversations/{room}/stream", params={"after": 0}, headers=last
                ) as response,
            ):
                events = Events(response)
                while not seen or seen[-1][0] < head:
                    event = await events.next()
                    if event.name != "record":
                        break
                    seen.append((event.data["sequence"], event.data["text"]))
        except (httpx.HTTPError, StopAsyncIteration):
            await asyncio.sleep(0)
    return seen


@pytest.mark.acceptance("B6", "C10", "G3")
async def test_nothing_acknowledged_is_lost_or_doubled_when_the_server_is_killed_under_load(
    served: Served,
) -> None:
    """Three kills, eight writers, fifty streams that go on where they were."""
    world = World(served)
    async with world.client() as client:
        for number in range(ROOMS):
            body = LOBBY | {"conversation_id": f"c{number}"}
            made = (await client.post("/v1/conversations", json=body)).json()["id"]
            await client.put(f"/v1/conversations/{made}/binding", json={"session_id": "coder"})
            world.rooms.append(made)
    world.up.set()
    whole = WRITERS * EACH
    heads = {room: WRITERS * len(range(at, EACH, ROOMS)) for at, room in enumerate(world.rooms)}
    streams = [
        asyncio.create_task(follow(world, world.rooms[n % ROOMS], heads[world.rooms[n % ROOMS]]))
        for n in range(STREAMS)
    ]
    writers = [asyncio.create_task(write(world, number)) for number in range(WRITERS)]

    for kill in range(KILLS):
        await asyncio.wait_for(world.until(whole * (kill + 1) // (KILLS + 1)), GIVE_UP)
        world.up.clear()
        await asyncio.to_thread(served.kill)
        await asyncio.to_thread(served.start)
        world.up.set()
    await asyncio.wait_for(asyncio.gather(*writers), GIVE_UP)
    seen = await asyncio.wait_for(asyncio.gather(*streams), GIVE_UP)

    assert sorted(world.acknowledged) == sorted(
        f"{w}.{n}" for w in range(WRITERS) for n in range(EACH)
    )
    async with world.client() as client:
        for at, room in enumerate(world.rooms):
            page = await client.get(f"/v1/conversations/{room}/transcript?after=0&limit=500")
            kept = [(one["sequence"], one["text"]) for one in page.json()["records"]]
            assert [sequence for sequence, _ in kept] == list(range(1, heads[room] + 1))
            assert len({text for _, text in kept}) == len(kept)
            for found in seen[at::ROOMS]:
                assert found == kept


@pytest.mark.case("B125")
def test_what_was_answered_is_there_when_the_server_is_killed_at_that_moment(
    served: Served,
) -> None:
    """B125: four times over; the answer comes after the commit, never before."""
    with served.client() as boss:
        token = {"kind": "adapter", "provider": "chat", "account_id": "A1"}
        adapter = boss.post("/v1/tokens", json=token).json()["token"]
    for number in range(4):
        with served.client(adapter) as heard:
            body = {
                "conversation": {"conversation_id": "C1", "kind": "room"},
                "text": f"text {number}",
                "message_id": f"m{number}",
                "actor": {"id": "ada"},
            }
            answer = heard.post("/v1/inbound", json=body)
            served.kill()
        assert answer.status_code == 200, answer.text
        served.start()

    with served.client() as boss:
        found = boss.get("/v1/conversations", params={"ref": "chat/A1/C1"}).json()["conversations"]
        page = boss.get(f"/v1/conversations/{found[0]['id']}/transcript").json()

    assert [one["message_id"] for one in page["records"]] == [f"m{n}" for n in range(4)]
