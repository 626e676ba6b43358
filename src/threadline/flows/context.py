"""What a session is told of a conversation, within a budget: read on one committed state.

The story gathers what the session may read, newest first, and what is written beside it; writing it
down is `core.context`, in a thread, so that a large budget holds nobody up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from threadline.core.context import Form, Material, Measure, Rendered, Unit, render
from threadline.core.deliveries import Delivery
from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput, TokensUnavailable
from threadline.core.ids import public
from threadline.core.model import (
    CONTROLLER,
    Caller,
    Conversation,
    ConversationRef,
    Event,
    History,
    Hydration,
    Provenance,
    SessionCaller,
    TranscriptRecord,
)
from threadline.core.ports import (
    DELIVERED_OF,
    KNOWN,
    RECORD,
    RECORDS_BEFORE,
    Changes,
    Key,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
    fetch,
    paged,
    together,
)
from threadline.core.replying import replied, reply_row
from threadline.core.rules import authority, hydration, visibility
from threadline.core.rules.authority import Where
from threadline.core.rules.folding import Message
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.seating import numbers_of
from threadline.flows.conversations import folded
from threadline.flows.looking import found, member_of, membership_rows, peeking, where_of
from threadline.flows.replay import FAR

BUDGETS = {Unit.CHARACTERS: 40_000, Unit.TOKENS: 10_000}
LARGEST = {Unit.CHARACTERS: 2_000_000, Unit.TOKENS: 500_000}
ENCODING = "o200k_base"
LOADING_SECONDS = 20.0
PIECE = 8_192
ROLE_TOKENS = 4

PINS = 8
PINNED_FOR = timedelta(days=30)
SAID_PAGES, SAID_PAGE = 5, 200
PAGES = (100, 400, 500, 500, 500, 500, 500, 500, 500)
ANSWERED = 64
HEAD_CHARACTERS = 80
TOKEN_CHARACTERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A context as it is handed out. `first` is where its window begins, None where it is empty.

    `messages` or `text` of `rendered` is what goes to a model; `used` of it counts in `unit`.
    """

    conversation: str
    ref: ConversationRef
    session: str
    form: Form
    unit: Unit
    budget: int
    rendered: Rendered
    head: int
    earliest: int
    visible_from: int
    history: History
    reason: str


@dataclass(frozen=True, slots=True)
class _Slice:
    """What of a conversation a session may read."""

    conversation: Conversation
    floor: int
    live_only: bool

    def shows(self, record: TranscriptRecord | None) -> bool:
        if record is None or record.sequence < self.floor:
            return False
        return not (self.live_only and record.provenance is Provenance.HYDRATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMaterial(Story[tuple[Material, Conversation, str]]):
    """All that a context of about `characters` is made of."""

    where: Where
    session: str
    scope: str
    caller: Caller
    characters: int

    def needs(self) -> Needs:
        """The conversation and the session's name."""
        return peeking(self.where, (self.scope, self.session))

    def more(self, loaded: Loaded) -> Needs:
        """The membership."""
        needs = membership_rows(loaded, self.where, self.session)
        return Needs(rows=[*needs.rows, *needs.hold])

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[Material, Conversation, str]]:
        """Raises `MembershipNotFound`, `NotFound`, `HydrationPending`."""
        draft = Draft(loaded)
        conversation = found(loaded, self.where, self.caller)
        session, member = member_of(draft, conversation, self.session, now, caller=self.caller)
        hydration.refuse_gated(conversation)
        live_only = visibility.live_only(member, conversation, now)
        begins = visibility.visible_from(member, conversation, now)
        floor = max(begins, conversation.earliest_sequence)
        view = _Slice(conversation, floor, live_only)
        records, more = self._newest(loaded, view)
        numbers = numbers_of(session)
        window = _events(loaded, conversation, records)
        pins = _waiting(loaded, view, numbers, now)
        answers = _answers(loaded, conversation, [*window, *pins])
        shown = {one.record.sequence for one in (*window, *pins)}
        answered = _answered(loaded, view, answers, shown)
        answers |= _answers(loaded, conversation, answered)
        history, reason = hydration.history(conversation)
        imported = conversation.about.hydration is not Hydration.LIVE_ONLY
        made = Material(
            key=loaded.id_key("context", f"{public(conversation.id)}/{public(session.id)}"),
            mine=frozenset(public(one) for one in numbers),
            head=conversation.head,
            visible_from=floor,
            narrow=floor > conversation.earliest_sequence or (live_only and imported),
            history=history,
            reason=reason,
            window=window,
            more=more,
            pins=pins,
            answers=answers,
            answered={one.record.sequence: one for one in answered},
        )
        return Changes(), (made, conversation, session.name)

    def _newest(self, loaded: Loaded, view: _Slice) -> tuple[list[TranscriptRecord], bool]:
        """The newest records, about as many as the budget holds, and whether there are older."""
        records: list[TranscriptRecord] = []
        before, size = FAR, 0
        for limit in PAGES:
            live = 1 if view.live_only else 0
            args = (view.conversation.id, view.floor - 1, before, live, -1, limit + 1)
            page = loaded.page(Page(RECORDS_BEFORE, args))
            records += page[:limit]
            if len(page) <= limit:
                return records, False
            size += sum(len(one.text) + HEAD_CHARACTERS for one in page[:limit])
            before = page[limit - 1].sequence
            if size >= self.characters:
                break
        return records, True


def _events(
    loaded: Loaded, conversation: Conversation, records: list[TranscriptRecord]
) -> list[Message]:
    """The records as people see them, in the same order: edits and deletes are in the messages."""
    messages = {one.record.sequence: one for one in folded(loaded, conversation, records)}
    events: list[Message] = []
    for record in records:
        match record.event:
            case Event.MESSAGE:
                events.append(messages[record.sequence])
            case Event.REACTION | Event.MEMBER | Event.NOTICE:
                if not record.blanked and record.refused is None:
                    events.append(Message(record))
            case Event.EDIT | Event.DELETE:
                continue
    return events


def _waiting(loaded: Loaded, view: _Slice, numbers: Iterable[int], now: datetime) -> list[Message]:
    """The newest that the session said on its own and nobody replied to, newest first."""
    records: list[TranscriptRecord] = []
    since = now - PINNED_FOR
    places = dict.fromkeys(numbers, FAR)
    for _ in range(SAID_PAGES):
        asked = [
            Page(DELIVERED_OF, (view.conversation.id, number, before, SAID_PAGE))
            for number, before in places.items()
        ]
        pages = dict(zip(places, paged(loaded, asked), strict=True))
        said = [one for page in pages.values() for one in page]
        records += _unanswered(loaded, view, said, since)
        places = {
            number: page[-1].id
            for number, page in pages.items()
            if len(page) == SAID_PAGE and page[-1].created_at >= since
        }
        if not places or len(records) >= PINS:
            break
    records.sort(key=lambda one: one.sequence, reverse=True)
    return folded(loaded, view.conversation, records[:PINS])


def _unanswered(
    loaded: Loaded, view: _Slice, page: list[Delivery], since: datetime
) -> list[TranscriptRecord]:
    number = view.conversation.id
    own = [
        (one, one.sequence)
        for one in page
        if one.answers is None
        and one.sequence is not None
        and one.sequence >= view.floor
        and (one.settled_at or one.created_at) >= since
    ]
    records = fetch(loaded, RECORD, [(number, sequence) for _, sequence in own])
    there = [
        (one, record)
        for (one, _), record in zip(own, records, strict=True)
        if record is not None and view.shows(record) and not record.blanked
    ]
    together(
        loaded,
        [
            reply_row(loaded, number, record.id_space, name)
            for one, record in there
            for name in one.message_ids
        ],
    )
    return [
        record
        for one, record in there
        if not replied(loaded, number, record.id_space, one.message_ids)
    ]


def _answers(
    loaded: Loaded, conversation: Conversation, messages: list[Message]
) -> dict[int, int | None]:
    """Which record each of these answers or reacts to, None where that was never recorded."""
    answers: dict[int, int | None] = {}
    rows: dict[int, Key] = {}
    for message in messages:
        record = message.record
        if record.copied_from is not None:
            continue
        origin = record.origin if record.source is not None else None
        if origin is not None and origin.conversation == public(conversation.id):
            answers[record.sequence] = origin.sequence
            continue
        name = record.revises if record.event is Event.REACTION else record.reply_to
        if name is not None:
            key = loaded.id_key(record.id_space, name)
            rows[record.sequence] = (KNOWN, (conversation.id, key))
    together(loaded, rows.values())
    for sequence, (_, key) in rows.items():
        known = loaded.get(KNOWN, key)
        answers[sequence] = None if known is None else known.sequence
    return answers


def _answered(
    loaded: Loaded, view: _Slice, answers: dict[int, int | None], shown: set[int]
) -> list[Message]:
    """What is answered and stands outside, as far as the session may read it."""
    wanted = [
        at for _, at in sorted(answers.items(), reverse=True) if at is not None and at not in shown
    ]
    number = view.conversation.id
    keys = [(number, at) for at in dict.fromkeys(wanted)][:ANSWERED]
    records = [one for one in fetch(loaded, RECORD, keys) if one is not None and view.shows(one)]
    return folded(loaded, view.conversation, records)


class Context:
    """What sessions are told of conversations."""

    def __init__(self, store: Store, limits: Limits = LIMITS) -> None:
        self._store = store
        self._limits = limits
        self._loading: asyncio.Task[Any] | None = None

    async def read(
        self,
        where: ConversationRef | str,
        session: str | None = None,
        *,
        budget: int | None = None,
        unit: Unit | str = Unit.CHARACTERS,
        form: Form | str = Form.MESSAGES,
        caller: Caller = CONTROLLER,
    ) -> Told:
        """What a session may read of a conversation, newest last, for a model.

        At most `budget` characters (40,000 where absent, 2,000,000 at most) or, with
        `unit="tokens"`, tokens (10,000, at most 500,000). `form` is `messages` or `text`. A session
        caller reads as itself. Raises `MembershipNotFound`, `NotFound`, `HydrationPending`,
        `Unauthorized`, `TokensUnavailable`, and `InvalidInput` for a budget that holds nothing.
        """
        if isinstance(caller, SessionCaller) and session is None:
            session = caller.session
        authority.may_read(caller, session)
        if session is None:
            raise InvalidInput("say which session it is for.", field="session")
        counted: Unit = Unit.of(unit)
        shape: Form = Form.of(form)
        size = _size(budget, counted)
        measure = len if counted is Unit.CHARACTERS else await self._tokens()
        frame = 1 if shape is Form.TEXT else 0
        if counted is Unit.TOKENS:
            frame = 1 if shape is Form.TEXT else ROLE_TOKENS
        material, conversation, name = await self._store.read(
            ReadMaterial(
                where=where_of(where),
                session=session,
                scope=authority.scope_of(caller),
                caller=caller,
                characters=size * (1 if counted is Unit.CHARACTERS else TOKEN_CHARACTERS),
            )
        )
        rendered = await asyncio.to_thread(
            render, material, form=shape, budget=size, measure=measure, frame=frame
        )
        return Told(
            conversation=public(conversation.id),
            ref=conversation.ref,
            session=name,
            form=shape,
            unit=counted,
            budget=size,
            rendered=rendered,
            head=material.head,
            earliest=conversation.earliest_sequence,
            visible_from=material.visible_from,
            history=material.history,
            reason=material.reason,
        )

    async def _tokens(self) -> Measure:
        """Counts tokens. Its table is read once; where it is missing it is fetched, in bounds."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(_encoding))
        try:
            encoding = await asyncio.wait_for(asyncio.shield(self._loading), LOADING_SECONDS)
        except ModuleNotFoundError:
            self._loading = None
            raise TokensUnavailable(
                "tiktoken is not installed. Run: pip install 'threadline[tokens]', or give the "
                "budget in characters."
            ) from None
        except Exception as error:
            if self._loading is not None and self._loading.done():
                self._loading = None
            raise TokensUnavailable(
                f"the encoding {ENCODING} is neither in tiktoken's cache nor to be fetched "
                f"({type(error).__name__}). Fill the cache that TIKTOKEN_CACHE_DIR names, or give "
                "the budget in characters.",
                encoding=ENCODING,
            ) from None
        return lambda text: _count(encoding, text)


def _encoding() -> Any:
    import tiktoken

    return tiktoken.get_encoding(ENCODING)


def _count(encoding: Any, text: str) -> int:
    """Tokens of a text, in pieces: long runs of one letter would else take very long."""
    if len(text) <= PIECE:
        return len(encoding.encode_ordinary(text))
    pieces = range(0, len(text), PIECE)
    return sum(len(encoding.encode_ordinary(text[at : at + PIECE])) for at in pieces)


def _size(budget: int | None, unit: Unit) -> int:
    if budget is None:
        return BUDGETS[unit]
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise InvalidInput("a budget is a whole number of at least 1.", field="budget")
    return min(budget, LARGEST[unit])
