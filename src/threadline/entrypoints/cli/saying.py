"""`threadline publish`, `send`, `deliveries`: what sessions say, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from threadline.entrypoints.cli.appending import read_text
from threadline.entrypoints.cli.door import Exit, Line, act
from threadline.entrypoints.cli.options import Home, Json, Limit, Ref, Scope, Store
from threadline.entrypoints.cli.shown import cells, console, exactly, inert, say, table, write_json
from threadline.entrypoints.shapes import plain

if TYPE_CHECKING:
    from threadline.flows.statuses import DeliveryStatus

Speaker = Annotated[
    str,
    typer.Option("--as", metavar="SESSION", show_default=False, help="The session that speaks."),
]
Text = Annotated[
    str, typer.Argument(metavar="TEXT", show_default=False, help="What it says; - reads it.")
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        show_default=False,
        help="With it a second time says nothing, for 30 days.",
    ),
]
ReplyTo = Annotated[
    str | None,
    typer.Option(
        "--reply-to",
        metavar="N",
        show_default=False,
        help="The record it answers: its number, or its message id.",
    ),
]


def publish(
    ref: Ref,
    text: Text,
    session: Speaker,
    key: Key = None,
    reply_to: ReplyTo = None,
    generation: Annotated[
        int | None,
        typer.Option(
            "--generation",
            metavar="N",
            show_default=False,
            help="The binding's that the words were made under; another one refuses them.",
        ),
    ] = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Let a session say something in a conversation.

    It speaks where the conversation is bound to it, or where it is a public participant.

      threadline publish web/office/lobby "The build is green" --as coder --reply-to 4
    """

    async def work(line: Line) -> int | None:
        where, caller = line.where(ref)
        sent = await line.tl.outbound.publish(
            where,
            session,
            read_text() if text == "-" else text,
            key=key,
            reply_to=_record(reply_to),
            generation=generation,
            caller=caller,
        )
        return _told(sent, as_json)

    act(work, home=home, store=store, as_json=as_json)


def send(
    to: Annotated[
        str, typer.Argument(metavar="SESSION", show_default=False, help="Who is written to.")
    ],
    text: Text,
    session: Speaker,
    key: Key = None,
    reply_to: ReplyTo = None,
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Let a session write to another one, in the conversation of the two.

    threadline send reviewer "Please look at the last change" --as coder
    """

    async def work(line: Line) -> int | None:
        sent = await line.tl.outbound.tell(
            session,
            to,
            read_text() if text == "-" else text,
            key=key,
            reply_to=_record(reply_to),
            caller=line.caller,
        )
        return _told(sent, as_json)

    act(work, home=home, store=store, scope=scope, as_json=as_json)


def deliveries(
    ref: Annotated[
        str | None,
        typer.Argument(metavar="REF", show_default=False, help="Only of this conversation."),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--of", metavar="SESSION", show_default=False, help="Only of this session."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            "--after", metavar="CURSOR", show_default=False, help="Go on behind an earlier page."
        ),
    ] = None,
    limit: Limit = 50,
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """List what sessions said and what became of it, newest first."""

    async def work(line: Line) -> None:
        where, caller = (None, line.caller) if ref is None else line.where(ref)
        page = await line.tl.deliveries.page(
            where=where, session=session, after=after, limit=limit, caller=caller
        )
        if as_json:
            write_json(plain(page))
            return
        if not page.deliveries:
            say("Nothing was said yet.")
            return
        made = table("id", "when", "session", "conversation", "state", "record", right=["record"])
        for one in page.deliveries:
            state = f"{one.state.value}: {one.reason}" if one.reason else one.state.value
            place = "" if one.sequence is None else one.sequence
            made.add_row(
                *cells(one.id, exactly(one.created_at), one.session_id, one.ref, state, place)
            )
        console().print(made)
        if page.next is not None:
            say(f"There are more: --after {page.next}", "dim")

    act(work, home=home, store=store, scope=scope, as_json=as_json)


def _record(given: str | None) -> int | str | None:
    """A record's number, which may be negative, or a message id."""
    if given is None:
        return None
    return int(given) if given.removeprefix("-").isdecimal() else given


def _told(sent: DeliveryStatus, as_json: bool) -> int:
    """What became of it; a delivery that failed is a refusal."""
    failed = sent.failure is not None
    if as_json:
        write_json(plain(sent))
    elif failed:
        say(f"Not said: {inert(sent.reason)}")
    elif sent.repeated:
        say(f"Said before under this key: record {sent.sequence} of {sent.ref}.")
    elif sent.sequence is None:
        say(f"{sent.ref} is being imported; the record follows its history.")
    else:
        say(f"Record {sent.sequence} of {sent.ref}.")
    return Exit.REFUSED if failed else Exit.OK
