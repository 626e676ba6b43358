"""A real Chromium in front of `threadline serve`. One browser a test process, one context a person.

Whatever a test does, in every context: nothing of the page's own fails, nothing is fetched from
elsewhere, the policy is never violated, and no dialog of the browser opens.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from tests.http.conftest import Served
from tests.http.conftest import served as served

ROOT = Path(__file__).parents[2]
WIDE = {"width": 1440, "height": 900}
NARROW = {"width": 390, "height": 844}
FLAGS = [
    *("--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-quic", "--no-sandbox"),
]
expect.set_options(timeout=30_000)

# Runs before the page's own scripts: whatever the policy stopped is written down.
WATCH = """
globalThis.violations = [];
addEventListener("securitypolicyviolation", (event) =>
  violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--pictures` writes the pictures of the page into docs/images."""
    parser.addoption("--pictures", action="store_true", help="write docs/images anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The browser lives in one loop, so its tests do as well."""
    here = Path(__file__).parent
    for item in items:
        function = getattr(item, "function", None)
        if item.path.parent == here and inspect.iscoroutinefunction(function):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where a Chromium is; installed by the same script that `make test` calls."""
    script = str(ROOT / "scripts" / "browser.py")
    done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """This process's browser."""
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        await opened.close()


@dataclass
class Desk:
    """A server, and people who look at it."""

    browser: Browser
    served: Served
    boss: httpx.AsyncClient
    contexts: list[BrowserContext] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it is."""
        return self.served.url

    async def somebody(self, **options: Any) -> Page:
        """A page of a person of their own: nothing is shared with the others."""
        context = await self.browser.new_context(**{"viewport": WIDE, "locale": "en-GB"} | options)
        context.set_default_timeout(60_000)
        self.contexts.append(context)
        await context.add_init_script(WATCH)
        context.on("request", lambda request: self._asked(request.url))
        context.on("weberror", lambda error: self.faults.append(f"{error.error}"))
        context.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        return await context.new_page()

    def _asked(self, url: str) -> None:
        if not url.startswith((self.url, "blob:", "data:")):
            self.faults.append(f"asked for {url}")

    async def enter(self, page: Page, token: str | None = None) -> None:
        """Log in as a person does."""
        if page.url == "about:blank":
            await page.goto(self.url)
        await page.get_by_label("Controller token").fill(token or self.served.token)
        await page.get_by_role("button", name="Log in").click()
        await page.get_by_role("navigation", name="Places").wait_for()

    async def operator(self, path: str = "", **options: Any) -> Page:
        """An operator who is logged in, at a place of the page."""
        page = await self.somebody(**options)
        await page.goto(f"{self.url}/{path}")
        await self.enter(page)
        return page

    async def open(self, room: str, **options: Any) -> Page:
        """An operator who looks at a room."""
        return await self.operator(f"#/rooms/{room}", **options)

    async def say(self, room: str, text: str, **more: Any) -> dict[str, Any]:
        """Somebody says something in a room."""
        body = {"text": text, "actor": {"id": "ada", "name": "Ada"}, **more}
        answer = await self.boss.post(f"/v1/conversations/{room}/transcript", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["record"]
        return found

    async def check(self) -> None:
        """What has to hold for every page of every test."""
        for context in self.contexts:
            for page in context.pages:
                self.faults += await page.evaluate("globalThis.violations ?? []")
                if await page.evaluate("globalThis.pwned !== undefined"):
                    self.faults.append("a word from outside ran")
        assert self.faults == []


@pytest_asyncio.fixture(loop_scope="session")
async def desk(browser: Browser, served: Served) -> AsyncIterator[Desk]:
    """People in front of a server of this test."""
    bearer = {"Authorization": f"Bearer {served.token}"}
    async with httpx.AsyncClient(base_url=served.url, headers=bearer, timeout=60) as boss:
        made = Desk(browser, served, boss)
        yield made
        try:
            await made.check()
        finally:
            for context in made.contexts:
                await context.close()
