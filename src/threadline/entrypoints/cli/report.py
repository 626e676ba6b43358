"""What `threadline doctor` found: facts, what has to be done, and what is only worth knowing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from threadline.entrypoints.cli.door import Exit


@dataclass(frozen=True, slots=True)
class Fact:
    """Something worth knowing that needs nothing done."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to be done, and what."""

    what: str
    advice: str
    is_damage: bool = False


@dataclass(slots=True)
class Report:
    """Everything that was found. Notes are no fault: they do not change how the command ends."""

    facts: list[Fact] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    looked_at: int = 0

    def fact(self, name: str, value: object) -> None:
        """Note a fact."""
        self.facts.append(Fact(name, str(value)))

    def find(self, what: str, advice: str, *, is_damage: bool = False) -> None:
        """Note something that has to be done."""
        self.findings.append(Finding(what, advice, is_damage))

    def note(self, what: str, advice: str) -> None:
        """Note something that may be meant so."""
        self.notes.append(Finding(what, advice))

    @property
    def code(self) -> Exit:
        """What the command ends with."""
        return Exit.REFUSED if self.findings else Exit.OK

    def plain(self) -> dict[str, Any]:
        """The report as JSON data."""
        return {
            "well": not self.findings,
            "facts": {one.name: one.value for one in self.facts},
            "findings": [asdict(one) for one in self.findings],
            "notes": [{"what": one.what, "advice": one.advice} for one in self.notes],
            "repaired": self.repaired,
            "conversations": self.looked_at,
        }
