"""Where a socket leads."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from tests.slack.test_socket import Told, account
from threadline.core.wire import Lost
from threadline.testing.simulation import Simulation


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
