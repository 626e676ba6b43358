"""A process that writes first, many times at once: `sender.py JSON`.

It says `ready`, begins at a line on standard input and ends with what became of each, as JSON. It
opens the `store` itself with a clock that stands at `now`, or calls the `server` that has it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import datetime
from typing import Any

import httpx

from threadline import Threadline
from threadline.core.errors import ThreadlineError
from threadline.stores.postgres import open_postgres
from threadline.testing.clock import StillClock


async def into_store(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Through a node of its own."""
    clock = StillClock(datetime.fromisoformat(asked["now"]))
    store = await open_postgres(asked["store"], bytes.fromhex(asked["key"]), clock=clock)
    line = Threadline(store, allow_private=True)

    async def one(send: dict[str, str]) -> dict[str, Any]:
        try:
            sent = await line.initiative.send(send["session"], send["to"], send["text"])
        except ThreadlineError as error:
            return {"code": error.code, **error.facts}
        return {"id": sent.id}

    await begun()
    found = list(await asyncio.gather(*(one(send) for send in asked["sends"])))
    await line.outbox.close()
    await store.close()
    return found


async def over_http(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Through the server, as any agent does."""
    bearer = {"Authorization": f"Bearer {asked['token']}"}
    async with httpx.AsyncClient(
        base_url=asked["server"], headers=bearer, timeout=60, verify=False
    ) as client:

        async def one(send: dict[str, str]) -> dict[str, Any]:
            body = {"session_id": send["session"], "to": send["to"], "text": send["text"]}
            answer = await client.post("/v1/send", json=body)
            found: dict[str, Any] = answer.json()
            facts: dict[str, Any] = found.get("facts", {})
            return found | facts

        await begun()
        return list(await asyncio.gather(*(one(send) for send in asked["sends"])))


async def begun() -> None:
    """Wait for the word to begin, so that both processes do at once."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    work = into_store if "store" in given else over_http
    print(json.dumps(asyncio.run(work(given))), flush=True)
