"""Whatever people call themselves and say: it is text, and nothing of it ever runs (law 14)."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from tests.browser import scene
from tests.browser.conftest import Desk
from tests.browser.test_chat import join, room_link, write

CALLS = ("pwned=1", "alert(1)", "globalThis.pwned=1", "top.pwned=1;confirm(2)", "pwned=prompt()")
SHAPES = (
    "<script>{0}</script>",
    "<SCRIPT SRC=data:text/javascript,{0}></SCRIPT>",
    "<img src=x onerror={0}>",
    "<img src=x onerror=\"{0}\" style='position:fixed;inset:0'>",
    "<svg onload={0}>",
    "<svg><script>{0}</script></svg>",
    "<svg><animate onbegin={0} attributeName=x dur=1s>",
    '<svg><a xlink:href="javascript:{0}"><text y=20>x</text></a></svg>',
    "<body onload={0}>",
    '<iframe src="javascript:{0}">',
    '<iframe srcdoc="<script>parent.{0}</script>">',
    "<details open ontoggle={0}>",
    "<video><source onerror={0}></video>",
    "<input autofocus onfocus={0}>",
    "<marquee onstart={0}>",
    '<a href="javascript:{0}">click</a>',
    '<form action="javascript:{0}"><button>go',
    "<math><mtext><table><mglyph><style><img src onerror={0}>",
    '<object data="javascript:{0}">',
    '<embed src="javascript:{0}">',
    '<link rel=stylesheet href="data:text/css,*{{background:url(//evil.example)}}">{0}',
    "<style>@import '//evil.example/{0}';</style>",
    "<base href=//evil.example/>{0}",
    '<meta http-equiv=refresh content="0;url=javascript:{0}">',
    "<template><img src onerror={0}></template>",
    '<noscript><p title="</noscript><img src=x onerror={0}>">',
    '"><img src=x onerror={0}>',
    "'><svg/onload={0}>",
    "' onmouseover='{0}' x='",
    '" onfocus="{0}" autofocus="',
    "</textarea><script>{0}</script>",
    "</title><script>{0}</script>",
    "</style><script>{0}</script>",
    "<!--><script>{0}</script-->",
    "]]><script>{0}</script>",
    "javascript:{0}",
    "JaVaScRiPt:{0}",
    "java\tscript:{0}",
    'https://a.example/"onmouseover="{0}',
    "https://a.example/'onclick='{0}",
    "http://javascript:{0}@a.example/",
    "https://a.example/<script>{0}</script>",
    "[x](javascript:{0})",
    '![x](x"onerror="{0})',
    "**<img src=x onerror={0}>**",
    "`<img src=x onerror={0}>`",
    "```\n<script>{0}</script>\n```",
    "```html\n</code></pre><script>{0}</script>",
    "{{{{constructor.constructor('{0}')()}}}}",
    "${{{0}}}",
    "<%= {0} %>",
    "\u202e<img src=x onerror={0}>\u202c",
    "\u2028<script>{0}</script>\u2029",
    "\ufeff<script>{0}</script>",
    "<scr\u0131pt>{0}</scr\u0131pt>",
    "＜script＞{0}＜/script＞",
    "&lt;script&gt;{0}&lt;/script&gt;",
    "&#60;img src=x onerror={0}&#62;",
    "\\u003cscript\\u003e{0}\\u003c/script\\u003e",
    "\x1b]8;;javascript:{0}\x07x\x1b]8;;\x07",
    "a\u0300\u0301\u0302\u0303\u0304<svg onload={0}>",
)
PAYLOADS = [shape.format(call) for call in CALLS for shape in SHAPES]
ELEMENTS = (
    "script:not([src]), iframe, object, embed, base, form[action], [onerror], [onload], style"
)


def test_there_are_three_hundred_of_them() -> None:
    assert len(PAYLOADS) == len(set(PAYLOADS)) >= 300


async def unharmed(page: Page) -> None:
    """Nothing of it became an element or an attribute; the desk looks for the rest."""
    assert await page.locator(ELEMENTS).count() == 0
    assert await page.locator("a[href^='javascript' i], img[src='x']").count() == 0
    assert await page.evaluate("globalThis.pwned") is None


def message(number: int, payload: str) -> dict[str, object]:
    """A message that says it in every field there is."""
    return {
        "text": payload,
        "message_id": f"m{number}",
        "reply_to": f"m{number - 1}",
        "explicit_target": payload[:100],
        "actor": {
            "id": f"{number}{payload[:80]}",
            "name": payload[:120],
            "is_bot": number % 2 == 0,
        },
        "attachments": [
            {"id": payload[:60], "type": payload[:60], "name": payload[:120], "url": payload[:200]}
        ],
        "metadata": {"parts": payload, "guest": payload, payload[:40]: payload},
    }


def plain(words: list[str]) -> list[str]:
    """Those that a name or an address may be: without signs nobody sees."""
    return [one for one in words if one.isprintable()]


async def people(desk: Desk, words: list[str]) -> list[str]:
    """People who are called so, with addresses, consents and aliases that say it; their ids."""
    found = []
    for number, payload in enumerate(plain(words)[:20]):
        contacts = [f"slack:{number}{payload}", f"alias:{number}{payload}", f"email:{payload}@x"]
        body = {"name": payload[:200], "contacts": contacts, "metadata": {payload[:40]: payload}}
        made = await scene.done(await desk.boss.post("/v1/people", json=body))
        found.append(made["id"])
        more = {"contacts": [f"telegram:{payload}"], "realm": payload[:60]}
        await scene.done(await desk.boss.patch(f"/v1/people/{made['id']}", json=more))
        for about in (payload[:200], ""):
            no = {"person": made["id"], "state": "off", "about": about, "why": payload}
            answer = await desk.boss.put("/v1/consent", json=no)
            assert answer.is_success or about, answer.text
    return found


async def sends(desk: Desk, room: str, words: list[str]) -> list[str]:
    """What is said first with these words, by sessions of these names; the ids of the sends."""
    found = []
    on = {"conversation": room, "state": "on"}
    off = {"conversation": room, "state": "off"}
    for payload in plain(words)[:12]:
        name = payload.replace("/", "|")[:80]
        await scene.done(await desk.boss.put(f"/v1/sessions/{quote(name)}/accounts/web/chat"))
        await scene.done(await desk.boss.put("/v1/consent", json=on | {"why": payload}))
        body = {"session_id": name, "to": room, "text": payload, "metadata": {"send": payload}}
        for more in ({"intent": payload[:200]}, {"repeat": {"at": "08:30", "zone": "UTC"}}):
            answer = await desk.boss.post("/v1/send", json=body | more)
            found += [answer.json()["id"]] if answer.is_success else []
        await scene.done(await desk.boss.put("/v1/consent", json=off | {"why": payload}))
        await desk.boss.post("/v1/send", json=body)
        await desk.boss.post("/v1/send", json=body | {"to": f"slack:{payload}", "via": payload})
    assert len(found) >= 12
    return found


@pytest.mark.case("B182")
@pytest.mark.parametrize("part", range(5))
async def test_no_word_of_people_sends_and_decisions_ever_runs(desk: Desk, part: int) -> None:
    words = PAYLOADS[part :: len(CALLS)]
    room = await scene.ensure(desk.boss, "first", words[1][:200])
    persons, sent = await people(desk, words), await sends(desk, room, words)
    await desk.say(room, words[8], event="notice", message_id="n1", metadata={"intent": words[7]})
    page = await desk.operator("#/people")

    places = ["people", *(f"people/{one}" for one in persons[:8]), "sends", "limits", "audit"]
    for place in (*places, f"rooms/{room}"):
        await page.goto(f"{desk.url}/#/{place}")
        await expect(page.locator("tbody tr, .row.message").first).to_be_visible()
        await unharmed(page)
    for one in (sent[0], sent[-1], words[2], words[3]):
        await page.goto(f"{desk.url}/#/sends/{quote(one, safe='')}")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await unharmed(page)
        await page.keyboard.press("Escape")
    await page.goto(f"{desk.url}/#/people/{quote(words[4], safe='')}")
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.goto(f"{desk.url}/#/people")
    for payload in words[5:9]:
        await page.get_by_label("Find a person").fill(payload)
        await unharmed(page)
    await page.goto(f"{desk.url}/#/people/{persons[0]}")
    for button in ("Change", "Merge", "Turn off…", "Verify by a code", "Write first"):
        await page.get_by_role("button", name=button, exact=True).click()
        await expect(page.get_by_role("dialog")).to_be_visible()
        await unharmed(page)
        await page.keyboard.press("Escape")


@pytest.mark.case("B182")
@pytest.mark.parametrize("part", range(5))
async def test_no_word_in_any_field_ever_runs(desk: Desk, part: int) -> None:
    words = PAYLOADS[part :: len(CALLS)]
    room = await scene.ensure(desk.boss, words[0][:60], words[1][:200], metadata={"x": words[2]})
    url, _ = await room_link(desk, room, policy="all", name=words[3][:80])
    at = f"/v1/conversations/{room}"
    for session in [one.replace("/", "|")[:80] for one in words if one.isprintable()][:9]:
        await scene.done(await desk.boss.post("/v1/sessions", json={"session_id": session}))
    page, guest = await desk.open(room), await join(desk, url, "Ada")
    for number, payload in enumerate(words):
        await desk.say(room, **message(number, payload))  # type: ignore[arg-type]
    for event, revises in (("edit", "m3"), ("reaction", "m4"), ("delete", "m5")):
        author = message(int(revises[1:]), words[int(revises[1:])])["actor"]
        said = {"event": event, "revises": revises, "actor": author, "message_id": f"{event}1"}
        await desk.say(room, words[7], **said)
    await desk.say(room, words[8], event="notice", message_id="n1")
    await desk.boss.patch(at, json={"title": words[9][:200]})

    for who in (page, guest):
        await who.locator(".scroller").focus()
        await who.keyboard.press("g")
        for number in range(1, len(words) + 1):
            chosen = who.locator(f'.row.chosen[data-number="{number}"]')
            await expect(chosen).to_be_in_viewport()
            if number % 8 == 0:
                await unharmed(who)
            await who.keyboard.press("j")
    await write(guest, words[10])
    await expect(guest.locator(".row.mine:not(.unsent)")).to_have_count(1)
    await unharmed(guest)
    for place in ("deliveries", "sessions", "tokens", "rooms"):
        await page.goto(f"{desk.url}/#/{place}")
        await expect(page.locator("main h1, main h2").first).to_be_visible()
        await unharmed(page)
    await page.keyboard.press("/")
    await page.keyboard.type("pwned")
    await expect(page.get_by_role("option").first).to_be_visible()
    await unharmed(page)


async def test_a_policy_that_is_broken_is_noticed(desk: Desk) -> None:
    """The check that every test ends with can fail: the browser did stop this one."""
    page = await desk.somebody()
    await page.goto(desk.url)

    await page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'),"
        " { textContent: 'pwned = 1' }))"
    )

    assert await page.evaluate("globalThis.pwned") is None
    assert len(await page.evaluate("violations")) == 1
    await page.evaluate("violations.length = 0")
