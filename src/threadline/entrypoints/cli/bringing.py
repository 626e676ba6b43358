"""Commands that bring words in: import an export, append a message."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadline.entrypoints.cli.door import Line, act
from threadline.entrypoints.cli.options import Json, Ref, Store
from threadline.entrypoints.cli.shown import (
    aside,
    how_many,
    inert,
    plain,
    record_of,
    say,
    write_json,
)
from threadline.entrypoints.cli.speaking import time_of

if TYPE_CHECKING:
    from threadline.core.archive import Account

READ_AT_ONCE = 1024 * 1024


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
            "--self", metavar="AUTHOR", show_default=False, help="The author in it that is us."
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
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Import an export: Slack, Discord, Telegram, WhatsApp, Matrix, IRC, mbox.

    The format is found by looking. Importing the same or a longer export again adds only what is
    new. A store that is not there yet is made.

    \b
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
            with _progress(f"{reader.format}", quiet=as_json) as progress:
                summary = await line.tl.importing.run(
                    reader.read(source, target, options, tally),
                    tally,
                    owner=f"import/{source.title}",
                    account=target,
                    progress=progress,
                    mode=chosen,
                    caller=Controller(target.scope_id),
                )
        if as_json:
            write_json({"format": reader.format, "file": file, **plain(summary)})
        else:
            _tell(reader.format, file, summary)
        return 0

    act(work, store=store, as_json=as_json, make=True)


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


@contextmanager
def _progress(name: str, *, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """How many records are written so far, on standard error where somebody looks at it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn(name),
        BarColumn(),
        TextColumn("{task.completed:,.0f} records, {task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
        console=aside(),
        transient=True,
    ) as bar:
        task = bar.add_task(name, total=None, rate=0.0)

        def so_far(records: int) -> None:
            elapsed = bar.tasks[0].elapsed or 0.0
            bar.update(task, completed=records, rate=records / elapsed if elapsed else 0.0)

        yield so_far


def _tell(name: str, file: str, summary: Any) -> None:
    """What was taken, what was left, and why."""
    rooms = how_many(summary.conversations, "conversation")
    threads = f" and {how_many(summary.threads, 'thread')}" if summary.threads else ""
    say(f"{name}: {rooms}{threads} from {inert(file)}.")
    words = [f"{how_many(summary.written, 'record')} written"]
    if summary.known:
        words.append(f"{summary.known:,} known already")
    say("  " + ", ".join(words) + ".")
    counts = summary.tally.counts
    kinds = [f"{counts[kind]:,} {kind}" for kind in sorted(counts) if counts[kind]]
    say(f"  In the file: {', '.join(kinds)}; {how_many(len(summary.tally.authors), 'author')}.")
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
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Record a message; a conversation that is new begins with it.

    \b
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
        said = _read() if text == "-" else text
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

    act(work, store=store, as_json=as_json)


def _read() -> str:
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
