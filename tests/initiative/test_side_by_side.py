"""What is due is worked on side by side: a platform that does not answer delays nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.initiative.conftest import heard, transcript
from tests.initiative.test_channels import HUMAN, Both, both, discord, record_of
from threadline import Threadline
from threadline.adapters.discord import Discord
from threadline.app import Reach
from threadline.core.adapters import Account, Adapter
from threadline.core.errors import NoAdapter
from threadline.core.files import Bounds
from threadline.core.sends import SendState
from threadline.core.wire import ApiCall, ApiResponse
from threadline.flows.uploads import RecordFile
from threadline.testing.clock import StillClock

__all__ = ["both", "discord"]
OPENING = "POST direct"
TURNS = Discord.opens_at_once


@asynccontextmanager
async def working(both: Both) -> AsyncIterator[None]:
    """Both workers, until the end of the block."""
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(both.line.initiative.run(stopping))
        group.create_task(both.line.outbox.run(stopping))
        try:
            yield
        finally:
            stopping.set()


async def met_on_discord(both: Both, name: str) -> tuple[str, str]:
    """Somebody else there who may be written to first, and their conversation."""
    dm = both.discord.do("dm", user=f"{name} of {both.user}")
    person = await both.line.people.make(name)
    await both.line.people.change(
        person.id, contacts=[f"discord:{dm['recipients'][0]['id']}"], verified=True, caller=HUMAN
    )
    await both.line.consents.set("on", person=person.id, about="discord", caller=HUMAN)
    return f"person:{person.id}", dm["id"]


@pytest.mark.acceptance("H10")
async def test_a_platform_that_does_not_answer_delays_nobody_who_is_reached_elsewhere(
    both: Both, clock: StillClock
) -> None:
    """More are due there than it is asked for at once, all before the one elsewhere."""
    at = clock() + timedelta(hours=1)
    hung = []
    for number in range(TURNS + 2):
        to, place = await met_on_discord(both, f"hung {number}")
        hung.append((await both.line.initiative.send("agent", to, "there", at=at), place))
    other = await both.line.initiative.send(
        "agent", both.to, "here", via="telegram", at=at + timedelta(seconds=1)
    )
    asked = len(both.discord.calls(OPENING))
    both.discord.fault("slow", on=OPENING, times=TURNS)
    clock.move(hours=1, minutes=1)
    async with working(both):
        done = await both.line.initiative.settled(other)
        assert done.state is SendState.DELIVERED
        waiting = [(await both.line.initiative.show(one.id)).state for one, _ in hung]
        assert waiting == [SendState.SCHEDULED] * len(hung)
        assert len(both.discord.calls(OPENING, at_least=asked + TURNS)) == asked + TURNS
        await asyncio.to_thread(both.discord.release)
        for one, place in hung:
            assert (await both.line.initiative.settled(one)).state is SendState.DELIVERED
            assert [one["text"] for one in both.discord.effects("message", place=place)] == [
                "there"
            ]


@pytest.mark.acceptance("H10")
async def test_what_is_due_to_one_recipient_leaves_in_its_order(
    both: Both, clock: StillClock
) -> None:
    """Also where the first one's opening hangs, and what was due later could be opened at once."""
    at = clock() + timedelta(hours=1)
    sends = [
        await both.line.initiative.send(
            "agent", both.to, f"{number}", via="discord", at=at + timedelta(seconds=number)
        )
        for number in range(4)
    ]
    asked = len(both.discord.calls(OPENING))
    both.discord.fault("slow", on=OPENING)
    clock.move(hours=1, minutes=1)
    async with working(both):
        await asyncio.to_thread(both.discord.calls, OPENING, at_least=asked + 1)
        await asyncio.to_thread(both.discord.release)
        for one in sends:
            assert (await both.line.initiative.settled(one)).state is SendState.DELIVERED
    assert both.seen() == ["0", "1", "2", "3"]


@pytest.mark.acceptance("H10")
async def test_what_cannot_be_opened_is_asked_for_once_and_overtaken_by_nothing(
    both: Both, clock: StillClock
) -> None:
    """Many are due to one recipient; what goes another way waits for none of them."""
    at = clock() + timedelta(hours=1)
    sends = [
        await both.line.initiative.send(
            "agent", both.to, f"{number}", via="discord", at=at + timedelta(seconds=number)
        )
        for number in range(4)
    ]
    other = await both.line.initiative.send(
        "agent", both.to, "here", via="telegram", at=at + timedelta(seconds=9)
    )
    asked = len(both.discord.calls(OPENING))
    both.discord.fault("status", status=503, on=OPENING)
    clock.move(hours=1, minutes=1)

    await both.ended(other)

    assert (await both.line.initiative.show(other.id)).state is SendState.DELIVERED
    states = [(await both.line.initiative.show(one.id)).state for one in sends]
    assert states == [SendState.SCHEDULED] * len(sends)
    assert len(both.discord.calls(OPENING)) == asked + 1
    clock.move(minutes=1)
    await both.ended(sends[-1])
    assert both.seen() == ["0", "1", "2", "3"]


class Odd(Discord):
    """A dialect of somebody's own that is not as total as a dialect has to be."""

    def read_direct(self, address: str, call: ApiCall, answer: ApiResponse) -> Any:
        """What nobody thought of."""
        raise KeyError("id")


class OddReach(Reach):
    """Reaches Discord by it."""

    def dialect(self, account: Account) -> Adapter | None:
        """See `core.adapters.Channels.dialect`."""
        return Odd(account) if account.provider == "discord" else super().dialect(account)


@pytest.mark.acceptance("H10")
async def test_a_dialect_that_fails_over_an_answer_stops_nobody_elses_and_is_asked_again_later(
    both: Both, clock: StillClock
) -> None:
    """What it failed over is still due, so nothing is lost; a send of now is told so."""
    at = clock() + timedelta(hours=1)
    line = Threadline(both.line.store, channels=OddReach(allow_private=True))
    odd = await line.initiative.send("agent", both.to, "there", via="discord", at=at)
    other = await line.initiative.send(
        "agent", both.to, "here", via="telegram", at=at + timedelta(seconds=1)
    )
    asked = len(both.discord.calls(OPENING))
    clock.move(hours=1, minutes=1)
    try:
        for _ in range(3):
            await line.initiative.round()
            await line.outbox.round()
        with pytest.raises(NoAdapter, match="could not be read"):
            await line.initiative.send("agent", both.to, "now", via="discord")
    finally:
        await line.outbox.close()

    assert (await both.line.initiative.show(other.id)).state is SendState.DELIVERED
    assert (await both.line.initiative.show(odd.id)).state is SendState.SCHEDULED
    assert len(both.discord.calls(OPENING)) == asked + 2
    clock.move(minutes=1)
    await both.ended(odd)
    assert both.seen() == ["there"]


@pytest.mark.acceptance("H10")
async def test_a_file_that_cannot_be_copied_for_now_waits_and_stops_nobody_elses(
    both: Both, clock: StillClock, tmp_path: Path
) -> None:
    """Its copy is made when it is due, and there is no room on the disk then."""
    part = await record_of(both)
    at = clock() + timedelta(hours=1)
    first = await both.line.initiative.send(
        "agent", both.to, "again", attachments=[part], via="discord", at=at
    )
    other = await both.line.initiative.send(
        "agent", f"telegram:{both.user}", "here", at=at + timedelta(seconds=1)
    )
    clock.move(hours=1, minutes=1)
    files = tmp_path / "files"
    files.rename(tmp_path / "aside")
    files.write_bytes(b"no folder")

    await both.ended(other)

    assert (await both.line.initiative.show(other.id)).state is SendState.DELIVERED
    assert (await both.line.initiative.show(first.id)).state is SendState.SCHEDULED
    files.unlink()
    (tmp_path / "aside").rename(files)
    clock.move(minutes=1)
    assert (await both.ended(first)).state is SendState.DELIVERED
    assert both.seen() == ["again"]


@pytest.mark.acceptance("H10")
async def test_a_file_there_is_no_room_for_when_it_is_due_waits_for_room(
    both: Both, clock: StillClock, tmp_path: Path
) -> None:
    """What was given to us leaves in a day, and other files may be taken in then."""
    both.telegram.do("give", chat=both.user, content="inside", name="a.txt")
    await heard(both.line, both.telegram)
    where = f"telegram/7001/{both.user}"
    await both.line.speakers.bind(where, "agent", policy="all")
    sequence = (await transcript(both.line, where))[-1].sequence
    at = clock() + timedelta(hours=1)
    sent = await both.line.initiative.send(
        "agent",
        both.to,
        "again",
        attachments=[RecordFile(conversation=where, sequence=sequence)],
        via="discord",
        at=at,
    )
    clock.move(hours=1, minutes=1)
    full = Threadline(
        both.line.store, allow_private=True, files=Bounds(given=1, folder=str(tmp_path / "files"))
    )
    await full.initiative.round()
    assert (await full.initiative.show(sent.id)).state is SendState.SCHEDULED

    clock.move(minutes=1)
    assert (await both.ended(sent)).state is SendState.DELIVERED
    assert both.seen() == ["again"]
