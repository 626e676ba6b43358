"""Small stories to try a store with, and messages in plain rooms."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from threadline.core.model import Actor, ConversationRef, InboundMessage, Kind
from threadline.core.ports import (
    ADDRESS,
    NAME,
    RECORDS_AFTER,
    Changes,
    Loaded,
    Needs,
    Page,
    Story,
)
from threadline.flows.inbound import Append
from threadline.stores.postgres import open_postgres

ADA = Actor("U1", "Ada")


def room(name: str) -> ConversationRef:
    """A room by its name."""
    return ConversationRef("slack", "T1", name, kind=Kind.ROOM)


def said(where: str, text: str, *, identified: bool = True) -> Append:
    """Somebody says something in a room; its text is its id too."""
    return Append(
        InboundMessage(
            conversation=room(where),
            text=text,
            actor=ADA,
            message_id=text if identified else None,
        )
    )


@dataclass(frozen=True, slots=True)
class Claim(Story[str]):
    """Write a name without looking whether it is taken: what a race between nodes looks like."""

    name: str
    kept: bool = True

    @property
    def payload(self) -> Any:
        return {"name": self.name} if self.kept else None

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, str]:
        changes = Changes()
        changes.sessions.add(7)
        changes.put(NAME, ("default", self.name), 7)
        return changes, self.name


@dataclass(frozen=True, slots=True)
class Time(Story[datetime]):
    """What time it is for a story."""

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, datetime]:
        return Changes(), now


@dataclass(frozen=True, slots=True)
class Transcript(Story[list[tuple[int, str]]]):
    """All that was said in a room: sequence and text."""

    where: str

    def needs(self) -> Needs:
        return Needs(rows=[(ADDRESS, room(self.where).text)])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[tuple[int, str]]]:
        number = loaded.get(ADDRESS, room(self.where).text)
        if number is None:
            return Changes(), []
        records = loaded.page(Page(RECORDS_AFTER, (number, 0, 1 << 62, 0, 0, 10_000)))
        return Changes(), [(record.sequence, record.text) for record in records]


async def append_as_told() -> None:
    """A node in a process of its own: says `ready`, waits for a line, appends all at once."""
    url, key, name, first, last = sys.argv[1:]
    node = await open_postgres(url, bytes.fromhex(key))
    print("ready", flush=True)
    sys.stdin.readline()
    numbers = range(int(first), int(last))
    answers = await asyncio.gather(*(node.run(said(name, f"m{n}")) for n in numbers))
    print(json.dumps([answer.sequence for answer in answers]), flush=True)
    await node.close()


if __name__ == "__main__":
    asyncio.run(append_as_told())
