"""Twenty thousand records: a bounded number of elements, and both ends within reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.browser.conftest import Desk
from tests.http.conftest import Served

MANY = 20_000
ELEMENTS = 2_000
PART = 1_000
TOP = """globalThis.topRow = () => {
  const top = document.querySelector(".scroller").getBoundingClientRect().top;
  const rows = [...document.querySelectorAll(".window .row")];
  return Number(rows.find((one) => one.getBoundingClientRect().bottom > top + 1).dataset.number);
}"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all of them: so many records take longer than the tests."""
    made = Served(tmp_path_factory.mktemp("long"))
    made.start()
    yield made
    made.kill()


@pytest.fixture(scope="module")
def room(served: Served) -> str:
    """A room with very much in it."""
    about = {"provider": "web", "account_id": "office", "conversation_id": "long", "kind": "room"}
    with served.client() as boss:

        def asked(path: str, body: Any) -> Any:
            answer = boss.post(path, json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()

        made: str = asked("/v1/conversations", about)["id"]
        at = f"/v1/conversations/{made}/hydration"
        token = asked(at, {"action": "begin"})["token"]
        for first in range(1, MANY + 1, PART):
            records = [
                {
                    "actor": {"id": f"u{number % 7}", "name": f"Person {number % 7}"},
                    "text": f"record {number}" + " and more words" * (number % 40),
                }
                for number in range(first, first + PART)
            ]
            asked(f"{at}/records", {"token": token, "records": records})
        asked(at, {"action": "complete", "token": token})
    return made


@pytest_asyncio.fixture(loop_scope="session")
async def long(desk: Desk, room: str) -> Page:
    """An operator in front of it."""
    page = await desk.open(room)
    await expect(page.locator(f'.row[data-number="{MANY}"] .text')).to_be_in_viewport()
    return page


async def elements(page: Page) -> int:
    """How many elements the page is made of."""
    found: int = await page.evaluate("document.querySelectorAll('*').length")
    return found


async def test_both_ends_and_the_middle_are_within_reach_and_few_elements_are_there(
    long: Page, room: str
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
    await long.goto(f"{long.url.partition('#')[0]}#/rooms/{room}/12345")
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
    long: Page, desk: Desk, room: str
) -> None:
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
