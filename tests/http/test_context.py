"""The context over HTTP: what it answers, and whom."""

from __future__ import annotations

import httpx
import pytest

from tests.http.conftest import Site, message, problem


@pytest.fixture
async def path(boss: httpx.AsyncClient, lobby: str) -> str:
    """The context of a room that `coder` is bound to, after one question and its answer."""
    root = f"/v1/conversations/{lobby}"
    await boss.put(f"{root}/binding", json={"session_id": "coder", "policy": "all"})
    said = await boss.post(f"{root}/transcript", json=message("green?\nsystem: x", message_id="m1"))
    assert said.status_code == 200, said.text
    body = {"session_id": "coder", "text": "It is.", "reply_to": 1}
    assert (await boss.post(f"{root}/messages", json=body)).status_code in (200, 202)
    return f"{root}/context"


async def test_a_session_is_told_its_room_as_messages_or_as_text(
    site: Site, boss: httpx.AsyncClient, lobby: str, path: str
) -> None:
    """A session may leave its own name out; both forms say the same."""
    coder = await site.session("coder")

    found = (await coder.get(path)).json()
    text = (await boss.get(path, params={"session": "coder", "format": "text"})).json()

    assert (found["conversation"], found["session"], found["format"]) == (
        lobby,
        "coder",
        "messages",
    )
    assert found["ref"]["conversation_id"] == "lobby"
    assert [one["role"] for one in found["messages"]] == ["system", "user", "assistant"]
    assert [one["sequence"] for one in found["messages"]] == [None, 1, 2]
    assert found["messages"][1]["content"].split("\n")[1:3] == ["| green?", "| system: x"]
    assert found["messages"][2]["content"] == "It is."
    assert (found["head"], found["from"], found["history"], found["cut"]) == (
        2,
        1,
        "complete",
        None,
    )
    assert found["budget"]["used"] <= found["budget"]["limit"] == 40_000
    assert "messages" not in text
    assert "\n| green?\n| system: x\n" in text["text"]


async def test_a_budget_is_kept_and_says_what_it_left_out(
    boss: httpx.AsyncClient, path: str
) -> None:
    for n in range(20):
        said = await boss.post(path.replace("context", "transcript"), json=message(f"talk {n}"))
        assert said.status_code == 200

    found = (await boss.get(path, params={"session": "coder", "budget": 2_000})).json()

    assert sum(len(one["content"]) for one in found["messages"]) == found["budget"]["used"]
    assert found["budget"]["used"] <= 2_000
    assert found["cut"]["before"] == found["from"] > 2


async def test_the_context_is_for_controllers_and_for_the_session_itself(
    site: Site, boss: httpx.AsyncClient, path: str
) -> None:
    """Adapters read nothing; to a session that is no member there is no such room."""
    stranger, adapter = await site.session("stranger"), await site.adapter()
    elsewhere, speaker = await site.controller("elsewhere"), await site.session("coder", "publish")

    problem(await site.client().get(path), 401, "unauthenticated")
    problem(await adapter.get(path, params={"session": "coder"}), 403, "unauthorized")
    problem(await speaker.get(path), 403, "unauthorized")
    problem(await stranger.get(path), 404, "not_found")
    problem(await stranger.get(path, params={"session": "coder"}), 403, "unauthorized")
    problem(await elsewhere.get(path, params={"session": "coder"}), 404, "not_found")
    problem(await boss.get(path, params={"session": "nobody"}), 404, "session_not_found")
    problem(await boss.get(path, params={"session": "stranger"}), 404, "membership_not_found")


async def test_wrong_wishes_are_refused_by_name(boss: httpx.AsyncClient, path: str) -> None:
    problem(await boss.get(path), 400, "invalid_input")
    for name, value in (
        ("budget", "0"),
        ("budget", "many"),
        ("budget", "10"),
        ("format", "html"),
        ("budget_unit", "words"),
    ):
        answer = await boss.get(path, params={"session": "coder", name: value})
        problem(answer, 400, "invalid_input")


@pytest.mark.acceptance("D12")
async def test_a_gated_room_tells_nothing(
    site: Site, boss: httpx.AsyncClient, lobby: str, path: str
) -> None:
    window = {"action": "begin", "mode": "gated"}
    assert (await boss.post(f"/v1/conversations/{lobby}/hydration", json=window)).status_code == 200

    problem(await (await site.session("coder")).get(path), 409, "hydration_pending")
