"""Push over HTTP: who may set it, what is shown of it, and the server's own loop."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.conftest import Store
from tests.http.conftest import Site, message, problem
from tests.push.receiver import Receiver, receiving, says
from threadline import Threadline
from threadline.transports.guarded import Guarded

PATH = "/v1/sessions/coder/push"


@pytest.fixture
def tl(store: Store) -> Threadline:
    """Everything on an empty store, with loopback allowed."""
    return Threadline(store, outside=Guarded(allow_private=True))


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """What is pushed to."""
    async with receiving() as made:
        yield made


@pytest.mark.acceptance("L3")
async def test_a_session_sets_proves_and_is_pushed_to(
    site: Site, boss: httpx.AsyncClient, lobby: str, receiver: Receiver
) -> None:
    """All of it over the API, pushed by the server's own loop."""
    await boss.put(f"/v1/conversations/{lobby}/members/coder", json={"policy": "all"})
    coder = await site.session("coder", "read", "push")

    made = await coder.put(PATH, json={"url": receiver.url})
    assert made.status_code == 200, made.text
    secret = made.json()["secret"]
    proven = await coder.post(PATH + "/prove")
    await boss.post(f"/v1/conversations/{lobby}/transcript", json=message("one"))
    got = await receiver.next()

    assert proven.json()["state"] == "proven"
    data = got.verified(secret)
    assert (data["conversation"], got.texts) == (lobby, ["one"])
    shown = (await coder.get(PATH)).json()
    assert secret not in str(shown)
    assert (shown["state"], shown["set_by"], shown["url"]) == ("proven", "session", receiver.url)
    tokens = (await boss.get("/v1/tokens")).json()["tokens"]
    assert shown["token_id"] in {one["id"] for one in tokens if one["session_id"] == "coder"}
    assert (await coder.delete(PATH)).status_code == 204
    assert (await coder.delete(PATH)).status_code == 204
    problem(await coder.get(PATH), 404, "not_found")


async def test_who_may_set_where_a_session_is_pushed_to(
    site: Site, boss: httpx.AsyncClient, receiver: Receiver
) -> None:
    """A controller of its scope, and the session itself with the scope `push`."""
    usual = await site.session("coder")
    other = await site.session("other", "push")
    adapter = await site.adapter()
    elsewhere = await site.controller("elsewhere")
    body = {"url": receiver.url}

    for client in (usual, other, adapter):
        problem(await client.put(PATH, json=body), 403, "unauthorized")
        problem(await client.get(PATH), 403, "unauthorized")
        problem(await client.delete(PATH), 403, "unauthorized")
        problem(await client.post(PATH + "/prove"), 403, "unauthorized")
    problem(await elsewhere.put(PATH, json=body), 404, "session_not_found")
    problem(await boss.put("/v1/sessions/nobody/push", json=body), 404, "session_not_found")
    assert (await boss.put(PATH, json=body)).json()["set_by"] == "controller"
    assert receiver.connections == 0


async def test_what_is_wrong_is_said(
    site: Site, boss: httpx.AsyncClient, receiver: Receiver
) -> None:
    """Before anything is stored, or with the class of what the target did."""
    await site.session("coder")
    for url in ("", "ftp://x.example/", "https://u@x.example/", "https://0x7f.1/"):
        found = problem(await boss.put(PATH, json={"url": url}), 400, "address_refused")
        assert found["facts"] == {"field": "url"}
    problem(await boss.put(PATH, json={}), 400, "invalid_input")
    problem(await boss.put(PATH, json={"url": receiver.url, "x": 1}), 400, "invalid_input")
    problem(await boss.post(PATH + "/prove"), 404, "not_found")

    await boss.put(PATH, json={"url": receiver.url})
    receiver.challenge = says(200, {"challenge": "another"})
    found = problem(await boss.post(PATH + "/prove"), 409, "push_not_proven")

    assert found["facts"] == {"fault": "wrong_challenge", "session_id": "coder"}
    assert (await boss.get(PATH)).json()["state"] == "unproven"
