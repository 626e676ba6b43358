"""One frozen Settings, from a mapping. Nobody else reads the environment."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from threadline.core.errors import ConfigError
from threadline.core.files import MEBI, Bounds

PREFIX = "THREADLINE_"
FILE = "threadline.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How this installation runs.

    `home` holds the store, its key and the configuration unless they are named elsewhere. `store`
    is `sqlite:PATH` or a `postgresql://` URL; `key_file` holds the 32 secret bytes that ids and
    digests are hashed with, and never belongs into a backup of the database. The server listens on
    `host` and `port` (0 takes a free one) and answers to the names in `allowed_hosts` as well,
    which are parted by commas. `log_level` is debug, info, warning or error; `log_format` is json,
    text, or auto, which is text where a person looks on. Whoever does not read a stream for
    `slow_reader_seconds` is cut. `public_url` is where people reach it, where that is another
    place. The `guest_…` numbers are per minute, 0 is without limit, except `guest_streams`, which
    is how many streams a guest may have open. `push_allow_private` lets
    sessions be pushed to at addresses of this machine and its networks, `adapters_allow_private`
    lets adapters register callbacks there. A file of a message may have `file_megabytes` and take
    `file_seconds` to be fetched; `files` is the folder where they are kept, `files_megabytes` how
    much of them.
    """

    home: str = "~/.threadline"
    store: str = ""
    key_file: str = ""
    scope: str = "default"
    host: str = "127.0.0.1"
    port: int = 8080
    allowed_hosts: str = ""
    log_level: str = "info"
    log_format: str = "auto"
    slow_reader_seconds: float = 30.0
    public_url: str = ""
    guest_entries: int = 60
    guest_entries_in_all: int = 600
    guest_messages: int = 30
    guest_requests: int = 600
    guest_streams: int = 4
    push_allow_private: bool = False
    adapters_allow_private: bool = False
    files: str = ""
    file_megabytes: int = 50
    file_seconds: float = 60.0
    files_megabytes: int = 1024

    @classmethod
    def load(cls, env: Mapping[str, str]) -> Settings:
        """Settings from `THREADLINE_*`, over `threadline.toml` in the home folder.

        Raises `ConfigError` naming what is unknown or malformed.
        """
        given, found = cls._told(env)
        try:
            return msgspec.convert({**found, **given}, cls, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(str(error)) from None

    @classmethod
    def sources(cls, env: Mapping[str, str]) -> dict[str, str]:
        """Where each setting's value comes from: its variable, the file, or the default."""
        given, found = cls._told(env)
        return {
            one.name: PREFIX + one.name.upper()
            if one.name in given
            else FILE
            if one.name in found
            else "default"
            for one in fields(cls)
        }

    @classmethod
    def _told(cls, env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
        """What the environment says, and what the file says."""
        names = {one.name for one in fields(cls)}
        given = {name: env[PREFIX + name.upper()] for name in names if PREFIX + name.upper() in env}
        file = Path(given.get("home", cls().home)).expanduser() / FILE
        found: dict[str, Any] = {}
        if file.is_file():
            try:
                found = tomllib.loads(file.read_text("utf-8"))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise ConfigError(f"{file.name}: {error}") from None
        unknown = sorted(set(found) - names)
        if unknown:
            guesses = ", ".join(_guessed(one, names) for one in unknown)
            raise ConfigError(
                f"{file.name} has unknown settings: {guesses}. "
                f"Known are: {', '.join(sorted(names))}."
            )
        return given, found

    @property
    def folder(self) -> Path:
        """The home folder."""
        return Path(self.home).expanduser()

    @property
    def url(self) -> str:
        """Where the store is: as set, else a SQLite file in the home folder."""
        return self.store or f"sqlite:{self.folder / 'threadline.db'}"

    @property
    def bounds(self) -> Bounds:
        """What files may cost. Without a folder of their own they are beside a SQLite database."""
        if self.file_megabytes < 1 or self.files_megabytes < self.file_megabytes:
            raise ConfigError("files_megabytes is at least file_megabytes, and that at least 1.")
        beside = self.url.startswith("sqlite:")
        return Bounds(
            file=self.file_megabytes * MEBI,
            kept=self.files_megabytes * MEBI,
            given=self.files_megabytes * MEBI,
            seconds=max(1.0, self.file_seconds),
            folder=self.files or ("" if beside else str(self.folder / "files")),
        )

    @property
    def address(self) -> str:
        """Where people reach the server."""
        if self.public_url:
            return self.public_url.rstrip("/")
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def _guessed(name: str, names: set[str]) -> str:
    """An unknown name, and the one that was probably meant."""
    near = difflib.get_close_matches(name, names, 1, 0.6)
    return f"{name} (did you mean {near[0]}?)" if near else name
