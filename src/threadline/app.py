"""The composition root: settings → store → flows, on one exit stack.

>>> import asyncio, tempfile
>>> from threadline import Threadline
>>> async def main():
...     with tempfile.TemporaryDirectory() as folder:
...         async with Threadline.open(f"sqlite:{folder}/team.db") as tl:
...             state = await tl.conversations.ensure("web/office/lobby")
...             return str(state.ref), state.head
>>> asyncio.run(main())
('web/office/lobby', 0)
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from threadline.core.adapters import Account, Adapter, Channels, Connectable
from threadline.core.errors import ConfigError, WrongKey
from threadline.core.files import Bounds
from threadline.core.outside import Outside
from threadline.core.ports import Store
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.wire import Transport
from threadline.flows.every import Flows
from threadline.transports.guarded import Guarded

KEY_BYTES = 32
# No module of a provider is called that.
FILES = "files"
BOUNDS = Bounds()


class Reach:
    """How accounts are reached: their dialects, and wires that are opened at their first use."""

    def __init__(self, *, allow_private: bool = False) -> None:
        self._allow_private = allow_private
        self._wires: dict[str, Any] = {}

    def dialect(self, account: Account) -> Adapter | None:
        """See `core.adapters.Channels.dialect`."""
        if account.callback:
            from threadline.adapters.http import Http

            return Http(account)
        kind: Any = self.connectable(account.provider)
        made: Adapter | None = None if kind is None else kind(account)
        return made

    def connectable(self, provider: str) -> type[Connectable] | None:
        """See `core.adapters.Channels.connectable`."""
        from threadline.adapters.registry import load, providers

        known = providers().get(provider)
        kind: type[Connectable] | None = None if known is None else load(known.dialect, known)
        return kind

    def transport(self, provider: str) -> Transport:
        """See `core.adapters.Channels.transport`."""
        from threadline.adapters.registry import HTTP, load, providers

        known = providers().get(provider)
        path = HTTP if known is None else known.wire
        if path not in self._wires:
            self._wires[path] = load(path, known)(allow_private=self._allow_private)
        wire: Transport = self._wires[path]
        return wire

    def files(self, seconds: float) -> Transport:
        """See `core.adapters.Channels.files`."""
        from threadline.transports.http import HttpTransport

        wire: Transport | None = self._wires.get(FILES)
        if wire is None:
            wire = HttpTransport(allow_private=self._allow_private, patience=seconds)
            self._wires[FILES] = wire
        return wire

    async def close(self) -> None:
        """Hang up."""
        wires, self._wires = self._wires, {}
        for wire in wires.values():
            await wire.close()


class Threadline(Flows):
    """Everything, embedded: the flows as attributes, open as long as you hold it.

    `channels` replaces how accounts are reached; `allow_private` lets callbacks be called at
    addresses that are not on the public internet; `files` bounds what is fetched and kept.
    """

    def __init__(
        self,
        store: Store,
        limits: Limits = LIMITS,
        *,
        outside: Outside | None = None,
        channels: Channels | None = None,
        allow_private: bool = False,
        files: Bounds = BOUNDS,
        **options: Any,
    ) -> None:
        from threadline.stores.cabinet import Shelf

        reach = channels or Reach(allow_private=allow_private)
        folder = Path(files.folder).expanduser() if files.folder else None
        own = None if folder is None else folder / "given"
        super().__init__(
            store,
            limits,
            outside or Guarded(),
            channels=reach,
            cabinet=Shelf(folder, files.kept),
            given=Shelf(own, files.given, holds=True),
            bounds=files,
            **options,
        )

    @staticmethod
    @asynccontextmanager
    async def open(
        url: str,
        *,
        key: bytes | None = None,
        key_file: str | Path | None = None,
        limits: Limits = LIMITS,
        indexing: bool = True,
        allow_private: bool = False,
        push_allow_private: bool = False,
        files: Bounds = BOUNDS,
        **options: Any,
    ) -> AsyncIterator[Threadline]:
        """Open a store and everything on it.

        `url` is `sqlite:PATH` or `postgresql://…`. The key is 32 secret bytes: given, or read
        from `key_file`, which is made where it is missing (for SQLite beside the database).
        `indexing` keeps the text index behind the commits of this process. `push_allow_private`
        lets sessions be pushed to at private addresses, `allow_private` lets callbacks of adapters
        be there. `files` bounds the files that are fetched, and says where they are kept: beside a
        SQLite database unless it names a folder. `options` go to the store. Raises what
        `stores.sqlite_file` and `stores.postgres` raise.
        """
        place: str | None = None
        if url.startswith("sqlite:"):
            from threadline.stores.sqlite_file import open_sqlite

            path = Path(url.removeprefix("sqlite:")).expanduser()
            secret = key or load_key(key_file or path.with_name(path.name + ".key"), path.exists())
            store: Any = await open_sqlite(path, secret, **options)
            place = f"{path}.files"
        elif url.startswith(("postgresql:", "postgres:")):
            from threadline.stores.postgres import open_postgres

            if key is None and key_file is None:
                raise ConfigError(
                    "a PostgreSQL store needs a key or key_file that all nodes share."
                )
            secret = key or load_key(Path(key_file or ""), False)
            store = await open_postgres(url, secret, **options)
        else:
            raise ConfigError(f"the store {url!r} is neither sqlite:PATH nor postgresql://….")
        line = Threadline(
            store,
            limits,
            outside=Guarded(allow_private=push_allow_private),
            allow_private=allow_private,
            files=files if files.folder or place is None else replace(files, folder=place),
        )
        try:
            if indexing:
                line.search.start()
            yield line
        finally:
            await line.search.stop()
            await line.outbox.close()
            line.files.close()
            await store.close()


def load_key(file: str | Path, in_use: bool) -> bytes:
    """The key in a file, made where it is missing and no store was made with another one yet."""
    path = Path(file).expanduser()
    try:
        text = path.read_text("ascii").strip()
    except FileNotFoundError:
        if in_use:
            raise WrongKey(
                f"the key file {path} is missing. Put it back: without it no id can be matched."
            ) from None
        return _make_key(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the key file {path} cannot be read: {error}") from None
    with suppress(ValueError):
        key = bytes.fromhex(text)
        if len(key) == KEY_BYTES:
            return key
    raise ConfigError(f"the key file {path} does not hold {KEY_BYTES} bytes in hexadecimal.")


def make_private(folder: Path) -> None:
    """Make a folder that only its owner looks into, whatever the umask; one that is there stays.

    Raises `OSError`.
    """
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)


def _make_key(path: Path) -> bytes:
    key = secrets.token_bytes(KEY_BYTES)
    try:
        make_private(path.parent)
        fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(key.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)
        finally:
            fresh.unlink()
        # The name must outlive a power loss as surely as the records that depend on it.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        return load_key(path, True)
    except OSError as error:
        raise ConfigError(f"the key file {path} cannot be made: {error}") from None
    return key
