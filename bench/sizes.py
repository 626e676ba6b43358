"""How long and how large: the full run, the quick one, and the slice that only proves it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Seconds of a stretch, how many stretches (`rounds`), and how large what is measured is.

    `heard` are the webhooks of one platform that are sent one after the other; `webhooks` and
    `deliveries` are those of one stretch.
    """

    seconds: float
    rounds: int = 3
    rooms: int = 1_000
    in_flight: tuple[int, ...] = (16, 64, 256)
    lone: int = 500
    readers: int = 500
    prefilled: int = 2_000
    reading_seconds: float
    lengths: tuple[int, ...]
    members: tuple[int, ...]
    conversations: tuple[int, ...]
    each: int = 300
    imported: int
    starts: int = 7
    heard: int = 150
    webhooks: int = 1_000
    deliveries: int = 240


FULL = Sizes(
    seconds=2.0,
    reading_seconds=10.0,
    lengths=(100, 1_000, 10_000, 100_000, 1_000_000),
    members=(1, 10, 100, 1_000, 10_000),
    conversations=(1, 10, 100, 1_000, 10_000, 100_000),
    imported=200_000,
)
QUICK = Sizes(
    seconds=0.3,
    lone=100,
    reading_seconds=1.5,
    lengths=(100, 10_000),
    members=(1, 300),
    conversations=(1, 1_000),
    each=60,
    imported=20_000,
    prefilled=500,
    starts=3,
    heard=15,
    webhooks=100,
    deliveries=48,
)
SLICE = Sizes(
    seconds=0.02,
    rounds=1,
    rooms=20,
    in_flight=(4,),
    lone=5,
    readers=12,
    prefilled=30,
    reading_seconds=0.1,
    lengths=(10, 200),
    members=(1, 5),
    conversations=(1, 5),
    each=5,
    imported=300,
    starts=1,
    heard=2,
    webhooks=8,
    deliveries=16,
)
