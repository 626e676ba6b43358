"""`threadline link`: ways into a room for people without a token."""

from __future__ import annotations

from typing import Annotated

import typer

from threadline.entrypoints.cli.door import Line, act
from threadline.entrypoints.cli.options import Home, Json, Number, Policy, Store
from threadline.entrypoints.cli.shown import at, cells, console, hint, inert, say, table, write_json
from threadline.entrypoints.shapes import plain


def link(
    ref: Annotated[
        str | None,
        typer.Argument(
            metavar="REF", show_default=False, help="The room: provider/account/conversation or id."
        ),
    ] = None,
    days: Annotated[
        int, typer.Option("--days", min=1, max=90, metavar="N", help="How long it opens the room.")
    ] = 7,
    policy: Policy = None,
    n: Number = None,
    name: Annotated[
        str, typer.Option("--name", metavar="TEXT", show_default=False, help="What it is for.")
    ] = "",
    listed: Annotated[bool, typer.Option("--list", help="List the room's links instead.")] = False,
    revoke: Annotated[
        str | None,
        typer.Option(
            "--revoke", metavar="ID", show_default=False, help="End this link and its guests."
        ),
    ] = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Make a link that lets people into a room as guests. It is shown now and never again.

    Whoever has it reads what is said from its coming on, or more with --policy, and speaks in
    rooms of the provider web.

      threadline link web/office/lobby
      threadline link web/office/lobby --days 30 --policy last_n -n 20
      threadline link web/office/lobby --list
      threadline link --revoke ID
    """

    async def work(line: Line) -> None:
        if revoke is not None:
            await _revoke(line, revoke, as_json)
        elif listed:
            await _list(line, _given(ref), as_json)
        else:
            await _make(line, _given(ref), days, policy or "since_join", n, name, as_json)

    act(work, home=home, store=store, as_json=as_json)


def _given(ref: str | None) -> str:
    from threadline.core.errors import InvalidInput

    if ref is None:
        raise InvalidInput("name the room, such as web/office/lobby.", field="ref")
    return ref


async def _make(
    line: Line, ref: str, days: int, policy: str, n: int | None, name: str, as_json: bool
) -> None:
    from datetime import UTC, datetime, timedelta

    where, caller = line.where(ref)
    made = await line.tl.links.create(
        where,
        name=name,
        policy=policy,
        n=n,
        expires_at=datetime.now(UTC) + timedelta(days=days),
        caller=caller,
    )
    path = f"/chat/{made.secret}"
    url = line.settings.address + path
    if as_json:
        write_json({**plain(made), "secret": None, "url_path": path, "url": url})
        return
    say(url)
    hint(f"It is shown only now, and opens the room until {at(made.expires_at)}.")
    hint(f"Revoke it with: threadline link --revoke {made.id}")


async def _list(line: Line, ref: str, as_json: bool) -> None:
    from threadline.flows.links import LinkState

    where, caller = line.where(ref)
    found: list[LinkState] = []
    after: str | None = None
    while True:
        page, after = await line.tl.links.page(where, after=after, limit=500, caller=caller)
        found += page
        if after is None:
            break
    if as_json:
        write_json({"links": [plain(one) for one in found]})
        return
    if not found:
        say("The room has no link. Make one: threadline link REF")
        return
    made = table("id", "name", "policy", "made", "ends")
    for one in found:
        ends = f"revoked {at(one.revoked_at)}" if one.revoked_at else at(one.expires_at)
        word = one.policy.value if one.n is None else f"{one.policy.value} {one.n}"
        made.add_row(*cells(one.id, one.name, word, at(one.created_at), ends))
    console().print(made)


async def _revoke(line: Line, link_id: str, as_json: bool) -> None:
    from threadline.core.model import Controller

    ended = await line.tl.links.revoke(link_id, caller=Controller(None))
    if as_json:
        write_json(plain(ended))
        return
    say(f"Revoked: {inert(ended.name or ended.id)}. Its guests are out.")
