"""What an append costs as things grow: the transcript, the members, the number of conversations.

The sizes are appended to in turn, one append at a time, so that what disturbs the machine disturbs
all of them; a row is the dearest size against the smallest.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from contextlib import AsyncExitStack
from statistics import median

from bench.filling import filled, founded
from bench.machine import tuned
from bench.outcome import Row, row
from bench.reading import flat
from bench.sites import REAL, Site, Sites
from bench.sizes import Sizes
from bench.speech import room, said
from threadline import ConversationRef, Threadline

Places = dict[int, tuple[Threadline, list[ConversationRef]]]


async def rows(sites: Sites, sizes: Sizes) -> list[Row]:
    """All rows about growth."""
    found: list[Row] = []
    for site in sites.on(REAL):
        found += await _lengths(site, sizes)
        found += await _members(site, sizes)
        found += await _conversations(site, sizes)
    return found


async def _lengths(site: Site, sizes: Sizes) -> list[Row]:
    url = await site.place()
    refs = {length: room(n) for n, length in enumerate(sizes.lengths)}
    async with site.open(url) as line:
        for ref in refs.values():
            await line.conversations.ensure(ref)
    await filled(site, url, [(ref, length) for length, ref in refs.items()])
    async with site.open(url) as line:
        places: Places = {length: (line, [ref]) for length, ref in refs.items()}
        return _table("transcript", site, await _in_turn(places, sizes))


async def _members(site: Site, sizes: Sizes) -> list[Row]:
    async with site.open(await site.place()) as line:
        places: Places = {}
        for n, count in enumerate(sizes.members):
            ref = room(n)
            await line.conversations.ensure(ref)
            for first in range(0, count, 500):
                names = [f"reader-{it}" for it in range(first, min(first + 500, count))]
                await asyncio.gather(*(line.members.join(ref, name) for name in names))
            assert (await line.inbound.receive(said(ref, n))).readers == count
            places[count] = (line, [ref])
        return _table("members", site, await _in_turn(places, sizes))


async def _conversations(site: Site, sizes: Sizes) -> list[Row]:
    async with AsyncExitStack() as stack:
        places: Places = {}
        for count in sizes.conversations:
            url = await site.place()
            refs = await founded(site, url, count)
            random.Random(count).shuffle(refs)
            places[count] = (await stack.enter_async_context(site.open(url)), refs)
        return _table("conversations", site, await _in_turn(places, sizes))


async def _in_turn(places: Places, sizes: Sizes) -> dict[int, float]:
    """Milliseconds for an append at each size, to each of its conversations in turn."""
    times: dict[int, list[float]] = {size: [] for size in places}
    where = {size: itertools.cycle(refs) for size, (_, refs) in places.items()}
    order = list(places)
    with tuned():
        for number in range(sizes.each):
            random.shuffle(order)
            for size in order:
                message = said(next(where[size]), 10**8 + number)
                began = time.perf_counter()
                taken = await places[size][0].inbound.receive(message)
                times[size].append(time.perf_counter() - began)
                assert not taken.duplicate
    return {size: median(found) * 1e3 for size, found in times.items()}


def _table(what: str, site: Site, medians: dict[int, float]) -> list[Row]:
    each = [
        row(f"append, {what}: {size:,}", site.engine, site.disk, ours=value, unit="ms")
        for size, value in medians.items()
    ]
    return [*each, *flat(f"append, {what}:", site, medians)]
