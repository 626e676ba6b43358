"""What comes over a stream: every record once, in order, as long as the token holds."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.http.conftest import Site, message, problem


async def say(client: httpx.AsyncClient, conversation: str, *texts: str) -> None:
    """Append messages, one after the other."""
    for text in texts:
        answer = await client.post(
            f"/v1/conversations/{conversation}/transcript", json=message(text)
        )
        assert answer.status_code == 200, answer.text


@pytest.mark.acceptance("C10", "C15")
async def test_a_session_gets_the_past_then_the_present_over_one_stream(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """`caught_up` stands between the two, and is said once."""
    await say(boss, lobby, "one", "two")
    await boss.put(f"/v1/conversations/{lobby}/members/coder", json={"policy": "all"})
    coder = await site.session("coder")

    async with site.stream(coder, "/v1/sessions/coder/stream") as events:
        past = [await events.next() for _ in range(3)]
        await say(boss, lobby, "three")
        live = await events.next()

    assert [event.name for event in past] == ["record", "record", "caught_up"]
    assert [event.id for event in (*past, live)] == [f"{lobby}:1", f"{lobby}:2", None, f"{lobby}:3"]
    assert (live.data["text"], live.data["conversation"]) == ("three", lobby)


@pytest.mark.acceptance("C15")
async def test_what_was_not_acknowledged_comes_again_on_the_next_stream(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """The cursor alone decides."""
    await boss.put(f"/v1/conversations/{lobby}/members/coder", json={"policy": "all"})
    await say(boss, lobby, "one", "two", "three")
    coder = await site.session("coder")
    async with site.stream(coder, "/v1/sessions/coder/stream") as events:
        assert await events.records(3) == ["one", "two", "three"]
    await coder.post(f"/v1/conversations/{lobby}/members/coder/ack", json={"sequence": 1})

    async with site.stream(
        coder, "/v1/sessions/coder/stream", headers={"Last-Event-ID": f"{lobby}:3"}
    ) as events:
        assert await events.records(2) == ["two", "three"]


async def test_an_operator_follows_a_conversation_from_where_the_page_was(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """`after`, then the last event's id; what lies over the head or elsewhere begins anew."""
    await say(boss, lobby, "one", "two")
    path = f"/v1/conversations/{lobby}/stream"

    async with site.stream(boss, path, params={"after": 0}) as events:
        assert await events.records(2) == ["one", "two"]
    async with site.stream(boss, path, headers={"Last-Event-ID": f"{lobby}:1"}) as events:
        assert await events.records(1) == ["two"]
    for last in (f"{lobby}:99", "other:1", "nonsense", f"{lobby}:{'9' * 40}"):
        async with site.stream(boss, path, headers={"Last-Event-ID": last}) as events:
            assert (await events.next()).name == "reset"
            assert (await events.next()).data == {"reason": "reset"}
            with pytest.raises(StopAsyncIteration):
                await events.next()


async def test_without_a_place_a_stream_begins_now(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """Nothing of the past."""
    await say(boss, lobby, "past")
    async with site.stream(boss, f"/v1/conversations/{lobby}/stream") as events:
        await say(boss, lobby, "present")
        assert await events.records(1) == ["present"]


async def test_a_revoked_token_ends_its_streams(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """The stream says why, and the token opens nothing more."""
    await boss.put(f"/v1/conversations/{lobby}/members/coder", json={"policy": "all"})
    made = (await boss.post("/v1/tokens", json={"kind": "session", "session_id": "coder"})).json()
    coder = site.client(made["token"])

    async with site.stream(coder, "/v1/sessions/coder/stream") as events:
        assert (await events.next()).name == "caught_up"
        assert (await boss.delete(f"/v1/tokens/{made['id']}")).status_code == 200
        ended = await events.next()

    assert (ended.name, ended.data) == ("end", {"reason": "revoked"})
    problem(await coder.get("/v1/sessions/coder/stream"), 401, "unauthenticated")


async def test_a_stopping_server_tells_its_streams(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """And ends them."""
    async with site.stream(boss, f"/v1/conversations/{lobby}/stream") as events:
        site.app.state.stopping.set()
        ended = await events.next()
        with pytest.raises(StopAsyncIteration):
            await events.next()

    assert (ended.name, ended.data) == ("end", {"reason": "stopping"})
    assert site.app.state.streams == 0


@pytest.mark.acceptance("C10")
async def test_the_inbox_answers_as_soon_as_something_is_said(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """Everything not acknowledged, over all conversations; an empty one waits."""
    await boss.put(f"/v1/conversations/{lobby}/members/coder", json={"policy": "all"})
    coder = await site.session("coder")
    path = "/v1/sessions/coder/inbox"
    assert (await coder.get(path)).json() == {"records": [], "gaps": [], "more": False}

    waiting = asyncio.create_task(coder.get(path, params={"wait": 60}))
    await say(boss, lobby, "one")
    [record] = (await waiting).json()["records"]
    again = (await coder.get(path, params={"wait": 60})).json()["records"]

    assert (record["text"], record["conversation"], record["sequence"]) == ("one", lobby, 1)
    assert [one["text"] for one in again] == ["one"]
    full = (await coder.get(path, params={"limit": 1})).json()
    assert full["more"] is True
    problem(await coder.get(path, params={"wait": 61}), 400, "invalid_input")


async def test_a_stream_of_somebody_else_is_refused_before_it_begins(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """Refused with a problem, not with an empty stream."""
    other = await site.session("other")
    await site.session("coder")
    problem(await other.get("/v1/sessions/coder/stream"), 403, "unauthorized")
    problem(await other.get(f"/v1/conversations/{lobby}/stream"), 403, "unauthorized")
    problem(await boss.get("/v1/conversations/nowhere/stream"), 404, "not_found")
