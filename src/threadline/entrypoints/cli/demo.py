"""`threadline demo`: a server on a store of its own, real conversations, three agents attached.

This process only looks after the others: the server and each agent are programs of their own, and
whatever of them dies is started again. What they promised stands in the store.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from threadline import Actor, ConversationRef, Threadline
from threadline.core.errors import ConfigError, ThreadlineError
from threadline.core.model import Controller, Direction, Event, InboundMessage, Kind
from threadline.entrypoints.cli.demo_agents import ARCHIVE, HOW_TO_ASK, MINUTES, REMINDER
from threadline.entrypoints.cli.demo_import import import_all, show_table
from threadline.entrypoints.cli.door import complain
from threadline.entrypoints.cli.serving import keep_secret

HERE = Path(__file__).parent
SAMPLE = HERE / "sample"
ROOM = "web/demo/lobby"
TITLE = "The lobby"
# Where a person is alone with the agent that writes first.
CHAT = ConversationRef("web", "demo", "reminders", kind=Kind.DM)
CHAT_TITLE = "You and @reminder"
FACTS = "demo.json"
FACTS_HELD = {"room", "link", "alone"}
GUIDE = Actor("guide", "Guide", is_bot=True)
AGENTS = (ARCHIVE, MINUTES, REMINDER)
GOODBYE_SECONDS = 12.0
# Something that dies this often so soon after its start would do so for ever.
SOON_SECONDS = 3.0
DEATHS = 5
TOUR = (
    "Welcome. Two agents are in this room, a third has a chat with you alone: the terminal shows "
    "its link. Each is a program of its own. Try these:",
    "1. “@archive ubuntu upgrade”: it looks through the conversations that were imported.",
    "2. “We decided to ship on Friday.” and then “@minutes please”: it read along all the time.",
    "3. In the other chat, “in 20 seconds: look at the oven”: @reminder writes first when the time "
    "has come, also where it was killed meanwhile. Answer “yes, do it”; then plan another one and "
    "say “stop”: nothing more comes.",
    "4. Open this link in a second window under another name: who joins late reads what was said.",
    "5. Kill the server in the middle of it all (the terminal shows how), and write on: your words "
    "wait in the page and arrive once. Kill an agent as well: it goes on where it stopped.",
)


def exports_of_the_checkout() -> Path:
    """The exports of the checkout this runs from, else the sample that is shipped."""
    found = HERE.parents[3] / "tests" / "data" / "exports"
    return found if found.is_dir() else SAMPLE


@dataclass(slots=True)
class Kept:
    """A program that is started again when it ends."""

    name: str
    command: Sequence[str]
    environment: dict[str, str]
    process: asyncio.subprocess.Process | None = None
    deaths: list[float] = field(default_factory=list)
    complaining: asyncio.Task[None] | None = None

    async def start(self) -> asyncio.subprocess.Process:
        """Start it. Its complaints go where ours go, and in words."""
        self.process = await asyncio.create_subprocess_exec(
            *self.command,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stderr is not None
        self.complaining = asyncio.create_task(_complain(self.process.stderr))
        return self.process

    async def started(self) -> str:
        """Start a server; where it listens. Ends the program where it does not: it said why."""
        process = await self.start()
        assert process.stdout is not None
        assert self.complaining is not None
        line = await process.stdout.readline()
        if not line:
            await self.complaining
            raise typer.Exit(await process.wait())
        url: str = json.loads(line)["url"]
        # From now on on this port, whoever asked for any.
        self.command = [*list(self.command)[:-1], url.rpartition(":")[2]]
        return url

    async def stop(self) -> None:
        """Ask it to end, and wait; in the end it is made to."""
        process = self.process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _complain(said: asyncio.StreamReader) -> None:
    """Hand on what a program says is wrong; a refusal for programs as one for people."""
    while not said.at_eof():
        try:
            line = (await said.readline()).decode(errors="replace")
        except ValueError:
            # Longer than anybody reads.
            continue
        try:
            error = json.loads(line)["error"]
            complain(error["code"], error["message"], error.get("advice", ""), {}, as_json=False)
        except (ValueError, TypeError, KeyError):
            sys.stderr.write(line)


async def _guided(tl: Threadline, place: ConversationRef, text: str) -> None:
    """The guide says something that wakes nobody."""
    await tl.inbound.append(
        InboundMessage(
            conversation=place,
            actor=GUIDE,
            text=text,
            event=Event.NOTICE,
            direction=Direction.OUTBOUND,
        )
    )


class Demo:
    """The demo in one folder."""

    def __init__(self, folder: Path, exports: Path, port: int, console: Console) -> None:
        self._folder = folder
        self._exports = exports
        self._port = port
        self._console = console
        self._facts: dict[str, Any] = {}
        self._url = ""

    @property
    def _store(self) -> Path:
        return self._folder / "threadline.db"

    async def prepare(self) -> None:
        """Fill the store where it is new; go on with what is there otherwise.

        Raises `ConfigError` where the folder holds a store that no demo made, or another version's.
        """
        facts = self._folder / FACTS
        if facts.exists():
            self._facts = json.loads(facts.read_text("utf-8"))
            if set(self._facts) != FACTS_HELD:
                raise ConfigError(
                    f"the demo in {self._folder} is of another version: delete that folder, or "
                    "name another one with --folder."
                )
            self._console.print(f"Going on with the demo in {self._folder}.")
            return
        if self._store.exists():
            raise ConfigError(f"{self._store} is no demo's: name another folder with --folder.")
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with Threadline.open(f"sqlite:{self._store}") as tl:
            self._console.print(f"Importing the exports in {self._exports}.")
            show_table(await import_all(tl, self._exports, self._console), self._console)
            await self._furnish(tl)
            await tl.search.catch_up()
        keep_secret(facts, json.dumps(self._facts))

    async def _furnish(self, tl: Threadline) -> None:
        """A room with two agents and a chat with the third, and a link to each; one of them reads
        everything else."""
        everybody = Controller(None)
        room = await tl.conversations.ensure(ROOM, title=TITLE)
        for text in TOUR:
            await _guided(tl, ConversationRef.parse(ROOM), text)
        # They answer when they are named, and leave people alone otherwise.
        await tl.speakers.group(ROOM, mode="mention")
        for name in (ARCHIVE, MINUTES):
            await tl.speakers.participant(ROOM, name, name, public=True)
        await tl.conversations.ensure(CHAT, title=CHAT_TITLE)
        await _guided(tl, CHAT, HOW_TO_ASK)
        await tl.speakers.bind(CHAT, REMINDER, policy="all")
        await tl.consents.grant(REMINDER, CHAT.provider, CHAT.account_id)
        for name in AGENTS:
            scopes = ("read", "publish", "send") if name == REMINDER else None
            made = await tl.tokens.create(
                "session", session=name, scopes=scopes, name="demo", caller=everybody
            )
            keep_secret(self._folder / f"{name}.token", f"{made.token}\n")
        await self._open_the_archive(tl)
        link = await tl.links.create(ROOM, name="demo", policy="all", caller=everybody)
        alone = await tl.links.create(CHAT, name="demo", policy="all", caller=everybody)
        self._facts = {
            "room": room.id,
            "link": f"/chat/{link.secret}",
            "alone": f"/chat/{alone.secret}",
        }

    async def _open_the_archive(self, tl: Threadline) -> None:
        """The archive's agent reads all that was imported, and is done with it."""
        after = ""
        while True:
            states, following = await tl.conversations.page(after=after, limit=500)
            for state in states:
                if state.ref.provider != "web" and state.head:
                    await tl.members.join(state.id, ARCHIVE, policy="all")
                    await tl.replay.ack(state.id, ARCHIVE, state.head)
            if following is None:
                return
            after = following

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("THREADLINE_")}
        # The terminal is for whoever watches the demo; what goes wrong is still said.
        quiet = {"THREADLINE_LOG_LEVEL": "warning"}
        return kept | {"THREADLINE_HOME": str(self._folder)} | quiet

    async def serve(self, stopping: asyncio.Event) -> None:
        """Run the server and the agents until it is told to stop."""
        environment = self._environment()
        program = [sys.executable, "-m", "threadline.entrypoints.cli"]
        server = Kept(
            "the server", [*program, "serve", "--json", "--port", str(self._port)], environment
        )
        async with AsyncExitStack() as stack:
            stack.push_async_callback(server.stop)
            self._url = await server.started()
            agents = []
            for name in AGENTS:
                module = "threadline.entrypoints.cli.demo_agents"
                token = str(self._folder / f"{name}.token")
                command = [sys.executable, "-m", module, name, self._url, token]
                agents.append(Kept(f"@{name}", command, environment))
                stack.push_async_callback(agents[-1].stop)
                await agents[-1].start()
            self._tell(server, agents)
            watching = [
                asyncio.create_task(self._watch(one, stopping)) for one in (server, *agents)
            ]
            stopped = asyncio.create_task(stopping.wait())
            done, waiting = await asyncio.wait(
                {*watching, stopped}, return_when=asyncio.FIRST_COMPLETED
            )
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            for task in done:
                task.result()

    async def _watch(self, kept: Kept, stopping: asyncio.Event) -> None:
        """Start a program again whenever it ends. Raises where it never stays."""
        loop = asyncio.get_running_loop()
        while not stopping.is_set():
            assert kept.process is not None
            began = loop.time()
            code = await kept.process.wait()
            if stopping.is_set():
                return
            kept.deaths = [*kept.deaths, began] if loop.time() - began < SOON_SECONDS else []
            if len(kept.deaths) >= DEATHS:
                raise ThreadlineError(f"{kept.name} ends again and again, with {code}.")
            how = f"signal {-code}" if code < 0 else f"code {code}"
            self._console.print(
                f"{kept.name} ended by {how}. It is started again.", style="yellow", markup=False
            )
            if kept.name == "the server":
                self._url = await kept.started()
            else:
                await kept.start()
            assert kept.process is not None
            self._console.print(
                f"{kept.name} is back, as process {kept.process.pid}.", style="green", markup=False
            )

    def _tell(self, server: Kept, agents: Sequence[Kept]) -> None:
        say = self._console.print
        say()
        say("Open this in a browser and talk to the agents:", style="bold")
        say(f"  {self._url}{self._facts['link']}", style="cyan", markup=False, soft_wrap=True)
        say("One of them writes first, in a chat with you alone:", style="bold")
        say(f"  {self._url}{self._facts['alone']}", style="cyan", markup=False, soft_wrap=True)
        say("The operator's side, with the token in that file:", style="bold")
        say(f"  {self._url}/", style="cyan", markup=False, soft_wrap=True)
        say(f"  {self._folder / 'admin.token'}", style="cyan", markup=False, soft_wrap=True)
        say("Kill what you like; everything said stays, once:", style="bold")
        for one in (server, *agents):
            assert one.process is not None
            say(f"  kill -9 {one.process.pid}   # {one.name}", style="cyan", markup=False)
        say("Attach an agent of your own: docs/how-to/attach.md. Stop with Ctrl-C.", style="dim")


def demo(folder: Path | None, exports: Path | None, port: int) -> int:
    """Run the demo until it is interrupted. Raises `ConfigError` and what the server says."""
    console = Console(highlight=False)
    home = (folder or Path(tempfile.mkdtemp(prefix="threadline-demo-"))).absolute()
    made = Demo(home, exports or exports_of_the_checkout(), port, console)

    async def run() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(one, stopping.set)
        await made.prepare()
        await made.serve(stopping)
        console.print(f"\nStopped. Go on with it: threadline demo --folder {home}", markup=False)

    asyncio.run(run())
    return 0
