"""What adapters bring over HTTP: durable, held or known when answered, each item by itself."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from tests.http.conftest import Site, message, problem
from threadline.entrypoints.http import answers
from threadline.entrypoints.http.inbound import AT_ONCE

PATH = "/v1/inbound"
PLACE = {"conversation": {"conversation_id": "lobby", "kind": "room"}}


@pytest.mark.acceptance("B1", "B2", "B7")
async def test_a_message_makes_its_conversation_in_the_tokens_account(
    site: Site, boss: httpx.AsyncClient
) -> None:
    adapter = await site.adapter("slack", "T1")
    first = await adapter.post(PATH, json=message("hi", message_id="1.0", **PLACE))
    again = await adapter.post(PATH, json=message("other", message_id="1.0", **PLACE))
    number = await adapter.post(PATH, json=message("two", message_id="1.00", **PLACE))

    taken = msgspec.convert(first.json(), answers.Taken)
    assert (taken.sequence, taken.duplicate, taken.held, taken.route) == (1, False, False, "none")
    assert (again.json()["duplicate"], again.json()["record"]["text"]) == (True, "hi")
    assert number.json()["sequence"] == 2
    [made] = (await boss.get("/v1/conversations")).json()["conversations"]
    assert (made["text"], made["kind"]) == ("slack/T1/lobby", "room")


@pytest.mark.acceptance("A8", "A10")
@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"conversation": {"conversation_id": "c", "provider": "telegram"}}, 400),
        ({"conversation": {"conversation_id": "c", "account_id": "T2"}}, 400),
        ({"conversation": {"conversation_id": "c", "scope_id": "tenant"}}, 400),
        ({"scope_id": "tenant"}, 400),
        ({"source_session_id": "coder"}, 400),
        ({"origin": {"conversation": "c", "sequence": 1}}, 403),
        ({"conversation": {"conversation_id": ""}}, 400),
        ({"conversation": {}}, 400),
        ({"conversation": None}, 400),
    ],
)
async def test_a_body_that_claims_more_than_the_token_is_refused(
    site: Site, boss: httpx.AsyncClient, more: dict[str, Any], status: int
) -> None:
    adapter = await site.adapter("slack", "T1")

    answer = await adapter.post(PATH, json=message("hi") | PLACE | more)

    problem(answer, status, answer.json()["code"])
    assert (await boss.get("/v1/conversations")).json()["conversations"] == []


@pytest.mark.acceptance("B9", "A3")
async def test_one_bad_item_of_a_batch_fails_alone(site: Site, boss: httpx.AsyncClient) -> None:
    adapter = await site.adapter()
    items: list[Any] = [message(str(n), message_id=f"m{n}", **PLACE) for n in range(50)]
    items[10] = message("a\x00", **PLACE)
    items[20] = {"text": "nobody"}
    items[30] = "nonsense"
    items[40] = message("again", message_id="m1", **PLACE)

    answer = await adapter.post(PATH, json={"messages": items})

    results = msgspec.convert(answer.json(), answers.Results).results
    errors = {n: one.error for n, one in enumerate(results) if one.error is not msgspec.UNSET}
    assert set(errors) == {10, 20, 30}
    assert all(one.code == "invalid_input" for one in errors.values() if one)
    assert [n for n, one in enumerate(results) if one.duplicate] == [40]
    found = (await boss.get("/v1/conversations")).json()["conversations"][0]
    assert found["next_sequence"] == 47
    other = PLACE | {"conversation": {"conversation_id": "lobby", "kind": "dm"}}
    assert (await adapter.post(PATH, json=message("dm", **other))).status_code == 200
    assert (await boss.get(f"/v1/conversations/{found['id']}")).json()["kind_mismatches"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {"messages": {}},
        {"messages": None},
        {"messages": [], "more": 1},
        {"messages": [{}] * (AT_ONCE + 1)},
        [],
        {},
    ],
)
async def test_what_is_neither_a_message_nor_a_batch_is_refused(site: Site, body: Any) -> None:
    adapter = await site.adapter()

    problem(await adapter.post(PATH, json=body), 400, "invalid_input")


async def test_an_empty_batch_is_answered_with_nothing(site: Site) -> None:
    adapter = await site.adapter()

    assert (await adapter.post(PATH, json={"messages": []})).json() == {"results": []}


@pytest.mark.acceptance("A9", "B14")
async def test_a_moved_conversation_is_the_same_one(site: Site, boss: httpx.AsyncClient) -> None:
    adapter = await site.adapter("telegram", "42")
    old = {"conversation": {"conversation_id": "-1", "kind": "room"}}
    moved = {
        "conversation": {"conversation_id": "-100", "kind": "room"},
        "same_as": [{"conversation_id": "-1"}],
    }

    await adapter.post(PATH, json=message("before", **old))
    after = await adapter.post(PATH, json=message("after", **moved))

    assert after.json()["sequence"] == 2
    [one] = (await boss.get("/v1/conversations")).json()["conversations"]
    assert one["next_sequence"] == 3


@pytest.mark.acceptance("F12", "I3", "I4")
async def test_threads_edits_and_reactions_come_in_by_the_same_door(
    site: Site, boss: httpx.AsyncClient
) -> None:
    adapter = await site.adapter("slack", "T1")
    room = {"conversation": {"conversation_id": "C1", "kind": "room"}}
    thread = {
        "conversation": {
            "conversation_id": "1.0",
            "parent_conversation_id": "C1",
            "kind": "thread",
        },
        "parent": {"conversation_id": "C1", "kind": "room"},
        "thread_root": "1.0",
    }
    await adapter.post(PATH, json=message("root", message_id="1.0", **room))
    reply = (await adapter.post(PATH, json=message("reply", message_id="1.1", **thread))).json()
    edit = message("root!", event="edit", revises="1.0", message_id="e1", **room)
    await adapter.post(PATH, json=edit)
    again = (await adapter.post(PATH, json=edit)).json()
    liked = message("+1", event="reaction", revises="1.0", message_id="r1", **room)
    assert (await adapter.post(PATH, json=liked)).json()["target_session_id"] is None

    assert (reply["sequence"], again["duplicate"]) == (2, True)
    listed = (await boss.get("/v1/conversations")).json()["conversations"]
    ids = {one["ref"]["conversation_id"]: one["id"] for one in listed}
    copy = (await boss.get(f"/v1/conversations/{ids['1.0']}/transcript")).json()["records"][0]
    assert (copy["text"], copy["copied_from"]) == ("root", 1)
    folded = await boss.get(f"/v1/conversations/{ids['C1']}/transcript?view=messages")
    assert [one["record"]["text"] for one in folded.json()["messages"]] == ["root!"]


async def test_only_an_adapter_brings_what_was_heard(site: Site, boss: httpx.AsyncClient) -> None:
    coder = await site.session("coder")

    for client in (boss, coder):
        answer = await client.post(PATH, json=message("hi", **PLACE))
        problem(answer, 403, "unauthorized")
