"""The page's login: a token once, then a cookie that no other page can use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.http.conftest import Served, Site, message, problem
from threadline.core.model import Controller
from threadline.entrypoints.http.buckets import Buckets, GuestLimits
from threadline.testing.clock import StillClock


async def token(site: Site, kind: str = "controller", **more: Any) -> Any:
    """A new token."""
    return await site.line.tokens.create(kind, caller=Controller(None), **more)


async def logged_in(site: Site, secret: str) -> httpx.AsyncClient:
    """The page after its login."""
    page = site.client()
    answer = await page.post("/login", json={"token": secret})
    assert answer.status_code == 200, answer.text
    page.headers["X-CSRF-Token"] = answer.json()["csrf"]
    return page


@pytest.fixture
async def page(site: Site) -> httpx.AsyncClient:
    """A page of a controller."""
    return await logged_in(site, (await token(site)).token)


@pytest.mark.acceptance("L1")
async def test_a_login_is_as_good_as_its_token(site: Site, page: httpx.AsyncClient) -> None:
    """It reads, writes and follows; a reload finds it again."""
    ref = {"provider": "web", "account_id": "office", "conversation_id": "lobby"}
    lobby = (await page.post("/v1/conversations", json=ref)).json()["id"]
    said = await page.post(f"/v1/conversations/{lobby}/transcript", json=message("hello"))
    found = (await page.get("/login")).json()

    assert said.status_code == 200
    assert found == {
        "csrf": page.headers["X-CSRF-Token"],
        "kind": "controller",
        "scope_id": "default",
        "expires_at": "2026-01-08T00:00:00Z",
    }
    path = f"/v1/conversations/{lobby}/stream"
    async with site.stream(page, path, params={"after": 0}) as events:
        assert await events.records(1) == ["hello"]


async def test_the_cookie_is_for_no_script_and_no_other_site(site: Site) -> None:
    """`Secure` where people are on https; the token is not in it."""
    made = await token(site)
    answer = await site.client().post("/login", json={"token": made.token})
    site.app.state.settings = replace(site.app.state.settings, public_url="https://127.0.0.1")
    secure = await site.client().post("/login", json={"token": made.token})

    kept = {one.strip().lower() for one in answer.headers["set-cookie"].split(";")[1:]}
    assert kept == {"httponly", "samesite=strict", "path=/", f"max-age={7 * 24 * 3600}"}
    assert "; secure" in secure.headers["set-cookie"].lower()
    assert made.token not in answer.headers["set-cookie"] + answer.text
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.acceptance("L5")
@pytest.mark.parametrize("said", [None, "", "0" * 32, "ж"])
async def test_what_changes_something_repeats_the_csrf_token(
    page: httpx.AsyncClient, said: str | None
) -> None:
    """A cookie alone drives nothing; reading needs no repeating."""
    ref = {"provider": "web", "account_id": "office", "conversation_id": "lobby"}
    del page.headers["X-CSRF-Token"]
    if said is not None:
        page.headers.update({b"X-CSRF-Token": said.encode()})

    problem(await page.post("/v1/conversations", json=ref), 403, "csrf_mismatch")
    problem(await page.delete("/login"), 403, "csrf_mismatch")
    assert (await page.get("/v1/conversations")).json()["conversations"] == []
    assert (await page.get("/login")).status_code == 200


@pytest.mark.acceptance("L1")
async def test_only_a_controllers_token_that_holds_logs_in(site: Site) -> None:
    """And only a login is a cookie's value: a token in the cookie is none."""
    session = await token(site, "session", session="coder")
    adapter = await token(site, "adapter", provider="web", account_id="office")
    gone = await token(site)
    await site.line.tokens.revoke(gone.id, caller=Controller(None))

    for made in (session, adapter):
        answer = await site.client().post("/login", json={"token": made.token})
        problem(answer, 403, "unauthorized")
    for secret in (gone.token, "tl_c_guess", "", "x" * 500):
        answer = await site.client().post("/login", json={"token": secret})
        problem(answer, 401, "unauthenticated")
        assert "set-cookie" not in answer.headers
    held = await token(site)
    forged = site.client(Cookie=f"threadline_page={held.token}")
    problem(await forged.get("/login"), 401, "unauthenticated")
    problem(await site.client().get("/login"), 401, "unauthenticated")


async def test_wrong_tokens_are_counted_and_right_ones_are_not(site: Site) -> None:
    """Per address; the answer says when to come again."""
    made = await token(site)
    site.app.state.buckets = Buckets(replace(GuestLimits(), entries=2))

    for _ in range(3):
        await logged_in(site, made.token)
    for _ in range(2):
        answer = await site.client().post("/login", json={"token": "guess"})
        problem(answer, 401, "unauthenticated")
    answer = await site.client().post("/login", json={"token": made.token})

    problem(answer, 429, "limited")
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.acceptance("L1")
async def test_a_token_wins_over_a_cookie(site: Site, page: httpx.AsyncClient) -> None:
    """Whoever sends one means it, and needs no CSRF token."""
    session = await token(site, "session", session="coder")
    both = {"Authorization": f"Bearer {session.token}"}
    problem(await page.get("/v1/conversations", headers=both), 403, "unauthorized")
    wrong = {"Authorization": "Bearer tl_c_guess"}
    problem(await page.get("/v1/conversations", headers=wrong), 401, "unauthenticated")
    del page.headers["X-CSRF-Token"]
    right = {"Authorization": f"Bearer {(await token(site)).token}"}
    made = await page.post("/v1/sessions", json={"session_id": "coder"}, headers=right)
    assert made.status_code == 200


async def test_logging_out_ends_the_login_and_its_streams(site: Site) -> None:
    """The token stays as it is."""
    made = await token(site)
    page, other = await logged_in(site, made.token), await logged_in(site, made.token)
    ref = {"provider": "web", "account_id": "office", "conversation_id": "lobby"}
    lobby = (await page.post("/v1/conversations", json=ref)).json()["id"]
    cookie = {"Cookie": f"threadline_page={page.cookies['threadline_page']}"}

    async with site.stream(page, f"/v1/conversations/{lobby}/stream") as events:
        assert (await page.delete("/login")).status_code == 200
        last = await events.next()

    assert (last.name, last.data) == ("end", {"reason": "revoked"})
    assert "threadline_page" not in page.cookies
    problem(await site.client(**cookie).get("/login"), 401, "unauthenticated")
    assert (await other.get("/login")).status_code == 200
    bearer = site.client(made.token)
    assert (await bearer.get("/v1/conversations")).status_code == 200
    assert (await bearer.delete("/login")).status_code == 200


@pytest.mark.acceptance("L1")
async def test_revoking_the_token_ends_its_logins_and_their_streams(site: Site) -> None:
    """Also where another process revoked it: the doorman looks twice a second."""
    made = await token(site)
    page = await logged_in(site, made.token)
    ref = {"provider": "web", "account_id": "office", "conversation_id": "lobby"}
    lobby = (await page.post("/v1/conversations", json=ref)).json()["id"]

    async with site.stream(page, f"/v1/conversations/{lobby}/stream") as events:
        await site.line.tokens.revoke(made.id, caller=Controller(None))
        last = await events.next()

    assert (last.name, last.data) == ("end", {"reason": "revoked"})
    problem(await page.get("/login"), 401, "unauthenticated")


async def test_a_login_is_over_after_a_week_or_with_its_token(
    site: Site, clock: StillClock
) -> None:
    """By the store's clock; upkeep forgets it."""
    short = await token(site, expires_at=clock.at.replace(hour=1))
    page = await logged_in(site, short.token)
    other = await logged_in(site, (await token(site)).token)
    assert (await page.get("/login")).json()["expires_at"] == "2026-01-01T01:00:00Z"
    await site.tidied()

    clock.move(hours=2)
    site.app.state.doorman.forget()
    problem(await page.get("/login"), 401, "unauthenticated")
    assert (await other.get("/login")).status_code == 200
    clock.move(days=7)
    site.app.state.doorman.forget()
    problem(await other.get("/login"), 401, "unauthenticated")
    assert (await site.line.upkeep.round()).guests == 2
    assert (await site.line.upkeep.round()).guests == 0


def test_logins_and_guests_outlive_a_killed_server(served: Served) -> None:
    """Their cookies are in the store, as hashes; the CSRF token is the same as before."""
    ref = {"provider": "web", "account_id": "office", "conversation_id": "lobby"}
    with served.client() as boss:
        lobby = boss.post("/v1/conversations", json=ref).json()["id"]
        path = boss.post(f"/v1/conversations/{lobby}/links", json={}).json()["url_path"]
    with httpx.Client(base_url=served.url) as page:
        first = page.post("/login", json={"token": served.token}).json()
        guest = page.post(path, json={"name": "Ada"}).json()

        served.kill()
        served.start()

        assert page.get("/login").json() == first
        assert page.get("/chat/me").json() == guest


def test_the_command_makes_links_beside_a_running_server(served: Served) -> None:
    """It prints where the room opens, lists and revokes."""
    ref = {"provider": "web", "account_id": "office", "conversation_id": "lobby"}
    served.settings["THREADLINE_PUBLIC_URL"] = "https://chat.example/"
    with served.client() as boss:
        boss.post("/v1/conversations", json=ref)
        made = served.command("link", "web/office/lobby", "--days", "90")
        url = made.stdout.splitlines()[0]
        assert url.startswith("https://chat.example/chat/")
        path = url.removeprefix("https://chat.example")
        with httpx.Client(base_url=served.url) as guest:
            assert guest.post(path, json={"name": "Ada"}).status_code == 200
            number = made.stderr.split()[-1]
            assert number in served.command("link", "web/office/lobby", "--list").stdout
            assert served.command("link", "--revoke", number).returncode == 0
            assert "revoked" in served.command("link", "web/office/lobby", "--list").stdout
    assert served.command("link").returncode == 2
    assert served.command("link", "web/office/lobby", "--policy", "some").returncode == 2
