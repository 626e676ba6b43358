"""`threadline grant`, `grants`, `consent`, `limits`: who may write first, to whom, how often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadline.entrypoints.cli.door import Line, act
from threadline.entrypoints.cli.options import Home, Json, Scope, Session, Store
from threadline.entrypoints.cli.shown import (
    at,
    cells,
    console,
    exactly,
    inert,
    introduce,
    say,
    table,
    write_json,
)
from threadline.entrypoints.shapes import plain

if TYPE_CHECKING:
    from threadline.core.model import Controller

Person = Annotated[
    str | None,
    typer.Option(
        "--person",
        metavar="WHO",
        show_default=False,
        help="A person: its id, PROVIDER:ADDRESS, email:ADDRESS or alias:NAME.",
    ),
]
Room = Annotated[
    str | None,
    typer.Option("--room", metavar="REF", show_default=False, help="A room: its address or id."),
]
About = Annotated[
    str,
    typer.Option(
        "--about",
        metavar="WHAT",
        show_default=False,
        help="Only about this provider, or about session:NAME.",
    ),
]
Why = Annotated[
    str,
    typer.Option("--why", metavar="TEXT", show_default=False, help="The reason, for the audit."),
]


def grant(
    session: Session,
    account: Annotated[
        str,
        typer.Argument(
            metavar="PROVIDER/ACCOUNT", show_default=False, help="As `threadline accounts` shows."
        ),
    ],
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Take it away; what is not sent yet is cancelled.")
    ] = False,
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Let a session start conversations through an account, or take that away.

    Without an account a session only answers.

      threadline grant coder telegram/7001

      threadline grant coder telegram/7001 --withdraw
    """

    async def work(line: Line) -> None:
        from threadline.core.errors import InvalidInput

        provider, mark, name = account.partition("/")
        if not (mark and provider and name) or "/" in name:
            raise InvalidInput(
                f"{account!r} is no account; write PROVIDER/ACCOUNT, such as telegram/7001.",
                field="account",
            )
        consents = line.tl.consents
        if withdraw:
            await consents.withdraw(session, provider, name, caller=line.operator)
            if as_json:
                write_json({"withdrawn": account, "session_id": session})
            else:
                say(f"{inert(session)} no longer starts conversations through {inert(account)}.")
            return
        strangers = await line.strangers(session)
        done = await consents.grant(session, provider, name, caller=line.operator)
        if as_json:
            write_json(plain(done))
        else:
            introduce(strangers)
            say(f"{inert(session)} may start conversations through {inert(account)}.")

    act(work, home=home, store=store, scope=scope, as_json=as_json)


def grants(
    session: Session,
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """List the accounts through which a session may start conversations.

    threadline grants coder
    """

    async def work(line: Line) -> None:
        found = await line.tl.consents.granted(session, caller=line.caller)
        if as_json:
            write_json({"grants": [plain(one) for one in found]})
            return
        if not found:
            say(f"None. Grant one: threadline grant {inert(session)} PROVIDER/ACCOUNT")
            return
        made = table("account", "granted", "by")
        for one in found:
            made.add_row(*cells(f"{one.provider}/{one.account_id}", at(one.at), one.by))
        console().print(made)

    act(work, home=home, store=store, scope=scope, as_json=as_json)


consent = typer.Typer(
    no_args_is_help=True, help="Turn writing to a person, or in a room, on or off."
)


@consent.command("on")
def on(
    person: Person = None,
    room: Room = None,
    about: About = "",
    why: Why = "",
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Allow writing to a person, or in a room. Only a human does: here that is you.

    threadline consent on --room slack/T1/C9
    threadline consent on --person email:ann@example.org --about telegram --why "asked by mail"
    """
    _decide("on", person, room, about, why, home, store, scope, as_json)


@consent.command("off")
def off(
    person: Person = None,
    room: Room = None,
    about: About = "",
    why: Why = "",
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Forbid writing to a person, or in a room; what is not sent yet is cancelled.

    threadline consent off --person telegram:4711 --why "asked on the phone"
    threadline consent off --room slack/T1/C9 --about session:coder
    """
    _decide("off", person, room, about, why, home, store, scope, as_json)


def _decide(
    state: str,
    person: str | None,
    room: str | None,
    about: str,
    why: str,
    home: str | None,
    store: str | None,
    scope: str | None,
    as_json: bool,
) -> None:
    async def work(line: Line) -> None:
        subject, caller = await _subject(line, person, room)
        done = await line.tl.consents.set(state, **subject, about=about, why=why, caller=caller)
        if as_json:
            write_json(plain(done))
            return
        what = f" about {inert(done.about)}" if done.about else ""
        say(f"Writing to {inert(done.subject)}{what} is {done.state.value}.")

    act(work, home=home, store=store, scope=scope, as_json=as_json)


@consent.command("show")
def show(
    person: Person = None,
    room: Room = None,
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Show what was decided about writing to a person, or in a room.

    threadline consent show --person telegram:4711
    """

    async def work(line: Line) -> None:
        subject, caller = await _subject(line, person, room)
        found = await line.tl.consents.list(**subject, caller=caller)
        if as_json:
            write_json({"consents": [plain(one) for one in found]})
            return
        if not found:
            say(
                "Nothing was decided, so nobody may write first: threadline consent on "
                "--person WHO, or --room REF"
            )
            return
        made = table("about", "state", "by", "when", "why")
        for one in found:
            made.add_row(
                *cells(one.about or "everything", one.state.value, one.by, exactly(one.at), one.why)
            )
        console().print(made)

    act(work, home=home, store=store, scope=scope, as_json=as_json)


async def _subject(
    line: Line, person: str | None, room: str | None
) -> tuple[dict[str, Any], Controller]:
    """Whom it is about, and who decides there. Raises `InvalidInput`, `NotFound`."""
    from dataclasses import replace

    from threadline.core.errors import InvalidInput

    if (person is None) is (room is None):
        raise InvalidInput("name either --person WHO or --room REF.", field="person")
    if room is not None:
        where, caller = line.where(room)
        return {"room": where}, replace(caller, human=True)
    assert person is not None
    return {"person": await line.person(person)}, line.operator


def limits(
    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=NUMBER", show_default=False, help="What to change; 0 is unlimited."
        ),
    ] = None,
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Show how often sessions may write first, or change it, at once and for every server.

    threadline limits

    threadline limits recipient_per_day=3 session_per_hour=50
    """

    async def work(line: Line) -> None:
        if given:
            found = await line.tl.consents.set_limits(_numbers(given), caller=line.operator)
        else:
            found = await line.tl.consents.limits(caller=line.caller)
        if as_json:
            write_json(plain(found))
            return
        made = table("limit", "number", right=["number"])
        for name, number in found.limits.items():
            made.add_row(*cells(name, f"{number:,}" if number else "unlimited"))
        console().print(made)
        if found.at is not None:
            say(f"Set by {inert(found.by)} at {at(found.at)}.", "dim")

    act(work, home=home, store=store, scope=scope, as_json=as_json)


def _numbers(given: list[str]) -> dict[str, int]:
    """NAME=NUMBER as numbers. Raises `InvalidInput`."""
    from threadline.core.errors import InvalidInput

    found: dict[str, int] = {}
    for word in given:
        name, _, number = word.partition("=")
        if not (number.isascii() and number.isdecimal() and len(number) < 10):
            raise InvalidInput(
                f"{word!r}: write NAME=NUMBER, such as recipient_per_day=3.", field=name
            )
        found[name.strip().replace("-", "_")] = int(number)
    return found
