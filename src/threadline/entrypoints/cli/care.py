"""Commands that look after the ledger: search, config, doctor, demo."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from threadline.entrypoints.cli.door import Line, act, leave, settings_of
from threadline.entrypoints.cli.options import Home, Json, Limit, Scope, Store
from threadline.entrypoints.cli.shown import (
    cells,
    console,
    exactly,
    how_many,
    inert,
    say,
    table,
    transcript,
    write_json,
)
from threadline.entrypoints.shapes import plain, record_of

if TYPE_CHECKING:
    from threadline.entrypoints.cli.report import Report


def search(
    query: Annotated[
        str, typer.Argument(metavar="WORDS", show_default=False, help="All words have to be there.")
    ],
    session: Annotated[
        str | None,
        typer.Option(
            "--session", metavar="NAME", show_default=False, help="Only what this session may read."
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            "--after", metavar="PLACE", show_default=False, help="Go on where a page ended."
        ),
    ] = None,
    limit: Limit = 20,
    scope: Scope = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Find words in the transcripts, newest first.

    threadline search "build red"
    threadline search manual --session helper --json
    """

    async def work(line: Line) -> None:
        from threadline.flows.search import Now

        # The index trails the transcripts; nobody else is at work here, so it catches up first.
        now = await line.tl.store.read(Now())
        await line.tl.search.catch_up()
        found = await line.tl.search.find(
            query, session=session, after=after, limit=limit, caller=line.caller
        )
        through = found.indexed_through or now
        if as_json:
            hits = [{**plain(one), "record": record_of(one.record)} for one in found.hits]
            write_json({"hits": hits, "next": found.next, "indexed_through": plain(through)})
            return
        place = None
        for hit in found.hits:
            if place != hit.ref:
                place = hit.ref
                say(str(hit.ref), "bold")
            console().print(transcript([hit.record]))
        if not found.hits:
            say(f"Nothing with {inert(query)!r}. The index is complete up to {exactly(through)}.")
        elif found.next is not None:
            say(f"There are more: --after {found.next}", "dim")

    act(work, home=home, store=store, scope=scope, as_json=as_json)


def doctor(
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Also put right what may be: files open to others, windows, expired, drifted.",
        ),
    ] = False,
    scope: Scope = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Find the likely mistakes and say what to do about each.

    Looks at settings and their spelling, files and who may read them, the disk, the port, limits,
    the store and who holds it, damage, imports that hang, bindings to nobody, sessions that lag,
    messages put aside. Reads every record once. Ends with 0 where all is well, with 1 where
    something is to be done; a note is no fault.

      threadline doctor
      threadline doctor --repair
    """
    from threadline.entrypoints.cli.health import examine
    from threadline.entrypoints.cli.report import Report
    from threadline.entrypoints.cli.surroundings import surroundings

    def work() -> int:
        report = Report()
        settings = settings_of(store, scope, home)
        surroundings(report, settings, os.environ, repair=repair)
        asyncio.run(examine(report, settings, repair=repair))
        if as_json:
            write_json(report.plain())
        else:
            _tell(report)
        return report.code

    leave(work, as_json=as_json)


def _tell(report: Report) -> None:
    for one in report.facts:
        console().print(f"{one.name:<12}{inert(one.value)}", soft_wrap=True)
    for finding in report.findings:
        console().print()
        say(f"{'DAMAGE' if finding.is_damage else 'To do'}: {inert(finding.what)}", "bold")
        say(f"  {inert(finding.advice)}")
    for note in report.notes:
        console().print()
        say(f"Note: {inert(note.what)}")
        say(f"  {inert(note.advice)}", "dim")
    if not report.findings:
        say(f"\nAll is well, {how_many(report.looked_at, 'conversation')} looked at.")
    for sentence in report.repaired:
        say(f"Repaired: {inert(sentence)}")


def config(home: Home = None, as_json: Json = False) -> None:
    """Show every setting with its value and where that comes from.

    The environment wins over threadline.toml in the home folder, that over the default.
    """

    def run() -> int:
        from dataclasses import asdict

        from threadline.config import Settings

        given = dict(os.environ) if home is None else {**os.environ, "THREADLINE_HOME": home}
        values = asdict(Settings.load(given))
        values["store"] = re.sub(r"://([^:@/]*):[^@/]*@", r"://\1:***@", values["store"])
        sources = Settings.sources(given)
        if as_json:
            found = {
                name: {"value": value, "source": sources[name]} for name, value in values.items()
            }
            write_json({"settings": found})
            return 0
        made = table("setting", "value", "from")
        for name, value in values.items():
            shown = str(value).lower() if isinstance(value, bool) else value
            made.add_row(*cells(name, shown, sources[name]))
        console().print(made)
        return 0

    leave(run, as_json=as_json)


def demo(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            metavar="FOLDER",
            show_default=False,
            help="Where its store is, or is made; left out, a new temporary folder.",
        ),
    ] = None,
    exports: Annotated[
        Path | None,
        typer.Option(
            "--exports",
            metavar="FOLDER",
            show_default=False,
            help="Export files to import; left out, those of the checkout, else a small sample.",
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option("--port", min=0, max=65535, metavar="N", help="0 takes a free one."),
    ] = 8080,
    script: Annotated[
        bool, typer.Option("--script", help="Tell the story in the terminal instead, and end.")
    ] = False,
    provider: Annotated[
        str | None,
        typer.Option(
            "--provider",
            metavar="NAME",
            show_default=False,
            help="Tell it on this platform, simulated here: --telegram, --discord and so on are "
            "short for it.",
        ),
    ] = None,
) -> None:
    """Talk to three agents in your browser, on a server and a store of its own.

    Real conversations are imported, and one of the agents looks things up in them; another writes
    first, when you asked it to. Kill the server or an agent while you write: it is started again,
    and nothing is lost or said twice. In the same folder a later demo goes on where this one
    stopped.

      threadline demo
      threadline demo --script   # half a minute, no browser: kill -9, writing first, MCP tools
      threadline demo --telegram   # or --discord, --whatsapp, --twilio, --slack, --matrix
    """

    def run() -> int:
        from threadline.entrypoints.logs import configure

        # The terminal is for whoever watches; what goes wrong is still said.
        configure(level="error")
        if provider is not None:
            return _on_a_platform(provider, folder)
        if script:
            from threadline.entrypoints.cli.demo_story import tell

            return tell(folder, exports)
        from threadline.entrypoints.cli.demo import demo as serve

        return serve(folder, exports, port)

    leave(run)


def _on_a_platform(provider: str, folder: Path | None) -> int:
    from threadline.entrypoints.cli.demo_platform import tell
    from threadline.entrypoints.cli.simulating import needed

    needed()
    return tell(provider, folder)


class NamedProvider(TyperCommand):
    """A command whose `--provider NAME` may be said as `--NAME`, for every provider there is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the long form in."""
        from threadline.adapters.registry import providers

        flags = {f"--{name}": f"--provider={name}" for name in providers()}
        return super().parse_args(ctx, [flags.get(one, one) for one in args])
