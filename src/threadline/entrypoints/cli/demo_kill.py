"""The part of the demo that kills: a child process appends until it is shot, then the file is read.

`python -m threadline.entrypoints.cli.demo_kill URL ROOM` is the child. It prints a number only
after the append of that number was committed, and never stops by itself.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass

from threadline import Actor, ConversationRef, InboundMessage, Threadline
from threadline.core.errors import StoreUnavailable

ENOUGH = 250
IN_FLIGHT = 8
PACE = Actor("U9", "Pace")


@dataclass(frozen=True, slots=True)
class Killed:
    """What the child said it had appended, and how it ended."""

    acknowledged: list[int]
    signal: int

    def unanswered(self) -> list[int]:
        """The numbers that may have been on their way when it died."""
        known = set(self.acknowledged)
        return [n for n in range(1, max(known) + IN_FLIGHT + 1) if n not in known]


@dataclass(frozen=True, slots=True)
class Found:
    """What the reopened store holds."""

    stored: int
    lost: list[int]
    doubled: list[int]
    beyond: int
    dense: bool

    @property
    def good(self) -> bool:
        """Whether every promise was kept."""
        return self.dense and not self.lost and not self.doubled


def message(room: str, number: int) -> InboundMessage:
    """The child's message of this number."""
    return InboundMessage(
        conversation=ConversationRef.parse(room),
        actor=PACE,
        text=str(number),
        message_id=f"pace-{number}",
    )


def append_until_killed(url: str, room: str, enough: int = ENOUGH) -> Killed:
    """Start the child, wait for `enough` acknowledgements, send it SIGKILL, read what is left."""
    command = [sys.executable, "-m", "threadline.entrypoints.cli.demo_kill", url, room]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        acknowledged: list[int] = []
        for line in child.stdout:
            acknowledged.append(int(line))
            if len(acknowledged) == enough:
                child.send_signal(signal.SIGKILL)
                break
        # What was acknowledged between the decision and the death counts too; a torn line does not.
        rest = child.stdout.read().split(b"\n")[:-1]
        acknowledged += [int(line) for line in rest]
        complaint = child.stderr.read().decode(errors="replace").strip()
        ended = child.wait()
    if ended != -signal.SIGKILL:
        raise StoreUnavailable(f"the appending process ended by itself ({ended}): {complaint}")
    return Killed(acknowledged, -ended)


async def look(tl: Threadline, room: str, killed: Killed) -> Found:
    """Read the whole room and compare it with what was acknowledged."""
    records = []
    after: int | None = None
    while True:
        page = await tl.conversations.transcript(room, after=after, limit=500)
        records += page.records
        if page.next is None:
            break
        after = page.next
    seen = Counter(int(record.text) for record in records)
    return Found(
        stored=len(records),
        lost=[number for number in killed.acknowledged if not seen[number]],
        doubled=[number for number, times in seen.items() if times > 1],
        beyond=len(set(seen) - set(killed.acknowledged)),
        dense=[record.sequence for record in records] == list(range(1, len(records) + 1)),
    )


async def _append_for_ever(url: str, room: str) -> None:
    async with Threadline.open(url, indexing=False) as tl:
        numbers = itertools.count(1)

        async def append() -> None:
            for number in numbers:
                await tl.inbound.receive(message(room, number))
                sys.stdout.write(f"{number}\n")
                sys.stdout.flush()

        await asyncio.gather(*(append() for _ in range(IN_FLIGHT)))


if __name__ == "__main__":
    asyncio.run(_append_for_ever(sys.argv[1], sys.argv[2]))
