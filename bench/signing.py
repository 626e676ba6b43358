"""The hands that make what platforms send to our webhooks, signed as they sign it.

An account is connected through a running server. A simulator in this process makes and signs the
requests of its platform; the transactions of a Matrix homeserver are made here.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web as http

from bench.speech import TEXT
from bench.web import Web
from threadline.testing.simulation import Simulation
from threadline.testing.simulators import simulator
from threadline.testing.simulators.ground import Ground
from threadline.testing.simulators.wire import Event, Push

PLACES = 10
SECRET = "bench-secret-of-webhooks"
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


async def simulated(web: Web, there: Simulation, ground: Ground) -> Platform:
    """An account on a simulated platform, whose people talk on a `ground` of their own."""
    known = {**there.credentials, "api": there.api, "public_url": _url(web)}
    if there.name == "telegram":
        known |= {"mode": "webhook", "webhook_secret": SECRET}
    if there.name == "slack":
        del known["app_token"]
    account, url = await _connect(web, there.name, known)
    secret = SECRET if there.name == "telegram" else ""
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


async def matrix(web: Web) -> Platform:
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
