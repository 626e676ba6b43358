"""`threadline context`: what a session is told of a conversation."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from threadline.entrypoints.cli.door import Line, act
from threadline.entrypoints.cli.options import Home, Json, Ref, Store
from threadline.entrypoints.cli.shown import write_json
from threadline.entrypoints.shapes import context_of


def context(
    ref: Ref,
    session: Annotated[
        str,
        typer.Option(
            "--session", metavar="SESSION", show_default=False, help="The session it is for."
        ),
    ],
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget",
            metavar="N",
            show_default=False,
            help="At most this much; left out, 40,000 characters or 10,000 tokens.",
        ),
    ] = None,
    unit: Annotated[
        str,
        typer.Option("--budget-unit", metavar="UNIT", help="What is counted: characters, tokens."),
    ] = "characters",
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="text, or messages as JSON.")
    ] = "text",
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Print what a session is told of a conversation, ready for a model.

    The newest records that it may read and that fit, oldest first. What others said stands in
    blocks that nothing in them can end.

      threadline context slack/T1/C9 --session helper
      threadline context slack/T1/C9 --session helper --budget 8000 --format messages
    """

    async def work(line: Line) -> None:
        where, caller = line.where(ref)
        told = context_of(
            await line.tl.context.read(
                where, session, budget=budget, unit=unit, form=form, caller=caller
            )
        )
        if as_json:
            write_json(told)
        elif "text" in told:
            sys.stdout.write(told["text"] + "\n")
        else:
            write_json(told["messages"])

    act(work, home=home, store=store, as_json=as_json)
