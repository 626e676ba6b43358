"""The smallest platform: what is posted to `/say` is said, and everybody hears it."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from aiohttp import web

from threadline.testing.simulators.ground import Simulator
from threadline.testing.simulators.wire import Answer, Call, Event, Push, says


class Parrot(Simulator):
    """Signs with HMAC; tries an event again after 60 seconds, three times."""

    speaking: ClassVar[frozenset[str]] = frozenset({"POST /say"})

    def credentials(self) -> dict[str, str]:
        """One token."""
        return {"token": "polly"}

    def route(self, call: Call) -> tuple[str, str]:
        """A call names its room in the query."""
        return f"{call.method} {call.path}", call.query.get("room", "")

    async def answer(self, call: Call) -> Answer:
        """Say it."""
        if call.path != "/say":
            return says({"error": "not found"}, 404)
        fields = call.fields()
        number = self.ground.book("said").add(fields["text"])
        self.ground.effect("message", call.query.get("room", ""), text=fields["text"])
        return says({"id": number})

    def rate_limited(self, call: Call, wait: float) -> Answer:
        """In its own words."""
        return says({"slow_down": wait}, 429, retry_after=f"{wait:g}")

    def welcome(self, call: Call) -> Answer | None:
        """Only those with the token may listen."""
        return None if call.query.get("token") == "polly" else says({"error": "who?"}, 401)

    async def talk(self, socket: web.WebSocketResponse, call: Call) -> None:
        """One event after the other; the word that comes back settles it."""
        while not socket.closed:
            ripe = await self.ground.until(self.ground.ripe, 60)
            for event in ripe or []:
                await socket.send_json(event.what)
                if await socket.receive_str() == "got it":
                    self.ground.settle(event)
                    self.ground.commit()

    def push(self, event: Event, url: str, secret: str) -> Push:
        """Signed over the body."""
        body = json.dumps({**event.what, "attempt": event.attempts + 1}).encode()
        made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return Push(url=url, body=body, headers={"x-parrot": made})

    def retry(self, event: Event, status: int | None, headers: Mapping[str, str]) -> float | None:
        """A minute later, three times."""
        return 60.0 if event.attempts < 3 else None

    def do_say(self, text: str, room: str = "") -> dict[str, Any]:
        """Somebody says something."""
        number = self.ground.number("word")
        self.ground.emit(room, {"text": text, "number": number})
        return {"number": number}
