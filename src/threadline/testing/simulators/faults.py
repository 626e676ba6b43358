"""Trouble on command.

| fault | what it does to the next call |
|---|---|
| `answer` | answers `status` (200) with the JSON `body` and `headers`; nothing is said |
| `rate_limit` | answers 429 as the platform does, to wait for `wait` seconds; nothing is said |
| `status` | answers `status` (500) as the platform does; nothing is said |
| `late_status` | says it, then answers `status` (500) |
| `drop` | says it, then closes the connection without an answer |
| `reset` | resets the connection; nothing is said |
| `slow` | says it, then waits for `POST /_sim/release` before it answers |

| fault | what it does to the next event |
|---|---|
| `duplicate` | it arrives twice |
| `reorder` | it arrives after the next one of its place |
| `delay` | it arrives `wait` seconds later |
| `lose` | it never arrives |

`times` is how often (1); `on` the call it is meant for, else any that says something; `place` the
conversation, else any.
"""

from __future__ import annotations

from typing import Any

from threadline.testing.simulators.shelf import Book

ON_CALLS = frozenset({"answer", "rate_limit", "status", "late_status", "drop", "reset", "slow"})
ON_EVENTS = frozenset({"duplicate", "reorder", "delay", "lose"})
KNOWN = {"fault", "times", "on", "place", "status", "body", "headers", "wait"}


class Faults:
    """Those that were asked for and have not happened yet."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def ask(self, fault: dict[str, Any]) -> None:
        """Ask for one. Raises `ValueError`, which says what is wrong with it."""
        if fault.get("fault") not in ON_CALLS | ON_EVENTS:
            raise ValueError(f"a fault is one of {', '.join(sorted(ON_CALLS | ON_EVENTS))}")
        if unknown := sorted(set(fault) - KNOWN):
            raise ValueError(f"a fault has no {unknown[0]}; it has {', '.join(sorted(KNOWN))}")
        self._book.add({"times": 1} | fault)

    def call(self, route: str, place: str, *, says: bool) -> dict[str, Any] | None:
        """The next one that is meant for this call."""
        return self._take(ON_CALLS, route, place, says)

    def event(self, place: str) -> dict[str, Any] | None:
        """The next one that is meant for this event."""
        return self._take(ON_EVENTS, "", place, True)

    def calm(self) -> None:
        """No more of it."""
        self._book.clear()

    def _take(
        self, kinds: frozenset[str], route: str, place: str, says: bool
    ) -> dict[str, Any] | None:
        for key, fault in self._book.everything().items():
            if fault["fault"] not in kinds or fault.get("place", place) != place:
                continue
            if not (fault["on"] == route if "on" in fault else says):
                continue
            fault["times"] -= 1
            if fault["times"] > 0:
                self._book[key] = fault
            else:
                del self._book[key]
            return dict(fault)
        return None
