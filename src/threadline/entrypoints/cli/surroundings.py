"""What `threadline doctor` sees without opening the store: settings, files, the machine.

Every check is a sentence that says what is wrong and one that says what to do.
"""

from __future__ import annotations

import difflib
import http.client
import json
import os
import re
import resource
import shutil
import socket
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

from threadline.config import PREFIX, Settings
from threadline.entrypoints.cli.door import sqlite_file
from threadline.entrypoints.cli.places import shown_url
from threadline.entrypoints.cli.report import Report

ADMIN = "admin.token"
LITTLE_SPACE = 256 * 1024 * 1024
MIB = 1024 * 1024
FEW_FILES = 4_096
PROBE_SECONDS = 2.0
# What the home folder holds of ours: the store and what lies beside it, tokens, files, the demo's.
OURS = re.compile(
    r"threadline\..*|.+\.(db|sqlite3?)([.-].*)?|.+\.(token|key)|server\.url|demo\.json"
    r"|files|attach|platform"
)
OTHERS = stat.S_IRWXG | stat.S_IRWXO
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
ANYWHERE = frozenset({"0.0.0.0", "::"})
# Locks and shared memory of SQLite's log do not hold over these.
REMOTE = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs"),
        *("lustre", "gfs2", "ocfs2", "ncpfs", "davfs", "virtiofs", "fuse.sshfs", "fuse.s3fs"),
        *("fuse.rclone", "fuse.glusterfs", "fuse.ceph", "fuse.davfs2"),
    }
)
# Variables that are no settings of an installation.
FURTHER = frozenset({"TRACE", "TOKEN", "URL"})


def surroundings(
    report: Report, settings: Settings, env: Mapping[str, str], *, repair: bool
) -> None:
    """Note what is wrong around the store."""
    report.fact("store", shown_url(settings.url))
    report.fact("home", settings.folder)
    report.fact("scope", settings.scope)
    misspelt(report, env)
    extras(report, settings)
    listening(report, settings)
    files(report)
    home(report, settings, repair=repair)
    file = sqlite_file(settings.url)
    if file is not None:
        disk(report, file)
    private(report, settings, file, repair=repair)


def misspelt(report: Report, env: Mapping[str, str]) -> None:
    """Variables that look like settings and are none: they change nothing, silently."""
    known = FURTHER | {one.name.upper() for one in fields(Settings)}
    for name in sorted(env):
        word = name.removeprefix(PREFIX)
        if word != name and word not in known:
            near = difflib.get_close_matches(word, known, 1, 0.6)
            advice = f"Did you mean {PREFIX}{near[0]}?" if near else "Remove it."
            report.find(f"{name} is set, and there is no such setting.", advice)


def extras(report: Report, settings: Settings) -> None:
    """What has to be installed for these settings, and what would make it quicker."""
    if sqlite_file(settings.url) is None and find_spec("asyncpg") is None:
        report.find(
            "the store is PostgreSQL, and its driver is not installed.",
            "Run: pip install 'threadline[postgres]'",
        )
    if find_spec("uvloop") is None:
        report.note("uvloop is not installed.", "Serving is quicker with: pip install uvloop")


def listening(report: Report, settings: Settings) -> None:
    """A server that listens for everybody answers only to names it knows."""
    named = [one for one in settings.allowed_hosts.split(",") if one.strip()]
    if settings.host in ANYWHERE and not named:
        report.find(
            f"the server listens on {settings.host}, and no name is allowed but localhost: "
            "whoever calls it from another machine is turned away.",
            "Set THREADLINE_ALLOWED_HOSTS to the names it is called by, parted by commas.",
        )
    if settings.host not in LOOPBACK:
        report.note(
            f"the server listens on {settings.host} and speaks plain HTTP.",
            "Put a proxy with TLS in front of it where tokens cross a network.",
        )


def port(report: Report, settings: Settings, *, is_served: bool) -> None:
    """Whether the server could listen. `is_served` says that one runs on this store already."""
    if is_served or settings.port == 0:
        return
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((settings.host, settings.port))
            return
        except OSError as error:
            reason = error.strerror or str(error)
    what = f"the server could not listen on {settings.host} port {settings.port}: {reason}."
    if _is_threadline(settings):
        if sqlite_file(settings.url) is None:
            return  # Of several nodes on one database this is one.
        what = f"port {settings.port} belongs to a threadline that serves another store."
    elif reason == "Address already in use":
        what = f"port {settings.port} is taken by another program."
    advice = "Choose another: THREADLINE_PORT, or threadline serve --port N."
    if (settings.folder / ADMIN).exists():
        report.find(what, advice)
    else:
        report.note(what, advice)  # Nobody served from this home yet: it may never matter.


def _is_threadline(settings: Settings) -> bool:
    host = "127.0.0.1" if settings.host in ANYWHERE else settings.host
    connection = http.client.HTTPConnection(host, settings.port, timeout=PROBE_SECONDS)
    with suppress(OSError, ValueError, http.client.HTTPException):
        connection.request("GET", "/health", headers={"Host": "localhost"})
        body = json.loads(connection.getresponse().read(4096))
        return isinstance(body, dict) and body.get("service") == "threadline"
    return False


def files(report: Report) -> None:
    """Every stream is an open file. `serve` takes as many as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FEW_FILES:
        report.find(
            f"a process may open only {hard} files, so few readers can be connected at a time.",
            f"Raise the hard limit to {FEW_FILES} or more: ulimit -Hn, LimitNOFILE= of systemd.",
        )


def home(report: Report, settings: Settings, *, repair: bool) -> None:
    """The home folder is for its owner only."""
    folder = settings.folder
    if folder.exists() and not folder.is_dir():
        report.find(f"{folder} is no folder.", "Name another one with THREADLINE_HOME.")
    elif folder.is_dir() and folder.stat().st_mode & OTHERS:
        what = f"others may look into the folder {folder}."
        shut(report, what, folder, 0o700, repair=repair)


def disk(report: Report, file: Path) -> None:
    """Where a SQLite store lies: its size, its room, its file system."""
    if file.exists():
        size = sum(one.stat().st_size for one in (file, Path(f"{file}-wal")) if one.exists())
        report.fact("size", f"{size / MIB:,.1f} MiB")
    folder = next((one for one in (file.parent, *file.parents) if one.is_dir()), None)
    if folder is None:
        return
    free = shutil.disk_usage(folder).free
    report.fact("free space", f"{free / MIB:,.0f} MiB")
    if free < LITTLE_SPACE:
        report.find(
            f"only {free / MIB:,.0f} MiB are free on the disk of {file}.",
            "Free some space. A full disk refuses writes; nothing is half-written.",
        )
    mounts = ""
    with suppress(OSError):
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "replace")
    kind = file_system(folder.resolve(), mounts)
    if kind in REMOTE:
        report.find(
            f"{file} lies on a network file system ({kind}), where SQLite's locks do not hold.",
            "Move the store to a local disk, or use PostgreSQL: THREADLINE_STORE=postgresql://…",
        )
    if kind == "overlay" and Path("/.dockerenv").exists():
        report.note(
            f"{file} lies inside a container and goes with it.",
            "Mount a volume and name it: THREADLINE_HOME.",
        )


def file_system(folder: Path, mounts: str) -> str:
    """The kind of file system a folder lies on, by the text of `/proc/self/mountinfo`.

    >>> file_system(Path("/srv/a"), "1 0 0:1 / / rw - ext4 d rw\\n2 1 0:2 / /srv rw - nfs4 s rw")
    'nfs4'
    """
    found, longest = "", -1
    for line in mounts.splitlines():
        place, mark, kind = line.partition(" - ")
        words = place.split()
        if not mark or len(words) < 5:
            continue
        at = Path(words[4].encode().decode("unicode_escape"))
        if (folder == at or at in folder.parents) and len(str(at)) >= longest:
            found, longest = kind.split()[0], len(str(at))
    return found


def private(report: Report, settings: Settings, file: Path | None, *, repair: bool) -> None:
    """Files that are secrets, or hold what people said, are for their owner only."""
    watched: list[tuple[str, Path]] = [("the token", settings.folder / ADMIN)]
    if file is not None:
        watched.append(("the store", file))
    if settings.key_file or file is not None:
        key = Path(settings.key_file).expanduser() if settings.key_file else Path(f"{file}.key")
        watched.insert(0, ("the key", key))
        if key.exists():
            report.fact("key", key)
    for what, one in watched:
        if one.is_file() and one.stat().st_mode & OTHERS:
            shut(report, f"others may read {what} {one}.", one, 0o600, repair=repair)


def shut(report: Report, what: str, path: Path, mode: int, *, repair: bool) -> None:
    """What is open to others is closed to them, or it is said how."""
    kept = _closed(path) if repair else ""
    if repair and not kept:
        report.repaired.append(f"closed {path} to others")
        return
    only = f" It is left to you: {kept}." if kept else ""
    report.find(what, f"Run: chmod {mode:o} {path}{only}")


def _closed(path: Path) -> str:
    """Close to others what is ours alone, and nothing else; why not, where it is not.

    Looked at and changed through one handle, so that nothing is put in its place in between.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        is_link = path.is_symlink()
        return "it is a link to something else" if is_link else os.strerror(error.errno or 0)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid():
            return "it belongs to another user"
        if stat.S_ISDIR(found.st_mode):
            held = os.listdir(handle)
            if not held:
                return "it holds nothing of threadline's"
            if strange := sorted(one for one in held if not OURS.fullmatch(one)):
                return f"it holds more than threadline's files: {names(strange)}"
        elif not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            return "it has another name besides"
        os.fchmod(handle, stat.S_IMODE(found.st_mode) & ~OTHERS)
    except OSError as error:
        return os.strerror(error.errno or 0)
    finally:
        os.close(handle)
    return ""


def leftover(report: Report, hatch: Path, *, is_served: bool, repair: bool) -> None:
    """A socket that a killed server left behind."""
    if is_served or not hatch.exists():
        return
    if repair:
        hatch.unlink(missing_ok=True)
        report.repaired.append(f"removed {hatch}, left by a server that was killed")
        return
    report.note(
        f"{hatch} was left by a server that was killed.",
        "The next `threadline serve` replaces it; `--repair` removes it.",
    )


def names(found: Iterable[str], most: int = 3) -> str:
    """Some names as words.

    >>> names(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    every = list(found)
    rest = len(every) - most
    return ", ".join(every[:most]) + (f" and {rest} more" if rest > 0 else "")
