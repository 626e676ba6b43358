"""How every command gets in and out: settings, the store, exit codes, and what an error looks like.

Nothing ends in a traceback. A refusal is one sentence and, where it helps, one more that says what
to do; with `--json` it is `{"error": {"code", "message", "facts", "advice"}}` on standard error.

Exit codes: 0 done; 1 refused, or `doctor` found something to be done; 2 wrong usage, values or
settings; 3 not found; 4 the store cannot be used: unreachable, held by another process, full,
damaged, newer than this threadline, or made with another key; 70 a defect of ours; 130 interrupted.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from threadline.app import Threadline
    from threadline.config import Settings
    from threadline.core.errors import ThreadlineError
    from threadline.core.model import Controller

BUSY_PATIENCE = 2.0
BUSY_PAUSE = 0.05


class Exit(IntEnum):
    """What an exit code means."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNAVAILABLE = 4
    DEFECT = 70
    INTERRUPTED = 130


ADVICE = {
    "kind_mismatch": "Leave --kind out, or give the kind that is stored.",
    "membership_not_found": "Join it first: threadline join REF SESSION",
    "session_not_found": "`threadline sessions` lists them; `threadline join` makes one.",
    "session_retired": "Choose another name.",
    "hydration_pending": "It ends by itself; `threadline show REF` says how far it is.",
    "history_swept": "Import it into a conversation of its own: --conversation ID",
    "stale_token": "Import the file again; what is known already is skipped.",
    "binding_conflict": "As a command: threadline unbind REF",
    "handle_conflict": "`threadline group REF` lists the handles; --remove takes one away.",
    "already_attached": "One at a time: two would answer everything twice.",
    "no_adapter": "Who speaks for it registers first: docs/how-to/adapters.md",
    "delivery_conflict": "`threadline why ID` tells what happened to it.",
    "outcome_unknown": "Look whether it is there before you try again.",
    "tokens_unavailable": "Count in characters: --budget-unit characters",
    "config_error": "`threadline config` shows the settings and where each comes from.",
    "consent_required": "It is decided with: threadline consent on --person WHO, or --room REF",
    "limit_reached": "`threadline limits` shows and changes them.",
    "no_address": "`threadline person show WHO` lists what is known and verified.",
    "reply_route_conflict": "First: threadline unbind REF. Or let the session that answers write.",
    "window_closed": "Name one that the platform approved: --template JSON",
    "store_full": "Free some space and try again; nothing was half-written.",
    "store_damaged": "Restore a backup, or name the right file with --store.",
    "wrong_key": "Settings that name it: THREADLINE_KEY_FILE, THREADLINE_HOME.",
}

# What was asked for says more than the code alone.
ADVICE_ABOUT = {
    ("unauthorized", "account"): "As a command: threadline grant SESSION PROVIDER/ACCOUNT",
    ("not_found", "account"): "`threadline accounts` lists those that are connected.",
    ("not_found", "conversation"): "`threadline conversations` lists those there are.",
    ("not_found", "delivery"): "`threadline deliveries` lists them.",
    ("not_found", "grant"): "`threadline grants SESSION` lists those that are granted.",
    ("not_found", "handle"): "`threadline group REF` lists the handles.",
    ("not_found", "link"): "`threadline link REF --list` lists those of a room.",
    ("not_found", "sequence"): "`threadline history REF` shows what there is.",
    ("not_found", "token"): "`threadline token list` lists them.",
    ("not_found", "message"): "`threadline deliveries` lists what sessions said.",
    ("not_found", "person"): "`threadline person list` lists those that are known.",
    ("not_found", "contact"): "`threadline person show WHO` lists them, with their realm.",
    ("not_found", "send"): "`threadline sends` lists them.",
}


def advice_on(error: ThreadlineError) -> str:
    """What to do about a refusal, empty where its sentence says it."""
    for fact in error.facts:
        if (found := ADVICE_ABOUT.get((error.code, fact))) is not None:
            return found
    return ADVICE.get(error.code, "")


def exit_code(error: ThreadlineError) -> Exit:
    """What a refusal ends the program with."""
    from threadline.core import errors

    match error:
        case errors.NotFound():
            return Exit.NOT_FOUND
        case errors.ConfigError() | errors.InvalidInput():
            return Exit.USAGE
        case (
            errors.StoreUnavailable()
            | errors.StoreBusy()
            | errors.StoreFull()
            | errors.OutcomeUnknown()
            | errors.StoreDamaged()
            | errors.SchemaNewer()
            | errors.WrongKey()
        ):
            return Exit.UNAVAILABLE
        case _:
            return Exit.REFUSED


def settings_of(
    store: str | None = None, scope: str | None = None, home: str | None = None
) -> Settings:
    """The settings of the environment, with what was said on the command line.

    A home that was typed brings its own store and key: those of the environment are of another.
    """
    from dataclasses import replace

    from threadline.config import Settings

    given = dict(os.environ)
    if home is not None:
        given["THREADLINE_HOME"] = home
        for name in ("THREADLINE_STORE", "THREADLINE_KEY_FILE"):
            given.pop(name, None)
    found = Settings.load(given)
    if store is not None:
        found = replace(found, store=store)
    return found if scope is None else replace(found, scope=scope)


class Line:
    """A command that has the store open: the library, who asks, and what to say back."""

    def __init__(self, tl: Threadline, settings: Settings) -> None:
        self.tl = tl
        self.settings = settings

    @property
    def caller(self) -> Controller:
        """Whoever may open the store may do everything in the scope."""
        from threadline.core.model import Controller

        return Controller(self.settings.scope)

    @property
    def operator(self) -> Controller:
        """The same, for what only a human decides: whoever types it at this machine is one."""
        from threadline.core.model import Controller

        return Controller(self.settings.scope, human=True)

    async def strangers(self, *sessions: str, caller: Controller | None = None) -> list[str]:
        """Those of these sessions that are not there: whatever names them next makes them."""
        from threadline.core.errors import SessionNotFound

        found = []
        for name in sessions:
            try:
                await self.tl.sessions.show(name, caller=caller or self.caller)
            except SessionNotFound:
                found.append(name)
        return found

    async def person(self, who: str) -> str:
        """The id of a person, by its id or by a contact. Raises `NotFound`, `InvalidInput`."""
        return (await self.tl.people.show(who, caller=self.caller)).id

    def recipient(self, text: str) -> str:
        """Whom a send is for, as it was typed; a ref is of the scope of the settings."""
        from threadline.core.model import ConversationRef

        where, _ = self.where(text) if "/" in text.partition(":")[0] else (text, None)
        return where.text if isinstance(where, ConversationRef) else text

    def where(self, text: str) -> tuple[Any, Controller]:
        """A ref or a conversation's id as it was typed or pasted, and who asks for it there.

        A ref without `?scope=` is of the scope of the settings. Raises `InvalidConversation`.
        """
        from dataclasses import replace

        from threadline.core.model import Controller, ConversationRef

        if "/" not in text:
            return text, self.caller
        ref = ConversationRef.parse(text)
        if "?scope=" not in text:
            ref = replace(ref, scope_id=self.settings.scope)
        return ref, Controller(ref.scope_id)


def act(
    work: Callable[[Line], Awaitable[int | None]],
    *,
    home: str | None = None,
    store: str | None = None,
    scope: str | None = None,
    as_json: bool = False,
    make: bool = False,
    indexing: bool = False,
) -> None:
    """Open the store, do the work, and leave with the code that fits.

    `make` allows a SQLite file that is not there yet; without it that is an error, so that a typing
    mistake does not begin a new store.
    """

    async def opened() -> int | None:
        settings = settings_of(store, scope, home)
        async with AsyncExitStack() as stack:
            tl = await enter(stack, settings, make=make, indexing=indexing)
            return await work(Line(tl, settings))

    leave(lambda: asyncio.run(opened()), as_json=as_json)


async def enter(
    stack: AsyncExitStack,
    settings: Settings,
    *,
    make: bool = False,
    indexing: bool = False,
    patience: float = BUSY_PATIENCE,
    hatch: bool = True,
) -> Threadline:
    """Open the store. A file that another command holds is waited for a moment.

    With `hatch` the store of a running server is reached through the server.
    """
    from threadline.app import Threadline, make_private
    from threadline.core.errors import ConfigError, StoreBusy, StoreUnavailable

    url = settings.url
    file = sqlite_file(url)
    if file is not None and not file.exists() and not make:
        raise StoreUnavailable(
            f"there is no store at {file} yet. Make it with `threadline init`, or name another "
            "with --store or THREADLINE_STORE.",
            store=url,
        )
    if file is not None and make and file.parent == settings.folder:
        make_private(settings.folder)
    until = time.monotonic() + patience
    while True:
        try:
            return await stack.enter_async_context(
                Threadline.open(
                    url,
                    key_file=settings.key_file or None,
                    indexing=indexing,
                    allow_private=settings.adapters_allow_private,
                    push_allow_private=settings.push_allow_private,
                    files=settings.bounds,
                )
            )
        except StoreBusy:
            if (
                hatch
                and file is not None
                and (tl := await _through_the_hatch(file, settings)) is not None
            ):
                return tl
            if time.monotonic() > until:
                raise
            await asyncio.sleep(BUSY_PAUSE)
        except ModuleNotFoundError as missing:
            raise ConfigError(
                f"{missing.name} is not installed. Run: pip install 'threadline[postgres]'"
            ) from None


async def _through_the_hatch(file: Path, settings: Settings) -> Threadline | None:
    """The store of the server that holds the file, None where none answers."""
    from dataclasses import replace

    from threadline.app import Threadline
    from threadline.core.errors import StoreUnavailable
    from threadline.stores.hatch import HatchStore, hatch_of

    if not hatch_of(file).exists():
        return None
    try:
        return Threadline(
            await HatchStore(hatch_of(file)).connect(),
            allow_private=settings.adapters_allow_private,
            files=replace(settings.bounds, folder=settings.files or f"{file}.files"),
        )
    except StoreUnavailable as refused:
        if "Restart" in str(refused):
            raise
        return None


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite store, None for any other. Raises `ConfigError` where it is none."""
    if not url.startswith("sqlite:"):
        return None
    file = Path(url.removeprefix("sqlite:")).expanduser()
    if not file.name or (file.exists() and not file.is_file()):
        from threadline.core.errors import ConfigError

        raise ConfigError(f"the store {url!r} names no file; write sqlite:PATH.")
    return file


def leave(work: Callable[[], int | None], *, as_json: bool = False) -> None:
    """Do the work and end the program with the code that fits; never with a traceback."""
    from threadline.core.errors import NO_SPACE, ThreadlineError

    try:
        code = work() or Exit.OK
        sys.stdout.flush()
    except ThreadlineError as error:
        code = exit_code(error)
        complain(error.code, str(error), advice_on(error), error.facts, as_json)
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone, as `head` does; the interpreter must not try again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = Exit.OK
    except OSError as error:
        code = Exit.UNAVAILABLE
        name = "store_full" if error.errno in NO_SPACE else "os_error"
        complain(name, str(error), ADVICE.get(name, ""), {}, as_json)
    except typer.Exit:
        raise
    except Exception as error:
        code = Exit.DEFECT
        if os.environ.get("THREADLINE_TRACE"):
            traceback.print_exc()
        advice = "This is a defect of threadline. THREADLINE_TRACE=1 shows where; please report it."
        complain("defect", f"{type(error).__name__}: {error}", advice, {}, as_json)
    if code:
        raise typer.Exit(int(code))


def complain(code: str, message: str, advice: str, facts: dict[str, Any], as_json: bool) -> None:
    """Say on standard error what was refused and what to do."""
    from threadline.entrypoints.cli.shown import inert, write_json

    if as_json:
        said = {"code": code, "message": message, "facts": facts}
        write_json({"error": {**said, "advice": advice} if advice else said}, error=True)
        return
    sys.stderr.write(f"threadline: {inert(message)}\n")
    if advice:
        sys.stderr.write(f"            {advice}\n")
