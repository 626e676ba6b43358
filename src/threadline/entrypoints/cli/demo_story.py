"""`threadline demo --script`: real conversations, and the story of the ledger, in the terminal.

Every figure that is printed was counted in this run. Nothing sleeps; nothing is simulated but the
people who talk.
"""

from __future__ import annotations

import asyncio
import itertools
import shlex
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from threadline import Actor, CaughtUp, ConversationRef, Gap, Handed, InboundMessage, Threadline
from threadline.core.errors import ConfigError
from threadline.core.model import Kind
from threadline.entrypoints.cli import demo_kill
from threadline.entrypoints.cli.demo import exports_of_the_checkout
from threadline.entrypoints.cli.demo_house import at_home
from threadline.entrypoints.cli.demo_import import import_all, show_table
from threadline.entrypoints.cli.demo_steps import Steps
from threadline.entrypoints.cli.demo_tools import Tools
from threadline.entrypoints.cli.demo_writing import Initiative
from threadline.flows.conversations import State

ADA = Actor("U1", "Ada")
BEN = Actor("U2", "Ben")
SUPPORT = "web/demo/support"
LAUNCH = "web/demo/launch"
PACE = "web/demo/pace"
STEPS = {
    "explicit": "named by @handle",
    "last_addressed": "last addressed",
    "none": "nobody was named yet",
}


def tell(folder: Path | None = None, exports: Path | None = None) -> int:
    """Tell the story on a fresh store in `folder` (a temporary one where it is None).

    `exports` is a folder of export files; the checkout's own, else a small sample, where it is
    None. Returns 0, or 1 where a promise was not kept. Raises `ConfigError` where the folder
    already holds a store.
    """
    console = Console(highlight=False)
    home = folder or Path(tempfile.mkdtemp(prefix="threadline-demo-"))
    home.mkdir(parents=True, exist_ok=True)
    store = home / "threadline.db"
    if store.exists():
        raise ConfigError(f"{store} exists already: the demo wants a fresh folder.")
    began = time.monotonic()
    tale = Tale(console, f"sqlite:{store}", exports or exports_of_the_checkout())
    good = asyncio.run(tale.tell())
    took = time.monotonic() - began
    console.print()
    if good:
        console.print(f"All of this took {took:.1f} s, on one SQLite file: {store}", style="bold")
    else:
        console.print("A promise was not kept; see above.", style="bold red")
    _what_next(console, home, tale.room)
    return 0 if good else 1


def _what_next(console: Console, home: Path, room: str) -> None:
    command = "threadline"
    if shutil.which(command) is None:
        beside = Path(sys.executable).with_name(command)
        here = Path.cwd()
        command = str(beside.relative_to(here) if beside.is_relative_to(here) else beside)
    lines = [
        f"export THREADLINE_HOME={shlex.quote(str(home))}",
        f"{command} conversations",
        f"{command} search ubuntu",
        f"{command} history {shlex.quote(room)}",
        f"{command} join {shlex.quote(room)} me --policy last_n -n 5",
        f"{command} tail me --once",
        f'{command} append {shlex.quote(room)} "Hello, everybody" --from Ada',
        f"{command} --help",
    ]
    console.print("\nWhat to try next (the store stays until you delete its folder):\n")
    for line in lines:
        console.print(f"  {line}", style="cyan", markup=False, soft_wrap=True)
    console.print()


@dataclass(slots=True)
class Tale(Steps):
    """The story, step by step, on one store."""

    url: str
    exports: Path
    room: str = ""

    async def tell(self) -> bool:
        """All of it. Answers whether every promise was kept."""
        async with Threadline.open(self.url) as tl:
            await self._import(tl)
            kept = [
                await self._readers(tl),
                await self._speaker(tl),
                await self._duplicate(tl),
                await self._gate(tl),
            ]
            before = await _census(tl)
        kept += [await self._kill(before), await self._on_its_own()]
        return all(kept)

    async def _import(self, tl: Threadline) -> None:
        self.title(
            "Conversations that already exist",
            f"Importing every export in {_short(self.exports)}. Each room and each thread",
            "becomes a conversation: one durable transcript, numbered 1, 2, 3 … without a gap.",
        )
        haul = await import_all(tl, self.exports, self.console)
        show_table(haul, self.console)
        self.console.print(
            "A record is a message, an edit, a delete, a reaction, or a line such as “Ada joined”.",
            style="dim",
        )
        self.room = str((await _busiest(tl)).ref)

    async def _readers(self, tl: Threadline) -> bool:
        room = self.room
        before = await tl.conversations.show(room)
        self.title(
            "One room, three readers, each by its own policy",
            f"The room is {_inert(before.title)!r} ({room}), {before.head:,} records long.",
            "A session is an agent's seat. `archivist` joins with policy all, `helper` with",
            "since_join. Then Ada and Ben say three things, and `latecomer` joins with last_n,",
            "n = 5.",
        )
        await tl.members.join(room, "archivist", policy="all")
        await tl.members.join(room, "helper", policy="since_join")
        for number, (who, text) in enumerate(
            [(ADA, "Good morning!"), (BEN, "The build is red."), (ADA, "I have a look.")], 1
        ):
            await tl.inbound.receive(_said(room, who, text, f"demo-{number}"))
        await tl.members.join(room, "latecomer", policy="last_n", n=5)
        table = Table(
            "session", "policy", "reads", "from", "first", header_style="bold", box=SIMPLE_HEAD
        )
        counts: dict[str, int] = {}
        for name, policy in (
            ("archivist", "all"),
            ("helper", "since_join"),
            ("latecomer", "last_n 5"),
        ):
            handed = await _read(tl, name, room)
            counts[name] = len(handed)
            first = handed[0].record
            table.add_row(
                name,
                policy,
                f"{len(handed):,}",
                f"{first.sequence}",
                Text(f"{_inert(first.actor.name, 12)}: {_inert(first.text, 22)}"),
            )
        self.console.print(table)
        head = before.head + 3
        await tl.replay.ack(room, "archivist", head)
        again = len(await _read(tl, "archivist", room))
        self.console.print(
            f"`archivist` acknowledges up to {head:,} and asks again: {again} records."
        )
        return self.verdict(
            counts == {"archivist": head, "helper": 3, "latecomer": min(5, head)} and again == 0,
            "each reader got exactly the slice its policy allows, each record once",
        )

    async def _speaker(self, tl: Threadline) -> bool:
        self.title(
            "Who speaks is not who reads",
            "In a new room `coder` and `guide` have handles; `watcher` is a member without one.",
        )
        await tl.conversations.ensure(SUPPORT, title="Support")
        await tl.speakers.participant(SUPPORT, "coder", "coder")
        await tl.speakers.participant(SUPPORT, "guide", "guide")
        await tl.members.join(SUPPORT, "watcher")
        table = Table("said", "speaker", "why", header_style="bold", box=SIMPLE_HEAD)
        chosen = []
        for number, text in enumerate(
            [
                "Is anybody here?",
                "@coder the build is red",
                "since this morning, I think",
                "@guide where is the manual?",
                "thanks, and which page?",
            ],
            1,
        ):
            taken = await tl.inbound.receive(_said(SUPPORT, ADA, text, f"support-{number}"))
            chosen.append(taken.target_session_id)
            route = taken.route or ""
            table.add_row(text, taken.target_session_id or "nobody", STEPS.get(route, route))
        self.console.print(table)
        read = {name: len(await _read(tl, name, SUPPORT)) for name in ("coder", "guide", "watcher")}
        self.console.print(
            "Read by " + ", ".join(f"{name}: {count} of 5" for name, count in read.items()) + "."
        )
        return self.verdict(
            chosen == [None, "coder", "coder", "guide", "guide"] and set(read.values()) == {5},
            "at most one speaker per message, chosen when it was stored; everybody reads it all",
        )

    async def _duplicate(self, tl: Threadline) -> bool:
        self.title(
            "Platforms deliver twice",
            "The message with the id support-2 comes once more, as after a lost answer.",
        )
        before = (await tl.conversations.show(SUPPORT)).head
        taken = await tl.inbound.receive(
            _said(SUPPORT, ADA, "@coder the build is red", "support-2")
        )
        after = (await tl.conversations.show(SUPPORT)).head
        self.console.print(
            f"Answer: {'a duplicate' if taken.duplicate else 'new'}, record {taken.sequence}; the "
            f"newest record was {before} and is {after}."
        )
        return self.verdict(
            taken.duplicate and taken.sequence == 2 and before == after,
            "one record per message id, for ever",
        )

    async def _gate(self, tl: Threadline) -> bool:
        self.title(
            "History first, even while people talk",
            "A gated import is open in a new room. Two live messages come in the middle of it.",
        )
        await tl.conversations.ensure(LAUNCH, title="Launch")
        window = await tl.hydration.begin(LAUNCH, owner="demo", mode="gated")
        token = window.token or ""
        await tl.hydration.records(LAUNCH, token, _old(1, 2))
        live = [
            await tl.inbound.receive(_said(LAUNCH, BEN, f"live {n}", f"live-{n}")) for n in (1, 2)
        ]
        held = (await tl.conversations.show(LAUNCH)).held
        await tl.hydration.records(LAUNCH, token, _old(3, 4))
        self.console.print(f"While the import is open: {held} live messages held.")
        await tl.hydration.complete(LAUNCH, token)
        page = await tl.conversations.transcript(LAUNCH)
        texts = [record.text for record in page.records]
        self.console.print("After it closed:")
        for record in page.records:
            self.console.print(f"  {record.sequence}  {record.provenance.value:<8}  {record.text}")
        wanted = ["old 1", "old 2", "old 3", "old 4", "live 1", "live 2"]
        return self.verdict(
            all(one.held for one in live) and texts == wanted,
            "what waited was appended behind the history, in the order it came",
        )

    async def _kill(self, before: dict[str, int]) -> bool:
        self.title(
            "kill -9",
            f"Another process opens the same store and appends, {demo_kill.IN_FLIGHT} at a time.",
            f"It prints a number once that is committed. After {demo_kill.ENOUGH} numbers it gets",
            "SIGKILL in the middle of its work.",
        )
        killed = await asyncio.to_thread(demo_kill.append_until_killed, self.url, PACE)
        async with Threadline.open(self.url) as tl:
            found = await demo_kill.look(tl, PACE, killed)
            self.console.print(
                f"Acknowledged before it died: {len(killed.acknowledged)} "
                f"(ended by signal {killed.signal})."
            )
            self.console.print(
                f"In the reopened store: {found.stored}, {found.beyond} of them committed but not "
                "yet acknowledged."
            )
            waiting = killed.unanswered()
            again = [
                await tl.inbound.receive(demo_kill.message(PACE, number)) for number in waiting
            ]
            known = sum(one.duplicate for one in again)
            self.console.print(
                f"Its sender repeats the {len(waiting)} that got no answer: {known} are known, "
                f"{len(again) - known} are new."
            )
            whole = await demo_kill.look(tl, PACE, killed)
            after = {ref: head for ref, head in (await _census(tl)).items() if ref != PACE}
        kept = self.verdict(
            found.good and whole.good and known == found.beyond,
            f"{len(killed.acknowledged) - len(found.lost)} of {len(killed.acknowledged)} "
            f"acknowledged are there, {len(whole.doubled)} of {whole.stored} records twice, no gap",
        )
        return (
            self.verdict(
                after == before,
                f"all {len(before):,} conversations from before are as they were "
                f"({sum(before.values()):,} records: the imported, what was said since, and the "
                "copy of its root that a thread begins with)",
            )
            and kept
        )

    async def _on_its_own(self) -> bool:
        """In the web chat, where people are alone with us."""
        async with at_home(self.url) as house:
            ada, ben = [Guest(house.line, who) for who in (ADA, BEN)]
            for one in (ada, ben):
                await house.line.conversations.ensure(one.ref)
            return all(
                [
                    await Initiative(self, house, ada).told(),
                    await Tools(self, house, ben, ada).told(),
                ]
            )


class Guest:
    """Somebody on our own page, in a chat of their own."""

    account = ("web", "demo")
    judge = "the page"

    def __init__(self, line: Threadline, who: Actor) -> None:
        self._line = line
        self._who = who
        self._numbers = itertools.count(1)
        self.name = who.name
        self.ref = ConversationRef(*self.account, f"chat-{who.name.lower()}", kind=Kind.DM)
        self.to = str(self.ref)

    async def says(self, text: str) -> None:
        """See `demo_house.Somebody.says`."""
        number = f"{self.name}-{next(self._numbers)}"
        await self._line.inbound.receive(
            InboundMessage(conversation=self.ref, actor=self._who, text=text, message_id=number)
        )

    async def said(self) -> list[str]:
        """See `demo_house.Somebody.said`."""
        page = await self._line.conversations.transcript(self.ref, limit=500)
        return [one.text for one in page.records if one.source_session_id]

    async def move(self, **by: float) -> None:
        """The page goes by the clock of the ledger."""


def _said(room: str, who: Actor, text: str, message_id: str) -> InboundMessage:
    return InboundMessage(
        conversation=ConversationRef.parse(room), actor=who, text=text, message_id=message_id
    )


def _old(first: int, last: int) -> list[InboundMessage]:
    return [_said(LAUNCH, ADA, f"old {n}", f"old-{n}") for n in range(first, last + 1)]


async def _read(tl: Threadline, session: str, room: str) -> list[Handed]:
    """Everything the session may read in the room and has not acknowledged."""
    found: list[Handed] = []
    async for item in tl.replay.follow(session, conversation=room, once=True):
        match item:
            case Handed():
                found.append(item)
            case CaughtUp() | Gap():
                continue
    return found


async def _states(tl: Threadline) -> list[State]:
    found: list[State] = []
    after: str | None = ""
    while after is not None:
        page, after = await tl.conversations.page(after=after, limit=500)
        found += page
    return found


async def _census(tl: Threadline) -> dict[str, int]:
    """Every conversation and its head."""
    return {str(state.ref): state.head for state in await _states(tl)}


async def _busiest(tl: Threadline) -> State:
    """The longest Slack room, else the longest room of any kind."""
    states = [state for state in await _states(tl) if state.kind is Kind.ROOM]
    if not states:
        raise ConfigError("there is no room in these exports.")
    return max(states, key=lambda state: (state.ref.provider == "slack", state.head))


def _inert(text: str, width: int = 44) -> str:
    """Outside text on one line: nothing in it reaches the terminal as a command."""
    line = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(line.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
