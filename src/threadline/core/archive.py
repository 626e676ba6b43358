"""What an export is to the rest of the house: places, messages, and an honest tally.

An archive reader is a pure function from a `Source` to a stream of `Place` and `InboundMessage`.
It opens nothing: the door that was given a path made the source. A `Place` comes before the first
message of its conversation; `Ended` may follow the last one, so that the importer can close early.
Messages come in the export's own order, oldest first as far as the export says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import BinaryIO, Protocol

from threadline.core.errors import ArchiveError
from threadline.core.model import ConversationRef, InboundMessage, Metadata


class Source(Protocol):
    """An export's files. One file is a source with one name; a folder or zip has many."""

    @property
    def title(self) -> str:
        """The file or folder as the user named it (its last part), for messages and counts."""

    def names(self) -> list[str]:
        """The names inside, `/` between the parts, sorted; never absolute, never with `..`."""

    def open(self, name: str) -> BinaryIO:
        """A fresh binary stream of one file, bounded in size. Raises `ArchiveError`."""


@dataclass(frozen=True, slots=True)
class Place:
    """A conversation the export holds: its address, its title, and the room it hangs in."""

    ref: ConversationRef
    title: str = ""
    parent: ConversationRef | None = None
    thread_root: str | None = None
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing more comes for this conversation."""

    ref: ConversationRef


Item = Place | InboundMessage | Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where the export is imported to: `threadline import FILE --as provider/account`."""

    provider: str
    account_id: str
    scope_id: str = "default"

    def ref(self, conversation_id: str, **parts: object) -> ConversationRef:
        """An address in this account; `parts` are `parent_conversation_id` and `kind`."""
        return ConversationRef(
            self.provider,
            self.account_id,
            conversation_id,
            scope_id=self.scope_id,
            **parts,  # type: ignore[arg-type]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What an export does not say itself. `zone` is for local times without a zone.

    `date_order` is "dmy", "mdy" or "ymd" and overrides what is detected over the whole file;
    `conversation` and `title` name a single conversation whose file does not; `date` is the day a
    log of bare times begins on; `self_id` is the author that is us.
    """

    zone: tzinfo | None = None
    date_order: str | None = None
    conversation: str | None = None
    title: str | None = None
    date: datetime | None = None
    self_id: str | None = None


@dataclass(slots=True)
class Tally:
    """What a reader took and what it left, by kind. Filled while reading.

    `counts` uses: messages, system, notices, deleted, encrypted, edits, edited, reactions,
    attachments, replies, threads (conversations are counted by their places). `skipped` maps a
    sentence to how often it applied.
    """

    counts: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    authors: set[str] = field(default_factory=set)
    first: datetime | None = None
    last: datetime | None = None

    def heard(self, author: str, at: datetime | None) -> None:
        """Count one message of this author, said at this time (aware), or at no known time."""
        self.counts["messages"] += 1
        self.authors.add(author)
        if at is not None:
            self.first = at if self.first is None or at < self.first else self.first
            self.last = at if self.last is None or at > self.last else self.last

    def problem(self, where: str, what: str) -> None:
        """Note something malformed that was passed over; the first 100 are kept in words."""
        self.skipped["malformed"] += 1
        if len(self.problems) < 100:
            self.problems.append(f"{where}: {what}")


class Reader(Protocol):
    """One export format."""

    @property
    def format(self) -> str:
        """The format's name as people say it: `Slack export`."""

    def recognises(self, source: Source) -> bool:
        """Whether this source is of the format, judged by names and the first 64 KiB."""

    def read(
        self, source: Source, account: Account, options: Options, tally: Tally
    ) -> Iterator[Item]:
        """Stream the export. Raises `ArchiveError` naming file and line or offset.

        A malformed single entry is noted with `tally.problem` and passed over; a file that breaks
        off or is not what it says is an error, so that nothing is called complete that is not.
        """


def broken(where: str, what: str, **facts: object) -> ArchiveError:
    """The error for a file that cannot be read on: says where, and what was found there."""
    return ArchiveError(f"{where}: {what}", where=where, **facts)
