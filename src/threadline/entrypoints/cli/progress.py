"""The bar that `threadline import` shows: how much of the export is read, how much written."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from threadline.entrypoints.cli.shown import aside

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from threadline.core.archive import Source
    from threadline.entrypoints.files import Opened

PIECE = 128 * 1024


@contextmanager
def progress(name: str, source: Opened, *, quiet: bool) -> Iterator[Watch]:
    """A bar on standard error, where somebody looks at it: how much is read, how much written."""
    if quiet or not sys.stderr.isatty():
        yield Watch()
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn(name),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[written]:,} records"),
        TimeElapsedColumn(),
        console=aside(),
        transient=True,
    ) as bar:
        task = bar.add_task(name, total=max(1, source.size()), written=0)
        yield Watch(lambda read, written: bar.update(task, completed=read, written=written))


class Watch:
    """Counts what an import reads and writes, and tells it now and then."""

    def __init__(self, tell: Callable[[int, int], None] | None = None) -> None:
        self._tell = tell
        self._read: dict[str, int] = {}
        self._written = 0

    def over(self, source: Opened) -> Source:
        """The same source; what comes out of its files is counted."""
        return source if self._tell is None else _Watched(source, self)

    def read(self, name: str, so_far: int) -> None:
        """A file was read up to here; a second reading of it counts once."""
        self._read[name] = max(so_far, self._read.get(name, 0))
        self._told()

    def wrote(self, records: int) -> None:
        """So many records are in the ledger by now."""
        self._written = records
        self._told()

    def _told(self) -> None:
        if self._tell is not None:
            self._tell(sum(self._read.values()), self._written)


class _Watched:
    """A source whose files tell how far they were read."""

    def __init__(self, inner: Opened, watch: Watch) -> None:
        self.title, self._inner, self._watch = inner.title, inner, watch

    def names(self) -> list[str]:
        """The inner one's."""
        return self._inner.names()

    def open(self, name: str) -> BinaryIO:
        """The inner one's, in large pieces, so that counting costs nothing."""
        return io.BufferedReader(_WatchedFile(self._inner.open(name), name, self._watch), PIECE)


class _WatchedFile(io.RawIOBase):
    def __init__(self, inner: BinaryIO, name: str, watch: Watch) -> None:
        self._inner, self._name, self._watch, self._so_far = inner, name, watch, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        data = self._inner.read(len(view))
        view[: len(data)] = data
        self._so_far += len(data)
        self._watch.read(self._name, self._so_far)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
        super().close()
