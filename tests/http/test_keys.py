"""`Idempotency-Key` on every POST: the same request is done once, another one is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.http.conftest import LOBBY, Site, message, problem
from threadline.testing.clock import StillClock

KEY = {"Idempotency-Key": "order-66"}


async def texts(client: httpx.AsyncClient, conversation: str) -> list[str]:
    """What a conversation's records say."""
    page = await client.get(f"/v1/conversations/{conversation}/transcript?after=-9")
    return [record["text"] for record in page.json()["records"]]


@pytest.mark.acceptance("G3")
async def test_words_under_one_key_are_said_once_and_other_words_are_refused(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    await boss.put(f"/v1/conversations/{lobby}/binding", json={"session_id": "coder"})
    coder = await site.session("coder", "publish", "read")
    path = f"/v1/conversations/{lobby}/messages"
    words = {"session_id": "coder", "text": "done"}

    answers = await asyncio.gather(*(coder.post(path, json=words, headers=KEY) for _ in range(5)))
    other = await coder.post(path, json=words | {"text": "not done"}, headers=KEY)

    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    problem(other, 409, "idempotency_conflict")
    assert await texts(boss, lobby) == ["done"]


@pytest.mark.acceptance("B4")
async def test_a_message_without_an_id_is_recorded_once_under_a_key(
    boss: httpx.AsyncClient, lobby: str
) -> None:
    """Without a key two equal texts are two records."""
    path = f"/v1/conversations/{lobby}/transcript"
    for _ in range(2):
        await boss.post(path, json=message("hello"))

    asked = [boss.post(path, json=message("once"), headers=KEY) for _ in range(5)]
    answers = [one.json() for one in await asyncio.gather(*asked)]

    assert sorted(one["duplicate"] for one in answers) == [False, True, True, True, True]
    assert {one["record"]["sequence"] for one in answers} == {3}
    problem(await boss.post(path, json=message("twice"), headers=KEY), 409, "idempotency_conflict")
    assert await texts(boss, lobby) == ["hello", "hello", "once"]


async def test_the_payload_is_what_it_says_not_how_it_is_written(
    boss: httpx.AsyncClient, lobby: str
) -> None:
    """Another order of the fields, other white space."""
    path = f"/v1/conversations/{lobby}/transcript"
    json = {**KEY, "Content-Type": "application/json"}
    await boss.post(path, content='{"text":"a","actor":{"id":"ada"}}', headers=json)

    again = await boss.post(
        path, content='{"actor": {"id": "ada"}, "text": "\\u0061"}', headers=json
    )

    assert again.json()["duplicate"] is True


async def test_adapters_bring_a_batch_once(site: Site, boss: httpx.AsyncClient, lobby: str) -> None:
    """Single messages and batches, with ids and without."""
    adapter = await site.adapter()
    place = {"conversation": {"conversation_id": "lobby"}}
    batch = {"messages": [message("one", **place), message("two", message_id="m2", **place)]}

    first = (await adapter.post("/v1/inbound", json=batch, headers=KEY)).json()["results"]
    again = (await adapter.post("/v1/inbound", json=batch, headers=KEY)).json()["results"]
    other = {"messages": [message("three", **place)]}

    assert [one["duplicate"] for one in (*first, *again)] == [False, False, True, True]
    assert [one["sequence"] for one in again] == [one["sequence"] for one in first]
    problem(await adapter.post("/v1/inbound", json=other, headers=KEY), 409, "idempotency_conflict")
    problem(
        await adapter.post("/v1/inbound", json=message("three", **place), headers=KEY),
        409,
        "idempotency_conflict",
    )
    assert await texts(boss, lobby) == ["one", "two"]


async def test_an_import_under_keys_can_be_said_again_step_by_step(
    boss: httpx.AsyncClient, lobby: str
) -> None:
    """Each answer is the same the second time, also when the window is closed already."""
    root = f"/v1/conversations/{lobby}/hydration"
    begin = {"action": "begin"}

    async def twice(path: str, body: dict[str, Any], key: str) -> list[dict[str, Any]]:
        headers = {"Idempotency-Key": key}
        answers = [await boss.post(path, json=body, headers=headers) for _ in range(2)]
        assert [one.status_code for one in answers] == [200, 200], answers[1].text
        return [one.json() for one in answers]

    first, second = await twice(root, begin, "1")
    assert first["token"] == second["token"]
    records = {"token": first["token"], "records": [message("old"), message("older")]}
    brought, again = await twice(f"{root}/records", records, "2")
    ended = await twice(root, {"action": "complete", "token": first["token"]}, "3")

    assert [one["sequence"] for one in brought["results"]] == [1, 2]
    assert [(one["sequence"], one["duplicate"]) for one in again["results"]] == [
        (1, True),
        (2, True),
    ]
    assert ended[0] == ended[1] == {"hydration": "complete", "reason": ""}
    assert await texts(boss, lobby) == ["old", "older"]
    late = await boss.post(root, json={"action": "complete", "token": first["token"]})
    problem(late, 409, late.json()["code"])


async def test_a_secret_is_not_shown_again_under_the_key_it_was_made_with(
    site: Site, boss: httpx.AsyncClient
) -> None:
    """A typed conflict, and no second token."""
    await boss.post("/v1/sessions", json={"session_id": "coder"})
    for path, body in (
        ("/v1/tokens", {"kind": "controller", "name": "one"}),
        ("/v1/sessions/coder/tokens", {"name": "two"}),
    ):
        made = await boss.post(path, json=body, headers=KEY)
        assert made.json()["token"]
        problem(await boss.post(path, json=body, headers=KEY), 409, "already_done")
        other = await boss.post(path, json={**body, "name": "x"}, headers=KEY)
        problem(other, 409, "idempotency_conflict")

    names = [one["name"] for one in (await boss.get("/v1/tokens")).json()["tokens"]]
    assert sorted(name for name in names if name) == ["one", "two"]


async def test_what_is_the_same_twice_by_itself_still_refuses_another_payload(
    boss: httpx.AsyncClient, lobby: str
) -> None:
    """Ensure, ack, create, alias, reassign, retire."""
    await boss.put(f"/v1/conversations/{lobby}/members/coder", json={})
    for text in ("one", "two"):
        await boss.post(f"/v1/conversations/{lobby}/transcript", json=message(text))
    cases: list[tuple[str, dict[str, Any] | None, dict[str, Any] | None]] = [
        ("/v1/conversations", LOBBY, LOBBY | {"title": "Lobby"}),
        (f"/v1/conversations/{lobby}/members/coder/ack", {"sequence": 1}, {"sequence": 2}),
        ("/v1/sessions", {"session_id": "ops"}, {"session_id": "other"}),
        ("/v1/sessions/ops/aliases", {"alias": "operator"}, {"alias": "op"}),
        ("/v1/sessions/ops/reassign", {"to": "new"}, {"to": "newer"}),
        ("/v1/sessions/coder/retire", None, None),
    ]
    for path, body, other in cases:
        first = await boss.post(path, json=body, headers=KEY)
        again = await boss.post(path, json=body, headers=KEY)
        assert (first.status_code, again.status_code) == (200, 200), (path, again.text)
        assert again.json() == first.json(), path
        if other is not None:
            refused = await boss.post(path, json=other, headers=KEY)
            problem(refused, 409, "idempotency_conflict")


async def test_a_key_is_its_owners_and_its_routes(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """Another caller and another route may use the same word for something else."""
    second = await site.controller()
    path = f"/v1/conversations/{lobby}/transcript"
    other = (await boss.post("/v1/conversations", json=LOBBY | {"conversation_id": "b"})).json()

    for client, where, text in (
        (boss, path, "one"),
        (second, path, "two"),
        (boss, f"/v1/conversations/{other['id']}/transcript", "three"),
    ):
        answer = await client.post(where, json=message(text), headers=KEY)
        assert (answer.status_code, answer.json()["duplicate"]) == (200, False)


async def test_a_refused_request_uses_no_key_up(boss: httpx.AsyncClient, lobby: str) -> None:
    """Corrected, it may be said again under the same one."""
    path = f"/v1/conversations/{lobby}/transcript"
    problem(await boss.post(path, json=message("a\x00"), headers=KEY), 400, "invalid_input")

    answer = await boss.post(path, json=message("a"), headers=KEY)

    assert answer.status_code == 200


async def test_a_key_is_kept_for_thirty_days(
    site: Site, boss: httpx.AsyncClient, clock: StillClock
) -> None:
    """Then it may be used for something else."""

    async def create(name: str) -> httpx.Response:
        return await boss.post("/v1/sessions", json={"session_id": name}, headers=KEY)

    await create("one")
    clock.move(days=30, seconds=-1)
    await site.line.upkeep.round()
    problem(await create("two"), 409, "idempotency_conflict")

    clock.move(seconds=2)
    await site.line.upkeep.round()

    assert (await create("two")).status_code == 200


@pytest.mark.parametrize("word", ["", "k" * 256, "a\tb"])
async def test_a_key_that_cannot_be_kept_is_refused(boss: httpx.AsyncClient, word: str) -> None:
    answer = await boss.post(
        "/v1/sessions", json={"session_id": "a"}, headers={"Idempotency-Key": word}
    )

    assert "key" in problem(answer, 400, "invalid_input")["detail"]
