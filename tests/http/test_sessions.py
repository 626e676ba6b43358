"""Sessions over HTTP: created, named, reassigned, retired, and what each reads."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from tests.http.conftest import LOBBY, Site, message, problem
from threadline.entrypoints.http import answers

ROOT = "/v1/sessions"


async def test_a_session_is_created_once_and_has_further_names(boss: httpx.AsyncClient) -> None:
    made = await boss.post(ROOT, json={"session_id": "coder", "metadata": {"a": 1, "b": 2}})
    again = await boss.post(ROOT, json={"session_id": "coder", "metadata": {"b": None}})
    await boss.post(ROOT, json={"session_id": "other"})
    named = await boss.post(f"{ROOT}/coder/aliases", json={"alias": "dev"})
    shown = (await boss.get(f"{ROOT}/dev")).json()
    taken = await boss.post(f"{ROOT}/other/aliases", json={"alias": "dev"})
    less = await boss.delete(f"{ROOT}/coder/aliases/dev")

    assert msgspec.convert(made.json(), answers.Session).metadata == {"a": 1, "b": 2}
    assert (again.json()["id"], again.json()["metadata"]) == (made.json()["id"], {"a": 1})
    assert (named.json()["aliases"], shown["session_id"]) == (["dev"], "coder")
    problem(taken, 400, "invalid_input")
    assert less.json()["aliases"] == []
    problem(await boss.get(f"{ROOT}/dev"), 404, "session_not_found")


@pytest.mark.parametrize("name", ["", " ", "a/b", " a", "a\n", "x" * 5_000, 7, None])
async def test_what_is_no_name_is_refused(boss: httpx.AsyncClient, name: Any) -> None:
    problem(await boss.post(ROOT, json={"session_id": name}), 400, "invalid_input")


async def test_sessions_are_listed_by_name_within_their_scope(
    site: Site, boss: httpx.AsyncClient
) -> None:
    names = [f"s{number}" for number in range(5)]
    for name in reversed(names):
        await boss.post(ROOT, json={"session_id": name})
    tenant = await site.controller("tenant")
    await tenant.post(ROOT, json={"session_id": "s9"})

    seen: list[str] = []
    params: dict[str, Any] = {"limit": 2}
    while True:
        found = msgspec.convert((await boss.get(ROOT, params=params)).json(), answers.Sessions)
        seen += [one.session_id for one in found.sessions]
        if found.next is None:
            break
        params["after"] = found.next

    assert seen == names
    problem(await tenant.get(f"{ROOT}/s1"), 404, "session_not_found")
    for wrong in ("x", "1", "x/y", "9" * 30 + "/a"):
        problem(await boss.get(ROOT, params={"after": wrong}), 400, "invalid_input")


@pytest.mark.acceptance("J1", "J5")
async def test_everything_of_a_session_is_its_successors(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    room = f"/v1/conversations/{lobby}"
    await boss.put(f"{room}/binding", json={"session_id": "old", "policy": "all"})
    old = await site.session("old")
    for text in ("one", "two"):
        await boss.post(f"{room}/transcript", json=message(text))
    await old.post(f"{room}/members/old/ack", json={"sequence": 1})

    moved = await boss.post(f"{ROOT}/old/reassign", json={"to": "new"})

    assert msgspec.convert(moved.json(), answers.Session).session_id == "new"
    assert (await boss.get(f"{room}/binding")).json()["session_id"] == "new"
    page = (await boss.get(f"{room}/members/new/backfill")).json()
    assert [(one["text"], one["speaker"]) for one in page["records"]] == [("two", True)]
    followed = await old.get(f"{ROOT}/new/conversations")
    assert [one["last_read"] for one in followed.json()["conversations"]] == [1]
    problem(await boss.post(f"{ROOT}/new/reassign", json={"to": "new"}), 400, "invalid_input")
    problem(await boss.post(f"{ROOT}/none/reassign", json={"to": "x"}), 404, "session_not_found")


@pytest.mark.acceptance("J2", "J3")
async def test_a_retired_session_keeps_nothing_and_its_name_inherits_nothing(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    room = f"/v1/conversations/{lobby}"
    await boss.put(f"{room}/binding", json={"session_id": "coder"})
    coder = await site.session("coder")
    retired = await boss.post(f"{ROOT}/coder/retire")

    assert msgspec.convert(retired.json(), answers.Session).retired_at is not None
    assert (await boss.post(f"{ROOT}/coder/retire")).json() == retired.json()
    problem(await boss.get(f"{room}/binding"), 404, "not_found")
    problem(await coder.get(f"{ROOT}/coder"), 401, "unauthenticated")
    problem(await boss.put(f"{room}/members/coder", json={}), 410, "session_retired")
    anew = (await boss.post(ROOT, json={"session_id": "coder"})).json()
    assert anew["id"] != retired.json()["id"]
    problem(await coder.get(f"{ROOT}/coder"), 401, "unauthenticated")
    assert (await boss.get(f"{ROOT}/coder/conversations")).json() == {
        "conversations": [],
        "next": None,
    }
    problem(await boss.post(f"{ROOT}/none/retire"), 404, "session_not_found")


async def test_a_session_sees_where_it_reads_with_its_cursor_in_each(
    site: Site, boss: httpx.AsyncClient
) -> None:
    rooms = []
    for number in range(3):
        body = LOBBY | {"conversation_id": f"c{number}"}
        made = (await boss.post("/v1/conversations", json=body)).json()["id"]
        await boss.put(f"/v1/conversations/{made}/members/coder", json={})
        rooms.append(made)
    coder = await site.session("coder")

    seen: list[str] = []
    after: int | None = -1
    while after is not None:
        answer = await coder.get(f"{ROOT}/coder/conversations", params={"after": after, "limit": 2})
        found = msgspec.convert(answer.json(), answers.Memberships)
        seen += [one.conversation for one in found.conversations]
        after = found.next

    assert sorted(seen) == sorted(rooms)
    await boss.post(ROOT, json={"session_id": "other"})
    problem(await coder.get(f"{ROOT}/other/conversations"), 403, "unauthorized")
    problem(await coder.get(f"{ROOT}/other"), 403, "unauthorized")
    problem(await coder.get(ROOT), 403, "unauthorized")
    problem(await coder.post(f"{ROOT}/coder/aliases", json={"alias": "x"}), 403, "unauthorized")
    problem(await boss.get(f"{ROOT}/none/conversations"), 404, "session_not_found")
