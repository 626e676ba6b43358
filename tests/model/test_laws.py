"""The laws hold, whatever is done in whatever order: the machine on each engine, by each door.

The short slice is for every day; `THREADLINE_MODEL=30` runs thirty times as many examples.
`THREADLINE_SHRINK=1` looks for the shortest story of a failure, which may take minutes.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import open_at
from tests.model.doors import Door
from tests.model.machine import Ledger
from threadline.testing.clock import StillClock

TIMES = int(os.environ.get("THREADLINE_MODEL", "1"))
SHRINK = "THREADLINE_SHRINK" in os.environ
EXAMPLES = {
    "flows": {"sqlite": 60 * TIMES, "postgres": 15 * TIMES},
    "http": {"sqlite": 5 * TIMES, "postgres": 2 * TIMES},
}
STEPS = {"flows": 50, "http": 15}
ENOUGH = 10
OFTEN = ["acknowledged", "duplicate", "swept"]
RARELY = [
    "bound after an expiry",
    "deleted before it came",
    "early revision refused",
    "evicted",
    "expired grant is none",
    "gap",
    "gated window ran out",
    "history swept",
    "hold full",
    "imported at the head",
    "imported in front",
    "joined while gated",
    "machines stopped",
    "reassigned where both are present",
    "several named",
    "woken",
]


@pytest.mark.acceptance("B12", "C1", "C5", "C7", "C8", "D8", "D9", "D10", "E1", "F1", "F4", "J1")
@pytest.mark.parametrize("entrance", ["flows", "http"])
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_the_ledger_agrees_with_the_laws_step_by_step(
    engine: str, entrance: str, request: pytest.FixtureRequest, key: bytes, tmp_path: Path
) -> None:
    """Laws 2-7, 12 and 15, and the rules of DESIGN section 3."""
    examples = EXAMPLES[entrance][engine]
    options: dict[str, Any] = {}
    if engine == "sqlite":
        url, options = f"sqlite:{tmp_path / 'model.db'}", {"synchronous": "OFF"}
    else:
        url = request.getfixturevalue("postgres_url")
    clock = StillClock()
    with asyncio.Runner() as runner:
        store = runner.run(open_at(url, key, clock=clock, **options))

        door = None if entrance == "flows" else Door(store)
        if door is not None:
            runner.run(door.open())

        class Here(Ledger):
            def subject(self, scope: str) -> Any:
                if door is None:
                    return super().subject(scope)
                return runner.run(door.enter(scope))

        Here.runner, Here.store, Here.clock, Here.seen = runner, store, clock, Counter()
        try:
            run_state_machine_as_test(
                Here,
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=STEPS[entrance],
                    deadline=None,
                    database=None,
                    print_blob=True,
                    suppress_health_check=list(HealthCheck),
                    phases=[Phase.generate, *([Phase.shrink] if SHRINK else [])],
                ),
            )
        finally:
            if door is not None:
                runner.run(door.close())
            runner.run(store.close())
    print(
        f"\n{engine}, {entrance}: {Here.examples} examples, {Here.actions} actions, "
        f"{dict(Here.seen)}"
    )
    assert Here.examples >= examples
    worth = (OFTEN if examples >= ENOUGH else []) + (RARELY if TIMES >= ENOUGH else [])
    assert [what for what in worth if not Here.seen[what]] == [], "a run that proves little"
