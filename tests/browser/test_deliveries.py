"""What can be done about a delivery that waits, or that nobody is sure of, by an operator."""

from __future__ import annotations

from playwright.async_api import Locator, Page, expect

from tests.browser import scene
from tests.browser.conftest import Desk
from tests.browser.outreach import Outreach
from tests.browser.test_first import outreach as outreach
from tests.browser.test_first import row
from tests.browser.test_first import telegram as telegram

CHAT = "telegram/7001/4711"


async def doubted(desk: Desk, outreach: Outreach) -> tuple[Page, Locator]:
    """The page with a delivery that Telegram took, or did not: it never answered."""
    room = await bound(desk, outreach)
    outreach.telegram.fault("drop", on="sendMessage")
    page = await desk.operator("#/deliveries")
    await speak(desk, room, "Booked.")
    line = row(page, "atlas")
    await expect(line.locator(".state")).to_have_text("uncertain")
    return page, line


async def bound(desk: Desk, outreach: Outreach) -> str:
    """The conversation with somebody, in which `atlas` speaks."""
    await outreach.meets(4711, "Ann Example")
    found = await scene.done(await desk.boss.get("/v1/conversations", params={"ref": CHAT}))
    room: str = found["conversations"][0]["id"]
    binding = await desk.boss.put(f"/v1/conversations/{room}/binding", json={"session_id": "atlas"})
    await scene.done(binding)
    return room


async def speak(desk: Desk, room: str, text: str) -> None:
    """What `atlas` says there."""
    body = {"session_id": "atlas", "text": text}
    await scene.done(await desk.boss.post(f"/v1/conversations/{room}/messages", json=body))


async def act(page: Page, line: Locator, label: str) -> None:
    """Press a button of a delivery, and say that one is sure."""
    await line.get_by_role("button", name=label, exact=True).click()
    await page.get_by_role("dialog").get_by_role("button", name=label, exact=True).click()
    await expect(page.get_by_role("dialog")).to_have_count(0)


def said(outreach: Outreach) -> list[str]:
    """What stands in the chat on Telegram."""
    return [one["text"] for one in outreach.telegram.effects("message")]


async def recorded(desk: Desk) -> list[str]:
    """What the transcript has of `atlas`."""
    found = await scene.done(await desk.boss.get("/v1/conversations", params={"ref": CHAT}))
    room = found["conversations"][0]["id"]
    page = await scene.done(await desk.boss.get(f"/v1/conversations/{room}/transcript"))
    return [one["text"] for one in page["records"] if one["source_session_id"] == "atlas"]


async def test_a_delivery_nobody_is_sure_of_is_settled_as_said(
    desk: Desk, outreach: Outreach
) -> None:
    page, line = await doubted(desk, outreach)

    await act(page, line, "It arrived")

    await expect(line.locator(".state")).to_have_text("delivered")
    assert await recorded(desk) == ["Booked."] == said(outreach)


async def test_a_delivery_nobody_is_sure_of_is_said_again(desk: Desk, outreach: Outreach) -> None:
    page, line = await doubted(desk, outreach)

    await act(page, line, "Send again")

    await expect(line.locator(".state")).to_have_text("delivered")
    assert await recorded(desk) == ["Booked."]
    assert said(outreach) == ["Booked.", "Booked."]


async def test_a_delivery_nobody_is_sure_of_is_given_up(desk: Desk, outreach: Outreach) -> None:
    page, line = await doubted(desk, outreach)

    await act(page, line, "Drop")

    await expect(line.locator(".state")).not_to_have_text("uncertain")
    await expect(line.get_by_role("button", name="Send again")).to_have_count(0)
    assert await recorded(desk) == []


async def test_a_delivery_that_waits_is_taken_back(desk: Desk, outreach: Outreach) -> None:
    room = await bound(desk, outreach)
    outreach.telegram.fault("rate_limit", on="sendMessage", wait=3000)
    page = await desk.operator("#/deliveries")
    await speak(desk, room, "Booked.")
    line = row(page, "atlas")
    await expect(line.locator(".state")).to_have_text("pending")

    await act(page, line, "Take back")

    await expect(line.locator(".state")).to_have_text("cancelled")
    assert (await recorded(desk), said(outreach)) == ([], [])
    await line.get_by_role("button", name="Steps").click()
    steps = page.get_by_role("dialog").get_by_role("row")
    await expect(steps.last).to_contain_text("cancelled")


async def test_who_is_not_sure_after_all_changes_nothing(desk: Desk, outreach: Outreach) -> None:
    page, line = await doubted(desk, outreach)

    for label in ("It arrived", "Send again", "Drop"):
        await line.get_by_role("button", name=label, exact=True).click()
        await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)

        await expect(line.locator(".state")).to_have_text("uncertain")
        assert await recorded(desk) == []
