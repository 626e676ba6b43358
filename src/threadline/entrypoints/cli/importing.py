"""`threadline import`: an export becomes history."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadline.entrypoints.cli.door import Line, act
from threadline.entrypoints.cli.options import Home, Json, Scope, Store
from threadline.entrypoints.cli.progress import progress
from threadline.entrypoints.cli.shown import how_many, inert, say, write_json
from threadline.entrypoints.shapes import plain

if TYPE_CHECKING:
    from threadline.core.archive import Account, Tally

COUNTED = {
    "messages": "messages",
    "system": "system lines",
    "notices": "notices",
    "edits": "edits",
    "edited": "edited",
    "deleted": "deleted",
    "encrypted": "not readable, encrypted",
    "reactions": "reactions",
    "attachments": "attachments",
    "replies": "replies",
}


def import_(
    file: Annotated[
        str, typer.Argument(metavar="FILE", show_default=False, help="A file, folder or zip.")
    ],
    account: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="PROVIDER/ACCOUNT",
            show_default=False,
            help="Whose conversations they are: slack/T1, irc/libera.",
        ),
    ],
    zone: Annotated[
        str | None,
        typer.Option(
            "--zone",
            metavar="ZONE",
            show_default=False,
            help="The zone of times that name none: Europe/Berlin. Left out: UTC.",
        ),
    ] = None,
    date_order: Annotated[
        str | None,
        typer.Option(
            "--date-order",
            metavar="ORDER",
            show_default=False,
            help="Day, month and year of a WhatsApp file: dmy, mdy or ymd.",
        ),
    ] = None,
    date: Annotated[
        str | None,
        typer.Option(
            "--date",
            metavar="DAY",
            show_default=False,
            help="The day a log of bare times begins on: 2024-03-01.",
        ),
    ] = None,
    conversation: Annotated[
        str | None,
        typer.Option(
            "--conversation",
            metavar="ID",
            show_default=False,
            help="The conversation's id where the file does not name it.",
        ),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option(
            "--title", metavar="TEXT", show_default=False, help="Its title, the same way."
        ),
    ] = None,
    self_id: Annotated[
        str | None,
        typer.Option(
            "--self-id", metavar="AUTHOR", show_default=False, help="The author in it that is us."
        ),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="MODE",
            show_default=False,
            help="gated, or prepending (in front of live traffic). Left out: what fits.",
        ),
    ] = None,
    scope: Scope = None,
    home: Home = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Import an export: Slack, Discord, Telegram, WhatsApp, Matrix, IRC, mbox.

    The format is found by looking. Importing the same or a longer export again adds only what is
    new. A store that is not there yet is made.

      threadline import slack-export.zip --as slack/T1
      threadline import chat.txt --as whatsapp/me --zone Europe/Berlin
    """

    async def work(line: Line) -> int:
        from threadline.archives import identify
        from threadline.core.archive import Options, Tally
        from threadline.core.model import Controller, WindowMode
        from threadline.entrypoints.files import open_source

        target = _account(account, line.settings.scope)
        options = Options(
            zone=None if zone is None else _zone(zone),
            date_order=_word(date_order, ("dmy", "mdy", "ymd"), "--date-order"),
            conversation=conversation,
            title=title,
            date=None if date is None else _day(date),
            self_id=self_id,
        )
        chosen = None if mode is None else WindowMode.of(mode)
        tally = Tally()
        with open_source(file) as source:
            reader = identify(source)
            with progress(reader.format, source, quiet=as_json) as watch:
                summary = await line.tl.importing.run(
                    reader.read(watch.over(source), target, options, tally),
                    tally,
                    owner=f"import/{source.title}",
                    account=target,
                    progress=watch.wrote,
                    mode=chosen,
                    caller=Controller(target.scope_id),
                )
        if as_json:
            write_json({"format": reader.format, "file": file, **plain(summary)})
        else:
            _tell(reader.format, file, summary)
        return 0

    act(work, home=home, store=store, scope=scope, as_json=as_json, make=True)


def _account(text: str, scope: str) -> Account:
    """`provider/account`, `?scope=` where it is another tenant's. Raises `InvalidInput`."""
    from threadline.core.archive import Account
    from threadline.core.errors import InvalidInput, ThreadlineError
    from threadline.core.model import ConversationRef

    path, mark, tenant = text.partition("?scope=")
    try:
        # A ref with a stand-in for the conversation checks every part as all refs are checked.
        ref = ConversationRef.parse(f"{path}/-?scope={tenant}" if mark else f"{path}/-")
    except ThreadlineError as error:
        raise InvalidInput(
            f"--as {text!r} is not provider/account ({error.detail.rstrip('.')}).", given=text
        ) from None
    if ref.parent_conversation_id is not None:
        raise InvalidInput(f"--as {text!r} is not provider/account.", given=text)
    return Account(
        provider=ref.provider, account_id=ref.account_id, scope_id=ref.scope_id if mark else scope
    )


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    from threadline.core.errors import InvalidInput

    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise InvalidInput(
            f"--zone {name!r} is unknown; write it as Europe/Berlin or America/New_York.", zone=name
        ) from None


def _day(text: str) -> datetime:
    from threadline.core.errors import InvalidInput

    try:
        return datetime.strptime(text, "%Y-%m-%d")
    except ValueError:
        raise InvalidInput(f"--date {text!r} is no day; write 2024-03-01.", date=text) from None


def _word(text: str | None, known: tuple[str, ...], name: str) -> str | None:
    from threadline.core.errors import InvalidInput

    if text is not None and text not in known:
        raise InvalidInput(f"{name} is one of: {', '.join(known)}.", given=text)
    return text


def _tell(name: str, file: str, summary: Any) -> None:
    """What was taken, what was left, and why."""
    rooms = how_many(summary.conversations, "conversation")
    threads = f" and {how_many(summary.threads, 'thread')}" if summary.threads else ""
    say(f"{name}: {rooms}{threads} from {inert(file)}.")
    words = [f"{how_many(summary.written, 'record')} written"]
    if summary.known:
        words.append(f"{summary.known:,} known already")
    say("  " + ", ".join(words) + ".")
    say(f"  In the file: {_counted(summary.tally)}.")
    left = [f"{count:,} × {inert(why)}" for why, count in summary.tally.skipped.most_common()]
    if summary.refused:
        left.append(f"{summary.refused:,} × refused by the ledger")
    if left:
        say("  Skipped or doubtful, and why:")
        for one in left:
            say(f"    {one}")
    for one in [*summary.tally.problems, *summary.refusals][:10]:
        say(f"    {inert(one, 160)}", "dim")
    say("Next: threadline conversations", "dim")


def _counted(tally: Tally) -> str:
    """What a file holds, in the words all readers share."""
    counts = tally.counts
    words = [f"{counts[kind]:,} {word}" for kind, word in COUNTED.items() if counts[kind]]
    words = words or ["no messages"]
    return f"{', '.join(words)}; {how_many(len(tally.authors), 'author')}"
