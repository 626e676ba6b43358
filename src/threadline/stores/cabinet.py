"""Files on a disk, named by the SHA-256 of their bytes: never by a sender's word.

`blobs` holds the bytes, `links` says which file of which record they are. A file is written beside
its place, synced, then renamed, so what is there is whole, also after a crash and for another
process on the same folder. What was not asked for longest leaves first.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from threadline.core.errors import NO_SPACE, FilesFull
from threadline.core.files import Link, digest_of

MODE = 0o600
PART = 256 * 1024
# What is younger may be on its way to its link.
YOUNG_SECONDS = 300.0
# How far under the quota there is room made, so that not every new file looks at all others.
ROOM = 0.9
_KEY = re.compile(r"[0-9a-f]{16,128}\Z")
_HASH = re.compile(r"[0-9a-f]{64}\Z")


class Shelf:
    """See `core.files.Cabinet`. `quota` is in bytes; without a `folder` it has one of its own,
    which goes with it. What it `holds` leaves only when it is dropped."""

    def __init__(self, folder: Path | None, quota: int, *, holds: bool = False) -> None:
        self._holds = holds
        self._given = folder
        self._quota = quota
        self._root: Path | None = None
        self._held = -1
        self._lock = threading.Lock()

    def find(self, key: str) -> tuple[str, BinaryIO] | None:
        """See `core.files.Cabinet.find`."""
        if self._root is None and (self._given is None or not self._given.is_dir()):
            return None
        link = self._link(self._place("links", key))
        if link is None:
            return None
        path = self._blob(link.sha256)
        try:
            content = path.open("rb")
        except FileNotFoundError:
            self._place("links", key).unlink(missing_ok=True)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return link.sha256, content

    def keep(self, link: Link, content: BinaryIO) -> tuple[str, BinaryIO]:
        """See `core.files.Cabinet.keep`."""
        size = content.seek(0, os.SEEK_END)
        digest = digest_of(content)
        with self._alone():
            blob = self._blob(digest)
            if blob.exists():
                os.utime(blob)
            else:
                self._make_room(size)
                self._write(blob, content)
                self._held += size
            handle = blob.open("rb")
            about = {
                "conversation": link.conversation,
                "sequence": link.sequence,
                "number": link.number,
                "sha256": digest,
            }
            self._write(self._place("links", link.key), io.BytesIO(json.dumps(about).encode()))
        return digest, handle

    def links(self) -> Iterator[Link]:
        """See `core.files.Cabinet.links`. Links to what has left are tidied away."""
        if self._root is None and (self._given is None or not self._given.is_dir()):
            return
        for path in sorted((self._folder() / "links").iterdir()):
            link = self._link(path)
            if link is None:
                continue
            if not self._blob(link.sha256).exists():
                path.unlink(missing_ok=True)
                continue
            yield link

    def drop(self, keys: Sequence[str]) -> None:
        """See `core.files.Cabinet.drop`."""
        with self._alone():
            gone: set[str] = set()
            for key in keys:
                path = self._place("links", key)
                link = self._link(path)
                path.unlink(missing_ok=True)
                if link is not None:
                    gone.add(link.sha256)
            gone -= {link.sha256 for link in self.links()}
            for digest in gone:
                self._remove(self._blob(digest))

    def close(self) -> None:
        """See `core.files.Cabinet.close`."""
        if self._given is None and self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None

    # --- the folder ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Change something, alone among the threads and processes on the folder.

        The file that is locked holds how much there is, for whoever comes next; while somebody is
        at work it says that nobody knows.
        """
        with self._lock:
            lock = os.open(self._folder() / "lock", os.O_RDWR | os.O_CREAT, MODE)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                told = os.pread(lock, 32, 0)
                self._held = int(told) if told.strip().isdigit() else -1
                self._tell(lock, -1)
                try:
                    yield
                finally:
                    self._tell(lock, self._held)
            finally:
                os.close(lock)

    def _tell(self, lock: int, held: int) -> None:
        os.pwrite(lock, f"{held:<32}".encode(), 0)

    def _folder(self) -> Path:
        if self._root is None:
            if self._given is None:
                root = Path(tempfile.mkdtemp(prefix="threadline-files-"))
            else:
                root = self._given
                root.mkdir(parents=True, exist_ok=True, mode=0o700)
                root.chmod(0o700)
            for name in ("blobs", "links"):
                (root / name).mkdir(exist_ok=True, mode=0o700)
            self._root = root
        return self._root

    def _place(self, kind: str, name: str) -> Path:
        """Where something is; only names we made ourselves ever reach the disk."""
        assert _KEY.match(name), "a key is a hash"
        return self._folder() / kind / name

    def _blob(self, digest: str) -> Path:
        return self._place("blobs", digest)

    def _link(self, path: Path) -> Link | None:
        try:
            about = json.loads(path.read_bytes())
            link = Link(key=path.name, **about)
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return link if _KEY.match(link.key) and _HASH.match(link.sha256) else None

    def _write(self, path: Path, content: BinaryIO) -> None:
        fresh = path.with_name(f"new-{secrets.token_hex(8)}")
        try:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "wb") as file:
                shutil.copyfileobj(content, file, PART)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        except BaseException as error:
            fresh.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno in NO_SPACE:
                raise FilesFull(f"(the disk has none: {error.strerror})") from None
            raise

    def _make_room(self, size: int) -> None:
        """Let the oldest go until there is room for so many bytes more."""
        if self._held >= 0 and self._held + size <= self._quota:
            return
        found: list[tuple[float, int, Path]] = []
        for path in (self._folder() / "blobs").iterdir():
            with contextlib.suppress(FileNotFoundError):
                about = path.stat()
                if not _HASH.match(path.name) and time.time() - about.st_mtime > YOUNG_SECONDS:
                    path.unlink(missing_ok=True)  # what a crash left half-written
                    continue
                found.append((about.st_mtime, about.st_size, path))
        self._held = sum(one for _, one, _ in found)
        if self._held + size <= self._quota:
            return
        if self._holds:
            raise FilesFull(f"({self._quota} bytes are allowed, see THREADLINE_FILES_MEGABYTES)")
        aim = max(0, int(self._quota * ROOM) - size)
        for _, _, path in sorted(found):
            if self._held <= aim:
                return
            self._remove(path)

    def _remove(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            size = path.stat().st_size
            path.unlink()
            if self._held >= 0:
                self._held -= size
