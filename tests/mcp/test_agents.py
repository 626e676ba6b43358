"""An agent with the official client: it reads, waits and replies, and nothing else (L6)."""

from __future__ import annotations

import asyncio

import pytest

from tests.mcp.conftest import Town, Way, text_of, used


@pytest.mark.acceptance("L6")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_reads_waits_replies_and_acknowledges(
    town: Town, way: Way, mode: str
) -> None:
    """With the protocol of today, and with that of before."""
    town.say("Is the build green?")
    async with way(town.served, town.token(), mode=mode) as agent:
        [place] = (await used(agent, "list_conversations"))["conversations"]
        heard = await used(agent, "wait_for_messages")
        [asked] = heard["records"]
        said = await used(
            agent,
            "reply",
            conversation=asked["conversation"],
            text="It is.",
            key="answer 1",
            reply_to=asked["sequence"],
        )
        [through] = heard["acknowledge"]
        await used(agent, "ack", **through, key="ack 1")
        nothing = await used(agent, "wait_for_messages", seconds=0)
        thread = await used(agent, "read_thread", conversation=town.lobby)
        context = await agent.call_tool("get_context", {"conversation": town.lobby})

    assert (place["conversation"], place["unread"]) == (town.lobby, 1)
    assert (asked["text"], asked["who"], asked["answer"]) == ("Is the build green?", "person", True)
    assert (said["state"], said["sequence"], said["repeated"]) == ("delivered", 2, False)
    assert nothing["records"] == []
    assert [(one["text"], one["who"]) for one in thread["records"]] == [
        ("Is the build green?", "person"),
        ("It is.", "you"),
    ]
    assert "| It is." in text_of(context)
    assert town.said() == ["Is the build green?", "It is."]
    assert town.transcript()[1]["source_session_id"] == "coder"


@pytest.mark.acceptance("L6")
async def test_who_waits_is_answered_as_soon_as_something_is_said(town: Town, way: Way) -> None:
    async with way(town.served, town.token()) as agent:
        waiting = asyncio.create_task(used(agent, "wait_for_messages", seconds=60))
        # It answers only where the wait has begun to be served beside it.
        await used(agent, "list_conversations")
        await asyncio.to_thread(town.say, "Hello")
        heard = await waiting

    assert [one["text"] for one in heard["records"]] == ["Hello"]
