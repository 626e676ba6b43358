"""`threadline` as a process of its own that has read its code before: forked, not executed.

Reading the program's code takes a second of a processor, and the tests start it more than a
thousand times. So each process of the tests keeps one interpreter that has read it and does nothing
else; whoever is started is forked from that one, with the arguments, environment, folder and open
files it would have had. From then on it is like any other: a process with a number, a child of who
started it, ended by the signals that would end it.

What depends on how an interpreter begins (its own settings, a hook before it begins) is executed as
ever, and so is everything where the system cannot hand over a child.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeVar

PROGRAM = str(Path(sys.executable).with_name("threadline"))
# What a server and a command load on their way.
READ = (
    "threadline.entrypoints.cli",
    "threadline.app",
    "threadline.entrypoints.http.server",
    "threadline.stores.sqlite",
    "threadline.stores.postgres",
)
# What an interpreter looks at before it runs a line.
BEGINNING = ("PYTHON", "LC_", "LANG")
ADOPT = 36  # PR_SET_CHILD_SUBREAPER
HEAD = 8

S = TypeVar("S", str, bytes)


class _Reader:
    """The interpreter that has read the code, as the process of the tests holds it."""

    def __init__(self) -> None:
        self.ours, its = socket.socketpair()
        self.beginning = _beginning(os.environ)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm", str(its.fileno())],
            pass_fds=[its.fileno()],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.DEVNULL,
        )
        its.close()
        self._libc = ctypes.CDLL(None)
        self._one = threading.Lock()
        atexit.register(self.close)

    def fork(self, job: dict[str, Any], files: list[int]) -> int:
        """A new child of this process, which does the job with these three files."""
        said = json.dumps(job).encode()
        with self._one:
            # The child of a child that ended is taken over by who asked for it.
            self._libc.prctl(ADOPT, 1, 0, 0, 0)
            try:
                socket.send_fds(self.ours, [len(said).to_bytes(HEAD, "big")], files)
                self.ours.sendall(said)
                return int.from_bytes(_exactly(self.ours, HEAD), "big")
            finally:
                self._libc.prctl(ADOPT, 0, 0, 0, 0)

    def close(self) -> None:
        """Let it end."""
        self.ours.close()
        self._process.wait()


_reader: _Reader | None = None


def _beginning(environment: Any) -> dict[str, str]:
    return {name: it for name, it in environment.items() if name.startswith(BEGINNING)}


def _exactly(end: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = end.recv(size - len(found))
        if not more:
            raise EOFError
        found += more
    return found


class Popen(subprocess.Popen[S]):
    """`subprocess.Popen` for `threadline`."""

    def _execute_child(  # type: ignore[no-untyped-def]
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest
    ) -> None:
        global _reader
        environment = {os.fsdecode(name): os.fsdecode(it) for name, it in (env or {}).items()}
        beginning = _beginning(os.environ)
        if (
            args[0] != PROGRAM
            or sys.platform != "linux"
            or executable is not None
            or preexec_fn is not None
            or pass_fds
            or env is None
            or _beginning(environment) != beginning
        ):
            super()._execute_child(  # type: ignore[misc]
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest
            )
            return
        if _reader is None or _reader.beginning != beginning:
            _reader = _Reader()
        _, _, _, stdin, into, out, stdout, err, stderr, *_ = rest
        job = {
            "words": [os.fsdecode(word) for word in args],
            "environment": environment,
            "folder": os.fspath(cwd or os.getcwd()),
        }
        files = [
            number if one == -1 else one for number, one in ((0, stdin), (1, stdout), (2, stderr))
        ]
        self.pid = _reader.fork(job, files)
        self._child_created = True
        self._close_pipe_fds(stdin, into, out, stdout, err, stderr)  # type: ignore[attr-defined]


def run(
    words: list[str], *, said: S | None = None, timeout: float = 120.0, **options: Any
) -> subprocess.CompletedProcess[S]:
    """`subprocess.run` for `threadline`: what it is told, and all it says."""
    pipe = subprocess.PIPE
    with Popen[S](words, stdin=pipe, stdout=pipe, stderr=pipe, **options) as process:
        try:
            out, err = process.communicate(said, timeout)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(words, process.wait(), out, err)


# --- the interpreter that has read the code -------------------------------------------------------


def _wait(end: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each who asks; the answer comes in the child alone: what to do, and its files."""
    while True:
        head, files, _, _ = socket.recv_fds(end, HEAD, 3)
        if not head:
            # The process of the tests has ended.
            os._exit(0)
        head += _exactly(end, HEAD - len(head))
        job: dict[str, Any] = json.loads(_exactly(end, int.from_bytes(head, "big")))
        held, holding = os.pipe()
        said, saying = os.pipe()
        between = os.fork()
        if not between:
            child = os.fork()
            if child:
                os.write(saying, child.to_bytes(HEAD, "big"))
                os._exit(0)
            for one in (said, saying, holding):
                os.close(one)
            # Until the process between is gone, and another the parent.
            os.read(held, 1)
            os.close(held)
            end.close()
            return job, files
        for one in (held, holding, saying, *files):
            os.close(one)
        child = int.from_bytes(os.read(said, HEAD), "big")
        os.close(said)
        os.waitpid(between, 0)
        end.sendall(child.to_bytes(HEAD, "big"))


def _become(job: dict[str, Any], files: list[int]) -> None:
    """Be the process that was asked for, up to its first line."""
    for number, one in enumerate(files):
        os.dup2(one, number)
    for one in files:
        os.close(one)
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environment"])
    time.tzset()
    sys.argv[:] = job["words"]
    # As an executed script has it.
    sys.path[0] = str(Path(PROGRAM).parent)
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        old: TextIOWrapper = getattr(sys, name)
        new = TextIOWrapper(
            os.fdopen(number, "rb" if number == 0 else "wb", closefd=False),
            encoding=old.encoding,
            errors=old.errors,
            line_buffering=number == 2 or os.isatty(number),
            write_through=old.write_through,
        )
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def main() -> None:
    """Read the code, then be whoever is asked for."""
    end = socket.socket(fileno=int(sys.argv[1]))
    # Whoever stops the tests with a key stops the process of the tests.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in READ:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    job, files = _wait(end)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _become(job, files)
    from threadline.entrypoints.cli import main as begin

    begin()


if __name__ == "__main__":
    main()
