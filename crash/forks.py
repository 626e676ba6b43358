"""Children that are born quickly, and die when somebody wants it.

A fork shares what the parent imported, so a life begins in milliseconds. The parent has no thread
and no open store while it forks.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_exit = os._exit


@dataclass(slots=True)
class Life:
    """What became of a child: what it wrote, and whether it was killed."""

    written: bytes
    killed: bool
    code: int


def live(
    work: Callable[[int], None],
    seconds: float | None = None,
    *,
    after: bytes = b"",
    heard: int = 0,
) -> Life:
    """Run `work(pipe)` in a child; `kill -9` it after so many seconds unless it ended before.

    The seconds count from when it said `after` and so many bytes, where that is given: on a busy
    machine a life is slower, not shorter.
    """
    near, far = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(near)
        try:
            work(far)
        except BaseException:
            traceback.print_exc()
            _exit(70)
        _exit(0)
    os.close(far)
    written: list[bytes] = []
    begun, count = False, 0
    end = None if seconds is None or after else time.monotonic() + seconds
    try:
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([near], [], [], left)[0]:
                break
            data = os.read(near, 1 << 16)
            if not data:
                break
            written.append(data)
            begun = begun or after in data
            count += len(data)
            if end is None and seconds is not None and begun and count >= heard:
                end = time.monotonic() + seconds
    finally:
        os.kill(child, signal.SIGKILL)
        while data := os.read(near, 1 << 16):
            written.append(data)
        os.close(near)
        _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return Life(b"".join(written), code == -signal.SIGKILL, code)


MEMORY = Path("/dev/shm")


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for stores that are killed, in memory where the machine has that.

    A `kill -9` takes nothing from the kernel, so what is judged is the same there, only sooner.
    """
    quick = MEMORY if os.access(MEMORY, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="threadline-crash-", dir=quick))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
