"""What sessions say on their own initiative, over HTTP: who lets them, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
import pytest

from tests.http.conftest import LOBBY as ROOM
from tests.http.conftest import Served, Site, message, problem
from threadline.core.ids import public
from threadline.core.model import Controller
from threadline.entrypoints.http import answers, replies
from threadline.testing.clock import StillClock

LOBBY = "web/office/lobby"
SEND = "/v1/send"
WORDS = {"session_id": "coder", "to": LOBBY, "text": "The build is broken."}
ACCOUNT = "/v1/sessions/coder/accounts/web/office"


@dataclass
class Place:
    """The room `coder` may write in, who let it, and its own token."""

    room: str
    human: httpx.AsyncClient
    coder: httpx.AsyncClient

    async def texts(self) -> list[str]:
        """What stands in the room."""
        page = await self.human.get(f"{self.room}/transcript")
        return [one["text"] for one in page.json()["records"]]


async def human_of(site: Site) -> httpx.AsyncClient:
    """A controller that is a person."""
    made = await site.line.tokens.create(
        "controller", human=True, caller=Controller(None, human=True)
    )
    return site.client(made.token)


@pytest.fixture
async def human(site: Site) -> httpx.AsyncClient:
    """A controller that is a person."""
    return await human_of(site)


@pytest.fixture
async def place(site: Site, human: httpx.AsyncClient, lobby: str) -> Place:
    """All that has to be decided is decided."""
    granted = await human.put(ACCOUNT)
    assert granted.status_code == 200, granted.text
    switched = await human.put("/v1/consent", json={"conversation": lobby, "state": "on"})
    assert switched.status_code == 200, switched.text
    coder = await site.session("coder", "read", "publish", "send")
    return Place(f"/v1/conversations/{lobby}", human, coder)


def sent_of(answer: httpx.Response, status: int = 202) -> replies.Send:
    """The send an answer is."""
    assert answer.status_code == status, answer.text
    return msgspec.convert(answer.json(), replies.Send)


async def audited(client: httpx.AsyncClient, **params: Any) -> list[replies.Entry]:
    """The entries of the audit, newest first."""
    answer = await client.get("/v1/audit", params=params)
    assert answer.status_code == 200, answer.text
    return msgspec.convert(answer.json(), replies.Audit).entries


async def test_a_session_writes_first_in_a_room_and_the_answer_comes_back_to_it(
    place: Place,
) -> None:
    sent = sent_of(await place.coder.post(SEND, json=WORDS))

    assert (sent.state, sent.session_id, sent.to) == ("delivered", "coder", LOBBY)
    assert sent.delivery is not None
    assert (sent.delivery.state, sent.delivery.sequence) == ("delivered", 1)
    assert [one.outcome for one in sent.tried] == ["delivered"]
    assert await place.texts() == ["The build is broken."]
    answer = await place.human.post(f"{place.room}/transcript", json=message("I will look."))
    assert answer.json()["target_session_id"] == "coder"
    inbox = await place.coder.get("/v1/sessions/coder/inbox")
    assert [one["text"] for one in inbox.json()["records"]] == ["I will look."]


async def test_without_an_account_of_its_own_a_session_writes_to_nobody(
    site: Site, human: httpx.AsyncClient, lobby: str
) -> None:
    """Whether the place exists or not, the answer is the same."""
    await human.put("/v1/consent", json={"conversation": lobby, "state": "on"})
    coder = await site.session("coder", "read", "send")

    there = problem(await coder.post(SEND, json=WORDS), 403, "unauthorized")
    nowhere = await coder.post(SEND, json=WORDS | {"to": "web/office/attic"})
    nobody = await coder.post(SEND, json=WORDS | {"to": "telegram:4711"})

    assert problem(nowhere, 403, "unauthorized")["detail"] == there["detail"]
    assert problem(nobody, 403, "unauthorized")["detail"] == there["detail"]
    page = await human.get(f"/v1/conversations/{lobby}/transcript")
    assert page.json()["records"] == []


async def test_an_account_that_was_taken_away_is_used_no_more(place: Place) -> None:
    mine = await place.coder.get("/v1/sessions/coder/accounts")
    found = msgspec.convert(mine.json(), replies.Grants).accounts
    assert [(one.provider, one.account_id, one.by) for one in found] == [("web", "office", "human")]

    gone = await place.human.delete(ACCOUNT)

    assert gone.status_code == 200
    problem(await place.coder.post(SEND, json=WORDS), 403, "unauthorized")
    problem(await place.human.delete(ACCOUNT), 404, "not_found")
    assert await place.texts() == []


async def test_a_room_is_written_in_only_where_a_human_switched_it_on(
    site: Site, boss: httpx.AsyncClient, human: httpx.AsyncClient, lobby: str
) -> None:
    """An agent with a controller's token turns things off, never on."""
    await boss.put(ACCOUNT)
    coder = await site.session("coder", "read", "send")
    on = {"conversation": lobby, "state": "on"}

    problem(await coder.post(SEND, json=WORDS), 403, "consent_required")
    assert problem(await boss.put("/v1/consent", json=on), 403, "unauthorized")["facts"]["human"]
    problem(await coder.put("/v1/consent", json=on), 403, "unauthorized")
    problem(await coder.put(ACCOUNT), 403, "unauthorized")
    problem(await coder.post(SEND, json=WORDS), 403, "consent_required")

    decided = await human.put("/v1/consent", json=on | {"why": "They asked for it."})
    made = msgspec.convert(decided.json(), replies.Consent)
    assert (made.state, made.by, made.why) == ("on", "human", "They asked for it.")
    sent_of(await coder.post(SEND, json=WORDS))
    await boss.put("/v1/consent", json=on | {"state": "off"})
    problem(await coder.post(SEND, json=WORDS), 403, "consent_required")
    shown = await boss.get("/v1/consent", params={"conversation": lobby})
    consents = msgspec.convert(shown.json(), replies.Consents).consents
    assert [(one.state, one.by) for one in consents] == [("off", "controller")]


async def test_what_was_decided_for_one_session_names_it_as_it_was_asked(
    boss: httpx.AsyncClient, lobby: str
) -> None:
    await boss.post("/v1/sessions", json={"session_id": "coder"})
    off = {"conversation": lobby, "state": "off", "about": "session:coder"}
    await boss.put("/v1/consent", json=off)
    await boss.post("/v1/sessions/coder/reassign", json={"to": "tester"})

    shown = await boss.get("/v1/consent", params={"conversation": lobby})

    assert [one["about"] for one in shown.json()["consents"]] == ["session:tester"]


async def test_the_words_of_a_send_are_shown_as_long_as_it_waits(place: Place) -> None:
    """Then they stand in the transcript, in a record that names its send."""
    daily = {"repeat": {"at": "08:30", "zone": "Europe/Berlin"}}
    later = sent_of(await place.coder.post(SEND, json=WORDS | daily))
    said = sent_of(await place.coder.post(SEND, json=WORDS))

    assert (later.text, said.text) == (WORDS["text"], "")
    page = await place.human.get(f"{place.room}/transcript")
    assert [one["metadata"] for one in page.json()["records"]] == [{"send": said.id}]


async def test_what_is_over_a_limit_is_told_which_one_and_until_when(place: Place) -> None:
    changed = await place.human.put("/v1/limits", json={"recipient_per_hour": 1})
    assert msgspec.convert(changed.json(), replies.Allowances).limits["recipient_per_hour"] == 1
    sent_of(await place.coder.post(SEND, json=WORDS))

    second = await place.coder.post(SEND, json=WORDS)

    refusal = problem(second, 429, "limit_reached")
    assert (refusal["facts"]["limit"], refusal["facts"]["number"]) == ("recipient_per_hour", 1)
    assert refusal["facts"]["frees_at"] in second.text
    assert second.headers["retry-after"] == "3600"
    assert await place.texts() == ["The build is broken."]
    await place.human.put("/v1/limits", json={"recipient_per_hour": 2})
    sent_of(await place.coder.post(SEND, json=WORDS))


@pytest.mark.parametrize("body", [{"recipient_per_hour": -1}, {"recipient_per_year": 1}])
async def test_what_is_no_limit_is_refused(human: httpx.AsyncClient, body: dict[str, int]) -> None:
    before = (await human.get("/v1/limits")).json()

    problem(await human.put("/v1/limits", json=body), 400, "invalid_input")

    assert (await human.get("/v1/limits")).json() == before


async def test_a_key_makes_one_send_of_many_requests(place: Place) -> None:
    key = {"Idempotency-Key": "build-17"}
    first = sent_of(await place.coder.post(SEND, json=WORDS, headers=key))

    again = sent_of(await place.coder.post(SEND, json=WORDS, headers=key), 200)

    assert (again.id, again.repeated, first.repeated) == (first.id, True, False)
    other = await place.coder.post(SEND, json=WORDS | {"text": "Other."}, headers=key)
    problem(other, 409, "idempotency_conflict")
    assert await place.texts() == ["The build is broken."]


async def test_sends_are_listed_and_shown_to_the_session_that_made_them(
    site: Site, place: Place, clock: StillClock
) -> None:
    made = []
    for _ in range(3):
        made.append(sent_of(await place.coder.post(SEND, json=WORDS)).id)
        clock.move(seconds=1)

    page = msgspec.convert(
        (await place.coder.get("/v1/sends", params={"limit": 2})).json(), replies.Sends
    )
    rest = await place.coder.get("/v1/sends", params={"limit": 2, "before": page.next})

    assert [one.id for one in page.sends] == made[:0:-1]
    assert [one["id"] for one in rest.json()["sends"]] == made[:1]
    assert rest.json()["next"] is None
    shown = sent_of(await place.coder.get(f"/v1/sends/{made[0]}"), 200)
    assert (shown.id, shown.state) == (made[0], "delivered")
    stranger = await site.session("stranger", "read", "send")
    problem(await stranger.get(f"/v1/sends/{made[0]}"), 404, "not_found")
    assert (await stranger.get("/v1/sends")).json() == {"sends": [], "next": None}


async def test_a_send_waits_for_its_time_and_is_taken_back(site: Site, place: Place) -> None:
    daily = {"repeat": {"at": "08:30", "zone": "Europe/Berlin"}}
    planned = sent_of(await place.coder.post(SEND, json=WORDS | daily))
    assert (planned.state, planned.tried) == ("scheduled", [])
    assert planned.repeat == replies.RepeatedDaily(at="08:30", zone="Europe/Berlin")
    path = f"/v1/sends/{planned.id}/cancel"
    reader = await site.session("coder", "read")

    problem(await reader.post(path), 403, "unauthorized")
    ended = sent_of(await place.coder.post(path), 200)

    assert ended.state == "cancelled"
    assert await place.texts() == []


async def test_the_same_intent_is_said_once(site: Site, place: Place) -> None:
    """By whichever session: the second is told who was first, and there is no second record."""
    await place.human.put("/v1/sessions/tester/accounts/web/office")
    tester = await site.session("tester", "read", "send")
    intent = {"intent": "build 17 is broken", "intent_for": 3600}
    first = sent_of(await place.coder.post(SEND, json=WORDS | intent))

    second = sent_of(await tester.post(SEND, json=WORDS | intent | {"session_id": "tester"}))

    assert second.state == "suppressed"
    assert second.first is not None
    assert (second.first.id, second.first.session_id) == (first.id, "coder")
    page = await place.human.get(f"{place.room}/transcript")
    said, told = page.json()["records"]
    assert said["text"] == WORDS["text"]
    assert (told["source_session_id"], told["wakes"]) == (None, [])
    assert told["text"].startswith("Not said again: coder said this")


async def test_a_session_is_written_to_by_its_name_as_well(site: Site, place: Place) -> None:
    await place.human.post("/v1/sessions", json={"session_id": "reader"})
    words = {"session_id": "coder", "text": "Did you see it?"}

    by_text = await place.coder.post(SEND, json=words | {"to": "session:reader"})
    by_body = await place.coder.post(SEND, json=words | {"to": {"session_id": "reader"}})

    deliveries = [msgspec.convert(one.json(), answers.Delivery) for one in (by_text, by_body)]
    assert [one.state for one in deliveries] == ["delivered", "delivered"]
    assert deliveries[0].conversation == deliveries[1].conversation
    timed = words | {"to": "session:reader", "intent": "seen"}
    assert problem(await place.coder.post(SEND, json=timed), 400, "invalid_input")["facts"] == {
        "field": "intent"
    }


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"to": "nobody"}, "invalid_input"),
        ({"to": "person:nobody"}, "invalid_input"),
        ({"to": ""}, "invalid_input"),
        ({"to": "web/"}, "invalid_conversation"),
        ({"at": "2030-01-01T00:00:00"}, "invalid_input"),
        ({"at": "9000-01-01T00:00:00Z"}, "invalid_input"),
        ({"repeat": {"at": "25:00", "zone": "UTC"}}, "invalid_input"),
        ({"repeat": {"at": "08:00", "zone": "Mars/Base"}}, "invalid_input"),
        ({"intent": "x" * 201}, "invalid_input"),
        ({"intent_for": 0}, "invalid_input"),
        ({"intent_for": 1e300}, "invalid_input"),
        ({"reply_to": 1}, "invalid_input"),
        ({"text": ""}, "invalid_input"),
        ({"attachments": [{"conversation": LOBBY}]}, "invalid_input"),
        ({"unknown": 1}, "invalid_input"),
    ],
)
async def test_a_send_that_makes_no_sense_is_refused(
    place: Place, more: dict[str, Any], code: str
) -> None:
    problem(await place.coder.post(SEND, json=WORDS | more), 400, code)

    assert (await place.human.get("/v1/sends")).json()["sends"] == []


async def test_the_audit_tells_what_was_decided_refused_and_said_and_is_whole(
    site: Site, boss: httpx.AsyncClient, human: httpx.AsyncClient, lobby: str
) -> None:
    coder = await site.session("coder", "read", "send")
    await coder.post(SEND, json=WORDS)
    await human.put(ACCOUNT)
    await human.put("/v1/consent", json={"conversation": lobby, "state": "on"})
    await human.put("/v1/limits", json={"recipient_per_hour": 1})
    await coder.post(SEND, json=WORDS)
    await coder.post(SEND, json=WORDS)

    entries = await audited(boss)

    assert [(one.action, one.by) for one in reversed(entries)] == [
        ("send.refused", "session coder"),
        ("account.granted", "human"),
        ("consent.on", "human"),
        ("limits.changed", "human"),
        ("send", "session coder"),
        ("send.delivered", "system"),
        ("send.refused", "session coder"),
    ]
    refused = await audited(boss, action="send.refused")
    assert [one.facts["code"] for one in refused] == ["limit_reached", "unauthorized"]
    first = await audited(boss, before=entries[-2].number)
    assert [one.number for one in first] == [1]
    later = await audited(boss, since="2100-01-01T00:00:00Z")
    assert later == []
    assert WORDS["text"] not in (await boss.get("/v1/audit")).text
    verdict = msgspec.convert((await boss.get("/v1/audit/verify")).json(), replies.Verified)
    assert (verdict.whole, verdict.entries, verdict.broken_at) == (True, len(entries), None)


async def test_people_are_made_found_changed_merged_and_split(boss: httpx.AsyncClient) -> None:
    body = {"name": "Ann", "contacts": ["telegram:4711", "email:Ann@Example.org"]}
    made = msgspec.convert((await boss.post("/v1/people", json=body)).json(), replies.Person)
    assert {(one.provider, one.address) for one in made.contacts} == {
        ("telegram", "4711"),
        ("email", "ann@example.org"),
    }
    path = f"/v1/people/{made.id}"
    by = {"by": "email:ann@example.org"}
    assert (await boss.get("/v1/people/find", params=by)).json()["id"] == made.id
    problem(await boss.get("/v1/people/find", params={"by": "alias:none"}), 404, "not_found")
    other = (await boss.post("/v1/people", json={"name": "A.", "contacts": ["sms:+49"]})).json()

    merged = await boss.post(f"{path}/merge", json={"other": other["id"]})

    one = msgspec.convert(merged.json(), replies.Person)
    assert (one.id, one.merged, len(one.contacts)) == (made.id, [other["id"]], 3)
    assert (await boss.get(f"/v1/people/{other['id']}")).json() == merged.json()
    split = await boss.post(f"{path}/split", json={"contact": "sms:+49", "name": "Bob"})
    bob = msgspec.convert(split.json(), replies.Person)
    assert (bob.name, [one.address for one in bob.contacts]) == ("Bob", ["+49"])
    changed = await boss.patch(path, json={"name": "Ann Lee", "without": ["telegram:4711"]})
    assert changed.status_code == 200, changed.text
    assert changed.json()["name"] == "Ann Lee"
    assert [one["provider"] for one in changed.json()["contacts"]] == ["email"]
    named = (await boss.get("/v1/people", params={"name": "Bob"})).json()["people"]
    assert [one["id"] for one in named] == [bob.id]
    page = (await boss.get("/v1/people", params={"limit": 1})).json()
    rest = await boss.get("/v1/people", params={"after": page["next"]})
    assert {page["next"], *(one["id"] for one in rest.json()["people"])} >= {made.id, bob.id}


async def test_only_a_human_vouches_for_an_address(
    boss: httpx.AsyncClient, human: httpx.AsyncClient
) -> None:
    body = {"name": "Ann", "contacts": ["telegram:4711"], "verified": True}

    problem(await boss.post("/v1/people", json=body), 403, "unauthorized")
    made = await human.post("/v1/people", json=body)

    [contact] = msgspec.convert(made.json(), replies.Person).contacts
    assert contact.verified_at is not None
    assert contact.how == "controller"


async def test_a_code_is_shown_once(boss: httpx.AsyncClient) -> None:
    person = (await boss.post("/v1/people", json={"name": "Ann"})).json()["id"]
    path, key = f"/v1/people/{person}/code", {"Idempotency-Key": "k1"}

    made = await boss.post(path, json={"provider": "telegram"}, headers=key)
    again = await boss.post(path, json={"provider": "telegram"}, headers=key)

    code = msgspec.convert(made.json(), replies.Code)
    assert len(code.code) == 9
    assert code.provider == "telegram"
    problem(again, 409, "already_done")
    assert code.code not in again.text
    assert code.code.replace("-", "") not in (await boss.get("/v1/audit")).text
    assert (await boss.post(path, json={})).status_code == 200
    problem(await boss.post(f"/v1/people/{public(7)}/code", json={}), 404, "not_found")


async def test_only_a_human_makes_a_humans_token(
    site: Site, boss: httpx.AsyncClient, human: httpx.AsyncClient
) -> None:
    body = {"kind": "controller", "human": True}

    problem(await boss.post("/v1/tokens", json=body), 403, "unauthorized")
    problem(
        await human.post("/v1/tokens", json={"kind": "session", "session_id": "a", "human": True}),
        400,
        "invalid_input",
    )
    made = await human.post("/v1/tokens", json=body)

    token = msgspec.convert(made.json(), answers.Token)
    assert token.human
    assert token.token is not None
    assert (await site.client(token.token).get("/v1/me")).json()["human"] is True
    assert (await boss.get("/v1/me")).json()["human"] is False


async def test_what_ended_is_forgotten(site: Site, place: Place, clock: StillClock) -> None:
    """An intent that is old may be said again; nothing of it, and no old code, is kept."""
    await site.tidied()
    person = (await place.human.post("/v1/people", json={"name": "Ann"})).json()["id"]
    await place.human.post(f"/v1/people/{person}/code", json={})
    intent = {"intent": "build 17 is broken", "intent_for": 3600}
    sent_of(await place.coder.post(SEND, json=WORDS | intent))
    kept = await site.line.upkeep.round()

    clock.move(hours=1)
    gone = await site.line.upkeep.round()

    assert (kept.codes, kept.intents) == (0, 0)
    assert (gone.codes, gone.intents) == (1, 1)
    again = sent_of(await place.coder.post(SEND, json=WORDS | intent))
    assert again.state == "delivered"


def test_the_administrator_of_a_machine_is_human(served: Served) -> None:
    """So is whoever the command line says; an ordinary controller is not."""
    made = [
        served.command(
            "token", "create", "--kind", "controller", *more, "--all-scopes"
        ).stdout.split()[0]
        for more in ((), ("--human",))
    ]
    states = []
    for token in (None, *made):
        with served.client(token) as client:
            room = client.post("/v1/conversations", json=ROOM).json()["id"]
            body = {"conversation": room, "state": "on"}
            states.append(client.put("/v1/consent", json=body).status_code)

    assert states == [200, 403, 200]
