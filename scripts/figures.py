"""Writes the README's figures from the result files, so that no figure is typed by hand.

`python scripts/figures.py` after `make crash`, `make day` or `make bench`; a test compares.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BEGIN = "<!-- figures: begin -->"
END = "<!-- figures: end -->"


def runs(rows: list[dict[str, Any]], head: str) -> list[str]:
    """A table of what was tried and held, under its own words."""
    lines = [f"| {head} | violations | seed |", "| --- | ---: | ---: | ---: | ---: |"]
    for row in rows:
        states, told = f"{row['states']:,}", f"{row['acknowledged']:,}"
        lines.append(f"| {row['what']} | {states} | {told} | {row['violations']} | {row['seed']} |")
    return [*lines, ""]


def crash(rows: list[dict[str, Any]]) -> list[str]:
    """The table of kills, cuts and full disks."""
    # What ran in two processes has the notes of each.
    notes = (f"- {row['what']}: {' / '.join(row['notes'])}" for row in rows if row["notes"])
    return [*runs(rows, "`make crash` | states | acknowledged"), *notes]


def day(rows: list[dict[str, Any]]) -> list[str]:
    """The table of the day of sends."""
    notes = (f"- {note}" for row in rows for note in row["notes"])
    return [*runs(rows, "`make day` | sends asked for | taken"), *notes]


def bench(found: dict[str, Any]) -> list[str]:
    """The rows that have a target, with what was reached."""
    said = ", ".join(f"{name}: {value}" for name, value in found["machine"].items())
    kind = "A quick run" if found["quick"] else "A full run"
    lines = [
        f"{kind} of `make bench` ({said}).",
        "",
        "| `make bench` | engine | disk | ours | raw | target | met |",
        "| --- | --- | --- | ---: | ---: | --- | --- |",
    ]
    for row in found["rows"]:
        if row["met"] is None:
            continue
        raw = "" if row["raw"] is None else figure(row["raw"])
        met = "yes" if row["met"] else "**missed**"
        unit = row["unit"]
        lines.append(
            f"| {row['name']} | {row['engine']} | {row['disk']} | {figure(row['ours'])} {unit} "
            f"| {raw} | {row['target']} | {met} |"
        )
    return lines


def figure(value: float) -> str:
    """A number as people read it."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def section() -> str:
    """The whole section between the markers."""
    kills = json.loads((ROOT / "crash" / "results.json").read_text("utf-8"))
    sends = json.loads((ROOT / "crash" / "day.json").read_text("utf-8"))
    speed = json.loads((ROOT / "bench" / "results.json").read_text("utf-8"))
    return "\n".join([BEGIN, "", *crash(kills), "", *day(sends), "", *bench(speed), "", END])


def written(readme: str) -> str:
    """The README with the section as it has to be."""
    before, rest = readme.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    return before + section() + after


if __name__ == "__main__":
    page = ROOT / "README.md"
    page.write_text(written(page.read_text("utf-8")), "utf-8")
