"""`python -m crash [KIND …] [--seed N] [--slice]`: run, print one closing table, judge."""

from __future__ import annotations

import argparse
import secrets
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from crash import full, kills, platforms, postgres, power, steps, traced
from crash.outcome import Outcome, as_json, from_json, save, table
from threadline.testing.scenes import SCENES

# Counts bound the work; the seconds are there so that a busy machine still comes to an end.
CAP = 120.0
LONG_CAP = 900.0

RESULTS = Path(__file__).with_name("results.json")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of proof: how it runs in `make crash`, and as a slice in `make test`."""

    what: str
    long: Callable[[Outcome], None]
    short: Callable[[Outcome], None]
    lanes: int = 1


# Deaths with a homeserver are in tests/matrix.
PLATFORMS = ("discord", "slack", "telegram", "twilio", "whatsapp")


def _on(name: str, title: str) -> Kind:
    return Kind(
        f"kill -9 while {title} is heard and spoken to",
        lambda it: platforms.run(it, name, rounds=6),
        lambda it: platforms.run(it, name, rounds=1, stride=3),
    )


KINDS = {
    "random": Kind(
        "kill -9 at random moments",
        lambda it: kills.run(it, cycles=1_500, seconds=LONG_CAP),
        lambda it: kills.run(it, cycles=80, seconds=CAP),
        lanes=2,
    ),
    "steps": Kind(
        "kill -9 before every step",
        steps.run,
        lambda it: steps.run(it, stride=9),
    ),
    "power": Kind(
        "power cut, any part of the unsynced",
        lambda it: power.run(it, states=10_000, seconds=LONG_CAP, rounds=8),
        lambda it: power.run(it, states=1_600, seconds=CAP),
        lanes=2,
    ),
    "power-control": Kind(
        "control: with synchronous=NORMAL, which has to lose",
        lambda it: power.control(it, states=2_000, seconds=LONG_CAP),
        lambda it: power.control(it, states=200, seconds=CAP),
    ),
    "full": Kind(
        "disk full at every write, sync failed",
        full.run,
        lambda it: full.run(it, stride=13),
    ),
    "postgres": Kind(
        "kill -9 of PostgreSQL under load",
        lambda it: postgres.run(it, kills=60, judged_every=6),
        lambda it: postgres.run(it, kills=3),
    ),
    "traced": Kind(
        "the kernel fails every sync (strace)",
        traced.run,
        traced.run,
    ),
    **{name: _on(name, SCENES[name].title) for name in PLATFORMS},
}


def main() -> int:
    """Exit status 0 where nothing was violated."""
    parser = argparse.ArgumentParser(prog="python -m crash", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seed", type=int, help="as an earlier run printed it")
    parser.add_argument("--slice", action="store_true", help="a few seconds of each")
    parser.add_argument("--json", action="store_true", help="one kind, here; results as JSON")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.kinds) - set(KINDS)):
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(KINDS)}")
    seed = secrets.randbits(31) if asked.seed is None else asked.seed
    names = list(dict.fromkeys(asked.kinds)) or list(KINDS)
    if asked.json:
        outcome = _here(names[0], seed, asked.slice)
        print(as_json([outcome]))
        return 1 if outcome.violations else 0
    print(f"seed {seed}", flush=True)
    outcomes = _apart(names, seed, asked.slice)
    print(table(outcomes))
    if not asked.slice and names == list(KINDS):
        save(outcomes, RESULTS)
    return 1 if any(one.violations for one in outcomes) else 0


def _here(name: str, seed: int, short: bool) -> Outcome:
    kind = KINDS[name]
    outcome = Outcome(kind.what, seed)
    (kind.short if short else kind.long)(outcome)
    return outcome


def _apart(names: list[str], seed: int, short: bool) -> list[Outcome]:
    """Each lane in a process of its own, two at a time."""
    lanes = deque(
        (name, seed + lane) for name in names for lane in range(1 if short else KINDS[name].lanes)
    )

    def lane(name: str, its: int) -> Outcome:
        command = [sys.executable, "-m", "crash", name, "--json", "--seed", str(its)]
        done = subprocess.run(
            command + ["--slice"] * short, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode not in (0, 1) or not done.stdout:
            failed = Outcome(KINDS[name].what, its)
            failed.violate("the run itself", [f"ended with {done.returncode}"])
            return failed
        return from_json(done.stdout)[0]

    found: dict[str, Outcome] = {}
    with ThreadPoolExecutor(2) as pool:
        for (name, its), outcome in zip(lanes, pool.map(lambda it: lane(*it), lanes), strict=True):
            if KINDS[name].lanes > 1:
                outcome.notes = [f"with seed {its}, {note}" for note in outcome.notes]
            print(f"{outcome.what}: {outcome.states:,} states", file=sys.stderr, flush=True)
            if name in found:
                found[name].add(outcome)
            else:
                found[name] = outcome
    return [found[name] for name in names]


if __name__ == "__main__":
    sys.exit(main())
