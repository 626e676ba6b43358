"""The operator's page: rooms, a transcript as it grows, its members, and the keys."""

from __future__ import annotations

from playwright.async_api import expect

from tests.browser import scene
from tests.browser.conftest import NARROW, Desk


async def test_a_record_is_on_the_screen_as_it_is_said(desk: Desk) -> None:
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    page = await desk.open(room)
    await expect(page.locator(".line")).to_have_text("Live")

    for number in range(1, 6):
        await desk.say(room, f"word {number}")

    await expect(page.locator(".row.message .text")).to_have_text(
        [f"word {number}" for number in range(1, 6)]
    )


async def test_edits_are_folded_and_deletes_are_tombstones_live_and_after_a_reload(
    desk: Desk,
) -> None:
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    page = await desk.open(room)
    await desk.say(room, "teh plan", message_id="a")
    await desk.say(room, "a secret", message_id="b")
    await expect(page.locator(".row.message")).to_have_count(2)

    await desk.say(room, "the plan", message_id="a2", event="edit", revises="a")
    await desk.say(room, "", message_id="b2", event="delete", revises="b")

    for _ in range(2):
        await expect(page.locator('.row[data-number="1"] .text')).to_have_text("the plan")
        await expect(page.locator('.row[data-number="1"] .edited')).to_have_text("edited")
        await expect(page.locator('.row[data-number="2"] .tombstone')).to_be_visible()
        await expect(page.get_by_text("a secret")).to_have_count(0)
        await page.reload()


async def test_a_page_left_open_over_a_kill_goes_on_without_a_gap_and_without_a_double(
    desk: Desk,
) -> None:
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    page = await desk.open(room)
    await desk.say(room, "word 1")
    await expect(page.locator(".row.message")).to_have_count(1)

    desk.served.kill()
    await expect(page.locator(".line")).to_have_text("Reconnecting…")
    desk.served.start()
    for number in range(2, 8):
        await desk.say(room, f"word {number}")

    await expect(page.locator(".line")).to_have_text("Live")
    await desk.say(room, "word 8")
    await expect(page.locator(".row.message .text")).to_have_text(
        [f"word {number}" for number in range(1, 9)]
    )


async def test_members_show_how_far_they_are_and_who_speaks(desk: Desk) -> None:
    rooms = await scene.company(desk.boss)
    page = await desk.open(rooms["release"])

    readers = page.locator(".panel section.members li")
    await expect(readers.filter(has_text="atlas").locator(".lag")).to_have_class("lag even")
    await expect(readers.filter(has_text="scribe").locator(".lag")).to_have_text("−4")
    await expect(page.locator(".panel section.speakers")).to_contain_text("generation 1")
    await expect(page.locator(".panel section.deliveries .state")).to_have_text(
        ["delivered", "delivered"]
    )

    await desk.say(rooms["release"], "one more")
    await expect(readers.filter(has_text="scribe").locator(".lag")).to_have_text("−5")


async def test_partial_history_is_said_with_its_reason(desk: Desk) -> None:
    rooms = await scene.company(desk.boss)
    page = await desk.open(rooms["ops"])

    await expect(page.locator(".banner")).to_contain_text("Partial history")
    await expect(page.locator(".banner")).to_contain_text("after 40 of 312 messages")
    await expect(page.locator(".rooms a[aria-current]")).to_contain_text("partial")


async def test_a_room_can_be_made_and_given_a_reader_and_a_speaker_on_the_page(
    desk: Desk,
) -> None:
    page = await desk.operator()

    await page.get_by_role("main").get_by_role("button", name="New room").click()
    await page.get_by_label("Title").fill("Café chat")
    await page.get_by_role("button", name="Create room").click()
    await expect(page.get_by_role("heading", name="Café chat")).to_be_visible()
    await page.get_by_role("button", name="Add a reader").click()
    await page.get_by_role("textbox", name="Session").fill("scribe")
    await page.get_by_role("button", name="Add", exact=True).click()
    await page.get_by_role("button", name="Let a session speak here").click()
    await page.get_by_role("textbox", name="Session").fill("atlas")
    await page.get_by_role("button", name="Save").click()

    names = page.locator(".panel section.members .name")
    await expect(names).to_have_count(2)
    assert sorted(await names.all_inner_texts()) == ["atlas", "scribe"]
    await expect(page.locator(".panel section.speakers .name")).to_have_text(["atlas"])
    found = await desk.boss.get("/v1/conversations", params={"ref": "web/chat/cafe-chat"})
    assert found.json()["conversations"][0]["title"] == "Café chat"


async def test_a_refused_form_says_why_and_keeps_what_was_written(desk: Desk) -> None:
    page = await desk.operator("#/tokens")

    await page.get_by_role("button", name="New token").click()
    await page.get_by_label("Kind").select_option("adapter")
    await page.get_by_label("For").fill("slack")
    await page.get_by_role("button", name="Make token").click()

    await expect(page.get_by_role("alert")).to_be_visible()
    await expect(page.get_by_label("For")).to_have_value("slack")


async def test_a_token_that_may_write_first_is_made_on_the_page(desk: Desk) -> None:
    await desk.boss.post("/v1/sessions", json={"session_id": "atlas"})
    page = await desk.operator("#/sessions")

    await page.get_by_role("button", name="Token", exact=True).click()
    await page.get_by_label("May").select_option("read, publish and write first")
    await page.get_by_role("button", name="Make token").click()
    await expect(page.get_by_text("never again")).to_be_visible()

    tokens = (await desk.boss.get("/v1/tokens")).json()["tokens"]
    [made] = [one for one in tokens if one["session_id"] == "atlas"]
    assert sorted(made["scopes"]) == ["publish", "read", "send"]


async def test_the_whole_page_works_with_keys_alone(desk: Desk) -> None:
    rooms = await scene.company(desk.boss)
    page = await desk.operator()
    keys = page.keyboard

    await keys.press("/")
    await keys.type("freeze then")
    hit = page.get_by_role("option").filter(has_text="Do we move the freeze then?")
    await expect(hit).to_have_attribute("aria-selected", "true")
    await keys.press("Enter")
    chosen = page.locator(".row.chosen")
    await expect(chosen).to_contain_text("Do we move the freeze then?")
    await expect(chosen).to_be_focused()

    await keys.press("j")
    await expect(chosen).to_contain_text("edited a message")
    await keys.press("ArrowUp")
    await keys.press("k")
    await expect(chosen).to_contain_text("That would explain")
    await keys.press("Home")
    await expect(chosen).to_contain_text("Who is on the release this week?")
    await expect(chosen).to_be_in_viewport()
    await keys.press("Escape")
    await expect(chosen).to_have_count(0)

    await keys.press("f")
    await expect(page.get_by_label("Filter rooms")).to_be_focused()
    await keys.type("supp")
    await keys.press("Enter")
    await expect(page.get_by_role("heading", name="Support")).to_be_visible()
    places = ["People", "Sends", "Deliveries", "Sessions", "Limits", "Tokens", "Audit", "Health"]
    for number, title in enumerate(places, 2):
        await keys.press("Escape")
        await keys.press(str(number))
        await expect(page.get_by_role("heading", level=1)).to_contain_text(title)
    await keys.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    await keys.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    assert rooms


async def test_the_first_tab_skips_to_the_content(desk: Desk) -> None:
    page = await desk.operator()
    await page.reload()
    await page.get_by_role("navigation", name="Places").wait_for()

    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await page.keyboard.press("Enter")

    await expect(page.get_by_role("main")).to_be_focused()


async def test_a_narrow_screen_shows_rooms_or_one_room_and_nothing_sideways(desk: Desk) -> None:
    rooms = await scene.company(desk.boss)
    page = await desk.operator(viewport=NARROW)

    await page.get_by_role("link", name="Release 2.4").click()
    await expect(page.locator(".row.message").last).to_be_in_viewport()
    await expect(page.get_by_label("Filter rooms")).to_be_hidden()
    await page.get_by_role("button", name="Members and more").click()
    await expect(page.locator(".panel section.members")).to_be_in_viewport()
    await page.get_by_role("button", name="Close").click()
    await page.get_by_role("button", name="All rooms").click()
    await expect(page.get_by_label("Filter rooms")).to_be_visible()

    person = await scene.done(
        await desk.boss.post(
            "/v1/people", json={"name": "Ann " + "x" * 90, "contacts": ["slack:" + "U" * 200]}
        )
    )
    first = ("people", f"people/{person['id']}", "sends", "limits", "audit", "more")
    places = (*first, "rooms", f"rooms/{rooms['release']}", "deliveries", "sessions", "tokens")
    for place in places:
        await page.goto(f"{desk.url}/#/{place}")
        await expect(page.locator(".shell")).to_have_attribute(
            "data-place", "room" if place.startswith("rooms/") else place.split("/")[0]
        )
        assert await page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )


async def test_the_page_follows_the_system_and_can_be_told_otherwise(desk: Desk) -> None:
    page = await desk.operator(color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = await page.evaluate(ground)

    await page.get_by_role("button", name="Light or dark").click()
    light = await page.evaluate(ground)
    await page.reload()

    assert dark != light
    assert await page.evaluate(ground) == light
