"""`kill -9` at every step of hearing and saying on a platform, whose own log is the judge.

A process dies before or after what it heard is recorded, and after its place was written down; and
before or after the mark of what it says, while the platform has said it and not answered, with the
answer in its hands, and after it was settled. The last life goes on to the end. Then everything
people wrote is one record, nothing was said twice, and what is uncertain is shown as that.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from crash.forks import scratch
from crash.outcome import Outcome
from threadline import Threadline
from threadline.core.deliveries import OPEN_STATES, DeliveryState
from threadline.core.model import ConversationRef, Direction, Event, Kind
from threadline.entrypoints.http.server import Server, ServerSettings, listening, make_app
from threadline.flows.listening import Advance
from threadline.flows.outbox import Begin, Settle
from threadline.testing.scenes import SCENES, Scene, scene

KEY = bytes(range(32))
HEARING = ("before the record", "after the record")
CURSOR = "after the cursor"
SAYING = ("before the mark", "after the mark", "after the answer", "after the settlement")
UNANSWERED = "before the answer"
AGENT = "agent"
LIFE_SECONDS = 60.0
# A step that does not come in a life ends it all the same: it is one more moment to die at.
IDLE_SECONDS = 5.0
# How many times quicker a platform's clock runs that tries webhooks again, so that it does at once.
# The others keep their time: for as long as they say, they know a message by its key.
SPEED = 1000.0


def die() -> None:
    """As a power cut: nothing is tidied up."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(slots=True)
class Death:
    """Dies at the `left`-th time a step comes."""

    step: str
    left: int = 1

    def at(self, step: str) -> None:
        """A step has come."""
        if step == self.step:
            self.left -= 1
            if self.left == 0:
                die()


class Store:
    """The store, with deaths around what is heard, marked, settled and moved on."""

    kind = "sqlite"

    def __init__(self, below: Any, death: Death) -> None:
        self._below = below
        self._death = death

    async def run(self, story: Any) -> Any:
        """Run one story."""
        if isinstance(story, Begin):
            self._death.at("before the mark")
        answer = await self._below.run(story)
        if isinstance(story, Settle):
            self._death.at("after the settlement")
        if isinstance(story, Advance) and story.heard:
            self._death.at(CURSOR)
        return answer

    async def run_all(self, stories: Iterable[Any]) -> Any:
        """Run what was heard together."""
        self._death.at("before the record")
        answers = await self._below.run_all(stories)
        self._death.at("after the record")
        return answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)


class Channels:
    """The usual ones, whose calls that say something may be the last."""

    def __init__(self, below: Any, death: Death) -> None:
        self._below = below
        self._death = death

    def transport(self, provider: str) -> Any:
        """The wire, with deaths around a call."""
        return Wire(self._below.transport(provider), self._death)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)


class Wire:
    """A wire that dies before a byte leaves, or with the answer in its hands."""

    def __init__(self, below: Any, death: Death) -> None:
        self._below = below
        self._death = death

    async def perform(self, call: Any) -> Any:
        """See `core.wire.Transport`."""
        if call.message is not None:
            self._death.at("after the mark")
        answer = await self._below.perform(call)
        if call.message is not None:
            self._death.at("after the answer")
        return answer

    def listen(self, account: Any, cursor: str | None) -> Any:
        """As usual."""
        return self._below.listen(account, cursor)


@dataclass(slots=True)
class Trial:
    """One account on one platform through its lives."""

    there: Scene
    name: str
    folder: Path
    port: int
    account: str = ""
    # How far each life's clock is ahead of the one before: doubts settle in lives, not in minutes.
    ahead: timedelta = timedelta(0)
    lives: int = 0
    last: int = 0
    places: list[str] = field(default_factory=list)
    now: Life | None = None
    # What people wrote and what the agent was told to say, by place.
    written: dict[str, list[str]] = field(default_factory=dict)
    intents: dict[str, list[str]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where the platform reaches us."""
        return f"http://127.0.0.1:{self.port}"

    def ref(self, place: str) -> ConversationRef:
        """A place's conversation."""
        return ConversationRef(self.name, self.account, place, kind=Kind(self.there.kind))

    # --- the lives ---------------------------------------------------------------------------

    def live(self, work: Callable[[Threadline, Callable[[Any], None]], Any], death: Death) -> Life:
        """A server in a child that also does this work; it says what it has to say as JSON."""
        self.lives += 1
        near, far = os.pipe()
        leash, hand = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child:
            os.close(far)
            os.close(leash)
            self.now = Life(child, near, hand)
            return self.now
        code = 70
        try:
            os.close(near)
            os.close(hand)
            os.dup2(2, 1)  # What the server logs is no result.

            def tell(what: Any) -> None:
                os.write(far, json.dumps(what).encode() + b"\n")

            asyncio.run(self._serve(lambda line: work(line, tell), death, leash))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    async def _serve(
        self, work: Callable[[Threadline], Coroutine[Any, Any, None]], death: Death, leash: int
    ) -> None:
        # It ends when its parent does, however that ends.
        asyncio.get_running_loop().add_reader(leash, os._exit, 70)
        url = f"sqlite:{self.folder / 't.db'}"
        settings = ServerSettings(port=self.port)
        # Who asks a platform for what came since a time does not run ahead of it, but at the end.
        lives = self.lives if _is_sent(self.there) else self.last
        passed = lives * self.ahead

        def clock() -> datetime:
            return datetime.now(UTC) + passed

        async with Threadline.open(
            url, key=KEY, indexing=False, allow_private=True, clock=clock
        ) as below:
            store: Any = Store(below.store, death)
            channels: Any = Channels(below.outbox.channels, death)
            line = Threadline(store, channels=channels, node="server")
            with listening(settings) as sock:
                started = asyncio.Event()
                server = Server(make_app(line, settings=settings), settings, started.set)
                serving = asyncio.create_task(server._serve([sock]))
                await started.wait()
                await work(line)
                server.should_exit = True
                await serving

    def close(self) -> None:
        """Nothing outlives the trial, whatever went wrong in it."""
        if self.now is not None:
            self.now.kill()

    def connect(self) -> None:
        """The first life: connected as by `threadline connect`, and the places there are."""

        async def work(line: Threadline, tell: Callable[[Any], None]) -> None:
            given = self.there.given(self.url)
            made = await line.accounts.connect(self.name, given, public_url=self.url)
            hook = "" if made.announced else made.webhook
            can = made.state.capabilities
            # Where a repeated call is harmless, it is so only for minutes.
            wait = 0.0 if can.idempotent else can.settle_within.total_seconds() + 30
            tell({"account": made.state.account_id, "hook": hook, "wait": wait})
            await asyncio.Event().wait()

        life = self.live(work, Death(""))
        told = life.hear()
        self.account, self.ahead = told["account"], timedelta(seconds=told["wait"])
        if told["hook"]:
            self.there.hook(self.url + told["hook"])
        self.there.attended()
        self.places = [self.there.place() for _ in range(2)]
        self.written = {place: [] for place in self.places}
        self.intents = {place: [] for place in self.places}
        for place in self.places if self.there.asked_first else ():
            self.written[place].append("hello")
            self.there.says(place, "Ada", "hello")
        life.kill()

    def dies(self, step: str, chance: random.Random, number: int) -> bool:
        """A life that ends at this step; whether it came to it."""
        fresh = {place: f"answer {number} at {n}" for n, place in enumerate(self.places)}

        async def work(line: Threadline, tell: Callable[[Any], None]) -> None:
            tell("up")
            for place, text in fresh.items():
                await self._intend(line, place, text)
            await asyncio.Event().wait()

        target = chance.choice(self.places)
        if step == UNANSWERED:
            # What an earlier death left in doubt holds its lane, and nothing would be said there.
            free = self._doubt()
            if not free:
                return False
            target = target if target in free else free[0]
        seen = len(self.there.said(target))
        if step == UNANSWERED:
            self.there.hold(target)
        for place, text in fresh.items():
            self.intents[place].append(text)
        life = self.live(work, Death(step, chance.randint(1, 2)))
        life.hear()
        for place in self.places:
            text = f"word {number} at {self.places.index(place)}"
            self.written[place].append(text)
            self.there.says(place, chance.choice(["Ada", "Ben"]), text)
        if step == UNANSWERED:
            self.there.said(target, seen + 1)
            life.kill()
            self.there.release()
            return True
        return life.ends(IDLE_SECONDS)

    async def _intend(self, line: Threadline, place: str, text: str) -> None:
        """Say something, once: whether an earlier life wrote it down or not."""
        ref = self.ref(place)
        await line.conversations.ensure(ref)
        if await line.speakers.binding(ref) is None:
            await line.speakers.bind(ref, AGENT)
        await line.outbound.publish(ref, AGENT, text, key=text)

    def ends(self) -> Any:
        """The last life: to the end, and then what it holds."""
        wanted = {place: set(texts) for place, texts in self.written.items()}
        self._doubt()

        async def work(line: Threadline, tell: Callable[[Any], None]) -> None:
            for place, texts in self.intents.items():
                for text in texts:
                    await self._intend(line, place, text)
            bell = line.store.bell(everything=True)
            async with asyncio.timeout(LIFE_SECONDS):
                while await under_way(line) or not await self._complete(line, wanted):
                    # What a platform gave up on, because nobody was there, is in its history.
                    for place in self.places if self.name == "twilio" else ():
                        await line.histories.hydrate(self.ref(place))
                    await bell.wait(0.5)
            bell.close()
            found = {place: await self._found(line, place) for place in self.places}
            states = (await line.deliveries.page(limit=500)).deliveries
            tell({"found": found, "states": [[one.state.value, one.parked] for one in states]})

        self.last = 1
        life = self.live(work, Death(""))
        try:
            return life.hear()
        finally:
            life.kill()

    def _doubt(self) -> list[str]:
        """A life that only finds what the one before left half done, so that the next may judge;
        the places where the next one will say what it is told at once."""

        async def work(line: Threadline, tell: Callable[[Any], None]) -> None:
            bell = line.store.bell(everything=True)
            while True:
                rows = (await line.deliveries.page(limit=500)).deliveries
                open_ = [one for one in rows if one.state in OPEN_STATES and not one.parked]
                doubtful = {
                    one.ref.conversation_id for one in open_ if one.state is DeliveryState.UNCERTAIN
                }
                if all(one.ref.conversation_id in doubtful for one in open_):
                    break
                await bell.wait(0.2)
            bell.close()
            # Where lives run ahead, the next one is past the doubt.
            past = _is_sent(self.there)
            tell([place for place in self.places if past or place not in doubtful])
            await asyncio.Event().wait()

        life = self.live(work, Death(""))
        free: list[str] = life.hear()
        life.kill()
        return free

    async def _complete(self, line: Threadline, wanted: dict[str, set[str]]) -> bool:
        for place, texts in wanted.items():
            if not texts <= {text for text, _, _ in (await self._found(line, place))[0]}:
                return False
        return True

    async def _found(self, line: Threadline, place: str) -> Any:
        page = await line.conversations.transcript(self.ref(place), limit=500)
        records = page.records
        return (
            [
                [one.text, one.direction is Direction.OUTBOUND, one.message_id]
                for one in records
                if one.event is Event.MESSAGE
            ],
            [one.sequence for one in records],
        )

    # --- the judge ---------------------------------------------------------------------------

    def judge(self, told: Any) -> list[str]:
        """What the platform's own log and the records say against it."""
        found: list[str] = []
        for place in self.places:
            records, sequences = told["found"][place]
            if sequences and sequences != list(range(sequences[0], sequences[0] + len(sequences))):
                found.append(f"{place}: the sequences are {sequences[:50]}")
            heard = Counter(text for text, ours, _ in records if not ours)
            wrote = Counter(self.written[place])
            found += [f"{place}: {text!r} is lost" for text in wrote - heard]
            found += [f"{place}: {text!r} is doubled or foreign" for text in heard - wrote]
            there = self.there.said(place)
            said = Counter(one.text for one in there)
            found += [f"{place}: {text!r} was said {n} times" for text, n in said.items() if n > 1]
            found += [f"{place}: {text!r} was never meant" for text in said.keys() - {
                *self.intents[place]
            }]  # fmt: skip
            proofs = [(text, name) for text, ours, name in records if ours]
            found += [
                f"{place}: {one} is there twice" for one, n in Counter(proofs).items() if n > 1
            ]
            real = {(one.text, one.id) for one in there}
            found += [f"{place}: {one} was never said" for one in proofs if one not in real]
        meant = sum(len(texts) for texts in self.intents.values())
        if len(told["states"]) != meant:
            found.append(f"{len(told['states'])} of {meant} intents are written down")
        open_ = [state for state, parked in told["states"] if state != "delivered" and not parked]
        if open_:
            found.append(f"intents ended as {Counter(open_)}")
        said_all = sum(len(self.there.said(place)) for place in self.places)
        certain = sum(state == "delivered" for state, _ in told["states"])
        if said_all < certain:
            found.append(f"{certain} are delivered, and {said_all} were said")
        return found


@dataclass(slots=True)
class Life:
    """A child that runs, and the pipe it tells through."""

    child: int
    pipe: int
    hand: int
    over: bool = False
    _rest: bytes = b""

    def hear(self) -> Any:
        """The next thing it says. Raises `EOFError` where it died before."""
        while b"\n" not in self._rest:
            data = os.read(self.pipe, 1 << 16)
            if not data:
                raise EOFError("the process ended without a word")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def ends(self, seconds: float) -> bool:
        """Whether it dies by itself within so many seconds; then or after them it is dead."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            done, _ = os.waitpid(self.child, os.WNOHANG)
            if done:
                self._end()
                return True
            time.sleep(0.01)
        self.kill()
        return False

    def kill(self) -> None:
        """`kill -9`, unless it is over."""
        if not self.over:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
            self._end()

    def _end(self) -> None:
        os.close(self.pipe)
        os.close(self.hand)
        self.over = True


async def under_way(line: Threadline) -> bool:
    """Whether anything is still to be done without a person."""
    for state in ("pending", "sending", "uncertain"):
        for one in (await line.deliveries.page(state=state, limit=500)).deliveries:
            if not one.parked:
                return True
    return False


def steps_of(there: Scene) -> tuple[str, ...]:
    """The steps a platform has: a webhook has no place to go on from."""
    listens = () if _is_sent(there) else (CURSOR,)
    held = (UNANSWERED,) if there.holds else ()
    return (*HEARING, *listens, *SAYING, *held)


def _is_sent(there: Any) -> bool:
    """Whether its events come by webhook."""
    return str(there.way).endswith("webhooks")


def run(outcome: Outcome, name: str, *, rounds: int, stride: int = 1) -> None:
    """So many rounds through the steps, in a random order; with a stride only each n-th of them."""
    chance = random.Random(outcome.seed)
    began = time.monotonic()
    reached = effects = uncertain = 0
    for number in range(rounds):
        with scratch() as folder:
            platform = folder / "platform"
            platform.mkdir()
            there = scene(name, platform, speed=SPEED if _is_sent(SCENES[name]) else 1.0)
            # The port is kept between two lives, so that no connection is given it meanwhile.
            with ExitStack() as held:
                kept = held.enter_context(listening(ServerSettings(port=0)))
                trial = Trial(there, name, folder, kept.getsockname()[1])
                held.enter_context(there)
                held.enter_context(closing(trial))
                trial.connect()
                steps = list(steps_of(there))
                chance.shuffle(steps)
                for death, step in enumerate(steps[::stride]):
                    outcome.states += 1
                    reached += trial.dies(step, chance, death)
                try:
                    told = trial.ends()
                except EOFError as error:
                    outcome.violate(f"round {number}", [f"the last life: {error}"])
                    break
                outcome.violate(f"round {number}", trial.judge(told))
                effects += sum(len(there.said(place)) for place in trial.places)
                uncertain += sum(parked for _, parked in told["states"])
                outcome.acknowledged += sum(len(texts) for texts in trial.written.values())
                outcome.acknowledged += len(told["states"])
    outcome.seconds = time.monotonic() - began
    outcome.notes.append(
        f"{reached} of {outcome.states} died at their step; {effects} effects on the platform, "
        f"none twice, {uncertain} left to a person"
        if not outcome.violations
        else f"{reached} of {outcome.states} died at their step"
    )
