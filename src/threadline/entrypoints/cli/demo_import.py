"""The first part of the demo: every export of a folder becomes conversations, and a table says how.

A file that is of a known format but cannot be read yet is refused by name, as in
`threadline import`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from threadline import Threadline
from threadline.archives import identify
from threadline.core.archive import Account, Options, Tally
from threadline.core.errors import ArchiveError
from threadline.entrypoints.files import open_source
from threadline.flows.importing import Summary

AT_ONCE = 6
PROVIDERS = {
    "Slack export": "slack",
    "DiscordChatExporter JSON": "discord",
    "Telegram Desktop JSON": "telegram",
    "Matrix export": "matrix",
    "mbox": "mail",
    "WhatsApp text": "whatsapp",
    "IRC log": "irc",
}


@dataclass(slots=True)
class Came:
    """What the files of one format brought."""

    files: int = 0
    conversations: int = 0
    threads: int = 0
    messages: int = 0
    records: int = 0
    known: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, summary: Summary) -> None:
        """Count one file."""
        self.files += 1
        self.conversations += summary.conversations
        self.threads += summary.threads
        self.messages += summary.tally.counts["messages"]
        self.records += summary.written
        self.known += summary.known
        self.skipped.update(summary.tally.skipped)
        self.problems += summary.tally.problems
        if summary.refused:
            self.skipped["refused by the ledger"] += summary.refused

    def left_out(self) -> list[str]:
        """What was not written, or written with a doubt, and why."""
        reasons = [f"{count} × {reason}" for reason, count in self.skipped.most_common()]
        if self.problems:
            reasons.append(f"the first that was malformed: {self.problems[0]}")
        if self.known:
            reasons.insert(0, f"{self.known} × an id that came before; kept once")
        return reasons


@dataclass(slots=True)
class Haul:
    """Everything that was imported, by format, and the files that were refused."""

    formats: dict[str, Came] = field(default_factory=dict)
    refused: list[tuple[str, str]] = field(default_factory=list)

    @property
    def records(self) -> int:
        """How many records were written."""
        return sum(came.records for came in self.formats.values())


def files_in(folder: Path) -> list[Path]:
    """The exports of a folder: its files, and folders that are an export by themselves."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


async def import_all(tl: Threadline, folder: Path, console: Console) -> Haul:
    """Import every export of the folder, a few at once, under a progress bar."""
    haul = Haul()
    paths = files_in(folder)
    gate = asyncio.Semaphore(AT_ONCE)
    bar = Progress(
        TextColumn("importing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files, {task.fields[records]:,} records"),
        TimeElapsedColumn(),
        console=console,
    )
    with bar:
        task = bar.add_task("importing", total=len(paths), records=0)

        async def one(path: Path) -> None:
            async with gate:
                await _import_one(tl, path, haul)
            bar.update(task, advance=1, records=haul.records)

        await asyncio.gather(*(one(path) for path in paths))
    return haul


async def _import_one(tl: Threadline, path: Path, haul: Haul) -> None:
    tally = Tally()
    try:
        with open_source(path) as source:
            reader = identify(source)
            provider = PROVIDERS.get(reader.format, "archive")
            account = Account(provider=provider, account_id=path.stem.removeprefix(f"{provider}-"))
            items = reader.read(source, account, Options(zone=UTC), tally)
            summary = await tl.importing.run(
                items, tally, owner=f"demo/{path.name}", account=account
            )
    except ArchiveError as error:
        haul.refused.append((path.name, error.detail))
        return
    haul.formats.setdefault(reader.format, Came()).add(summary)


def show_table(haul: Haul, console: Console) -> None:
    """What came, one line per format; below it what was left out, and why."""
    table = Table(show_footer=True, header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    rows = sorted(haul.formats.items())
    columns = ("files", "conversations", "threads", "messages", "records")
    table.add_column("format", "all")
    for name in columns:
        total = sum(getattr(came, name) for _, came in rows)
        table.add_column(name, f"{total:,}", justify="right")
    for name, came in rows:
        table.add_row(name, *(f"{getattr(came, column):,}" for column in columns))
    console.print(table)
    if haul.refused or any(came.left_out() for _, came in rows):
        console.print("Skipped or doubtful, and why:")
    for name, came in rows:
        for reason in came.left_out():
            console.print(f"  {name}: {reason}", style="dim", markup=False)
    for name, why in sorted(haul.refused):
        sentence = why.removeprefix(f"{name}: ").split(". ")[0]
        console.print(f"  {name}: {sentence}.", style="dim", markup=False)
