"""A ring is never lost between the last look and the wait."""

from __future__ import annotations

from tests.speech import ROOM, said
from threadline import Threadline


async def test_a_ring_that_came_before_the_wait_ends_it_at_once(tl: Threadline) -> None:
    """B044: what is appended between the last read and the wait is not stranded."""
    state = await tl.conversations.ensure(ROOM)
    number = next(iter(await _numbers(tl)))
    bell = tl.store.bell(conversations=[number])
    await tl.inbound.receive(said("between look and wait", "m1"))

    rung = await bell.wait(60.0)

    assert list(rung) == [number], state.id
    bell.close()


async def test_rings_are_gathered_until_somebody_waits(tl: Threadline) -> None:
    await tl.conversations.ensure(ROOM)
    bell = tl.store.bell(everything=True)
    for n in range(5):
        await tl.inbound.receive(said(str(n), f"m{n}"))

    assert len(await bell.wait(60.0)) == 1
    bell.close()


async def _numbers(tl: Threadline) -> list[int]:
    from threadline.core.ids import number_of

    states, _ = await tl.conversations.page()
    return [number for state in states if (number := number_of(state.id)) is not None]
