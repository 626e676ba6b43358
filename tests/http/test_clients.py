"""Clients that are slow, greedy or deaf cost a server nothing but a connection for a while."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from tests.http.conftest import SECONDS, Served, Site, application, message, problem
from threadline import Threadline
from threadline.entrypoints.http.limits import BODY_BYTES
from threadline.entrypoints.http.server import Server, ServerSettings, listening

DEAF = 100
GIB = 1 << 30


@asynccontextmanager
async def serving(line: Threadline, **settings: float) -> AsyncIterator[Site]:
    """A server with its own patience."""
    where = ServerSettings(port=0, **settings)  # type: ignore[arg-type]
    with ExitStack() as stack:
        sock = stack.enter_context(listening(where))
        where = ServerSettings(port=sock.getsockname()[1], **settings)  # type: ignore[arg-type]
        started = asyncio.Event()
        app = stack.enter_context(application(line, settings=where))
        server = Server(app, where, started.set)
        running = asyncio.create_task(server._serve([sock]))
        await asyncio.wait_for(started.wait(), SECONDS)
        site = Site(where.url, line, app)
        try:
            yield site
        finally:
            for client in site.clients:
                await client.aclose()
            server.should_exit = True
            await running


@asynccontextmanager
async def dial(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection."""
    address = httpx.URL(url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the server hangs up."""
    try:
        return await asyncio.wait_for(reader.read(), SECONDS)
    except ConnectionResetError:
        return b""


async def drip(writer: asyncio.StreamWriter, words: bytes, seconds: float) -> None:
    """One byte after the other, slowly, until nobody listens."""
    for byte in words:
        if writer.is_closing():
            return
        writer.write(bytes([byte]))
        try:
            await writer.drain()
        except ConnectionError:
            return
        await asyncio.sleep(seconds)


@pytest.mark.parametrize("part", ["head", "body"])
async def test_a_client_that_sends_byte_by_byte_is_hung_up_on(tl: Threadline, part: str) -> None:
    """Every byte comes in time, the whole does not."""
    async with serving(tl, header_seconds=0.3, body_seconds=0.3) as site:
        boss = await site.controller()
        head = b"POST /v1/conversations HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        async with dial(site.url) as (reader, writer):
            if part == "body":
                token = boss.headers["Authorization"].encode()
                writer.write(head + b"Authorization: " + token + b"\r\nContent-Length: 900\r\n\r\n")
                words = b" " * 900
            else:
                words = head + b"X: " + b"x" * 900
            dripping = asyncio.create_task(drip(writer, words, 0.05))

            said = await ended(reader)

            assert said == b""
            assert (await boss.get("/v1/conversations")).status_code == 200
            dripping.cancel()
            await asyncio.gather(dripping, return_exceptions=True)


@pytest.mark.parametrize("framing", [f"Content-Length: {GIB}", "Transfer-Encoding: chunked"])
async def test_a_body_that_is_too_large_is_refused_before_it_is_kept(
    site: Site, boss: httpx.AsyncClient, lobby: str, framing: str
) -> None:
    """A gibibyte is refused after a few mebibytes at most, and none of it is held."""
    lines = [
        f"POST /v1/conversations/{lobby}/transcript HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: {boss.headers['Authorization']}",
        "Content-Type: application/json",
        framing,
    ]
    sent = 0
    piece = b"x" * 65_536
    if "chunked" in framing:
        piece = b"10000\r\n" + piece + b"\r\n"
    async with dial(site.url) as (reader, writer):
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        answer = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))

        async def pour() -> None:
            nonlocal sent
            while not answer.done() and sent < GIB:
                writer.write(piece)
                await writer.drain()
                sent += len(piece)

        pouring = asyncio.create_task(pour())
        head = await asyncio.wait_for(answer, SECONDS)
        pouring.cancel()
        await asyncio.gather(pouring, return_exceptions=True)

    assert b" 413 " in head.split(b"\r\n")[0]
    assert b"application/problem+json" in head
    assert sent <= 4 * BODY_BYTES
    assert (await boss.get("/v1/conversations")).status_code == 200


async def test_a_body_at_the_limit_is_read_and_one_over_it_is_not(
    boss: httpx.AsyncClient, lobby: str
) -> None:
    """The limit is the body's, not the text's."""
    path = f"/v1/conversations/{lobby}/transcript"
    body = json.dumps(message("a")).encode()
    kind = {"Content-Type": "application/json"}

    full = await boss.post(path, content=body.ljust(BODY_BYTES), headers=kind)
    over = await boss.post(path, content=body.ljust(BODY_BYTES + 1), headers=kind)

    assert full.status_code == 200
    problem(over, 413, "too_large")


async def test_a_head_that_is_no_http_is_refused_with_a_problem(site: Site) -> None:
    for words in (
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\x01\r\n\r\n",
        b"\x16\x03\x01\x02\x00" * 9,
    ):
        async with dial(site.url) as (reader, writer):
            writer.write(words)
            said = await ended(reader)
        head, _, body = said.partition(b"\r\n\r\n")
        assert b" 400 " in head.split(b"\r\n")[0], said
        assert json.loads(body)["code"] == "invalid_input"


def deaf(url: str, path: str, token: str) -> socket.socket:
    """A reader of a stream that never reads."""
    address = httpx.URL(url)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    made.connect((address.host, address.port))
    made.sendall(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    return made


def test_a_hundred_readers_that_never_read_are_cut_and_cost_no_memory(tmp_path: Path) -> None:
    """The server answers meanwhile, and ends their connections."""
    served = Served(tmp_path, settings={"THREADLINE_SLOW_READER_SECONDS": "1"})
    served.start()
    assert served.process is not None
    server = psutil.Process(served.process.pid)
    sockets: list[socket.socket] = []
    try:
        with served.client() as boss:
            place = {"provider": "web", "account_id": "a", "conversation_id": "c", "kind": "room"}
            room = boss.post("/v1/conversations", json=place).json()["id"]
            said = f"/v1/conversations/{room}/transcript"
            boss.post(said, json=message("warm up"))
            for _ in range(DEAF):
                path = f"/v1/conversations/{room}/stream?after=0"
                sockets.append(deaf(served.url, path, served.token))
            before = server.memory_info().rss
            peak = before
            for number in range(40):
                answer = boss.post(said, json=message("x" * 100_000, message_id=str(number)))
                assert answer.status_code == 200
                peak = max(peak, server.memory_info().rss)

            # Each was sent 4 MB. What is held for it is a record and what the kernel buffers.
            assert peak - before < DEAF * 1_500_000
            # Nobody reads before all are cut: who reads in time is no deaf reader any more.
            until = time.monotonic() + SECONDS
            while connected(server, served.port) > 1:
                assert time.monotonic() < until, "deaf readers are kept"
                assert boss.get(f"/v1/conversations/{room}").status_code == 200
            assert boss.get(f"/v1/conversations/{room}").json()["head"] == 41
    finally:
        for one in sockets:
            one.close()
        assert served.stop() == 0


def connected(server: psutil.Process, port: int) -> int:
    """How many connections the server holds."""
    held = server.net_connections("tcp")
    return sum(1 for one in held if one.raddr and one.laddr.port == port)


def test_a_second_server_on_the_port_says_so_and_harms_nobody(
    served: Served, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    second = Served(other, settings={"THREADLINE_PORT": str(served.port)})

    done = second.command("serve")

    assert done.returncode != 0
    assert str(served.port) in done.stderr
    assert "--port" in done.stderr
    with served.client() as boss:
        assert boss.get("/v1/conversations").status_code == 200


def test_a_second_server_on_the_store_says_so_and_harms_nobody(served: Served) -> None:
    done = served.command("serve", "--port", "0")

    assert done.returncode != 0
    assert "holds this store" in done.stderr
    with served.client() as boss:
        assert boss.get("/v1/conversations").status_code == 200
    assert served.command("conversations").returncode == 0
    assert os.path.exists(served.home / "admin.token")


async def test_no_answer_waits_for_the_acknowledgement_of_its_head() -> None:
    """Nagle's algorithm is off on what the server accepts, also without uvloop: with it, each
    answer would take 40 ms."""
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[int] = loop.create_future()

    class Seen(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            sock = transport.get_extra_info("socket")
            accepted.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    with listening(ServerSettings(port=0)) as sock:
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with await loop.create_server(Seen, sock=sock), dial(url):
            assert await asyncio.wait_for(accepted, SECONDS)
