"""How much people without a token may ask for: token buckets in memory, per address and per guest.

A bucket holds a minute's worth and fills evenly. What a node remembers is bounded; forgetting the
longest unused bucket forgets one that is as good as full. Behind a proxy everybody has the proxy's
address: an address in a header is anybody's claim.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any

from threadline.core.errors import Limited

REMEMBERED = 20_000
MINUTE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestLimits:
    """How often in a minute; 0 is without limit. `entries` and `requests` are per address,
    `all_entries` over all of them, `messages` per guest; `streams` is how many a guest has open."""

    entries: int = 60
    all_entries: int = 600
    messages: int = 30
    requests: int = 600
    streams: int = 4


class Buckets:
    """Spends from buckets, and says how long to wait where one is empty."""

    def __init__(self, limits: GuestLimits) -> None:
        self.limits = limits
        # What is left and when that was, the longest unused first.
        self._left: dict[tuple[str, str], tuple[float, float]] = {}

    def take(self, name: str, whose: str, rate: int) -> None:
        """Spend one. Raises `Limited` where nothing is left."""
        self._spend(name, whose, rate, 1.0)

    def look(self, name: str, whose: str, rate: int) -> None:
        """Raise `Limited` where nothing is left, without spending."""
        self._spend(name, whose, rate, 0.0)

    def _spend(self, name: str, whose: str, rate: int, cost: float) -> None:
        if rate <= 0:
            return
        now = time.monotonic()
        left, at = self._left.pop((name, whose), (float(rate), now))
        left = min(float(rate), left + (now - at) * rate / MINUTE)
        enough = left >= 1.0
        self._left[name, whose] = (left - cost if enough else left, now)
        if len(self._left) > REMEMBERED:
            del self._left[next(iter(self._left))]
        if not enough:
            wait = max(1, math.ceil((1.0 - left) * MINUTE / rate))
            raise Limited(f"({name}: {rate} a minute)", limit=rate, retry_after=wait)


def address_of(connection: Any) -> str:
    """Whose address a request comes from; of IPv6 the network, which one household has whole."""
    client = connection.client
    if client is None:
        return ""
    try:
        address = ip_address(client.host)
    except ValueError:
        return str(client.host)
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return address.exploded[:19]
    return str(address)
