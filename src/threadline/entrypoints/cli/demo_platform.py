"""`threadline demo --telegram` and its like: the demo's story on a platform, told in a terminal.

The platform is a simulator in a process of its own (Matrix: a real Synapse), and so is the server,
connected as any account is. Two sessions answer people; the server is killed while the platform
holds back its answer. The judge is the platform's own log of what was really said.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from threadline.adapters.registry import providers
from threadline.client import Session
from threadline.core.errors import ConfigError, ThreadlineError
from threadline.entrypoints.cli.demo import Kept
from threadline.entrypoints.cli.demo_house import at_home
from threadline.entrypoints.cli.demo_means import ANSWERS, PATIENCE, Means
from threadline.entrypoints.cli.demo_tools import Tools
from threadline.entrypoints.cli.demo_writing import HOURS, Initiative
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
        raise ConfigError(
            f"{home / 'threadline.db'} exists already: the demo wants a fresh folder."
        )
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


class Story(Means):
    """The story, step by step."""

    async def told(self) -> bool:
        """All of it. Answers whether every promise was kept."""
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            # Ended first, so that nobody waits for it any more.
            stack.callback(self.there.close)
            await self._connect(stack)
            kept = [await self._people(stack), await self._late()]
            kept += [await self._kill(), await self._twice(), await self._judged()]
            kept += [await self._on_its_own(stack)]
            took = time.monotonic() - began
        self.console.print()
        if not all(kept):
            self.console.print("A promise was not kept; see above.", style="bold red")
        else:
            self.console.print(
                f"All of this took {took:.1f} s; nothing of it runs on.", style="bold"
            )
        self.console.print("\nLook at what stayed, if you like:\n")
        self.console.print(
            f"  export THREADLINE_HOME={shlex.quote(str(self.home))}", style="cyan", soft_wrap=True
        )
        for command in ("conversations", "deliveries", f"history {shlex.quote(self.ref(ADA))}"):
            self.console.print(
                f"  threadline {command}", style="cyan", markup=False, soft_wrap=True
            )
        return all(kept)

    # --- the steps ---------------------------------------------------------------------------

    async def _connect(self, stack: AsyncExitStack) -> None:
        title = self.there.title
        self.title(
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
        self.server = Kept("the server", [*program, "--port", "0"], kept | ours)
        stack.push_async_callback(self.server.stop)
        await asyncio.gather(self.serve(), starting)
        # It is asked on this machine, where no proxy has any business.
        token = (self.home / "admin.token").read_text().strip()
        self.boss = httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE,
            trust_env=False,
        )
        stack.push_async_callback(self.boss.aclose)
        body = {"provider": self.name, "given": self.there.given(self.url), "public_url": self.url}
        made = await self.ask("POST", "/v1/accounts", body)
        self.account = made["state"]["account_id"]
        if made["webhook"] and not made["announced"]:
            await self.order(self.there.hook, self.url + made["webhook"])
        await self.order(self.there.attended)
        process = self.server.process
        assert process is not None
        say = self.console.print
        say(f"  {title:<10} process {self.there.pid}", markup=False)
        say(f"  {'server':<10} process {process.pid}, {self.url}", markup=False)
        say(f"  {'account':<10} {self.name}/{self.account}", markup=False, soft_wrap=True)
        self.verdict(True, f"connected: {title} says who we are, and the credentials are sealed")

    async def _people(self, stack: AsyncExitStack) -> bool:
        room = await self.order(self.there.place)
        other = room if self.there.together else await self.order(self.there.place)
        self.places = {ADA: room, BEN: other}
        where = "in one room" if self.there.together else "each in a chat of their own"
        self.title(
            "People write, and two sessions listen",
            f"Ada and Ben write {where}. `helper` and `scribe` are members with handles: both read",
            "everything, and whoever is named answers.",
        )
        for place in dict.fromkeys(self.places.values()):
            await self._seat(place)
        for name in (HELPER, SCRIBE):
            made = await self.ask("POST", "/v1/tokens", {"kind": "session", "session_id": name})
            working = asyncio.create_task(self._agent(name, made["token"]))
            stack.push_async_callback(_ended, working)
        for line in BEFORE:
            await self.write([line])
            await self.complete()
        records = await self.records()
        table = Table("who", "said", "speaker", "answer", header_style="bold", box=SIMPLE_HEAD)
        chosen = []
        for who, text in BEFORE:
            [record] = [one for one in records if one["text"] == text] or [{}]
            chosen.append(record.get("target_session_id"))
            table.add_row(who, text, chosen[-1] or "nobody", ANSWERS.get(text, ""))
        self.console.print(table)
        return self.verdict(
            chosen == [HELPER, SCRIBE, HELPER, None] and await self.are_whole(),
            "at most one speaker per message, each answered where it was asked",
        )

    async def _seat(self, place: str) -> None:
        address = {
            "provider": self.name,
            "account_id": self.account,
            "conversation_id": place,
            "kind": self.there.kind,
        }
        made = await self.ask("POST", "/v1/conversations", address)
        self.ids[place] = made["id"]
        path = f"/v1/conversations/{made['id']}"
        await self.ask("PUT", f"{path}/group", {"mode": "mention"})
        for name in (HELPER, SCRIBE):
            seat = {"session_id": name, "public": True}
            await self.ask("PUT", f"{path}/group/participants/{name}", seat)

    async def _agent(self, name: str, token: str) -> None:
        """A session: it answers what it is asked, over as many lives of the server as it takes."""
        async with Session(self.url, token) as session:
            async for record in session.inbox():
                await session.reply(record, ANSWERS[record.text])

    async def _late(self) -> bool:
        self.title("Somebody joins late", "`latecomer` joins now, with policy all, and catches up.")
        read = 0
        writers = {text: who for who, text in self.people}
        for place, conversation in self.ids.items():
            path = f"/v1/conversations/{conversation}/members/{LATECOMER}"
            await self.ask("PUT", path, {"policy": "all"})
            page = await self.ask("GET", f"{path}/backfill?limit=100&own=true")
            messages = [one for one in page["records"] if one["event"] == "message"]
            texts = [one["text"] for one in messages]
            read += len(texts)
            for one in messages:
                actor = writers.get(one["text"], one["actor"]["name"])
                self.console.print(
                    f"  {one['sequence']:>2}  {actor:<12} {one['text']}", markup=False
                )
            if texts != [one["text"] for one in await self.records(place)]:
                return self.verdict(False, "it did not read what the others read")
        return self.verdict(
            read > 0, f"{read} records, the same and in the same order for everybody"
        )

    async def _kill(self) -> bool:
        title = self.there.title
        when = (
            f"{title} shows her the answer and keeps back its word to the server: in that moment"
            if self.there.holds
            else f"As soon as {title} shows her the answer"
        )
        self.title(
            "kill -9, in the middle of an answer",
            f"Ada asks once more. {when} the server gets SIGKILL.",
        )
        place = self.at(ADA)
        before = len(await self.order(self.there.said, place))
        await self.order(self.there.hold, place)
        await self.write([AT_ITS_DEATH])
        await self.order(self.there.said, place, before + 1)
        assert self.server is not None
        assert self.server.process is not None
        self.server.process.kill()
        code = await self.server.process.wait()
        self.console.print(f"The server ended by signal {-code}. People write on:")
        await self.write(WHILE_DEAD)
        for who, text in WHILE_DEAD:
            self.console.print(f"  {who}: {text}", markup=False)
        await self.order(self.there.release)
        began = time.monotonic()
        await self.serve()
        took = time.monotonic() - began
        self.console.print(f"It is back after {took:.1f} s, as process {self.server.process.pid}.")
        await self.complete()
        await self._doubts()
        return self.verdict(
            await self.are_whole(),
            f"all {len(WHILE_DEAD)} messages from while it was dead are there, and are answered",
        )

    async def _doubts(self) -> None:
        """What nothing proves is a person's to decide: they look there, and say what they saw."""
        for delivery in (await self.ask("GET", "/v1/deliveries?state=uncertain"))["deliveries"]:
            place = next(one for one, its in self.ids.items() if its == delivery["conversation"])
            records = await self.records(place)
            asked = next(one for one in records if one["sequence"] == delivery["reply_to"])
            answer = ANSWERS[asked["text"]]
            self.console.print(
                f"{self.there.title} gives no proof of “{answer}”: it is shown as uncertain, and "
                "is never said again by itself.",
                markup=False,
            )
            seen = await self.order(self.there.said, place)
            [found] = [one for one in seen if one.text == answer] or [None]
            path = f"/v1/deliveries/{delivery['id']}/confirm"
            if found is not None:
                await self.ask("POST", path, {"message_id": found.id})
                self.console.print(f"A person looked there, saw it as {found.id}, and said so.")

    async def _twice(self) -> bool:
        before = await self.records()
        count = await self.order(self.there.again)
        if not count:
            return True
        self.title(
            "Platforms deliver twice",
            f"All {count} events there were arrive once more, as they may.",
        )
        await self.order(self.there.idle)
        # Said after them: when this is heard, they were.
        last = ((ADA, "Good night."), (BEN, "Good night, Ada."))
        await self.write(last)
        await self.complete()
        after = await self.records()
        fresh = [one["text"] for one in after if one not in before]
        return self.verdict(
            Counter(fresh) == Counter(text for _, text in last),
            f"{count} redeliveries made no record and no answer",
        )

    async def _judged(self) -> bool:
        self.title(
            f"What {self.there.title} itself says was said",
            "Its own log, against the answers there ought to be and the records we hold.",
        )
        asked = [text for _, text in self.people if text in ANSWERS]
        seen: list[Effect] = []
        for place in self.ids:
            seen += await self.order(self.there.said, place)
        times = Counter(one.text for one in seen)
        records = await self.records()
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
        return self.verdict(
            not lost and not doubled and {one.id for one in seen} == proofs,
            f"{heard.total()} messages heard, {wanted.total()} answers said: "
            f"{lost} lost, {doubled} doubled",
        )

    async def _on_its_own(self, stack: AsyncExitStack) -> bool:
        """The same server goes on in this process, where its clock can be moved."""
        assert self.server is not None
        await self.server.stop()
        store = f"sqlite:{self.home / 'threadline.db'}"
        port = int(self.url.rpartition(":")[2])
        # What comes with a time long past wakes nobody: where the platform cannot follow the clock
        # of this chapter, the chapter ends at the time there is.
        behind = 0.0 if self.there.moves else HOURS
        house = await stack.enter_async_context(at_home(store, port, behind=behind))
        await self.order(self.there.attended)
        if behind:
            self.console.print(
                f"\n{self.there.title} goes by the real time, so our clock begins {behind} hours "
                "behind it: what people write bears theirs.",
                style="dim",
            )
        ada, ben = [
            Neighbour(
                name=who,
                to=f"{self.name}:{await self.order(self.there.address, who)}",
                account=(self.name, self.account),
                judge=self.there.title,
                there=self.there,
                place=await self.order(self.there.direct, who),
            )
            for who in (ADA, BEN)
        ]
        return all(
            [await Initiative(self, house, ada).told(), await Tools(self, house, ben, ada).told()]
        )


@dataclass(slots=True)
class Neighbour:
    """Somebody on the platform, alone with our account."""

    name: str
    to: str
    account: tuple[str, str]
    judge: str
    there: Scene
    place: str

    async def says(self, text: str) -> None:
        """See `demo_house.Somebody.says`."""
        await asyncio.to_thread(self.there.says, self.place, self.name, text)

    async def said(self) -> list[str]:
        """See `demo_house.Somebody.said`."""
        return [one.text for one in await asyncio.to_thread(self.there.said, self.place)]

    async def move(self, **by: float) -> None:
        """See `demo_house.Somebody.move`."""
        await asyncio.to_thread(lambda: self.there.move(**by))


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
