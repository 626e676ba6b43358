"""Calls that end at any moment: no connection stays, and there is room for the next."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpcore
import pytest

from tests.push.test_outside import certificate
from threadline.core.wire import ApiCall
from threadline.transports.connections import Connections
from threadline.transports.guarded import Guarded, network, resolve
from threadline.transports.http import HttpTransport

SECONDS = 30
TURNS = 90  # Of the loop: more than a call has, with TLS as well.
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class Server:
    """Answers every request, and knows who is still connected."""

    def __init__(self) -> None:
        self.port = 0
        self.connected: set[asyncio.StreamWriter] = set()
        self.came = 0
        self._fewer = asyncio.Condition()

    async def serve(self, asks: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        self.connected.add(answers)
        self.came += 1
        try:
            while True:
                await asks.readuntil(b"\r\n\r\n")
                answers.write(ANSWER)
                await answers.drain()
        except (OSError, asyncio.IncompleteReadError):
            answers.close()
        finally:
            self.connected.discard(answers)
            async with self._fewer:
                self._fewer.notify_all()

    async def down_to(self, count: int) -> None:
        """Wait until no more than so many are connected."""
        async with asyncio.timeout(SECONDS), self._fewer:
            await self._fewer.wait_for(lambda: len(self.connected) <= count)


@asynccontextmanager
async def serving(context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Such a server."""
    made = Server()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made
        await made.down_to(0)


async def cancelled_everywhere(call: Callable[[], Awaitable[object]]) -> int:
    """Make a call again and again, ended one turn of the loop later each time; how many had an
    answer before that."""
    answered = 0
    for turns in range(TURNS):
        task = asyncio.ensure_future(call())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        [ended] = await asyncio.gather(task, return_exceptions=True)
        answered += not isinstance(ended, BaseException)
        assert not isinstance(ended, Exception), ended
    return answered


def plain(port: int) -> ApiCall:
    """A call to the server."""
    return ApiCall(method="GET", url=f"http://127.0.0.1:{port}/", route="any")


async def test_a_call_to_a_platform_that_is_cancelled_anywhere_leaves_no_connection() -> None:
    async with serving() as server:
        wire = HttpTransport(allow_private=True)

        answered = await cancelled_everywhere(lambda: wire.perform(plain(server.port)))
        await server.down_to(0)

        assert 0 < answered < TURNS
        assert (await wire.perform(plain(server.port))).status == 200


async def test_a_push_that_is_cancelled_anywhere_leaves_what_is_kept_and_no_more() -> None:
    async with serving() as server, Guarded(allow_private=True).open() as post:
        url = f"http://127.0.0.1:{server.port}/"

        answered = await cancelled_everywhere(lambda: post(url, {}, b""))
        await server.down_to(1)

        assert 0 < answered < TURNS
        assert (await post(url, {}, b"")).status == 200


def connections(most: int, kept: int, tls: ssl.SSLContext | None = None) -> Connections:
    """To this machine."""
    context = tls or ssl.create_default_context()
    return Connections(network(True, resolve), lambda: context, most=most, kept=kept)


async def said(made: Connections, url: str) -> bytes:
    """The body of an answer."""
    seconds = {"pool": float(SECONDS)}
    async with made.call("GET", httpcore.URL(url), headers={}, content=b"", seconds=seconds) as got:
        return await got.aread()


async def test_a_handshake_that_is_cancelled_anywhere_leaves_no_connection(tmp_path: Path) -> None:
    file, context = certificate(tmp_path, "127.0.0.1")
    trusting = ssl.create_default_context(cafile=str(file))
    trusting.check_hostname = False
    async with serving(context) as server:
        made = connections(4, 0, trusting)
        url = f"https://127.0.0.1:{server.port}/"

        answered = await cancelled_everywhere(lambda: said(made, url))
        await server.down_to(0)

        assert 0 < answered < TURNS
        assert await said(made, url) == b"{}"


async def test_a_kept_connection_carries_the_next_call_and_a_fresh_one_is_made_where_none_is() -> (
    None
):
    async with serving() as server:
        url = f"http://127.0.0.1:{server.port}/"
        keeping, fresh = connections(4, 1), connections(4, 0)

        for _ in range(3):
            await said(keeping, url)
        kept = server.came
        for _ in range(3):
            await said(fresh, url)
        await keeping.close()
        await server.down_to(0)

    assert (kept, server.came) == (1, 4)


async def test_no_more_calls_than_allowed_are_under_way_and_who_waits_too_long_is_told() -> None:
    async with serving() as server:
        made = connections(1, 0)
        url = httpcore.URL(f"http://127.0.0.1:{server.port}/")
        under_way = made.call("GET", url, headers={}, content=b"", seconds={})
        async with under_way:
            second = made.call("GET", url, headers={}, content=b"", seconds={"pool": 0.01})
            with pytest.raises(httpcore.PoolTimeout):
                await second.__aenter__()

        assert server.came == 1
        assert await said(made, f"http://127.0.0.1:{server.port}/") == b"{}"
