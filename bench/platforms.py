"""What platforms send, until it is answered and read; and what is said there, until it is settled.

`threadline serve` as a process of its own, with an account on every platform that sends webhooks.
A simulator in this process makes and signs them as its platform does, before the clock runs; those
of a Matrix homeserver are made here. What is said goes to a simulator that is a process.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import aiohttp
from aiohttp import web as http

from bench.machine import tuned
from bench.outcome import Row, Target, row
from bench.raw import RawStore, Rows
from bench.sites import REAL, Site, Sites
from bench.sizes import Sizes
from bench.speech import TEXT, body
from bench.web import HANDED_SECONDS, IN_FLIGHT, Line, Web, serving
from threadline.adapters.telegram import Telegram
from threadline.core.adapters import Account
from threadline.core.model import ConversationRef
from threadline.core.wire import ApiCall, OutboundMessage
from threadline.testing.simulation import Simulation
from threadline.testing.simulators import simulator
from threadline.testing.simulators.ground import Ground
from threadline.testing.simulators.shelf import Shelf
from threadline.testing.simulators.wire import Event, Push

SHARE = Target("ratio", ">=", 0.5)
RATE = Target("ours", ">=", 4_000, "a second")
TAIL = Target("ours", "<=", 25.0, "ms")

SIMULATED = ("telegram", "slack", "whatsapp", "twilio")
MANY = 64
PACED_A_SECOND = 2_000
PLACES = 10
LANES = 8
SECRET = "bench-secret-of-webhooks"
_WORD = re.compile(rb"\(word (\d+)\)")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Platform:
    """A connected account, and the hand that makes the requests its webhook gets.

    `make` gives one for each of these numbers, with the number in its text. Those that are `quiet`
    are verified and decoded as the others are, and say nothing.
    """

    name: str
    web: Web
    account_id: str
    make: Callable[[Sequence[int], bool], list[Push]]

    def signed(self, count: int, *, quiet: bool = False) -> list[tuple[int, bytes]]:
        """So many new ones as bytes, each with its number."""
        numbers = list(itertools.islice(_numbers, count))
        pushes = self.make(numbers, quiet)
        return [(n, _bytes(self.web, one)) for n, one in zip(numbers, pushes, strict=True)]


def _url(web: Web) -> str:
    return f"http://127.0.0.1:{web.port}"


def _bytes(web: Web, push: Push) -> bytes:
    heads = {**push.headers, "host": f"127.0.0.1:{web.port}", "content-length": len(push.body)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in heads.items())
    path = push.url.removeprefix(_url(web))
    return f"{push.method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + push.body


def _words(number: int) -> str:
    return f"{TEXT} (word {number})"


async def _connect(web: Web, provider: str, known: dict[str, str]) -> tuple[str, str]:
    """The id of the account, and the address of its webhook."""
    asks = (await web.ask("GET", f"/v1/providers/{provider}"))["asks"]
    given = {one["name"]: known[one["name"]] for one in asks if one["name"] in known}
    asked = {"provider": provider, "given": given, "public_url": _url(web)}
    made = await web.ask("POST", "/v1/accounts", asked)
    return made["state"]["account_id"], _url(web) + made["webhook"]


async def _simulated(web: Web, there: Simulation) -> Platform:
    """An account on a simulated platform."""
    known = {**there.credentials, "api": there.api, "public_url": _url(web)}
    if there.name == "telegram":
        known |= {"mode": "webhook", "webhook_secret": SECRET}
    if there.name == "slack":
        known["bot_token"] = known.pop("token")
        del known["app_token"]
    account, url = await _connect(web, there.name, known)
    secret = SECRET if there.name == "telegram" else ""
    ground = Ground(Shelf())
    hand: Any = simulator(there.name)(ground)
    places: list[dict[str, Any]] = []
    for n in range(PLACES):
        match there.name:
            case "telegram":
                places.append({"chat": -101 - n, "user": 42, "name": "Ada"})
            case "slack":
                places.append({"channel": hand.do_channel(users=["ada"])["id"], "user": "ada"})
            case "whatsapp":
                places.append({"phone": f"1555010{n:04}", "user_id": f"US.{n + 1}"})
            case _:
                places.append({"phone": f"+1555010{n:04}"})

    def taken() -> list[Event]:
        found = ground.waiting()
        for one in found:
            ground.settle(one)
        return found

    taken()

    def make(numbers: Sequence[int], quiet: bool) -> list[Push]:
        for number in numbers:
            hand.do_say(text=_words(number), **places[number % PLACES])
        found = [_quiet(one) if quiet else one for one in taken()]
        return [hand.push(one, url, secret) for one in found]

    return Platform(there.name, web, account, make)


def _quiet(event: Event) -> Event:
    """An event of Slack's of a kind that nobody knows."""
    return replace(event, what={**event.what, "event": {**event.what["event"], "type": "bench"}})


@asynccontextmanager
async def _homeserver() -> AsyncIterator[str]:
    """What an application service asks a homeserver while it is connected: who it is."""

    async def answer(request: http.Request) -> http.Response:
        return http.json_response({"user_id": "@bench:bench.test", "displayname": "Bench"})

    app = http.Application()
    app.router.add_get("/{rest:.*}", answer)
    runner = http.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await http.TCPSite(runner, "127.0.0.1", 0).start()
        yield "http://{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()


async def _matrix(web: Web) -> Platform:
    """An application service, which a homeserver pushes to."""
    async with _homeserver() as api:
        known = {"api": api, "access_token": "bench", "hs_token": SECRET}
        account, url = await _connect(web, "matrix", known)
    headers = {"authorization": f"Bearer {SECRET}", "content-type": "application/json"}

    def push(number: int) -> Push:
        event = {
            "type": "m.room.message",
            "room_id": f"!{number % PLACES}:bench.test",
            "sender": "@ada:bench.test",
            "event_id": f"${number}:bench.test",
            "origin_server_ts": 1_700_000_000_000 + number,
            "content": {"msgtype": "m.text", "body": _words(number)},
        }
        path = f"{url}/_matrix/app/v1/transactions/{number}"
        content = json.dumps({"events": [event]}).encode()
        return Push(url=path, body=content, headers=headers, method="PUT")

    return Platform("matrix", web, account, lambda numbers, _: [push(one) for one in numbers])


async def rows(sites: Sites, sizes: Sizes, folder: Path) -> list[Row]:
    """All rows about platforms."""
    found: list[Row] = []
    for site in sites.on(REAL):
        async with AsyncExitStack() as stack:
            settings = {"ADAPTERS_ALLOW_PRIVATE": "1"}
            web = await stack.enter_async_context(serving(site, folder, "platforms", **settings))
            raw = await stack.enter_async_context(site.raw(await site.place()))
            await raw.begin(sizes.rooms)
            there: dict[str, Simulation] = {}
            for name in SIMULATED:
                home = folder / f"{name}-{site.engine}"
                home.mkdir()
                there[name] = stack.enter_context(Simulation(name, home))
            platforms = [await _simulated(web, there[name]) for name in SIMULATED]
            platforms.append(await _matrix(web))
            with tuned():
                found += await _heard(web, site, sizes, platforms, raw)
                found += await _rates(web, site, sizes, platforms[SIMULATED.index("slack")])
                found.append(await _settled(web, site, sizes, there["telegram"], platforms[0]))
    return found


async def _take(line: Line, request: bytes) -> None:
    status, answer = await line.ask(request)
    assert status // 100 == 2, answer


async def _conversations(web: Web) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await web.ask("GET", "/v1/conversations?limit=500"))[
        "conversations"
    ]
    return found


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
                for number, request in one.signed(max(1, sizes.each // sizes.rounds)):
                    began = time.perf_counter()
                    await _take(line, request)
                    ours.append(time.perf_counter() - began)
                    while number not in arrived:
                        came.clear()
                        await asyncio.wait_for(came.wait(), HANDED_SECONDS)
                    delays.append(arrived[number] - began)
                for single in made.take(max(1, sizes.each // sizes.rounds)):
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
    rate = RATE if site.engine == "sqlite" else None
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
        row(paced, *about, ours=_cuts(times)[1], unit="ms", target=TAIL),
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


async def _settled(
    web: Web, site: Site, sizes: Sizes, there: Simulation, platform: Platform
) -> Row:
    """Deliveries a second, from when all wait in their lanes until all are settled.

    The platform holds the first of each lane until then, so that publishing is not measured; those
    are not counted. The raw figure is the same calls as one client makes them, a lane at a time.
    """
    chats = [str(-901 - n) for n in range(LANES)]
    refs = [ConversationRef("telegram", platform.account_id, chat) for chat in chats]
    account = Account(
        scope_id="default",
        provider="telegram",
        account_id=platform.account_id,
        credentials=there.credentials,
        settings={"api": there.api},
    )
    rooms: list[str] = []
    for chat in chats:
        there.do("chat", chat=int(chat), title="Bench")
        place = {"provider": "telegram", "account_id": platform.account_id}
        asked = place | {"conversation_id": chat, "kind": "room"}
        rooms.append(
            f"/v1/conversations/{(await web.ask('POST', '/v1/conversations', asked))['id']}"
        )
        bound = {"session_id": "bench-speaker", "policy": "all"}
        await web.ask("PUT", f"{rooms[-1]}/binding", bound)
    each = sizes.deliveries // LANES
    ours, raw = [], []
    for _ in range(sizes.rounds):
        ours.append((each - 1) * LANES / await _said(web, there, chats, rooms, each))
        calls = [
            [_call(Telegram(account), ref, number) for number in range(each - 1)] for ref in refs
        ]
        raw.append((each - 1) * LANES / await _called(calls))
    told = len(there.effects("message"))
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
    words = {"session_id": "bench-speaker", "text": TEXT}
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
    words = OutboundMessage(
        conversation=ref, text=TEXT, key=f"raw-{number}", session_id="bench-speaker"
    )
    return dialect.render(words)


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
