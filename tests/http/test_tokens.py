"""Tokens over HTTP: shown once, good for what they say, ended at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest

from tests.http.conftest import Site, problem
from threadline.entrypoints.http import answers
from threadline.testing.clock import StillClock

PATH = "/v1/tokens"


async def test_a_secret_is_in_the_answer_that_made_it_and_nowhere_else(
    boss: httpx.AsyncClient,
) -> None:
    made = await boss.post(PATH, json={"kind": "session", "session_id": "coder", "name": "laptop"})
    listed = await boss.get(PATH)

    token = msgspec.convert(made.json(), answers.Token)
    assert (token.kind, token.session_id, token.scopes) == ("session", "coder", ["read", "publish"])
    assert token.token is not None
    assert token.token not in listed.text
    found = msgspec.convert(listed.json(), answers.Tokens).tokens
    assert [one.token for one in found] == [None] * len(found)


async def test_a_token_is_good_for_its_scope_and_makes_none_beyond(
    site: Site, boss: httpx.AsyncClient
) -> None:
    wide = await site.controller(None)
    tenant = await wide.post(PATH, json={"kind": "controller", "scope_id": "tenant"})
    inside = site.client(tenant.json()["token"])

    await inside.post("/v1/sessions", json={"session_id": "coder"})
    assert [one["session_id"] for one in (await inside.get("/v1/sessions")).json()["sessions"]] == [
        "coder"
    ]
    assert (await boss.get("/v1/sessions")).json()["sessions"] == []
    for body in ({"scope_id": "default"}, {"all_scopes": True}):
        answer = await inside.post(PATH, json={"kind": "controller"} | body)
        problem(answer, 403, "unauthorized")
    problem(await inside.delete(f"{PATH}/{tenant.json()['id'][::-1]}"), 404, "not_found")
    mine = (await boss.get(PATH)).json()["tokens"]
    assert all(one["scope_id"] == "default" for one in mine)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "king"},
        {"kind": "adapter"},
        {"kind": "adapter", "provider": "web"},
        {"kind": "adapter", "provider": " ", "account_id": "a"},
        {"kind": "session"},
        {"kind": "session", "session_id": "a/b"},
        {"kind": "session", "session_id": "a", "scopes": []},
        {"kind": "session", "session_id": "a", "scopes": ["rule"]},
        {"kind": "session", "session_id": "a", "scopes": "read"},
        {"kind": "controller", "scopes": ["read"]},
        {"kind": "controller", "session_id": "a"},
        {"kind": "controller", "expires_at": "2001-01-01T00:00:00Z"},
        {"kind": "controller", "expires_at": "2030-01-01T00:00:00"},
        {"kind": "controller", "name": "x" * 201},
        {"kind": "controller", "secret": "mine"},
        {},
    ],
)
async def test_a_token_that_would_never_hold_is_refused(
    boss: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    answer = await boss.post(PATH, json=body)

    assert answer.status_code == 400, answer.text
    problem(answer, 400, answer.json()["code"])


async def test_a_revoked_token_opens_nothing_at_once(site: Site, boss: httpx.AsyncClient) -> None:
    made = (await boss.post(PATH, json={"kind": "controller"})).json()
    client = site.client(made["token"])
    assert (await client.get(PATH)).status_code == 200

    ended = await boss.delete(f"{PATH}/{made['id']}")

    assert msgspec.convert(ended.json(), answers.Token).revoked_at is not None
    problem(await client.get(PATH), 401, "unauthenticated")
    assert (await boss.delete(f"{PATH}/{made['id']}")).json() == ended.json()
    problem(await boss.delete(f"{PATH}/none"), 404, "not_found")


async def test_a_token_ends_with_its_time(
    site: Site, boss: httpx.AsyncClient, clock: StillClock
) -> None:
    """By the store's clock; what was recognised a moment before is known for half a second."""
    until = (clock.at + timedelta(minutes=1)).isoformat()
    made = await boss.post(PATH, json={"kind": "controller", "expires_at": until})
    client = site.client(made.json()["token"])
    assert (await client.get(PATH)).status_code == 200

    clock.move(minutes=1)

    site.app.state.doorman.forget()
    problem(await client.get(PATH), 401, "unauthenticated")


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Basic abc", "Bearer tl_c_no", "tl_c_no", "Bearer " + "x" * 5_000],
)
async def test_a_request_without_a_token_that_holds_is_refused(site: Site, header: str) -> None:
    client = site.client(None, **({"Authorization": header} if header else {}))

    answer = await client.get(PATH)

    problem(answer, 401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_only_a_controller_handles_tokens(site: Site, boss: httpx.AsyncClient) -> None:
    """But for its maker, who may end a token it lent: of any other it is told nothing."""
    session, adapter = await site.session("coder"), await site.adapter()
    for client in (session, adapter):
        problem(await client.get(PATH), 403, "unauthorized")
        problem(await client.post(PATH, json={"kind": "controller"}), 403, "unauthorized")
    theirs = (await boss.get(PATH)).json()["tokens"][0]["id"]
    problem(await adapter.delete(f"{PATH}/{theirs}"), 403, "unauthorized")
    problem(await session.delete(f"{PATH}/{theirs}"), 404, "not_found")
    made = await boss.post("/v1/sessions/coder/tokens", json={"scopes": ["read"]})
    own = site.client(made.json()["token"])
    assert (await own.get("/v1/sessions/coder")).status_code == 200
    problem(await own.post("/v1/sessions/coder/tokens", json={}), 403, "unauthorized")


async def test_tokens_are_listed_page_by_page(boss: httpx.AsyncClient) -> None:
    for number in range(4):
        await boss.post(PATH, json={"kind": "controller", "name": f"t{number}"})

    seen: list[str] = []
    params: dict[str, Any] = {"limit": 2}
    while True:
        found = (await boss.get(PATH, params=params)).json()
        seen += [one["name"] for one in found["tokens"]]
        if found["next"] is None:
            break
        params["after"] = found["next"]

    assert sorted(seen) == ["", "t0", "t1", "t2", "t3"]
    problem(await boss.get(PATH, params={"after": "!"}), 400, "invalid_input")
