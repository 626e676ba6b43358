"""Adapters and deliveries over HTTP: who registers, what is proven, what a person may do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.conftest import Store
from tests.http.conftest import Site, problem, site
from tests.outbox.conftest import SECRET, Platform, platform
from threadline import Threadline
from threadline.core.errors import CallbackFailed

__all__ = ["platform", "site"]
ROOM = {"provider": "chat", "account_id": "A1", "conversation_id": "room", "kind": "room"}


@pytest.fixture
async def tl(store: Store) -> AsyncIterator[Threadline]:
    """Callbacks may be on this machine."""
    line = Threadline(store, allow_private=True)
    yield line
    await line.outbox.close()


def registration(platform: Platform, **more: Any) -> dict[str, Any]:
    """The body that registers the platform's adapter."""
    return {"callback": platform.url, "secret": SECRET, **more}


@pytest.fixture
async def adapter(site: Site, platform: Platform) -> httpx.AsyncClient:
    """The account's own token, registered."""
    client = await site.adapter("chat", "A1")
    answer = await client.post("/v1/adapters", json=registration(platform))
    assert answer.status_code == 200, answer.text
    return client


@pytest.fixture
async def boss(site: Site) -> httpx.AsyncClient:
    """A controller of the default scope."""
    return await site.controller()


@pytest.fixture
async def room(boss: httpx.AsyncClient, adapter: httpx.AsyncClient) -> str:
    """A room on the platform that `agent` speaks in."""
    made = (await boss.post("/v1/conversations", json=ROOM)).json()["id"]
    await boss.put(f"/v1/conversations/{made}/binding", json={"session_id": "agent"})
    found: str = made
    return found


async def test_how_long_words_may_live_is_told_over_http(
    boss: httpx.AsyncClient, room: str, platform: Platform
) -> None:
    path = f"/v1/conversations/{room}/messages"
    words = {"session_id": "agent", "text": "Not for long."}
    platform.fault("refuse", answer={"refused": "transient"}, times=100)
    sent = (await boss.post(path, json={**words, "time_to_live": 90})).json()
    lives = datetime.fromisoformat(sent["expires_at"]) - datetime.fromisoformat(sent["created_at"])
    wrong = [
        await boss.post(path, json={**words, "time_to_live": given}) for given in (0, -1, 1e300)
    ]

    assert lives == timedelta(seconds=90)
    assert [(one.status_code, one.json()["code"]) for one in wrong] == [(400, "invalid_input")] * 3


@pytest.mark.acceptance("H1", "G1", "G6")
async def test_what_is_published_over_http_is_said_recorded_and_answered(
    site: Site, boss: httpx.AsyncClient, adapter: httpx.AsyncClient, room: str, platform: Platform
) -> None:
    """The whole way: publish and wait, the platform's echo, a person's reply to it."""
    words = {"session_id": "agent", "text": "Hello there", "wait": 30}
    sent = await boss.post(f"/v1/conversations/{room}/messages", json=words)
    place = {"conversation_id": "room"}
    bot = {"id": "A1", "is_self": True, "is_bot": True}
    echoed = {
        "conversation": place,
        "text": "Hello there",
        "actor": bot,
        "direction": "outbound",
        "message_id": "m1",
        "token": sent.json()["id"] + ".1",
    }
    echo = await adapter.post("/v1/inbound", json=echoed)
    reply = {
        "conversation": place,
        "text": "Hi",
        "actor": {"id": "ada"},
        "message_id": "p1",
        "reply_to": "m1",
    }
    answered = await adapter.post("/v1/inbound", json=reply)

    assert sent.status_code == 200, sent.text
    assert (sent.json()["state"], sent.json()["message_ids"]) == ("delivered", ["m1"])
    assert echo.json()["duplicate"]
    assert answered.json()["target_session_id"] == "agent"
    page = (await boss.get(f"/v1/conversations/{room}/transcript")).json()["records"]
    assert [(one["sequence"], one["text"]) for one in page] == [(1, "Hello there"), (2, "Hi")]
    steps = (await boss.get(f"/v1/deliveries/{sent.json()['id']}/steps")).json()["steps"]
    assert [one["state"] for one in steps] == ["pending", "sending", "delivered"]


async def test_a_person_settles_what_is_in_doubt(
    boss: httpx.AsyncClient, room: str, platform: Platform, site: Site
) -> None:
    """Listed, confirmed; a session may not, and each action has its states."""
    platform.fault("drop")
    words = {"session_id": "agent", "text": "Lost?"}
    sent = (await boss.post(f"/v1/conversations/{room}/messages", json=words)).json()["id"]
    path = f"/v1/deliveries/{sent}"
    for _ in range(200):
        found = (await boss.get(path)).json()
        if found["state"] == "uncertain":
            break
        await asyncio.to_thread(platform.entries, "call")
    agent = await site.session("agent")

    problem(await agent.post(f"{path}/confirm", json={}), 403, "unauthorized")
    problem(await boss.post(f"{path}/cancel"), 409, "delivery_conflict")
    problem(await boss.post("/v1/deliveries/nothing/drop"), 404, "not_found")
    listed = (await boss.get("/v1/deliveries", params={"state": "uncertain"})).json()
    confirmed = await boss.post(f"{path}/confirm", json={"message_id": "m1"})

    assert [one["id"] for one in listed["deliveries"]] == [sent]
    assert confirmed.json()["state"] == "delivered"
    assert confirmed.json()["sequence"] == 1
    problem(await boss.post(f"{path}/resend"), 409, "delivery_conflict")


async def test_an_account_belongs_to_the_token_that_registered_it(
    site: Site, boss: httpx.AsyncClient, adapter: httpx.AsyncClient, platform: Platform
) -> None:
    """`account_taken` for any other, until it is removed or that token ends."""
    body = registration(platform, provider="chat", account_id="A1")
    tokens = (await boss.get("/v1/tokens")).json()["tokens"]
    [first] = [one for one in tokens if one["kind"] == "adapter"]
    other = await site.adapter("chat", "A1")

    problem(await other.post("/v1/adapters", json=body), 409, "account_taken")
    problem(await boss.post("/v1/adapters", json=body), 409, "account_taken")
    problem(await other.delete("/v1/adapters/chat/A1"), 409, "account_taken")
    again = await adapter.post("/v1/adapters", json={"callback": platform.url + "/"})
    shown = await adapter.get("/v1/adapters/chat/A1")
    [listed] = (await boss.get("/v1/adapters")).json()["adapters"]
    await boss.delete(f"/v1/tokens/{first['id']}")
    taken = await other.post("/v1/adapters", json=body)

    assert again.json()["secret"] is None, "it keeps the one it has"
    assert shown.json() == listed
    assert (listed["callback"], listed["secret"]) == (platform.url, None)
    assert taken.status_code == 200
    assert (await boss.delete("/v1/adapters/chat/A1")).status_code == 200
    problem(await boss.get("/v1/adapters/chat/A1"), 404, "not_found")


async def test_an_adapter_registers_only_its_own_account(
    site: Site, platform: Platform, boss: httpx.AsyncClient
) -> None:
    """By token, and never one of threadline's own."""
    stranger = await site.adapter("chat", "B9")
    session = await site.session("agent")
    body = registration(platform, provider="chat", account_id="A1")

    problem(await stranger.post("/v1/adapters", json=body), 403, "unauthorized")
    problem(await stranger.get("/v1/adapters/chat/A1"), 403, "unauthorized")
    problem(await session.post("/v1/adapters", json=body), 403, "unauthorized")
    own = registration(platform, provider="web", account_id="office")
    problem(await boss.post("/v1/adapters", json=own), 409, "account_taken")
    assert (await stranger.get("/v1/adapters")).json() == {"adapters": [], "next": None}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"callback": "ftp://example.org"}, "invalid_input"),
        ({"callback": "http://user:pass@example.org"}, "invalid_input"),
        ({"callback": "http://example.org/?a=1"}, "invalid_input"),
        ({"callback": "http://[::1"}, "invalid_input"),
        ({"secret": "whsec_short"}, "invalid_input"),
        ({"secret": "0123456789abcdef0123456789abcdef"}, "invalid_input"),
        ({"capabilities": {"max_length": 10}}, "invalid_input"),
        ({"capabilities": {"unit": "inches"}}, "invalid_input"),
        ({"capabilities": {"flying": True}}, "invalid_input"),
        ({"capabilities": {"settle_within": -1}}, "invalid_input"),
        ({"capabilities": {"actor": {"name": "x"}}}, "invalid_input"),
        ({"callback": "http://127.0.0.1:9"}, "callback_failed"),
        # Its signature is not the one this platform knows, so it does not answer the challenge.
        ({"secret": "whsec_" + "QUJDRA" * 8}, "callback_failed"),
    ],
    ids=lambda given: str(given)[:40],
)
async def test_a_registration_that_is_not_right_leaves_nothing(
    site: Site, platform: Platform, boss: httpx.AsyncClient, body: dict[str, Any], code: str
) -> None:
    """Named, typed, and nothing half-written."""
    adapter = await site.adapter("chat", "A1")

    answer = await adapter.post("/v1/adapters", json={**registration(platform), **body})

    problem(answer, 422 if code == "callback_failed" else 400, code)
    assert "pass" not in answer.text.replace("password", "")
    assert (await boss.get("/v1/adapters")).json()["adapters"] == []


async def test_a_callback_in_a_private_network_is_refused_where_it_is_connected_to(
    store: Store, platform: Platform
) -> None:
    """The name is resolved, judged, and never connected to, unless the setting allows it."""
    line = Threadline(store)

    for host in ("127.0.0.1", "localhost", "[::1]", "0x7f000001", "2130706433"):
        port = platform.url.rpartition(":")[2]
        with pytest.raises(CallbackFailed):
            await line.adapters.register("chat", "A1", f"http://{host}:{port}", secret=SECRET)

    assert platform.entries("challenge") == platform.entries("forged") == []
    await line.outbox.close()


async def test_a_child_conversation_is_opened_by_the_adapter_that_can(
    site: Site, boss: httpx.AsyncClient, platform: Platform
) -> None:
    """It is a conversation of its own afterwards, below the one it was opened in."""
    adapter = await site.adapter("chat", "A1")
    plain = registration(platform)
    await adapter.post("/v1/adapters", json=plain)
    room = (await boss.post("/v1/conversations", json=ROOM)).json()["id"]
    path = f"/v1/conversations/{room}/children"
    problem(await boss.post(path, json={"title": "Later"}), 409, "no_adapter")
    able = {**plain, "capabilities": {"child_conversations": True}}
    await adapter.post("/v1/adapters", json=able)

    made = await boss.post(
        path, json={"reply_to": "q1", "title": "Later"}, headers={"Idempotency-Key": "c1"}
    )

    assert made.status_code == 200, made.text
    assert made.json()["text"] == "chat/A1/room/t1"
    assert (made.json()["ref"]["kind"], made.json()["title"]) == ("thread", "Later")
    [call] = platform.entries("child")
    assert (call["key"], call["root"]) == ("child.c1", "q1")
    shown = await boss.get(f"/v1/conversations/{made.json()['id']}")
    assert shown.status_code == 200
