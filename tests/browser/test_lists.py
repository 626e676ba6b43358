"""Lists stay where they were read to, names are names, and nothing is said that did not happen."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from playwright.async_api import Page, Route, expect

from tests.browser import scene
from tests.browser.conftest import Desk
from tests.browser.test_chat import join, room_link

TWO = (
    "each was refused: telegram: person 0000000000001 said stop; discord: person 0000000000002 too"
)


async def plans(desk: Desk, many: int) -> None:
    """So many sends that wait for tomorrow, of `atlas`, into the lobby."""
    lobby = await scene.ensure(desk.boss, "lobby", "Lobby")
    await scene.done(await desk.boss.put("/v1/sessions/atlas/accounts/web/chat"))
    on = {"conversation": lobby, "state": "on", "why": "They asked."}
    await scene.done(await desk.boss.put("/v1/consent", json=on))
    at = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    for number in range(many):
        body = {"session_id": "atlas", "to": "web/chat/lobby", "text": f"{number}", "at": at}
        await scene.done(await desk.boss.post("/v1/send", json=body))


async def test_a_list_that_was_read_on_stays_read_when_it_is_asked_for_again(desk: Desk) -> None:
    """The page asks again every few seconds, and whoever reads the end is not thrown back."""
    await plans(desk, 103)
    page = await desk.operator("#/sends")
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(100)
    await page.get_by_role("button", name="Show more").click()
    await expect(rows).to_have_count(103)
    await page.locator("h1").click()
    async with page.expect_response(lambda one: "/v1/sends?" in one.url):
        pass
    async with page.expect_response(lambda one: "/v1/sends?" in one.url):
        pass
    await expect(rows).to_have_count(103)
    await page.get_by_role("button", name="Take back").last.click()
    await page.get_by_role("dialog").get_by_role("button", name="Take back").click()
    await expect(page.locator("tbody .state.cancelled")).to_have_count(1)
    await expect(rows).to_have_count(103)


async def test_an_answer_that_came_too_late_is_not_taken_for_the_newer_one(desk: Desk) -> None:
    """Two filters one after the other, and the first one's answer is the slower."""
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    await scene.done(
        await desk.boss.put(f"/v1/conversations/{room}/binding", json={"session_id": "atlas"})
    )
    for text in ("hello", "x" * 100_001):
        body = {"session_id": "atlas", "text": text}
        await desk.boss.post(f"/v1/conversations/{room}/messages", json=body)
    page = await desk.operator("#/deliveries")
    await expect(page.locator("tbody tr")).to_have_count(2)
    late: list[Route] = []
    held = asyncio.Event()

    async def hold(route: Route) -> None:
        late.append(route)
        held.set()

    await page.route("**/v1/deliveries?*state=failed*", hold)
    await page.get_by_label("State").select_option("failed")
    await held.wait()
    await page.get_by_label("State").select_option("delivered")
    await expect(page.locator("tbody .state")).to_have_text(["delivered"])
    async with page.expect_response(lambda one: "state=failed" in one.url) as answer:
        await late[0].continue_()
    await (await answer.value).finished()
    await page.evaluate("new Promise((done) => setTimeout(done))")
    # Not awaited to become so: the page would ask again by itself.
    assert await page.locator("tbody .state").all_inner_texts() == ["delivered"]


async def test_a_name_with_a_slash_or_of_dots_is_a_name_and_no_way_elsewhere(desk: Desk) -> None:
    """Nothing but what is named is asked for or changed, by a form as by an address."""
    asked: list[str] = []
    page = await desk.operator("#/limits")
    page.on("request", lambda request: asked.append(request.url.removeprefix(desk.url)))
    await page.get_by_role("button", name="Grant an account").click()
    await page.get_by_role("dialog").get_by_label("Session").fill("atlas")
    await page.get_by_role("dialog").get_by_label("Account").fill("web//x")
    await page.get_by_role("button", name="Grant", exact=True).click()
    await expect(page.locator(".grants tbody tr")).to_have_count(1)
    found = await scene.done(await desk.boss.get("/v1/sessions/atlas/accounts"))
    assert [one["account_id"] for one in found["accounts"]] == ["/x"]
    for way in ("%2F..%2Ftokens", "%2E%2E", ".", "x%2F..%2F..%2Ftokens"):
        await page.goto(f"{desk.url}/#/people/{way}")
        await expect(page.get_by_role("alert")).to_be_visible()
    strange = [one for one in asked if one.startswith("/v1/") and "/tokens" in one]
    assert strange == []
    assert "/v1/" not in asked


async def test_both_people_of_a_reason_stand_in_it(desk: Desk) -> None:
    """What comes behind the second one too."""
    page = await desk.operator("#/audit")
    shown = await page.evaluate(
        """async (text) => (await import("/assets/sends.js")).reason(text).textContent""", TWO
    )
    assert shown == TWO


async def test_who_looks_for_people_is_told_where_the_server_did_not_look(desk: Desk) -> None:
    """Nobody is found, and that means nothing."""
    page = await desk.operator("#/people")
    await page.route("**/v1/people?*name=*", lambda route: route.abort())
    await page.get_by_label("Find a person").fill("ann")
    await expect(page.get_by_text("The server does not answer.")).to_be_visible()
    await page.unroute("**/v1/people?*name=*")
    await page.get_by_label("Find a person").fill("anna")
    await expect(page.get_by_text("The server does not answer.")).to_be_hidden()


async def refused(page: Page, method: str, where: str) -> None:
    """Let a call fail as where the line is cut."""

    async def cut(route: Route) -> None:
        await (route.abort() if route.request.method == method else route.continue_())

    await page.route(where, cut)


async def test_who_could_not_leave_is_not_told_that_they_left(desk: Desk) -> None:
    """In the chat as on the operator's page; the next time they do."""
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    guest = await join(desk, (await room_link(desk, room))[0], "Ada")
    await refused(guest, "DELETE", "**/chat/me*")
    await guest.get_by_role("button", name="Leave this chat").click()
    await expect(guest.get_by_role("alert")).to_contain_text("You are still here.")
    await expect(guest.locator(".line")).to_have_text("Connected")
    await guest.unroute("**/chat/me*")
    await guest.get_by_role("button", name="Leave this chat").click()
    await expect(guest.get_by_role("heading", name="The chat is closed")).to_be_visible()

    boss = await desk.operator()
    await refused(boss, "DELETE", "**/login")
    await boss.get_by_role("button", name="Log out").click()
    await expect(boss.get_by_role("alert")).to_contain_text("You are still logged in here.")
    await boss.unroute("**/login")
    await boss.get_by_role("button", name="Log out").click()
    await expect(boss.get_by_label("Controller token")).to_be_visible()


async def test_who_left_one_chat_finds_the_other_where_no_address_names_it(desk: Desk) -> None:
    """The one that was left came in last."""
    rooms = [await scene.ensure(desk.boss, name.lower(), name) for name in ("Lobby", "Cellar")]
    first, second = [(await room_link(desk, room))[0] for room in rooms]
    page = await join(desk, first, "Ada")
    await page.goto(second)
    await page.get_by_label("Your name").fill("Ada")
    await page.get_by_role("button", name="Join").click()
    await expect(page.locator(".line")).to_have_text("Connected")
    await page.get_by_role("button", name="Leave this chat").click()
    await expect(page.get_by_role("heading", name="The chat is closed")).to_be_visible()
    await page.goto(f"{desk.url}/chat")
    await expect(page.get_by_role("heading", name="Lobby")).to_be_visible()


async def test_what_was_asked_for_is_seen_although_its_form_was_closed(desk: Desk) -> None:
    """The answer was slow and somebody pressed Escape: it was done, so the list shows it."""
    await plans(desk, 1)
    page = await desk.operator("#/sends")
    held: asyncio.Future[Route] = asyncio.get_running_loop().create_future()

    async def hold(route: Route) -> None:
        held.set_result(route)

    await page.route("**/cancel", hold)
    await page.get_by_role("button", name="Take back").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Take back").click()
    route = await held
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await route.continue_()
    await expect(page.locator("#toast").get_by_text("Taken back.")).to_be_visible()
