"""`threadline append`: one message by hand, or from another program."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from threadline.entrypoints.cli.door import Line, act
from threadline.entrypoints.cli.options import Home, Json, Ref, Store
from threadline.entrypoints.cli.shown import how_many, inert, say, write_json
from threadline.entrypoints.cli.speaking import time_of
from threadline.entrypoints.shapes import plain, record_of

READ_AT_ONCE = 1024 * 1024


def append(
    ref: Ref,
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT", show_default=False, help="What was said; - reads it."),
    ],
    name: Annotated[
        str, typer.Option("--from", metavar="NAME", help="Who said it, as people see it.")
    ] = "you",
    actor_id: Annotated[
        str | None,
        typer.Option(
            "--actor", metavar="ID", show_default=False, help="Who said it, the provider's id."
        ),
    ] = None,
    is_bot: Annotated[bool, typer.Option("--bot", help="A program said it.")] = False,
    message_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="ID",
            show_default=False,
            help="The message's id: with it a second time is known as a duplicate.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="HANDLE", show_default=False, help="Who is meant, beside the text."
        ),
    ] = None,
    reply_to: Annotated[
        str | None,
        typer.Option(
            "--reply-to", metavar="ID", show_default=False, help="The message it answers."
        ),
    ] = None,
    event: Annotated[
        str,
        typer.Option(
            "--event",
            metavar="EVENT",
            help="message, edit, delete, reaction, member or notice.",
        ),
    ] = "message",
    revises: Annotated[
        str | None,
        typer.Option(
            "--revises",
            metavar="ID",
            show_default=False,
            help="The message an edit, delete or reaction is about.",
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", metavar="KIND", show_default=False, help="dm, room or thread, if it is new."
        ),
    ] = None,
    sent_at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TIME", show_default=False, help="When it was said, with its zone."
        ),
    ] = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Record a message.

    A conversation that is new begins with it. The store has to be there.

      threadline append web/office/lobby "Good morning" --from Ada
      threadline append web/office/lobby "@coder the build is red" --id m2
      cat notes.txt | threadline append web/office/lobby -
    """

    async def work(line: Line) -> None:
        from dataclasses import replace

        from threadline.core.errors import InvalidInput
        from threadline.core.model import Actor, ConversationRef, Event, InboundMessage, Kind

        where, caller = line.where(ref)
        if not isinstance(where, ConversationRef):
            where = (await line.tl.conversations.show(where, caller=caller)).ref
        if kind is not None:
            where = replace(where, kind=Kind.of(kind))
        said = read_text() if text == "-" else text
        what = Event.of(event)
        if what in (Event.EDIT, Event.DELETE, Event.REACTION) and revises is None:
            raise InvalidInput(f"--event {what.value} needs --revises ID.")
        message = InboundMessage(
            conversation=where,
            actor=Actor(actor_id or name, name, is_bot=is_bot),
            text=said,
            message_id=message_id,
            event=what,
            explicit_target=target,
            reply_to=reply_to,
            revises=revises,
            sent_at=None if sent_at is None else time_of(sent_at, "--at"),
        )
        taken = await line.tl.inbound.append(message, caller=caller)
        if as_json:
            found = plain(taken)
            found["record"] = record_of(taken.record)
            del found["conversation"], found["draining"]
            write_json(found)
            return
        if taken.duplicate:
            say(f"Known already: record {taken.sequence} of {taken.ref}. Nothing was written.")
            return
        say(f"Record {taken.sequence} of {taken.ref}.")
        if taken.target_session_id is not None:
            say(f"Meant to answer: {inert(taken.target_session_id)}.")
        say(f"Read by {how_many(taken.readers, 'member')}.", "dim")

    act(work, home=home, store=store, as_json=as_json)


def read_text() -> str:
    """Standard input as text, up to a little more than a message may hold."""
    from threadline.core.errors import InvalidInput, TooLarge
    from threadline.core.rules.limits import LIMITS

    body = sys.stdin.buffer.read(LIMITS.text_bytes + READ_AT_ONCE)
    if len(body) > LIMITS.text_bytes:
        raise TooLarge(
            f"the text on standard input is over {LIMITS.text_bytes} bytes.",
            field="text",
            limit=LIMITS.text_bytes,
        )
    try:
        return body.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"standard input is no UTF-8 (byte {error.start}); convert it first."
        ) from None
