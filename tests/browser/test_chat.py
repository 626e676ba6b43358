"""The web chat: people with a link and a name of their own, in one room with agents."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import APIResponse, Locator, Page, Route, expect

from tests.browser import scene
from tests.browser.conftest import Desk

# How often the words ever stood there at the same time.
MOST = """globalThis.most = 0;
new MutationObserver(() => {
  const found = [...document.querySelectorAll(".row .text")];
  most = Math.max(most, found.filter((one) => one.textContent === "only once").length);
}).observe(document.body, { childList: true, subtree: true, characterData: true });
"""


async def room_link(desk: Desk, room: str, **more: object) -> tuple[str, str]:
    """A link into a room: where it leads, and its id."""
    made = await scene.done(await desk.boss.post(f"/v1/conversations/{room}/links", json=more))
    return made["url"], made["id"]


async def join(desk: Desk, url: str, name: str) -> Page:
    """A person who came in by a link."""
    page = await desk.somebody()
    await page.goto(url)
    await page.get_by_label("Your name").fill(name)
    await page.get_by_role("button", name="Join").click()
    await expect(page.locator(".line")).to_have_text("Connected")
    return page


async def write(page: Page, text: str) -> None:
    """Write and send, as people do."""
    await page.get_by_label("Message").fill(text)
    await page.keyboard.press("Enter")


def texts(page: Page) -> Locator:
    """What stands in the conversation, in order."""
    return page.locator(".row.message .text")


async def test_two_people_and_an_agent_talk_and_everybody_sees_everything_once(
    desk: Desk,
) -> None:
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    await desk.boss.put(f"/v1/conversations/{room}/binding", json={"session_id": "atlas"})
    url, _ = await room_link(desk, room)
    ada, grace = await join(desk, url, "Ada"), await join(desk, url, "Grace")

    await write(ada, "Hello Grace")
    await expect(texts(grace)).to_have_text(["Hello Grace"])
    await write(grace, "Hello Ada")
    words = {"session_id": "atlas", "text": "Hello both"}
    await scene.done(await desk.boss.post(f"/v1/conversations/{room}/messages", json=words))

    for page in (ada, grace):
        await expect(texts(page)).to_have_text(["Hello Grace", "Hello Ada", "Hello both"])
        await expect(page.locator(".unsent")).to_have_count(0)
    await expect(ada.locator(".row.mine .text")).to_have_text(["Hello Grace"])
    await expect(ada.locator(".row:not(.mine) .name").first).to_have_text("Grace")
    await expect(ada.locator(".badge")).to_have_text(["guest", "agent"])


async def test_the_link_leaves_the_address_and_the_place_survives_a_reload(desk: Desk) -> None:
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    url, _ = await room_link(desk, room)
    page = await join(desk, url, "Ada")
    await write(page, "first")
    await expect(texts(page)).to_have_text(["first"])

    assert page.url.startswith(f"{desk.url}/chat?guest=")
    await page.reload()

    await expect(texts(page)).to_have_text(["first"])
    await expect(page.locator(".row.mine .text")).to_have_text(["first"])
    assert url.rpartition("/")[2] not in await page.content()
    history = await page.evaluate("JSON.stringify([history.state, document.referrer])")
    assert url.rpartition("/")[2] not in history


@pytest.mark.acceptance("L2")
async def test_two_links_in_one_browser_are_two_chats_beside_each_other(desk: Desk) -> None:
    """Each tab stays in its room: writing, loading again, leaving the other one."""
    rooms = [await scene.ensure(desk.boss, name.lower(), name) for name in ("Lobby", "Cellar")]
    first, second = [(await room_link(desk, room))[0] for room in rooms]
    lobby = await join(desk, first, "Ada")
    cellar = await lobby.context.new_page()
    await cellar.goto(second)
    await expect(cellar.get_by_role("heading", name="You are invited to Cellar")).to_be_visible()
    await cellar.get_by_label("Your name").fill("Ada")
    await cellar.get_by_role("button", name="Join").click()
    await expect(cellar.locator(".line")).to_have_text("Connected")

    await write(lobby, "up here")
    await write(cellar, "down here")
    await expect(texts(lobby)).to_have_text(["up here"])
    await expect(texts(cellar)).to_have_text(["down here"])
    for page in (lobby, cellar):
        await expect(page.locator(".unsent")).to_have_count(0)
        await page.reload()
    await expect(lobby.get_by_role("heading", name="Lobby")).to_be_visible()
    await expect(cellar.get_by_role("heading", name="Cellar")).to_be_visible()
    await cellar.get_by_role("button", name="Leave this chat").click()
    await expect(cellar.get_by_role("heading", name="The chat is closed")).to_be_visible()
    await write(lobby, "still here")
    await expect(texts(lobby)).to_have_text(["up here", "still here"])
    await lobby.goto(first)
    await lobby.get_by_role("button", name="Go on as Ada").click()
    await expect(texts(lobby)).to_have_text(["up here", "still here"])


async def test_my_own_words_stand_there_at_once_and_never_twice(desk: Desk) -> None:
    """First nothing was sent, then the echo is there before the answer, then the answer comes."""
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    url, _ = await room_link(desk, room)
    page = await join(desk, url, "Ada")
    kept: asyncio.Future[Route] = asyncio.get_running_loop().create_future()

    async def keep(route: Route) -> None:
        if route.request.method == "POST":
            kept.set_result(route)
        else:
            await route.fallback()

    await page.route("**/chat/messages*", keep)
    await page.evaluate(MOST)
    real = page.locator(".row.mine:not(.unsent) .text")

    await write(page, "only once")
    await expect(page.locator(".unsent .text")).to_have_text(["only once"])
    await expect(real).to_have_count(0)
    route = await kept
    answer = await route.fetch()
    await expect(real).to_have_text(["only once"])
    await expect(page.locator(".unsent")).to_have_count(0)
    await route.fulfill(response=answer)
    await desk.say(room, "and then")

    await expect(texts(page)).to_have_text(["only once", "and then"])
    assert await page.evaluate("most") == 1


async def test_words_written_while_the_server_is_dead_are_said_once_when_it_is_back(
    desk: Desk,
) -> None:
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    url, _ = await room_link(desk, room)
    ada, grace = await join(desk, url, "Ada"), await join(desk, url, "Grace")
    await write(ada, "before")
    await expect(texts(grace)).to_have_text(["before"])

    desk.served.kill()
    await expect(ada.locator(".line")).to_have_attribute("data-state", "waiting")
    await write(ada, "while it was dead")
    await write(ada, "and again")
    await expect(ada.locator(".unsent .text")).to_have_text(["while it was dead", "and again"])
    desk.served.start()
    await desk.say(room, "from elsewhere")

    for page in (ada, grace):
        await expect(page.locator(".line")).to_have_text("Connected")
        await expect(page.locator(".unsent")).to_have_count(0)
        await expect(texts(page)).to_have_count(4)
    found = await scene.done(await desk.boss.get(f"/v1/conversations/{room}/transcript"))
    said = [one["text"] for one in found["records"]]
    assert sorted(said) == ["and again", "before", "from elsewhere", "while it was dead"]
    assert said.index("while it was dead") < said.index("and again")
    for page in (ada, grace):
        await expect(texts(page)).to_have_text(said)


async def test_an_answer_lost_in_a_kill_is_not_said_twice(desk: Desk) -> None:
    """The server had it and died before it could say so."""
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    url, _ = await room_link(desk, room)
    page = await join(desk, url, "Ada")
    lost: list[APIResponse] = []

    async def lose(route: Route) -> None:
        if route.request.method == "POST" and not lost:
            lost.append(await route.fetch())
            desk.served.kill()
            await route.abort()
        else:
            await route.fallback()

    await page.route("**/chat/messages?*", lose)
    await write(page, "exactly once")
    await expect(page.locator(".line")).to_have_attribute("data-state", "waiting")
    assert lost[0].status == 200
    desk.served.start()

    await expect(page.locator(".line")).to_have_text("Connected")
    await expect(page.locator(".unsent")).to_have_count(0)
    await expect(texts(page)).to_have_text(["exactly once"])
    await page.reload()
    await expect(texts(page)).to_have_text(["exactly once"])


@pytest.mark.acceptance("L2")
async def test_a_taken_name_is_refused_at_the_door_and_another_one_is_let_in(desk: Desk) -> None:
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    url, _ = await room_link(desk, room)
    await join(desk, url, "Ada")
    page = await desk.somebody()
    await page.goto(url)

    await page.get_by_label("Your name").fill("ADA")
    await page.get_by_role("button", name="Join").click()
    await expect(page.get_by_role("alert")).to_contain_text("You could be ADA 2")
    await expect(page.get_by_label("Your name")).to_have_value("ADA 2")
    await page.get_by_role("button", name="Join").click()

    await expect(page.get_by_text("You are ADA 2")).to_be_visible()


@pytest.mark.acceptance("L2")
async def test_a_revoked_link_closes_the_chat_that_is_open(desk: Desk) -> None:
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    url, link = await room_link(desk, room)
    page = await join(desk, url, "Ada")

    await scene.done(await desk.boss.delete(f"/v1/links/{link}"))

    await expect(page.get_by_role("heading", name="The chat is closed")).to_be_visible()
    await page.goto(url)
    await expect(page.get_by_role("status")).to_contain_text("does not lead anywhere")


async def test_a_reply_quotes_what_it_answers_and_leaving_ends_it(desk: Desk) -> None:
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    url, _ = await room_link(desk, room)
    ada, grace = await join(desk, url, "Ada"), await join(desk, url, "Grace")
    await write(ada, "Tea or coffee?")
    await expect(texts(grace)).to_have_text(["Tea or coffee?"])

    await grace.keyboard.press("ArrowUp")
    await expect(grace.locator(".row.chosen")).to_be_focused()
    await grace.keyboard.press("r")
    await expect(grace.locator(".answering")).to_contain_text("Tea or coffee?")
    await write(grace, "Tea")
    await expect(ada.locator(".quote")).to_contain_text("Tea or coffee?")
    await grace.get_by_role("button", name="Leave this chat").click()

    await expect(grace.get_by_role("heading", name="The chat is closed")).to_be_visible()
    await grace.reload()
    await expect(grace.get_by_text("You need a link")).to_be_visible()


async def test_a_person_who_joined_late_reads_from_then_on_or_everything(desk: Desk) -> None:
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    for number in range(1, 4):
        await desk.say(room, f"word {number}")
    since, _ = await room_link(desk, room)
    whole, _ = await room_link(desk, room, policy="all")

    late, early = await join(desk, since, "Late"), await join(desk, whole, "Early")
    await desk.say(room, "word 4")

    await expect(texts(late)).to_have_text(["word 4"])
    await expect(texts(early)).to_have_text([f"word {number}" for number in range(1, 5)])


async def test_an_operator_shares_a_room_on_the_page_and_shuts_it_again(desk: Desk) -> None:
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    page = await desk.open(room)

    await page.get_by_role("button", name="Share a link to this room").click()
    await page.get_by_label("For").fill("visitors")
    await page.get_by_role("button", name="Make link").click()
    url = await page.locator("output.secret").inner_text()
    await page.get_by_role("button", name="Done").click()
    guest = await join(desk, url, "Ada")
    await write(guest, "I am in")
    await expect(texts(page)).to_have_text(["I am in"])
    await page.get_by_role("button", name="Revoke visitors").click()
    await page.get_by_role("button", name="Revoke", exact=True).click()

    await expect(guest.get_by_role("heading", name="The chat is closed")).to_be_visible()
    await expect(page.get_by_text("No link leads here.")).to_be_visible()


async def test_whoever_shares_a_room_before_it_is_known_waits_for_it(desk: Desk) -> None:
    """A click is never quicker than the page: it is carried out once the room's facts are there."""
    room = await scene.ensure(desk.boss, "slow", "Slow")
    page = await desk.operator("#/")
    known = asyncio.Event()

    async def late(route: Route) -> None:
        await known.wait()
        await route.continue_()

    await page.route(f"**/v1/conversations/{room}", late)
    await page.evaluate(f"location.hash = '#/rooms/{room}'")
    await page.get_by_role("button", name="Share a link to this room").click()
    known.set()

    await expect(page.get_by_label("For")).to_be_visible()
