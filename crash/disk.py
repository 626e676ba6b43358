"""A disk that can be watched: an apsw VFS that tells a `Watch` of every change before it is made.

The watch may count, write down, refuse (by raising) or end the process. Files of threadline's own
that SQLite does not know (the key, the lock) are watched through the functions of `os`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, Protocol

import apsw

_numbers = itertools.count(1)


class Watch(Protocol):
    """What is told of every change to a file; `name` is the file's name without its folder."""

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Bytes are about to be written."""

    def truncate(self, name: str, size: int) -> None:
        """A file is about to be cut."""

    def sync(self, name: str) -> None:
        """A file is about to be synced."""

    def create(self, name: str) -> None:
        """A file is about to be opened; it may be made by that."""

    def delete(self, name: str, synced: bool) -> None:
        """A file is about to be removed; `synced` says whether its folder is synced then."""

    def synced(self, name: str) -> None:
        """A sync has returned."""


class Disk(apsw.VFS):
    """The machine's own VFS with a watch in front of it. `name` is what a store calls it."""

    def __init__(self, watch: Watch) -> None:
        self.name = f"watched-{os.getpid()}-{next(_numbers)}"
        self._watch = watch
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        """Open through the watch."""
        return _File(self._watch, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        """Remove through the watch."""
        self._watch.delete(PurePath(filename).name, syncdir)
        super().xDelete(filename, syncdir)


class _File(apsw.VFSFile):
    def __init__(self, watch: Watch, name: Any, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = PurePath(path or "temporary").name
        self._watch = watch
        watch.create(self._name)
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._watch.write(self._name, offset, data)
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._watch.truncate(self._name, newsize)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self._watch.sync(self._name)
        super().xSync(flags)
        self._watch.synced(self._name)


class Steps:
    """Counts every change, and calls `at` before the chosen one. 0 chooses none."""

    def __init__(self, chosen: int, at: Callable[[], None]) -> None:
        self.count = 0
        self._chosen = chosen
        self._at = at

    def step(self) -> None:
        """One change is about to be made."""
        self.count += 1
        if self.count == self._chosen:
            self._at()

    def write(self, name: str, offset: int, data: bytes) -> None:
        """See `Watch`."""
        self.step()

    def truncate(self, name: str, size: int) -> None:
        """See `Watch`."""
        self.step()

    def sync(self, name: str) -> None:
        """See `Watch`."""
        self.step()

    def create(self, name: str) -> None:
        """See `Watch`."""
        self.step()

    def delete(self, name: str, synced: bool) -> None:
        """See `Watch`."""
        self.step()

    def synced(self, name: str) -> None:
        """See `Watch`."""


CHANGES = ("open", "ftruncate", "pwrite", "fsync", "link", "unlink", "rename", "mkdir")


@contextmanager
def stepping(step: Callable[[], None]) -> Iterator[None]:
    """Call `step` before every change that Python itself makes to a file, inside the block."""
    originals = {name: getattr(os, name) for name in CHANGES}

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            step()
            return original(*args, **kwargs)

        return call

    for name, original in originals.items():
        setattr(os, name, watched(original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(os, name, original)
