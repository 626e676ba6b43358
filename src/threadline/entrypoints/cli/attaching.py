"""`threadline attach`: any command-line agent, run once a wake."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import math
import os
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from threadline.entrypoints.cli.door import leave, settings_of
from threadline.entrypoints.cli.options import Home
from threadline.entrypoints.cli.serving import ADDRESS, ADMIN
from threadline.entrypoints.cli.shown import inert, write_json

if TYPE_CHECKING:
    from threadline.client import Session
    from threadline.config import Settings
    from threadline.entrypoints.cli.attached import Agent

GIVEN = ("PATH", "HOME", "LANG")
KEEP_SECONDS = 10.0
SENTENCES = {
    "attached": "Attached: {session} at {url}. Stop it with Ctrl-C.",
    "run": "{text}: running for {records} records",
    "replied": "{text}: replied",
    "silent": "{text}: the command said nothing, so nothing was published",
    "answered": "{text}: answered before; read on",
    "failed": "{text}: failed: {reason}",
    "refused": "{text}: the reply was not delivered: {reason}",
    "given_up": "{text}: given up, and read on: {reason}",
}
PROBLEMS = frozenset({"silent", "failed", "refused", "given_up"})


def attach(
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND…", show_default=False, help="The agent, after --."),
    ],
    session: Annotated[
        str, typer.Option("--session", metavar="NAME", show_default=False, help="Whose agent.")
    ],
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            show_default=False,
            help="The server; left out, the one of this machine.",
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            show_default=False,
            help="The session's token; left out, THREADLINE_TOKEN, or here the administrator's.",
        ),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="What the command prints is the reply as it is.")
    ] = False,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also run where another is to answer: each wake, each message of a person.",
        ),
    ] = False,
    seconds: Annotated[
        float,
        typer.Option("--timeout", min=0.1, max=86_000, metavar="SECONDS", help="Of one run."),
    ] = 300.0,
    tries: Annotated[
        int,
        typer.Option(
            "--tries",
            min=1,
            max=20,
            metavar="N",
            help="How often a run may fail before its records are passed over.",
        ),
    ] = 3,
    parallel: Annotated[
        int,
        typer.Option(
            "--parallel", min=1, max=64, metavar="N", help="Conversations answered at a time."
        ),
    ] = 4,
    with_token: Annotated[
        bool,
        typer.Option(
            "--with-token",
            help="Give the command THREADLINE_TOKEN: for this conversation and this run only.",
        ),
    ] = False,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="NAME",
            show_default=False,
            help="A variable to hand on, besides PATH, HOME and LANG. May be repeated.",
        ),
    ] = None,
    cwd: Annotated[
        str | None,
        typer.Option(
            "--cwd",
            metavar="FOLDER",
            show_default=False,
            help="Where the command runs; left out, here.",
        ),
    ] = None,
    home: Home = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Run a command whenever this session is to answer, and publish what it replies.

    It gets one JSON object on standard input (`context`, `records`, `conversation`, `ref`,
    `session`) and prints one, such as {"reply": "Hello"}, or nothing.

    One run at a time in a conversation; what is said meanwhile is in the next one. A command that
    fails, hangs or prints something else publishes nothing and is tried again, then passed over.

      threadline attach --session helper -- python agent.py
      threadline attach --session helper --plain --timeout 60 -- ./agent --short
    """

    def run() -> int:
        settings = settings_of(None, None, home)
        where, token = door_of(settings, url, token_file)
        from threadline.entrypoints.cli.attached import Agent

        folder = _folder(cwd, settings)
        environment = _environment(env or [])
        agent = Agent(
            command=_command(command, folder, environment),
            folder=folder,
            environment=environment,
            plain=plain,
            every=every,
            with_token=with_token,
            seconds=seconds,
            tries=tries,
            parallel=parallel,
        )
        return asyncio.run(_attach(settings, where, token, session, agent, as_json))

    leave(run, as_json=as_json)


def door_of(settings: Settings, url: str | None, token_file: str | None) -> tuple[str, str]:
    """Which server, and by which token. The administrator's token goes to no other machine."""
    from threadline.core.errors import ConfigError

    where = url
    if where is None:
        known = settings.folder / ADDRESS
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        where = known.read_text("utf-8").strip() if known.is_file() else ""
        where = where or f"http://{host}:{settings.port}"
    given = os.environ.get("THREADLINE_TOKEN", "").strip()
    if token_file is not None:
        file = Path(token_file).expanduser()
    elif given:
        return where, given
    elif url is None:
        file = settings.folder / ADMIN
        if not file.is_file():
            raise ConfigError(
                f"there is no {file}. Start `threadline serve` first, or name the server with "
                "--url and a token with --token-file."
            )
    else:
        raise ConfigError("with --url give the session's token: --token-file or THREADLINE_TOKEN.")
    try:
        token = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token file {file} cannot be read: {error}") from None
    if not token or not token.isascii() or len(token.split()) != 1:
        raise ConfigError(f"the file {file} holds no token: it has to hold one and nothing else.")
    return where, token


def _folder(cwd: str | None, settings: Settings) -> str:
    """Where the command runs. Not where our keys are."""
    from threadline.core.errors import ConfigError

    folder = Path.cwd() if cwd is None else Path(cwd).expanduser().absolute()
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}.")
    home = settings.folder.resolve()
    if home in (folder.resolve(), *folder.resolve().parents):
        raise ConfigError(
            f"{folder} holds threadline's own keys. Run the command elsewhere with --cwd."
        )
    return str(folder)


def _environment(names: Sequence[str]) -> dict[str, str]:
    """What the command is to know of ours. Raises `ConfigError`."""
    from threadline.core.errors import ConfigError

    for name in names:
        if name.upper().startswith("THREADLINE_"):
            raise ConfigError(f"{name} is not handed on; --with-token gives a token of its own.")
        if name not in os.environ:
            raise ConfigError(f"{name} is to be handed on and is not set.")
    found = {name: os.environ[name] for name in (*GIVEN, *names) if name in os.environ}
    return {"PATH": os.defpath, **found}


def _command(words: Sequence[str], folder: str, environment: dict[str, str]) -> list[str]:
    """The command with its program found, so that a typing mistake is said at once."""
    from threadline.core.errors import ConfigError

    name = words[0]
    path = str(Path(folder, name)) if "/" in name else name
    program = shutil.which(path, path=environment["PATH"])
    if program is None:
        raise ConfigError(f"there is no program {name!r} that could be run.")
    return [program, *words[1:]]


@contextmanager
def holder_of(settings: Settings, session: str) -> Iterator[str]:
    """The word by which an attach of this machine is known again after a crash.

    Who cannot lock its file is another attach beside it, and gets a word of its own.
    """
    name = hashlib.sha256(session.encode()).hexdigest()[:16]
    file = settings.folder / "attach" / name
    fresh = secrets.token_hex(16)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield fresh
        return
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield fresh
            return
        known = os.pread(opened, 200, 0).decode("ascii", "replace").strip()
        if not known.isalnum():
            known = fresh
            os.pwrite(opened, known.encode(), 0)
            os.fsync(opened)
        yield known
    finally:
        os.close(opened)


class Lease:
    """The lease of one attach on its session."""

    def __init__(self, session: Session, holder: str) -> None:
        self._session = session
        self._path = f"/v1/sessions/{quote(session.name, safe='')}/attachment"
        self._body = {"holder": holder, "name": f"{socket.gethostname()}, process {os.getpid()}"}
        self.fence = 0

    async def take(self) -> None:
        """Raises `AlreadyAttached`."""
        taken = await self._session.request("PUT", self._path, json=self._body)
        self.fence = taken["fence"]

    async def keep(self) -> None:
        """Renew it for ever. Raises `AttachmentLost` where somebody else took it."""
        while True:
            await asyncio.sleep(KEEP_SECONDS)
            await self._session.request("PUT", self._path, json={**self._body, "fence": self.fence})

    async def give_back(self) -> None:
        """So that the next one need not wait."""
        from threadline.core.errors import ThreadlineError

        with suppress(TimeoutError, ThreadlineError):
            async with asyncio.timeout(2.0):
                await self._session.request("DELETE", self._path, params={"fence": self.fence})


@asynccontextmanager
async def _stopping() -> AsyncIterator[asyncio.Event]:
    """Set when we are asked to end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for one in signals:
        loop.add_signal_handler(one, stop.set)
    try:
        yield stop
    finally:
        for one in signals:
            loop.remove_signal_handler(one)


async def _attach(
    settings: Settings, url: str, token: str, name: str, agent: Agent, as_json: bool
) -> int:
    from threadline.client import Session
    from threadline.entrypoints.cli.attached import Attached
    from threadline.entrypoints.cli.child import watching

    def tell(event: str, **facts: Any) -> None:
        if as_json:
            write_json({"event": event, **facts}, line=True)
        if event in PROBLEMS or not as_json:
            stream = sys.stderr if event in PROBLEMS else sys.stdout
            stream.write(f"{inert(SENTENCES[event].format(**facts))}\n")
            stream.flush()

    async with _stopping() as stop:
        with holder_of(settings, name) as holder:
            async with (
                Session(url, token, session=name, patience=math.inf) as session,
                watching() as watcher,
            ):
                lease = Lease(session, holder)
                await lease.take()
                try:
                    tell("attached", session=name, url=url, fence=lease.fence)
                    attached = Attached(
                        session=session,
                        agent=agent,
                        watcher=watcher,
                        fence=lease.fence,
                        keep=lease.keep,
                        tell=tell,
                    )
                    await attached.work(stop)
                finally:
                    await lease.give_back()
    return 0
