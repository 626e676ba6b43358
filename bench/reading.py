"""Readers: acknowledgements, how soon a reader has what was said, and a page of a hundred."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from statistics import median, quantiles

from bench.filling import filled
from bench.machine import tuned
from bench.outcome import Row, Target, row
from bench.sites import REAL, SLOW, Site, Sites
from bench.sizes import Sizes
from bench.speech import room, said, talk
from threadline import ConversationRef, Threadline
from threadline.core.model import BackfillPolicy
from threadline.flows.replay import CaughtUp, Handed

ACKS = Target("ours", ">=", 5_000, "a second")
LATENCY = Target("ours", "<=", 3.0, "ms")
PAGE = Target("ours", "<=", 0.5, "ms")
FLAT = Target("ours", "<=", 1.3, "×")

ACK_ROOMS = 10
SPREAD_ROOMS = 50
APPENDS_A_SECOND = 200
CROWD_APPENDS_A_SECOND = 20
FEWEST = 2
HANDED_SECONDS = 60.0


async def rows(sites: Sites, sizes: Sizes) -> list[Row]:
    """All rows about readers."""
    found: list[Row] = []
    for site in sites.sites:
        found.append(await _acks(site, sizes))
        found += await _latency(site, sizes, SPREAD_ROOMS, APPENDS_A_SECOND, LATENCY)
        if site.disk == REAL:
            found += await _latency(site, sizes, 1, CROWD_APPENDS_A_SECOND, None)
            found += await _backfill(site, sizes)
    return found


async def _seat(line: Threadline, readers: int, rooms: int) -> list[tuple[str, ConversationRef]]:
    """Readers as members of these rooms, evenly."""
    seats = [(f"reader-{n}", room(n % rooms)) for n in range(readers)]
    for start in range(0, readers, 200):
        part = seats[start : start + 200]
        await asyncio.gather(*(line.members.join(ref, name) for name, ref in part))
    return seats


async def _acks(site: Site, sizes: Sizes) -> Row:
    """Acknowledgements a second, each moving a cursor, while two hundred appends a second come."""
    url = await site.place()
    async with site.open(url) as line:
        for number in range(ACK_ROOMS):
            await line.conversations.ensure(room(number))
        seats = await _seat(line, sizes.readers, ACK_ROOMS)
    await filled(site, url, [(room(n), sizes.prefilled) for n in range(ACK_ROOMS)])
    rates: list[float] = []
    async with site.open(url) as line:
        cursors = {name: 0 for name, _ in seats}
        with tuned():
            for _ in range(sizes.rounds):
                async with _appending(line, ACK_ROOMS, APPENDS_A_SECOND, 10**7 * (len(rates) + 1)):
                    rates.append(await _ack_all(line, seats, cursors, sizes))
    return row(
        f"acks of {sizes.readers} readers during {APPENDS_A_SECOND} appends a second",
        site.engine,
        site.disk,
        ours=median(rates),
        unit="a second",
        target=ACKS,
    )


async def _ack_all(
    line: Threadline,
    seats: list[tuple[str, ConversationRef]],
    cursors: dict[str, int],
    sizes: Sizes,
) -> float:
    count, over = 0, False

    async def reader(name: str, ref: ConversationRef) -> None:
        nonlocal count
        while not over and cursors[name] < sizes.prefilled:
            cursors[name] += 1
            member = await line.replay.ack(ref, name, cursors[name])
            assert member.last_read == cursors[name]
            count += 1

    began = time.perf_counter()
    tasks = [asyncio.create_task(reader(name, ref)) for name, ref in seats]
    await asyncio.wait(tasks, timeout=sizes.seconds)
    over = True
    await asyncio.gather(*tasks)
    return count / (time.perf_counter() - began)


@asynccontextmanager
async def _appending(
    line: Threadline, rooms: int, rate: int, first: int
) -> AsyncIterator[dict[str, float]]:
    """Appends at a steady pace, as long as this is held: when each was begun, by its id."""
    begun: dict[str, float] = {}
    loop = asyncio.get_running_loop()
    sending: set[asyncio.Task[object]] = set()

    async def pace() -> None:
        due = loop.time()
        for message in talk(rooms, first):
            assert message.message_id is not None
            begun[message.message_id] = time.perf_counter()
            task = asyncio.ensure_future(line.inbound.receive(message))
            sending.add(task)
            task.add_done_callback(sending.discard)
            due += 1 / rate
            await asyncio.sleep(max(0.0, due - loop.time()))

    pacing = asyncio.create_task(pace())
    try:
        yield begun
    finally:
        pacing.cancel()
        await asyncio.gather(pacing, return_exceptions=True)
        await asyncio.gather(*sending)


async def _latency(
    site: Site, sizes: Sizes, rooms: int, rate: int, target: Target | None
) -> list[Row]:
    """From the call that appends to a reader of this process holding the record."""
    async with site.open(await site.place()) as line:
        for number in range(rooms):
            await line.inbound.receive(said(room(number), number))
        seats = await _seat(line, sizes.readers, rooms)
        ready, enough, handed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        waiting, delays, expected = len(seats), [], 0
        begun: dict[str, float] = {}

        async def reader(name: str) -> None:
            nonlocal waiting
            async for item in line.replay.follow(name):
                if isinstance(item, CaughtUp):
                    waiting -= 1
                    if not waiting:
                        ready.set()
                elif isinstance(item, Handed) and item.record.message_id in begun:
                    delays.append(time.perf_counter() - begun[item.record.message_id])
                    if len(delays) == FEWEST:
                        enough.set()
                    if len(delays) == expected:
                        handed.set()

        readers = [asyncio.create_task(reader(name)) for name, _ in seats]
        await ready.wait()
        with tuned():
            async with _appending(line, rooms, rate, 10**6) as begun:
                await asyncio.sleep(sizes.reading_seconds)
                # A machine that is busy may not have begun by then.
                await asyncio.wait_for(enough.wait(), HANDED_SECONDS)
            expected = len(begun) * (len(seats) // rooms)
            if len(delays) < expected:
                await asyncio.wait_for(handed.wait(), HANDED_SECONDS)
        for task in readers:
            task.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    cuts = quantiles(delays, n=100)
    where = "one room" if rooms == 1 else f"{rooms} rooms"
    name = f"append → reader, {sizes.readers} readers in {where}, {rate} appends a second"
    return [
        row(f"{name}, p50", site.engine, site.disk, ours=cuts[49] * 1e3, unit="ms"),
        row(
            f"{name}, p99",
            site.engine,
            site.disk,
            ours=cuts[98] * 1e3,
            unit="ms",
            target=target if site.disk != SLOW else None,
        ),
    ]


async def _backfill(site: Site, sizes: Sizes) -> list[Row]:
    """A page of a hundred at the end of transcripts of every length, asked for in turn."""
    url = await site.place()
    refs = {length: room(n) for n, length in enumerate(sizes.lengths)}
    async with site.open(url) as line:
        for ref in refs.values():
            await line.conversations.ensure(ref)
    await filled(site, url, [(ref, length) for length, ref in refs.items()])
    times: dict[int, list[float]] = {length: [] for length in refs}
    async with site.open(url) as line:
        for ref in refs.values():
            await line.members.join(ref, "late", policy=BackfillPolicy.LAST_N, n=100)
        with tuned():
            for _ in range(sizes.each):
                for length, ref in refs.items():
                    began = time.perf_counter()
                    page = await line.replay.backfill(ref, "late")
                    times[length].append(time.perf_counter() - began)
                    assert len(page.records) == min(length, 100)
    medians = {length: median(found) * 1e3 for length, found in times.items()}
    found = [
        row(
            f"backfill of 100 records, transcript of {length:,}",
            site.engine,
            site.disk,
            ours=value,
            unit="ms",
            target=PAGE,
        )
        for length, value in medians.items()
    ]
    return [*found, *flat("backfill of 100 records, transcript of", site, medians)]


def flat(what: str, site: Site, medians: dict[int, float]) -> Iterator[Row]:
    """The dearest size against the smallest."""
    smallest = next(iter(medians))
    sizes = itertools.islice(medians, 1, None)
    worst = max(sizes, key=lambda size: medians[size])
    yield row(
        f"{what} {smallest:,} … {max(medians):,}, dearest against smallest",
        site.engine,
        site.disk,
        ours=medians[worst] / medians[smallest],
        unit="×",
        target=FLAT,
        note=f"at {worst:,}",
    )
