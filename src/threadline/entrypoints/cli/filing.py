"""`threadline files` and `threadline save`: what came with a message, and its bytes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from threadline.entrypoints.cli.door import Line, act
from threadline.entrypoints.cli.options import Home, Json, Ref, Scope, Store
from threadline.entrypoints.cli.shown import (
    cells,
    console,
    inert,
    say,
    table,
    write_json,
)
from threadline.entrypoints.shapes import plain

if TYPE_CHECKING:
    from threadline.core.model import TranscriptRecord

PART = 256 * 1024
NAMES = 1_000

Sequence = Annotated[
    int, typer.Argument(metavar="SEQUENCE", show_default=False, help="The record's number.")
]


async def _record(line: Line, ref: str, sequence: int) -> TranscriptRecord:
    from threadline.core.errors import NotFound

    where, caller = line.where(ref)
    page = await line.tl.conversations.transcript(
        where, after=sequence - 1, before=sequence + 1, limit=1, caller=caller
    )
    if not page.records:
        raise NotFound(f"there is no record {sequence} here.", sequence=sequence)
    return page.records[0]


def files(
    ref: Ref,
    sequence: Sequence,
    scope: Scope = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the files that came with a message. `threadline save` fetches one.

    threadline files telegram/7001/42 17
    """

    async def work(line: Line) -> None:
        record = await _record(line, ref, sequence)
        if as_json:
            write_json({"files": [plain(one) for one in record.attachments]})
            return
        if not record.attachments:
            say("No file came with it.")
            return
        made = table("n", "name", "type", "bytes")
        for number, one in enumerate(record.attachments):
            size = "" if one.size is None else f"{one.size:,}"
            made.add_row(*cells(number, inert(one.name or "file", 60), inert(one.type, 40), size))
        console().print(made)

    act(work, home=home, store=store, scope=scope, as_json=as_json)


def save(
    ref: Ref,
    sequence: Sequence,
    number: Annotated[
        int, typer.Argument(metavar="N", min=0, help="Which of its files, counted from 0.")
    ] = 0,
    to: Annotated[
        Path,
        typer.Option(
            "--to",
            metavar="FOLDER",
            file_okay=False,
            exists=True,
            help="Where to; its own name, made safe, is added.",
        ),
    ] = Path(),
    scope: Scope = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Fetch a file that came with a message and save it. Nothing that is there is overwritten.

    threadline save telegram/7001/42 17
    threadline save telegram/7001/42 17 1 --to downloads
    """

    async def work(line: Line) -> None:
        where, caller = line.where(ref)
        file = await line.tl.files.open(where, sequence, number, caller=caller)
        with file.content:
            path = saved(to, file.name, file.content)
        if as_json:
            about = {"type": file.type, "size": file.size, "sha256": file.sha256}
            write_json({"path": str(path), **about})
            return
        say(f"Saved {file.size:,} bytes: {inert(str(path))}")

    act(work, home=home, store=store, scope=scope, as_json=as_json)


def saved(folder: Path, name: str, content: BinaryIO) -> Path:
    """Write a file under a safe name that nothing here has; answers where it is.

    What is there is neither overwritten nor followed. A name is whole or is not there.
    """
    for number in range(NAMES):
        path = folder / (name if not number else _numbered(name, number))
        with suppress(FileExistsError):
            target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            try:
                with open(target, "wb") as file:
                    while part := content.read(PART):
                        file.write(part)
            except BaseException:
                path.unlink(missing_ok=True)
                raise
            return path
    raise FileExistsError(f"{folder} has {NAMES} files of this name")


def _numbered(name: str, number: int) -> str:
    """The name with a number before its ending."""
    stem, dot, ending = name.rpartition(".")
    return f"{stem} ({number}).{ending}" if dot and stem else f"{name} ({number})"
