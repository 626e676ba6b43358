"""People in a room by a link: that room, under nobody else's name, as long as the link holds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.http.conftest import Site, message, problem
from tests.http.guests import Person, came_in, link
from threadline import Threadline
from threadline.core.errors import Limited, Unauthorized
from threadline.core.guests import Link
from threadline.core.ids import number_of
from threadline.core.model import Controller
from threadline.core.ports import LINKS_OF, Changes, Loaded, Page, Store, Story
from threadline.core.rules.limits import Limits
from threadline.entrypoints.http import buckets
from threadline.entrypoints.http.buckets import Buckets, GuestLimits
from threadline.flows.visiting import Revoked
from threadline.testing.clock import StillClock


async def say(client: httpx.AsyncClient, room: str, *texts: str) -> None:
    """Append messages, one after the other."""
    for text in texts:
        answer = await client.post(f"/v1/conversations/{room}/transcript", json=message(text))
        assert answer.status_code == 200, answer.text


async def room(boss: httpx.AsyncClient, name: str, provider: str = "web") -> str:
    """A further room."""
    ref = {"provider": provider, "account_id": "office", "conversation_id": name, "kind": "room"}
    found: str = (await boss.post("/v1/conversations", json=ref)).json()["id"]
    return found


@dataclass(frozen=True, slots=True)
class Kept(Story[list[Link]]):
    """What the store keeps of a room's links."""

    room: str

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[Link]]:
        """As it is."""
        return Changes(), loaded.page(Page(LINKS_OF, (number_of(self.room), -1, 10)))


@pytest.fixture
async def ada(site: Site, boss: httpx.AsyncClient, lobby: str) -> Person:
    """A guest in the lobby."""
    return await came_in(site, (await link(boss, lobby))["url_path"], "Ada")


def limited(site: Site, **bounds: int) -> None:
    """Narrow what people without a token may ask for."""
    site.app.state.buckets = Buckets(replace(GuestLimits(), **bounds))


async def test_a_link_is_shown_once_and_kept_as_a_hash(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """256 bits, in an absolute address, for seven days from its joining on."""
    made = await link(boss, lobby, name="for the fair")
    listed = (await boss.get(f"/v1/conversations/{lobby}/links")).json()

    secret = made["url_path"].removeprefix("/chat/")
    assert len(secret) == 43
    assert made["url"] == site.url + made["url_path"]
    assert (made["conversation"], made["policy"], made["name"]) == (
        lobby,
        "since_join",
        "for the fair",
    )
    assert [one["id"] for one in listed["links"]] == [made["id"]]
    assert secret not in str(listed)
    assert listed["next"] is None
    [kept] = await site.line.store.read(Kept(lobby))
    assert secret not in repr(kept)
    assert len(kept.hash) == 16


async def test_a_link_holds_for_ninety_days_at_most(
    boss: httpx.AsyncClient, lobby: str, clock: StillClock
) -> None:
    """And not for a time that is over; a policy is checked as everywhere."""
    path = f"/v1/conversations/{lobby}/links"
    for days in (-1, 91):
        body = {"expires_at": (clock() + timedelta(days=days)).isoformat()}
        problem(await boss.post(path, json=body), 400, "invalid_input")
    problem(await boss.post(path, json={"policy": "last_n"}), 400, "invalid_input")
    problem(await boss.post(path, json={"name": "a\nb"}), 400, "invalid_input")
    problem(await boss.get(path, params={"after": "x"}), 400, "invalid_input")
    problem(await boss.delete("/v1/links/x"), 404, "not_found")

    made = await link(boss, lobby, expires_at=(clock() + timedelta(days=90)).isoformat())
    assert made["expires_at"].startswith(str((clock() + timedelta(days=90)).date()))


@pytest.mark.acceptance("L2")
async def test_a_guest_reads_from_its_coming_on_and_speaks(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """What it says is a person's message, marked as nobody verified."""
    await say(boss, lobby, "before")
    await boss.put(f"/v1/conversations/{lobby}/binding", json={"session_id": "coder"})
    ada = await came_in(site, (await link(boss, lobby))["url_path"], "Ada")

    said = (await ada.say("hello")).json()
    await say(boss, lobby, "after")

    record = said["record"]
    assert (said["duplicate"], said["held"]) == (False, False)
    assert record["actor"] == {
        "id": ada.me["actor_id"],
        "name": "Ada",
        "is_bot": False,
        "is_self": False,
    }
    assert record["metadata"] == {"guest": True, "verified": False}
    assert (record["direction"], record["target_session_id"]) == ("inbound", "coder")
    assert await ada.texts() == ["hello", "after"]
    assert await ada.texts(after=2, limit=1) == ["after"]
    assert await ada.texts(before=3) == ["hello"]
    [waiting] = (await boss.get("/v1/sessions/coder/inbox")).json()["records"][:1]
    assert (waiting["text"], waiting["wake"]) == ("hello", True)


@pytest.mark.acceptance("L2")
async def test_a_link_shows_as_much_of_the_past_as_it_says(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """All, the last ones, or nothing; in pages, and the newest first where asked."""
    await say(boss, lobby, "one", "two", "three")
    all_ = await came_in(site, (await link(boss, lobby, policy="all"))["url_path"], "Ann")
    last = await came_in(site, (await link(boss, lobby, policy="last_n", n=2))["url_path"], "Bob")

    assert await all_.texts() == ["one", "two", "three"]
    assert await all_.texts(order="desc", limit=2) == ["three", "two"]
    assert await last.texts(after=-5) == ["two", "three"]
    assert (last.me["policy"], last.me["n"]) == ("last_n", 2)
    page = (await all_.client.get("/chat/messages", params={"view": "messages", "limit": 1})).json()
    assert (page["next"], page["conversation"]) == (1, lobby)
    assert page["messages"][0]["record"]["text"] == "one"
    for wrong in ({"order": "up"}, {"view": "raw"}):
        problem(await all_.client.get("/chat/messages", params=wrong), 400, "invalid_input")


@pytest.mark.acceptance("L2")
async def test_a_guest_of_since_join_never_sees_imported_history(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """Not even what an import appends behind its coming."""
    ada = await came_in(site, (await link(boss, lobby))["url_path"], "Ada")
    path = f"/v1/conversations/{lobby}/hydration"
    window = (await boss.post(path, json={"action": "begin", "mode": "gated"})).json()

    problem(await ada.client.get("/chat/messages"), 409, "hydration_pending")
    held = (await ada.say("meanwhile")).json()
    other = site.client()
    answer = await other.post((await link(boss, lobby))["url_path"], json={"name": "Bea"})
    problem(answer, 409, "hydration_pending")
    old = {"token": window["token"], "records": [message("old", message_id="m1")]}
    await boss.post(path + "/records", json=old)
    await boss.post(path, json={"action": "complete", "token": window["token"]})

    assert (held["record"], held["held"]) == (None, True)
    assert await ada.texts() == ["meanwhile"]


@pytest.mark.acceptance("L2")
async def test_the_same_words_sent_again_are_one_message(ada: Person) -> None:
    """By the page's own id for them; another guest's same id is another message."""
    first = (await ada.say("hello", "a")).json()
    again = (await ada.say("hello", "a")).json()
    other = (await ada.say("hello", "b")).json()

    assert again["duplicate"] is True
    assert again["record"] == first["record"]
    assert (other["duplicate"], other["record"]["sequence"]) == (False, 2)


async def test_a_guest_answers_what_it_can_read(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """By sequence or by message id; what it cannot read is not there."""
    await say(boss, lobby, "before")
    ada = await came_in(site, (await link(boss, lobby))["url_path"], "Ada")
    first = (await ada.say("hello", "a")).json()["record"]

    by_number = (await ada.say("yes", "b", reply_to=first["sequence"])).json()["record"]
    by_id = (await ada.say("no", "c", reply_to=first["message_id"])).json()["record"]

    assert by_number["reply_to"] == by_id["reply_to"] == first["message_id"]
    problem(await ada.say("?", "d", reply_to=1), 404, "not_found")
    problem(await ada.say("?", "e", reply_to=99), 404, "not_found")
    problem(await ada.say("?", "f", reply_to=True), 400, "invalid_input")


async def test_what_a_guest_may_not_say_is_refused_by_name(ada: Person) -> None:
    """Nothing, too much, or without an id of its own."""
    problem(await ada.say("  "), 400, "invalid_input")
    problem(await ada.say("x" * 20_000), 413, "too_large")
    problem(await ada.say("x", "a/b"), 400, "invalid_input")
    problem(await ada.say("\x00"), 400, "invalid_input")
    assert await ada.texts() == []


@pytest.mark.acceptance("L2")
async def test_a_guest_is_in_its_room_only(
    site: Site, boss: httpx.AsyncClient, lobby: str, ada: Person
) -> None:
    """Its cookie opens nothing else, and a link of another room makes it another guest there."""
    cellar = await room(boss, "cellar")
    await say(boss, cellar, "secret")
    cookie = {"Cookie": f"{ada.cookie}={ada.client.cookies[ada.cookie]}"}
    stranger = site.client(**cookie, **{"X-CSRF-Token": ada.me["csrf"]})

    for path in (
        "/v1/conversations",
        f"/v1/conversations/{lobby}",
        f"/v1/conversations/{cellar}/transcript",
        f"/v1/conversations/{lobby}/stream",
        "/v1/search?q=secret",
        "/login",
    ):
        problem(await stranger.get(path), 401, "unauthenticated")
    answer = await stranger.post(f"/v1/conversations/{lobby}/transcript", json=message("x"))
    problem(answer, 401, "unauthenticated")
    path = (await link(boss, cellar, policy="all"))["url_path"]
    there = await ada.client.post(path, json={"name": "Ada"})

    assert there.json()["conversation"] == cellar
    assert there.json()["actor_id"] != ada.me["actor_id"]
    # What the page of the first room repeats does not fit the other guest's cookie.
    words = {"text": "to the cellar", "client_id": "1"}
    which = {"guest": there.json()["guest"]}
    answer = await ada.client.post("/chat/messages", json=words, params=which)
    problem(answer, 403, "csrf_mismatch")


@pytest.mark.acceptance("L2")
async def test_guests_of_several_links_are_in_one_browser_beside_each_other(
    site: Site, boss: httpx.AsyncClient, lobby: str, ada: Person
) -> None:
    """Each by the word for it; without one nobody is asking, and leaving one keeps the other."""
    cellar = await room(boss, "cellar")
    path = (await link(boss, cellar))["url_path"]
    entered = (await ada.client.post(path, json={"name": "Ada"})).json()
    own = {"X-CSRF-Token": entered["csrf"]}
    which = {"guest": entered["guest"]}
    words = {"text": "down here", "client_id": "1"}

    assert (await ada.say("up here")).json()["record"]["text"] == "up here"
    below = await ada.client.post("/chat/messages", json=words, params=which, headers=own)
    assert below.status_code == 200, below.text
    assert await ada.texts(guest=ada.me["guest"]) == ["up here"]
    assert await ada.texts(**which) == ["down here"]
    problem(await ada.client.get("/chat/me"), 401, "unauthenticated")
    problem(await ada.client.get("/chat/me", params={"guest": "x"}), 401, "unauthenticated")
    left = await ada.client.delete("/chat/me", params=which, headers=own)

    assert left.status_code == 200
    problem(await ada.client.get("/chat/me", params=which), 401, "unauthenticated")
    assert (await ada.client.get("/chat/me")).json() == ada.me


async def test_a_door_tells_the_title_of_its_room_and_nothing_else(
    site: Site, boss: httpx.AsyncClient
) -> None:
    """To whoever holds the link; a guess at one costs as much as an entry."""
    ref = {"provider": "web", "account_id": "office", "conversation_id": "tea", "kind": "room"}
    made = await boss.post("/v1/conversations", json={**ref, "title": "Tea room"})
    path = (await link(boss, made.json()["id"], name="for the boss"))["url_path"]
    anybody = site.client()

    found = await anybody.get(f"{path}/door")
    entered = (await anybody.post(path, json={"name": "Ada"})).json()

    assert found.json() == {"title": "Tea room", "guest": entered["guest"]}
    assert found.headers["cache-control"] == "no-store"
    limited(site, entries=1)
    problem(await anybody.get("/chat/guess/door"), 404, "not_found")
    problem(await anybody.get("/chat/guess/door"), 429, "limited")


@pytest.mark.acceptance("L2")
@pytest.mark.parametrize(
    "name",
    [
        *(
            "Coder",
            "CODER",
            "@coder",
            "с\u043eder",
            "c\u200boder",
            "\u202ecoder",
            "c0der",
            "ｃｏｄｅｒ",
        ),
        *("coder\ufe0f", "c\u180boder", "coder\U000e0100", "coder\U0001d159"),
        *("ᴄᴏᴅᴇʀ", "cօder", "ᏟꓳᎠꓰꓣ", "ꓚoder", "coꓒer", "с௦der"),
    ],
)
async def test_a_name_that_looks_like_a_handle_is_taken(
    site: Site, boss: httpx.AsyncClient, lobby: str, name: str
) -> None:
    """In any case, width, script, and with what nobody sees in it."""
    seat = f"/v1/conversations/{lobby}/group/participants/coder"
    await boss.put(seat, json={"session_id": "s1", "aliases": ["reviewer"]})
    path = (await link(boss, lobby))["url_path"]

    found = problem(await site.client().post(path, json={"name": name}), 409, "name_taken")

    assert found["facts"]["name"]


@pytest.mark.acceptance("L2")
async def test_nobody_comes_in_under_the_name_of_somebody_who_is_here(
    site: Site, boss: httpx.AsyncClient, lobby: str, ada: Person
) -> None:
    """An alias, a session with its further names, another guest, the house itself."""
    seat = f"/v1/conversations/{lobby}/group/participants/coder"
    await boss.put(seat, json={"session_id": "s1", "aliases": ["reviewer"]})
    await boss.put(f"/v1/conversations/{lobby}/members/minutes", json={})
    await boss.post("/v1/sessions/minutes/aliases", json={"alias": "notes"})
    path = (await link(boss, lobby))["url_path"]

    for name in ("Reviewer", "s1", "Minutes", "Notes", "ADA", "Аda", "Threadline", "THREADlINE"):
        problem(await site.client().post(path, json={"name": name}), 409, "name_taken")
    for name in ("", " ", "\u200b\u200b", "@", "a\nb", "x" * 65):
        problem(await site.client().post(path, json={"name": name}), 400, "invalid_input")
    bea = await came_in(site, path, "  Bea \u202e Smith ")
    assert bea.me["name"] == "Bea Smith"


@pytest.mark.acceptance("L2")
async def test_two_who_come_at_once_do_not_get_one_name(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """Exactly one is let in under it."""
    path = (await link(boss, lobby))["url_path"]
    clients = [site.client() for _ in range(8)]

    answers = await asyncio.gather(*(one.post(path, json={"name": "Eve"}) for one in clients))

    assert sorted(one.status_code for one in answers) == [200] + [409] * 7


async def test_a_name_of_another_guest_is_answered_with_one_that_is_free(
    site: Site, boss: httpx.AsyncClient, lobby: str, ada: Person
) -> None:
    """A handle's or a session's is not: who is nearly called so is taken for it."""
    await boss.put(f"/v1/conversations/{lobby}/members/minutes", json={})
    path = (await link(boss, lobby))["url_path"]

    found = problem(await site.client().post(path, json={"name": "ada"}), 409, "name_taken")
    await came_in(site, path, found["facts"]["free"])
    again = problem(await site.client().post(path, json={"name": "Ada"}), 409, "name_taken")
    session = problem(await site.client().post(path, json={"name": "Minutes"}), 409, "name_taken")

    assert (found["facts"]["free"], again["facts"]["free"]) == ("ada 2", "Ada 3")
    assert "free" not in session["facts"]


@pytest.mark.acceptance("L2")
async def test_a_name_is_free_again_when_its_guest_has_left(
    site: Site, boss: httpx.AsyncClient, lobby: str, ada: Person
) -> None:
    """Leaving ends the cookie; what was said stays."""
    await ada.say("hello")

    assert (await ada.client.delete("/chat/me")).status_code == 200
    assert ada.cookie not in ada.client.cookies
    problem(await ada.client.get("/chat/me"), 401, "unauthenticated")
    again = await came_in(site, (await link(boss, lobby, policy="all"))["url_path"], "Ada")

    assert again.me["actor_id"] != ada.me["actor_id"]
    assert await again.texts() == ["hello"]


async def test_a_reload_and_the_same_link_keep_the_guest(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """The cookie alone tells; another name is taken over where it is free."""
    await boss.put(f"/v1/conversations/{lobby}/members/minutes", json={})
    path = (await link(boss, lobby))["url_path"]
    ada = await came_in(site, path, "Ada")

    reloaded = (await ada.client.get("/chat/me")).json()
    entered = (await ada.client.post(path, json={"name": "Ada Lovelace"})).json()
    problem(await ada.client.post(path, json={"name": "minutes"}), 409, "name_taken")

    assert reloaded == ada.me
    assert (entered["actor_id"], entered["name"]) == (ada.me["actor_id"], "Ada Lovelace")
    assert (await ada.say("hi")).json()["record"]["actor"]["name"] == "Ada Lovelace"


async def test_the_cookie_is_for_the_chat_and_for_no_script(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """`Secure` where people are on https; no cache keeps the answer, no referrer names the link."""
    path = (await link(boss, lobby))["url_path"]
    answer = await site.client().post(path, json={"name": "Ada"})
    site.app.state.settings = replace(site.app.state.settings, public_url="https://127.0.0.1")
    secure = await site.client().post(path, json={"name": "Bea"})

    kept = {one.strip().lower() for one in answer.headers["set-cookie"].split(";")[1:]}
    assert kept == {"httponly", "samesite=strict", "path=/chat", f"max-age={7 * 24 * 3600}"}
    assert "; secure" in secure.headers["set-cookie"].lower()
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.acceptance("L2")
async def test_a_revoked_link_cuts_its_guests(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """Their streams end and say why; they read and say nothing more; the name is free."""
    made = await link(boss, lobby)
    ada = await came_in(site, made["url_path"], "Ada")

    async with site.stream(ada.client, "/chat/stream") as events:
        await say(boss, lobby, "one")
        assert await events.records(1) == ["one"]
        ended = (await boss.delete(f"/v1/links/{made['id']}")).json()
        last = await events.next()
        with pytest.raises(StopAsyncIteration):
            await events.next()

    assert ended["revoked_at"] is not None
    assert (last.name, last.data) == ("end", {"reason": "revoked"})
    problem(await ada.client.get("/chat/messages"), 401, "unauthenticated")
    problem(await ada.say("still here"), 401, "unauthenticated")
    problem(await site.client().post(made["url_path"], json={"name": "Bea"}), 404, "not_found")
    await came_in(site, (await link(boss, lobby))["url_path"], "Ada")


@pytest.mark.acceptance("L2")
async def test_a_link_revoked_elsewhere_cuts_its_guests_within_a_second(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """By another process on the same store: the doorman looks twice a second."""
    made = await link(boss, lobby)
    ada = await came_in(site, made["url_path"], "Ada")

    async with site.stream(ada.client, "/chat/stream") as events:
        await site.line.links.revoke(made["id"])
        last = await events.next()

    assert (last.name, last.data) == ("end", {"reason": "revoked"})


async def test_a_link_that_ran_out_opens_nothing(
    site: Site, boss: httpx.AsyncClient, lobby: str, clock: StillClock
) -> None:
    """By the store's clock, for those inside as well; upkeep forgets who they were."""
    made = await link(boss, lobby)
    ada = await came_in(site, made["url_path"], "Ada")
    await site.tidied()

    clock.move(days=8)
    site.app.state.doorman.forget()

    problem(await ada.client.get("/chat/me"), 401, "unauthenticated")
    problem(await site.client().post(made["url_path"], json={"name": "Bea"}), 404, "not_found")
    assert (await site.line.upkeep.round()).guests == 1
    assert len((await boss.get(f"/v1/conversations/{lobby}/links")).json()["links"]) == 1
    clock.move(days=31)
    assert (await site.line.upkeep.round()).guests == 1
    assert (await boss.get(f"/v1/conversations/{lobby}/links")).json()["links"] == []


async def test_a_guest_follows_the_room_from_where_its_page_was(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """`after`, then the last event's id; nothing in front of what its link shows."""
    await say(boss, lobby, "before")
    ada = await came_in(site, (await link(boss, lobby))["url_path"], "Ada")
    await say(boss, lobby, "two", "three")

    async with site.stream(ada.client, "/chat/stream", params={"after": 0}) as events:
        first = await events.next()
        assert (first.id, first.data["text"]) == (f"{lobby}:2", "two")
        assert await events.records(1) == ["three"]
        await say(boss, lobby, "four")
        assert await events.records(1) == ["four"]
    last = {"Last-Event-ID": f"{lobby}:3"}
    async with site.stream(ada.client, "/chat/stream", headers=last) as events:
        assert await events.records(1) == ["four"]
    for wrong in (f"{lobby}:99", "elsewhere:1"):
        again = {"Last-Event-ID": wrong}
        async with site.stream(ada.client, "/chat/stream", headers=again) as events:
            assert (await events.next()).name == "reset"


async def test_a_guest_is_shown_what_was_said_and_not_how_it_is_worked_on(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """No wakes, no origin in other conversations, no metadata, no addresses of files."""
    ada = await came_in(site, (await link(boss, lobby))["url_path"], "Ada")
    other = await room(boss, "cellar")
    await say(boss, other, "there")
    await boss.put(f"/v1/conversations/{lobby}/binding", json={"session_id": "coder"})
    inside = message(
        "look",
        metadata={"ticket": "T-1"},
        attachments=[{"id": "f", "name": "plan.pdf", "url": "https://files.example/secret"}],
        origin={"conversation": other, "sequence": 1},
    )
    answer = await boss.post(f"/v1/conversations/{lobby}/transcript", json=inside)

    page = (await ada.client.get("/chat/messages")).json()

    assert answer.json()["record"]["wakes"]
    [record] = page["records"]
    assert (record["text"], record["attachments"][0]["name"]) == ("look", "plan.pdf")
    for hidden in ("T-1", "files.example", other, answer.json()["record"]["wakes"][0]):
        assert hidden not in str(page)


async def test_a_guest_only_reads_where_its_words_would_reach_nobody(
    site: Site, boss: httpx.AsyncClient
) -> None:
    """What it says in a Slack channel's transcript would not be in Slack."""
    channel = await room(boss, "C1", provider="slack")
    await say(boss, channel, "one")
    ada = await came_in(site, (await link(boss, channel, policy="all"))["url_path"], "Ada")

    assert ada.me["writes"] is False
    assert await ada.texts() == ["one"]
    problem(await ada.say("hello"), 403, "unauthorized")


@pytest.mark.parametrize(
    ("bounds", "ask"),
    [
        ({"entries": 2}, "enter"),
        ({"all_entries": 2}, "enter"),
        ({"messages": 2}, "say"),
        ({"requests": 2}, "read"),
    ],
)
async def test_too_much_is_refused_with_the_time_to_wait(
    site: Site, boss: httpx.AsyncClient, lobby: str, ada: Person, bounds: dict[str, int], ask: str
) -> None:
    """Per address, over all, per guest."""
    path = (await link(boss, lobby))["url_path"]
    limited(site, **bounds)

    async def once(number: int) -> httpx.Response:
        if ask == "enter":
            return await site.client().post(path, json={"name": f"Guest {number}"})
        if ask == "say":
            return await ada.say("hello", str(number))
        return await ada.client.get("/chat/messages")

    answers: list[Any] = [await once(number) for number in range(3)]

    assert [one.status_code for one in answers] == [200, 200, 429]
    problem(answers[2], 429, "limited")
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30


async def test_a_guest_has_so_many_streams(
    site: Site, boss: httpx.AsyncClient, lobby: str, ada: Person
) -> None:
    """A further one is told to wait."""
    limited(site, streams=1)
    async with site.stream(ada.client, "/chat/stream"):
        problem(await ada.client.get("/chat/stream"), 429, "limited")
        bea = await came_in(site, (await link(boss, lobby))["url_path"], "Bea")
        async with site.stream(bea.client, "/chat/stream"):
            pass


async def test_a_room_takes_so_many_guests(store: Store) -> None:
    """Who is in stays in, under another name as well; who leaves makes room."""
    tl = Threadline(store, Limits(guests=1))
    lobby = await tl.conversations.ensure("web/office/lobby")
    secret = (await tl.links.create(lobby.id)).secret or ""
    ada = await tl.guests.enter(secret, "Ada")

    with pytest.raises(Limited):
        await tl.guests.enter(secret, "Bea")
    assert (await tl.guests.enter(secret, "Eda", known=ada.secret)).actor_id == ada.actor_id
    bearer = await tl.guests.recognise(ada.secret)
    assert bearer is not None
    await tl.guests.leave(caller=bearer.caller)
    await tl.guests.enter(secret, "Bea")
    with pytest.raises(Revoked):
        await tl.guests.say("still here", client_id="1", caller=bearer.caller)
    with pytest.raises(Revoked):
        await tl.guests.show(ada.secret)
    with pytest.raises(Unauthorized):
        await tl.guests.transcript(caller=Controller())


async def test_a_guess_at_a_link_costs_as_much_as_an_entry(site: Site) -> None:
    """So that guessing is counted."""
    limited(site, entries=1)
    problem(await site.client().post("/chat/guess", json={"name": "Ada"}), 404, "not_found")
    problem(await site.client().post("/chat/guess", json={"name": "Ada"}), 429, "limited")


def test_buckets_are_bounded_and_none_is_without_limit() -> None:
    """The longest unused is forgotten first; 0 never refuses."""
    made = Buckets(GuestLimits())
    for number in range(buckets.REMEMBERED + 10):
        made.take("entries", str(number), 1)
    for _ in range(3):
        made.take("entries", "x", 0)

    assert len(made._left) == buckets.REMEMBERED
    with pytest.raises(Limited):
        made.take("entries", str(buckets.REMEMBERED + 9), 1)
    made.take("entries", "0", 1)
