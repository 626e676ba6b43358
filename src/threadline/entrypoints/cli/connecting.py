"""`threadline connect`, `accounts`, `hydrate`: our accounts on platforms, and their past."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadline.entrypoints.cli.door import Exit, Line, act
from threadline.entrypoints.cli.options import Home, Json, Ref, Scope, Store
from threadline.entrypoints.cli.shown import (
    at,
    cells,
    console,
    how_many,
    inert,
    say,
    table,
    write_json,
)
from threadline.entrypoints.shapes import plain

if TYPE_CHECKING:
    from threadline.core.adapters import Ask
    from threadline.flows.accounts import Connected
    from threadline.flows.histories import Told
    from threadline.flows.registered import AdapterState

Provider = Annotated[
    str,
    typer.Argument(metavar="PROVIDER", show_default=False, help="slack, telegram, discord, …"),
]


def connect(
    provider: Provider,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            show_default=False,
            help="An answer; NAME=@FILE reads it from a file. What is left out is asked for.",
        ),
    ] = None,
    installation: Annotated[
        str | None,
        typer.Option(
            "--installation",
            metavar="NAME",
            show_default=False,
            help="The name in the path of its webhook; left out, the account's id.",
        ),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            "--public-url",
            metavar="URL",
            show_default=False,
            help="Where the platform reaches this server; left out, as the settings say.",
        ),
    ] = None,
    scope: Scope = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Connect an account of yours on a platform.

    It says what to create there and asks for it, checks it with a live call, and keeps it sealed.
    Connecting again changes the credentials and nothing else.

      threadline connect telegram
      threadline connect slack --set bot_token=@token.txt --set signing_secret=@secret.txt
    """

    async def work(line: Line) -> None:
        asks = await line.tl.accounts.asks(provider, caller=line.caller)
        answers = _given(given or [])
        if not as_json and sys.stdin.isatty():
            _ask(provider, asks, answers)
        made = await line.tl.accounts.connect(
            provider,
            answers,
            installation=installation,
            public_url=line.settings.public_url if public_url is None else public_url,
            caller=line.caller,
        )
        if as_json:
            write_json(plain(made))
            return
        _tell(made, line.settings.address if public_url is None else public_url.rstrip("/"))

    act(work, home=home, store=store, scope=scope, as_json=as_json, make=True)


def _given(words: list[str]) -> dict[str, str]:
    """NAME=VALUE and NAME=@FILE as answers."""
    from threadline.core.errors import InvalidInput

    found: dict[str, str] = {}
    for word in words:
        name, mark, value = word.partition("=")
        if not mark:
            raise InvalidInput(f"{word.partition('=')[0]!r}: write --set NAME=VALUE.", field="set")
        if value.startswith("@"):
            value = Path(value[1:]).expanduser().read_text("utf-8").strip()
        found[name.strip().replace("-", "_")] = value
    return found


def _ask(provider: str, asks: tuple[Ask, ...], answers: dict[str, str]) -> None:
    """Ask a person for what is missing; a secret is not shown while it is typed."""
    missing = [one for one in asks if one.name not in answers and not one.default and not one.made]
    if missing:
        say(f"To connect {inert(provider)}, {how_many(len(missing), 'thing')} are needed.", "bold")
    for one in missing:
        say(f"\n{inert(one.where)}")
        label = one.name.replace("_", " ") + (" (may be left out)" if one.optional else "")
        answers[one.name] = typer.prompt(
            label,
            default="" if one.optional else None,
            hide_input=one.secret,
            show_default=False,
        )


def _tell(made: Connected, address: str) -> None:
    """What was connected, and what is left to be done by hand."""
    state = made.state
    actor = state.capabilities.actor
    name = "" if actor is None else f" as {inert(actor.name or actor.id)}"
    say(f"Connected {inert(state.provider)}/{inert(state.account_id)}{name}.", "bold")
    if not made.webhook:
        say("Its events are fetched while `threadline serve` runs.")
        return
    if made.announced:
        say("The platform was told where to send events.")
        return
    say("Give the platform this address for its events:")
    say(f"  {address}{made.webhook}")
    for secret, value in made.secrets.items():
        say(f"and this {secret.replace('_', ' ')}, shown only now: {value}")


def accounts(
    check: Annotated[
        bool, typer.Option("--check", help="Ask every platform whether the credentials hold.")
    ] = False,
    remove: Annotated[
        str | None,
        typer.Option(
            "--remove",
            metavar="PROVIDER/ACCOUNT",
            show_default=False,
            help="Disconnect this one; its conversations stay.",
        ),
    ] = None,
    scope: Scope = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List who speaks for which account, and what is wrong with them.

    threadline accounts --check
    threadline accounts --remove telegram/42
    """

    async def work(line: Line) -> int | None:
        if remove is not None:
            await _remove(line, remove, as_json)
            return None
        found: list[tuple[AdapterState, str]] = []
        for one in await every_account(line):
            found.append((one, await trouble_of(line, one) if check else one.trouble))
        if as_json:
            write_json({"accounts": [{**plain(one), "trouble": why} for one, why in found]})
        else:
            _list(found)
        return Exit.REFUSED if check and any(why for _, why in found) else None

    act(work, home=home, store=store, scope=scope, as_json=as_json)


async def every_account(line: Line) -> list[AdapterState]:
    """Who speaks for which account in the scope, page by page."""
    found: list[AdapterState] = []
    after: str | None = None
    while True:
        page, after = await line.tl.adapters.page(after=after, limit=500, caller=line.caller)
        found += page
        if after is None:
            return found


async def trouble_of(line: Line, one: AdapterState) -> str:
    """What the platform says against it, empty where all is well."""
    from threadline.core.errors import ThreadlineError

    if not one.installation:
        return ""
    try:
        await line.tl.accounts.check(one.provider, one.account_id, caller=line.caller)
    except ThreadlineError as error:
        return str(error)
    return one.trouble


def _list(found: list[tuple[AdapterState, str]]) -> None:
    if not found:
        say("No account is connected. Connect one: threadline connect PROVIDER")
        return
    made = table("account", "by", "since", "last heard", "trouble")
    for one, trouble in found:
        how = f"webhook {one.installation}" if one.installation else one.callback
        if one.settings.get("events") == "fetched":
            how = "fetched by the server"
        heard = "" if one.heard_at is None else at(one.heard_at)
        who = f"{one.provider}/{one.account_id}"
        made.add_row(*cells(who, how, at(one.created_at), heard, trouble))
    console().print(made)


async def _remove(line: Line, which: str, as_json: bool) -> None:
    from threadline.core.errors import InvalidInput, NotFound

    provider, mark, account = which.partition("/")
    if not mark:
        raise InvalidInput("name it as PROVIDER/ACCOUNT, as `threadline accounts` lists it.")
    told = False
    state: Any = await line.tl.adapters.show(provider, account, caller=line.caller)
    if state.installation:
        try:
            told = await line.tl.accounts.disconnect(provider, account, caller=line.caller)
        except NotFound:
            told = False
    state = await line.tl.adapters.remove(provider, account, caller=line.caller)
    if as_json:
        write_json({**plain(state), "told": told})
        return
    say(f"Disconnected {inert(which)}. Its conversations stay as they are.")
    if state.installation and not told:
        say("The platform was not told: remove the app or its webhook there.", "dim")


def hydrate(
    ref: Ref,
    most: Annotated[
        int | None,
        typer.Option(
            "--most", min=1, metavar="N", show_default=False, help="At most so many messages."
        ),
    ] = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Import what was said in a conversation before, from its platform, threads included.

    It goes in front of what is there; asking again adds only what is new.

      threadline hydrate slack/T1/C1
      threadline hydrate discord/900/800 --most 1000
    """

    async def work(line: Line) -> int | None:
        where, caller = line.where(ref)
        told = await line.tl.histories.hydrate(where, most=most, caller=caller)
        if as_json:
            write_json(plain(told))
        else:
            _report(told)
        return Exit.REFUSED if _partial(told) and most is None else None

    act(work, home=home, store=store, as_json=as_json)


def _partial(told: Told) -> str:
    return told.partial or next((why for one in told.children if (why := _partial(one))), "")


def _report(told: Told) -> None:
    threads = f", {how_many(len(told.children), 'thread')} among it" if told.children else ""
    say(f"{how_many(told.total, 'message')} imported{threads}.", "bold")
    if told.known:
        say(f"{told.known:,} were known already.", "dim")
    if why := _partial(told):
        say(f"It is not all: {inert(why)}.")
