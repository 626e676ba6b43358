"""Two processes on one folder of files: what one keeps the other counts, and takes nothing away."""

from __future__ import annotations

import io
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest

from threadline.core.errors import FilesFull
from threadline.core.files import Link
from threadline.stores.cabinet import Shelf

ROUNDS = 300


def link(number: int) -> Link:
    """The link of an upload."""
    return Link(key=f"{number:064x}", conversation=0, sequence=number, number=0)


def keep(shelf: Shelf, number: int, content: bytes) -> None:
    """Keep these bytes."""
    shelf.keep(link(number), io.BytesIO(content))[1].close()


def test_what_another_process_keeps_is_counted(tmp_path: Path) -> None:
    one, other = (Shelf(tmp_path, 100, holds=True) for _ in range(2))
    keep(one, 1, b"1" * 60)
    keep(other, 2, b"2" * 30)
    with pytest.raises(FilesFull):
        keep(one, 3, b"3" * 30)
    other.drop([link(1).key])
    keep(one, 3, b"3" * 30)


def kept_again(folder: Path, number: int) -> list[str]:
    """The same bytes kept over and over, as others drop theirs; what was not there then."""
    shelf, lost = Shelf(folder, 1_000_000, holds=True), []
    for turn in range(ROUNDS):
        mine = number * ROUNDS + turn
        keep(shelf, mine, b"the same")
        found = shelf.find(link(mine).key)
        if found is None:
            lost.append(link(mine).key)
        else:
            found[1].close()
        shelf.drop([link(mine).key])
    return lost


def test_the_same_bytes_stay_for_one_process_while_another_lets_them_go(tmp_path: Path) -> None:
    working: Callable[[int], list[str]] = partial(kept_again, tmp_path)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert list(pool.map(working, (1, 2))) == [[], []]


@contextmanager
def no_room_beyond(size: int) -> Iterator[None]:
    """The kernel refuses to make a file larger, as it does for a quota and a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_told_as_such_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, 10_000_000, holds=True)
    with no_room_beyond(400_000), pytest.raises(FilesFull, match="disk"):
        keep(shelf, 1, b"1" * 500_000)
    assert [each.name for each in (tmp_path / "blobs").iterdir()] == []
    assert shelf.find(link(1).key) is None
    keep(shelf, 1, b"1" * 500_000)
    kept = shelf.find(link(1).key)
    assert kept is not None
    with kept[1] as content:
        assert content.read() == b"1" * 500_000
