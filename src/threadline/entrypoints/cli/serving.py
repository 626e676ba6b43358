"""`threadline serve` and `threadline token`: the server, and who may call it."""

from __future__ import annotations

import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threadline.entrypoints.cli.door import (
    Exit,
    Line,
    act,
    enter,
    leave,
    settings_of,
    sqlite_file,
)
from threadline.entrypoints.cli.options import Home, Json, Scope, Store
from threadline.entrypoints.cli.shown import (
    at,
    cells,
    console,
    hint,
    inert,
    introduce,
    say,
    table,
    write_json,
)
from threadline.entrypoints.shapes import plain

if TYPE_CHECKING:
    from threadline.app import Threadline
    from threadline.config import Settings

ADMIN = "admin.token"
# Where the server of this home listens, as long as it does.
ADDRESS = "server.url"
FILES = 65_536


def serve(
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="ADDRESS", show_default=False, help="Instead of as set."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, metavar="N", show_default=False, help="0 takes a free one."
        ),
    ] = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Serve the page and the HTTP API until it is stopped.

    The store is made where there is none. Settings: THREADLINE_STORE, THREADLINE_HOST,
    THREADLINE_PORT, THREADLINE_HOME, THREADLINE_ALLOWED_HOSTS.

      threadline serve
      THREADLINE_PORT=9000 threadline serve
    """

    def run() -> int:
        from dataclasses import replace

        settings = settings_of(store, None, home)
        settings = replace(
            settings,
            host=settings.host if host is None else host,
            port=settings.port if port is None else port,
        )
        return _run(_serve(settings, as_json))

    leave(run, as_json=as_json)


def _run(main: object) -> int:
    """Run on uvloop where it is installed."""
    import asyncio

    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)  # type: ignore[arg-type]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)  # type: ignore[arg-type]


async def _serve(settings: Settings, as_json: bool) -> int:
    from dataclasses import replace

    from threadline.entrypoints.http.buckets import GuestLimits
    from threadline.entrypoints.http.origins import checked_url
    from threadline.entrypoints.http.server import ServerSettings, heeding, listening, served
    from threadline.entrypoints.logs import configure, logger
    from threadline.stores.hatch import Hatch, hatch_of

    configure(level=settings.log_level, form=settings.log_format)
    _raise_limit()
    named = tuple(one.strip() for one in settings.allowed_hosts.split(",") if one.strip())
    where = ServerSettings(
        host=settings.host,
        port=settings.port,
        allowed_hosts=named,
        slow_reader_seconds=settings.slow_reader_seconds,
        public_url=checked_url(settings.public_url),
        guests=GuestLimits(
            entries=settings.guest_entries,
            all_entries=settings.guest_entries_in_all,
            messages=settings.guest_messages,
            requests=settings.guest_requests,
            streams=settings.guest_streams,
        ),
    )
    with heeding() as asked, listening(where) as sock:
        where = replace(where, port=sock.getsockname()[1])
        async with AsyncExitStack() as stack:
            tl = await enter(stack, settings, make=True, indexing=True, patience=0.0, hatch=False)
            file = sqlite_file(settings.url)
            if file is not None:
                hatch = Hatch(tl.store, hatch_of(file))
                await hatch.open()
                stack.push_async_callback(hatch.close)
            token = await _admin(tl, settings)

            address = settings.folder / ADDRESS

            def started() -> None:
                keep_secret(address, f"{where.url}\n")
                stack.callback(address.unlink, missing_ok=True)
                _announce(where.url, token, as_json)
                log.info("server.started", url=where.url, store=tl.store.kind, pid=os.getpid())

            log = logger("server")
            await served(tl, where, sock, started, asked)
        log.info("server.stopped")
    return Exit.OK


def _raise_limit() -> None:
    """Every stream is a file: take as many as the system allows, up to `FILES`."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _announce(url: str, token: Path, as_json: bool) -> None:
    if as_json:
        write_json({"url": url, "token_file": str(token)}, line=True)
        return
    say(f"Threadline is listening at {url}", "bold")
    say(f"The token of this machine's administrator is in {token}")
    say("Another one: threadline token create --kind session --session NAME")
    say("Stop it with Ctrl-C.", "dim")
    sys.stdout.flush()


async def _admin(tl: Threadline, settings: Settings) -> Path:
    """The administrator's token, in a file for its owner only; made at the first start."""
    file = settings.folder / ADMIN
    if file.is_file():
        known = await tl.tokens.recognise(file.read_text("utf-8").strip())
        if known is not None:
            return file
    from threadline.core.model import Controller

    made = await tl.tokens.create(
        "controller",
        name="administrator",
        scope=None,
        human=True,
        caller=Controller(None, human=True),
    )
    keep_secret(file, f"{made.token}\n")
    return file


def keep_secret(file: Path, text: str) -> None:
    """Write a file that only its owner reads, whole or not at all."""
    from threadline.app import make_private

    make_private(file.parent)
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
        opened.write(text)
    fresh.replace(file)


token = typer.Typer(
    no_args_is_help=True,
    help="Make, list and revoke tokens, also while a server runs.",
)


@token.command("create")
def create(
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            show_default=False,
            help="controller, adapter or session; the last two need not be said.",
        ),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", metavar="TEXT", show_default=False, help="What it is for.")
    ] = "",
    provider: Annotated[
        str | None,
        typer.Option("--provider", metavar="NAME", show_default=False, help="An adapter's."),
    ] = None,
    account: Annotated[
        str | None,
        typer.Option("--account", metavar="ID", show_default=False, help="An adapter's."),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="NAME", show_default=False, help="A session's."),
    ] = None,
    scopes: Annotated[
        str | None,
        typer.Option(
            "--scopes",
            metavar="LIST",
            show_default=False,
            help="What a session's may: read,publish,send,push. Left out: read,publish.",
        ),
    ] = None,
    all_scopes: Annotated[
        bool, typer.Option("--all-scopes", help="A controller of every tenant.")
    ] = False,
    human: Annotated[
        bool,
        typer.Option("--human", help="A controller that is a person: it may grant consent."),
    ] = False,
    expires_at: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", show_default=False, help="When it ends, with its zone."
        ),
    ] = None,
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Make a token. It is shown now and never again.

    threadline token create --session minutes > minutes.token

    threadline token create --kind adapter --provider irc --account libera --json
    """

    async def work(line: Line) -> None:
        from threadline.core.errors import InvalidInput
        from threadline.core.model import Controller
        from threadline.entrypoints.cli.speaking import time_of

        asked = None
        if scopes is not None:
            asked = [one.strip() for one in scopes.split(",") if one.strip()]
        known = kind or ("session" if session else "adapter" if provider else "")
        if not known:
            # A controller may do everything: nobody shall make one by leaving something out.
            raise InvalidInput(
                "say whose it is: --session NAME, --provider NAME --account ID, or "
                "--kind controller for one that may do everything.",
                field="kind",
            )
        strangers = await line.strangers(*([session] if session else []))
        made = await line.tl.tokens.create(
            known,
            name=name,
            scope=None if all_scopes else line.settings.scope,
            provider=provider,
            account_id=account,
            session=session,
            scopes=asked,
            expires_at=None if expires_at is None else time_of(expires_at, "--until"),
            human=human,
            # Who has the store is trusted to say who they are.
            caller=Controller(None, human=human),
        )
        if as_json:
            write_json(plain(made))
            return
        introduce(strangers)
        say(made.token or "")
        hint(f"It is shown only now. Revoke it with: threadline token revoke {made.id}")

    act(work, home=home, store=store, scope=scope, as_json=as_json)


@token.command("list")
def list_(home: Home = None, store: Store = None, as_json: Json = False) -> None:
    """List the tokens, without their secrets."""

    async def work(line: Line) -> None:
        from threadline.core.model import Controller
        from threadline.flows.tokens import TokenState

        found: list[TokenState] = []
        after: str | None = None
        while True:
            page, after = await line.tl.tokens.page(after=after, limit=500, caller=Controller(None))
            found += page
            if after is None:
                break
        if as_json:
            write_json({"tokens": [plain(one) for one in found]})
            return
        made = table("id", "kind", "for", "name", "made", "ends")
        for one in found:
            account = f"{one.provider}/{one.account_id}" if one.provider else ""
            about = one.session_id or account or one.scope_id or "every scope"
            ends = f"revoked {at(one.revoked_at)}" if one.revoked_at else at(one.expires_at)
            made.add_row(*cells(one.id, one.kind, about, one.name, at(one.created_at), ends))
        console().print(made)

    act(work, home=home, store=store, as_json=as_json)


@token.command("revoke")
def revoke(
    token_id: Annotated[
        str, typer.Argument(metavar="ID", show_default=False, help="As `token list` shows it.")
    ],
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """End a token within a second, also where a server runs."""

    async def work(line: Line) -> None:
        from threadline.core.model import Controller

        ended = await line.tl.tokens.revoke(token_id, caller=Controller(None))
        if as_json:
            write_json(plain(ended))
            return
        say(f"Revoked: {inert(ended.name or ended.id)}")

    act(work, home=home, store=store, as_json=as_json)
