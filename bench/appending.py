"""Appends: one at a time, and many in flight over a thousand rooms, against the driver alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from statistics import median
from typing import Any

from bench.machine import tuned
from bench.outcome import Row, Target, row
from bench.raw import RawStore, Rows
from bench.sites import REAL, Site, Sites
from bench.sizes import Sizes
from bench.speech import body, talk
from threadline import InboundMessage, Threadline

ALONE = {
    "sqlite": Target("ratio", "<=", 2.0),
    "postgres": Target("ratio", "<=", 4.0),
}
SHARE = Target("ratio", ">=", 0.5)


async def rows(sites: Sites, sizes: Sizes) -> list[Row]:
    """All rows about appends."""
    found: list[Row] = []
    for site in sites.sites:
        async with AsyncExitStack() as stack:
            line = await stack.enter_async_context(site.open(await site.place()))
            raw = await stack.enter_async_context(site.raw(await site.place()))
            await raw.begin(sizes.rooms)
            messages = talk(sizes.rooms)
            await _say(line, [next(messages) for _ in range(sizes.rooms)])
            made = Rows(sizes.rooms, body())
            with tuned():
                found.append(await _alone(site, line, raw, messages, made, sizes))
                for in_flight in sizes.in_flight:
                    found.append(await _together(site, line, raw, messages, made, sizes, in_flight))
        if site.disk == REAL:
            found.append(await _indexed(site, sizes))
    return found


async def _say(line: Threadline, messages: list[InboundMessage]) -> None:
    for answer in await line.inbound.receive_all(messages):
        if isinstance(answer, Exception):
            raise answer


async def _alone(
    site: Site,
    line: Threadline,
    raw: RawStore,
    messages: Iterator[InboundMessage],
    made: Rows,
    sizes: Sizes,
) -> Row:
    """Microseconds for one append, each awaited before the next."""
    ours, theirs = [], []
    for _ in range(sizes.rounds):
        batch = [next(messages) for _ in range(sizes.lone)]
        began = time.perf_counter()
        for message in batch:
            await line.inbound.receive(message)
        ours.append((time.perf_counter() - began) / sizes.lone)
        singles = [[one] for one in made.take(sizes.lone)]
        began = time.perf_counter()
        for single in singles:
            await raw.write(single)
        theirs.append((time.perf_counter() - began) / sizes.lone)
    return row(
        "one durable append, alone",
        site.engine,
        site.disk,
        ours=median(ours) * 1e6,
        raw=median(theirs) * 1e6,
        unit="µs",
        target=ALONE[site.engine],
    )


async def _together(
    site: Site,
    line: Threadline,
    raw: RawStore,
    messages: Iterator[InboundMessage],
    made: Rows,
    sizes: Sizes,
    in_flight: int,
) -> Row:
    """Appends a second with so many in flight; the driver commits as many at once as we did."""
    ours, theirs, formed = [], [], []
    for _ in range(sizes.rounds):
        rate, size = await flood(line, messages, in_flight, sizes.seconds)
        ours.append(rate)
        formed.append(size)
        theirs.append(await flood_raw(raw, made, max(1, round(size)), sizes.seconds))
    return row(
        f"appends, {in_flight} in flight",
        site.engine,
        site.disk,
        ours=median(ours),
        raw=median(theirs),
        unit="a second",
        target=SHARE,
        note=f"{median(formed):.0f} a commit",
    )


async def flood(
    line: Threadline, messages: Iterator[InboundMessage], in_flight: int, seconds: float
) -> tuple[float, float]:
    """Appends a second, and how many stories a commit took on average."""
    store: Any = line.store
    batches, batched = store.batches, store.batched
    count, over = 0, False

    async def client() -> None:
        nonlocal count
        while not over:
            await line.inbound.receive(next(messages))
            count += 1

    began = time.perf_counter()
    clients = [asyncio.create_task(client()) for _ in range(in_flight)]
    await asyncio.sleep(seconds)
    over = True
    await asyncio.gather(*clients)
    spent = time.perf_counter() - began
    return count / spent, (store.batched - batched) / max(1, store.batches - batches)


async def flood_raw(raw: RawStore, made: Rows, size: int, seconds: float) -> float:
    """The driver's rows a second, so many in a commit; making them is not counted."""
    count, spent = 0, 0.0
    while spent < seconds:
        ahead = [made.take(size) for _ in range(max(1, 4096 // size))]
        began = time.perf_counter()
        for batch in ahead:
            await raw.write(batch)
        spent += time.perf_counter() - began
        count += size * len(ahead)
    return count / spent


async def _indexed(site: Site, sizes: Sizes) -> Row:
    """The same with the text index trailing in the same process, as a server runs."""
    in_flight = sizes.in_flight[len(sizes.in_flight) // 2]
    async with site.open(await site.place(), indexing=True) as line:
        messages = talk(sizes.rooms)
        await _say(line, [next(messages) for _ in range(sizes.rooms)])
        with tuned():
            rates = [
                (await flood(line, messages, in_flight, sizes.seconds))[0]
                for _ in range(sizes.rounds)
            ]
    return row(
        f"appends, {in_flight} in flight, the text index trailing",
        site.engine,
        site.disk,
        ours=median(rates),
        unit="a second",
    )
