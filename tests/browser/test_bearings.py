"""What a newcomer looks for: rooms in use first, names instead of ids, and how to write."""

from __future__ import annotations

from playwright.async_api import Locator, expect

from tests.browser import scene
from tests.browser.conftest import NARROW, Desk
from tests.browser.outreach import Outreach
from tests.browser.test_first import outreach as outreach
from tests.browser.test_first import row, say_first
from tests.browser.test_first import telegram as telegram


async def within(inner: Locator, outer: Locator) -> bool:
    """Whether all of one thing is to be seen inside another."""
    small, large = await inner.bounding_box(), await outer.bounding_box()
    assert small is not None
    assert large is not None
    return (
        large["x"] <= small["x"]
        and large["y"] <= small["y"]
        and small["x"] + small["width"] <= large["x"] + large["width"]
        and small["y"] + small["height"] <= large["y"] + large["height"]
    )


async def test_rooms_in_use_stand_before_those_that_were_only_imported(desk: Desk) -> None:
    """Also where more were imported than one page of the list holds."""
    for number in range(201):
        room = await scene.ensure(desk.boss, f"C{number}", f"old {number}", provider="archive")
        at = f"/v1/conversations/{room}/hydration"
        window = await scene.done(await desk.boss.post(at, json={"action": "begin"}))
        end = {"action": "complete", "token": window["token"]}
        await scene.done(await desk.boss.post(at, json=end))
    await scene.ensure(desk.boss, "lobby", "Lobby")

    page = await desk.operator()

    await expect(page.locator(".rooms li[data-id] .title").first).to_have_text("Lobby")
    await expect(page.locator(".rooms .group")).to_have_text(
        ["web · chat", "archive · chat · history"]
    )


async def test_a_room_says_how_to_write_in_it(desk: Desk) -> None:
    """There is no box for an operator's own words; guests and sessions have one."""
    web = await scene.ensure(desk.boss, "lobby", "Lobby")
    slack = await scene.ensure(desk.boss, "C1", "ops", provider="slack", account_id="T0")

    page = await desk.open(web)
    await expect(page.locator(".how")).to_contain_text("join as a guest by a link")
    await page.goto(f"{desk.url}/#/rooms/{slack}")

    await expect(page.locator(".how")).to_have_text(
        "To write here, let a session write: Sends → Write first."
    )


async def test_sends_and_refusals_name_rooms_and_people(desk: Desk, outreach: Outreach) -> None:
    """An id is what was typed; what stands there is what people know. The buttons stay in sight."""
    lobby = await scene.ensure(desk.boss, "lobby", "Lobby")
    on = {"conversation": lobby, "state": "on", "why": "The team asked for it."}
    await scene.done(await desk.boss.put("/v1/consent", json=on))
    await outreach.grant("atlas", "web/chat")
    await outreach.send(lobby, "By its id.")
    zoe = await outreach.meets(4713, "Zoë Stopp")
    await outreach.meets(4713, "Zoë Stopp", "stop")

    page = await desk.operator("#/sends", viewport={"width": 1300, "height": 700})
    await row(page, "Lobby").get_by_role("button", name="Details").click()
    box = page.get_by_role("dialog")
    await expect(box.get_by_role("link", name="Lobby")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Write first").click()
    await say_first(page, As_session="atlas", To=f"person:{zoe['id']}", Words="One more thing")

    await expect(box.get_by_role("alert")).to_contain_text("turned off by Zoë Stopp")
    for name in ("Cancel", "Send"):
        assert await within(box.get_by_role("button", name=name), box)
    assert await within(box.get_by_role("alert"), box.locator(".asked"))
    await page.keyboard.press("Escape")
    await page.goto(f"{desk.url}/#/audit")
    await expect(row(page, "send.refused")).to_contain_text("turned off by Zoë Stopp")


async def test_a_long_reason_stays_on_a_narrow_page(desk: Desk, outreach: Outreach) -> None:
    """Words without a break in them are broken before they run out of sight."""
    lobby = await scene.ensure(desk.boss, "lobby", "Lobby")
    on = {"conversation": lobby, "state": "on", "why": "The team asked for it."}
    await scene.done(await desk.boss.put("/v1/consent", json=on))
    await outreach.grant("atlas", "web/chat")
    await outreach.send(lobby, "Once.", intent="x" * 150)
    await outreach.send(lobby, "Twice.", intent="x" * 150)

    page = await desk.operator("#/sends", viewport=NARROW)

    reason = page.locator(".tried small")
    await expect(reason).to_contain_text("Not said again")
    assert await within(reason, page.locator(".sheet table"))
