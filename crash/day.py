"""A whole day of writing first: `python -m crash.day [--sends N] [--seed N]`.

Five agents write to people on five simulated platforms, who answer, or say stop. Calls are limited,
refused, cut off and answered late, events come twice or in another order, limits are reached, and
the server dies by `kill -9` in the middle of it. A day passes in minutes: the clocks of the server
and of the platforms are moved on together, and stand as one.

In the end the platforms' own logs are the judge, record by record: what is confirmed was said once
and is one record; what was said is a record, or a send that is shown as uncertain; who said stop
got nothing more; every answer stands below what it answers and was given to who wrote; the audit's
chain holds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from crash.clocked import Clock
from crash.crowd import PLATFORMS, Person, Places
from crash.forks import scratch
from crash.outcome import Outcome, as_json, save, table
from crash.workload import KEY
from threadline import Threadline
from threadline.core.model import ConversationRef, Event, TranscriptRecord
from threadline.core.sends import SendState
from threadline.flows.send_status import SendStatus

RESULTS = Path(__file__).with_name("day.json")
WHAT = "a day of sends over five platforms"
DAY_SECONDS = 86_400.0
BATCH = 200
AT_ONCE = 12
PATIENCE = 60.0
# How the clocks are moved while something is under way: in steps that outlast no lease.
STEP_SECONDS = 15.0
STEPS = 240
ARRIVALS = 1_200
# Nobody is written to more often; on the average somebody is twice an hour.
PER_HOUR = 4
CALL_FAULTS = ("rate_limit", "status", "late_status", "drop", "reset", "slow")
EVENT_FAULTS = ("duplicate", "reorder", "delay")


@dataclass(slots=True)
class Asked:
    """One send that was asked for, and what came of the asking."""

    person: Person
    text: str
    after_stop: bool
    answer: dict[str, Any] = field(default_factory=dict)


class Day:
    """The day: who there is, what was asked, and the server in its lives."""

    def __init__(self, folder: Path, places: Places, chance: random.Random, sends: int) -> None:
        self._folder = folder
        self._places = places
        self._chance = chance
        self._sends = sends
        self._clock = Clock(folder / "clock")
        self._ahead = 0.0
        self._process: subprocess.Popen[str] | None = None
        self._url, self._token = "", ""
        self.people: list[Person] = []
        self.asked: list[Asked] = []
        self.found: list[str] = []
        self.kills = 0

    # --- the server ------------------------------------------------------------------------

    def start(self) -> None:
        """Start it, where it was before."""
        port = int(self._url.rpartition(":")[2] or 0)
        asked = json.dumps({"folder": str(self._folder), "port": port})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crash.clocked", asked],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self._folder / "log").open("a"),
            text=True,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            raise RuntimeError((self._folder / "log").read_text()[-4000:])
        told = json.loads(said)
        self._url, self._token = told["url"], told["token"]

    def kill(self) -> None:
        """`kill -9`."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _client(self) -> httpx.AsyncClient:
        bearer = {"Authorization": f"Bearer {self._token}"}
        return httpx.AsyncClient(
            base_url=self._url, headers=bearer, timeout=PATIENCE, verify=False, trust_env=False
        )

    def move(self, seconds: float) -> None:
        """Let time pass, for the server and for the platforms."""
        self._ahead += seconds
        for there in self._places.scenes.values():
            there.platform.move(seconds=seconds)
        self._clock.set(self._ahead)

    # --- the day ---------------------------------------------------------------------------

    async def begin(self, people: int) -> None:
        """Accounts, agents, and people who wrote once."""
        self.move(0.0)
        self.start()
        async with self._client() as boss:
            for name, there in self._places.scenes.items():
                body = {"provider": name, "given": there.given(self._url), "public_url": self._url}
                made = await self._ok(boss.post("/v1/accounts", json=body))
                if made.get("webhook") and not made.get("announced"):
                    there.hook(self._url + made["webhook"])
                account = made["state"]["account_id"]
                await self._ok(boss.post("/v1/sessions", json={"session_id": f"agent-{name}"}))
                path = f"/v1/sessions/agent-{name}/accounts/{name}/{account}"
                await self._ok(boss.put(path, json={}))
                await asyncio.to_thread(there.attended)
            limits = {f"{one}_per_{per}": 0 for one in ("session", "account", "recipient")
                      for per in ("hour", "day")}  # fmt: skip
            limits["recipient_per_hour"] = PER_HOUR
            await self._ok(boss.put("/v1/limits", json=limits))
        for number in range(people):
            who = self._places.person(PLATFORMS[number % len(PLATFORMS)], 1000 + number)
            self.people.append(who)
            self._places.says(who, "hello")
        await self._arrive()

    async def run(self) -> None:
        """Batch after batch; the clock goes round once."""
        batches = -(-self._sends // BATCH)
        deaths = {batches // 3, 2 * batches // 3}
        for number in range(batches):
            size = min(BATCH, self._sends - number * BATCH)
            self._trouble()
            batch = [self._ask(number * BATCH + n) for n in range(size)]
            self.asked += batch
            await self._say(batch, dies=number in deaths)
            before = self._ahead
            await self._settle()
            await self._people_speak(batch)
            if number in deaths:
                for there in self._places.scenes.values():
                    there.again()
                await self._arrive()
            self.move(max(0.0, DAY_SECONDS / batches - (self._ahead - before)))
            if number % 10 == 9:
                print(f"{number * BATCH + size:,} asked for", file=sys.stderr, flush=True)

    def _ask(self, number: int) -> Asked:
        who = self._chance.choice(self.people)
        return Asked(who, f"send {number:06} of this day", who.stopped)

    def _trouble(self) -> None:
        for there in self._places.scenes.values():
            for _ in range(self._chance.randrange(4)):
                fault = self._chance.choice(CALL_FAULTS + EVENT_FAULTS)
                more: dict[str, Any] = {}
                if fault in ("status", "late_status"):
                    more["status"] = self._chance.choice([500, 502, 503])
                if fault in ("rate_limit", "delay"):
                    more["wait"] = self._chance.choice([1, 2, 5])
                there.platform.fault(fault, times=self._chance.randint(1, 2), **more)

    async def _say(self, batch: Sequence[Asked], *, dies: bool) -> None:
        """Ask for all of them; what a death left unanswered is asked again under its key."""
        half = len(batch) // 2 if dies else 0
        waiting = list(batch)
        if dies:
            dying = asyncio.create_task(self._ask_all(waiting, ends_after=half))
            await dying
            self.kill()
            self.kills += 1
            self.start()
            for there in self._places.scenes.values():
                await asyncio.to_thread(there.attended)
            waiting = [one for one in batch if not one.answer]
        await self._ask_all(waiting)

    async def _ask_all(self, waiting: Sequence[Asked], ends_after: int | None = None) -> None:
        """Each at its turn, some at once; in a life that ends, only until so many are answered."""
        left = iter(waiting)
        answered = 0
        enough = asyncio.Event()

        async def worker(boss: httpx.AsyncClient) -> None:
            nonlocal answered
            for one in left:
                platform = one.person.platform
                body = {"session_id": f"agent-{platform}", "to": one.person.to, "text": one.text}
                key = {"Idempotency-Key": one.text}
                answer = await boss.post("/v1/send", json=body, headers=key)
                if answer.status_code >= 500:
                    self.found.append(f"{one.text}: answered {answer.text[:200]}")
                one.answer = answer.json()
                answered += 1
                if ends_after is not None and answered >= ends_after:
                    enough.set()

        async with self._client() as boss:
            workers = [asyncio.create_task(worker(boss)) for _ in range(AT_ONCE)]
            if ends_after is not None:
                await enough.wait()
                self.kill()
                await asyncio.gather(*workers, return_exceptions=True)
                return
            await asyncio.gather(*workers)

    async def _settle(self) -> None:
        """Let time pass until nothing is under way."""
        async with self._client() as boss:
            for _ in range(STEPS):
                for there in self._places.scenes.values():
                    there.release()
                open_ = 0
                for state in ("pending", "sending", "uncertain"):
                    asked = {"state": state, "limit": "500"}
                    page = await self._ok(boss.get("/v1/deliveries", params=asked))
                    # What nobody can find out by itself waits for a person.
                    open_ += sum(not one["parked"] for one in page["deliveries"])
                if not open_:
                    break
                await asyncio.sleep(0.1)
                self.move(STEP_SECONDS)
            else:
                self.found.append(f"{open_} are under way for ever")
        await self._arrive()

    async def _arrive(self) -> None:
        """Let what is late or tried again be due, and wait until it is there."""
        for _ in range(ARRIVALS):
            self.move(STEP_SECONDS)
            if await asyncio.to_thread(self._places.quiet):
                return
            await asyncio.sleep(0.05)
        self.found.append("events are on their way for ever")

    async def _people_speak(self, batch: Sequence[Asked]) -> None:
        """Some answer what they saw; now and then somebody says stop."""
        for one in batch:
            said_now = one.answer.get("id") and self._chance.random() < 0.3
            if said_now and not one.person.stopped:
                if one.text not in [text for _, text in self._places.seen(one.person)]:
                    continue
                text = f"answer to {one.text}"
                one.person.answers[text] = one.text
                self._places.says(one.person, text)
        stopping = []
        if self._chance.random() < 0.3:
            stopping = [self._chance.choice([it for it in self.people if not it.stopped])]
        for who in stopping:
            self._places.says(who, self._chance.choice(["stop", "STOP!", "unsubscribe"]))
        # What trouble is left is over, and what was held back to come later comes.
        for there in self._places.scenes.values():
            there.platform.calm()
        await self._arrive()
        for who in stopping:
            await self._stopped(who)

    async def _stopped(self, who: Person) -> None:
        """Wait until it is known that somebody said stop."""
        async with self._client() as boss:
            found = await self._ok(boss.get("/v1/people/find", params={"by": who.to}))
            for _ in range(int(PATIENCE / 0.1)):
                params = {"person": found["id"]}
                rows = (await self._ok(boss.get("/v1/consent", params=params)))["consents"]
                if any(one["state"] == "off" for one in rows):
                    who.stopped = True
                    who.seen = [text for _, text in self._places.seen(who)]
                    return
                await asyncio.sleep(0.1)
        self.found.append(f"{who.name} said stop on {who.platform} and nobody heard it")

    async def _ok(self, asking: Any) -> Any:
        answer = await asking
        if answer.status_code >= 300:
            raise RuntimeError(f"{answer.request.url}: {answer.text[:500]}")
        return answer.json()

    # --- the judge -------------------------------------------------------------------------

    async def judge(self) -> dict[str, int]:
        """What the platforms' logs and the records say against it; and the day in numbers."""
        self.kill()
        url = f"sqlite:{self._folder / 't.db'}"
        async with Threadline.open(url, key=KEY, indexing=False, clock=self._clock) as line:
            sends = await _sends(line)
            records = {who.place: await _records(line, who, sends) for who in self.people}
            whole = (await line.audits.verify()).whole
        if not whole:
            self.found.append("the chain of the audit does not hold")
        said = self._places.all_said()
        self._judge_sends(sends, records, said)
        for who in self.people:
            self._judge_person(who, records[who.place])
        states = Counter(one.state.value for one in sends.values())
        refused = Counter(
            one.answer.get("code", "") for one in self.asked if not one.answer.get("id")
        )
        return dict(states) | {f"refused as {code}": n for code, n in refused.items()} | {
            "effects": said.total(),
            "answers": sum(len(who.answers) for who in self.people),
            "stops": sum(who.stopped for who in self.people),
            "kills": self.kills,
        }  # fmt: skip

    def _judge_sends(
        self,
        sends: dict[str, SendStatus],
        records: dict[str, list[TranscriptRecord]],
        said: Counter[str],
    ) -> None:
        asked = {one.text for one in self.asked}
        ids = {one.answer.get("id") for one in self.asked}
        self.found += [f"{text!r} was said {n} times" for text, n in said.items() if n > 1]
        self.found += [f"{text!r} was never asked for" for text in said if text not in asked]
        self.found += [f"{name!r} is a send nobody asked for" for name in sends.keys() - ids]
        real = {(who.place, *one) for who in self.people for one in self._places.seen(who)}
        for one in self.asked:
            send = sends.get(one.answer.get("id", ""))
            if bool(one.answer.get("id")) is not (send is not None):
                self.found.append(f"{one.text}: {one.answer} and {send}")
            mine = [it for it in records[one.person.place] if it.text == one.text]
            proofs = [(one.person.place, str(it.message_id), it.text) for it in mine]
            wanted = 0
            if send is not None and send.state is SendState.DELIVERED:
                wanted = 1
            if len(mine) != wanted or not set(proofs) <= real:
                self.found.append(f"{one.text}: {len(mine)} records, {send and send.state}")
            uncertain = send is not None and send.state is SendState.UNCERTAIN
            if said[one.text] != wanted and not uncertain:
                self.found.append(
                    f"{one.text}: said {said[one.text]} times, {send and send.state.value}"
                )
            if send is not None and send.state in (SendState.OPEN, SendState.SCHEDULED):
                sent = send.delivery
                how = (
                    "" if sent is None else f"{sent.state.value}, {sent.reason}, {sent.message_ids}"
                )
                self.found.append(f"{one.text}: is still {send.state.value} ({how})")
            if one.after_stop and one.answer.get("code") != "consent_required":
                self.found.append(f"{one.text}: after a stop it was answered {one.answer}")

    def _judge_person(self, who: Person, records: list[TranscriptRecord]) -> None:
        if who.stopped:
            later = [text for _, text in self._places.seen(who)][len(who.seen) :]
            self.found += [f"{text!r} was said after {who.name} said stop" for text in later]
        for text, first in who.answers.items():
            mine = [one for one in records if one.text == text]
            before = [one.sequence for one in records if one.text == first]
            if len(mine) != 1:
                self.found.append(f"{text!r} is {len(mine)} records")
                continue
            [answer] = mine
            if answer.target_session_id != f"agent-{who.platform}":
                self.found.append(f"{text!r} was given to {answer.target_session_id}")
            if before and before[0] > answer.sequence:
                self.found.append(f"{text!r} stands above what it answers")


async def _sends(line: Threadline) -> dict[str, SendStatus]:
    """Every send, under its id."""
    found: dict[str, SendStatus] = {}
    before: str | None = None
    while page := await line.initiative.list(before=before, limit=500):
        found |= {one.id: one for one in page}
        before = page[-1].id
    return found


async def _records(
    line: Threadline, who: Person, sends: dict[str, SendStatus]
) -> list[TranscriptRecord]:
    """The whole transcript with somebody."""
    refs: set[ConversationRef] = {
        one.delivery.ref for one in sends.values() if one.to == who.to and one.delivery is not None
    }
    found: list[TranscriptRecord] = []
    for ref in refs:
        after: int | None = None
        while True:
            page = await line.conversations.transcript(ref, after=after, limit=500)
            found += [one for one in page.records if one.event is Event.MESSAGE]
            if page.next is None:
                break
            after = page.next
    assert len(refs) <= 1, f"{who} has {refs}"
    return found


def run(outcome: Outcome, *, sends: int) -> None:
    """A day with so many sends."""
    began = time.monotonic()
    with scratch() as folder, ExitStack() as stack:
        day = Day(folder, Places(folder, stack), random.Random(outcome.seed), sends)
        stack.callback(day.kill)

        async def live() -> dict[str, int]:
            await day.begin(people=max(20, sends // 50))
            await day.run()
            return await day.judge()

        numbers = asyncio.run(live())
    outcome.states = len(day.asked)
    outcome.acknowledged = sum(bool(one.answer.get("id")) for one in day.asked)
    outcome.violate("the day", day.found)
    outcome.seconds = time.monotonic() - began
    outcome.notes.append(", ".join(f"{n:,} {name}" for name, n in sorted(numbers.items())))


def main() -> int:
    """Exit status 0 where nothing was violated."""
    parser = argparse.ArgumentParser(prog="python -m crash.day", description=__doc__)
    parser.add_argument("--sends", type=int, default=10_000, help="how many (10000)")
    parser.add_argument("--seed", type=int, help="as an earlier run printed it")
    parser.add_argument("--json", action="store_true", help="results as JSON, and nothing is kept")
    asked = parser.parse_args()
    outcome = Outcome(WHAT, secrets.randbits(31) if asked.seed is None else asked.seed)
    print(f"seed {outcome.seed}", file=sys.stderr, flush=True)
    run(outcome, sends=asked.sends)
    print(as_json([outcome]) if asked.json else table([outcome]))
    if not asked.json and asked.sends >= 10_000:
        save([outcome], RESULTS)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
