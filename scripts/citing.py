"""One table for `make acceptance` and `make cases`: id → tests → result.

An id of a finished capability without a test, or with a test that did not pass, is an error; so is
a test that cites an id nobody knows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

Cited = dict[str, dict[str, Any]]

ROOT = Path(__file__).resolve().parents[1]
OWNERS = ROOT / "tests" / "acceptance.toml"


@dataclass(slots=True)
class Promise:
    """One id: whose it is, what it says, and which tests prove it."""

    id: str
    owner: str
    sentence: str
    tests: dict[str, str] = field(default_factory=dict)

    @property
    def result(self) -> str:
        """`passed`, or what is wrong; empty where nothing was run."""
        if not self.tests:
            return "no test"
        outcomes = set(self.tests.values())
        if outcomes <= {"passed"}:
            return "passed"
        return next((one for one in ("failed", "skipped") if one in outcomes), "")


def main(marker: str, promises: Sequence[Promise], arguments: Sequence[str]) -> int:
    """Run or collect the tests with this marker; print the table; answer the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collect-only", action="store_true", help="run nothing, only look")
    parser.add_argument("--processes", default="2", help="how many tests run at once")
    options = parser.parse_args(arguments)
    code, [cited] = gather(marker, collect=options.collect_only, processes=options.processes)
    finished = set(tomllib.loads(OWNERS.read_text("utf-8"))["finished"])
    wrong = judge(promises, cited, finished, ran=not options.collect_only)
    show(promises, finished, ran=not options.collect_only)
    if code:
        wrong.append(f"pytest ended with {code}.")
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


def owners() -> dict[str, Any]:
    """What `tests/acceptance.toml` says."""
    return tomllib.loads(OWNERS.read_text("utf-8"))


def gather(*markers: str, collect: bool, processes: str = "2") -> tuple[int, list[Cited]]:
    """Every test that cites something, for each marker: its ids, and how it went."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "citations.json"
        command = [sys.executable, "-m", "pytest", "-p", "tests.citations", "--quiet"]
        command += [f"--cited-as={marker}" for marker in markers]
        command += ["--citations", str(file), "--no-header"]
        command += ["--collect-only"] if collect else ["-n", processes]
        environment = {name: it for name, it in os.environ.items() if "PYTEST" not in name}
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE if collect else None,
            stderr=subprocess.STDOUT if collect else None,
            check=False,
        )
        if collect and done.returncode:
            print(done.stdout.decode("utf-8", "replace"), file=sys.stderr)
        found = json.loads(file.read_text("utf-8")) if file.exists() else {}
        return done.returncode, [
            {
                nodeid: {"cites": test["cites"][marker], "outcome": test["outcome"]}
                for nodeid, test in found.items()
                if marker in test["cites"]
            }
            for marker in markers
        ]


def judge(
    promises: Sequence[Promise],
    cited: Mapping[str, Mapping[str, Any]],
    finished: set[str],
    *,
    ran: bool,
) -> list[str]:
    """Give every promise its tests; answer a sentence for all that is wrong."""
    known = {promise.id: promise for promise in promises}
    wrong = []
    for nodeid, test in cited.items():
        for one in test["cites"]:
            if one not in known:
                wrong.append(f"{nodeid} cites {one}, which nobody knows.")
                continue
            known[one].tests[nodeid] = test["outcome"]
    for promise in promises:
        if promise.owner not in finished:
            continue
        if not promise.tests:
            wrong.append(f"{promise.id} has no test: {promise.sentence}")
        elif ran and promise.result != "passed":
            red = [it for it, outcome in promise.tests.items() if outcome != "passed"]
            wrong.append(f"{promise.id} is not proven: {red[0]}")
    return wrong


def show(promises: Sequence[Promise], finished: set[str], *, ran: bool) -> None:
    """Print id → tests → result."""
    table = Table("id", "owner", "what", title="What is promised, and its proof")
    table.add_column("tests", overflow="fold")
    table.add_column("result")
    colours = {"passed": "green", "failed": "red", "skipped": "red"}
    for promise in sorted(promises, key=_order):
        functions = sorted({nodeid.partition("[")[0] for nodeid in promise.tests})
        names = "\n".join(it.removeprefix("tests/") for it in functions)
        result = promise.result if ran or not promise.tests else f"{len(promise.tests)} collected"
        if not promise.tests and promise.owner not in finished:
            result = "later"
        colour = colours.get(result, "red" if result == "no test" else "dim")
        sentence = escape(promise.sentence)
        table.add_row(promise.id, promise.owner, sentence, names, f"[{colour}]{result}[/]")
    Console(width=None if sys.stdout.isatty() else 180).print(table)


def _order(promise: Promise) -> tuple[str, int]:
    letter, number = re.fullmatch(r"([A-Z]+)(\d+)", promise.id).groups()  # type: ignore[union-attr]
    return letter, int(number)
