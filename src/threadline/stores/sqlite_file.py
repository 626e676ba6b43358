"""A SQLite store's file: who holds it, whether it is ours, and which schema it has.

One server per file: the lock beside it names who holds it. A file that is damaged, foreign or
newer is refused before a byte of it changes. Nothing but SQLite opens the file once the store is
open (closing it elsewhere would drop SQLite's own locks).
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from threadline.core.errors import (
    SchemaNewer,
    StoreBusy,
    StoreDamaged,
    StoreUnavailable,
    ThreadlineError,
    WrongKey,
)
from threadline.stores.codec import Codec
from threadline.stores.sqlite import SqliteStore, now, translated
from threadline.stores.statements import migrations, statements

PAGE_BYTES = 8192
APPLICATION_ID = 0x74686C64


class FileLock:
    """One server per file. The lock file says who holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + ".lock")
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._file, 4096, 0)
            os.close(self._file)
            who: dict[str, Any] = {}
            with suppress(ValueError):
                who = json.loads(holder)
            raise StoreBusy(
                f"(process {who.get('pid', '?')} on {who.get('host', '?')}, since "
                f"{who.get('since', '?')}) Stop it, or use another store.",
                **who,
            ) from None
        who = {"pid": os.getpid(), "host": socket.gethostname(), "since": now().isoformat()}
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(who).encode(), 0)

    def release(self) -> None:
        """Let the next server in."""
        os.close(self._file)


async def open_sqlite(path: Path, key: bytes, **options: Any) -> SqliteStore:
    """Open a store's file, making or migrating it; its lock is held until it is closed.

    `key` is 32 secret bytes kept outside the database. Raises `StoreBusy` where another server
    holds the file, `SchemaNewer`, `WrongKey`, `StoreDamaged`, `StoreUnavailable`.
    """
    path = path.absolute()
    if not path.parent.is_dir():
        raise StoreUnavailable(f"the folder {path.parent} does not exist. Make it first.")
    if path.is_dir():
        raise StoreUnavailable(f"{path} is a folder; name a file.")
    try:
        lock = FileLock(path)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be locked: {error}") from error
    try:
        _look_first(path)
        _private(path)
        codec = Codec(key)
        store = SqliteStore(path, codec, **options)
        store.start(lambda connection: _prepare(connection, path, codec), lock.release)
    except ThreadlineError:
        lock.release()
        raise
    except Exception as error:
        lock.release()
        raise translated(error) from error
    return store


def _private(path: Path) -> None:
    """Make the file for its owner only where it is not there; SQLite's log gets the same mode."""
    if path.exists():
        return
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(file, 0o600)
    finally:
        os.close(file)


def _look_first(path: Path) -> None:
    """Refuse a foreign or newer file before SQLite touches a byte of it."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("rb") as file:
        head = file.read(100)
    if len(head) < 100 or head[:16] != b"SQLite format 3\0":
        raise StoreDamaged(f"({path.name} is no SQLite database) It was left as it is.")
    _refuse_newer(int.from_bytes(head[60:64], "big"), path.name)


def _refuse_newer(version: int, name: str) -> None:
    newest = migrations("sqlite")[-1][0]
    if version > newest:
        raise SchemaNewer(
            f"({name} has schema {version}, this threadline knows {newest}) "
            "Upgrade threadline; the file was left as it is.",
            schema=version,
            known=newest,
        )


def _prepare(connection: apsw.Connection, path: Path, codec: Codec) -> None:
    version = connection.pragma("user_version")
    _refuse_newer(version, path.name)
    application = connection.pragma("application_id")
    tables = connection.execute("select count(*) from sqlite_schema").fetchall()[0][0]
    if tables and application != APPLICATION_ID:
        raise StoreDamaged(f"({path.name} is another program's database) It was left as it is.")
    if not tables:
        connection.execute(f"pragma page_size={PAGE_BYTES}")
        connection.execute("pragma auto_vacuum=none")
        connection.execute("pragma journal_mode=wal")
    pending = [step for step in migrations("sqlite") if step[0] > version]
    if pending and version:
        copy = path.with_name(f"{path.name}.schema-{version}")
        copy.unlink(missing_ok=True)
        _private(copy)
        connection.execute("vacuum into ?", (str(copy),))
    if pending:
        connection.execute("begin immediate")
        try:
            for _, _, parts in pending:
                for sql in parts:
                    connection.execute(sql)
            connection.execute(f"pragma application_id={APPLICATION_ID}")
            connection.execute(f"pragma user_version={pending[-1][0]}")
            connection.execute("commit")
        except BaseException:
            if not connection.get_autocommit():
                connection.execute("rollback")
            raise
    rows = connection.execute(statements("sqlite")["meta.load"].sql).fetchall()
    found = {str(name): str(value) for name, value in rows}
    if "key" not in found:
        save = statements("sqlite")["meta.save"].sql
        connection.execute(save, ("key", codec.fingerprint()))
    elif found["key"] != codec.fingerprint():
        raise WrongKey("Give the key file that was made with this store.")
