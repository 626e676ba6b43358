"""Where Slack gives no socket, or none that may be called."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

import pytest

from tests.slack.conftest import TEAM
from threadline.core.adapters import Account
from threadline.core.errors import ConfigError
from threadline.core.wire import ApiCall, ApiResponse, Batch, Lost, Unsent
from threadline.testing.simulation import Simulation
from threadline.testing.simulators.slack_socket import MOST
from threadline.transports.slack import SlackTransport


def account(slack: Simulation) -> Account:
    """One that fetches its events."""
    return Account(
        scope_id="default",
        provider="slack",
        account_id=TEAM,
        credentials={"app_token": slack.credentials["app_token"]},
        settings={"api": f"{slack.url}/api"},
    )


def listening(slack: Simulation) -> AsyncGenerator[Batch, None]:
    """One connection."""
    return SlackTransport(allow_private=True).listen(account(slack), None)


class Told(SlackTransport):
    """A wire on which Slack names this address for its socket."""

    url = ""

    async def perform(self, call: ApiCall) -> ApiResponse:
        """Slack's answer."""
        return ApiResponse(status=200, body=json.dumps({"ok": True, "url": self.url}).encode())


async def test_socket_mode_that_is_switched_off_meanwhile_is_said(slack: Simulation) -> None:
    async with aclosing(listening(slack)) as batches:
        assert (await anext(batches)).gap
        await asyncio.to_thread(slack.do, "refresh", reason="link_disabled")
        with pytest.raises(ConfigError, match="switched off"):
            await anext(batches)


@pytest.mark.parametrize("error", ["link_disabled", "socket_mode_not_enabled"])
async def test_socket_mode_that_is_switched_off_gives_no_address(
    slack: Simulation, error: str
) -> None:
    said = {"ok": False, "error": error}
    slack.fault("answer", on="apps.connections.open", body=said)
    async with aclosing(listening(slack)) as batches:
        with pytest.raises(ConfigError, match="switched off"):
            await anext(batches)


async def test_one_socket_too_many_ends_at_once_and_the_others_go_on(slack: Simulation) -> None:
    """It brings nothing, not even a gap; once another one has left it is let in."""
    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(aclosing(listening(slack))) for _ in range(MOST)]
        for one in others:
            assert (await anext(one)).gap
        assert [batch async for batch in listening(slack)] == []
        await others[0].aclose()
        async with aclosing(listening(slack)) as late:
            assert (await anext(late)).gap


@pytest.mark.parametrize(
    "url",
    [
        "wss://127.0.0.1/link",
        "wss://10.0.0.1/link",
        "wss://169.254.169.254/link",
        "wss://[::1]/link",
        "ws://applink.example/link",
        "wss://user@applink.example/link",
        "gopher://applink.example/link",
    ],
)
async def test_a_socket_at_an_address_that_may_not_be_called_is_not_opened(
    slack: Simulation, url: str
) -> None:
    wire = Told()
    wire.url = url
    async with aclosing(wire.listen(account(slack), None)) as batches:
        with pytest.raises(Unsent, match="may not be called"):
            await anext(batches)


async def test_a_name_that_leads_inside_opens_no_socket(slack: Simulation) -> None:
    wire = Told()
    wire.url = "wss://localhost/link"
    async with aclosing(wire.listen(account(slack), None)) as batches:
        with pytest.raises(Lost, match="does not open"):
            await anext(batches)


async def test_a_socket_that_is_sent_elsewhere_is_not_followed(slack: Simulation) -> None:
    knocked: list[bytes] = []

    async def inside(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        knocked.append(await reader.readuntil(b"\r\n"))
        writer.close()

    victim = await asyncio.start_server(inside, "127.0.0.1", 0)
    port = victim.sockets[0].getsockname()[1]

    async def sends_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:%d/inside\r\n"
            b"content-length: 0\r\nconnection: close\r\n\r\n" % port
        )
        writer.close()

    server = await asyncio.start_server(sends_on, "127.0.0.1", 0)
    wire = Told(allow_private=True)
    wire.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/link"
    async with victim, server, aclosing(wire.listen(account(slack), None)) as batches:
        with pytest.raises(Lost, match="does not open"):
            await anext(batches)
    assert knocked == []


async def test_an_api_inside_is_not_even_asked_for_its_socket(slack: Simulation) -> None:
    before = len(slack.calls())
    async with aclosing(SlackTransport().listen(account(slack), None)) as batches:
        with pytest.raises(Unsent, match="may not be called"):
            await anext(batches)
    assert len(slack.calls()) == before
