"""`kill -9` while Discord is listened to and spoken to: nothing is lost, nothing is said twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.discord.conftest import connected, ref
from tests.http.conftest import Served
from tests.talk import at_work, furnished, seen
from threadline.core.model import TranscriptRecord
from threadline.testing.simulation import Simulation


@pytest.mark.acceptance("B6", "G5", "G6")
async def test_a_killed_server_hears_what_it_missed_and_says_nothing_twice(
    tmp_path: Path, discord: Simulation, room: dict[str, Any]
) -> None:
    """It dies while Discord has taken its message and not answered; its next life resumes."""
    where = room["id"]
    served = Served(tmp_path, settings={"THREADLINE_ADAPTERS_ALLOW_PRIVATE": "true"})
    served.home.mkdir()
    url, key = f"sqlite:{served.home / 'threadline.db'}", bytes(range(32))
    (served.home / "threadline.db.key").write_text(key.hex() + "\n")
    async with connected(url, key, discord) as line:
        await furnished(line, ref(where))
        sent = await line.outbound.publish(ref(where), "agent", "Once.")
    discord.fault("slow", place=where)
    served.start()
    try:
        await asyncio.to_thread(discord.do, "attended")
        for number in range(20):
            discord.do("say", text=f"before {number}", channel=where)
        await asyncio.to_thread(discord.effects, "message", place=where, at_least=1)
    finally:
        served.kill()
    discord.release()
    for number in range(20):
        discord.do("say", text=f"after {number}", channel=where)

    def complete(found: list[TranscriptRecord]) -> bool:
        return len(found) >= 41

    async with connected(url, key, discord) as line, at_work(line):
        found = await seen(line, ref(where), complete)
        delivery = await line.deliveries.show(sent.id)

    said = [f"{when} {number}" for when in ("before", "after") for number in range(20)]
    assert [it.text for it in found if it.source_session_id is None] == said
    [mine] = [it for it in found if it.source_session_id == "agent"]
    [effect] = discord.effects("message", place=where)
    assert (mine.text, mine.message_id) == ("Once.", effect["id"])
    assert delivery.message_ids == (effect["id"],)
    assert [it.sequence for it in found] == list(range(1, 42))
