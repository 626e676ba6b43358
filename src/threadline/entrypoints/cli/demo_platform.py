"""`threadline demo --telegram` and its like: the story of the demo on a platform, told in a terminal.

The platform is a simulator in a process of its own (Matrix: a real Synapse), and so is the server,
connected as any account is. Two sessions answer people; the server is killed while the platform
holds back its answer. The judge is the platform's own log of what was really said.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from threadline.adapters.registry import providers
from threadline.client import Session
from threadline.core.errors import ConfigError, ThreadlineError
from threadline.entrypoints.cli.demo import Kept
from threadline.testing.scenes import SCENES, Effect, Scene, scene
from threadline.testing.simulation import Refusal

ADA, BEN = "Ada", "Ben"
HELPER, SCRIBE, LATECOMER = "helper", "scribe", "latecomer"
BEFORE = (
    (ADA, "@helper when do we open?"),
    (BEN, "@scribe write down that the oven is fixed."),
    (ADA, "@helper and on Sundays?"),
    (BEN, "Good to know."),
)
AT_ITS_DEATH = (ADA, "@helper is there bread left?")
WHILE_DEAD = (
    (BEN, "@scribe flour is low, write it down."),
    (ADA, "@helper keep one for me."),
    (BEN, "See you tomorrow!"),
)
ANSWERS = {
    "@helper when do we open?": "At nine.",
    "@scribe write down that the oven is fixed.": "Noted: the oven is fixed.",
    "@helper and on Sundays?": "At ten on Sundays.",
    "@helper is there bread left?": "Two loaves.",
    "@scribe flour is low, write it down.": "Noted: flour is low.",
    "@helper keep one for me.": "One loaf is yours.",
}
PATIENCE = 60.0
PAUSE = 0.05


def tell(name: str, folder: Path | None = None) -> int:
    """Tell the story on a provider's platform, with a fresh store in `folder` (a temporary one).

    Returns 0, 1 where a promise was not kept, 130 where it was interrupted. Raises `ConfigError`
    for a provider that is not simulated here, and where the folder already holds a store.
    """
    if name not in SCENES:
        title = f"{name} is not simulated" if name in providers() else f"there is no {name!r}"
        raise ConfigError(f"{title}: the demo shows {', '.join(sorted(SCENES))}.")
    home = (folder or Path(tempfile.mkdtemp(prefix="threadline-demo-"))).absolute()
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (home / "threadline.db").exists():
        raise ConfigError(f"{home / 'threadline.db'} exists already: the demo wants a fresh folder.")
    (home / "platform").mkdir(exist_ok=True)
    try:
        there = scene(name, home / "platform")
    except Refusal as refusal:
        raise ConfigError(str(refusal)) from None
    return asyncio.run(_interruptible(Story(Console(highlight=False), name, there, home).told()))


async def _interruptible(story: Coroutine[Any, Any, bool]) -> int:
    """Until its end, or until somebody presses Ctrl-C: all that was started ends either way."""
    task = asyncio.create_task(story)
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, task.cancel)
    try:
        return 0 if await task else 1
    except asyncio.CancelledError:
        return 130
    except Refusal as refusal:
        raise ThreadlineError(f"the platform does not go on: {refusal}") from None


@dataclass(slots=True)
class Story:
    """The story, step by step, on one platform."""

    console: Console
    name: str
    there: Scene
    home: Path
    url: str = ""
    account: str = ""
    # Where Ada and Ben talk: one room, or a chat of each.
    places: dict[str, str] = field(default_factory=dict)
    # The conversations' ids, by place.
    ids: dict[str, str] = field(default_factory=dict)
    people: list[tuple[str, str]] = field(default_factory=list)
    confirmed: set[str] = field(default_factory=set)
    _server: Kept | None = None
    _boss: httpx.AsyncClient | None = None
    _step: int = 0

    async def told(self) -> bool:
        """All of it. Answers whether every promise was kept."""
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            # Ended first, so that nobody waits for it any more.
            stack.callback(self.there.close)
            await self._connect(stack)
            kept = [await self._people(stack), await self._late()]
            kept += [await self._kill(), await self._twice(), await self._judged()]
            took = time.monotonic() - began
        self.console.print()
        if not all(kept):
            self.console.print("A promise was not kept; see above.", style="bold red")
        else:
            self.console.print(f"All of this took {took:.1f} s; nothing of it runs on.", style="bold")
        self.console.print("\nLook at what stayed, if you like:\n")
        self.console.print(
            f"  export THREADLINE_HOME={shlex.quote(str(self.home))}", style="cyan", soft_wrap=True
        )
        for command in ("conversations", "deliveries", f"history {shlex.quote(self._ref(ADA))}"):
            self.console.print(f"  threadline {command}", style="cyan", markup=False)
        return all(kept)

    # --- telling -----------------------------------------------------------------------------

    def _title(self, text: str, *lines: str) -> None:
        self._step += 1
        self.console.print()
        self.console.print(Rule(f"{self._step}. {text}", align="left", style="bold"))
        if lines:
            self.console.print(" ".join(lines), markup=False)
            self.console.print()

    def _verdict(self, kept: bool, text: str) -> bool:
        mark = Text("✓ " if kept else "✗ ", style="bold green" if kept else "bold red")
        self.console.print(mark + Text(text))
        return kept

    def _ref(self, who: str) -> str:
        return "/".join(quote(one, safe=":@!+") for one in (self.name, self.account, self._at(who)))

    def _at(self, who: str) -> str:
        return self.places[who]

    # --- the steps ---------------------------------------------------------------------------

    async def _connect(self, stack: AsyncExitStack) -> None:
        title = self.there.title
        self._title(
            f"{title}, and a server that is connected to it",
            f"Both are processes of their own. Events come by {self.there.way}; nothing here knows",
            "that it is not the real thing." if self.name != "matrix" else "the real thing.",
        )
        starting = asyncio.create_task(asyncio.to_thread(self.there.start))
        program = [sys.executable, "-m", "threadline.entrypoints.cli", "serve", "--json"]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("THREADLINE_")}
        ours = {
            "THREADLINE_HOME": str(self.home),
            "THREADLINE_LOG_LEVEL": "error",
            "THREADLINE_ADAPTERS_ALLOW_PRIVATE": "true",
        }
        self._server = Kept("the server", [*program, "--port", "0"], kept | ours)
        stack.push_async_callback(self._server.stop)
        await asyncio.gather(self._serve(), starting)
        # It is asked on this machine, where no proxy has any business.
        token = (self.home / "admin.token").read_text().strip()
        self._boss = httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE,
            trust_env=False,
        )
        stack.push_async_callback(self._boss.aclose)
        body = {"provider": self.name, "given": self.there.given(self.url), "public_url": self.url}
        made = await self._ask("POST", "/v1/accounts", body)
        self.account = made["state"]["account_id"]
        if made["webhook"] and not made["announced"]:
            await self._platform(self.there.hook, self.url + made["webhook"])
        await self._platform(self.there.attended)
        process = self._server.process
        assert process is not None
        say = self.console.print
        say(f"  {title:<10} process {self.there.pid}", markup=False)
        say(f"  {'server':<10} process {process.pid}, {self.url}", markup=False)
        say(f"  {'account':<10} {self.name}/{self.account}", markup=False, soft_wrap=True)
        self._verdict(True, f"connected: {title} says who we are, and the credentials are sealed")

    async def _people(self, stack: AsyncExitStack) -> bool:
        room = await self._platform(self.there.place, self.account)
        other = room if self.there.together else await self._platform(self.there.place, self.account)
        self.places = {ADA: room, BEN: other}
        where = "in one room" if self.there.together else "each in a chat of their own"
        self._title(
            "People write, and two sessions listen",
            f"Ada and Ben write {where}. `helper` and `scribe` are members with handles: both read",
            "everything, and whoever is named answers.",
        )
        for place in dict.fromkeys(self.places.values()):
            await self._seat(place)
        for name in (HELPER, SCRIBE):
            made = await self._ask("POST", "/v1/tokens", {"kind": "session", "session_id": name})
            working = asyncio.create_task(self._agent(name, made["token"]))
            stack.push_async_callback(_ended, working)
        await self._write(BEFORE)
        await self._complete()
        records = await self._records()
        table = Table("who", "said", "speaker", "answer", header_style="bold", box=SIMPLE_HEAD)
        chosen = []
        for who, text in BEFORE:
            [record] = [one for one in records if one["text"] == text] or [{}]
            chosen.append(record.get("target_session_id"))
            table.add_row(who, text, chosen[-1] or "nobody", ANSWERS.get(text, ""))
        self.console.print(table)
        return self._verdict(
            chosen == [HELPER, SCRIBE, HELPER, None] and self._are_whole(records),
            "at most one speaker per message, each answered where it was asked",
        )

    async def _seat(self, place: str) -> None:
        address = {
            "provider": self.name,
            "account_id": self.account,
            "conversation_id": place,
            "kind": self.there.kind,
        }
        made = await self._ask("POST", "/v1/conversations", address)
        self.ids[place] = made["id"]
        path = f"/v1/conversations/{made['id']}"
        await self._ask("PUT", f"{path}/group", {"mode": "mention"})
        for name in (HELPER, SCRIBE):
            seat = {"session_id": name, "public": True}
            await self._ask("PUT", f"{path}/group/participants/{name}", seat)

    async def _agent(self, name: str, token: str) -> None:
        """A session: it answers what it is asked, over as many lives of the server as it takes."""
        async with Session(self.url, token) as session:
            async for record in session.inbox():
                await session.reply(record, ANSWERS[record.text])

    async def _late(self) -> bool:
        self._title("Somebody joins late", "`latecomer` joins now, with policy all, and catches up.")
        read = 0
        for place, conversation in self.ids.items():
            path = f"/v1/conversations/{conversation}/members/{LATECOMER}"
            await self._ask("PUT", path, {"policy": "all"})
            page = await self._ask("GET", f"{path}/backfill?limit=100&own=true")
            texts = [one["text"] for one in page["records"]]
            read += len(texts)
            for one in page["records"]:
                actor = one["actor"]["name"] or one["actor"]["id"]
                self.console.print(f"  {one['sequence']:>2}  {actor:<12} {one['text']}", markup=False)
            if texts != [one["text"] for one in await self._records(place)]:
                return self._verdict(False, "it did not read what the others read")
        return self._verdict(read > 0, f"{read} records, the same and in the same order for everybody")

    async def _kill(self) -> bool:
        title = self.there.title
        holding = (
            f"Ada asks once more. {title} says the answer to her and keeps its own answer back;"
            if self.there.holds
            else f"Ada asks once more. As soon as {title} has the answer,"
        )
        self._title(
            "kill -9, in the middle of an answer", holding, "that moment the server gets SIGKILL."
        )
        place = self._at(ADA)
        before = len(await self._platform(self.there.said, place))
        await self._platform(self.there.hold, place)
        await self._write([AT_ITS_DEATH])
        await self._platform(self.there.said, place, before + 1)
        assert self._server is not None
        assert self._server.process is not None
        self._server.process.kill()
        code = await self._server.process.wait()
        self.console.print(f"The server ended by signal {-code}. People write on:")
        await self._write(WHILE_DEAD)
        for who, text in WHILE_DEAD:
            self.console.print(f"  {who}: {text}", markup=False)
        await self._platform(self.there.release)
        began = time.monotonic()
        await self._serve()
        took = time.monotonic() - began
        self.console.print(f"It is back after {took:.1f} s, as process {self._server.process.pid}.")
        await self._complete()
        await self._doubts()
        return self._verdict(
            self._are_whole(await self._records()),
            f"{len(WHILE_DEAD)} of {len(WHILE_DEAD)} messages from while it was dead are there, and "
            "are answered",
        )

    async def _doubts(self) -> None:
        """What nothing proves is a person's to decide: they look there, and say what they saw."""
        for delivery in (await self._ask("GET", "/v1/deliveries?state=uncertain"))["deliveries"]:
            place = next(p for p, name in self.ids.items() if name == delivery["conversation"])
            seen = [
                one
                for one in await self._platform(self.there.said, place)
                if one.text == delivery["text"]
            ]
            self.console.print(
                f"{self.there.title} has no proof of “{delivery['text']}” to give: it is shown as "
                "uncertain and never said again by itself.",
                markup=False,
            )
            path = f"/v1/deliveries/{delivery['id']}/confirm"
            await self._ask("POST", path, {"message_id": seen[0].id})
            self.console.print(f"A person looked, saw it there as {seen[0].id}, and confirmed it.")

    async def _twice(self) -> bool:
        before = await self._records()
        count = await self._platform(self.there.again)
        if not count:
            return True
        self._title(
            "Platforms deliver twice", f"All {count} events there were arrive once more, as they may."
        )
        await self._platform(self.there.idle)
        # Said after them: when this is heard, they were.
        last = ((ADA, "Good night."), (BEN, "Good night, Ada."))
        await self._write(last)
        await self._complete()
        after = await self._records()
        fresh = [one["text"] for one in after if one not in before]
        return self._verdict(
            Counter(fresh) == Counter(text for _, text in last),
            f"{count} redeliveries made no record and no answer",
        )

    async def _judged(self) -> bool:
        self._title(
            f"What {self.there.title} itself says was said",
            "Its own log, against the answers there ought to be and the records we hold.",
        )
        asked = [text for _, text in self.people if text in ANSWERS]
        seen: list[Effect] = []
        for place in self.ids:
            seen += await self._platform(self.there.said, place)
        times = Counter(one.text for one in seen)
        records = await self._records()
        proofs = {one["message_id"] for one in records if one["direction"] == "outbound"}
        table = Table("answer", "times there", "its record", header_style="bold", box=SIMPLE_HEAD)
        for text in asked:
            ids = [one.id for one in seen if one.text == ANSWERS[text]]
            known = "yes" if ids and set(ids) <= proofs else "no"
            table.add_row(ANSWERS[text], f"{times[ANSWERS[text]]}", known)
        self.console.print(table)
        wanted = Counter(ANSWERS[text] for text in asked)
        heard = Counter(text for _, text in self.people)
        found = Counter(one["text"] for one in records if one["direction"] == "inbound")
        lost = (heard - found).total() + (wanted - times).total()
        doubled = (found - heard).total() + (times - wanted).total()
        return self._verdict(
            not lost and not doubled and {one.id for one in seen} == proofs,
            f"{heard.total()} messages heard, {wanted.total()} answers said: {lost} lost, {doubled} "
            "doubled",
        )

    # --- the means ---------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Start the server, or start it again where it was."""
        server = self._server
        assert server is not None
        process = await server.start()
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            raise ConfigError("the server did not start; it says why above.")
        self.url = json.loads(line)["url"]
        server.command = [*list(server.command)[:-1], self.url.rpartition(":")[2]]

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        assert self._boss is not None
        answer = await self._boss.request(method, path, json=body)
        if not answer.is_success:
            raise ThreadlineError(f"{method} {path} was answered {answer.status_code}: {answer.text}")
        return answer.json()

    async def _platform(self, order: Callable[..., Any], *facts: Any) -> Any:
        """Something that takes as long as the platform takes."""
        return await asyncio.to_thread(order, *facts)

    async def _write(self, lines: Any) -> None:
        for who, text in lines:
            self.people.append((who, text))
            await self._platform(self.there.says, self._at(who), who, text)

    async def _records(self, place: str = "") -> list[dict[str, Any]]:
        """The messages of a place, or of all."""
        found: list[dict[str, Any]] = []
        for one in [place] if place else list(self.ids):
            page = await self._ask("GET", f"/v1/conversations/{self.ids[one]}/transcript?limit=500")
            found += [record for record in page["records"] if record["event"] == "message"]
        return found

    def _are_whole(self, records: list[dict[str, Any]]) -> bool:
        """Whether everything said and every answer to it is there once."""
        wanted = [text for _, text in self.people]
        wanted += [ANSWERS[text] for text in wanted if text in ANSWERS]
        return Counter(one["text"] for one in records) == Counter(wanted)

    async def _complete(self) -> None:
        """Wait until all that people wrote is heard, and every answer said or in doubt."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            heard = {one["text"] for one in await self._records()}
            deliveries = (await self._ask("GET", "/v1/deliveries?limit=500"))["deliveries"]
            over = [d for d in deliveries if d["state"] == "delivered" or d["parked"]]
            wanted = {text for _, text in self.people}
            answers = [ANSWERS[text] for text in wanted if text in ANSWERS]
            if wanted <= heard and len(over) >= len(answers):
                return
            await asyncio.sleep(PAUSE)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
