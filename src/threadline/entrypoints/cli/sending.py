"""`threadline send` and `sends`: what sessions say first, and what became of each channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadline.entrypoints.cli.appending import read_text
from threadline.entrypoints.cli.door import Exit, Line, act
from threadline.entrypoints.cli.options import Home, Json, Limit, Scope, Session, Store
from threadline.entrypoints.cli.saying import Key, Text
from threadline.entrypoints.cli.shown import (
    at,
    cells,
    console,
    exactly,
    inert,
    say,
    table,
    write_json,
)
from threadline.entrypoints.shapes import plain

if TYPE_CHECKING:
    from threadline.flows.send_status import SendStatus


def send(
    session: Session,
    to: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            show_default=False,
            help="person:ID, PROVIDER:ADDRESS, email:…, alias:…, or a conversation.",
        ),
    ],
    text: Text,
    via: Annotated[
        str,
        typer.Option(
            "--via", metavar="WAY", help="auto, a provider, or PROVIDER/ACCOUNT and no other."
        ),
    ] = "auto",
    key: Key = None,
    due: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TIME", show_default=False, help="Not before then; with its zone."
        ),
    ] = None,
    daily: Annotated[
        str | None,
        typer.Option(
            "--daily", metavar="HH:MM", show_default=False, help="Every day at this time."
        ),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(
            "--zone",
            metavar="ZONE",
            show_default=False,
            help="On whose clocks --daily is, such as Europe/Berlin.",
        ),
    ] = None,
    intent: Annotated[
        str,
        typer.Option(
            "--intent",
            metavar="TEXT",
            show_default=False,
            help="What it is about; nobody tells the same recipient again for a day.",
        ),
    ] = "",
    template: Annotated[
        str | None,
        typer.Option(
            "--template",
            metavar="JSON",
            show_default=False,
            help="The template to send where the platform takes no free words.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Up to 30 seconds, until it is known what became of it.")
    ] = False,
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Let a session write first: to a person, to an address, or in a room.

    It needs an account (`threadline grant`) and that the person or the room agrees
    (`threadline consent`). The answer comes back to the session that wrote.

      threadline send coder web/office/lobby "The build is red again."

      threadline send coder person:0ABC "Your report is ready." --via telegram --intent report-7

      threadline send coder email:ann@example.org "Good morning" --daily 08:30 --zone Europe/Berlin
    """

    async def work(line: Line) -> int:
        from threadline.entrypoints.cli.speaking import time_of

        sent = await line.tl.initiative.send(
            session,
            line.recipient(to),
            read_text() if text == "-" else text,
            via=via,
            key=key,
            at=None if due is None else time_of(due, "--at"),
            repeat=_repeat(daily, zone),
            intent=intent,
            metadata=_metadata(template),
            caller=line.caller,
        )
        if wait:
            sent = await line.tl.initiative.settled(sent, caller=line.caller)
        return _told(sent, as_json)

    act(work, home=home, store=store, scope=scope, as_json=as_json)


def _repeat(daily: str | None, zone: str | None) -> Any:
    """Every day at this time. Raises `InvalidInput` where one is given without the other."""
    from threadline.core.errors import InvalidInput
    from threadline.core.sends import Repeat

    if (daily is None) is not (zone is None):
        raise InvalidInput("--daily 08:30 and --zone Europe/Berlin go together.", field="daily")
    return None if daily is None or zone is None else Repeat(at=daily, zone=zone)


def _metadata(template: str | None) -> dict[str, Any]:
    """The template as metadata. Raises `InvalidInput` for what is no JSON object."""
    import json

    from threadline.core.errors import InvalidInput

    if template is None:
        return {}
    try:
        found = json.loads(template)
    except ValueError as error:
        raise InvalidInput(f"--template is no JSON: {error}", field="template") from None
    if not isinstance(found, dict):
        raise InvalidInput(
            '--template is a JSON object such as {"name": "reminder", "language": "de"}.',
            field="template",
        )
    return {"template": found}


def _told(sent: SendStatus, as_json: bool) -> int:
    """What became of it; one that failed is a refusal."""
    from threadline.core.sends import SendState

    lost = (SendState.FAILED, SendState.EXPIRED, SendState.CANCELLED)
    if as_json:
        write_json(plain(sent))
        return Exit.REFUSED if sent.state in lost else Exit.OK
    if sent.repeated:
        say(f"Asked for before under this key: {sent.id}.", "dim")
    match sent.state:
        case SendState.SCHEDULED if sent.at is not None:
            again = "" if sent.repeat is None else " and every day after that"
            say(f"{sent.id} leaves at {exactly(sent.at)}{again}, while threadline serve runs.")
            say(f"Take it back with: threadline sends cancel {sent.id}", "dim")
        case SendState.OPEN:
            say(f"Written down as {sent.id}; it is sent by the server: threadline serve")
        case SendState.DELIVERED if sent.delivery is not None and sent.delivery.sequence:
            say(f"Record {sent.delivery.sequence} of {sent.delivery.ref}.")
        case SendState.DELIVERED:
            say(f"{sent.id}: delivered.")
        case SendState.SUPPRESSED:
            say(inert(sent.reason))
        case SendState.UNCERTAIN:
            say(f"{sent.id}: nobody knows whether it was said. Look: threadline why {sent.id}")
        case _:
            say(f"Not said ({sent.state.value}): {inert(sent.reason)}")
    return Exit.REFUSED if sent.state in lost else Exit.OK


sends = typer.Typer(help="List what sessions said first, or take one back.")


@sends.callback(invoke_without_command=True)
def list_(
    context: typer.Context,
    session: Annotated[
        str | None,
        typer.Option(
            "--session", metavar="NAME", show_default=False, help="Only those of this session."
        ),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="ID", show_default=False, help="Those before this one."),
    ] = None,
    limit: Limit = 50,
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """List what sessions said on their own initiative, newest first; or take one back.

    `threadline why ID` tells one through all its channels.

      threadline sends --session coder

      threadline sends cancel 0ABC
    """
    if context.invoked_subcommand is not None:
        return

    async def work(line: Line) -> None:
        found = await line.tl.initiative.list(
            session=session, before=before, limit=limit, caller=line.caller
        )
        following = found[-1].id if len(found) == limit else None
        if as_json:
            write_json({"sends": [plain(one) for one in found], "next": following})
            return
        if not found:
            say("No session wrote first yet: threadline send SESSION TO TEXT")
            return
        made = table("id", "when", "session", "to", "channel", "state")
        for one in found:
            made.add_row(
                *cells(
                    one.id,
                    exactly(one.created_at),
                    one.session_id,
                    inert(one.to, 40),
                    channel_of(one),
                    state_of(one),
                )
            )
        console().print(made)
        if following is not None:
            say(f"There may be more: --before {following}", "dim")

    act(work, home=home, store=store, scope=scope, as_json=as_json)


@sends.command("cancel")
def cancel(
    send_id: Annotated[
        str, typer.Argument(metavar="ID", show_default=False, help="As `sends` shows it.")
    ],
    home: Home = None,
    store: Store = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Take back what was not sent yet: its time has not come, or it still waits.

    threadline sends cancel 0ABC
    """

    async def work(line: Line) -> None:
        done = await line.tl.initiative.cancel(send_id, caller=line.caller)
        if as_json:
            write_json(plain(done))
        else:
            say(f"{done.id}: {inert(state_of(done))}")

    act(work, home=home, store=store, scope=scope, as_json=as_json)


def channel_of(one: SendStatus) -> str:
    """The account it went through, or is tried with now."""
    if not one.tried:
        return one.via
    last = one.tried[-1]
    return f"{last['provider']}/{last['account_id']}"


def state_of(one: SendStatus) -> str:
    """A send's state in a cell, with when it leaves and why it did not."""
    from threadline.core.sends import SendState

    words = one.state.value
    if one.state is SendState.SCHEDULED:
        words += f" for {at(one.at)}"
        if one.repeat is not None:
            words += f", daily at {one.repeat.at} {one.repeat.zone}"
    return f"{words}: {one.reason}" if one.reason else words


def tell_send(one: SendStatus) -> None:
    """A send through all its channels."""
    say(f"{one.id} by {inert(one.session_id)} to {inert(one.to)}: {inert(state_of(one))}", "bold")
    if not one.tried:
        return
    made = table("when", "channel", "address", "outcome", "why", "delivery")
    for tried in one.tried:
        made.add_row(
            *cells(
                exactly(tried["at"]),
                f"{tried['provider']}/{tried['account_id']}",
                tried["address"],
                tried["outcome"],
                tried["reason"],
                tried["delivery"] or "",
            )
        )
    console().print(made)
