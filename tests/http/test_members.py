"""Memberships, backfill and acknowledgement over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from tests.http.conftest import Site, message, problem
from threadline.entrypoints.http import answers


async def say(client: httpx.AsyncClient, conversation: str, *texts: str) -> None:
    """Append messages, one after the other."""
    for text in texts:
        path = f"/v1/conversations/{conversation}/transcript"
        assert (await client.post(path, json=message(text))).status_code == 200


async def backfill(client: httpx.AsyncClient, root: str, name: str, **params: Any) -> list[int]:
    """The sequences of a page of what a member has not read."""
    answer = await client.get(f"{root}/{name}/backfill", params=params)
    found = msgspec.convert(answer.json(), answers.Backfill)
    return [record.sequence for record in found.records]


@pytest.fixture
def root(lobby: str) -> str:
    """Where the members are."""
    return f"/v1/conversations/{lobby}/members"


@pytest.mark.acceptance("C1")
async def test_a_policy_decides_how_much_of_the_past_is_read(
    boss: httpx.AsyncClient, lobby: str, root: str
) -> None:
    await say(boss, lobby, *"abcdefghij")
    joined = await boss.put(f"{root}/all", json={"metadata": {"seat": 4}})
    await boss.put(f"{root}/three", json={"policy": "last_n", "n": 3})
    await boss.put(f"{root}/late", json={"policy": "since_join"})

    member = msgspec.convert(joined.json(), answers.Member)
    assert (member.policy, member.n, member.last_read, member.visible_from) == (
        "all",
        None,
        None,
        1,
    )
    assert (member.grants, member.metadata) == (
        {"manual": answers.Grant(policy=member.policy, n=None)},
        {"seat": 4},
    )
    assert await backfill(boss, root, "all") == list(range(1, 11))
    assert await backfill(boss, root, "three") == [8, 9, 10]
    assert await backfill(boss, root, "late") == []


@pytest.mark.acceptance("C2", "C3", "C4", "C8", "C13")
async def test_joining_overriding_and_leaving(
    site: Site, boss: httpx.AsyncClient, lobby: str, root: str
) -> None:
    await say(boss, lobby, "a")
    first = (await boss.put(f"{root}/coder", json={})).json()
    again = (await boss.put(f"{root}/coder", json={})).json()
    await boss.put(
        f"/v1/conversations/{lobby}/group/participants/dev", json={"session_id": "coder"}
    )
    narrow = await boss.patch(f"{root}/coder", json={"override": "since_join"})
    shown = (await boss.get(f"{root}/coder")).json()
    lifted = await boss.patch(f"{root}/coder", json={"override": None})
    kept = await boss.delete(f"{root}/coder", params={"reason": "manual"})

    assert first == again
    assert (narrow.json()["policy"], narrow.json()["override"]["policy"]) == ("since_join",) * 2
    assert set(shown["grants"]) == {"manual", "group"}
    assert (lifted.json()["policy"], lifted.json()["override"]) == ("all", None)
    assert (kept.json()["active"], set(kept.json()["grants"])) == (True, {"group"})
    gone = await boss.delete(f"{root}/coder", params={"evict": "true"})
    assert (gone.json()["active"], gone.json()["handles"]) == (False, [])
    coder = await site.session("coder")
    for path in (f"{root}/coder/backfill", f"/v1/conversations/{lobby}/transcript"):
        answer = await coder.get(path)
        problem(answer, 404, answer.json()["code"])
    ack = await coder.post(f"{root}/coder/ack", json={"sequence": 1})
    problem(ack, 404, "membership_not_found")


@pytest.mark.acceptance("C5", "C7", "C12")
async def test_a_cursor_goes_forward_and_a_page_begins_behind_it(
    boss: httpx.AsyncClient, lobby: str, root: str
) -> None:
    await say(boss, lobby, *"abcde")
    await boss.put(f"{root}/coder", json={})

    async def ack(sequence: Any) -> httpx.Response:
        return await boss.post(f"{root}/coder/ack", json={"sequence": sequence})

    assert await backfill(boss, root, "coder", limit=2) == [1, 2]
    assert (await ack(3)).json() == {
        "conversation": lobby,
        "session_id": "coder",
        "last_read": 3,
    }
    assert (await ack(2)).json()["last_read"] == 3
    assert (await ack(0)).json()["last_read"] == 3
    for wrong in (6, -1, "3", 1.5, None, 2**70):
        problem(await ack(wrong), 400, "invalid_input")
    assert await backfill(boss, root, "coder") == [4, 5]
    await boss.delete(f"{root}/coder")
    await say(boss, lobby, "f")
    await boss.put(f"{root}/coder", json={})
    assert await backfill(boss, root, "coder") == [4, 5, 6]


@pytest.mark.acceptance("A7")
async def test_a_session_reaches_only_itself_and_an_adapter_no_reader(
    site: Site, boss: httpx.AsyncClient, lobby: str, root: str
) -> None:
    for name in ("coder", "other"):
        await boss.put(f"{root}/{name}", json={})
    coder, adapter = await site.session("coder"), await site.adapter()
    deaf = await site.session("coder", "publish")

    assert (await coder.get(f"{root}/coder/backfill")).status_code == 200
    assert (await coder.delete(f"{root}/coder")).status_code == 200
    problem(await coder.get(f"{root}/other/backfill"), 403, "unauthorized")
    problem(await coder.post(f"{root}/other/ack", json={"sequence": 0}), 403, "unauthorized")
    problem(await coder.put(f"{root}/coder", json={}), 403, "unauthorized")
    problem(await coder.get(root), 403, "unauthorized")
    problem(await deaf.get(f"{root}/coder/backfill"), 403, "unauthorized")
    for answer in (
        await adapter.get(root),
        await adapter.get(f"{root}/coder/backfill"),
        await adapter.post(f"{root}/coder/ack", json={"sequence": 0}),
        await adapter.get(f"/v1/conversations/{lobby}/transcript"),
    ):
        problem(answer, 403, "unauthorized")


@pytest.mark.acceptance("K1")
async def test_a_gap_is_told_on_every_page_until_it_is_acknowledged(
    site: Site, boss: httpx.AsyncClient, lobby: str, root: str
) -> None:
    await boss.put(f"{root}/coder", json={})
    await say(boss, lobby, *"abcde")
    await boss.post(f"{root}/coder/ack", json={"sequence": 1})
    await boss.patch(f"/v1/conversations/{lobby}", json={"max_retained_entries": 2})
    await site.line.upkeep.sweep()

    for _ in range(2):
        found = (await boss.get(f"{root}/coder/backfill")).json()
        assert found["gap"] == {"first": 2, "last": 3}
        assert [one["sequence"] for one in found["records"]] == [4, 5]
    await boss.post(f"{root}/coder/ack", json={"sequence": 3})
    assert (await boss.get(f"{root}/coder/backfill")).json()["gap"] is None


async def test_members_are_listed_page_by_page(boss: httpx.AsyncClient, root: str) -> None:
    names = {f"s{number}" for number in range(5)}
    for name in names:
        await boss.put(f"{root}/{name}", json={})

    seen: list[str] = []
    after: int | None = -1
    while after is not None:
        answer = await boss.get(root, params={"after": after, "limit": 2})
        found = msgspec.convert(answer.json(), answers.Members)
        seen += [one.session_id for one in found.members]
        after = found.next

    assert sorted(seen) == sorted(names)


@pytest.mark.parametrize(
    "body",
    [
        {"policy": "some"},
        {"policy": "last_n"},
        {"policy": "last_n", "n": 0},
        {"policy": "last_n", "n": -3},
        {"policy": "last_n", "n": "3"},
        {"policy": "last_n", "n": 2.5},
        {"policy": True},
        {"reason": "group"},
        {"reason": "fate"},
        {"polici": "all"},
    ],
)
async def test_a_policy_that_is_none_is_refused(
    boss: httpx.AsyncClient, root: str, body: dict[str, Any]
) -> None:
    problem(await boss.put(f"{root}/coder", json=body), 400, "invalid_input")
    problem(await boss.get(f"{root}/coder"), 404, "session_not_found")


@pytest.mark.parametrize("name", ["ü ö", "100%", "a%2Fb", "..", "?#&", "a+b"])
async def test_a_session_is_reached_whatever_its_name_is_made_of(
    site: Site, boss: httpx.AsyncClient, lobby: str, root: str, name: str
) -> None:
    path = quote(name, safe="").replace(".", "%2E")
    joined = await boss.put(f"{root}/{path}", json={})

    assert joined.json()["session_id"] == name
    assert (await boss.get(f"/v1/sessions/{path}")).json()["session_id"] == name
    own = await site.session(name)
    assert (await own.get(f"{root}/{path}/backfill")).status_code == 200
    assert (await boss.get(f"{root}/%ff")).status_code == 400
