"""What platforms send, until it is answered and read; and what is said there, until it is settled.

`threadline serve` as a process of its own, with an account on every platform that sends webhooks.
They are made and signed before the clock runs. What is said goes to a simulator, which is a process
as well.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import AsyncExitStack, ExitStack, closing
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import aiohttp

from bench.machine import tuned
from bench.outcome import Row, Target, row
from bench.raw import RawStore, Rows
from bench.signing import PLACES, Platform, matrix, simulated
from bench.sites import REAL, Site, Sites
from bench.sizes import Sizes
from bench.speech import TEXT, body
from bench.web import HANDED_SECONDS, IN_FLIGHT, Line, Web, serving
from threadline.adapters.telegram import Telegram
from threadline.core.adapters import Account
from threadline.core.model import ConversationRef
from threadline.core.wire import ApiCall, OutboundMessage
from threadline.testing.simulation import Simulation
from threadline.testing.simulators.ground import Ground
from threadline.testing.simulators.shelf import Shelf

SHARE = Target("ratio", ">=", 0.5)
RATE = Target("ours", ">=", 4_000, "a second")
TAIL = Target("ours", "<=", 25.0, "ms")

SIMULATED = ("telegram", "slack", "whatsapp", "twilio")
MANY = 64
PACED_A_SECOND = 2_000
LANES = 8
_WORD = re.compile(rb"\(word (\d+)\)")


async def rows(sites: Sites, sizes: Sizes, folder: Path) -> list[Row]:
    """All rows about platforms."""
    found: list[Row] = []
    with ExitStack() as stack:
        there: list[Simulation] = []
        for name in SIMULATED:
            (home := folder / name).mkdir()
            there.append(stack.enter_context(Simulation(name, home)))
        for site in sites.on(REAL):
            found += await _on(site, sizes, folder, there)
    return found


async def _on(site: Site, sizes: Sizes, folder: Path, there: list[Simulation]) -> list[Row]:
    settings = {"ADAPTERS_ALLOW_PRIVATE": "1"}
    async with AsyncExitStack() as stack:
        web = await stack.enter_async_context(serving(site, folder, "platforms", **settings))
        raw = await stack.enter_async_context(site.raw(await site.place()))
        await raw.begin(sizes.rooms)
        platforms = {"matrix": await matrix(web)}
        for one in there:
            ground = Ground(stack.enter_context(closing(Shelf())))
            platforms[one.name] = await simulated(web, one, ground)
        with tuned():
            found = await _heard(web, site, sizes, list(platforms.values()), raw)
            found += await _rates(web, site, sizes, platforms["slack"])
            account_id = platforms["telegram"].account_id
            found.append(await _settled(web, site, sizes, there[0], account_id))
    return found


async def _take(line: Line, request: bytes) -> None:
    status, answer = await line.ask(request)
    assert status // 100 == 2, answer


async def _conversations(web: Web) -> list[dict[str, Any]]:
    return list((await web.ask("GET", "/v1/conversations?limit=500"))["conversations"])


def _cuts(times: list[float]) -> tuple[float, float]:
    """Milliseconds: the half and the 99th of a hundred."""
    cuts = quantiles(times, n=100, method="inclusive") if len(times) > 1 else times * 99
    return cuts[49] * 1e3, cuts[98] * 1e3


async def _heard(
    web: Web, site: Site, sizes: Sizes, platforms: list[Platform], raw: RawStore
) -> list[Row]:
    """One webhook after the other: until its 2xx, and until a reader's socket has the record."""
    arrived: dict[int, float] = {}
    came = asyncio.Event()
    delays: list[float] = []
    made = Rows(sizes.rooms, body())
    found: list[Row] = []
    async with web.line() as line, web.line() as stream:
        for one in platforms:
            for _, request in one.signed(PLACES):
                await _take(line, request)
        for room in await _conversations(web):
            path = f"/v1/conversations/{room['id']}/members/bench-reader"
            await _take(line, web.request("PUT", path, {"policy": "since_join"}))
        records = stream.records(web.request("GET", "/v1/sessions/bench-reader/stream"))
        await anext(records)

        async def follow() -> None:
            async for said in records:
                if (word := _WORD.search(said)) is not None:
                    arrived[int(word[1])] = time.perf_counter()
                    came.set()

        reading = asyncio.create_task(follow())
        for one in platforms:
            ours, theirs = list[float](), list[float]()
            for _ in range(sizes.rounds):
                for number, request in one.signed(max(1, sizes.heard // sizes.rounds)):
                    began = time.perf_counter()
                    await _take(line, request)
                    ours.append(time.perf_counter() - began)
                    while number not in arrived:
                        came.clear()
                        await asyncio.wait_for(came.wait(), HANDED_SECONDS)
                    delays.append(arrived[number] - began)
                for single in made.take(max(1, sizes.heard // sizes.rounds)):
                    began = time.perf_counter()
                    await raw.write([single])
                    theirs.append(time.perf_counter() - began)
            name = f"signed webhook of {one.name} → 2xx, alone"
            found += _both(name, site, _cuts(ours), _cuts(theirs))
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return found + _both("signed webhook → SSE reader, alone", site, _cuts(delays), None)


def _both(
    name: str, site: Site, ours: tuple[float, float], raw: tuple[float, float] | None
) -> list[Row]:
    about = (site.engine, site.disk)
    theirs = raw or (None, None)
    return [
        row(f"{name}, {cut}", *about, ours=ours[n], raw=theirs[n], unit="ms")
        for n, cut in enumerate(("p50", "p99"))
    ]


async def _through(web: Web, requests: list[tuple[int, bytes]], in_flight: int) -> float:
    """Answers a second until all of these are answered."""
    left = iter(requests)

    async def asking(line: Line) -> None:
        for _, request in left:
            await _take(line, request)

    async with AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(web.line()) for _ in range(in_flight)]
        began = time.perf_counter()
        await asyncio.gather(*(asking(line) for line in lines))
        return len(requests) / (time.perf_counter() - began)


async def _rates(web: Web, site: Site, sizes: Sizes, slack: Platform) -> list[Row]:
    """Many at once, beside those of which the same server only finds that they say nothing."""
    before = sum(one["head"] for one in await _conversations(web))
    ours, raw, many = [], [], []
    for _ in range(sizes.rounds):
        ours.append(await _through(web, slack.signed(sizes.webhooks), IN_FLIGHT))
        raw.append(await _through(web, slack.signed(sizes.webhooks, quiet=True), IN_FLIGHT))
        many.append(await _through(web, slack.signed(sizes.webhooks), MANY))
    times = await _paced(web, slack.signed(sizes.webhooks))
    after = sum(one["head"] for one in await _conversations(web))
    assert after - before == (2 * sizes.rounds + 1) * sizes.webhooks, "not everything was recorded"
    about, name = (site.engine, site.disk), "signed webhooks of slack"
    rate, tail = (RATE, TAIL) if site.engine == "sqlite" else (None, None)
    unit = "a second"
    paced = f"{name} → 2xx, {PACED_A_SECOND:,} a second, p99"
    return [
        row(
            f"{name}, {IN_FLIGHT} in flight",
            *about,
            ours=median(ours),
            raw=median(raw),
            unit=unit,
            target=SHARE,
        ),
        row(f"{name}, {MANY} in flight", *about, ours=median(many), unit=unit, target=rate),
        row(paced, *about, ours=_cuts(times)[1], unit="ms", target=tail),
    ]


async def _paced(web: Web, requests: list[tuple[int, bytes]]) -> list[float]:
    """Seconds from when each was due until its answer, whether or not the server keeps up."""
    times: list[float] = []
    async with AsyncExitStack() as stack:
        lines = asyncio.Queue[Line]()
        for _ in range(MANY):
            lines.put_nowait(await stack.enter_async_context(web.line()))

        async def bring(request: bytes, due: float) -> None:
            line = await lines.get()
            await _take(line, request)
            times.append(time.perf_counter() - due)
            lines.put_nowait(line)

        due, bringing = time.perf_counter(), []
        for _, request in requests:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            bringing.append(asyncio.create_task(bring(request, due)))
            due += 1 / PACED_A_SECOND
        await asyncio.gather(*bringing)
    return times


async def _settled(web: Web, site: Site, sizes: Sizes, there: Simulation, account_id: str) -> Row:
    """Deliveries a second, from when all wait in their lanes until all are settled.

    The platform holds the first of each lane until then, which is not counted; of publishing only
    the last of each lane is measured. Raw are the same calls by one client, with as many lanes.
    """
    chats = [str(-901 - n) for n in range(LANES)]
    refs = [ConversationRef("telegram", account_id, chat) for chat in chats]
    account = Account(
        scope_id="default",
        provider="telegram",
        account_id=account_id,
        credentials=there.credentials,
        settings={"api": there.api},
    )
    rooms: list[str] = []
    for chat in chats:
        there.do("chat", chat=int(chat), title="Bench")
        place = {"provider": "telegram", "account_id": account_id, "conversation_id": chat}
        made = await web.ask("POST", "/v1/conversations", place | {"kind": "room"})
        rooms.append(f"/v1/conversations/{made['id']}")
        await web.ask("PUT", f"{rooms[-1]}/binding", {"session_id": "speaker", "policy": "all"})
    each = sizes.deliveries // LANES
    before, ours, raw = len(there.effects("message")), [], []
    for _ in range(sizes.rounds):
        ours.append((each - 1) * LANES / await _said(web, there, chats, rooms, each))
        calls = [
            [_call(Telegram(account), ref, number) for number in range(each - 1)] for ref in refs
        ]
        raw.append((each - 1) * LANES / await _called(calls))
    told = len(there.effects("message")) - before
    assert told == sizes.rounds * LANES * (2 * each - 1), "not everything was said"
    name = f"deliveries to telegram, {LANES} conversations, until settled"
    about = (site.engine, site.disk)
    return row(name, *about, ours=median(ours), raw=median(raw), unit="a second")


async def _said(
    web: Web, there: Simulation, chats: list[str], rooms: list[str], each: int
) -> float:
    """Seconds from the platform's first answer until the last delivery is settled."""
    before = len(there.calls("sendMessage"))
    for chat in chats:
        there.fault("slow", place=chat, on="sendMessage")
    words = {"session_id": "speaker", "text": TEXT}
    requests = [web.request("POST", f"{room}/messages", words) for room in rooms]
    await _through(web, [(0, one) for one in requests * (each - 1)], IN_FLIGHT)
    there.calls("sendMessage", at_least=before + LANES)
    last = [
        asyncio.create_task(web.ask("POST", f"{room}/messages", words | {"wait": True}))
        for room in rooms
    ]
    began = time.perf_counter()
    await asyncio.to_thread(there.release)
    states = {one["state"] for one in await asyncio.gather(*last)}
    spent = time.perf_counter() - began
    assert states == {"delivered"}, states
    return spent


def _call(dialect: Telegram, ref: ConversationRef, number: int) -> ApiCall:
    key = f"raw-{number}"
    return dialect.render(OutboundMessage(conversation=ref, text=TEXT, key=key, session_id=""))


async def _called(lanes: list[list[ApiCall]]) -> float:
    """Seconds for these calls by themselves."""
    async with aiohttp.ClientSession() as client:

        async def lane(calls: list[ApiCall]) -> None:
            for call in calls:
                async with client.request(
                    call.method, call.url, data=call.body, headers=call.headers
                ) as answer:
                    assert answer.status == 200, await answer.read()
                    await answer.read()

        began = time.perf_counter()
        await asyncio.gather(*(lane(calls) for calls in lanes))
        return time.perf_counter() - began
