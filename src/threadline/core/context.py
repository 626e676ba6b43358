"""What a session is told of a conversation: the newest records that fit, as chat messages or text.

Its own words are the assistant's. Everybody else's stand in blocks whose boundary is made with the
store's key and occurs in none of them, each line of them behind a mark; so nothing that was said
can end its block, open another, or begin a line. Our own sentences hold no outside word.

The window is filled from the newest record backwards. Beside it stand what the session said on its
own and nobody replied to, and what a record in the window answers; what has no room is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from threadline.core.errors import InvalidInput
from threadline.core.inert import (
    attribute,
    boundary_of,
    inert_name,
    inert_text,
    reading,
    shortened,
)
from threadline.core.model import (
    Attachment,
    Direction,
    Event,
    History,
    Provenance,
    TranscriptRecord,
    Word,
)
from threadline.core.rules.folding import Message

FILES = 10
SHOWN_AT_LEAST = 20
ANSWERED = 16
REASON = 120
PLENTY = 16
ROOM = 200

Measure = Callable[[str], int]


class Form(Word):
    """How a context is written."""

    MESSAGES = "messages"
    TEXT = "text"


class Unit(Word):
    """What a budget counts."""

    CHARACTERS = "characters"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What a context is made of. `window` and `pins` are newest first.

    `mine` are the session's surrogate ids, `key` makes the boundary. `more` says that older records
    are there beside the window. `answers` maps a record to the one it answers or reacts to, None
    where that was never recorded; `answered` holds those of them that the session may read.
    """

    key: bytes
    mine: frozenset[str]
    head: int
    visible_from: int
    narrow: bool
    history: History
    reason: str
    window: list[Message]
    more: bool
    pins: list[Message] = field(default_factory=list)
    answers: Mapping[int, int | None] = field(default_factory=dict)
    answered: Mapping[int, Message] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    """A chat message: `role` is `system`, `user` or `assistant`; `sequence` is its record's."""

    role: str
    content: str
    sequence: int | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What a budget left out: all before `before` but for `shown`; `shortened` lost their end.

    `pins` waits for a reply and had no room.
    """

    before: int | None
    shown: tuple[int, ...]
    shortened: tuple[int, ...]
    pins: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A context. `first` is where the window begins, None where it is empty; `used` is its size."""

    lines: list[Line]
    first: int | None
    pinned: tuple[int, ...]
    cut: Cut | None
    used: int

    @property
    def text(self) -> str:
        """The whole of it as one text."""
        return "\n".join(line.content for line in self.lines)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A record and how many characters of its text are shown."""

    message: Message
    length: int
    cost: int

    @property
    def sequence(self) -> int:
        return self.message.record.sequence

    @property
    def is_short(self) -> bool:
        return self.length < len(self.message.record.text)


class Writer:
    """Writes records and our own sentences in one form, and knows what they cost."""

    def __init__(self, material: Material, form: Form, budget: int, measure: Measure, frame: int):
        self._material = material
        self._form = form
        self._measure = measure
        self._frame = frame
        self.longest = budget * PLENTY
        self.boundary = boundary_of(material.key, self._outside())

    def _outside(self) -> Iterable[str]:
        material = self._material
        yield material.reason
        for message in (*material.window, *material.pins, *material.answered.values()):
            record = message.record
            yield record.text[: self.longest + 1]
            yield from (record.actor.name, record.actor.id, record.source_session_id or "")
            for one in record.attachments:
                yield from (one.name, one.type)

    def cost(self, lines: Iterable[Line]) -> int:
        """What lines cost of the budget."""
        return sum(self._measure(line.content) + self._frame for line in lines)

    # --- our own sentences ------------------------------------------------------------------

    def header(self, first: int | None, cut: bool, others: Iterable[int]) -> Line:
        """What this is, how to read it, and what is not in it."""
        name, material = f"data-{self.boundary}", self._material
        own = "the messages of the role assistant are"
        if self._form is Form.TEXT:
            own = 'blocks with is="you" are'
        said = [
            f"What was said in a conversation, oldest first; its newest record is {material.head}.",
            reading(self.boundary, own),
        ]
        match material.history:
            case History.COMPLETE:
                said.append("The history is complete.")
            case History.NONE:
                said.append("The history is partial: what was said before we listened is unknown.")
            case History.PARTIAL:
                said += [
                    "The history is partial. Why:",
                    f'<{name} is="reason">',
                    f"| {inert_name(material.reason, REASON)}",
                    f"</{name}>",
                ]
        if material.narrow:
            said.append(
                "A part of the transcript is not yours to read; "
                f"for you it begins with record {material.visible_from}."
            )
        if first is None:
            said.append("No record fits." if cut else "Nothing was said that you may read.")
        elif cut:
            kept = ", ".join(str(one) for one in sorted(others))
            but = f", but for {kept}" if kept else ""
            said.append(f"Left out for length: what stands before record {first}{but}.")
        return Line("system", "\n".join(said))

    # --- records ----------------------------------------------------------------------------

    def lines(self, message: Message, length: int, *, unanswered: bool) -> list[Line]:
        """A record with the first `length` characters of its text.

        `unanswered` says that the record it answers is not shown.
        """
        record = message.record
        text = inert_text(shortened(record.text, length))
        rest = length < len(record.text)
        cut = f"cut: the first {length:,} of {len(record.text):,} characters" if rest else ""
        if not self.is_own(message) or self._form is Form.TEXT:
            block = self._block(message, text, cut, unanswered)
            return [Line("user", block, record.sequence, _time(record))]
        files = [f"[file {_file(*one)}]" for one in enumerate(record.attachments[:FILES])]
        parts = [text, *files, *([f"[{cut}]"] if cut else [])]
        content = "\n".join(part for part in parts if part)
        said = Line("assistant", content, record.sequence, _time(record))
        answers = self._material.answers.get(record.sequence)
        if not unanswered or answers is None:
            return [said]
        note = f"[Your record {record.sequence} answers record {answers}, which is left out.]"
        return [Line("system", note), said]

    def is_own(self, message: Message) -> bool:
        """Whether these are the session's own words, as it said them.

        What was edited since then was edited elsewhere, so it is data.
        """
        record = message.record
        return (
            record.event is Event.MESSAGE
            and record.direction is Direction.OUTBOUND
            and record.source in self._material.mine
            and not message.revision
            and not message.deleted
        )

    def _block(self, message: Message, text: str, cut: str, unanswered: bool) -> str:
        tag = f"data-{self.boundary}"
        named = " ".join(f'{name}="{value}"' for name, value in self._names(message, unanswered))
        lines = [f"<{tag} {named}>", *(f"| {line}" for line in text.split("\n") if text)]
        attachments = message.record.attachments
        lines += [f"+ {_file(*one)}" for one in enumerate(attachments[:FILES])]
        if len(attachments) > FILES:
            lines.append(f"~ and {len(attachments) - FILES} more files")
        if cut:
            lines.append(f"~ {cut}")
        return "\n".join([*lines, f"</{tag}>"])

    def _names(self, message: Message, unanswered: bool) -> Iterable[tuple[str, object]]:
        record, mine = message.record, self._material.mine
        yield "sequence", record.sequence
        at = _time(record)
        yield "at", "unknown" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
        if record.source_session_id is not None:
            yield "from", attribute(record.source_session_id)
            theirs = "you, edited elsewhere" if message.revision else "you"
            yield "is", theirs if record.source in mine else "session"
        else:
            yield "from", attribute(record.actor.name) or attribute(record.actor.id)
            yield "id", attribute(record.actor.id)
            yield "is", "bot" if record.actor.is_bot or record.actor.is_self else "person"
        if record.event is not Event.MESSAGE:
            yield "event", record.event.value
        if record.target_session_id is not None:
            yield "to", "you" if record.target in mine else attribute(record.target_session_id)
        if record.sequence in self._material.answers:
            answers = self._material.answers[record.sequence]
            name = "on" if record.event is Event.REACTION else "answers"
            yield name, "unknown" if answers is None else answers
            if unanswered and answers is not None:
                yield "answered", "left out"
        if message.revision:
            yield "edited", message.revision
        if message.deleted:
            yield "deleted", "yes"

    # --- what fits --------------------------------------------------------------------------

    def fit(self, message: Message, room: int) -> _Piece | None:
        """As much of a record as fits into `room`, None where that is next to nothing."""
        whole = len(message.record.text)
        low, high = 0, min(whole, self.longest)
        best = None
        at = high
        while low <= high:
            cost = self.cost(self.lines(message, at, unanswered=True))
            if cost <= room:
                best, low = _Piece(message, at, cost), at + 1
            else:
                high = at - 1
            at = (low + high) // 2
        if best is not None and best.is_short and best.length < SHOWN_AT_LEAST:
            return None
        return best


def render(
    material: Material, *, form: Form, budget: int, measure: Measure, frame: int = 0
) -> Rendered:
    """Write a context that costs at most `budget`.

    `measure` counts a text, `frame` is what each line costs besides. Raises `InvalidInput` for a
    budget in which our own sentences leave no room.
    """
    writer = Writer(material, form, budget, measure, frame)
    known = [one.record.sequence for one in (*material.window, *material.pins)]
    widest = max([material.head, *known, *material.answered], key=lambda one: len(str(one)))
    others = len(material.pins) + min(len(material.answers), ANSWERED)
    header = writer.cost([writer.header(widest, True, [widest] * others)])
    if budget < header + ROOM:
        raise InvalidInput(
            f"a budget of {budget} is too small here; {header + ROOM} is the least.",
            field="budget",
            least=header + ROOM,
        )
    selection = _Selection(material, writer, budget - header)
    selection.pin()
    selection.fill()
    while True:
        made = selection.made()
        if made.used <= budget or not selection.drop():
            return made


class _Selection:
    """Which records are shown: a window from the newest backwards, and single ones before it."""

    def __init__(self, material: Material, writer: Writer, room: int) -> None:
        self._material = material
        self._writer = writer
        self._room = room
        self._window: dict[int, _Piece] = {}
        self._single: dict[int, _Piece] = {}
        self._pins = {one.record.sequence for one in material.pins}
        self._spent = 0
        self._by_sequence = {**material.answered}
        for message in (*material.pins, *material.window):
            self._by_sequence[message.record.sequence] = message

    def pin(self) -> None:
        """A quarter of the room is for what waits for a reply, the newest first."""
        left = self._room // 4
        for index, message in enumerate(self._material.pins):
            piece = self._writer.fit(message, left // (len(self._material.pins) - index))
            if piece is not None:
                self._add(piece)
                left -= piece.cost

    def fill(self) -> None:
        """Take records as long as they fit; one that is very long is shown in part."""
        for message in self._material.window:
            sequence = message.record.sequence
            before = self._single.pop(sequence, None)
            left = self._room - self._spent + (before.cost if before else 0)
            piece = self._writer.fit(message, min(left, self._room // 2))
            narrow = left < self._room // 2
            if piece is None or (piece.is_short and narrow and self._window):
                if before is not None:
                    self._single[sequence] = before
                return
            self._spent += piece.cost - (before.cost if before else 0)
            self._window[sequence] = piece
            self._answered(message)

    def _answered(self, reply: Message) -> None:
        """Bring in the record that a reply answers, while there is room for such ones."""
        if reply.record.event is not Event.MESSAGE:
            return
        sequence = self._material.answers.get(reply.record.sequence)
        message = None if sequence is None else self._by_sequence.get(sequence)
        if message is None or sequence in self._window or sequence in self._single:
            return
        if len(self._single.keys() - self._pins) >= ANSWERED:
            return
        piece = self._writer.fit(message, min(self._room - self._spent, self._room // 16))
        if piece is not None:
            self._add(piece)

    def _add(self, piece: _Piece) -> None:
        self._single[piece.sequence] = piece
        self._spent += piece.cost

    def drop(self) -> bool:
        """Do with one record less: where a token spans two texts the sum is not exact."""
        for pieces in (self._window, self._single):
            if pieces:
                del pieces[min(pieces)]
                return True
        return False

    def made(self) -> Rendered:
        """The context with what is chosen now."""
        material, writer = self._material, self._writer
        first = min(self._window, default=None)
        shown = {**self._single, **self._window}
        cut = material.more or len(self._window) < len(material.window)
        lines = [writer.header(first, cut, self._single)]
        for sequence in sorted(shown):
            piece = shown[sequence]
            answers = material.answers.get(sequence)
            missing = piece.message.record.event is Event.MESSAGE and answers not in shown
            lines += writer.lines(piece.message, piece.length, unanswered=missing)
        short = tuple(one for one in sorted(shown) if shown[one].is_short)
        lost = tuple(sorted(self._pins - shown.keys()))
        return Rendered(
            lines=lines,
            first=first,
            pinned=tuple(sorted(self._pins & shown.keys())),
            cut=None
            if not (cut or short or lost)
            else Cut(
                before=first if cut else None,
                shown=tuple(sorted(self._single)),
                shortened=short,
                pins=lost,
            ),
            used=writer.cost(lines),
        )


def _time(record: TranscriptRecord) -> datetime | None:
    """When it was said; when an import wrote it down says nothing about that."""
    if record.sent_at is not None:
        return record.sent_at.astimezone(UTC)
    return None if record.provenance is Provenance.HYDRATED else record.recorded_at.astimezone(UTC)


def _file(number: int, one: Attachment) -> str:
    size = "" if one.size is None else f' size="{one.size}"'
    return f'n="{number}" name="{attribute(one.name)}" type="{attribute(one.type)}"{size}'
