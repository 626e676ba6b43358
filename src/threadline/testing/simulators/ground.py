"""The common ground of the simulators: what one keeps, what it owes, and what makes a platform one.

A call comes in; the platform does what it asks and writes down the effect; then it answers, unless
trouble was ordered. What happens there becomes an event, which stands in the queue of its place
until whoever listens has it: by webhook (`deliverer.py`), by a socket, or by asking for it. All of
it is in one file and is committed before anybody is told, so that a killed simulator goes on where
it was. `serving.py` opens the doors.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, ClassVar, TypeVar

from aiohttp import web

from threadline.testing.simulators.faults import Faults
from threadline.testing.simulators.shelf import Book, Shelf
from threadline.testing.simulators.wire import Answer, Call, Event, Push, says

T = TypeVar("T")


class Ground:
    """What one simulator remembers. `speed` is how many of its seconds pass in one of ours."""

    def __init__(self, shelf: Shelf, *, speed: float = 1.0) -> None:
        self.shelf = shelf
        self.speed = speed
        self.settings = shelf.book("settings")
        self.effects = shelf.book("effects")
        self.calls = shelf.book("calls")
        self.faults = Faults(shelf.book("faults"))
        self.released = asyncio.Event()
        self.sockets: set[web.WebSocketResponse] = set()
        self._waiting = shelf.book("waiting")
        self._settled = shelf.book("settled")
        self._held = shelf.book("held")
        self._numbers = shelf.book("numbers")
        self._bell = asyncio.Event()

    def book(self, name: str) -> Book:
        """A book of the platform's own, such as its messages."""
        return self.shelf.book(f"platform.{name}")

    def now(self) -> float:
        """Seconds since 1970, by the platform's own clock."""
        ahead: float = self.settings.get("ahead", 0.0)
        return time.time() + ahead

    def move(self, seconds: float) -> float:
        """Let time pass there; what was to come meanwhile comes now. How far it is ahead of us."""
        ahead: float = self.settings.get("ahead", 0.0) + seconds
        self.settings["ahead"] = ahead
        self._ring()
        return ahead

    def number(self, name: str, first: int = 1) -> int:
        """The next number of a series, never given twice."""
        number: int = self._numbers.get(name, first)
        self._numbers[name] = number + 1
        return number

    def effect(self, kind: str, place: str, **facts: Any) -> None:
        """Write down that something was really said, changed or taken away."""
        self.effects.add({"kind": kind, "place": place, "at": self.now(), **facts})

    def emit(self, place: str, what: Any, *, url: str = "") -> None:
        """Let it happen: an event for whoever listens, or for the webhook `url` alone."""
        fault = self.faults.event(place) or {"fault": ""}
        now = self.now()
        event = Event(number=0, place=place, what=what, at=now, due=now, url=url)
        match fault["fault"]:
            case "lose":
                self._queue(replace(event, state="lost"))
            case "reorder":
                self._held.add(asdict(event))
            case "delay":
                self._queue(replace(event, due=now + fault.get("wait", 1.0) / self.speed))
            case "duplicate":
                self._queue(event)
                self._queue(event)
            case _:
                self._queue(event)
        if fault["fault"] != "reorder":
            self.let_go(place)

    def let_go(self, place: str | None = None) -> None:
        """Events that were held back so that they come out of order go on their way."""
        for key, held in self._held.everything().items():
            if place in (None, held["place"]):
                del self._held[key]
                self._queue(Event(**held))

    def _queue(self, event: Event) -> None:
        event = replace(event, number=self.number("event"))
        book = self._waiting if event.state == "waiting" else self._settled
        book[str(event.number)] = asdict(event)
        if event.due > self.now():
            asyncio.get_running_loop().call_later(event.due - self.now(), self._ring)

    def again(self, number: int | None = None) -> int:
        """Let a settled event, or all of them, arrive once more; how many."""
        found = [Event(**one) for one in self._settled.everything().values()]
        chosen = [one for one in found if number in (None, one.number)]
        now = self.now()
        for one in chosen:
            self._queue(replace(one, state="waiting", attempts=0, at=now, due=now, error=""))
        return len(chosen)

    def waiting(self, place: str | None = None) -> list[Event]:
        """What has not arrived, in its order."""
        found = [Event(**one) for one in self._waiting.everything().values()]
        return [one for one in found if place in (None, one.place)]

    def ripe(self) -> list[Event]:
        """What has not arrived and may arrive now, in its order."""
        now = self.now()
        return [one for one in self.waiting() if one.due <= now]

    def settled(self) -> list[Event]:
        """What arrived, was lost or was given up."""
        return [Event(**one) for one in self._settled.everything().values()]

    def settle(self, event: Event, state: str = "done", error: str = "") -> None:
        """It arrived, or never will."""
        if self._waiting.pop(str(event.number), None) is not None:
            done = replace(event, state=state, error=error, attempts=event.attempts + 1)
            self._settled[str(event.number)] = asdict(done)

    def postpone(self, event: Event, seconds: float, error: str) -> None:
        """It did not arrive and is tried again in so many of the platform's seconds."""
        if str(event.number) in self._waiting:
            due = self.now() + seconds / self.speed
            later = replace(event, due=due, error=error, attempts=event.attempts + 1)
            self._waiting[str(event.number)] = asdict(later)

    @property
    def webhook(self) -> dict[str, Any] | None:
        """Where events go and what signs them: `url`, `secret`, and what the platform adds."""
        found: dict[str, Any] | None = self.settings.get("webhook")
        return found

    def set_webhook(self, url: str, secret: str = "", **more: Any) -> None:
        """Send events there from now on; nowhere with an empty URL."""
        self.settings["webhook"] = {"url": url, "secret": secret, **more} if url else None

    def commit(self) -> None:
        """Keep what was done, then wake whoever waits for something."""
        self.shelf.commit()
        self._ring()

    def _ring(self) -> None:
        self._bell.set()
        self._bell = asyncio.Event()

    async def until(self, ready: Callable[[], T | None], patience: float) -> T | None:
        """What `ready` finds as soon as it finds something, or nothing after `patience` seconds."""
        deadline = time.monotonic() + patience
        while not (found := ready()):
            left = deadline - time.monotonic()
            if left <= 0:
                return found
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._bell.wait(), left)
        return found


class Simulator(ABC):
    """A platform. What is said on it is `do_…`: each such method is a command of its control API.

    Work without `await` between reading and writing, and put back what you changed: the ground
    commits after every call and every command.
    """

    # The calls that say something: those that trouble is meant for unless it names another.
    speaking: ClassVar[frozenset[str]] = frozenset()
    # Whether an event that is tried again holds up those of its place that came after it.
    ordered: ClassVar[bool] = True
    # How long a webhook may take to answer, in seconds.
    patience: ClassVar[float] = 10.0
    # The path of its API, below which an app makes its calls.
    api: ClassVar[str] = ""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground

    def credentials(self) -> dict[str, str]:
        """What an app needs to know of its account here, such as a token."""
        return {}

    def route(self, call: Call) -> tuple[str, str]:
        """What is asked, as trouble names it, and in which place. Total."""
        return f"{call.method} {call.path}", ""

    async def answer(self, call: Call) -> Answer:
        """Do what is asked."""
        return says({"error": "not found"}, 404)

    def rate_limited(self, call: Call, wait: float) -> Answer:
        """How this platform says that one has to wait."""
        return Answer(status=429, headers={"retry-after": f"{wait:g}"})

    def broken(self, call: Call, status: int) -> Answer:
        """How this platform says that something is wrong with it."""
        return Answer(status=status)

    def welcome(self, call: Call) -> Answer | None:
        """Why a socket is not opened; None opens it."""
        return says({"error": "not found"}, 404)

    async def talk(self, socket: web.WebSocketResponse, call: Call) -> None:
        """Hold the conversation on an open socket, to its end."""
        await socket.close()

    @abstractmethod
    def push(self, event: Event, url: str, secret: str) -> Push:
        """The signed request that brings an event to a webhook."""

    def retry(self, event: Event, status: int | None, headers: Mapping[str, str]) -> float | None:
        """When an event is tried again after it was answered with no 2xx, or with nothing.

        In seconds; None gives it up. `event.attempts` counts those before this one.
        """
        return None

    def took(self, event: Event, body: bytes) -> None:
        """A webhook answered 2xx with these words."""
        return  # Most platforms take any 2xx and read nothing of it.
