"""What a kind of proof found: one row of the closing table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

SHOWN = 20


@dataclass(slots=True)
class Outcome:
    """`states` counts what was judged: cycles, kill points, rebuilt disks."""

    what: str
    seed: int
    states: int = 0
    acknowledged: int = 0
    violations: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    def violate(self, where: str, sentences: Iterable[str]) -> bool:
        """Count violations and keep the first of them; answers whether there were any."""
        before = self.violations
        for sentence in sentences:
            self.violations += 1
            if len(self.found) < SHOWN:
                self.found.append(f"{where}: {sentence}"[:500])
        return self.violations > before

    def add(self, other: Outcome) -> None:
        """Take over what another lane of the same kind found."""
        self.states += other.states
        self.acknowledged += other.acknowledged
        self.violations += other.violations
        self.seconds = max(self.seconds, other.seconds)
        self.found += other.found
        self.notes += other.notes


def table(outcomes: list[Outcome]) -> str:
    """The closing table, and below it what was found."""
    head = ("what", "states", "acknowledged", "violations", "seconds", "seed")
    rows = [
        (
            one.what,
            f"{one.states:,}",
            f"{one.acknowledged:,}",
            f"{one.violations:,}",
            f"{one.seconds:.1f}",
            str(one.seed),
        )
        for one in outcomes
    ]
    wide = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(size) if not n else cell.rjust(size)
            for n, (cell, size) in enumerate(zip(row, wide, strict=True))
        )
        for row in [head, tuple("-" * size for size in wide), *rows]
    ]
    for one in outcomes:
        lines += [f"  {one.what}: {note}" for note in one.notes]
        lines += [f"! {one.what}: {sentence}" for sentence in one.found]
    return "\n".join(lines)


def as_json(outcomes: list[Outcome]) -> str:
    """The same for programs."""
    return json.dumps([asdict(one) for one in outcomes], indent=1)


def from_json(text: str) -> list[Outcome]:
    """Read `as_json` back."""
    return [Outcome(**one) for one in json.loads(text)]


def save(outcomes: list[Outcome], file: Path) -> None:
    """Write the results down."""
    file.write_text(as_json(outcomes) + "\n", "utf-8")
