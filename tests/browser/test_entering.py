"""Logging in and out, a token that holds no more, and the reference that needs nobody."""

from __future__ import annotations

import httpx
from playwright.async_api import expect

from tests.browser import scene
from tests.browser.conftest import Desk


async def test_a_wrong_token_is_refused_in_words_and_the_right_one_opens(desk: Desk) -> None:
    page = await desk.somebody()
    await page.goto(desk.url)

    await page.get_by_label("Controller token").fill("tl_wrong")
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("alert")).to_contain_text("No token that holds")
    await desk.enter(page)

    await expect(page.get_by_role("heading", name="No room yet")).to_be_visible()
    assert desk.served.token not in await page.content()


async def test_a_login_survives_a_reload_and_a_restart_and_ends_with_logging_out(
    desk: Desk,
) -> None:
    page = await desk.operator("#/sessions")
    await page.reload()
    await expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    desk.served.kill()
    desk.served.start()
    await page.reload()
    await expect(page.get_by_role("heading", name="Sessions")).to_be_visible()

    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_label("Controller token")).to_be_focused()
    await page.reload()

    await expect(page.get_by_label("Controller token")).to_be_visible()


async def test_a_token_revoked_while_the_page_is_open_closes_it(desk: Desk) -> None:
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    made = await scene.done(await desk.boss.post("/v1/tokens", json={"kind": "controller"}))
    page = await desk.somebody()
    await page.goto(f"{desk.url}/#/rooms/{room}")
    await desk.enter(page, made["token"])
    await desk.say(room, "a secret of the room")
    await expect(page.get_by_text("a secret of the room").first).to_be_visible()

    await scene.done(await desk.boss.delete(f"/v1/tokens/{made['id']}"))

    await expect(page.get_by_role("alert")).to_contain_text("holds no more")
    await expect(page.get_by_text("a secret of the room")).to_have_count(0)


async def test_a_token_is_made_shown_once_and_revoked_on_the_page(desk: Desk) -> None:
    page = await desk.operator("#/tokens")

    await page.get_by_role("button", name="New token").click()
    await page.get_by_role("textbox", name="For").fill("atlas")
    await page.get_by_role("button", name="Make token").click()
    secret = await page.locator("output.secret").inner_text()
    await page.get_by_role("button", name="Done").click()
    bearer = {"Authorization": f"Bearer {secret}"}
    async with httpx.AsyncClient(base_url=desk.url, headers=bearer) as atlas:
        assert (await atlas.get("/v1/sessions/atlas")).status_code == 200
        assert secret not in await page.content()
        line = page.get_by_role("row").filter(has_text="atlas")
        await line.get_by_role("button", name="Revoke").click()
        await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        await expect(line.get_by_text("revoked")).to_be_visible()
        assert (await atlas.get("/v1/sessions/atlas")).status_code == 401


async def test_the_reference_names_every_route_and_every_refusal_without_a_token(
    desk: Desk,
) -> None:
    """The desk fails every test in which a page asks for anything from elsewhere."""
    page = await desk.somebody()
    schema = (await desk.boss.get("/openapi.json")).json()
    count = sum(len(methods) for methods in schema["paths"].values())

    await page.goto(f"{desk.url}/docs#error-not_found")
    await expect(page.locator(".operation")).to_have_count(count)
    await expect(page.locator("#error-not_found")).to_be_in_viewport()
    await expect(page.locator("#error-not_found")).to_contain_text("There is no such thing")
    await page.goto(f"{desk.url}/docs#post-v1-conversations")
    await expect(page.locator("#post-v1-conversations .inside")).to_contain_text("account_id")
    await page.get_by_label("Filter").fill("hydration_pending")

    await expect(page.locator("#error-hydration_pending")).to_be_visible()
    await expect(page.locator("#error-not_found")).to_be_hidden()


async def test_documents_and_files_say_how_they_may_be_used(desk: Desk) -> None:
    async with httpx.AsyncClient(base_url=desk.url) as anybody:
        for path in ("/", "/chat", "/chat/some-link", "/docs"):
            answer = await anybody.get(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["x-content-type-options"] == "nosniff"
            policy = answer.headers["content-security-policy"].split("; ")
            assert policy[0] == "default-src 'none'"
            assert "frame-ancestors 'none'" in policy
            assert not any("unsafe" in one or "http" in one or "*" in one for one in policy)
        script = await anybody.get("/assets/dom.js")
        tag = script.headers["etag"]
        again = await anybody.get("/assets/dom.js", headers={"If-None-Match": tag})
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        for foreign in ("page.py", "index.html", "..%2Fpage.py", "../server.py", ".", "nothing.js"):
            assert (await anybody.get(f"/assets/{foreign}")).status_code == 404
