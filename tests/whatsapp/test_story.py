"""People, WhatsApp and a session: over real HTTP, with what goes wrong on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

import httpx
import pytest

from tests.conftest import Store
from tests.http.conftest import running
from tests.talk import Talk, connected
from tests.whatsapp.conftest import signed, update
from threadline import Threadline
from threadline.adapters.whatsapp import WhatsApp
from threadline.core.adapters import Account
from threadline.core.deliveries import DeliveryState, Failure
from threadline.core.model import Attachment, ConversationRef, Kind
from threadline.core.wire import ApiCall
from threadline.flows.replay import CaughtUp, Handed
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation
from threadline.transports.http import HttpTransport

PEOPLE = count(10_000)


@pytest.fixture(scope="module")
def meta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """One simulator for the module; every test has people of its own."""
    with Simulation("whatsapp", tmp_path_factory.mktemp("meta"), speed=1000.0) as made:
        yield made


@dataclass
class Scene(Talk):
    """One person who writes to the number."""

    phone: str
    user: str

    @property
    def ref(self) -> ConversationRef:
        """Where the person talks."""
        number = self.platform.credentials["phone_number_id"]
        return ConversationRef("whatsapp", number, self.user, kind=Kind.DM)

    async def says(self, text: str, **more: Any) -> dict[str, Any]:
        """The person writes, and everything on its way arrives."""
        who = {"phone": self.phone, "user_id": self.user, **more}
        said: dict[str, Any] = await asyncio.to_thread(self.platform.do, "say", text=text, **who)
        await self.arrives()
        return said

    async def posts(self, told: object) -> None:
        """Meta tells something that the simulator does not."""
        body = json.dumps(told).encode()
        head = dict(signed(body, self.platform.credentials["app_secret"]).headers)
        async with self.site.client() as meta:
            path = f"/v1/webhooks/whatsapp/{self.ref.account_id}"
            taken = await meta.post(path, content=body, headers=head)
        assert taken.status_code == 200, taken.text

    def effects(self) -> list[str]:
        """What the person got."""
        mine = (self.user, self.phone)
        got = self.platform.effects("message")
        return [one["text"] for one in got if one["place"] in mine]


@pytest.fixture
async def scene(store: Store, meta: Simulation) -> AsyncIterator[Scene]:
    """The number connected by the calls that `threadline connect` makes, and `agent` bound."""
    line = Threadline(store, allow_private=True)
    async with running(line) as site:
        given = {**meta.credentials, "api": f"{meta.url}/v26.0"}
        assert (await connected(site, "whatsapp", given))["announced"]
        number = next(PEOPLE)
        scene = Scene(line, site, meta, f"155501{number}", f"US.{number}")
        await scene.says("Hello?")
        await line.speakers.bind(scene.ref, "agent", policy="all")
        yield scene
        await scene.arrives()
        meta.calm()


async def test_what_a_person_says_is_answered_and_stands_there_once(scene: Scene) -> None:
    done = await scene.answers("**Yes?**", reply_to=1)
    await scene.arrives()

    assert done.state is DeliveryState.DELIVERED
    assert scene.effects() == ["*Yes?*"]
    [question, answer] = await scene.records()
    assert (question.text, question.actor.name) == ("Hello?", "Ann")
    assert (answer.text, answer.source_session_id) == ("**Yes?**", "agent")
    assert answer.actor.is_self
    [effect] = scene.platform.effects("message", place=scene.user)
    assert effect["body"]["context"] == {"message_id": question.message_id}
    assert effect["id"] == answer.message_id


async def test_a_webhook_that_comes_again_or_late_is_recorded_once(scene: Scene) -> None:
    for fault in ("duplicate", "reorder"):
        await asyncio.to_thread(scene.platform.fault, fault)
    await scene.says("one")
    await scene.says("two")
    await scene.says("three")
    await asyncio.to_thread(scene.platform.redeliver)
    await scene.arrives()

    said = [one.text for one in await scene.records()]
    assert sorted(said) == ["Hello?", "one", "three", "two"]


@pytest.mark.parametrize("fault", ["drop", "late_status"])
async def test_a_send_nobody_was_sure_of_is_settled_by_its_status(scene: Scene, fault: str) -> None:
    await asyncio.to_thread(scene.platform.fault, fault)

    done = await scene.answers("Once.")
    await scene.arrives()

    found = await scene.line.deliveries.show(done.id)
    assert found.state is DeliveryState.DELIVERED
    assert scene.effects() == ["Once."]
    assert [one.text for one in await scene.records()] == ["Hello?", "Once."]


async def test_a_rate_limit_waits_and_loses_nothing(scene: Scene, clock: StillClock) -> None:
    await asyncio.to_thread(scene.platform.fault, "rate_limit", wait=120)

    sent = await scene.line.outbound.publish(scene.ref, "agent", "Later.")
    async with asyncio.timeout(60):
        while (waiting := await scene.line.deliveries.show(sent.id)).next_attempt_at is None:
            await scene.line.conversations.transcript(scene.ref)
    early = scene.effects()
    clock.move(seconds=121)
    # Anything said rings the bell; the order stays.
    await scene.answers("Last.")

    assert waiting.next_attempt_at == clock.at - timedelta(seconds=1)
    assert early == []
    assert scene.effects() == ["Later.", "Last."]


async def test_a_closed_window_is_refused_at_once_or_by_a_status(scene: Scene) -> None:
    await asyncio.to_thread(scene.platform.do, "forget", user=scene.user)
    refused = await scene.answers("Too late.")
    named = {"template": {"name": "hello", "language": "en"}}
    invited = await scene.answers("May I?", metadata=named)
    await asyncio.to_thread(scene.platform.do, "expect", window="late")
    late = await scene.answers("Still too late.")
    await scene.arrives()
    await asyncio.to_thread(scene.platform.do, "expect", window="at_once")

    assert (refused.state, refused.failure) == (DeliveryState.FAILED, Failure.WINDOW_CLOSED)
    assert invited.state is DeliveryState.DELIVERED
    found = await scene.line.deliveries.show(late.id)
    assert (found.state, found.failure) == (DeliveryState.FAILED, Failure.WINDOW_CLOSED)
    assert len(scene.effects()) == 1


@pytest.mark.acceptance("A9")
async def test_a_person_with_a_new_number_goes_on_in_the_same_transcript(scene: Scene) -> None:
    phone, user = f"{scene.phone}9", f"{scene.user}9"
    await asyncio.to_thread(
        scene.platform.do,
        "move",
        phone=scene.phone,
        user_id=scene.user,
        to_phone=phone,
        to_user_id=user,
    )
    await scene.arrives()
    await scene.says("It is me.", phone=phone, user_id=user)
    await scene.answers("Welcome back.")
    await scene.arrives()

    said = [one.text for one in await scene.records()]
    assert (said[0], said[2:]) == ("Hello?", ["It is me.", "Welcome back."])
    [effect] = scene.platform.effects("message", place=user)
    assert effect["text"] == "Welcome back."


@pytest.mark.case("B031")
@pytest.mark.parametrize("written", ["{phone}", "+{phone}", "{user}"])
async def test_whatever_event_tells_of_a_chat_however_it_is_written_it_is_one(
    scene: Scene, written: str
) -> None:
    """B031: what became of a message is told under another spelling than the message, and what
    the owner says by phone as well; the places are one before any key is made of them."""
    before = len((await scene.line.conversations.page())[0])
    chat = written.format(phone=scene.phone, user=scene.user)
    done = await scene.answers("Yes?")
    [question, answer] = await scene.records()
    statuses = [
        {"id": one, "status": status, "recipient_id": chat}
        for one in (question.message_id, answer.message_id)
        for status in ("delivered", "read")
    ]
    echo = {"from": "15550100999", "to": chat, "id": f"wamid.{scene.phone}", "type": "text"}
    echo |= {"text": {"body": "by hand"}}  # type: ignore[dict-item]
    for what, of in (
        ({"statuses": statuses}, "messages"),
        ({"message_echoes": [echo]}, "smb_message_echoes"),
        ({"statuses": [{**statuses[0], "id": echo["id"]}]}, "messages"),
    ):
        await scene.posts(update(what, number_id=scene.ref.account_id, of=of))

    assert done.state is DeliveryState.DELIVERED
    assert len((await scene.line.conversations.page())[0]) == before
    assert [one.text for one in await scene.records()] == ["Hello?", "Yes?", "by hand"]


@pytest.mark.case("B038")
async def test_a_message_that_comes_again_during_its_turn_changes_nothing(
    scene: Scene, clock: StillClock
) -> None:
    """B038: after 90 of its 180 seconds; neither the session nor the person notices."""
    stream = scene.line.replay.follow("agent", patience=60)
    turn = await anext(stream)
    assert isinstance(await anext(stream), CaughtUp)
    calls = len(scene.platform.calls())
    clock.move(seconds=90)
    await asyncio.to_thread(scene.platform.redeliver)
    await scene.arrives()
    assert len(scene.platform.calls()) == calls
    again = await scene.records()
    clock.move(seconds=90)
    await scene.answers("Yes?", reply_to=1)
    await scene.says("And?")
    following = await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]

    assert isinstance(turn, Handed)
    assert isinstance(following, Handed)
    assert (turn.record.text, following.record.text) == ("Hello?", "And?")
    assert [one.text for one in again] == ["Hello?"]
    assert scene.effects() == ["Yes?"]
    assert [one.text for one in await scene.records()] == ["Hello?", "Yes?", "And?"]


@pytest.mark.acceptance("A9")
async def test_what_is_said_goes_to_the_user_id_and_not_to_the_phone(scene: Scene) -> None:
    await scene.answers("Here?")

    [effect] = scene.platform.effects("message", place=scene.user)
    assert effect["text"] == "Here?"


async def test_a_request_of_several_numbers_is_heard_by_its_own(scene: Scene) -> None:
    await scene.says("mine", beside_others=True)

    assert [one.text for one in await scene.records()] == ["Hello?", "mine"]
    assert scene.line.webhooks.counts[("whatsapp", "foreign")] == 1


async def test_a_forged_webhook_is_refused_and_says_nothing(scene: Scene) -> None:
    path = f"/v1/webhooks/whatsapp/{scene.platform.credentials['phone_number_id']}"
    async with httpx.AsyncClient(base_url=scene.site.url, trust_env=False) as stranger:
        posted = await stranger.post(path, content=b'{"entry":[]}')
        asked = await stranger.get(path, params={"hub.mode": "subscribe", "hub.challenge": "1"})

    assert (posted.status_code, asked.status_code) == (401, 401)


async def test_what_the_owner_types_by_hand_is_recorded_as_ours(scene: Scene) -> None:
    await asyncio.to_thread(scene.platform.do, "type", text="By hand.", phone=scene.phone)
    await scene.arrives()

    newest = (await scene.records())[-1]
    assert (newest.text, newest.direction.value, newest.actor.is_self) == (
        "By hand.",
        "outbound",
        True,
    )


@pytest.mark.case("B147")
async def test_own_words_that_come_back_are_what_we_said_or_somebody_by_hand(
    scene: Scene,
) -> None:
    """B147: neither asks anybody for an answer; what was typed elsewhere is no session's."""
    [question] = await scene.records()
    done = await scene.answers("Yes?", reply_to=question.sequence)
    [w9] = done.message_ids
    before = await scene.records()

    await asyncio.to_thread(scene.platform.do, "type", text="Yes?", phone=scene.phone, id=w9)
    await scene.arrives()
    assert await scene.records() == before
    w10 = await asyncio.to_thread(scene.platform.do, "type", text="note", phone=scene.phone)
    await scene.arrives()

    *earlier, note = await scene.records()
    assert (earlier, note.message_id) == (before, w10["id"])
    assert (note.direction.value, note.actor.is_self) == ("outbound", True)
    assert (note.source_session_id, note.target_session_id, note.wakes) == (None, None, ())
    read = (await scene.line.replay.backfill(scene.ref, "agent")).records
    waked = [(one.record.text, one.speaker, one.wake) for one in read]
    assert waked == [("Hello?", False, False), ("note", False, False)]
    assert len((await scene.line.deliveries.page()).deliveries) == 1
    assert scene.effects() == ["Yes?"]


async def test_a_file_is_fetched_through_the_wire(meta: Simulation) -> None:
    media = meta.do("file", content="a photo")["media"]
    known = {name: meta.credentials[name] for name in ("token", "app_secret", "verify_token")}
    number = meta.credentials["phone_number_id"]
    dialect = WhatsApp(
        Account(
            scope_id="default",
            provider="whatsapp",
            account_id=number,
            credentials=known,
            settings={"api": f"{meta.url}/v26.0"},
        )
    )
    wire = HttpTransport(allow_private=True)
    file = Attachment(id=media)

    step: Any = dialect.file(file)
    while isinstance(step, ApiCall):
        step = dialect.read_file(file, step, await wire.perform(step))
    await wire.close()

    assert step == b"a photo"
