"""A file somebody sent, on the page: a link that saves it, and nothing in it ever runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Error, expect

from tests.browser import scene
from tests.browser.conftest import Desk
from tests.browser.test_chat import join, room_link
from threadline.testing.simulation import Simulation

PAGE = "<script>globalThis.pwned=1;top.pwned=1;alert(1)</script><img src=x onerror='pwned=1'>"


@pytest.mark.acceptance("I5")
@pytest.mark.case("B182")
async def test_a_file_is_saved_by_its_link_and_runs_nowhere(desk: Desk, tmp_path: Path) -> None:
    await asyncio.to_thread(desk.served.stop)
    desk.served.settings["THREADLINE_ADAPTERS_ALLOW_PRIVATE"] = "1"
    await asyncio.to_thread(desk.served.start)
    with Simulation("telegram", tmp_path) as telegram:
        given = {**telegram.credentials, "api": telegram.url}
        body = {"provider": "telegram", "given": given}
        made = await desk.boss.post("/v1/accounts", json=body)
        assert made.status_code == 200, made.text
        telegram.do(
            "say",
            chat=51,
            text="see",
            file={"name": "offer.html", "type": "text/html", "text": PAGE},
        )
        await asyncio.to_thread(telegram.idle)
        found = (await desk.boss.get("/v1/conversations")).json()["conversations"]
        page = await desk.open(found[0]["id"])

        link = page.locator(".row.message .files a")
        await expect(link).to_contain_text("offer.html")
        async with page.expect_download() as waited:
            await link.click()
        download = await waited.value
        assert download.suggested_filename == "offer.html"
        assert (await download.path()).read_text() == PAGE

        # Also where somebody opens the address itself, it is saved and not shown.
        href = await link.get_attribute("href")
        other = await page.context.new_page()
        async with other.expect_download() as opened:
            with pytest.raises(Error, match="Download is starting"):
                await other.goto(f"{desk.url}{href}")
        assert (await (await opened.value).path()).read_text() == PAGE
        assert other.url == "about:blank"


@pytest.mark.acceptance("I5")
async def test_a_guest_sends_a_file_and_the_others_save_it(desk: Desk, tmp_path: Path) -> None:
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    path, _ = await room_link(desk, room)
    ann, ben = await join(desk, path, "Ann"), await join(desk, path, "Ben")
    picture = tmp_path / "<b onclick=x>cat.png"
    picture.write_bytes(b"\x89PNG" + bytes(range(256)))

    await ann.locator("input[type=file]").set_input_files(str(picture))
    await expect(ann.locator(".given")).to_contain_text("cat")
    await ann.get_by_label("Message").fill("look")
    await ann.get_by_label("Message").press("Enter")
    link = ben.locator(".row.message .files a")
    await expect(link).to_contain_text("cat")
    await expect(ann.locator(".given")).to_be_hidden()
    async with ben.expect_download() as waited:
        await link.click()
    download = await waited.value
    assert (await download.path()).read_bytes() == picture.read_bytes()
    await ann.locator("input[type=file]").set_input_files(str(picture))
    await expect(ann.locator(".given li")).to_be_visible()
