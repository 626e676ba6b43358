"""A connection that is lost takes nothing along, and what is asked again is done once (L6)."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import psutil
import pytest
from mcp.client import Client

from tests.http.conftest import SECONDS, Served
from tests.mcp.conftest import Town, Way, over_http, over_stdio, refused, used

WAIT = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "wait_for_messages", "arguments": {"seconds": 60}},
}
SPOKEN = {"Accept": "application/json, text/event-stream"}


async def streams(served: Served, count: int) -> None:
    """Wait until so many answers are open at the server."""
    with served.client() as client:
        while f"threadline_streams {count}.0" not in client.get("/metrics").text:
            await anyio.lowlevel.checkpoint()


async def texts(agent: Client) -> list[str]:
    """What is not acknowledged."""
    heard = await used(agent, "wait_for_messages", seconds=0)
    return [one["text"] for one in heard["records"]]


@pytest.mark.acceptance("L6")
async def test_a_process_killed_while_it_waits_loses_nothing_and_doubles_nothing(
    town: Town,
) -> None:
    """What was said meanwhile is there for the next one, once, until it is acknowledged."""
    token = town.token()
    town.say("one")
    async with over_stdio(town.served, token) as agent:
        [through] = (await used(agent, "wait_for_messages"))["acknowledge"]
        await used(agent, "ack", **through, key="a1")
        waiting = asyncio.create_task(agent.call_tool("wait_for_messages", {"seconds": 60}))
        await streams(town.served, 1)
        bridges = [one for one in psutil.Process().children() if "mcp" in one.cmdline()]
        for one in bridges:
            one.send_signal(signal.SIGKILL)
        with pytest.raises(Exception, match="closed"):
            await waiting
    await streams(town.served, 0)
    town.say("two", "three")

    async with over_stdio(town.served, token) as again:
        first, second = await texts(again), await texts(again)
        await used(again, "ack", conversation=town.lobby, sequence=2, key="a2")
        last = await texts(again)

    assert len(bridges) == 1
    assert first == second == ["two", "three"]
    assert last == ["three"]
    assert town.said() == ["one", "two", "three"]


@pytest.mark.acceptance("L6")
@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
async def test_a_request_dropped_while_it_waits_ends_at_the_server(
    town: Town, version: str
) -> None:
    """Nobody waits on, and the next one hears what was said."""
    token = town.token()
    about = {"io.modelcontextprotocol/protocolVersion": version}
    about |= {"io.modelcontextprotocol/clientCapabilities": {}}  # type: ignore[dict-item]
    asked: dict[str, Any] = {**WAIT, "params": {**WAIT["params"], "_meta": about}}  # type: ignore[dict-item]
    headers = {
        **SPOKEN,
        "Authorization": f"Bearer {token}",
        "MCP-Protocol-Version": version,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "wait_for_messages",
    }
    async with httpx.AsyncClient(base_url=town.served.url, headers=headers, verify=False) as raw:
        waiting = asyncio.create_task(raw.post("/mcp", json=asked, timeout=SECONDS))
        await streams(town.served, 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await streams(town.served, 0)
    town.say("hello")

    async with over_http(town.served, token) as agent:
        assert await texts(agent) == ["hello"]


@pytest.mark.acceptance("L6")
async def test_who_gives_up_waiting_may_go_on_with_the_same_connection(
    town: Town, way: Way
) -> None:
    async with way(town.served, town.token()) as agent:
        with anyio.move_on_after(60) as scope:
            async with anyio.create_task_group() as group:

                async def wait() -> None:
                    await agent.call_tool("wait_for_messages", {"seconds": 60})

                group.start_soon(wait)
                await streams(town.served, 1)
                group.cancel_scope.cancel()
        await streams(town.served, 0)
        await asyncio.to_thread(town.say, "hello")

        assert await texts(agent) == ["hello"]
        assert not scope.cancelled_caught


@pytest.mark.acceptance("L6")
async def test_a_server_started_anew_is_found_again(town: Town) -> None:
    """The process outlives it; a wait that was cut is waited again, a reply is said once."""
    async with over_stdio(town.served, town.token()) as agent:
        waiting = asyncio.create_task(used(agent, "wait_for_messages", seconds=60))
        await streams(town.served, 1)
        town.served.kill()
        replying = asyncio.create_task(
            used(agent, "reply", conversation=town.lobby, text="still here", key="k")
        )
        await asyncio.to_thread(town.served.start)
        said = await replying
        await asyncio.to_thread(town.say, "hello")
        heard = await waiting

    assert said["state"] == "delivered"
    assert [one["text"] for one in heard["records"]] == ["hello"]
    assert town.said() == ["still here", "hello"]


@pytest.mark.acceptance("L6")
async def test_the_same_key_is_one_message_whichever_way_it_comes(town: Town) -> None:
    """Other words under it are refused, and so is another place to read to."""
    town.say("one", "two")
    words = {"conversation": town.lobby, "text": "yes", "key": "k"}
    token = town.token()

    async with over_http(town.served, token) as near, over_stdio(town.served, token) as far:
        first = await used(near, "reply", **words)
        again = await used(far, "reply", **words)
        other = await refused(far, "reply", **{**words, "text": "no"})
        place = {"conversation": town.lobby, "key": "k"}
        read = [await used(one, "ack", **place, sequence=1) for one in (near, far)]
        further = await refused(near, "ack", **place, sequence=2)

    assert (first["repeated"], again["repeated"]) == (False, True)
    assert first["delivery"] == again["delivery"] == other["facts"]["delivery"]
    assert other["code"] == further["code"] == "idempotency_conflict"
    assert [one["read_to"] for one in read] == [1, 1]
    assert town.said() == ["one", "two", "yes"]


async def test_a_revoked_token_ends_what_waits_and_opens_nothing_more(town: Town, way: Way) -> None:
    """And hands on nothing that is said from then on."""
    token = town.token()
    async with way(town.served, token) as agent:
        waiting = asyncio.create_task(refused(agent, "wait_for_messages", seconds=60))
        await streams(town.served, 1)
        await asyncio.to_thread(town.revoke, token)
        ended = await waiting
        await asyncio.to_thread(town.say, "secret")
        with pytest.raises(Exception, match=r"unauthenticated|error response"):
            await agent.list_tools()

    assert ended["code"] == "unauthenticated"


async def test_a_stopping_server_lets_nobody_wait(town: Town) -> None:
    """It ends by itself, and who waited is told that there is nothing yet."""
    async with over_http(town.served, town.token()) as agent:
        # The client holds what it gets against the tool's schema, and asks for that only once.
        await agent.list_tools()
        waiting = asyncio.create_task(used(agent, "wait_for_messages", seconds=60))
        await streams(town.served, 1)
        code = await asyncio.to_thread(town.served.stop)
        heard = await waiting

    assert (code, heard["records"]) == (0, [])


async def test_a_member_no_more_hears_nothing_more(town: Town, way: Way) -> None:
    async with way(town.served, town.token()) as agent:
        waiting = asyncio.create_task(used(agent, "wait_for_messages", seconds=2))
        await streams(town.served, 1)
        path = f"/v1/conversations/{town.lobby}/members/coder"
        await asyncio.to_thread(town.boss, "DELETE", path, params={"evict": "true"})
        await asyncio.to_thread(town.say, "secret")

        assert (await waiting)["records"] == []
        assert (await refused(agent, "read_thread", conversation=town.lobby))["code"] in {
            "not_found",
            "membership_not_found",
        }


async def test_who_waits_long_is_told_that_we_are_still_there(town: Town, way: Way) -> None:
    heard: list[tuple[float, float | None]] = []
    told = asyncio.Event()

    async def report(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total))
        told.set()

    async with way(town.served, town.token()) as agent:
        waiting = asyncio.create_task(
            agent.call_tool("wait_for_messages", {"seconds": 60}, progress_callback=report)
        )
        await told.wait()
        await asyncio.to_thread(town.say, "hello")
        result = await waiting

    assert not result.is_error
    assert heard[0] == (5.0, 60.0)
