"""What sessions say over HTTP, to a conversation and to each other, and what became of it."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from tests.http.conftest import LOBBY, Site, message, problem
from threadline.entrypoints.http import answers


@pytest.fixture
async def room(boss: httpx.AsyncClient, lobby: str) -> str:
    """A conversation that `coder` speaks in and `reader` reads."""
    path = f"/v1/conversations/{lobby}"
    await boss.put(f"{path}/binding", json={"session_id": "coder", "policy": "all"})
    await boss.put(f"{path}/members/reader", json={})
    return path


@pytest.mark.acceptance("G1", "G10")
async def test_what_is_published_is_a_record_that_the_others_get(
    site: Site, boss: httpx.AsyncClient, room: str
) -> None:
    await boss.post(f"{room}/transcript", json=message("question", message_id="q1"))
    coder = await site.session("coder")
    words = {"session_id": "coder", "text": "answer", "reply_to": "q1", "wait": True}

    sent = await coder.post(f"{room}/messages", json=words)
    told = await coder.post(f"{room}/messages", json=words | {"reply_to": 1, "wait": None})

    assert (sent.status_code, told.status_code) == (200, 202)
    delivery = msgspec.convert(sent.json(), answers.Delivery)
    assert (delivery.state, delivery.sequence, delivery.reply_to) == ("delivered", 2, 1)
    page = (await boss.get(f"{room}/members/reader/backfill")).json()["records"]
    assert [one["text"] for one in page] == ["question", "answer", "answer"]
    assert (page[1]["direction"], page[1]["source_session_id"], page[1]["reply_to"]) == (
        "outbound",
        "coder",
        "q1",
    )
    own = (await coder.get(f"{room}/members/coder/backfill")).json()["records"]
    assert [one["text"] for one in own] == ["question"]
    with_own = await coder.get(f"{room}/members/coder/backfill", params={"own": "true"})
    assert len(with_own.json()["records"]) == 3


@pytest.mark.acceptance("G4", "E5")
async def test_who_may_not_speak_says_nothing(
    site: Site, boss: httpx.AsyncClient, room: str
) -> None:
    coder, reader = await site.session("coder"), await site.session("reader")
    quiet, adapter = await site.session("coder", "read"), await site.adapter()
    words = {"session_id": "coder", "text": "x"}
    path = f"{room}/messages"

    silent = await reader.post(path, json=words | {"session_id": "reader"})
    problem(silent, 403, "unauthorized")
    problem(await reader.post(path, json=words), 403, "unauthorized")
    problem(await quiet.post(path, json=words), 403, "unauthorized")
    problem(await adapter.post(path, json=words), 403, "unauthorized")
    problem(await coder.post(path, json=words | {"generation": 7}), 409, "binding_mismatch")
    problem(await coder.post("/v1/conversations/none/messages", json=words), 404, "not_found")
    stranger = await boss.post(path, json=words | {"session_id": "nobody"})
    problem(stranger, 404, "session_not_found")
    assert (await boss.get(room)).json()["next_sequence"] == 1
    public = f"{room}/group/participants/rd"
    await boss.put(public, json={"session_id": "reader", "public": True})
    spoken = await reader.post(path, json=words | {"session_id": "reader"})
    assert spoken.status_code == 202


@pytest.mark.parametrize(
    "more",
    [
        {"reply_to": True},
        {"reply_to": 99},
        {"reply_to": "none"},
        {"reply_to": 2**70},
        {"about": {"conversation": "none", "sequence": 1}},
        {"text": "a\x00"},
        {"wait": "long"},
        {"attachments": [{}] * 101},
        {"metadata": {"a": "x" * 70_000}},
        {"text": 7},
    ],
)
async def test_words_that_cannot_be_said_are_refused(
    boss: httpx.AsyncClient, room: str, more: dict[str, Any]
) -> None:
    answer = await boss.post(f"{room}/messages", json={"session_id": "coder", "text": "x"} | more)

    assert answer.status_code in (400, 404, 413), answer.text
    problem(answer, answer.status_code, answer.json()["code"])
    assert (await boss.get(room)).json()["next_sequence"] == 1


@pytest.mark.acceptance("J4")
async def test_sessions_write_to_each_other_and_the_chain_can_be_followed(
    site: Site, boss: httpx.AsyncClient, lobby: str, room: str
) -> None:
    await boss.post(f"{room}/transcript", json=message("from outside"))
    other = await boss.post("/v1/conversations", json=LOBBY | {"account_id": "b"})
    there = f"/v1/conversations/{other.json()['id']}"
    await boss.put(f"{there}/binding", json={"session_id": "writer"})
    coder = await site.session("coder", "read", "send", "publish")
    writer = await site.session("writer", "read", "send", "publish")

    about = {"conversation": lobby, "sequence": 1}
    to = {"session_id": "coder", "to": {"session_id": "writer"}, "text": "look", "about": about}
    told = (await coder.post("/v1/send", json=to)).json()
    [got] = (await writer.get("/v1/sessions/writer/inbox")).json()["records"]
    said = await writer.post(
        f"{there}/messages",
        json={
            "session_id": "writer",
            "text": "done",
            "about": {"conversation": got["conversation"], "sequence": got["sequence"]},
        },
    )

    assert (got["text"], got["conversation"]) == ("look", told["conversation"])
    assert got["origin"]["conversation"] == lobby
    assert said.json()["origin"]["conversation"] == told["conversation"]
    assert said.json()["origin"]["root"] == got["origin"]["root"]
    problem(
        await coder.post("/v1/send", json=to | {"to": {"session_id": "coder"}}),
        400,
        "invalid_input",
    )
    problem(
        await coder.post("/v1/send", json=to | {"to": {"session_id": "none"}}),
        404,
        "session_not_found",
    )


@pytest.mark.acceptance("G2")
async def test_deliveries_are_listed_newest_first_and_each_to_whom_it_belongs(
    site: Site, boss: httpx.AsyncClient, lobby: str, room: str
) -> None:
    for text in ("one", "two", "three"):
        await boss.post(f"{room}/messages", json={"session_id": "coder", "text": text})
    coder, reader = await site.session("coder"), await site.session("reader")
    tenant = await site.controller("tenant")

    first = await boss.get("/v1/deliveries", params={"limit": 2})
    found = msgspec.convert(first.json(), answers.Deliveries)
    rest = await boss.get("/v1/deliveries", params={"limit": 2, "after": found.next or ""})

    assert [one.sequence for one in found.deliveries] == [3, 2]
    assert [one["sequence"] for one in rest.json()["deliveries"]] == [1]
    assert rest.json()["next"] is None
    name = found.deliveries[0].id
    assert (await coder.get(f"/v1/deliveries/{name}")).json()["sequence"] == 3
    problem(await reader.get(f"/v1/deliveries/{name}"), 404, "not_found")
    problem(await tenant.get(f"/v1/deliveries/{name}"), 404, "not_found")
    problem(await boss.get("/v1/deliveries/none"), 404, "not_found")
    assert (await reader.get("/v1/deliveries")).json()["deliveries"] == []
    assert (await tenant.get("/v1/deliveries")).json()["deliveries"] == []
    mine = await boss.get("/v1/deliveries", params={"conversation": lobby, "session": "coder"})
    assert len(mine.json()["deliveries"]) == 3
    problem(await reader.get("/v1/deliveries", params={"session": "coder"}), 403, "unauthorized")
    problem(await boss.get("/v1/deliveries", params={"after": "x"}), 400, "invalid_input")


async def test_nobody_speaks_for_an_account_without_an_adapter(boss: httpx.AsyncClient) -> None:
    body = LOBBY | {"provider": "slack", "account_id": "T1"}
    made = (await boss.post("/v1/conversations", json=body)).json()["id"]
    await boss.put(f"/v1/conversations/{made}/binding", json={"session_id": "coder"})

    answer = await boss.post(
        f"/v1/conversations/{made}/messages", json={"session_id": "coder", "text": "x"}
    )

    assert answer.status_code in (202, 409)
    if answer.status_code == 409:
        problem(answer, 409, "no_adapter")
