"""A short slice of `make crash`: each kind, in a process of its own, with a seed that is printed.

The long run is `make crash`; `python -m crash KIND --slice --seed N` repeats what failed here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crash.__main__ import PLATFORMS

ROOT = Path(__file__).parents[2]


def sliced(kind: str, seed: int) -> dict[str, Any]:
    """What a slice found."""
    command = [sys.executable, "-m", "crash", kind, "--slice", "--json", "--seed", str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout, f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}"
    print(done.stderr[-20_000:])  # Shown where it fails: what a life that broke off had to say.
    [outcome] = json.loads(done.stdout)
    found: dict[str, Any] = outcome
    return found


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run, as pytest prints it."""
    given: int = request.config.getoption("randomly_seed", default=0)
    return given


@pytest.mark.acceptance("B6", "D2")
@pytest.mark.parametrize(
    ("kind", "states"),
    [("random", 20), ("steps", 60), ("power", 100), ("full", 5), ("postgres", 3)],
)
def test_what_was_acknowledged_is_there_exactly_once(kind: str, states: int, seed: int) -> None:
    """Laws 1 to 3: after kills, power loss, a full disk, and kills of the database server."""
    outcome = sliced(kind, seed)

    assert outcome["found"] == [], f"seed {outcome['seed']}"
    assert outcome["violations"] == 0
    assert outcome["states"] >= states
    assert outcome["acknowledged"] > 0


@pytest.mark.acceptance("B6", "G5")
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_platform_that_is_heard_and_spoken_to_loses_and_doubles_nothing(
    platform: str, seed: int
) -> None:
    """Killed at steps of hearing and saying; the platform's own log is the judge."""
    outcome = sliced(platform, seed)

    assert outcome["found"] == [], f"seed {outcome['seed']}"
    assert outcome["violations"] == 0
    assert outcome["states"] >= 3
    assert outcome["acknowledged"] > 0


def test_without_syncing_every_commit_a_power_cut_loses_what_was_acknowledged(seed: int) -> None:
    """The control: the same proof notices `synchronous=NORMAL`."""
    outcome = sliced("power-control", seed)

    assert outcome["found"] == [], f"seed {outcome['seed']}"
    assert "lost something" in " ".join(outcome["notes"])
    assert outcome["states"] > 0
