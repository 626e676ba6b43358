"""Brings events to a webhook: signed, in order within a place, again as often as the platform does.

An event that is tried again holds up its place, or is overtaken where the platform has it so.
Places do not wait for each other. An event whose attempt was cut short by our death is tried again,
as any platform would: at least once, never surely once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp

from threadline.testing.simulators.ground import Ground, Simulator
from threadline.testing.simulators.wire import Event


class Deliverer:
    """Runs for as long as the simulator does."""

    def __init__(self, ground: Ground, simulator: Simulator) -> None:
        self._ground = ground
        self._simulator = simulator
        self._lanes: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Have one lane for each place where something waits."""
        limits = aiohttp.ClientTimeout(total=self._simulator.patience)
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(timeout=limits, connector=connector) as client:
            try:
                while True:
                    await self._ground.until(lambda: self._begin(client), patience=3600)
            finally:
                for lane in self._lanes.values():
                    lane.cancel()
                await asyncio.gather(*self._lanes.values(), return_exceptions=True)

    def _begin(self, client: aiohttp.ClientSession) -> bool:
        """Open the lanes that are needed; whether one was."""
        fresh = {one.place for one in self._ground.waiting() if self._url(one)} - set(self._lanes)
        for place in fresh:
            self._lanes[place] = asyncio.create_task(self._lane(client, place))
        return bool(fresh)

    def _url(self, event: Event) -> str:
        webhook = self._ground.webhook
        return event.url or ("" if webhook is None else str(webhook["url"]))

    async def _lane(self, client: aiohttp.ClientSession, place: str) -> None:
        ground = self._ground
        try:
            while (event := self._next(place)) is not None:
                left = event.due - ground.now()
                if left > 0:
                    await ground.until(lambda: self._ripe(place), left)
                else:
                    await self._attempt(client, event)
                    ground.commit()
        finally:
            del self._lanes[place]

    def _next(self, place: str) -> Event | None:
        """The event whose turn it is."""
        waiting = [one for one in self._ground.waiting(place) if self._url(one)]
        if self._simulator.ordered:
            return waiting[0] if waiting else None
        return min(waiting, key=lambda one: one.due, default=None)

    def _ripe(self, place: str) -> bool:
        event = self._next(place)
        return event is None or event.due <= self._ground.now()

    async def _attempt(self, client: aiohttp.ClientSession, event: Event) -> None:
        ground, simulator = self._ground, self._simulator
        secret = (ground.webhook or {}).get("secret", "")
        push = simulator.push(event, self._url(event), secret)
        status: int | None = None
        headers: Mapping[str, str] = {}
        try:
            async with client.request(
                push.method, push.url, data=push.body, headers=push.headers, allow_redirects=False
            ) as answer:
                body = await answer.read()
                status = answer.status
                headers = {name.lower(): value for name, value in answer.headers.items()}
                error = f"HTTP {status}"
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as failed:
            error = type(failed).__name__
        if status is not None and 200 <= status < 300:
            ground.settle(event)
            simulator.took(event, body)
            return
        wait = simulator.retry(event, status, headers)
        if wait is None:
            ground.settle(event, "given_up", error)
        else:
            ground.postpone(event, wait, error)
