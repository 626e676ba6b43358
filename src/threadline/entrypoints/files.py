"""The files of an export on this machine: one file, a folder, or a zip, as a `Source`.

What a zip says of itself is not believed: sizes are counted while bytes come out, and names that
would lead anywhere but into the export are refused before anything is read. Nothing is ever
unpacked to disk. Every refusal is an `ArchiveError` that names the file and says what to do.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Self

from threadline.core.errors import ArchiveError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MIB = 1024 * 1024
_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_ENCRYPTED = 0x1
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)
_LEFTOVERS = ("__MACOSX/", ".DS_Store", "Thumbs.db")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much an export may hold, in bytes. `ratio` is of what comes out of a zip to what is in.

    Chats shrink to a tenth, logs of one line repeated to a hundredth; up to `free` nobody asks.
    """

    file: int = 64 * 1024 * MIB
    zipped_file: int = 8 * 1024 * MIB
    zipped_total: int = 64 * 1024 * MIB
    ratio: int = 200
    free: int = 16 * MIB
    names: int = 500_000


BOUNDS = Bounds()


class FileSource:
    """One file."""

    def __init__(self, path: Path, bounds: Bounds = BOUNDS) -> None:
        self.title = path.name
        self._path, self._bounds = path, bounds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """There is nothing to give back."""

    def names(self) -> list[str]:
        """The file's own name."""
        return [self.title]

    def size(self) -> int:
        """How many bytes it has, for a progress bar."""
        return self._path.stat().st_size

    def open(self, name: str) -> BinaryIO:
        """The file from its beginning."""
        if name != self.title:
            raise _unknown(name, self.title)
        return _opened(self._path, self.title, self._bounds)


class FolderSource:
    """A folder with all that lies in it; a link in it is refused, wherever it leads."""

    def __init__(self, path: Path, bounds: Bounds = BOUNDS) -> None:
        self.title = path.name or path.resolve().name
        self._path, self._bounds = path, bounds
        self._names = frozenset(self._walk())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """There is nothing to give back."""

    def names(self) -> list[str]:
        """All files in it, sorted."""
        return sorted(self._names)

    def size(self) -> int:
        """How many bytes they have together, for a progress bar."""
        return sum((self._path / name).stat().st_size for name in self._names)

    def open(self, name: str) -> BinaryIO:
        """One of its files from its beginning."""
        if name not in self._names:
            raise _unknown(name, self.title)
        # The folder may have changed since it was listed.
        if (self._path / name).resolve() != self._path.resolve() / name:
            raise _refused(name, "it is a link by now; put the file itself there")
        return _opened(self._path / name, name, self._bounds)

    def _walk(self) -> list[str]:
        found: list[str] = []
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            with _reading(folder or self.title), os.scandir(self._path / folder) as entries:
                for entry in entries:
                    name = f"{folder}/{entry.name}" if folder else entry.name
                    _check_name(name)
                    if entry.is_symlink():
                        raise _refused(name, "it is a link; put the file itself there")
                    if entry.is_dir():
                        waiting.append(name)
                    elif not entry.is_file():
                        raise _refused(name, "it is no ordinary file; take it out of the folder")
                    elif not _is_leftover(name):
                        found.append(name)
                    _check_number(len(found), self.title, self._bounds)
        return found


class ZipSource:
    """A zip. Close it, or use it as a context manager."""

    def __init__(self, path: Path, bounds: Bounds = BOUNDS) -> None:
        self.title = path.name
        self._bounds = bounds
        self._size = path.stat().st_size
        self._came_out: dict[str, int] = {}
        self._total = 0
        try:
            self._zip = zipfile.ZipFile(path)
        except _DAMAGED as error:
            raise _damaged(self.title, error) from None
        try:
            self._entries = self._checked()
        except ArchiveError:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back."""
        self._zip.close()

    def names(self) -> list[str]:
        """All files in it, sorted."""
        return sorted(self._entries)

    def size(self) -> int:
        """How many bytes the zip says they have unpacked, for a progress bar."""
        return sum(entry.file_size for entry in self._entries.values())

    def open(self, name: str) -> BinaryIO:
        """One of its files from its beginning, as it is unpacked in memory."""
        entry = self._entries.get(name)
        if entry is None:
            raise _unknown(name, self.title)
        if entry.flag_bits & _ENCRYPTED:
            raise _refused(name, "it is encrypted; unpack the zip with its password first")
        try:
            inner = self._zip.open(entry)
        except _DAMAGED as error:
            raise _damaged(f"{self.title}: {name}", error) from None
        return _Counted.over(inner, f"{self.title}: {name}", self._count(entry))

    def _checked(self) -> dict[str, zipfile.ZipInfo]:
        entries: dict[str, zipfile.ZipInfo] = {}
        infos = self._zip.infolist()
        _check_number(len(infos), self.title, self._bounds)
        for info in infos:
            # zipfile cuts a name at its NUL and rewrites separators; the name as it stands counts.
            name = info.orig_filename
            _check_name(name.removesuffix("/"))
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _refused(name, "it is a link or no ordinary file; make the zip without it")
            if info.is_dir() or _is_leftover(name):
                continue
            if name in entries:
                raise _refused(name, "the zip holds this name twice; make it anew")
            entries[name] = info
        return entries

    def _count(self, entry: zipfile.ZipInfo) -> Callable[[int], None]:
        """What is called with how much came out of an entry so far; refuses too much."""
        bounds, name = self._bounds, entry.orig_filename
        packed = min(entry.compress_size, self._size)

        def count(so_far: int) -> None:
            before = self._came_out.get(name, 0)
            if so_far > before:
                self._came_out[name] = so_far
                self._total += so_far - before
            total = self._total
            if so_far > bounds.zipped_file or total > bounds.zipped_total:
                raise _refused(name, "it unpacks to more than allowed; unpack the zip first")
            inflated = so_far > bounds.free and so_far > bounds.ratio * packed
            if inflated or (total > bounds.free and total > bounds.ratio * self._size):
                raise _refused(
                    name,
                    f"it unpacks to more than {bounds.ratio} times its size, as a zip bomb does; "
                    "unpack it first if it is none",
                )

        return count


Opened = FileSource | FolderSource | ZipSource


def open_source(path: str | Path, bounds: Bounds = BOUNDS) -> Opened:
    """The export at this path. Raises `ArchiveError` where there is none that can be read."""
    where = Path(path)
    with _reading(str(path)):
        mode = where.stat().st_mode
        if stat.S_ISDIR(mode):
            return FolderSource(where, bounds)
        if not stat.S_ISREG(mode):
            raise ArchiveError(
                f"{path}: this is neither a file nor a folder; save the export to a file first.",
                path=str(path),
            )
        with where.open("rb") as stream:
            is_zip = stream.read(4) in _ZIP or where.suffix.lower() == ".zip"
        return ZipSource(where, bounds) if is_zip else FileSource(where, bounds)


class _reading:
    """Says in our words what the operating system refuses."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        match error:
            case FileNotFoundError():
                advice = "there is no such file or folder; check the path"
            case PermissionError():
                advice = "it may not be read; change its permissions, or run as its owner"
            case OSError():
                advice = f"it cannot be read ({error.strerror or error})"
            case ValueError():
                advice = "this is no path; it holds a NUL character"
            case _:
                return
        raise ArchiveError(f"{self._where}: {advice}.", path=self._where) from None


class _Counted(io.RawIOBase):
    """A stream that is counted while it is read, and whose faults are ours."""

    def __init__(self, inner: IO[bytes], where: str, count: Callable[[int], None]) -> None:
        self._inner, self._where, self._count = inner, where, count
        self._so_far = 0

    @classmethod
    def over(cls, inner: IO[bytes], where: str, count: Callable[[int], None]) -> BinaryIO:
        """The counted stream with a buffer before it."""
        return io.BufferedReader(cls(inner, where, count), 128 * 1024)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        try:
            data = self._inner.read(len(view))
        except _DAMAGED as error:
            raise _damaged(self._where, error) from None
        except OSError as error:
            raise ArchiveError(
                f"{self._where}: it cannot be read on ({error.strerror or error}).",
                path=self._where,
            ) from None
        view[: len(data)] = data
        self._so_far += len(data)
        self._count(self._so_far)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
        super().close()


def _opened(path: Path, name: str, bounds: Bounds) -> BinaryIO:
    def count(so_far: int) -> None:
        if so_far > bounds.file:
            raise _refused(name, f"it is larger than {bounds.file // MIB} MiB; split it")

    with _reading(name):
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        inner = os.fdopen(os.open(path, flags), "rb", buffering=0)
        if not stat.S_ISREG(os.fstat(inner.fileno()).st_mode):
            inner.close()
            raise _refused(name, "it is no ordinary file")
    return _Counted.over(inner, name, count)


def _check_name(name: str) -> None:
    """Refuse a name that leads out of the export, or that no two systems read alike."""
    parts = name.split("/")
    if not name or "\x00" in name:
        why = "its name is empty or holds a NUL character"
    elif "\\" in name:
        why = "its name holds a backslash"
    elif name.startswith("/") or (len(name) > 1 and name[1] == ":"):
        why = "its name is an absolute path"
    elif ".." in parts:
        why = "its name leads out of the export by '..'"
    elif "" in parts or "." in parts:
        why = "its name has an empty part"
    elif any("\ud800" <= letter <= "\udfff" for letter in name):
        why = "its name is not UTF-8"
    else:
        return
    raise _refused(name, f"{why}; export again, or rename it")


def _check_number(number: int, title: str, bounds: Bounds) -> None:
    if number > bounds.names:
        raise ArchiveError(
            f"{title}: it holds more than {bounds.names} files; import it in parts.", path=title
        )


def _is_leftover(name: str) -> bool:
    return name.startswith(_LEFTOVERS[0]) or name.rpartition("/")[2] in _LEFTOVERS[1:]


def _refused(name: str, why: str) -> ArchiveError:
    return ArchiveError(f"{name!r}: {why}.", entry=name)


def _unknown(name: str, title: str) -> ArchiveError:
    return ArchiveError(f"{name!r} is not in {title}.", entry=name)


def _damaged(where: str, error: Exception) -> ArchiveError:
    return ArchiveError(
        f"{where}: the zip is damaged or breaks off ({error}); download or copy it again.",
        path=where,
    )
