"""`threadline person`: who people are on several platforms, and which of their addresses count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from threadline.entrypoints.cli.door import Line, act
from threadline.entrypoints.cli.options import Home, Json, Limit, Scope, Store
from threadline.entrypoints.cli.shown import (
    at,
    cells,
    console,
    exactly,
    hint,
    inert,
    say,
    table,
    write_json,
)
from threadline.entrypoints.shapes import plain

if TYPE_CHECKING:
    from threadline.flows.persons import PersonState

person = typer.Typer(
    no_args_is_help=True,
    help="Say who people are: their addresses, what verified them, two that are one.",
)

Who = Annotated[
    str,
    typer.Argument(
        metavar="WHO",
        show_default=False,
        help="A person: its id, PROVIDER:ADDRESS, email:ADDRESS or alias:NAME.",
    ),
]
Contacts = Annotated[
    list[str] | None,
    typer.Option(
        "--contact",
        metavar="CONTACT",
        show_default=False,
        help="PROVIDER:ADDRESS, email:ADDRESS or alias:NAME; may be repeated.",
    ),
]
Languages = Annotated[
    list[str] | None,
    typer.Option(
        "--language",
        metavar="CODE",
        show_default=False,
        help="Whose words for stop are listened for, such as de; may be repeated.",
    ),
]
Realm = Annotated[
    str,
    typer.Option(
        "--realm",
        metavar="TEAM",
        show_default=False,
        help="Where an address is unique: the team, for Slack.",
    ),
]
Verified = Annotated[
    bool,
    typer.Option("--verified", help="You vouch that the contacts are this person's."),
]


@person.command("add")
def add(
    name: Annotated[
        str, typer.Argument(metavar="NAME", show_default=False, help="What people call it.")
    ],
    contact: Contacts = None,
    language: Languages = None,
    realm: Realm = "",
    verified: Verified = False,
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Add a person. Whoever writes in a direct conversation is known without it.

    threadline person add "Ann Lee" --contact email:ann@example.org --contact telegram:4711
    """

    async def work(line: Line) -> None:
        made = await line.tl.people.make(
            name,
            contacts=contact or (),
            languages=language or (),
            realm=realm,
            verified=verified,
            caller=line.operator,
        )
        _shown(made, as_json)

    act(work, home=home, store=store, scope=scope, as_json=as_json)


@person.command("show")
def show(
    who: Who, home: Home = None, store: Store = None, scope: Scope = None, as_json: Json = False
) -> None:
    """Show a person and every way to it.

    threadline person show email:ann@example.org
    """

    async def work(line: Line) -> None:
        _shown(await line.tl.people.show(who, caller=line.caller), as_json)

    act(work, home=home, store=store, scope=scope, as_json=as_json)


@person.command("list")
def list_(
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", show_default=False, help="Only of this name.")
    ] = "",
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="ID", show_default=False, help="Go on where a page ended."),
    ] = None,
    limit: Limit = 100,
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """List the people that are known.

    threadline person list
    """

    async def work(line: Line) -> None:
        found = await line.tl.people.list(name=name, after=after, limit=limit, caller=line.caller)
        following = found[-1].id if len(found) == limit else None
        if as_json:
            write_json({"people": [plain(one) for one in found], "next": following})
            return
        if not found:
            say("Nobody is known. Who writes will be; or: threadline person add NAME")
            return
        made = table("id", "name", "contacts", "languages")
        for one in found:
            ways = ", ".join(f"{way.provider}:{way.address}" for way in one.contacts)
            made.add_row(*cells(one.id, inert(one.name, 40), ways, ", ".join(one.languages)))
        console().print(made)
        if following is not None:
            say(f"There may be more: --after {following}", "dim")

    act(work, home=home, store=store, scope=scope, as_json=as_json)


@person.command("change")
def change(
    who: Who,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", show_default=False, help="What people call it."),
    ] = None,
    contact: Contacts = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="CONTACT",
            show_default=False,
            help="Take this contact away; may be repeated.",
        ),
    ] = None,
    language: Languages = None,
    realm: Realm = "",
    verified: Verified = False,
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Change a person's name or languages, add contacts, take some away.

    threadline person change email:ann@example.org --contact alias:ann --language de
    """

    async def work(line: Line) -> None:
        changed = await line.tl.people.change(
            await line.person(who),
            name=name,
            languages=language,
            contacts=contact or (),
            without=without or (),
            realm=realm,
            verified=verified,
            caller=line.operator,
        )
        _shown(changed, as_json)

    act(work, home=home, store=store, scope=scope, as_json=as_json)


@person.command("merge")
def merge(
    keep: Who,
    other: Annotated[
        str,
        typer.Argument(metavar="OTHER", show_default=False, help="Who turned out to be the same."),
    ],
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Say that two are one person. Whoever either forbade stays forbidden.

    threadline person merge email:ann@example.org telegram:4711
    """

    async def work(line: Line) -> None:
        merged = await line.tl.people.merge(
            await line.person(keep), await line.person(other), caller=line.operator
        )
        _shown(merged, as_json)

    act(work, home=home, store=store, scope=scope, as_json=as_json)


@person.command("split")
def split(
    who: Who,
    contact: Annotated[
        str,
        typer.Argument(
            metavar="CONTACT", show_default=False, help="What is somebody else's, as `show` says."
        ),
    ],
    realm: Realm = "",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", show_default=False, help="Whose it is.")
    ] = "",
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Say that a contact is somebody else's: a new person has it, with the same decisions.

    threadline person split email:ann@example.org telegram:4711 --name Bob
    """

    async def work(line: Line) -> None:
        made = await line.tl.people.split(
            await line.person(who), contact, realm=realm, name=name, caller=line.operator
        )
        _shown(made, as_json)

    act(work, home=home, store=store, scope=scope, as_json=as_json)


@person.command("code")
def code(
    who: Who,
    provider: Annotated[
        str,
        typer.Option(
            "--provider", metavar="NAME", show_default=False, help="It counts only there."
        ),
    ] = "",
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Make a code for a person. Said to us from another address, it says whose that address is.

    Hand it over where the person is known already. It counts for 15 minutes and once.

      threadline person code email:ann@example.org --provider telegram
    """

    async def work(line: Line) -> None:
        given = await line.tl.people.code(
            await line.person(who), provider=provider, caller=line.operator
        )
        if as_json:
            write_json(plain(given))
            return
        say(given.code)
        there = f" on {inert(provider)}" if provider else ""
        hint(f"It is shown only now, and counts{there} until {exactly(given.expires_at)}.")

    act(work, home=home, store=store, scope=scope, as_json=as_json)


def _shown(one: PersonState, as_json: bool) -> None:
    if as_json:
        write_json(plain(one))
        return
    spoken = f", speaks {', '.join(one.languages)}" if one.languages else ""
    say(f"person:{one.id}  {inert(one.name)}{inert(spoken)}", "bold")
    if one.merged:
        say(f"Known before as {', '.join(one.merged)}.", "dim")
    if not one.contacts:
        say("No contact is known. Add one: threadline person change ID --contact CONTACT")
        return
    made = table("contact", "realm", "verified", "heard")
    for way in one.contacts:
        verified = f"{at(way.verified_at)} by {way.how}" if way.verified_at else "no"
        heard = f"{at(way.heard_at)} at {way.account_id}" if way.heard_at else ""
        made.add_row(*cells(f"{way.provider}:{way.address}", way.realm, verified, heard))
    console().print(made)
