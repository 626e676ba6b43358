"""The README's figures are those of the result files."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_no_figure_of_the_readme_was_typed_by_hand() -> None:
    figures = runpy.run_path(str(ROOT / "scripts" / "figures.py"))
    readme = (ROOT / "README.md").read_text("utf-8")

    assert figures["written"](readme) == readme, "run `python scripts/figures.py`"
