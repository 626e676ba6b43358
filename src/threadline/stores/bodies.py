"""What rows are made of: times as microseconds, bodies as JSON less what is at its default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

encode = msgspec.json.Encoder().encode


def micros(at: datetime) -> int:
    """A time as whole microseconds since 1970, which both engines compare alike."""
    return (at - EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    """The time behind `micros`."""
    return EPOCH + timedelta(microseconds=value)


def bare(kind: type[Any]) -> Callable[[Any], dict[str, Any]]:
    """A function that gives a value's fields less those at their defaults."""
    defaults: list[tuple[str, Any]] = []
    for one in fields(kind):
        value = one.default
        if value is MISSING and one.default_factory is not MISSING:
            value = one.default_factory()
        defaults.append((one.name, value))

    def fewer(value: Any) -> dict[str, Any]:
        found = ((name, getattr(value, name), default) for name, default in defaults)
        return {name: it for name, it, default in found if it is not default and it != default}

    return fewer
