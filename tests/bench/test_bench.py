"""The benchmarks run, on both engines and both disks, and what they say is well formed."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.__main__ import PARTS, measure
from bench.machine import facts
from bench.outcome import BEGIN, END, Results, Target, fill, load, markdown, row, save
from bench.platforms import SIMULATED
from bench.sites import REAL, SLOW, sites
from bench.sizes import SLICE

from bench import outcome


async def test_every_part_runs_on_both_engines_and_gives_rows(tmp_path: Path) -> None:
    with sites(tmp_path) as found:
        rows, _ = await measure(PARTS, SLICE, found, tmp_path)

    engines = {(one.engine, one.disk) for one in rows if one.engine}
    assert {("sqlite", REAL), ("postgres", REAL), ("sqlite", SLOW)} <= engines
    assert len({(one.name, one.engine, one.disk) for one in rows}) == len(rows)
    for one in rows:
        assert one.ours > 0, one
        assert (one.raw is None) == (one.ratio is None), one
        assert bool(one.target) == (one.met is not None), one
    for engine in ("sqlite", "postgres"):
        names = " ".join(one.name for one in rows if one.engine == engine)
        for word in (
            "alone",
            "in flight",
            "acks",
            "reader",
            "backfill",
            "import",
            "transcript",
            "HTTP",
            "SSE",
            "deliveries to telegram",
            "signed webhook → SSE reader",
            *(f"signed webhook of {name} → 2xx" for name in (*SIMULATED, "matrix")),
        ):
            assert word in names


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    target = Target("ratio", "<=", 2.0)
    rows = [row("an append", "sqlite", REAL, ours=30.0, raw=20.0, unit="µs", target=target)]
    results = Results(machine={"cores": 2}, quick=True, rows=rows, left_out=["nothing else"])

    save(results, tmp_path / "results.json")

    assert load(tmp_path / "results.json") == results


@pytest.mark.parametrize(
    ("target", "ours", "raw", "met"),
    [
        (Target("ratio", "<=", 2.0), 40.0, 20.0, True),
        (Target("ratio", "<=", 2.0), 41.0, 20.0, False),
        (Target("ratio", ">=", 0.5), 9.9, 20.0, False),
        (Target("ours", ">=", 5_000, "a second"), 5_000.0, None, True),
        (Target("ours", "<=", 3.0, "ms"), 3.1, None, False),
    ],
)
def test_a_missed_target_is_shown_as_missed(
    target: Target, ours: float, raw: float | None, met: bool
) -> None:
    one = row("a row", "sqlite", REAL, ours=ours, raw=raw, unit="µs", target=target)

    shown = markdown(Results(machine={}, quick=False, rows=[one]))

    assert one.met is met
    assert ("**missed**" in shown) is not met


def test_the_machine_is_described_without_names_or_paths(tmp_path: Path) -> None:
    found = facts(tmp_path, loop="uvloop", postgres="18")

    assert found["cores"]
    assert "/" not in " ".join(map(str, found.values()))


def test_the_page_shows_the_run_that_is_kept() -> None:
    page = outcome.PAGE.read_text("utf-8")

    assert page.count(BEGIN) == page.count(END) == 1
    assert page == fill(page, load())
