"""People, consent, what is said first, limits and the audit, as an operator sees and decides it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from tests.browser import scene
from tests.browser.conftest import NARROW, Desk
from tests.browser.outreach import Outreach, town
from threadline.testing.simulation import Simulation


@pytest.fixture
def telegram(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """A simulated Telegram."""
    with Simulation("telegram", tmp_path_factory.mktemp("telegram")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def outreach(desk: Desk, telegram: Simulation) -> AsyncIterator[Outreach]:
    """The server with a bot there, granted to `atlas`."""
    desk.served.stop()
    desk.served.settings["THREADLINE_ADAPTERS_ALLOW_PRIVATE"] = "true"
    desk.served.start()
    made = Outreach(desk.boss, telegram)
    await made.begin()
    yield made


@pytest_asyncio.fixture(loop_scope="session")
async def lobby(desk: Desk) -> str:
    """A room that `atlas` may write in first."""
    room = await scene.ensure(desk.boss, "lobby", "Lobby")
    on = {"conversation": room, "state": "on", "why": "The team asked for it."}
    await scene.done(await desk.boss.put("/v1/consent", json=on))
    await scene.done(await desk.boss.put("/v1/sessions/atlas/accounts/web/chat"))
    return room


def row(page: Page | Locator, text: str) -> Locator:
    """The row of a table with these words."""
    return page.get_by_role("row").filter(has_text=text)


async def say_first(page: Page, **words: str) -> None:
    """Fill in the form that writes first, and send it."""
    box = page.get_by_role("dialog")
    for label, value in words.items():
        await box.get_by_label(label.replace("_", " "), exact=True).fill(value)
    await box.get_by_role("button", name="Send").click()


async def test_a_person_is_seen_with_every_address_and_how_it_was_verified(
    desk: Desk, outreach: Outreach
) -> None:
    ids = await town(outreach)
    page = await desk.operator("#/people")

    await expect(row(page, "Ann Example")).to_contain_text("ann@example.org")
    await page.get_by_label("Find a person").fill("whatsapp:4915100000000")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await page.get_by_role("link", name="Ann Example").click()

    ways = page.locator("section.ways")
    await expect(row(ways, "4711")).to_contain_text("verified wrote from it")
    await expect(row(ways, "4711")).to_contain_text("may be written to")
    await expect(row(ways, "4915100000000")).to_contain_text("not verified")
    await expect(row(ways, "4915100000000")).to_contain_text("nobody decided")
    await expect(row(ways, "ann@example.org")).to_contain_text("a name, not a place")
    consents = page.locator("section.consents")
    await expect(row(consents, "on telegram")).to_contain_text("the person")
    await page.goto(f"{desk.url}/#/people/{ids['zoe']}")
    await expect(row(consents, "everything")).to_contain_text("said so on telegram")
    await expect(row(ways, "4713")).to_contain_text("not to be written to")


async def test_consent_switched_off_refuses_the_next_send_in_a_clear_sentence(
    desk: Desk, outreach: Outreach
) -> None:
    ann = await outreach.meets(4711, "Ann Example")
    page = await desk.operator(f"#/people/{ann['id']}")

    await page.get_by_role("button", name="Turn off…").click()
    await page.get_by_label("Why").fill("She asked on the phone.")
    await page.get_by_role("dialog").get_by_role("button", name="Turn off").click()
    await expect(row(page.locator("section.consents"), "everything")).to_contain_text(
        "She asked on the phone."
    )
    await page.get_by_role("button", name="Write first").click()
    await say_first(page, As_session="atlas", Words="The build is red.")

    alert = page.get_by_role("dialog").get_by_role("alert")
    await expect(alert).to_contain_text("turned off by human on")
    await expect(alert).to_contain_text("She asked on the phone.")
    await expect(page.get_by_label("Words")).to_have_value("The build is red.")
    assert outreach.telegram.effects("message") == []
    await page.keyboard.press("Escape")
    consents = page.locator("section.consents")
    await row(consents, "everything").get_by_role("button", name="Turn on").click()
    await page.get_by_role("dialog").get_by_role("button", name="Turn on").click()
    await expect(row(consents, "everything").locator(".state")).to_have_text("on")
    await page.get_by_role("button", name="Write first").click()
    await say_first(page, As_session="atlas", Words="The build is green.")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    said = outreach.telegram.effects("message", at_least=1)
    assert [one["text"] for one in said] == ["The build is green."]


async def test_a_room_is_switched_at_its_side_and_what_wrote_first_is_marked(
    desk: Desk, lobby: str
) -> None:
    page = await desk.open(lobby)
    side = page.locator(".panel section.consent")
    await expect(side).to_contain_text("may be written to")
    words = {"session_id": "atlas", "to": "web/chat/lobby", "text": "Deploy 41 is out."}

    await scene.done(await desk.boss.post("/v1/send", json=words | {"intent": "deploy 41"}))
    again = words | {"session_id": "atlas", "intent": "deploy 41"}
    await scene.done(await desk.boss.post("/v1/send", json=again))
    await desk.say(lobby, "thanks")

    first = page.locator(".row.message").filter(has_text="Deploy 41 is out.")
    await expect(first.get_by_role("link", name="wrote first")).to_be_visible()
    await expect(page.get_by_role("link", name="wrote first")).to_have_count(1)
    notice = page.locator(".row.notice .told")
    await expect(notice).to_contain_text("Not said again")
    await expect(notice).to_contain_text("atlas said this (deploy 41)")
    await side.get_by_role("button", name="Turn off").click()
    await page.get_by_role("dialog").get_by_role("button", name="Turn off").click()
    await expect(side).to_contain_text("not to be written to")
    refused = await desk.boss.post("/v1/send", json=words)
    assert refused.json()["code"] == "consent_required"
    await first.get_by_role("link", name="wrote first").click()
    await expect(page.get_by_role("dialog")).to_contain_text("web/chat")
    await page.get_by_role("link", name="Record #1").click()
    await expect(page.locator(".row.chosen")).to_contain_text("Deploy 41 is out.")


async def test_a_token_that_is_not_human_turns_off_and_is_told_why_it_cannot_turn_on(
    desk: Desk, lobby: str
) -> None:
    made = await scene.done(await desk.boss.post("/v1/tokens", json={"kind": "controller"}))
    page = await desk.somebody()
    await page.goto(f"{desk.url}/#/rooms/{lobby}")
    await desk.enter(page, made["token"])
    side = page.locator(".panel section.consent")

    await expect(side).to_contain_text("Only a human turns this on.")
    await side.get_by_role("button", name="Turn off").click()
    await page.get_by_role("dialog").get_by_role("button", name="Turn off").click()

    await expect(side).to_contain_text("not to be written to")
    await expect(side.get_by_role("button", name="Turn on")).to_be_disabled()


async def test_a_send_is_scheduled_seen_with_its_words_and_taken_back(
    desk: Desk, lobby: str
) -> None:
    page = await desk.operator("#/sends")
    later = f"{datetime.now() + timedelta(days=2):%Y-%m-%dT%H:%M}"

    await page.get_by_role("button", name="Write first").click()
    await say_first(
        page,
        As_session="atlas",
        To="web/chat/lobby",
        Words="Stand-up in ten minutes.",
        When=later,
    )
    line = row(page, "web/chat/lobby")
    await expect(line.locator(".state")).to_have_text("scheduled")
    await line.get_by_role("button", name="Details").click()
    await expect(page.get_by_role("dialog")).to_contain_text("Stand-up in ten minutes.")
    await page.keyboard.press("Escape")
    await line.get_by_role("button", name="Take back").click()
    await page.get_by_role("dialog").get_by_role("button", name="Take back").click()

    await expect(line.locator(".state").first).to_have_text("taken back")
    await expect(line.get_by_role("button", name="Take back")).to_have_count(0)
    sends = (await desk.boss.get("/v1/sends")).json()["sends"]
    assert [(one["state"], one["text"]) for one in sends] == [("cancelled", "")]
    page_of = await desk.boss.get(f"/v1/conversations/{lobby}/transcript")
    assert page_of.json()["records"] == []


async def test_each_way_a_send_took_stands_there_with_its_outcome_and_why(
    desk: Desk, outreach: Outreach
) -> None:
    ann = await outreach.meets(4711, "Ann Example")
    outreach.telegram.do("block", user=4711)
    page = await desk.operator("#/sends")

    await outreach.send(f"person:{ann['id']}", "The build is red.")

    line = row(page, "Ann Example")
    await expect(line.locator(".state").first).to_have_text("failed")
    await expect(line.locator(".tried")).to_contain_text("telegram/7001")
    await expect(line.locator(".tried .state")).to_have_text("failed")
    await expect(line.locator(".tried small")).to_contain_text("blocked")
    await page.get_by_label("State").select_option("delivered")
    await expect(page.get_by_text("None of those that are loaded.")).to_be_visible()


async def test_a_person_is_made_verified_by_a_code_split_and_merged_again(
    desk: Desk, outreach: Outreach
) -> None:
    await outreach.meets(4711, "A. E.")
    page = await desk.operator("#/people")

    await page.get_by_role("button", name="New person").click()
    await page.get_by_label("Name").fill("Ann Example")
    await page.get_by_label("Reached by").fill("email:ann@example.org\nslack:U1")
    await page.get_by_role("button", name="Make person").click()
    await page.get_by_role("button", name="Change").click()
    await page.get_by_label("Languages").fill("de, pt-BR")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("dl.facts").first).to_contain_text("de, pt-BR")
    await page.get_by_role("button", name="Verify by a code").click()
    await page.get_by_role("button", name="Make code").click()
    code = await page.locator("output.secret").inner_text()
    await outreach.says(4711, code)
    ways = page.locator("section.ways")
    await page.get_by_role("button", name="Done").click()
    await expect(row(ways, "4711")).to_contain_text("said a code there")
    assert code not in await page.content()
    await row(ways, "4711").get_by_role("button", name="Split").click()
    await page.get_by_label("Their name").fill("Somebody Else")
    await page.get_by_role("dialog").get_by_role("button", name="Split").click()
    await expect(page.get_by_role("heading", name="Somebody Else")).to_be_visible()
    await page.get_by_role("button", name="Merge").click()
    await page.get_by_label("The other").fill("email:ann@example.org")
    await page.get_by_role("dialog").get_by_role("button", name="Merge").click()
    await expect(row(ways, "ann@example.org")).to_be_visible()
    await expect(row(ways, "4711")).to_be_visible()


async def test_limits_changed_on_the_page_hold_at_once_and_say_who_set_them(
    desk: Desk, lobby: str
) -> None:
    page = await desk.operator("#/limits")
    field = page.get_by_label("To one person or room, in an hour")
    save = page.get_by_role("button", name="Save limits")
    await expect(field).to_have_value("5")
    await expect(save).to_be_disabled()

    await field.fill("1")
    await expect(page.get_by_text("was 5")).to_be_visible()
    await save.click()

    await expect(page.get_by_text("Set by human")).to_be_visible()
    words = {"session_id": "atlas", "to": "web/chat/lobby", "text": "Deploy 41 is out."}
    await scene.done(await desk.boss.post("/v1/send", json=words))
    await page.goto(f"{desk.url}/#/sends")
    await page.get_by_role("button", name="Write first").click()
    await say_first(page, As_session="atlas", To="web/chat/lobby", Words="And again.")
    await expect(page.get_by_role("alert")).to_contain_text("recipient_per_hour is 1; the next may")


async def test_an_account_is_granted_and_taken_back_on_the_page(desk: Desk, lobby: str) -> None:
    page = await desk.operator("#/limits")
    await expect(row(page, "atlas")).to_contain_text("web")

    await page.get_by_role("button", name="Grant an account").click()
    box = page.get_by_role("dialog")
    await box.get_by_label("Session").fill("scribe")
    await box.get_by_label("Account").fill("web")
    await page.get_by_role("button", name="Grant", exact=True).click()
    await expect(page.get_by_role("alert")).to_contain_text("PROVIDER/ACCOUNT")
    await box.get_by_label("Account").fill("web/chat")
    await page.get_by_role("button", name="Grant", exact=True).click()
    await expect(row(page, "scribe")).to_contain_text("human")
    await row(page, "atlas").get_by_role("button", name="Take back").click()
    await page.get_by_role("dialog").get_by_role("button", name="Take back").click()

    await expect(row(page, "atlas")).to_have_count(0)
    left = await desk.boss.get("/v1/sessions/scribe/accounts")
    assert [one["account_id"] for one in left.json()["accounts"]] == ["chat"]
    assert (await desk.boss.get("/v1/sessions/atlas/accounts")).json()["accounts"] == []


async def test_the_audit_is_read_filtered_verified_and_a_changed_entry_is_named(
    desk: Desk, lobby: str
) -> None:
    for number in range(1, 121):
        body = {"session_per_hour": number}
        await scene.done(await desk.boss.put("/v1/limits", json=body))
    page = await desk.operator("#/audit")
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(100)
    await page.get_by_role("button", name="Show more").click()
    await expect(rows).to_have_count(122)
    await page.get_by_label("Action").select_option("consent.on")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("The team asked for it.")
    await page.get_by_label("Action").select_option("")
    await page.get_by_label("Filter entries").fill("session atlas")
    await expect(rows).to_have_count(0)

    await page.get_by_role("button", name="Verify").click()
    proof = page.locator(".proof")
    await expect(proof).to_contain_text("The record is whole. 122 entries read")

    desk.served.kill()
    [file] = desk.served.home.glob("*.db")
    with sqlite3.connect(file) as store:
        store.execute("update audit set body = replace(body, 'human', 'nobody') where number = 7")
    store.close()
    desk.served.start()
    await page.get_by_role("button", name="Verify").click()
    await expect(proof).to_contain_text("The record was changed at entry 7.")


async def test_on_a_narrow_screen_the_far_places_stand_behind_more(desk: Desk) -> None:
    page = await desk.operator(viewport=NARROW)
    places = page.get_by_role("navigation", name="Places")

    await expect(places.get_by_role("link", name="Audit")).to_be_hidden()
    await places.get_by_role("link", name="More").click()
    await page.get_by_role("main").get_by_role("link", name="Audit").click()

    await expect(page.get_by_role("heading", name="Audit")).to_be_visible()
    await expect(places.get_by_role("link", name="More")).to_have_attribute("aria-current", "true")
