"""Search over HTTP: what the caller may read, newest first."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from tests.http.conftest import LOBBY, Site, message, problem
from threadline.entrypoints.http import answers


async def say(client: httpx.AsyncClient, conversation: str, *texts: str) -> None:
    """Append messages, one after the other."""
    for text in texts:
        path = f"/v1/conversations/{conversation}/transcript"
        await client.post(path, json=message(text))


async def find(client: httpx.AsyncClient, q: str, **params: Any) -> list[str]:
    """The texts of the hits."""
    answer = await client.get("/v1/search", params={"q": q} | params)
    assert answer.status_code == 200, answer.text
    return [one.record.text for one in msgspec.convert(answer.json(), answers.Hits).hits]


async def test_a_session_finds_what_it_may_read_and_nothing_else(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    other = (await boss.post("/v1/conversations", json=LOBBY | {"conversation_id": "b"})).json()[
        "id"
    ]
    await say(boss, lobby, "early apple")
    await boss.put(f"/v1/conversations/{lobby}/members/coder", json={"policy": "since_join"})
    await say(boss, lobby, "late apple pie", "pear")
    await say(boss, other, "foreign apple")
    await site.line.search.catch_up()
    coder, adapter = await site.session("coder"), await site.adapter()
    tenant = await site.controller("tenant")

    assert await find(coder, "apple") == ["late apple pie"]
    assert await find(coder, "pie apple", session="coder") == ["late apple pie"]
    assert await find(boss, "APPLE", session="coder") == ["late apple pie"]
    assert set(await find(boss, "apple")) == {"early apple", "late apple pie", "foreign apple"}
    assert await find(tenant, "apple") == []
    problem(await coder.get("/v1/search?q=apple&session=boss"), 403, "unauthorized")
    problem(await adapter.get("/v1/search?q=apple"), 403, "unauthorized")
    problem(await boss.get("/v1/search"), 400, "invalid_input")
    await boss.delete(f"/v1/conversations/{lobby}/members/coder")
    assert await find(coder, "apple") == []


async def test_hits_come_page_by_page(site: Site, boss: httpx.AsyncClient, lobby: str) -> None:
    texts = [f"apple {number}" for number in range(7)]
    await say(boss, lobby, *texts)
    await site.line.search.catch_up()

    seen: list[str] = []
    params: dict[str, Any] = {"q": "apple", "limit": 3}
    while True:
        found = (await boss.get("/v1/search", params=params)).json()
        seen += [hit["record"]["text"] for hit in found["hits"]]
        if found["next"] is None:
            break
        params["after"] = found["next"]

    assert seen == texts[::-1]
    problem(await boss.get("/v1/search?q=apple&after=x"), 400, "invalid_input")


@pytest.mark.parametrize(
    "q", ['"', "a*", "NEAR(", "-", "'; drop table records;", "(", "%", "\x00", "x" * 5_000]
)
async def test_what_is_searched_for_is_words_and_no_language(
    boss: httpx.AsyncClient, lobby: str, q: str
) -> None:
    answer = await boss.get("/v1/search", params={"q": q})

    assert answer.status_code in (200, 400), answer.text
