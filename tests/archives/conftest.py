"""The sample exports, what was counted in them, and one way to read any of them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from threadline.archives import identify
from threadline.core.archive import Account, Item, Options, Reader, Tally
from threadline.core.model import InboundMessage
from threadline.entrypoints.files import open_source

DATA = Path(__file__).parent.parent / "data"
ACCOUNT = Account(provider="sample", account_id="A1")

ReadAll = Callable[..., tuple[list[Item], Tally]]
Rows = dict[str, dict[str, Any]]


@dataclass
class Held:
    """A source that is in memory."""

    files: dict[str, bytes]
    title: str = "export"

    def names(self) -> list[str]:
        return sorted(self.files)

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.files[name])


def read_held(reader: Reader, source: Held, **options: Any) -> tuple[list[Item], Tally]:
    """Everything a reader finds in a source that is in memory."""
    tally = Tally()
    return list(reader.read(source, ACCOUNT, Options(**options), tally)), tally


def said(items: list[Item]) -> list[InboundMessage]:
    """The entries without the places."""
    return [item for item in items if isinstance(item, InboundMessage)]


@pytest.fixture(scope="session")
def exports() -> Path:
    """The folder of export files; `counts.jsonl` and `webhooks` lie beside it."""
    return DATA / "exports"


@pytest.fixture(scope="session")
def rows(exports: Path) -> Rows:
    """What was counted in each file, by its name such as `exports/list.mbox`."""
    lines = (exports.parent / "counts.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["file"]: row for row in map(json.loads, lines)}


@pytest.fixture(scope="session")
def read_all() -> ReadAll:
    """Reads a file as `threadline import` does: `items, tally = read_all(path, zone=UTC)`."""

    def read(path: Path, **options: Any) -> tuple[list[Item], Tally]:
        tally = Tally()
        with open_source(path) as source:
            reader = identify(source)
            items = list(reader.read(source, ACCOUNT, Options(**options), tally))
        return items, tally

    return read
