"""Socket Mode, simulated: tickets, envelopes that are acknowledged, connections that come and go.

An event goes to one of the connections, in turn. Not acknowledged in time, or with its connection
cut, it comes again in a fresh envelope on another one, on the schedule of all retries. What happens
while nobody is connected is told to nobody: it stands in the history alone.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from dataclasses import replace
from typing import Any, ClassVar

from aiohttp import WSMsgType, web

from threadline.testing.simulators.ground import Ground
from threadline.testing.simulators.slack_asked import Asked, Refused
from threadline.testing.simulators.slack_speech import Speech
from threadline.testing.simulators.slack_world import APP
from threadline.testing.simulators.wire import Answer, Call, Event, says

MOST = 10
RETRIES = (0.0, 60.0, 300.0)
LASTS = 18_060
HOST = {"host": "applink-sim-1"}


class Line:
    """One open connection: what waits to be written on it, and what it has not acknowledged."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self.socket = socket
        self.out: deque[dict[str, Any]] = deque()
        self.open: dict[str, Event] = {}
        self.leaving = False


class Sockets(Speech):
    """The sockets of the platform."""

    patience: ClassVar[float] = 3.0

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self.lines: list[Line] = []
        self._turn = 0

    def _apps_connections_open(self, asked: Asked) -> dict[str, Any]:
        if self.ground.settings.get("away"):
            raise Refused("internal_error")
        ticket = secrets.token_hex(8)
        self.ground.book("tickets")[ticket] = self.ground.now()
        origin = str(self.ground.settings["origin"]).replace("http", "ws", 1)
        return {"url": f"{origin}/link/?ticket={ticket}&app_id={APP}"}

    def welcome(self, call: Call) -> Answer | None:
        """A ticket opens one connection, once."""
        known = self.ground.book("tickets").pop(call.query.get("ticket", ""), None)
        if call.path != "/link/" or known is None or self.ground.settings.get("away"):
            return says({"ok": False, "error": "invalid_ticket"}, 403)
        return None

    async def talk(self, socket: web.WebSocketResponse, call: Call) -> None:
        """Say hello, then hand out what happens and hear what was understood."""
        line = Line(socket)
        if len(self.lines) >= MOST:
            await socket.send_json(_disconnect("too_many_websockets"))
            await socket.close()
            return
        if not self.lines:
            self._forget()
        self.lines.append(line)
        opened = int(self.ground.settings.get("opened", 0)) + 1
        self.ground.settings["opened"] = opened
        await socket.send_json(
            {
                "type": "hello",
                "num_connections": len(self.lines),
                "debug_info": {**HOST, "build_number": 1, "approximate_connection_time": LASTS},
                "connection_info": {"app_id": APP},
            }
        )
        self.ground.commit()
        pump = asyncio.create_task(self._pump(line))
        try:
            while (came := await socket.receive()).type is WSMsgType.TEXT:
                self._heard(line, came.data)
                self.ground.commit()
        finally:
            self.lines.remove(line)
            for event in line.open.values():
                self._later(event, 0.0)
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
            self.ground.commit()

    def _forget(self) -> None:
        """What happened while nobody was there is lost to them; what was handed out comes again."""
        now = self.ground.now()
        for event in self.waiting():
            if event.due <= now and not event.attempts:
                self.ground.settle(event, "lost")

    def _heard(self, line: Line, text: str) -> None:
        """An acknowledgement; nothing else is said by an app."""
        try:
            said = json.loads(text)
            event = line.open.pop(said["envelope_id"])
        except (ValueError, TypeError, KeyError, RecursionError):
            self.ground.calls.add({"route": "ack", "place": "", "status": 400, "fault": ""})
            return
        self.ground.settle(event)
        self.ground.calls.add({"route": "ack", "place": event.place, "status": 200, "fault": ""})

    async def _pump(self, line: Line) -> None:
        """Hand on what happens, as long as the connection lasts."""
        while True:
            self._share()
            while line.out:
                await line.socket.send_json(line.out.popleft())
            now, dues = self.ground.now(), [one.due for one in self.waiting()]
            patience = max(0.001, min([60.0, *(due - now for due in dues if due > now)]))
            await self.ground.until(lambda: bool(line.out or self._ripe()), patience)

    def _ripe(self) -> list[Event]:
        if self.ground.webhook is not None:
            return []
        return [one for one in self.ground.ripe() if not one.url]

    def _share(self) -> None:
        """Give what is due to the connections in turn, each time in a fresh envelope."""
        ripe = self._ripe()
        for event in ripe:
            if event.attempts > len(RETRIES):
                self._overdue(event)
                self.ground.settle(replace(event, attempts=event.attempts - 1), "given_up")
                continue
            before = self._overdue(event)
            fit = [one for one in self.lines if not one.leaving and one is not before]
            fit = fit or [one for one in self.lines if one is not before] or self.lines
            if not fit:
                return
            self._turn += 1
            line, envelope = fit[self._turn % len(fit)], secrets.token_hex(16)
            line.open[envelope] = event
            line.out.append(
                {
                    "envelope_id": envelope,
                    "payload": event.what,
                    "type": "events_api",
                    "accepts_response_payload": False,
                    "retry_attempt": event.attempts,
                    "retry_reason": "timeout" if event.attempts else "",
                }
            )
            wait = float(self.ground.settings.get("ack", self.patience))
            self._later(event, wait * self.ground.speed)
        if ripe:
            self.ground.commit()

    def _overdue(self, event: Event) -> Line | None:
        """The connection that has not acknowledged an event; it may not any more."""
        for line in self.lines:
            for envelope, one in line.open.items():
                if one.number == event.number:
                    del line.open[envelope]
                    return line
        return None

    def _later(self, event: Event, patience: float) -> None:
        """Try it again after `patience` and what the schedule adds."""
        wait = RETRIES[event.attempts] if event.attempts < len(RETRIES) else 0.0
        self.ground.postpone(event, patience + wait, "timeout")

    # --- orders ------------------------------------------------------------------------------

    async def do_attended(self, opened: int = 0) -> dict[str, int]:
        """Wait until somebody is connected, and was so often before; how often there was one."""

        def here() -> bool:
            return bool(self.lines) and int(self.ground.settings.get("opened", 0)) >= opened

        await self.ground.until(here, 30)
        return {"opened": int(self.ground.settings.get("opened", 0))}

    async def do_refresh(self, reason: str = "refresh_requested", close: bool = True) -> int:
        """Ask every connection to come again, then close it; how many there were.

        With `warning` it is only said; without `close` a connection stays until it is left, and is
        given no more events where there is another one.
        """
        open_ = list(self.lines)
        for line in open_:
            line.leaving = reason != "warning"
            await line.socket.send_json(_disconnect(reason))
            if close and line.leaving:
                await line.socket.close()
        return len(open_)

    async def do_away(self, away: bool = True) -> int:
        """Close every connection and open none until it is over; how many there were."""
        self.ground.settings["away"] = away
        open_ = list(self.lines) if away else []
        await asyncio.gather(*(one.socket.close(code=1011) for one in open_))
        return len(open_)


def _disconnect(reason: str) -> dict[str, Any]:
    return {"type": "disconnect", "reason": reason, "debug_info": HOST}
