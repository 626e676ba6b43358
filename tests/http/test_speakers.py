"""Bindings, groups, participants and default routes over HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from tests.http.conftest import LOBBY, Site, message, problem
from threadline.entrypoints.http import answers
from threadline.testing.clock import StillClock


@pytest.fixture
def room(lobby: str) -> str:
    """Where the conversation is."""
    return f"/v1/conversations/{lobby}"


async def say(client: httpx.AsyncClient, room: str, text: str, **more: Any) -> dict[str, Any]:
    """What became of a message."""
    answer = await client.post(f"{room}/transcript", json=message(text, **more))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.acceptance("E1", "E2", "E4", "E6", "C9")
async def test_a_conversation_is_bound_to_one_session_at_a_time(
    boss: httpx.AsyncClient, room: str, clock: StillClock
) -> None:
    until = (clock.at + timedelta(hours=1)).isoformat()
    problem(await boss.get(f"{room}/binding"), 404, "not_found")
    first = await boss.put(f"{room}/binding", json={"session_id": "coder", "expires_at": until})
    kept = (await boss.put(f"{room}/binding", json={"session_id": "coder"})).json()
    lifted = await boss.put(f"{room}/binding", json={"session_id": "coder", "expires_at": None})
    other = await boss.put(f"{room}/binding", json={"session_id": "other"})
    member = (await boss.get(f"{room}/members/coder")).json()
    ended = await boss.delete(f"{room}/binding")

    bound = msgspec.convert(first.json(), answers.Binding)
    assert (bound.session_id, bound.generation) == ("coder", 1)
    assert kept["expires_at"] == first.json()["expires_at"]
    assert (lifted.json()["generation"], lifted.json()["expires_at"]) == (1, None)
    assert "coder" in problem(other, 409, "binding_conflict")["detail"]
    assert set(member["grants"]) == {"binding"}
    assert member["policy"] == "since_join"
    assert ended.json()["session_id"] == "coder"
    problem(await boss.delete(f"{room}/binding"), 404, "not_found")


@pytest.mark.acceptance("E3", "C14")
async def test_an_expired_binding_is_a_miss_at_that_instant(
    boss: httpx.AsyncClient, room: str, clock: StillClock
) -> None:
    until = (clock.at + timedelta(minutes=5)).isoformat()
    body = {"session_id": "coder", "expires_at": until, "policy": "last_n", "n": 2}
    await boss.put(f"{room}/binding", json=body)
    assert (await boss.get(f"{room}/members/coder")).json()["n"] == 2

    clock.move(minutes=5)

    problem(await boss.get(f"{room}/binding"), 404, "not_found")
    problem(await boss.get(f"{room}/members/coder/backfill"), 404, "membership_not_found")
    second = await boss.put(f"{room}/binding", json={"session_id": "other"})
    assert second.json()["generation"] == 2
    past = {"session_id": "other", "expires_at": until}
    problem(await boss.put(f"{room}/binding", json=past), 400, "invalid_input")
    naive = {"session_id": "other", "expires_at": "2030-01-01T00:00:00"}
    problem(await boss.put(f"{room}/binding", json=naive), 400, "invalid_input")


@pytest.mark.acceptance("F1", "F2", "F3", "F4", "F5", "F6", "F10", "F11", "B8")
async def test_a_group_has_one_speaker_for_each_message(boss: httpx.AsyncClient, room: str) -> None:
    seats = f"{room}/group/participants"
    await boss.put(f"{room}/group", json={"fan_out": {"enabled": True}})
    dev = await boss.put(f"{seats}/dev", json={"session_id": "coder", "aliases": ["code"]})
    await boss.put(f"{seats}/ops", json={"session_id": "keeper", "public": True})
    await boss.put(f"{room}/group", json={"default_handle": "ops"})
    clash = await boss.put(f"{seats}/CODE", json={"session_id": "third"})

    assert msgspec.convert(dev.json(), answers.Seat).aliases == ["code"]
    problem(clash, 409, "handle_conflict")
    assert (await say(boss, room, "hello"))["target_session_id"] == "keeper"
    said = await say(boss, room, "@Dev do it")
    assert (said["target_session_id"], said["readers"]) == ("coder", 2)
    assert (await say(boss, room, "and that"))["target_session_id"] == "coder"
    assert (await say(boss, room, "will dev do it"))["target_session_id"] == "coder"
    assert (await say(boss, room, "x", explicit_target="nobody"))["route"] == "no_match"
    group = msgspec.convert((await boss.get(f"{room}/group")).json(), answers.Group)
    assert (group.default_handle, group.last_addressed_handle) == ("ops", "dev")
    assert group.fan_out.enabled is True
    assert {seat.handle: seat.session_id for seat in group.participants} == {
        "dev": "coder",
        "ops": "keeper",
    }
    for name, speaks in (
        ("coder", [False, True, True, True, False]),
        ("keeper", [True] + [False] * 4),
    ):
        page = (await boss.get(f"{room}/members/{name}/backfill")).json()["records"]
        assert [record["speaker"] for record in page] == speaks
    gone = await boss.delete(f"{seats}/dev")
    assert gone.json()["handle"] == "dev"
    problem(await boss.delete(f"{seats}/dev"), 404, "not_found")
    assert (await say(boss, room, "who"))["target_session_id"] == "keeper"
    await boss.put(f"{room}/group", json={"mode": "mention", "default_handle": None})
    assert (await say(boss, room, "who"))["target_session_id"] is None
    for wrong in (
        {"mode": "quiet"},
        {"fan_out": {"enabled": "yes"}},
        {"fan_out": {"max_total_peer_deliveries": -1}},
    ):
        answer = await boss.put(f"{room}/group", json=wrong)
        problem(answer, 400, "invalid_input")


@pytest.mark.acceptance("F13")
async def test_a_default_route_binds_a_new_direct_message(
    site: Site, boss: httpx.AsyncClient
) -> None:
    """Also of an account with a slash in its name."""
    account = "T1:A/1"
    path = f"/v1/routes/telegram/{quote(account, safe='')}"
    set_ = await boss.put(path, json={"session_id": "desk"})
    adapter = await site.adapter("telegram", account)

    def heard(place: str) -> dict[str, Any]:
        return message("hi", conversation={"conversation_id": place, "kind": "dm"})

    first = (await adapter.post("/v1/inbound", json=heard("1"))).json()
    cleared = await boss.delete(path)
    second = (await adapter.post("/v1/inbound", json=heard("2"))).json()

    assert msgspec.convert(set_.json(), answers.Route).account_id == account
    assert (first["target_session_id"], second["target_session_id"]) == ("desk", None)
    assert cleared.json()["session_id"] is None


@pytest.mark.acceptance("A6")
async def test_an_adapter_sets_speakers_in_its_own_account_only(
    site: Site, boss: httpx.AsyncClient, lobby: str, room: str
) -> None:
    other = (await boss.post("/v1/conversations", json=LOBBY | {"account_id": "b"})).json()["id"]
    own, coder = await site.adapter(), await site.session("coder")

    assert (await own.put(f"{room}/binding", json={"session_id": "coder"})).status_code == 200
    assert (await own.put(f"{room}/group", json={})).status_code == 200
    foreign = f"/v1/conversations/{other}"
    for path, body in (
        ("binding", {"session_id": "coder"}),
        ("group", {}),
        ("group/participants/dev", {"session_id": "coder"}),
    ):
        problem(await own.put(f"{foreign}/{path}", json=body), 404, "not_found")
        problem(await coder.put(f"{room}/{path}", json=body), 403, "unauthorized")
    problem(await own.put("/v1/routes/web/office", json={"session_id": "x"}), 403, "unauthorized")
