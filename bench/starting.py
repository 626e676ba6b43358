"""Starting: what a process pays before it does anything."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from bench.outcome import Row, Target, row
from bench.sizes import Sizes

IMPORT = Target("ours", "<=", 150, "ms")
HELP = Target("ours", "<=", 400, "ms")

_TIMED = """
import time
began = time.perf_counter()
import threadline
print(time.perf_counter() - began)
"""


def rows(sizes: Sizes) -> tuple[list[Row], list[str]]:
    """The rows, and what is left out."""
    imports = [_imported() for _ in range(sizes.starts)]
    found = [row("import threadline", "", "", ours=median(imports) * 1e3, unit="ms", target=IMPORT)]
    program = Path(sys.executable).with_name("threadline")
    helps = [_helped(program) for _ in range(sizes.starts)]
    done = [seconds for seconds in helps if seconds is not None]
    if len(done) < len(helps):
        return found, ["threadline --help: the command line does not start here."]
    helped = row("threadline --help", "", "", ours=median(done) * 1e3, unit="ms", target=HELP)
    return [*found, helped], []


def _imported() -> float:
    ran = subprocess.run(
        [sys.executable, "-c", _TIMED], check=True, capture_output=True, text=True, timeout=60
    )
    return float(ran.stdout)


def _helped(program: Path) -> float | None:
    if not program.exists():
        return None
    began = time.perf_counter()
    ran = subprocess.run([program, "--help"], capture_output=True, timeout=60)
    return time.perf_counter() - began if ran.returncode == 0 else None
