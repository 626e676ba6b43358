"""Twenty thousand records: a bounded number of elements, and both ends within reach."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Page, expect

from tests.browser import scene
from tests.browser.conftest import Desk

MANY = 20_000
ELEMENTS = 2_000
PART = 1_000
TOP = """globalThis.topRow = () => {
  const top = document.querySelector(".scroller").getBoundingClientRect().top;
  const rows = [...document.querySelectorAll(".window .row")];
  return Number(rows.find((one) => one.getBoundingClientRect().bottom > top + 1).dataset.number);
}"""


@pytest_asyncio.fixture(loop_scope="session")
async def long(desk: Desk) -> AsyncIterator[Page]:
    """An operator in front of a room with very much in it."""
    room = await scene.ensure(desk.boss, "long", "Long")
    at = f"/v1/conversations/{room}/hydration"
    window = await scene.done(await desk.boss.post(at, json={"action": "begin"}))
    token = window["token"]
    for first in range(1, MANY + 1, PART):
        records = [
            {
                "actor": {"id": f"u{number % 7}", "name": f"Person {number % 7}"},
                "text": f"record {number}" + " and more words" * (number % 40),
            }
            for number in range(first, first + PART)
        ]
        body = {"token": token, "records": records}
        await scene.done(await desk.boss.post(f"{at}/records", json=body))
    await scene.done(await desk.boss.post(at, json={"action": "complete", "token": token}))
    page = await desk.open(room)
    await expect(page.locator(f'.row[data-number="{MANY}"] .text')).to_be_in_viewport()
    yield page


def room_of(page: Page) -> str:
    """The room a page is at."""
    return page.url.split("/rooms/")[1].split("/")[0]


async def elements(page: Page) -> int:
    """How many elements the page is made of."""
    found: int = await page.evaluate("document.querySelectorAll('*').length")
    return found


async def test_both_ends_and_the_middle_are_within_reach_and_few_elements_are_there(
    long: Page, desk: Desk
) -> None:
    text = '.row[data-number="{}"] .text'

    await long.keyboard.press("Home")
    await expect(long.locator(text.format(1))).to_be_in_viewport()
    assert await elements(long) < ELEMENTS
    await long.evaluate(
        "(() => { const at = document.querySelector('.scroller');"
        " at.scrollTop = at.scrollHeight / 2; })()"
    )
    middle = long.locator(".row.message .text", has_text="record 1").first
    await expect(middle).to_be_attached()
    await expect(long.locator(".row.blank")).to_have_count(0)
    assert await elements(long) < ELEMENTS
    await long.goto(f"{long.url.partition('#')[0]}#/rooms/{room_of(long)}/12345")
    await expect(long.locator(text.format(12345))).to_be_in_viewport()
    await long.keyboard.press("End")
    await expect(long.locator(text.format(MANY))).to_be_in_viewport()
    assert await elements(long) < ELEMENTS


async def test_scrolling_through_it_draws_every_frame_from_few_elements(long: Page) -> None:
    """A wheel turned for ten screens: what is in view is always drawn, and nothing jumps."""
    await long.locator(".scroller").hover()
    await long.evaluate(TOP)
    for _ in range(20):
        before = await long.evaluate("topRow()")
        await long.mouse.wheel(0, -450)
        await long.wait_for_function("(before) => topRow() < before", arg=before)
        covered = await long.evaluate(
            """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
              const view = document.querySelector(".scroller").getBoundingClientRect();
              const rows = document.querySelector(".window").getBoundingClientRect();
              done(rows.top <= view.top && rows.bottom >= view.bottom);
            })))"""
        )
        assert covered
        assert await elements(long) < ELEMENTS


async def test_who_reads_old_records_is_told_of_new_ones_and_not_moved(
    long: Page, desk: Desk
) -> None:
    room = room_of(long)
    await long.keyboard.press("Home")
    first = long.locator('.row[data-number="1"]')
    await expect(first).to_be_in_viewport()

    await desk.say(room, "news")
    pill = long.get_by_role("button", name="1 new message")
    await expect(pill).to_be_visible()
    await expect(first).to_be_in_viewport()
    await pill.click()

    await expect(long.locator(f'.row[data-number="{MANY + 1}"] .text')).to_be_in_viewport()
    await expect(pill).to_be_hidden()
    await desk.say(room, "more news")
    await expect(long.locator(f'.row[data-number="{MANY + 2}"] .text')).to_be_in_viewport()
