"""Commands about who speaks: bind, group."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from threadline.entrypoints.cli.door import Line, act
from threadline.entrypoints.cli.options import Home, Json, Number, Policy, Ref, Store
from threadline.entrypoints.cli.shown import (
    at,
    cells,
    console,
    inert,
    introduce,
    say,
    table,
    write_json,
)
from threadline.entrypoints.shapes import plain


def bind(
    ref: Ref,
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION", show_default=False, help="Whose it shall be; left out, shows it."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            show_default=False,
            help="When it ends by itself: 2030-01-31T12:00+01:00.",
        ),
    ] = None,
    policy: Policy = None,
    n: Number = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Give a conversation to one session: it answers where there is no group.

    threadline bind telegram/7001/42 helper
    threadline bind telegram/7001/42 helper --policy last_n -n 20
    threadline bind telegram/7001/42
    """

    async def work(line: Line) -> None:
        from threadline.core.rules.binding import KEEP

        where, caller = line.where(ref)
        strangers: list[str] = []
        if session is None:
            bound = await line.tl.speakers.binding(where, caller=caller)
        else:
            strangers = await line.strangers(session, caller=caller)
            bound = await line.tl.speakers.bind(
                where,
                session,
                policy=policy or (None if n is None else "last_n"),
                n=n,
                expires_at=KEEP if until is None else time_of(until, "--until"),
                caller=caller,
            )
        if as_json:
            write_json({"binding": plain(bound)})
        else:
            introduce(strangers)
            say(_bound_text(bound))

    act(work, home=home, store=store, as_json=as_json)


def unbind(ref: Ref, home: Home = None, store: Store = None, as_json: Json = False) -> None:
    """End a conversation's binding; the session stays a member only for other reasons.

    threadline unbind telegram/7001/42
    """

    async def work(line: Line) -> None:
        where, caller = line.where(ref)
        bound = await line.tl.speakers.unbind(where, caller=caller)
        if as_json:
            write_json({"ended": plain(bound)})
        elif bound is None:
            say("There was no binding.")
        else:
            say(f"{bound.ref} no longer belongs to {inert(bound.session_id)}.")

    act(work, home=home, store=store, as_json=as_json)


def _bound_text(bound: Any) -> str:
    if bound is None:
        return "It is bound to nobody."
    until = f", until {at(bound.expires_at)}" if bound.expires_at else ""
    who = inert(bound.session_id)
    return f"{bound.ref} belongs to {who} (generation {bound.generation}{until})."


def time_of(text: str, name: str) -> datetime:
    """A time as it was typed. Raises `InvalidInput`."""
    from threadline.core.errors import InvalidInput

    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{name} {text!r} is no time; write 2030-01-31T12:00+01:00.", field=name
        ) from None


def group(
    ref: Ref,
    handle: Annotated[
        list[str] | None,
        typer.Option(
            "--participant",
            metavar="HANDLE=SESSION",
            show_default=False,
            help="Give a session a handle; it becomes a member. May be repeated.",
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="HANDLE", show_default=False, help="Take a handle away."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="MODE",
            show_default=False,
            help="open, or mention: who is not named does not speak.",
        ),
    ] = None,
    default: Annotated[
        str | None,
        typer.Option(
            "--default",
            metavar="HANDLE",
            show_default=False,
            help="Who speaks where nobody was named yet.",
        ),
    ] = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Let several sessions speak in a conversation, each under a handle; or show who does.

    threadline group slack/T1/C9 --participant coder=build-bot --participant guide=docs
    threadline group slack/T1/C9 --default guide
    threadline group slack/T1/C9
    """

    async def work(line: Line) -> None:
        from threadline.core.rules.binding import KEEP

        where, caller = line.where(ref)
        seats = [_seat(one) for one in handle or ()]
        speakers = line.tl.speakers
        if not (seats or remove or mode is not None or default is not None):
            state = await line.tl.conversations.show(where, caller=caller)
            if not state.grouped:
                if as_json:
                    write_json({"group": None})
                else:
                    say("There is no group here. Make one: --participant HANDLE=SESSION")
                return
        if mode is not None or default is not None:
            chosen = KEEP if default is None else default
            await speakers.group(where, mode=mode, default_handle=chosen, caller=caller)
        strangers = await line.strangers(*(session for _, session in seats), caller=caller)
        for name, session in seats:
            await speakers.participant(where, name, session, caller=caller)
        for name in remove or ():
            await speakers.remove_participant(where, name, caller=caller)
        found = await speakers.show_group(where, caller=caller)
        if as_json:
            write_json({"group": plain(found)})
            return
        introduce(strangers)
        if not found.participants:
            say("The group has no handles yet: --participant HANDLE=SESSION")
            return
        made = table("handle", "session", "speaks")
        for seat in found.participants:
            marks = []
            if seat.handle.casefold() == (found.last_addressed_handle or "").casefold():
                marks.append("addressed last")
            if seat.handle.casefold() == (found.default_handle or "").casefold():
                marks.append("by default")
            made.add_row(*cells(f"@{seat.handle}", seat.session_id, ", ".join(marks)))
        console().print(made)
        if found.mode.value == "mention":
            say("Mode mention: a message that names nobody has no speaker.", "dim")

    act(work, home=home, store=store, as_json=as_json)


def _seat(text: str) -> tuple[str, str]:
    """`HANDLE=SESSION` in its two parts, checked before the first of several is written."""
    from threadline.core.errors import InvalidInput
    from threadline.core.rules.speaking import checked_handle
    from threadline.core.seating import checked_name

    name, mark, session = text.partition("=")
    if not (mark and name.strip() and session.strip()):
        raise InvalidInput(f"--participant {text!r} is not HANDLE=SESSION.", handle=text)
    return checked_handle(name), checked_name(session.strip())
