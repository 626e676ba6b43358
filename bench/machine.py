"""What the figures depend on: cores, versions, how quickly the disk syncs. No names, no paths."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

SYNC_SECONDS = 0.5


def facts(folder: Path, *, loop: str, postgres: str) -> dict[str, str | int | float]:
    """The facts that matter, as they go into the results."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "Python": platform.python_version(),
        "SQLite": apsw.sqlite_lib_version(),
        "PostgreSQL": postgres,
        "event loop": loop,
        "fdatasync of 4 KiB a second": fdatasyncs(folder),
        "load before": round(os.getloadavg()[0], 1),
    }


def fdatasyncs(folder: Path, seconds: float = SYNC_SECONDS) -> int:
    """How many times a second 4 KiB can be made durable."""
    file = os.open(folder / "sync", os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(file, bytes(4096 * 64), 0)
        os.fsync(file)
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            os.pwrite(file, count.to_bytes(8, "big") * 512, 4096 * (count % 64))
            os.fdatasync(file)
            count += 1
        return round(count / (time.perf_counter() - began))
    finally:
        os.close(file)


@contextmanager
def tuned() -> Iterator[None]:
    """The garbage collector as a server sets it: what is there is frozen, looking is rare."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
