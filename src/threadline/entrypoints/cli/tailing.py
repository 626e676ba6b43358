"""`threadline tail`: a session's unread records, and then what is said next.

On PostgreSQL it is the library's own loop. A SQLite file belongs to one process at a time, so there
the file is let go of between two looks: an `append` in the next terminal gets in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadline.entrypoints.cli.door import (
    BUSY_PATIENCE,
    Line,
    enter,
    leave,
    settings_of,
    sqlite_file,
)
from threadline.entrypoints.cli.options import Home, Scope, Session, Store
from threadline.entrypoints.cli.shown import aside, console, say, transcript, write_json
from threadline.entrypoints.shapes import plain, record_of

if TYPE_CHECKING:
    from threadline.config import Settings
    from threadline.flows.members import Member

LOOK = 0.4
LOOK_PATIENCE = 60.0


def tail(
    session: Session,
    ref: Annotated[
        str | None,
        typer.Argument(
            metavar="REF", show_default=False, help="One conversation; left out, all it is in."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when there is nothing more to read.")
    ] = False,
    own: Annotated[bool, typer.Option("--own", help="Also what the session itself said.")] = False,
    acknowledge: Annotated[
        bool, typer.Option("--ack", help="Acknowledge each record once it is printed.")
    ] = False,
    scope: Scope = None,
    home: Home = None,
    store: Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Print what a session has not read yet, then follow what is said.

    Without --ack nothing is acknowledged, so the same comes again next time. Ctrl-C ends it.

      threadline tail helper
      threadline tail helper slack/T1/C9 --once --ack
      threadline tail helper --json
    """

    async def work() -> int:
        settings = settings_of(store, scope, home)
        tail = Tail(session, ref, own, acknowledge, as_json)
        following = once or sqlite_file(settings.url) is None
        if following:
            async with AsyncExitStack() as stack:
                tl = await enter(stack, settings)
                await tail.read(Line(tl, settings), once=once)
        else:
            await tail.look_again_and_again(settings)
        return 0

    leave(lambda: asyncio.run(work()), as_json=as_json)


@dataclass(slots=True)
class Tail:
    """What one run of the command has printed."""

    session: str
    ref: str | None
    own: bool
    acknowledge: bool
    as_json: bool
    place: str = ""
    seen: dict[str, int] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)
    caught_up: set[str] = field(default_factory=set)

    async def read(self, line: Line, *, once: bool, only: str | None = None) -> None:
        """Print until dry, or for ever."""
        from threadline.flows.replay import CaughtUp, Gap, Handed

        ref = only or self.ref
        where, caller = (None, line.caller) if ref is None else line.where(ref)
        items: AsyncIterator[Handed | CaughtUp | Gap] = line.tl.replay.follow(
            self.session, conversation=where, own=self.own, once=once, caller=caller
        )
        async for item in items:
            match item:
                case Handed(conversation, _, record):
                    if record.sequence <= self.seen.get(conversation, record.sequence - 1):
                        continue
                    self.seen[conversation] = record.sequence
                    self._print(item)
                    if self.acknowledge:
                        await line.tl.replay.ack(
                            conversation, self.session, record.sequence, caller=caller
                        )
                case CaughtUp(conversation):
                    if conversation not in self.caught_up:
                        self.caught_up.add(conversation)
                        self._note("caught_up", item)
                case Gap():
                    self._note("gap", item)

    async def look_again_and_again(self, settings: Settings) -> None:
        """Open the file, print what is new, let go of it, wait."""
        from threadline.core.errors import HydrationPending

        patience = BUSY_PATIENCE
        while True:
            async with AsyncExitStack() as stack:
                # The first look fails soon where somebody else holds the file for good.
                tl = await enter(stack, settings, patience=patience)
                patience = LOOK_PATIENCE
                line = Line(tl, settings)
                for member in await self._rung(line):
                    try:
                        await self.read(line, once=True, only=member.conversation)
                    except HydrationPending:
                        # An import hides the conversation; the next look asks again.
                        continue
                    self.heads[member.conversation] = member.head
            await asyncio.sleep(LOOK)

    async def _rung(self, line: Line) -> list[Member]:
        """Where something is new since the last look."""
        if self.ref is not None:
            where, caller = line.where(self.ref)
            members = [await line.tl.members.show(where, self.session, caller=caller)]
        else:
            members = []
            after: int | None = -1
            while after is not None:
                page, after = await line.tl.members.conversations_of(
                    self.session, after=after, limit=500, caller=line.caller
                )
                members += page
        return [one for one in members if self.heads.get(one.conversation) != one.head]

    def _print(self, item: Any) -> None:
        if self.as_json:
            said = {"event": "record", **plain(item), "record": record_of(item.record)}
            write_json(said, line=True)
            return
        if self.place != item.conversation:
            self.place = item.conversation
            say(str(item.ref), "bold")
        console().print(transcript([item.record]))

    def _note(self, event: str, item: Any) -> None:
        if self.as_json:
            write_json({"event": event, **plain(item)}, line=True)
        elif event == "gap":
            say(f"(records {item.first} to {item.last} were removed by retention)", "dim")
        else:
            aside().print(f"{item.ref}: nothing more for now", style="dim")
