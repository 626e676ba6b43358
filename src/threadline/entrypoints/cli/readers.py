"""Commands about who reads: join, leave, members, sessions, ack."""

from __future__ import annotations

from typing import Annotated

import typer

from threadline.entrypoints.cli.door import Line, act
from threadline.entrypoints.cli.options import (
    Home,
    Json,
    Limit,
    Number,
    Policy,
    Ref,
    Scope,
    Session,
    Store,
)
from threadline.entrypoints.cli.shown import (
    ago,
    cells,
    console,
    how_many,
    inert,
    introduce,
    policy_text,
    say,
    table,
    write_json,
)
from threadline.entrypoints.shapes import plain


def join(
    ref: Ref,
    session: Session,
    policy: Policy = None,
    n: Number = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Make a session a member.

    An unknown session is created; joining again changes nothing.

      threadline join slack/T1/C9 helper
      threadline join slack/T1/C9 helper --policy since_join
      threadline join slack/T1/C9 helper --policy last_n -n 20
    """

    async def work(line: Line) -> None:
        where, caller = line.where(ref)
        chosen = policy or ("all" if n is None else "last_n")
        strangers = await line.strangers(session, caller=caller)
        member = await line.tl.members.join(where, session, policy=chosen, n=n, caller=caller)
        lag = await line.tl.replay.lag(where, session, caller=caller)
        if as_json:
            write_json({**plain(member), "unread": lag.unread})
            return
        asked = policy_text(member.policy)
        introduce(strangers)
        say(f"{inert(session)} reads {member.ref} with policy {asked}: {lag.unread:,} to read.")
        if asked.split()[0] != chosen:
            say("It was a member before; what it may read stays as it was.", "dim")
        say(f"Next: threadline tail {inert(session)} --once", "dim")

    act(work, home=home, store=store, as_json=as_json)


def leave(
    ref: Ref,
    session: Session,
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason",
            metavar="REASON",
            show_default=False,
            help="Take only this reason away: manual, binding or group.",
        ),
    ] = None,
    evict: Annotated[
        bool, typer.Option("--evict", help="Take all away; only a new grant lets it in again.")
    ] = False,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """End a session's membership.

    Its cursor is kept for the next time.

      threadline leave slack/T1/C9 helper
      threadline leave slack/T1/C9 helper --reason binding
    """

    async def work(line: Line) -> None:
        where, caller = line.where(ref)
        member = await line.tl.members.leave(
            where, session, reason=reason, evict=evict, caller=caller
        )
        if as_json:
            write_json(plain(member))
            return
        if member.active:
            kept = ", ".join(sorted(member.grants))
            say(f"{inert(session)} stays in {member.ref} for another reason: {kept}.")
        else:
            say(f"{inert(session)} has left {member.ref}. It had read up to {member.cursor}.")

    act(work, home=home, store=store, as_json=as_json)


def members(
    ref: Ref, limit: Limit = 100, home: Home = None, store: Store = None, as_json: Json = False
) -> None:
    """List who reads a conversation, and how far each has got.

    threadline members slack/T1/C9
    """

    async def work(line: Line) -> None:
        where, caller = line.where(ref)
        found, following = await line.tl.members.of(where, limit=limit, caller=caller)
        if as_json:
            write_json({"members": [plain(one) for one in found], "more": following is not None})
            return
        if not found:
            say("Nobody reads this conversation. Let a session in: threadline join REF SESSION")
            return
        numbers = ("reads from", "read up to", "newest")
        made = table("session", "policy", "because", *numbers, "handles", right=numbers)
        for one in found:
            made.add_row(
                *cells(
                    one.session_id,
                    policy_text(one.policy),
                    ", ".join(sorted(one.grants)),
                    one.visible_from,
                    one.cursor,
                    one.head,
                    " ".join(f"@{handle}" for handle in one.handles),
                )
            )
        console().print(made)
        if following is not None:
            say(f"There are more than {limit}.", "dim")

    act(work, home=home, store=store, as_json=as_json)


def sessions(
    limit: Limit = 100,
    scope: Scope = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the sessions.

    threadline sessions
    """

    async def work(line: Line) -> None:
        found, following = await line.tl.sessions.page(limit=limit, caller=line.caller)
        if as_json:
            write_json({"sessions": [plain(one) for one in found], "more": following is not None})
            return
        if not found:
            say("No session yet. `threadline join REF SESSION` makes one.")
            return
        made = table("session", "since", "also called", "state")
        for one in found:
            state = "" if one.retired_at is None else f"retired {ago(one.retired_at)}"
            made.add_row(*cells(one.session_id, ago(one.created_at), ", ".join(one.aliases), state))
        console().print(made)
        if following is not None:
            say(f"There are more than {limit}.", "dim")

    act(work, home=home, store=store, scope=scope, as_json=as_json)


def ack(
    ref: Ref,
    session: Session,
    sequence: Annotated[
        int,
        typer.Argument(metavar="SEQUENCE", show_default=False, help="The last one it has read."),
    ],
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Say how far a session has read.

    The cursor never moves back.

      threadline ack slack/T1/C9 helper 120
    """

    async def work(line: Line) -> None:
        where, caller = line.where(ref)
        await line.tl.replay.ack(where, session, sequence, caller=caller)
        lag = await line.tl.replay.lag(where, session, caller=caller)
        if as_json:
            write_json(plain(lag))
            return
        left = "nothing left" if not lag.unread else how_many(lag.unread, "record") + " left"
        say(f"{inert(session)} has read {lag.ref} up to {lag.cursor}; {left}.")

    act(work, home=home, store=store, as_json=as_json)
