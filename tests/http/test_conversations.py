"""Conversations and their transcripts over HTTP: ensure, list, change, append, page, import."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from tests.http.conftest import LOBBY, Site, message, problem
from threadline.entrypoints.http import answers

LIST = "/v1/conversations"


async def fill(client: httpx.AsyncClient, conversation: str, count: int) -> None:
    """Messages `1` to `count`."""
    for number in range(1, count + 1):
        answer = await client.post(f"{LIST}/{conversation}/transcript", json=message(str(number)))
        assert answer.status_code == 200, answer.text


async def page(client: httpx.AsyncClient, conversation: str, **params: Any) -> dict[str, Any]:
    """A page of a transcript, held to its shape."""
    answer = await client.get(f"{LIST}/{conversation}/transcript", params=params)
    assert answer.status_code == 200, answer.text
    msgspec.convert(answer.json(), answers.Transcript)
    found: dict[str, Any] = answer.json()
    return found


def sequences(found: dict[str, Any]) -> list[int]:
    """The sequences of a page."""
    return [record["sequence"] for record in found["records"]]


@pytest.mark.acceptance("A2", "A5")
async def test_a_conversation_is_made_known_once(boss: httpx.AsyncClient) -> None:
    first = await boss.post(LIST, json=LOBBY | {"title": "Lobby", "metadata": {"a": 1, "b": 2}})
    again = await boss.post(LIST, json=LOBBY | {"provider": "WEB", "metadata": {"b": None}})
    other = await boss.post(LIST, json=LOBBY | {"conversation_id": "Lobby"})

    made = msgspec.convert(again.json(), answers.Conversation)
    assert first.json()["id"] == made.id != other.json()["id"]
    assert quote(made.id, safe="") == made.id
    assert (made.ref.provider, made.ref.kind, made.ref.scope_id) == ("web", "room", "default")
    assert (made.text, made.title, made.metadata) == ("web/office/lobby", "Lobby", {"a": 1})
    assert (made.next_sequence, made.earliest_sequence, made.lowest_sequence) == (1, 1, 1)
    assert (made.hydration, made.members) == ("live_only", 0)


@pytest.mark.acceptance("A3", "A4")
@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"kind": "dm"}, 409, "kind_mismatch"),
        ({"kind": "cellar"}, 400, "invalid_input"),
        ({"provider": " "}, 400, "invalid_conversation"),
        ({"conversation_id": ""}, 400, "invalid_conversation"),
        ({"account_id": 7}, 400, "invalid_input"),
        ({"account": "office"}, 400, "invalid_input"),
        ({"scope_id": "elsewhere"}, 403, "unauthorized"),
        ({"metadata": []}, 400, "invalid_input"),
        ({"metadata": {"a": "x" * 70_000}}, 413, "too_large"),
    ],
)
async def test_what_is_no_conversation_is_refused_and_names_why(
    boss: httpx.AsyncClient, lobby: str, change: dict[str, Any], status: int, code: str
) -> None:
    found = problem(await boss.post(LIST, json=LOBBY | change), status, code)

    [field] = change
    assert field in found["detail"] or code in ("kind_mismatch", "unauthorized") or status == 400
    assert (await boss.get(LIST)).json()["conversations"][0]["kind"] == "room"


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"provider": "web"', "application/json", 400),
        (b"[]", "application/json", 400),
        (b"", "application/json", 400),
        (b'"text"', "application/json", 400),
        (b'{"provider": "\xff"}', "application/json", 400),
        (b"provider=web", "application/x-www-form-urlencoded", 415),
        (b"{}", "text/plain", 415),
    ],
)
async def test_a_body_that_is_no_json_object_is_refused(
    boss: httpx.AsyncClient, body: bytes, kind: str, status: int
) -> None:
    answer = await boss.post(LIST, content=body, headers={"Content-Type": kind})

    problem(answer, status, "unsupported_media_type" if status == 415 else "invalid_input")


async def test_unknown_fields_and_parameters_are_refused_by_name(
    boss: httpx.AsyncClient, lobby: str
) -> None:
    cases = [
        (await boss.post(LIST, json=LOBBY | {"titel": "x"}), "titel"),
        (await boss.get(LIST, params={"limti": 5}), "limti"),
        (await boss.get(f"{LIST}/{lobby}/transcript", params={"limit": "five"}), "limit"),
        (await boss.get(f"{LIST}/{lobby}/transcript", params={"limit": "null"}), "limit"),
        (await boss.post(f"{LIST}/{lobby}/transcript", json=message("a", txt="b")), "txt"),
        (
            await boss.post(
                f"{LIST}/{lobby}/transcript", json={"text": "a", "actor": {"id": "a", "nam": ""}}
            ),
            "nam",
        ),
    ]

    for answer, name in cases:
        assert name in problem(answer, 400, "invalid_input")["detail"]


async def test_conversations_are_listed_by_address_page_by_page(
    site: Site, boss: httpx.AsyncClient
) -> None:
    names = [f"c{number}" for number in range(5)]
    for name in reversed(names):
        await boss.post(LIST, json=LOBBY | {"conversation_id": name})
    other = await site.controller("tenant")
    await other.post(LIST, json=LOBBY)

    seen: list[str] = []
    after = ""
    while True:
        answer = await boss.get(LIST, params={"limit": 2, "after": after})
        found = msgspec.convert(answer.json(), answers.Conversations)
        seen += [one.ref.conversation_id for one in found.conversations]
        if found.next is None:
            break
        after = found.next
    [one] = (await boss.get(LIST, params={"ref": "web/office/c3"})).json()["conversations"]

    assert seen == names
    assert one["ref"]["conversation_id"] == "c3"
    problem(await boss.get(LIST, params={"ref": "web/office/none"}), 404, "not_found")
    problem(await boss.get(LIST, params={"ref": "web/office"}), 400, "invalid_conversation")


@pytest.mark.acceptance("A6")
async def test_what_lies_in_another_scope_or_account_is_not_there(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """By id whoever asks is told `not_found`, by ref `unauthorized` (law 5)."""
    tenant, foreign = await site.controller("tenant"), await site.adapter("web", "shop")
    wide = await site.controller(None)

    for client in (tenant, foreign):
        problem(await client.get(f"{LIST}/{lobby}"), 404, "not_found")
        said = await client.post(f"{LIST}/{lobby}/transcript", json=message("a"))
        problem(said, 404, "not_found")
        begun = await client.post(f"{LIST}/{lobby}/hydration", json={"action": "begin"})
        problem(begun, 404, "not_found")
    problem(await tenant.get(f"{LIST}/{lobby}/transcript"), 404, "not_found")
    problem(await tenant.patch(f"{LIST}/{lobby}", json={"title": "x"}), 404, "not_found")
    problem(await foreign.post(LIST, json=LOBBY), 403, "unauthorized")
    problem(await foreign.patch(f"{LIST}/{lobby}", json={}), 403, "unauthorized")
    problem(await tenant.get(LIST, params={"ref": "web/office/lobby"}), 403, "unauthorized")
    assert (await wide.get(f"{LIST}/{lobby}")).status_code == 200
    inside = await wide.get(LIST, params={"scope_id": "tenant"})
    assert inside.json() == {"conversations": [], "next": None}


async def test_what_is_left_out_stays_and_null_lifts_a_bound(
    boss: httpx.AsyncClient, lobby: str
) -> None:
    path = f"{LIST}/{lobby}"
    await boss.patch(path, json={"max_retained_entries": 5, "max_age": 60, "metadata": {"a": 1}})
    changed = (await boss.patch(path, json={"title": "Lobby"})).json()
    lifted = (await boss.patch(path, json={"max_age": None, "metadata": {"a": None}})).json()

    assert (changed["title"], changed["max_retained_entries"], changed["max_age"]) == (
        "Lobby",
        5,
        60.0,
    )
    assert (lifted["max_retained_entries"], lifted["max_age"], lifted["metadata"]) == (5, None, {})
    for wrong in (
        {"max_retained_entries": -1},
        {"max_age": -1},
        {"max_age": 1e300},
        {"max_age": 1e11},
    ):
        problem(await boss.patch(path, json=wrong), 400, "invalid_input")


@pytest.mark.acceptance("B1", "B2", "B10")
async def test_messages_are_recorded_in_order_and_an_id_once(
    boss: httpx.AsyncClient, lobby: str
) -> None:
    path = f"{LIST}/{lobby}/transcript"
    exact = "  two\r\n\t\u00e9e\u0301 \U0001f469\u200d\U0001f680 "
    first = await boss.post(path, json=message("one", message_id="m1", metadata={"k": [1, None]}))
    second = await boss.post(path, json=message(exact, sent_at="2026-01-02T03:04:05+02:00"))
    again = await boss.post(path, json=message("changed", message_id="m1"))

    taken = msgspec.convert(first.json(), answers.Taken)
    assert (taken.sequence, taken.duplicate, taken.held, taken.readers) == (1, False, False, 0)
    assert (second.json()["sequence"], second.json()["record"]["text"]) == (2, exact)
    assert again.json()["duplicate"] is True
    assert again.json()["record"] == first.json()["record"]
    found = await page(boss, lobby, after=0)
    assert [record["text"] for record in found["records"]] == ["one", exact]
    assert found["records"][1]["sent_at"] == "2026-01-02T01:04:05Z"


@pytest.mark.acceptance("B10")
@pytest.mark.parametrize(
    ("body", "status", "code", "word"),
    [
        (message("a\x00b"), 400, "invalid_input", "NUL"),
        (message("x" * (4 * 1024 * 1024 + 1)), 413, "too_large", "text"),
        ({"text": "a"}, 400, "invalid_input", "actor"),
        (message("a", direction="sideways"), 400, "invalid_input", "direction"),
        (message("a", event="party"), 400, "invalid_input", "event"),
        (message("a", sent_at="yesterday"), 400, "invalid_input", "sent_at"),
        (message("a", sent_at="2026-01-02T03:04:05"), 400, "invalid_input", "sent_at"),
        (message("a", attachments=[{"size": "big"}]), 400, "invalid_input", "size"),
        (message("a", event="edit"), 400, "invalid_input", "revises"),
    ],
)
async def test_what_cannot_be_recorded_is_refused_and_nothing_is_written(
    boss: httpx.AsyncClient, lobby: str, body: dict[str, Any], status: int, code: str, word: str
) -> None:
    answer = await boss.post(f"{LIST}/{lobby}/transcript", json=body)

    assert word.casefold() in problem(answer, status, code)["detail"].casefold()
    assert (await boss.get(f"{LIST}/{lobby}")).json()["next_sequence"] == 1


@pytest.mark.acceptance("B11", "B12")
async def test_a_page_has_a_hundred_records_and_at_most_five_hundred(
    boss: httpx.AsyncClient, site: Site, lobby: str
) -> None:
    """0 is an ordinary sequence; cursors are exclusive; absent is the end of the list."""
    adapter = await site.adapter()
    place = {"conversation": {"conversation_id": "lobby"}}
    batch = {"messages": [message(str(n), **place) for n in range(1, 511)]}
    assert (await adapter.post("/v1/inbound", json=batch)).status_code == 200

    for limit, size in ((None, 100), (0, 100), (-5, 100), (7, 7), (500, 500), (9_999, 500)):
        params = {} if limit is None else {"limit": limit}
        found = await page(boss, lobby, **params)
        assert sequences(found) == list(range(1, size + 1))
        assert (found["next"], found["head"], found["earliest"]) == (size, 510, 1)
    assert sequences(await page(boss, lobby, after=0, limit=2)) == [1, 2]
    assert sequences(await page(boss, lobby, after=508)) == [509, 510]
    assert sequences(await page(boss, lobby, before=3)) == [1, 2]
    assert sequences(await page(boss, lobby, order="desc", limit=2)) == [510, 509]
    assert sequences(await page(boss, lobby, order="desc", before=3)) == [2, 1]
    assert sequences(await page(boss, lobby, after=3, before=5)) == [4]
    whole: list[int] = []
    after: int | None = 0
    while after is not None:
        found = await page(boss, lobby, after=after, limit=99)
        whole += sequences(found)
        after = found["next"]
    assert whole == list(range(1, 511))
    for wrong in ({"order": "up"}, {"view": "tree"}, {"after": 2**63}, {"before": -(2**70)}):
        answer = await boss.get(f"{LIST}/{lobby}/transcript", params=wrong)
        problem(answer, 400, "invalid_input")


@pytest.mark.acceptance("I1", "I2", "I6")
async def test_the_view_of_messages_folds_edits_and_deletes(
    boss: httpx.AsyncClient, lobby: str
) -> None:
    path = f"{LIST}/{lobby}/transcript"
    assert (await page(boss, lobby, view="messages"))["messages"] == []
    await boss.post(path, json=message("one", message_id="m1"))
    await boss.post(path, json=message("secret", message_id="m2"))
    await boss.post(path, json=message("uno", event="edit", revises="m1"))
    await boss.post(path, json=message("", event="delete", revises="m2"))
    forged = {**message("mine", event="edit", revises="m1"), "actor": {"id": "eve"}}
    await boss.post(path, json=forged)

    found = await page(boss, lobby, view="messages")

    assert [
        (one["record"]["text"], one["revision"], one["deleted"]) for one in found["messages"]
    ] == [
        ("uno", 1, False),
        ("", 0, True),
    ]
    assert "secret" not in (await boss.get(path)).text
    assert [record["refused"] is None for record in found["records"]] == [True] * 4 + [False]


@pytest.mark.acceptance("D1", "D2", "D4", "D5", "D6")
async def test_an_import_goes_through_a_window_over_http(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """Live traffic waits, a caller is told so, and everything comes after it in order."""
    path = f"{LIST}/{lobby}/hydration"
    adapter = await site.adapter()
    opened = await adapter.post(path, json={"action": "begin", "metadata": {"from": "export"}})
    window = msgspec.convert(opened.json(), answers.Window)
    assert (window.mode, window.hydration) == ("gated", "pending")
    assert (await adapter.post(path, json={"action": "begin"})).json()["token"] == window.token
    problem(await boss.post(path, json={"action": "begin"}), 409, "hydration_pending")

    direct = await boss.post(f"{LIST}/{lobby}/transcript", json=message("direct"))
    problem(direct, 409, "hydration_pending")
    heard = message("live", message_id="l1", conversation={"conversation_id": "lobby"})
    held = (await adapter.post("/v1/inbound", json=heard)).json()
    again = (await adapter.post("/v1/inbound", json=heard)).json()
    assert (held["record"], held["held"], held["duplicate"]) == (None, True, False)
    assert (again["held"], again["duplicate"]) == (True, True)
    stale = {"token": "other", "records": [message("old")]}
    answer = await adapter.post(f"{path}/records", json=stale)
    problem(answer, 409, answer.json()["code"])
    history = {"token": window.token, "records": [message("old", message_id="h1"), message("b")]}
    brought = await adapter.post(f"{path}/records", json=history)
    assert [one["sequence"] for one in brought.json()["results"]] == [1, 2]
    failed = await adapter.post(
        path, json={"action": "fail", "token": window.token, "reason": "no more"}
    )

    assert failed.json() == {"hydration": "failed", "reason": "no more"}
    found = await page(boss, lobby)
    assert [record["text"] for record in found["records"]] == ["old", "b", "live"]
    assert (found["history"], found["reason"]) == ("partial", "no more")
    late = await adapter.post(path, json={"action": "complete", "token": window.token})
    problem(late, 409, late.json()["code"])
    resumed = (await adapter.post(path, json={"action": "begin"})).json()
    assert resumed["token"] != window.token
    for body, word in (
        ({"action": "complete"}, "token"),
        ({"action": "x", "token": "t"}, "action"),
    ):
        assert word in problem(await adapter.post(path, json=body), 400, "invalid_input")["detail"]


@pytest.mark.acceptance("D8")
async def test_history_in_front_counts_down_over_http(boss: httpx.AsyncClient, lobby: str) -> None:
    await fill(boss, lobby, 3)
    path = f"{LIST}/{lobby}/hydration"
    token = (await boss.post(path, json={"action": "begin", "mode": "prepending"})).json()["token"]
    records = {"token": token, "records": [message("b", message_id="b"), message("a")]}
    await boss.post(f"{path}/records", json=records)
    await boss.post(path, json={"action": "complete", "token": token})

    found = await page(boss, lobby, after=-2)
    behind = await page(boss, lobby, after=-1)

    assert [(one["sequence"], one["text"]) for one in found["records"]][:3] == [
        (-1, "a"),
        (0, "b"),
        (1, "1"),
    ]
    assert sequences(behind) == [0, 1, 2, 3]
    assert sequences(await page(boss, lobby, after=0)) == [1, 2, 3]
    assert found["history"] == "complete"
