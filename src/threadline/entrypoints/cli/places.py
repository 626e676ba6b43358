"""Commands about conversations: make the store, list them, show one, read one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from threadline.entrypoints.cli.door import Line, act, sqlite_file
from threadline.entrypoints.cli.options import Home, Json, Limit, Ref, Scope, Store
from threadline.entrypoints.cli.shown import (
    ago,
    at,
    cells,
    console,
    how_many,
    inert,
    policy_text,
    say,
    table,
    transcript,
    write_json,
)
from threadline.entrypoints.shapes import plain, record_of


def init(home: Home = None, store: Store = None, as_json: Json = False) -> None:
    """Make the store and its key, or check that they are there.

    threadline init
    threadline init --store sqlite:team.db
    """

    async def work(line: Line) -> None:
        url = shown_url(line.settings.url)
        file = sqlite_file(line.settings.url)
        key = line.settings.key_file or f"{file}.key"
        if as_json:
            write_json({"store": url, "key_file": str(key), "kind": line.tl.store.kind})
            return
        say(f"The store is ready: {url}")
        say(f"Its key: {key}. Keep a copy, but not in the backups of the database.", "dim")
        say("Next: threadline import FILE --as provider/account", "dim")

    act(work, home=home, store=store, as_json=as_json, make=True)


def shown_url(url: str) -> str:
    """A store's URL without its password."""
    head, mark, tail = url.partition("://")
    if not mark or "@" not in tail:
        return url
    who, _, rest = tail.rpartition("@")
    return f"{head}://{who.partition(':')[0]}@{rest}"


def conversations(
    session: Annotated[
        str | None,
        typer.Option(
            "--session", metavar="NAME", show_default=False, help="Only those this session is in."
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            "--after", metavar="PLACE", show_default=False, help="Go on where a page ended."
        ),
    ] = None,
    limit: Limit = 100,
    scope: Scope = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the conversations, by their address.

    threadline conversations
    threadline conversations --session helper
    threadline conversations --json -n 500
    """

    async def work(line: Line) -> None:
        if session is not None:
            await _own(line, session, after, limit, as_json)
            return
        states, following = await line.tl.conversations.page(
            after=after or "", limit=limit, caller=line.caller
        )
        if as_json:
            write_json({"conversations": [plain(one) for one in states], "next": following})
            return
        if not states:
            say("No conversation yet. `threadline import` or `threadline append` begins one.")
            return
        made = table("conversation", "title", "kind", "records", "members", "history", "id")
        for state in states:
            records = max(0, state.next_sequence - state.earliest_sequence)
            made.add_row(
                *cells(
                    state.ref,
                    inert(state.title, 28),
                    state.kind.value,
                    f"{records:,}",
                    state.members or "",
                    state.history.value,
                    state.id,
                )
            )
        console().print(made)
        _more(following)

    act(work, home=home, store=store, scope=scope, as_json=as_json)


async def _own(line: Line, session: str, after: str | None, limit: int, as_json: bool) -> None:
    """The conversations of one session, with its cursor in each."""
    from threadline.core.errors import InvalidInput
    from threadline.core.ids import number_of, public

    place = -1 if after is None else number_of(after)
    if place is None:
        raise InvalidInput("--after is what an earlier page gave as `next`.", after=after)
    members, following = await line.tl.members.conversations_of(
        session, after=place, limit=limit, caller=line.caller
    )
    if as_json:
        rest = None if following is None else public(following)
        write_json({"conversations": [plain(one) for one in members], "next": rest})
        return
    if not members:
        say(f"{inert(session)} is in no conversation. Join one: threadline join REF SESSION")
        return
    made = table("conversation", "policy", "read up to", "newest", right=("read up to", "newest"))
    for one in members:
        made.add_row(*cells(one.ref, policy_text(one.policy), one.cursor, one.head))
    console().print(made)
    _more(None if following is None else public(following))


def _more(following: str | None) -> None:
    if following is not None:
        say(f"There are more: --after {following}", "dim")


def show(ref: Ref, home: Home = None, store: Store = None, as_json: Json = False) -> None:
    """Show one conversation: its counters, its history, who speaks.

    threadline show slack/T1/C9
    """

    async def work(line: Line) -> None:
        where, caller = line.where(ref)
        state = await line.tl.conversations.show(where, caller=caller)
        bound = await line.tl.speakers.binding(where, caller=caller)
        group = None
        if state.grouped:
            group = await line.tl.speakers.show_group(where, caller=caller)
        if as_json:
            write_json({**plain(state), "binding": plain(bound), "group": plain(group)})
            return
        for name, value in _facts(state, bound, group):
            console().print(f"{name:<12}{inert(value)}", soft_wrap=True)

    act(work, home=home, store=store, as_json=as_json)


def _facts(state: Any, bound: Any, group: Any) -> list[tuple[str, str]]:
    """What `show` says, a line each."""
    kept = f"{state.earliest_sequence:,} to {state.head:,}" if state.next_sequence > 1 else "none"
    if state.next_sequence <= state.earliest_sequence:
        kept = "none"
    history = state.history.value + (f": {state.reason}" if state.reason else "")
    said = [
        ("address", str(state.ref)),
        ("id", state.id),
        ("kind", state.kind.value),
        ("title", state.title or "(none)"),
        ("records", kept),
        ("history", f"{history} (import: {state.hydration.value})"),
        ("members", str(state.members)),
        ("since", ago(state.created_at)),
    ]
    if state.held:
        said.append(("waiting", f"{how_many(state.held, 'message')} until the import is done"))
    if state.parent is not None:
        said.append(("thread of", state.parent))
    if state.moved_to is not None:
        said.append(("moved to", state.moved_to))
    if bound is not None:
        until = f", until {at(bound.expires_at)}" if bound.expires_at else ""
        said.append(("bound to", f"{bound.session_id} (generation {bound.generation}{until})"))
    if group is not None:
        seats = ", ".join(f"@{one.handle} = {one.session_id}" for one in group.participants)
        said.append(("group", f"{group.mode.value}; {seats or 'no handles yet'}"))
    return said


def history(
    ref: Ref,
    limit: Limit = 50,
    after: Annotated[
        int | None,
        typer.Option(
            "--after", metavar="SEQUENCE", show_default=False, help="The first ones behind it."
        ),
    ] = None,
    before: Annotated[
        int | None,
        typer.Option(
            "--before", metavar="SEQUENCE", show_default=False, help="The last ones in front of it."
        ),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            "--session", metavar="NAME", show_default=False, help="Only what this session may read."
        ),
    ] = None,
    messages: Annotated[
        bool,
        typer.Option("--messages", help="Messages with their edits applied, not every entry."),
    ] = False,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Print a transcript: its newest records, or a page of it.

    threadline history slack/T1/C9
    threadline history slack/T1/C9 --after 100 -n 20
    threadline history slack/T1/C9 --session helper --json
    """

    async def work(line: Line) -> None:
        where, caller = line.where(ref)
        forward = after is not None
        page = await line.tl.conversations.transcript(
            where,
            after=after,
            before=before,
            order="asc" if forward else "desc",
            limit=limit,
            view="messages" if messages else "records",
            caller=caller,
            session=session,
        )
        records = page.records if forward else page.records[::-1]
        folded = page.messages if forward else page.messages[::-1]
        if as_json:
            found = plain(page)
            found["records"] = [record_of(one) for one in records]
            found["messages"] = [{**plain(one), "record": record_of(one.record)} for one in folded]
            if not messages:
                del found["messages"]
            write_json(found)
            return
        if not records:
            say("Nothing was said here that can be read.")
            return
        console().print(transcript([one.record for one in folded] if messages else records))
        if page.next is not None:
            there = f"--after {page.next}" if forward else f"--before {page.next}"
            say(f"\nThere are more: {there}", "dim")
        if page.reason:
            say(f"The history is {page.history.value}: {inert(page.reason)}.", "dim")

    act(work, home=home, store=store, as_json=as_json)
