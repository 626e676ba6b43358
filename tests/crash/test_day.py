"""A short piece of `make day`: sends over five platforms with trouble, judged by their own logs.

The whole is `make day`; `python -m crash.day --sends N --seed N` repeats what failed here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SENDS = 150


@pytest.mark.acceptance("H1", "H6", "H7", "H10")
def test_of_a_day_of_sends_every_effect_is_one_record_and_nothing_follows_a_stop(
    request: pytest.FixtureRequest,
) -> None:
    """With duplicates, 429, 5xx, cut connections, late answers, and the server killed twice."""
    seed = request.config.getoption("randomly_seed", default=0)
    command = [sys.executable, "-m", "crash.day", "--json"]
    command += ["--sends", str(SENDS), "--seed", str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout, f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}"
    [outcome] = json.loads(done.stdout)
    assert outcome["found"] == [], f"seed {seed}"
    assert outcome["violations"] == 0
    assert outcome["states"] == SENDS
    assert outcome["acknowledged"] > SENDS / 4
