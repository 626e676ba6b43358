"""The doors of a simulator: the platform's own API, and `/_sim/…` for whoever gives the orders.

| order | what it does |
|---|---|
| `GET /_sim` | who this is: its name, credentials, webhook, and its commands |
| `POST /_sim/faults` | orders trouble (`faults.py`); `DELETE` orders none |
| `POST /_sim/release` | lets `slow` answers go |
| `POST`, `DELETE /_sim/webhook` | `{"url", "secret"}`: where events go |
| `GET /_sim/effects` | what was really said; with `at_least=N` it waits until there are so many |
| `GET /_sim/calls` | what was asked and answered; likewise |
| `GET /_sim/events` | what arrived or did not; `idle=1` waits until nothing is on its way |
| `POST /_sim/redeliver` | `{"number"}`, or everything: lets events arrive once more |
| `POST /_sim/clock` | `{"seconds"}`: lets its clock go on by so much |
| `POST /_sim/disconnect` | closes the sockets, with `{"code"}` |
| `POST /_sim/COMMAND` | what a person does on this platform, such as `say` |

Every list can be asked for with `patience=SECONDS` (30) to wait for.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import signal
import socket as sockets
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aiohttp import web

from threadline.testing.simulators import simulator as simulator_of
from threadline.testing.simulators.deliverer import Deliverer
from threadline.testing.simulators.ground import Ground, Simulator
from threadline.testing.simulators.shelf import Book, Shelf
from threadline.testing.simulators.wire import Answer, Call, says

MOST = 64 * 1024 * 1024
PATIENCE = 30.0


class House:
    """One simulator with its doors open."""

    def __init__(self, name: str, ground: Ground, simulator: Simulator) -> None:
        self.name = name
        self.ground = ground
        self.simulator = simulator

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """Anything that comes in."""
        call = Call(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            headers={name.lower(): value for name, value in request.headers.items()},
            body=await request.read(),
            origin=f"{request.scheme}://{request.host}",
        )
        if call.path == "/_sim" or call.path.startswith("/_sim/"):
            answer = await self._ordered(call)
        elif call.headers.get("upgrade", "").lower() == "websocket":
            return await self._talk(request, call)
        else:
            answer = await self._asked(request, call)
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)

    async def _talk(self, request: web.Request, call: Call) -> web.StreamResponse:
        refused = self.simulator.welcome(call)
        self.ground.commit()
        if refused is not None:
            return web.Response(status=refused.status, body=refused.body, headers=refused.headers)
        socket = web.WebSocketResponse(max_msg_size=MOST)
        await socket.prepare(request)
        self.ground.sockets.add(socket)
        self.ground.commit()
        try:
            await self.simulator.talk(socket, call)
        except ConnectionError:
            pass  # The other side has gone, which ends it as well.
        finally:
            self.ground.sockets.discard(socket)
            self.ground.commit()
        return socket

    async def _asked(self, request: web.Request, call: Call) -> Answer:
        """A call of the platform's API, with the trouble that was ordered for it."""
        ground, simulator = self.ground, self.simulator
        route, place = simulator.route(call)
        fault = ground.faults.call(route, place, says=route in simulator.speaking) or {}
        kind = fault.get("fault", "")
        match kind:
            case "answer":
                given = says(fault.get("body"), fault.get("status", 200))
                answer = Answer(
                    status=given.status,
                    body=given.body,
                    headers={**given.headers, **fault.get("headers", {})},
                )
            case "rate_limit":
                answer = simulator.rate_limited(call, fault.get("wait", 1.0))
            case "status":
                answer = simulator.broken(call, fault.get("status", 500))
            case "reset":
                answer = Answer(status=0)
            case _:
                answer = await simulator.answer(call)
        if kind == "late_status":
            answer = simulator.broken(call, fault.get("status", 500))
        status = None if kind in ("drop", "reset") else answer.status
        ground.calls.add(
            {"route": route, "place": place, "status": status, "fault": kind, "at": ground.now()}
        )
        ground.commit()
        if kind == "slow":
            await ground.released.wait()
        if status is None:
            _hang_up(request, reset=kind == "reset")
        return answer if status is not None else Answer()

    async def _ordered(self, call: Call) -> Answer:
        try:
            order = call.json() if call.body else {}
            if not isinstance(order, dict):
                raise ValueError("an order is one JSON object")
            found = await self._obey(call, call.path.removeprefix("/_sim").strip("/"), order)
        except KeyError as error:
            return says({"error": f"there is no {error.args[0]}"}, 404)
        except (ValueError, TypeError) as error:
            return says({"error": str(error)}, 400)
        self.ground.commit()
        return says(found)

    async def _obey(self, call: Call, name: str, order: dict[str, Any]) -> Any:
        ground = self.ground
        match call.method, name:
            case "GET", "":
                return self._about()
            case "POST", "faults":
                ground.faults.ask(order)
            case "DELETE", "faults":
                ground.faults.calm()
                ground.let_go()
            case "POST", "release":
                ground.released.set()
                ground.released = asyncio.Event()
            case "POST", "webhook":
                ground.set_webhook(**order)
            case "DELETE", "webhook":
                ground.set_webhook("")
            case "GET", "effects":
                return await self._listed(ground.effects, call)
            case "GET", "calls":
                return await self._listed(ground.calls, call)
            case "GET", "events":
                return await self._events(call)
            case "POST", "redeliver":
                return {"events": ground.again(order.get("number"))}
            case "POST", "clock":
                return {"ahead": ground.move(float(order["seconds"]))}
            case "POST", "disconnect":
                return await self._disconnect(int(order.get("code", 1000)))
            case "POST", _:
                return await self._command(name, order)
            case _:
                raise KeyError(f"{call.method} /_sim/{name}")
        return {}

    def _about(self) -> dict[str, Any]:
        commands = {
            name.removeprefix("do_"): str(inspect.signature(method)).partition(" ->")[0]
            for name, method in inspect.getmembers(self.simulator, callable)
            if name.startswith("do_")
        }
        return {
            "name": self.name,
            "credentials": self.simulator.credentials(),
            "webhook": self.ground.webhook,
            "sockets": len(self.ground.sockets),
            "commands": commands,
        }

    async def _listed(self, book: Book, call: Call) -> list[Any]:
        """The entries, of one `kind`, `route` or `place`, once there are enough of them."""
        wanted = {k: v for k, v in call.query.items() if k in ("kind", "route", "place")}
        least = int(call.query.get("at_least", "0"))

        def found() -> list[Any] | None:
            entries = [
                one
                for one in book.everything().values()
                if all(one.get(key) == value for key, value in wanted.items())
            ]
            return entries if len(entries) >= least else None

        patience = float(call.query.get("patience", PATIENCE))
        entries = found() if least == 0 else await self.ground.until(found, patience)
        if entries is None:
            raise ValueError(f"there were not {least} of them within {patience:g} seconds")
        return entries

    async def _events(self, call: Call) -> dict[str, Any]:
        if "idle" in call.query:
            patience = float(call.query.get("patience", PATIENCE))
            if not await self.ground.until(lambda: not self.ground.waiting(), patience):
                raise ValueError(f"some were still on their way after {patience:g} seconds")
        return {
            "waiting": [asdict(one) for one in self.ground.waiting()],
            "settled": []
            if "under_way" in call.query
            else [asdict(one) for one in self.ground.settled()],
        }

    async def _disconnect(self, code: int) -> dict[str, Any]:
        open_ = list(self.ground.sockets)
        await asyncio.gather(*(one.close(code=code) for one in open_))
        return {"closed": len(open_)}

    async def _command(self, name: str, order: dict[str, Any]) -> Any:
        method = getattr(self.simulator, f"do_{name}", None)
        if method is None:
            raise KeyError(f"command {name}; GET /_sim lists them")
        inspect.signature(method).bind(**order)
        done = method(**order)
        return await done if inspect.isawaitable(done) else done


def _hang_up(request: web.Request, *, reset: bool) -> None:
    """End the connection without an answer."""
    transport = request.transport
    if transport is None:
        return
    if reset:
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, linger)
        transport.abort()
    else:
        transport.close()


@contextlib.asynccontextmanager
async def served(
    name: str,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    state: Path | None = None,
    webhook: str = "",
    secret: str = "",
    speed: float = 1.0,
) -> AsyncIterator[dict[str, Any]]:
    """A simulator behind open doors, and what to know of it: `name`, `url`, `api`, `credentials`.

    Port 0 takes a free one. Raises `KeyError` where there is no such simulator, and `OSError`.
    """
    ground = Ground(Shelf(state), speed=speed)
    simulator = simulator_of(name)(ground)
    if webhook:
        ground.set_webhook(webhook, secret)
    ground.commit()
    house = House(name, ground, simulator)
    app = web.Application(client_max_size=MOST)
    app.router.add_route("*", "/{rest:.*}", house.enter)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handle_signals=False)
    await runner.setup()
    deliverer = asyncio.create_task(Deliverer(ground, simulator).run())
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        url = "http://{}:{}".format(*runner.addresses[0][:2])
        # Links to files are made before anybody has called.
        ground.settings["origin"] = url
        yield {
            "name": name,
            "url": url,
            "api": url + simulator.api,
            "credentials": simulator.credentials(),
        }
    finally:
        deliverer.cancel()
        await asyncio.gather(deliverer, return_exceptions=True)
        await runner.cleanup()
        ground.shelf.close()


async def serve(name: str, announce: Callable[[dict[str, Any]], None], **options: Any) -> None:
    """Run a simulator until it is told to stop; `announce` is told once where it listens."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, stopped.set)
    async with served(name, **options) as about:
        announce(about)
        await stopped.wait()


def as_line(about: dict[str, Any]) -> str:
    """What a program reads at the start."""
    return json.dumps(about) + "\n"
