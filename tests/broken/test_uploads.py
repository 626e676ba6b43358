"""What became of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.files.conftest import PICTURE
from tests.files.test_sending import LOBBY, given
from tests.files.test_sending import line as line
from threadline import Threadline
from threadline.core.errors import SessionRetired
from threadline.stores.cabinet import Shelf
from threadline.core.files import Link
import io
from threadline.core.errors import FilesFull


def test_two_quota(tmp_path: Path) -> None:
    a, b = Shelf(tmp_path, 100, holds=True), Shelf(tmp_path, 100, holds=True)

    def keep(shelf: Shelf, n: int, size: int) -> None:
        shelf.keep(Link(key=f"{n:064x}", conversation=0, sequence=n, number=0), io.BytesIO(bytes([n]) * size))[1].close()

    keep(a, 1, 60)
    keep(b, 2, 30)
    with pytest.raises(FilesFull):
        keep(a, 3, 30)


