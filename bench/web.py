"""Over HTTP: `threadline serve` as a process of its own, and bare sockets that ask it.

Beside inbound stands what the same server makes of the same request when its text cannot be
recorded: recognised, read, decoded, refused. What is between the two is the ledger.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from bench.machine import tuned
from bench.outcome import Row, Target, row
from bench.sites import KEY, REAL, Site, Sites
from bench.sizes import Sizes
from bench.speech import TEXT

INBOUND = Target("ratio", ">=", 0.5)
ACKS = Target("ours", ">=", 5_000, "a second")
PAGE = Target("ours", "<=", 2.0, "ms")
HALF = Target("ours", "<=", 5.0, "ms")
TAIL = Target("ours", "<=", 30.0, "ms")
IDLE = Target("ours", "<=", 40.0, "KiB")

PROGRAM = str(Path(sys.executable).with_name("threadline"))
IN_FLIGHT = 16
BATCH = 100
ROOMS = 50
APPENDS_A_SECOND = 200
HANDED_SECONDS = 60.0
LIMIT = 1 << 20


@dataclass(frozen=True)
class Web:
    """A server that runs, and its administrator."""

    port: int
    token: str
    process: int
    started: float

    def request(self, method: str, path: str, body: Any = None, *, token: str = "") -> bytes:
        """A request as bytes."""
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {token or self.token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        return head.encode() + content

    @asynccontextmanager
    async def line(self) -> AsyncIterator[Line]:
        """One connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=LIMIT)
        try:
            yield Line(reader, writer)
        finally:
            writer.close()

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One answer."""
        async with self.line() as line:
            status, said = await line.ask(self.request(method, path, body))
            assert status < 300, said
            return json.loads(said)

    @property
    def memory(self) -> int:
        """The bytes the server's process holds."""
        pages = Path(f"/proc/{self.process}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


class Line:
    """A connection that is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """The status and the body of an answer."""
        self.writer.write(request)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        _, _, rest = head.partition(b"content-length: ")
        size = int(rest.partition(b"\r\n")[0])
        return int(head[9:12]), await self.reader.readexactly(size)

    async def records(self, request: bytes) -> AsyncIterator[bytes]:
        """The data of a stream's records; the first is empty and says that it began."""
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head[:14], head
        async for line in self.reader:
            if line.startswith(b": "):
                yield b""
            elif line.startswith(b"data: ") and b'"sequence"' in line:
                yield line


@asynccontextmanager
async def serving(
    site: Site, folder: Path, name: str = "web", **settings: str
) -> AsyncIterator[Web]:
    """`threadline serve` on a new store, with its home under that name and further settings."""
    url = await site.place()
    home = folder / f"{name}-{site.engine}"
    home.mkdir()
    (home / "key").write_text(KEY.hex())
    kept = {name: it for name, it in os.environ.items() if not name.startswith("THREADLINE_")}
    ours = {"HOME": str(home), "STORE": url, "KEY_FILE": str(home / "key"), "PORT": "0"}
    ours |= settings
    began = time.perf_counter()
    process = subprocess.Popen(  # noqa: ASYNC220
        [PROGRAM, "serve", "--json"],
        env=kept | {f"THREADLINE_{name}": it for name, it in ours.items()},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        said = json.loads(await asyncio.to_thread(process.stdout.readline))
        started = time.perf_counter() - began
        port = int(said["url"].rpartition(":")[2])
        token = Path(said["token_file"]).read_text().strip()
        yield Web(port, token, process.pid, started)
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)
        process.stdout.close()


async def rows(sites: Sites, sizes: Sizes, folder: Path) -> list[Row]:
    """All rows about the HTTP entrance."""
    found: list[Row] = []
    for site in sites.on(REAL):
        async with serving(site, folder) as web:
            about = (site.engine, site.disk)
            ours = web.started
            found.append(row("threadline serve, until it answers", *about, ours=ours, unit="s"))
            made = await web.ask(
                "POST",
                "/v1/tokens",
                {"kind": "adapter", "provider": "slack", "account_id": "T1"},
            )
            rooms = [await _room(web, number) for number in range(ROOMS)]
            with tuned():
                # First of all: later there is freed memory that new readers would hide in.
                found.append(await _idle(web, about, sizes, rooms))
                found += await _inbound(web, about, sizes, made["token"])
                found.append(await _page(web, about, sizes, rooms[0], made["token"]))
                found.append(await _acks(web, about, sizes, rooms[0]))
                for readers in sorted({1, max(1, sizes.readers // 5), sizes.readers}):
                    found += await _latency(web, about, sizes, rooms, readers, made["token"])
    return found


async def _room(web: Web, number: int) -> str:
    place = {"provider": "slack", "account_id": "T1", "conversation_id": f"C{number}"}
    made = await web.ask("POST", "/v1/conversations", place | {"kind": "room"})
    return str(made["id"])


async def _join(web: Web, seats: list[tuple[str, str]], policy: str) -> None:
    """Members of these conversations, one after the other over one connection."""
    async with web.line() as line:
        for room, name in seats:
            path = f"/v1/conversations/{room}/members/{name}"
            status, said = await line.ask(web.request("PUT", path, {"policy": policy}))
            assert status == 200, said


_numbers = itertools.count()


def _said(number: int, text: str = TEXT) -> dict[str, Any]:
    """Something an adapter heard."""
    return {
        "conversation": {"conversation_id": f"C{number % ROOMS}", "kind": "room"},
        "actor": {"id": "U04ADA", "name": "Ada Lovelace"},
        "text": text,
        "message_id": f"{number}.000100",
    }


async def _rate(web: Web, requests: Iterator[bytes], status: int, seconds: float) -> float:
    """Answers a second, as many in flight as there are connections."""
    count, over = 0, False

    async def asking() -> None:
        nonlocal count
        async with web.line() as line:
            while not over:
                got, said = await line.ask(next(requests))
                assert got == status, said
                count += 1

    began = time.perf_counter()
    tasks = [asyncio.create_task(asking()) for _ in range(IN_FLIGHT)]
    await asyncio.wait(tasks, timeout=seconds)
    over = True
    await asyncio.gather(*tasks)
    return count / (time.perf_counter() - began)


async def _inbound(web: Web, about: tuple[str, str], sizes: Sizes, token: str) -> list[Row]:
    """A message heard until it is durable and answered, alone and by the hundred."""

    def single(text: str) -> Iterator[bytes]:
        while True:
            yield web.request("POST", "/v1/inbound", _said(next(_numbers), text), token=token)

    def batch() -> Iterator[bytes]:
        while True:
            messages = [_said(next(_numbers)) for _ in range(BATCH)]
            yield web.request("POST", "/v1/inbound", {"messages": messages}, token=token)

    ours, raw, many = [], [], []
    for _ in range(sizes.rounds):
        ours.append(await _rate(web, single(TEXT), 200, sizes.seconds))
        raw.append(await _rate(web, single(f"{TEXT}\0"), 400, sizes.seconds))
        many.append(await _rate(web, batch(), 200, sizes.seconds) * BATCH)
    name = f"inbound over HTTP, {IN_FLIGHT} in flight"
    rate = "a second"
    return [
        row(name, *about, ours=median(ours), raw=median(raw), unit=rate, target=INBOUND),
        row(f"{name}, {BATCH} a request", *about, ours=median(many), unit=rate),
    ]


async def _page(web: Web, about: tuple[str, str], sizes: Sizes, room: str, token: str) -> Row:
    """A hundred records that a member has not read."""
    path = f"/v1/conversations/{room}/members/late"
    messages = [_said(next(_numbers) * ROOMS) for _ in range(100)]
    async with web.line() as line:
        await line.ask(web.request("POST", "/v1/inbound", {"messages": messages}, token=token))
        await line.ask(web.request("PUT", path, {"policy": "last_n", "n": 100}))
        asked, times = web.request("GET", f"{path}/backfill"), []
        for _ in range(sizes.each):
            began = time.perf_counter()
            status, said = await line.ask(asked)
            times.append(time.perf_counter() - began)
            assert status == 200, said
        assert len(json.loads(said)["records"]) == 100
    name = "backfill of 100 records over HTTP"
    return row(name, *about, ours=median(times) * 1e3, unit="ms", target=PAGE)


async def _acks(web: Web, about: tuple[str, str], sizes: Sizes, room: str) -> Row:
    """Acknowledgements a second, each moving the cursor of one of many members."""
    head = (await web.ask("GET", f"/v1/conversations/{room}"))["head"]
    names = [f"reader-{number}" for number in range(sizes.readers)]
    await _join(web, [(room, name) for name in names], "all")

    def asked() -> Iterator[bytes]:
        for turn in itertools.count(1):
            for name in names:
                path = f"/v1/conversations/{room}/members/{name}/ack"
                yield web.request("POST", path, {"sequence": min(turn, head)})

    requests = asked()
    rates = [await _rate(web, requests, 200, sizes.seconds) for _ in range(sizes.rounds)]
    name = f"acks over HTTP, {IN_FLIGHT} in flight"
    return row(name, *about, ours=median(rates), unit="a second", target=ACKS)


async def _latency(
    web: Web, about: tuple[str, str], sizes: Sizes, rooms: list[str], readers: int, token: str
) -> list[Row]:
    """From the request that brings a message to a reader's socket having the record."""
    used = rooms[: min(readers, ROOMS)]
    names = [f"crowd-{readers}-{number}" for number in range(readers)]
    seats_of = [(used[number % len(used)], name) for number, name in enumerate(names)]
    await _join(web, seats_of, "since_join")
    ready, handed = asyncio.Event(), asyncio.Event()
    waiting, delays, expected = readers, list[float](), 0
    begun: dict[bytes, float] = {}

    async def follow(name: str) -> None:
        nonlocal waiting
        async with web.line() as line:
            first = True
            async for said in line.records(web.request("GET", f"/v1/sessions/{name}/stream")):
                if first:
                    first = False
                    waiting -= 1
                    if not waiting:
                        ready.set()
                _, _, rest = said.partition(b'"message_id":"')
                if (at := begun.get(rest.partition(b'"')[0])) is not None:
                    delays.append(time.perf_counter() - at)
                    if len(delays) == expected:
                        handed.set()

    tasks = [asyncio.create_task(follow(name)) for name in names]
    await asyncio.wait_for(ready.wait(), HANDED_SECONDS)
    until = time.perf_counter() + sizes.reading_seconds
    async with AsyncExitStack() as stack:
        lines = asyncio.Queue[Line]()
        for _ in range(IN_FLIGHT):
            lines.put_nowait(await stack.enter_async_context(web.line()))

        async def bring(said: dict[str, Any]) -> None:
            line = await lines.get()
            status, answer = await line.ask(web.request("POST", "/v1/inbound", said, token=token))
            assert status == 200, answer
            lines.put_nowait(line)

        bringing: list[asyncio.Task[None]] = []
        due = time.perf_counter()
        turn = 0
        while not bringing or time.perf_counter() < until:
            said = _said(next(_numbers) * ROOMS + turn % len(used))
            turn += 1
            begun[said["message_id"].encode()] = time.perf_counter()
            bringing.append(asyncio.create_task(bring(said)))
            due += 1 / APPENDS_A_SECOND
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await asyncio.gather(*bringing)
        seats = [len(range(at, readers, len(used))) for at in range(len(used))]
        expected = sum(seats[at % len(used)] for at in range(turn))
        if len(delays) < expected:
            await asyncio.wait_for(handed.wait(), HANDED_SECONDS)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    cuts = quantiles(delays, n=100) if len(delays) > 1 else delays * 99
    whole = readers == sizes.readers
    name = f"append → SSE reader, {readers} readers, {APPENDS_A_SECOND} appends a second"
    half, tail = (HALF, TAIL) if whole else (None, None)
    return [
        row(f"{name}, p50", *about, ours=cuts[49] * 1e3, unit="ms", target=half),
        row(f"{name}, p99", *about, ours=cuts[98] * 1e3, unit="ms", target=tail),
    ]


async def _idle(web: Web, about: tuple[str, str], sizes: Sizes, rooms: list[str]) -> Row:
    """What the server holds for a reader that has nothing to read."""
    async with AsyncExitStack() as stack:
        grown = await _held(web, rooms, sizes, stack)
    name = f"an idle SSE reader of {sizes.readers}"
    return row(name, *about, ours=max(grown, 1.0) / 1024, unit="KiB", target=IDLE)


async def _held(web: Web, rooms: list[str], sizes: Sizes, stack: AsyncExitStack) -> float:
    names = [f"idle-{number}" for number in range(sizes.readers)]
    places = [(rooms[number % ROOMS], name) for number, name in enumerate(names)]
    await _join(web, places, "since_join")
    before = web.memory
    for name in names:
        line = await stack.enter_async_context(web.line())
        stream = line.records(web.request("GET", f"/v1/sessions/{name}/stream"))
        await anext(stream)
        stack.push_async_callback(stream.aclose)  # type: ignore[attr-defined]
    return (web.memory - before) / sizes.readers
