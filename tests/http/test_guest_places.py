"""A guest's place in its browser: its name, its cookie, and which of several it is."""

from __future__ import annotations

import httpx
import pytest

from tests.http.conftest import Site, problem
from tests.http.guests import came_in, link


@pytest.mark.acceptance("L2")
async def test_no_chain_of_new_names_leads_to_somebody_elses(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """Each is taken for the one before, and the last for the handle: `Η` and `η` are one letter of
    Greek, drawn like H and like n."""
    seat = f"/v1/conversations/{lobby}/group/participants/nora"
    await boss.put(seat, json={"session_id": "s1"})
    path = (await link(boss, lobby))["url_path"]
    guest = await came_in(site, path, "Hora")

    for name in ("Ηora", "ηora", "nora"):
        problem(await guest.client.post(path, json={"name": name}), 409, "name_taken")

    same = await guest.client.post(path, json={"name": "HORA"})
    assert (same.status_code, same.json()["actor_id"]) == (200, guest.me["actor_id"])


@pytest.mark.parametrize("word", ["a/b", "ü", "x" * 5000, "", "a=b", "[]", "a\tb"])
async def test_a_word_that_is_no_guests_is_nobody(
    site: Site, boss: httpx.AsyncClient, lobby: str, word: str
) -> None:
    """Whatever a browser keeps under it, nothing is read, said or left there."""
    guest = await came_in(site, (await link(boss, lobby))["url_path"], "Ada")
    secret = guest.client.cookies[guest.cookie]
    kept = {
        b"Cookie": f"threadline_guest_{word}={secret}".encode(),
        b"X-CSRF-Token": guest.me["csrf"].encode(),
    }
    guest.client.cookies.clear()
    for method, where in (("GET", "/chat/me"), ("GET", "/chat/messages"), ("DELETE", "/chat/me")):
        for which in ({"guest": word}, {}):
            answer = await guest.client.request(method, where, params=which, headers=kept)
            problem(answer, 401, "unauthenticated")
