"""How a demo is told in a terminal: numbered steps, and whether each promise was kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.console import Console
from rich.rule import Rule
from rich.text import Text


@dataclass(slots=True)
class Steps:
    """A story of steps."""

    console: Console
    _step: int = field(default=0, init=False)

    def title(self, text: str, *lines: str) -> None:
        """Begin a step."""
        self._step += 1
        self.console.print()
        self.console.print(Rule(f"{self._step}. {text}", align="left", style="bold"))
        if lines:
            self.console.print(" ".join(lines), markup=False)
            self.console.print()

    def verdict(self, kept: bool, text: str) -> bool:
        """Say whether a promise was kept."""
        mark = Text("✓ " if kept else "✗ ", style="bold green" if kept else "bold red")
        self.console.print(mark + Text(text))
        return kept
