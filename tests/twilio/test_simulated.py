"""The simulator is Twilio to a client we did not write: the official SDK, as it is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from twilio.base.exceptions import TwilioRestException
from twilio.request_validator import RequestValidator
from twilio.rest import Client

from threadline.testing.simulation import Simulation


@pytest.fixture(scope="module")
def twilio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """One simulator for the module; every test has people of its own."""
    with Simulation("twilio", tmp_path_factory.mktemp("twilio"), speed=100.0) as made:
        yield made


@pytest.fixture
def client(twilio: Simulation) -> Any:
    """The SDK's client, told only where the API is."""
    known = twilio.credentials
    made = Client(known["account_sid"], known["auth_token"])
    made.api.base_url = twilio.url
    return made


def whatsapp(number: int) -> str:
    """A person."""
    return f"whatsapp:+1555010{number:04}"


def test_the_sdk_says_a_text_and_reads_it_back(twilio: Simulation, client: Any) -> None:
    ann, ours = whatsapp(1), twilio.credentials["address"]
    twilio.do("say", phone="+15550100001", text="hi")

    sent = client.messages.create(to=ann, from_=ours, body="*hello*")

    [effect] = twilio.effects("message", place=ann)
    assert (effect["id"], effect["text"]) == (sent.sid, "*hello*")
    assert client.messages(sent.sid).fetch().status == "delivered"
    assert [one.body for one in client.messages.list(from_=ann, to=ours)] == ["hi"]
    until = datetime.now(UTC) - timedelta(days=1)
    assert client.messages.list(to=ann, date_sent_before=until) == []
    assert client.api.accounts(twilio.credentials["account_sid"]).fetch().status == "active"


def test_the_sdk_pages_through_the_list(twilio: Simulation, client: Any) -> None:
    for number in range(5):
        twilio.do("say", phone="+15550100002", text=str(number))

    listed = client.messages.list(from_=whatsapp(2), page_size=2)

    assert [one.body for one in listed] == ["4", "3", "2", "1", "0"]


def test_the_sdk_reads_the_refusals(twilio: Simulation, client: Any) -> None:
    ours = twilio.credentials["address"]
    for code, fields in (
        (21211, {"to": "whatsapp:ann", "from_": ours, "body": "x"}),
        (21606, {"to": whatsapp(3), "from_": "whatsapp:+1999999", "body": "x"}),
        (21617, {"to": whatsapp(3), "from_": ours, "body": "x" * 1601}),
    ):
        with pytest.raises(TwilioRestException) as refused:
            client.messages.create(**fields)
        assert refused.value.code == code
    twilio.fault("rate_limit", on="messages")
    with pytest.raises(TwilioRestException) as limited:
        client.messages.create(to=whatsapp(3), from_=ours, body="x")
    assert (limited.value.status, limited.value.code) == (429, 20429)
    assert twilio.effects("message", place=whatsapp(3)) == []


async def test_the_sdk_believes_the_simulators_webhooks(tmp_path: Path) -> None:
    got: list[tuple[str, dict[str, str], str]] = []

    async def take(request: web.Request) -> web.Response:
        fields = dict(parse_qsl((await request.read()).decode(), keep_blank_values=True))
        got.append((str(request.url), fields, request.headers["X-Twilio-Signature"]))
        return web.Response(text="<Response/>", content_type="text/xml")

    app = web.Application()
    app.router.add_post("/hook", take)
    with Simulation("twilio", tmp_path) as fresh:
        async with TestServer(app) as server, httpx.AsyncClient(trust_env=False) as order:
            fresh.webhook(str(server.make_url("/hook")))
            fresh.do("say", text="hé & hi")
            await order.get(f"{fresh.url}/_sim/events?idle=1", timeout=60)

    validator = RequestValidator(fresh.credentials["auth_token"])
    [(url, fields, signature)] = got
    assert fields["Body"] == "hé & hi"
    assert validator.validate(url, fields, signature)
    assert not validator.validate(url, {**fields, "Body": "ho"}, signature)
