"""`threadline audit`: what was allowed, refused and done on a session's own initiative."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadline.entrypoints.cli.door import Exit, Line, act
from threadline.entrypoints.cli.options import Home, Json, Limit, Scope, Store
from threadline.entrypoints.cli.shown import (
    cells,
    console,
    exactly,
    how_many,
    say,
    table,
    write_json,
)
from threadline.entrypoints.shapes import plain

if TYPE_CHECKING:
    from threadline.core.chains import Entry

audit = typer.Typer(help="Read the audit of writing first, and check that nobody changed it.")


@audit.callback(invoke_without_command=True)
def list_(
    context: typer.Context,
    action: Annotated[
        str,
        typer.Option(
            "--action",
            metavar="NAME",
            show_default=False,
            help="Only this, such as send.refused or consent.off.",
        ),
    ] = "",
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", show_default=False, help="From then on."),
    ] = None,
    before: Annotated[
        int | None,
        typer.Option("--before", metavar="N", show_default=False, help="Those before this number."),
    ] = None,
    limit: Limit = 50,
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """List what was allowed, refused and done on a session's own initiative, newest first.

    Entries hold ids and reasons, never what was said.

      threadline audit --action send.refused --since 2026-01-31T00:00+01:00

      threadline audit verify
    """
    if context.invoked_subcommand is not None:
        return

    async def work(line: Line) -> None:
        from threadline.entrypoints.cli.speaking import time_of

        found = await line.tl.audits.list(
            action=action,
            since=None if since is None else time_of(since, "--since"),
            before=before,
            limit=limit,
            caller=line.caller,
        )
        following = found[-1].number if len(found) == limit else None
        if as_json:
            write_json({"entries": [_entry(one) for one in found], "next": following})
            return
        if not found:
            say("Nothing is in it." if not (action or since or before) else "Nothing of that.")
            return
        made = table("n", "when", "by", "action", "subject", "facts", right=["n"])
        for one in found:
            facts = ", ".join(f"{name}: {value}" for name, value in sorted(one.facts.items()))
            made.add_row(
                *cells(one.number, exactly(one.at), one.by, one.action, one.subject, facts)
            )
        console().print(made)
        if following is not None:
            say(f"There may be more: --before {following}", "dim")

    act(work, home=home, store=store, scope=scope, as_json=as_json)


def _entry(one: Entry) -> dict[str, Any]:
    """An entry as JSON data, its digest in hexadecimal."""
    return {**plain(one), "digest": one.digest.hex()}


@audit.command("verify")
def verify(
    home: Home = None, store: Store = None, scope: Scope = None, as_json: Json = False
) -> None:
    """Read the whole audit and say whether every entry is the one that was written.

    It ends with 1 where one was changed, taken out or added.

      threadline audit verify
    """

    async def work(line: Line) -> int:
        found = await line.tl.audits.verify(caller=line.caller)
        if as_json:
            write_json({"whole": found.whole, **plain(found)})
        elif found.whole:
            say(f"Whole: {how_many(found.entries, 'entry', 'entries')}.")
        else:
            say(f"Broken at entry {found.broken_at}: {found.reason}", "bold")
            say("Somebody changed the database by hand. A backup from before shows what it was.")
        return Exit.OK if found.whole else Exit.REFUSED

    act(work, home=home, store=store, scope=scope, as_json=as_json)
