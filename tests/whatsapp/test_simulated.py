"""The simulator is WhatsApp to a client we did not write: pywa, as it is."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pywa import errors
from pywa.client import WhatsApp
from pywa.utils import webhook_updates_validator

from threadline.testing.simulation import Simulation


@pytest.fixture(scope="module")
def meta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """One simulator for the module; every test has people of its own."""
    with Simulation("whatsapp", tmp_path_factory.mktemp("meta"), speed=100.0) as made:
        yield made


@pytest.fixture
def client(meta: Simulation) -> Iterator[Any]:
    """pywa's client, told only where the Graph API is."""
    with httpx.Client(trust_env=False, timeout=30) as session:
        number, token = meta.credentials["phone_number_id"], meta.credentials["token"]
        made = WhatsApp(phone_id=number, token=token, session=session)
        session.base_url = f"{meta.url}/v26.0"
        yield made


def test_pywa_says_a_text_and_the_simulator_counts_it(meta: Simulation, client: Any) -> None:
    meta.do("say", phone="15550100001", user_id="US.1")

    sent = client.send_message(to="15550100001", text="*hello*", tracker="k1")

    [effect] = meta.effects("message", place="15550100001")
    assert (effect["id"], effect["text"]) == (sent.id, "*hello*")
    assert effect["body"]["biz_opaque_callback_data"] == "k1"


def test_pywa_reads_the_refusals(meta: Simulation, client: Any) -> None:
    with pytest.raises(errors.ReEngagementMessage):
        client.send_message(to="15550100002", text="cold")
    meta.fault("rate_limit", on="messages")
    with pytest.raises(errors.WhatsAppError) as limited:
        client.send_message(to="15550100001", text="fast")
    assert limited.value.code == 130429
    assert meta.effects("message", place="15550100002") == []


def test_pywa_fetches_a_file(meta: Simulation, client: Any) -> None:
    media = meta.do("file", content="a photo", caption="look")["media"]

    url = client.get_media_url(media)

    assert url.mime_type == "image/jpeg"
    with client.api.stream_media_bytes(media_url=url.url) as answer:
        assert answer.read() == b"a photo"


async def test_pywa_believes_the_simulators_webhooks_and_they_come_again(
    meta: Simulation, tmp_path: Path
) -> None:
    got: list[tuple[bytes, str]] = []

    async def take(request: web.Request) -> web.Response:
        got.append((await request.read(), request.headers["X-Hub-Signature-256"]))
        return web.Response(status=500 if len(got) == 1 else 200)

    app = web.Application()
    app.router.add_post("/", take)
    with Simulation("whatsapp", tmp_path, speed=1000.0) as fresh:
        async with TestServer(app) as server:
            fresh.webhook(str(server.make_url("/")))
            fresh.do("say", text="hé / hi")
            async with httpx.AsyncClient(trust_env=False, timeout=60) as order:
                settled = (await order.get(f"{fresh.url}/_sim/events?idle=1")).json()["settled"]

    secret = meta.credentials["app_secret"]
    assert [one["attempts"] for one in settled] == [2]
    assert len(got) == 2
    assert got[0] == got[1]
    assert b"\\u00e9 \\/" in got[0][0]
    assert webhook_updates_validator(secret, *got[0])
    forged = hmac.new(b"other", got[0][0], hashlib.sha256).hexdigest()
    assert not webhook_updates_validator(secret, got[0][0], f"sha256={forged}")


def test_a_killed_simulator_remembers(meta: Simulation, client: Any) -> None:
    meta.do("say", phone="15550100005", user_id="US.5")
    client.send_message(to="15550100005", text="before")

    meta.kill()
    meta.start()

    client.send_message(to="15550100005", text="after")
    said = meta.effects("message", place="15550100005", at_least=2)
    assert [one["text"] for one in said] == ["before", "after"]
