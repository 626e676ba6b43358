"""A row of the table, the file the rows are kept in, and the two forms they are shown in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
from rich.table import Table

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "bench.md"
BEGIN = "<!-- from bench/results.json: begin -->"
END = "<!-- from bench/results.json: end -->"

Judged = Literal["ours", "ratio"]


@dataclass(frozen=True, slots=True)
class Target:
    """What DESIGN section 10 asks for: at most or at least so much, of our figure or the ratio."""

    of: Judged
    sign: Literal["<=", ">="]
    bound: float
    unit: str = ""

    def __str__(self) -> str:
        shown = f"{self.bound:,.0f}" if self.bound >= 1000 else f"{self.bound:g}"
        unit = " × raw" if self.of == "ratio" else f" {self.unit}"
        return f"{'≤' if self.sign == '<=' else '≥'} {shown}{unit}"

    def met(self, ours: float, ratio: float | None) -> bool:
        """Whether the figures keep to it."""
        value = ours if self.of == "ours" else ratio
        assert value is not None
        return value <= self.bound if self.sign == "<=" else value >= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement. `ratio` is ours to raw's; `met` is None where nothing was promised."""

    name: str
    engine: str
    disk: str
    ours: float
    raw: float | None
    unit: str
    ratio: float | None
    target: str
    met: bool | None
    note: str = ""


def row(
    name: str,
    engine: str,
    disk: str,
    *,
    ours: float,
    unit: str,
    raw: float | None = None,
    target: Target | None = None,
    note: str = "",
) -> Row:
    """A row with its ratio, held against its target."""
    ratio = None if raw is None else ours / raw
    return Row(
        name=name,
        engine=engine,
        disk=disk,
        ours=_rounded(ours),
        raw=None if raw is None else _rounded(raw),
        unit=unit,
        ratio=None if ratio is None else round(ratio, 3),
        target="" if target is None else str(target),
        met=None if target is None else target.met(ours, ratio),
        note=note,
    )


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A whole run: on what it ran, what it found, and what could not be measured and why."""

    machine: dict[str, str | int | float]
    quick: bool
    rows: list[Row] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def save(results: Results, path: Path = RESULTS) -> None:
    """Keep a run."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")


def load(path: Path = RESULTS) -> Results:
    """The run that was kept."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


HEADINGS = ("measure", "engine", "disk", "ours", "raw", "ratio", "target", "met")


def cells(one: Row) -> tuple[str, ...]:
    """A row as it is shown."""
    met = {None: "", True: "yes", False: "**missed**"}[one.met]
    raw = "" if one.raw is None else f"{_number(one.raw)} {one.unit}"
    ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
    name = f"{one.name} ({one.note})" if one.note else one.name
    ours = f"{_number(one.ours)} {one.unit}"
    return name, one.engine, one.disk, ours, raw, ratio, one.target, met


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(results: Results) -> Table:
    """The rows for a terminal."""
    shown = Table(title="threadline beside the raw driver", title_justify="left")
    for heading in HEADINGS:
        right = heading in ("ours", "raw", "ratio")
        shown.add_column(heading, justify="right" if right else "left", no_wrap=right)
    for one in results.rows:
        style = "red" if one.met is False else None
        shown.add_row(*(cell.replace("**", "") for cell in cells(one)), style=style)
    return shown


def markdown(results: Results) -> str:
    """The rows for the page, with what they were measured on."""
    facts = ", ".join(f"{name}: {value}" for name, value in results.machine.items())
    kind = "A quick run" if results.quick else "A full run"
    lines = [f"{kind} on {facts}.", "", _line(HEADINGS), _line(["---"] * len(HEADINGS))]
    lines += [_line(cells(one)) for one in results.rows]
    if results.left_out:
        lines += ["", "Left out:", "", *(f"- {reason}" for reason in results.left_out)]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def fill(page: str, results: Results) -> str:
    """The page with the table of this run between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{markdown(results)}\n\n{END}{after}"
