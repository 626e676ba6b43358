"""People, Twilio and a session: over real HTTP, with what goes wrong on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx
import pytest

from tests.conftest import Store
from tests.http.conftest import Site, running
from tests.talk import Talk, connected
from threadline import Threadline
from threadline.adapters.twilio import Twilio
from threadline.core.adapters import Account
from threadline.core.deliveries import DeliveryState, Failure
from threadline.core.files import onwards
from threadline.core.model import Attachment, ConversationRef, Kind
from threadline.core.wire import ApiCall
from threadline.testing.simulation import Simulation
from threadline.transports.http import HttpTransport

PEOPLE = count(10_000)
SMS = "+15550100999"


@pytest.fixture(scope="module")
def twilio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """One simulator for the module; every test has people of its own."""
    with Simulation("twilio", tmp_path_factory.mktemp("twilio"), speed=1000.0) as made:
        yield made


@dataclass
class Scene(Talk):
    """One person who writes to the sender."""

    phone: str
    account: str

    @property
    def ref(self) -> ConversationRef:
        """Where the person talks."""
        return ConversationRef("twilio", self.account, f"whatsapp:{self.phone}", kind=Kind.DM)

    async def says(self, text: str, **more: Any) -> None:
        """The person writes, and everything on its way arrives."""
        await asyncio.to_thread(self.platform.do, "say", text=text, phone=self.phone, **more)
        await self.arrives()

    def effects(self) -> list[str]:
        """What the person got."""
        got = self.platform.effects("message", place=f"whatsapp:{self.phone}")
        return [one["text"] for one in got]


def given(twilio: Simulation, site: Site, **more: str) -> dict[str, str]:
    """What `threadline connect twilio` is told."""
    return {**twilio.credentials, "api": twilio.url, "public_url": site.url, **more}


@pytest.fixture
async def scene(store: Store, twilio: Simulation) -> AsyncIterator[Scene]:
    """The WhatsApp sender connected, its webhook set as by hand, and `agent` bound."""
    line = Threadline(store, allow_private=True)
    async with running(line) as site:
        made = await connected(site, "twilio", given(twilio, site))
        await asyncio.to_thread(twilio.webhook, site.url + made["webhook"])
        account = f"{twilio.credentials['account_sid']}:{twilio.credentials['address']}"
        scene = Scene(line, site, twilio, f"+155501{next(PEOPLE)}", account)
        await scene.says("Hello?")
        await line.speakers.bind(scene.ref, "agent", policy="all")
        yield scene
        await scene.arrives()
        twilio.calm()


async def test_what_a_person_says_is_answered_and_stands_there_once(scene: Scene) -> None:
    done = await scene.answers("**Yes?**")
    await scene.arrives()

    assert done.state is DeliveryState.DELIVERED
    assert scene.effects() == ["*Yes?*"]
    [question, answer] = await scene.records()
    assert (question.text, question.actor.name) == ("Hello?", "Ann")
    assert (answer.text, answer.source_session_id) == ("**Yes?**", "agent")
    [effect] = scene.platform.effects("message", place=f"whatsapp:{scene.phone}")
    assert effect["id"] == answer.message_id
    assert scene.line.webhooks.counts[("twilio", "receipt")] >= 2
    shown = (await scene.site.client().get("/metrics")).text
    assert 'threadline_webhooks_total{outcome="recorded",provider="twilio"} 1.0' in shown


async def test_a_webhook_that_comes_again_is_recorded_once(scene: Scene) -> None:
    await asyncio.to_thread(scene.platform.fault, "duplicate")
    await scene.says("one")
    await asyncio.to_thread(scene.platform.redeliver)
    await scene.arrives()

    assert [one.text for one in await scene.records()] == ["Hello?", "one"]


@pytest.mark.parametrize("fault", ["drop", "late_status"])
async def test_a_send_nobody_was_sure_of_is_settled_by_its_status_callback(
    scene: Scene, fault: str
) -> None:
    await asyncio.to_thread(scene.platform.fault, fault)

    done = await scene.answers("Once.")
    await scene.arrives()

    found = await scene.line.deliveries.show(done.id)
    assert found.state is DeliveryState.DELIVERED
    assert scene.effects() == ["Once."]
    assert [one.text for one in await scene.records()] == ["Hello?", "Once."]


async def test_a_closed_window_is_told_by_a_callback(scene: Scene) -> None:
    await asyncio.to_thread(scene.platform.do, "forget", who=f"whatsapp:{scene.phone}")

    late = await scene.answers("Too late.")
    invited = await scene.answers("May I?", metadata={"template": {"content_sid": "HX1"}})
    await scene.arrives()

    found = await scene.line.deliveries.show(late.id)
    assert (found.state, found.failure) == (DeliveryState.FAILED, Failure.WINDOW_CLOSED)
    assert invited.state is DeliveryState.DELIVERED
    assert len(scene.effects()) == 1


async def test_what_was_lost_while_nobody_listened_is_read_from_the_list(scene: Scene) -> None:
    await scene.answers("Yes?")
    await scene.arrives()
    await asyncio.to_thread(scene.platform.fault, "lose", times=2)
    await scene.says("lost one")
    await scene.says("lost two")
    boss = await scene.site.controller()
    place = await scene.line.conversations.ensure(scene.ref)

    told = await boss.post(f"/v1/conversations/{place.id}/history", json={})

    assert told.status_code == 200, told.text
    assert (told.json()["written"], told.json()["known"]) == (2, 2)
    said = sorted(one.text for one in await scene.records())
    assert said == ["Hello?", "Yes?", "lost one", "lost two"]


async def test_a_forged_form_is_refused(scene: Scene) -> None:
    async with httpx.AsyncClient(base_url=scene.site.url, trust_env=False) as stranger:
        posted = await stranger.post(
            f"/v1/webhooks/twilio/{scene.account}",
            data={"AccountSid": scene.platform.credentials["account_sid"], "Body": "hi"},
            headers={"x-twilio-signature": "c2lnbmVk", "x-forwarded-host": "bot.example.org"},
        )

    assert posted.status_code == 401


async def test_a_phone_number_gets_its_webhook_by_a_call(store: Store, twilio: Simulation) -> None:
    line = Threadline(store, allow_private=True)
    async with running(line) as site:
        made = await connected(site, "twilio", given(twilio, site, address=SMS))
        phone = f"+155501{next(PEOPLE)}"
        await asyncio.to_thread(twilio.do, "say", text="by SMS", phone=phone, to=SMS)
        await asyncio.to_thread(twilio.idle)
        account = f"{twilio.credentials['account_sid']}:{SMS}"
        there = ConversationRef("twilio", account, phone, kind=Kind.DM)
        heard = (await line.conversations.transcript(there)).records

    assert made["announced"]
    assert [one.text for one in heard] == ["by SMS"]


async def test_a_file_is_fetched_through_the_wire(twilio: Simulation) -> None:
    made = twilio.do("file", api=twilio.url, content="a photo")
    known = twilio.credentials
    dialect = Twilio(
        Account(
            scope_id="default",
            provider="twilio",
            account_id=f"{known['account_sid']}:{known['address']}",
            credentials={"auth_token": known["auth_token"]},
            settings={"api": twilio.url},
        )
    )
    wire = HttpTransport(allow_private=True)
    root = f"{twilio.url}/2010-04-01/Accounts/{known['account_sid']}"
    heard = Attachment(url=f"{root}/Messages/{made['sid']}/Media/{made['media']}")
    listed = Attachment(id=f"{made['sid']}/0")
    found = []

    for file in (heard, listed):
        step: Any = dialect.file(file)
        while isinstance(step, ApiCall):
            answer = await wire.perform(step)
            step = onwards(step, answer) or dialect.read_file(file, step, answer)
        found.append(step)
    await wire.close()

    assert found == [b"a photo", b"a photo"]
