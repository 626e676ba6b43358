"""What people and programs see: one JSON document, or a table of inert text.

Words from outside are data (law 14): nothing in them reaches the terminal as a command, and rich
never reads them as markup.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from threadline.core.model import Policy, TranscriptRecord

PIPED_WIDTH = 120
JOINERS = "\u200d\u200c"


def inert(text: object, width: int = 0) -> str:
    """Outside text on one line without control characters, cut to `width` where that is given.

    >>> inert("a\\x1b[2Jb\\nc"), inert("abcdef", 4)
    ('a [2Jb c', 'abc…')
    """
    line = "".join(c if c.isprintable() or c in JOINERS else " " for c in str(text))
    line = " ".join(line.split())
    return line if not width or len(line) <= width else line[: width - 1] + "…"


def inert_lines(text: str) -> str:
    """Outside text without control characters, its lines kept."""
    return "\n".join(inert(line) for line in text.splitlines())


@cache
def console() -> Console:
    """Standard output. A pipe gets a fixed width, so that no line depends on a window."""
    from rich.console import Console

    class Ours(Console):
        """A reader that goes away is no error of ours: the command decides how it ends."""

        def on_broken_pipe(self) -> None:
            """Instead of ending the program with 1."""
            raise BrokenPipeError

    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return Ours(highlight=False, markup=False, emoji=False, width=width)


@cache
def aside() -> Console:
    """Standard error, for progress and remarks."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, stderr=True)


def say(text: str, style: str = "") -> None:
    """A sentence of ours."""
    console().print(text, style=style or None, soft_wrap=True)


def hint(text: str) -> None:
    """What a person is told beside an answer; a program that takes the answer does not get it."""
    aside().print(text, style="dim", soft_wrap=True)


def introduce(sessions: Iterable[str]) -> None:
    """Say which sessions were made by being named: one of them may be a typing mistake."""
    for name in sessions:
        hint(f"{inert(name)} is a new session; `threadline sessions` lists all of them.")


# What is copied from a table stands in one piece.
WHOLE = frozenset({"id", "delivery"})


def table(*columns: str, right: Iterable[str] = ()) -> Table:
    """A table with a plain head; the columns in `right` hold numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    numbers = set(right)
    for name in columns:
        made.add_column(
            name,
            justify="right" if name in numbers else "left",
            overflow="fold",
            no_wrap=name in numbers or name in WHOLE,
        )
    return made


def cells(*values: object) -> list[Text]:
    """A row of inert text."""
    from rich.text import Text

    return [Text(inert(value)) for value in values]


# --- JSON ---------------------------------------------------------------------------------------


def write_json(value: Any, *, line: bool = False, error: bool = False) -> None:
    """One JSON document on standard output; with `line`, or for an error, on one line."""
    import msgspec

    body = msgspec.json.encode(_encodable(value))
    if not (line or error):
        body = msgspec.json.format(body, indent=2)
    stream = sys.stderr if error else sys.stdout
    stream.write(body.decode() + "\n")
    stream.flush()


def _encodable(value: Any) -> Any:
    """The same, with half a surrogate pair (from bytes that are no UTF-8) made visible."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_encodable(name): _encodable(one) for name, one in value.items()}
        case list():
            return [_encodable(one) for one in value]
        case _:
            return value


# --- words --------------------------------------------------------------------------------------


def at(when: datetime | None) -> str:
    """A time to the minute, the same on every machine."""
    return "" if when is None else when.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def exactly(when: datetime) -> str:
    """A time to the second."""
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(when: datetime) -> str:
    """How long ago it was, while that says more than the date does; else the time itself.

    >>> ago(datetime.now(UTC) - timedelta(minutes=5)), ago(datetime(2024, 3, 1, 8, tzinfo=UTC))
    ('5 min ago', '2024-03-01 08:00 UTC')
    """
    minutes = (datetime.now(UTC) - when) // timedelta(minutes=1)
    match minutes:
        case _ if minutes < 0 or minutes >= 7 * 24 * 60:
            return at(when)
        case 0:
            return "just now"
        case _ if minutes < 60:
            return f"{minutes} min ago"
        case _ if minutes < 48 * 60:
            return f"{minutes // 60} h ago"
        case _:
            return f"{minutes // (24 * 60)} days ago"


def policy_text(policy: Policy) -> str:
    """`all`, `since_join`, `last_n 5`."""
    return policy.backfill.value + (f" {policy.n}" if policy.n is not None else "")


def how_many(number: int, one: str, many: str = "") -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def words_of(record: TranscriptRecord) -> str:
    """What an entry says, on as many lines as it has."""
    from threadline.core.model import Event

    if record.blanked:
        return "(deleted)"
    text = inert_lines(record.text)
    match record.event:
        case Event.MESSAGE:
            said = text
        case Event.REACTION:
            said = f"(reaction {text} to {inert(record.revises or '?', 40)})"
        case Event.EDIT:
            said = f"(edit of {inert(record.revises or '?', 40)}) {text}"
        case Event.DELETE:
            said = f"(deletes {inert(record.revises or '?', 40)})"
        case Event.MEMBER | Event.NOTICE:
            said = f"({text or record.event.value})"
    files = [f"[{inert(one.name or one.type or 'file', 60)}]" for one in record.attachments]
    said = " ".join(part for part in (said, *files) if part)
    return f"{said} (refused: {record.refused})" if record.refused else said


def transcript(records: Iterable[TranscriptRecord]) -> Table:
    """Records one below the other: number, time, who, and what was said."""
    from rich.table import Table
    from rich.text import Text

    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(justify="right", style="dim", no_wrap=True)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(style="bold", max_width=20, overflow="fold")
    made.add_column(overflow="fold", ratio=1)
    for record in records:
        name = inert(record.actor.name or record.actor.id, 40)
        text = Text(words_of(record))
        if record.target_session_id is not None:
            text.append(f"  → {inert(record.target_session_id, 40)}", style="cyan")
        made.add_row(
            str(record.sequence), at(record.sent_at or record.recorded_at), Text(name), text
        )
    return made
