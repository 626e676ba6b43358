"""What a simulator remembers: books of JSON values in one SQLite file; it outlives `kill -9`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

_TABLE = """create table if not exists entries (
  place integer primary key, book text not null, key text not null, value text not null,
  unique (book, key))"""


class Shelf:
    """All books of one simulator. Without a file they are forgotten with the process."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = sqlite3.connect(":memory:" if file is None else file)
        self.file.execute("pragma journal_mode = wal")
        # What was handed to the system survives our death; only a power cut would take it.
        self.file.execute("pragma synchronous = off")
        self.file.execute(_TABLE)
        self.file.commit()

    def book(self, name: str) -> Book:
        """The book of that name, made at its first use."""
        return Book(self.file, name)

    def commit(self) -> None:
        """Everything written since the last time is there together, or none of it."""
        self.file.commit()

    def close(self) -> None:
        """Let go of the file."""
        self.file.close()


class Book(MutableMapping[str, Any]):
    """Values by key, in the order in which they first came.

    What is read is a copy: whoever changes it puts it back.
    """

    def __init__(self, file: sqlite3.Connection, name: str) -> None:
        self._file = file
        self._name = name
        [(last,)] = file.execute(
            "select coalesce(max(cast(key as integer)), 0) from entries where book = ?", (name,)
        )
        self._last = int(last)

    def add(self, value: Any) -> int:
        """Put a value under the next number; the number."""
        self._last += 1
        self[str(self._last)] = value
        return self._last

    def __getitem__(self, key: str) -> Any:
        asked = "select value from entries where book = ? and key = ?"
        for (value,) in self._file.execute(asked, (self._name, str(key))):
            return json.loads(value)
        raise KeyError(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._file.execute(
            "insert into entries (book, key, value) values (?, ?, ?)"
            " on conflict (book, key) do update set value = excluded.value",
            (self._name, str(key), json.dumps(value)),
        )

    def __delitem__(self, key: str) -> None:
        asked = "delete from entries where book = ? and key = ?"
        if not self._file.execute(asked, (self._name, str(key))).rowcount:
            raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        asked = "select key from entries where book = ? order by place"
        return iter([key for (key,) in self._file.execute(asked, (self._name,))])

    def __len__(self) -> int:
        [(count,)] = self._file.execute(
            "select count(*) from entries where book = ?", (self._name,)
        )
        return int(count)

    def everything(self) -> dict[str, Any]:
        """All of it at once."""
        asked = "select key, value from entries where book = ? order by place"
        return {key: json.loads(value) for key, value in self._file.execute(asked, (self._name,))}
