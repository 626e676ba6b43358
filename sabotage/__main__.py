"""`python -m sabotage [--quick] [--only WORDS]`: break the code on purpose.

Each entry of the catalogue is applied to a copy of the tree, its tests run there, and they must
fail. First the same tests run unbroken, so that a red one proves something. Exits 1 where a break
no longer applies, its tests cannot be found, or nobody noticed it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("src", "tests", "crash", "bench", "sabotage", "scripts", "pyproject.toml", "README.md")
WORKERS = 2
TIMEOUT = 300
TOGETHER = 3_600
AT_ONCE = ("-n", str(WORKERS), "--dist", "worksteal")
TESTS_FAILED = 1


@dataclass(frozen=True, slots=True)
class Sabotage:
    """One named break."""

    name: str
    why: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of it: `noticed`, or what went wrong."""

    sabotage: Sabotage
    result: str
    seconds: float

    @property
    def noticed(self) -> bool:
        """Whether a test turned red."""
        return self.result == "noticed"


def catalogue() -> list[Sabotage]:
    """All entries, as they stand in the file."""
    text = (ROOT / "sabotage" / "catalogue.toml").read_text("utf-8")
    return [
        Sabotage(**{**entry, "tests": tuple(entry["tests"])})
        for entry in tomllib.loads(text)["sabotage"]
    ]


def copied(folder: Path) -> Path:
    """A copy of the tree that may be broken."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("*.db*")
            shutil.copytree(source, folder / name, ignore=ignored, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy2(source, folder / name)
    return folder


def tried(
    folder: Path, tests: tuple[str, ...], *, timeout: float = TIMEOUT, options: tuple[str, ...] = ()
) -> tuple[int, list[str]]:
    """Run tests in a copy, for at most so many seconds; pytest's exit code and last words."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["-p", "no:randomly", "-k", "not postgres", *options, *tests]
    env = {**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, timeout=timeout, check=False, text=True
    )
    return done.returncode, done.stdout.splitlines()[-3:]


def broken(sabotage: Sabotage) -> Verdict:
    """Apply one break to a fresh copy and see whether its tests notice."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="threadline-sabotage-") as name:
        folder = copied(Path(name))
        target = folder / sabotage.file
        text = target.read_text("utf-8")
        times = text.count(sabotage.old)
        if times != 1:
            return Verdict(sabotage, f"no longer applies: its text stands {times} times", 0.0)
        target.write_text(text.replace(sabotage.old, sabotage.new), "utf-8")
        try:
            code, _ = tried(folder, sabotage.tests)
        except subprocess.TimeoutExpired:
            code = TESTS_FAILED
    result = {0: "SURVIVED", TESTS_FAILED: "noticed"}.get(code, f"its tests did not run ({code})")
    return Verdict(sabotage, result, time.monotonic() - started)


def unbroken(entries: list[Sabotage]) -> tuple[int, list[str]]:
    """Run every named test on an unbroken copy; as `tried`."""
    tests = tuple(dict.fromkeys(test for entry in entries for test in entry.tests))
    with tempfile.TemporaryDirectory(prefix="threadline-sabotage-") as name:
        return tried(copied(Path(name)), tests, timeout=TOGETHER, options=AT_ONCE)


def main(arguments: list[str] | None = None) -> int:
    """Run the catalogue, or a part of it; print one table."""
    parser = argparse.ArgumentParser(prog="python -m sabotage", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the quick entries")
    parser.add_argument("--only", default="", help="only entries whose name holds these words")
    options = parser.parse_args(arguments)
    entries = [
        entry
        for entry in catalogue()
        if options.only in entry.name and (entry.quick or not options.quick)
    ]
    console = Console()
    if not entries:
        console.print("No entry has such a name.")
        return 2
    code, words = unbroken(entries)
    if code:
        console.print(f"The named tests are not green to begin with (pytest says {code}):")
        console.print(*words, sep="\n", markup=False, highlight=False)
        return 1
    verdicts = []
    with ThreadPoolExecutor(WORKERS) as pool:
        for verdict in pool.map(broken, entries):
            verdicts.append(verdict)
            # Long before the table: a run that is cut short has said what it found.
            console.print(f"{verdict.result}: {verdict.sabotage.name}", highlight=False)
    table = Table("sabotage", "noticed by", "result", "s")
    for verdict in verdicts:
        tests = "\n".join(test.rsplit("::", 1)[-1] for test in verdict.sabotage.tests)
        colour = "green" if verdict.noticed else "bold red"
        shown = f"[{colour}]{verdict.result}[/]"
        table.add_row(verdict.sabotage.name, tests, shown, f"{verdict.seconds:.0f}")
    console.print(table)
    noticed = sum(verdict.noticed for verdict in verdicts)
    console.print(f"{noticed} of {len(verdicts)} breaks were noticed.")
    return 0 if noticed == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
