"""`threadline publish`, `tell`, `deliveries`: what sessions say, and what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threadline.entrypoints.cli.appending import read_text
from threadline.entrypoints.cli.door import Exit, Line, act
from threadline.entrypoints.cli.options import Home, Json, Limit, Ref, Scope, Store
from threadline.entrypoints.cli.shown import (
    cells,
    console,
    exactly,
    inert,
    inert_lines,
    say,
    table,
    write_json,
)
from threadline.entrypoints.shapes import plain, span_of

if TYPE_CHECKING:
    from threadline.core.deliveries import Step
    from threadline.core.model import Attachment
    from threadline.flows.send_status import SendStatus
    from threadline.flows.statuses import DeliveryStatus

WORDS = 60

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


Given = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        metavar="FILE",
        show_default=False,
        exists=True,
        dir_okay=False,
        readable=True,
        help="A file to send along; may be repeated.",
    ),
]


def publish(
    ref: Ref,
    text: Text,
    session: Speaker,
    key: Key = None,
    file: Given = None,
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
    time_to_live: Annotated[
        float | None,
        typer.Option(
            "--time-to-live",
            metavar="SECONDS",
            show_default=False,
            help="What could not be said within so long is not said. Left out: an hour.",
        ),
    ] = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Let a session say something in a conversation.

    It speaks where the conversation is bound to it, or where it is a public participant.

      threadline publish web/office/lobby "The build is green" --as coder --reply-to 4

      threadline publish telegram/7001/42 "The report" --as coder --file report.pdf
    """

    async def work(line: Line) -> int | None:
        where, caller = line.where(ref)
        files = [await _given(line, one, session, key) for one in file or ()]
        sent = await line.tl.outbound.publish(
            where,
            session,
            read_text() if text == "-" else text,
            key=key,
            reply_to=_record(reply_to),
            generation=generation,
            attachments=files,
            time_to_live=span_of(time_to_live),
            caller=caller,
        )
        return _told(sent, as_json)

    act(work, home=home, store=store, as_json=as_json)


async def _given(line: Line, path: Path, session: str, key: str | None) -> Attachment:
    """A file of this disk, taken in. Under a key it is taken in once."""
    from mimetypes import guess_type

    given = await line.tl.uploads.give(
        path.read_bytes(),
        name=path.name,
        type=guess_type(path.name)[0] or "",
        session=session,
        key=key,
        caller=line.caller,
    )
    return given.attachment


def tell(
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

    threadline tell reviewer "Please look at the last change" --as coder
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
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="STATE",
            show_default=False,
            help="Only in this state: uncertain is what may wait for you.",
        ),
    ] = None,
    confirm: Annotated[
        str | None,
        typer.Option(
            "--confirm", metavar="ID", show_default=False, help="It was said: you saw it there."
        ),
    ] = None,
    message_id: Annotated[
        str | None,
        typer.Option(
            "--message-id",
            metavar="ID",
            show_default=False,
            help="With --confirm: the platform's id of the message.",
        ),
    ] = None,
    resend: Annotated[
        str | None,
        typer.Option(
            "--resend",
            metavar="ID",
            show_default=False,
            help="Say it again, behind what waits; it may be there twice.",
        ),
    ] = None,
    drop: Annotated[
        str | None,
        typer.Option("--drop", metavar="ID", show_default=False, help="Give an uncertain one up."),
    ] = None,
    cancel: Annotated[
        str | None,
        typer.Option("--cancel", metavar="ID", show_default=False, help="Take a pending one back."),
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
    """List what sessions said and what became of it, newest first; or settle one by hand.

    A message whose fate nobody knows is `uncertain`: it is never repeated by itself. Look on the
    platform, then confirm, resend or drop it.

      threadline deliveries --state uncertain
    """

    async def work(line: Line) -> int | None:
        from threadline.core.errors import InvalidInput

        asked = {"confirm": confirm, "resend": resend, "drop": drop, "cancel": cancel}
        chosen = {action: name for action, name in asked.items() if name is not None}
        if len(chosen) > 1:
            raise InvalidInput("one action at a time.")
        for action, name in chosen.items():
            if action == "confirm":
                done = await line.tl.deliveries.confirm(name, message_id, caller=line.caller)
            else:
                done = await getattr(line.tl.deliveries, action)(name, caller=line.caller)
            if as_json:
                write_json(plain(done))
            else:
                say(f"{done.id}: {inert(_state(done))}")
            return None
        where, caller = (None, line.caller) if ref is None else line.where(ref)
        page = await line.tl.deliveries.page(
            where=where, session=session, state=state, after=after, limit=limit, caller=caller
        )
        if as_json:
            write_json(plain(page))
            return None
        if not page.deliveries:
            say("Nothing was said yet." if state is None else f"None is {inert(state)}.")
            return None
        # Whose send it is stands there only where one is.
        first = any(one.send for one in page.deliveries)
        names = ["id", "when", "session", "conversation", "state", "record"]
        made = table(*names, *(["send"] if first else []), right=["record"])
        for one in page.deliveries:
            place = "" if one.sequence is None else one.sequence
            now = f"{_state(one)} “{one.words[:WORDS]}”" if one.words else _state(one)
            row = [one.id, exactly(one.created_at), one.session_id, one.ref, now, place]
            made.add_row(*cells(*row, *([one.send or ""] if first else [])))
        console().print(made)
        if page.next is not None:
            say(f"There are more: --after {page.next}", "dim")
        return None

    act(work, home=home, store=store, scope=scope, as_json=as_json)


def why(
    name: Annotated[
        str,
        typer.Argument(
            metavar="MESSAGE_OR_DELIVERY",
            show_default=False,
            help="A delivery's or a send's id, or a record as CONVERSATION:NUMBER.",
        ),
    ],
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Tell one message through all its states: written, sent, refused, in doubt, recorded.

    What a session said first (`threadline send`) is told through all its channels.

      threadline why web/office/lobby:4
    """

    async def work(line: Line) -> None:
        from threadline.entrypoints.cli.sending import tell_send

        found, sent = await _meant(line, name)
        if sent is not None and not as_json:
            tell_send(sent)
        shown: DeliveryStatus | None = None
        trail: tuple[Step, ...] = ()
        if found is not None:
            shown, trail = await line.tl.deliveries.why(found, caller=line.caller)
            if sent is None and shown.send is not None:
                sent = await line.tl.initiative.show(shown.send, caller=line.caller)
        if as_json:
            write_json({"delivery": plain(shown), "steps": plain(trail), "send": plain(sent)})
            return
        if shown is not None:
            _tell_trail(shown, trail)

    act(work, home=home, store=store, scope=scope, as_json=as_json)


async def _meant(line: Line, name: str) -> tuple[str | None, SendStatus | None]:
    """The id of the delivery that is meant, and the send where that was named."""
    from threadline.core.errors import NotFound

    place, mark, number = name.rpartition(":")
    if mark and number.removeprefix("-").isdecimal():
        where, caller = line.where(place)
        found = await line.tl.deliveries.of_record(where, int(number), caller=caller)
        if found is None:
            raise NotFound(
                f"record {number} of {place} was not said by a session here.", message=name
            )
        return found, None
    if "." in name:
        return name, None
    sent = await line.tl.initiative.show(name, caller=line.caller)
    return (None if sent.delivery is None else sent.delivery.id), sent


def _tell_trail(shown: DeliveryStatus, trail: tuple[Step, ...]) -> None:
    """A delivery through all its states."""
    say(f"{shown.id} by {inert(shown.session_id)} in {shown.ref}", "bold")
    if shown.words:
        say(f"“{inert_lines(shown.words)}”")
    made = table("when", "state", "what")
    for step in trail:
        made.add_row(*cells(exactly(step.at), step.state.value, step.note))
    console().print(made)
    if shown.sequence is not None:
        say(f"Record {shown.sequence}, known there as {', '.join(shown.message_ids) or '-'}.")
    elif shown.parked:
        say("Nobody knows whether it was said. Look there, then confirm, resend or drop it.")
    if shown.send is not None:
        say(f"It was written first: threadline why {shown.send}", "dim")


def _state(one: DeliveryStatus) -> str:
    """A delivery's state in a cell, with what goes with it."""
    words = one.state.value
    if one.parts > 1 and one.confirmed < one.parts:
        words += f" ({one.confirmed}/{one.parts})"
    if one.parked:
        words += ", parked"
    return f"{words}: {one.reason}" if one.reason else words


def _record(given: str | None) -> int | str | None:
    """A record's number, which may be negative, or a message id."""
    if given is None:
        return None
    return int(given) if given.removeprefix("-").isdecimal() else given


def _told(sent: DeliveryStatus, as_json: bool) -> int:
    """What became of it; a delivery that failed is a refusal."""
    from threadline.core.deliveries import DeliveryState

    failed = sent.state is DeliveryState.FAILED
    if as_json:
        write_json(plain(sent))
    elif failed:
        say(f"Not said: {inert(sent.reason)}")
    elif sent.state is DeliveryState.PENDING:
        say(f"Written down as {sent.id}; it is sent by the server: threadline serve")
    elif sent.state is not DeliveryState.DELIVERED:
        say(f"{sent.id}: {inert(_state(sent))}")
    elif sent.repeated:
        say(f"Said before under this key: record {sent.sequence} of {sent.ref}.")
    elif sent.sequence is None:
        say(f"{sent.ref} is being imported; the record follows its history.")
    else:
        say(f"Record {sent.sequence} of {sent.ref}.")
    return Exit.REFUSED if failed else Exit.OK
