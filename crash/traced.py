"""The kernel says that a sync failed: at every sync of a process that also checkpoints its log.

Only `strace` can make the kernel lie, so this is part of the long run, where it is installed. What
a watched disk cannot show is shown here: a failed sync that SQLite itself keeps quiet about.

`python -m crash.traced FOLDER` is the process: it says `a` for each message that was acknowledged,
`F` for each that was refused.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import apsw

from crash.forks import scratch
from crash.laws import Judge, codec_of, read_sqlite
from crash.ledger import Ledger
from crash.outcome import Outcome
from crash.workload import KEY, TALK, said
from threadline import Threadline
from threadline.core.errors import ThreadlineError

STORE = "t.db"
MESSAGES = 12
BYTES = 3_900_000
INJECTED = re.compile(r"^(\d+) .*<[^>]*/(t\.db[^>]*)>.*INJECTED", re.M)


async def work(folder: Path) -> None:
    """Say so much that the log has to be moved into the database on the way."""
    url = f"sqlite:{folder / STORE}"
    async with Threadline.open(url, key=KEY, indexing=False) as line:
        for number in range(MESSAGES):
            message = said(TALK[0], f"m{number}", f"{number}" + "x" * BYTES)
            try:
                await line.inbound.receive(message)
            except ThreadlineError:
                print("F", end="", flush=True)
            else:
                print("a", end="", flush=True)


def run(outcome: Outcome) -> None:
    """Fail the first sync, the second, until a run meets no failure."""
    began = time.monotonic()
    strace = shutil.which("strace")
    if strace is None:
        outcome.notes.append("not run: strace is not installed")
        return
    number, met = 1, True
    while met:
        with scratch() as folder:
            asyncio.run(_prepare(folder))
            met = _one(outcome, strace, folder, number)
        number += 1
    outcome.seconds = time.monotonic() - began


async def _prepare(folder: Path) -> None:
    async with Threadline.open(f"sqlite:{folder / STORE}", key=KEY, indexing=False):
        pass


def _one(outcome: Outcome, strace: str, folder: Path, number: int) -> bool:
    trace = folder / "trace"
    command = [strace, "-f", "-y", "-o", str(trace), "-e", "trace=fdatasync,fsync"]
    command += ["-e", f"inject=fdatasync,fsync:error=EIO:when={number}"]
    command += [sys.executable, "-m", "crash.traced", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    log = trace.read_text("utf-8", "replace")
    hits = INJECTED.findall(log)
    if not hits:
        return False
    said_so, found = done.stdout, []
    # The process's own thread ends last; it syncs only while it opens and closes.
    main = log.rstrip().rpartition("\n")[2].split(" ", 1)[0]
    if "Fa" in said_so:
        found.append(f"acknowledged again after a failure: {said_so}")
    if any(thread != main for thread, _ in hits) and "F" not in said_so:
        found.append(f"went on as if nothing were ({hits}): {said_so}")
    ledger = Ledger()
    for place, letter in enumerate(said_so):
        if letter == "a":
            ledger.plain[TALK[0], f"{place}" + "x" * BYTES] = place + 1
    connection = apsw.Connection(str(folder / STORE))
    try:
        judge = Judge(read_sqlite(connection), codec_of(KEY))
    finally:
        connection.close()
    found += [*judge.structure(), *judge.kept(ledger)]
    outcome.states += 1
    outcome.acknowledged += said_so.count("a")
    outcome.violate(f"sync {number}", [sentence[:300] for sentence in found])
    return True


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1])))
