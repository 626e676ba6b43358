"""The arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Ref = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        show_default=False,
        help="A conversation: provider/account/conversation as text, or its id.",
    ),
]
Session = Annotated[
    str, typer.Argument(metavar="SESSION", show_default=False, help="A session's name.")
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        show_default=False,
        help="sqlite:PATH or postgresql://…; left out, as the settings say.",
    ),
]
Home = Annotated[
    str | None,
    typer.Option(
        "--home",
        metavar="FOLDER",
        show_default=False,
        help="The folder of the store, its key and the settings; instead of THREADLINE_HOME.",
    ),
]
Scope = Annotated[
    str | None,
    typer.Option(
        "--scope", metavar="NAME", show_default=False, help="The tenant; left out, as set."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of words.")]
Limit = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=500, metavar="N", help="At most this many.")
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="POLICY",
        show_default=False,
        help="What of the past it may read: all, since_join, or last_n with -n.",
    ),
]
Number = Annotated[
    int | None,
    typer.Option("-n", metavar="N", show_default=False, help="How many records last_n hands on."),
]
