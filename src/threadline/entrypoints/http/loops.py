"""Background loops: each is watched, begun anew when it fails, and says when it last did well.

A loop is `async def name(line, stopping)`, runs until `stopping` is set, and calls `beat()` after
each round that went well. One that raises, or ends too early, is logged and counted and begins
again after a pause that doubles; a round that went well forgets the pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from threadline.entrypoints.http.metrics import Metrics
from threadline.entrypoints.logs import logger, told

Work = Callable[[], Coroutine[Any, Any, None]]

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
RECENT = timedelta(seconds=3 * LONGEST_PAUSE)

_log = logger("loops")


@dataclass(slots=True)
class Pulse:
    """How one loop does. `failures` counts those since it last did well."""

    name: str
    metrics: Metrics
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    last_success: datetime | None = None
    last_failure: datetime | None = None
    last_error: str | None = None
    failures: int = 0

    @property
    def failing(self) -> bool:
        """Whether it raised and has not done well since; one that has run for a while is well."""
        if self.last_failure is None or not self.failures:
            return False
        return datetime.now(UTC) - self.last_failure < RECENT

    def beat(self) -> None:
        """A round went well."""
        if self.failures:
            _log.info("loop.recovered", loop=self.name, failures=self.failures)
        self.last_success = datetime.now(UTC)
        self.failures = 0
        self.metrics.loop_did_well(self.name)

    def failed(self, error: BaseException | None) -> None:
        """It raised, or ended while nobody asked it to."""
        self.failures += 1
        self.last_failure = datetime.now(UTC)
        self.last_error = "ended" if error is None else type(error).__name__
        self.metrics.loop_failed(self.name)
        if self.failures & (self.failures - 1):
            return  # Said at the first, second, fourth, eighth time: it is counted at every one.
        facts = {"error": "ended"} if error is None else told(error)
        _log.error("loop.failed", loop=self.name, failures=self.failures, **facts)

    def shown(self) -> dict[str, Any]:
        """What `/v1/status` says of it."""
        return {
            "name": self.name,
            "since": self.since.isoformat(),
            "last_success": self.last_success and self.last_success.isoformat(),
            "last_failure": self.last_failure and self.last_failure.isoformat(),
            "last_error": self.last_error,
            "failures": self.failures,
        }


_current: ContextVar[Pulse | None] = ContextVar("threadline_loop", default=None)


def beat() -> None:
    """The loop this is called in finished a round that went well."""
    pulse = _current.get()
    if pulse is not None:
        pulse.beat()


async def every(
    seconds: float, stopping: asyncio.Event, work: Callable[[], Awaitable[Any]]
) -> None:
    """The usual loop: work, then wait for so many seconds, until `stopping` is set."""
    while not stopping.is_set():
        await work()
        beat()
        await asleep(stopping, seconds)


async def asleep(stopping: asyncio.Event, seconds: float) -> None:
    """Wait; not for longer than until `stopping` is set."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stopping.wait(), seconds)


async def kept(
    pulse: Pulse,
    work: Work,
    stopping: asyncio.Event,
    *,
    first: float = FIRST_PAUSE,
    longest: float = LONGEST_PAUSE,
) -> None:
    """Run a loop until `stopping` is set, whatever it does.

    After a failure it pauses for `first` seconds, then twice as long, up to `longest`.
    """
    _current.set(pulse)
    while not stopping.is_set():
        began = time.monotonic()
        try:
            await work()
            if stopping.is_set():
                return
            pulse.failed(None)
        except Exception as error:
            pulse.failed(error)
        again = 0 if time.monotonic() - began > longest else min(pulse.failures - 1, 10)
        await asleep(stopping, min(longest, first * 2**again) * random.uniform(0.8, 1.2))
