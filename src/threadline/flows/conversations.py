"""Conversations and their transcripts as lists: ensure, show, change, read in pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from threadline.core.draft import Draft
from threadline.core.errors import InvalidInput
from threadline.core.ids import public
from threadline.core.model import (
    CONTROLLER,
    Caller,
    Conversation,
    ConversationRef,
    Event,
    History,
    Hydration,
    Kind,
    SessionCaller,
    TranscriptRecord,
)
from threadline.core.places import agree, create
from threadline.core.ports import (
    CONVERSATIONS,
    FOLLOWERS,
    RECORD,
    RECORDS_AFTER,
    RECORDS_BEFORE,
    Changes,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
    together,
)
from threadline.core.rules import (
    admission,
    authority,
    binding,
    hydration,
    membership,
    visibility,
)
from threadline.core.rules.authority import Where
from threadline.core.rules.binding import KEEP, Keep
from threadline.core.rules.folding import Message, fold
from threadline.core.rules.limits import LIMITS, Limits, clamp
from threadline.flows.looking import found, member_of, membership_rows, peeking, taking, where_of
from threadline.flows.replay import FAR

MAX_TITLE = 500
# Further back than calendars go there is nothing to compare with.
MAX_AGE = timedelta(days=36_525)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A conversation as it is shown."""

    id: str
    ref: ConversationRef
    kind: Kind
    title: str
    next_sequence: int
    lowest_sequence: int
    earliest_sequence: int
    hydration: Hydration
    history: History
    reason: str
    members: int
    held: int
    kind_mismatches: int
    bound: bool
    grouped: bool
    oldest_hydrated_message_id: str | None
    max_retained_entries: int | None
    max_age: timedelta | None
    created_at: datetime
    parent: str | None
    moved_to: str | None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def head(self) -> int:
        """The newest sequence; 0 while nothing was said."""
        return self.next_sequence - 1


def shown(conversation: Conversation, now: datetime) -> State:
    """What a caller sees of a conversation."""
    about = conversation.about
    history, reason = hydration.history(conversation)
    return State(
        id=public(conversation.id),
        ref=conversation.ref,
        kind=conversation.kind,
        title=about.title,
        next_sequence=conversation.next_sequence,
        lowest_sequence=conversation.lowest_sequence,
        earliest_sequence=conversation.earliest_sequence,
        hydration=about.hydration,
        history=history,
        reason=reason,
        members=about.members,
        held=about.held,
        kind_mismatches=about.kind_mismatches,
        bound=binding.current(about, now) is not None,
        grouped=about.group is not None,
        oldest_hydrated_message_id=about.oldest_hydrated_message_id,
        max_retained_entries=about.max_retained_entries,
        max_age=about.max_age,
        created_at=about.created_at,
        parent=None if about.parent is None else public(about.parent),
        moved_to=None if about.moved_to is None else public(about.moved_to),
        metadata=about.metadata,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensure(Story[State]):
    """Make a conversation known, or find it."""

    ref: ConversationRef
    title: str = ""
    metadata: Mapping[str, Any] | None = None

    def needs(self) -> Needs:
        """The conversation and its room."""
        above = self.ref.parent
        return Needs(take=(self.ref.text,), peek=() if above is None else (above.text,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, State]:
        """Raises `KindMismatch` where it is known as another kind."""
        draft = Draft(loaded)
        conversation = draft.taken(self.ref.text)
        if conversation is None:
            conversation = create(draft, self.ref, now)
        else:
            agree(draft, conversation, self.ref.kind, strict=True)
        about = conversation.about
        about = replace(
            about,
            title=self.title or about.title,
            metadata=membership.merged(about.metadata, self.metadata),
        )
        if about != conversation.about:
            conversation = replace(conversation, about=about)
            draft.save(conversation)
        return draft.changes, shown(conversation, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Story[State]):
    """Change title, metadata or retention."""

    where: Where
    caller: Caller
    title: str | None = None
    metadata: Mapping[str, Any] | None = None
    max_retained_entries: int | Keep | None = KEEP
    max_age: timedelta | Keep | None = KEEP

    def needs(self) -> Needs:
        """The conversation, locked."""
        return taking(self.where)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, State]:
        """What is left out stays."""
        draft = Draft(loaded)
        conversation = found(draft, self.where, self.caller, take=True)
        about = conversation.about
        about = replace(
            about,
            title=about.title if self.title is None else self.title,
            metadata=membership.merged(about.metadata, self.metadata),
        )
        if not isinstance(self.max_retained_entries, Keep):
            about = replace(about, max_retained_entries=self.max_retained_entries)
        if not isinstance(self.max_age, Keep):
            about = replace(about, max_age=self.max_age)
        conversation = replace(conversation, about=about)
        draft.save(conversation)
        return draft.changes, shown(conversation, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Show(Story[State]):
    """One conversation."""

    where: Where
    caller: Caller

    def needs(self) -> Needs:
        """The conversation."""
        return peeking(self.where)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, State]:
        """A session must be a member to know it."""
        conversation = found(loaded, self.where, self.caller)
        if isinstance(self.caller, SessionCaller):
            member_of(Draft(loaded), conversation, self.caller.session, now, caller=self.caller)
        return Changes(), shown(conversation, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConversations(Story[tuple[list[State], str | None]]):
    """A page of a scope's conversations, by their address."""

    scope: str
    after: str
    limit: int

    def decide(
        self, loaded: Loaded, now: datetime
    ) -> tuple[Changes, tuple[list[State], str | None]]:
        """The second answer is where the next page begins."""
        rows = loaded.page(Page(CONVERSATIONS, (self.scope, self.after, self.limit + 1)))
        following = rows[self.limit - 1].ref.text if len(rows) > self.limit else None
        return Changes(), ([shown(row, now) for row in rows[: self.limit]], following)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptPage:
    """A page of a transcript. `next` is the cursor of the following page, None at the end."""

    conversation: str
    ref: ConversationRef
    records: list[TranscriptRecord]
    messages: list[Message] = field(default_factory=list)
    history: History
    reason: str
    head: int
    earliest: int
    next: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTranscript(Story[TranscriptPage]):
    """A page of records, for a controller or within what a session may read."""

    where: Where
    caller: Caller
    after: int | None
    before: int | None
    newest_first: bool
    limit: int
    folded: bool
    session: str | None = None

    def needs(self) -> Needs:
        """The conversation, and the session where one reads."""
        if self.session is None:
            return peeking(self.where)
        return peeking(self.where, (authority.scope_of(self.caller), self.session))

    def more(self, loaded: Loaded) -> Needs:
        """The membership where a session reads."""
        if self.session is None:
            return Needs()
        needs = membership_rows(loaded, self.where, self.session)
        return Needs(rows=[*needs.rows, *needs.hold])

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, TranscriptPage]:
        """Exclusive cursors on both sides; a session sees its slice and nothing else."""
        conversation = found(loaded, self.where, self.caller)
        after = -FAR if self.after is None else self.after
        before = FAR if self.before is None else self.before
        live_only = 0
        if self.session is not None:
            draft = Draft(loaded)
            _, member = member_of(draft, conversation, self.session, now, caller=self.caller)
            hydration.refuse_gated(conversation)
            after = max(after, visibility.visible_from(member, conversation, now) - 1)
            live_only = 1 if visibility.live_only(member, conversation, now) else 0
        query = RECORDS_BEFORE if self.newest_first else RECORDS_AFTER
        args = (conversation.id, after, before, live_only, -1, self.limit + 1)
        rows = loaded.page(Page(query, args))
        records = rows[: self.limit]
        history, reason = hydration.history(conversation)
        return Changes(), TranscriptPage(
            conversation=public(conversation.id),
            ref=conversation.ref,
            records=records,
            messages=folded(loaded, conversation, records) if self.folded else [],
            history=history,
            reason=reason,
            head=conversation.head,
            earliest=conversation.earliest_sequence,
            next=records[-1].sequence if len(rows) > self.limit else None,
        )


def folded(
    loaded: Loaded, conversation: Conversation, records: list[TranscriptRecord]
) -> list[Message]:
    """The messages of a page with their edits, wherever those stand."""
    keys = {
        loaded.id_key(record.id_space, record.message_id): record.sequence
        for record in records
        if record.message_id is not None and record.event is Event.MESSAGE
    }
    if not keys:
        return fold(records, {})
    together(loaded, [(FOLLOWERS, (conversation.id, key)) for key in keys])
    edits = {
        key: [
            sequence
            for at, sequence, event in loaded.get(FOLLOWERS, (conversation.id, key)) or ()
            if event == Event.EDIT.value and at == conversation.id
        ]
        for key in keys
    }
    together(
        loaded, [(RECORD, (conversation.id, one)) for found in edits.values() for one in found]
    )
    revisions: dict[int, list[TranscriptRecord]] = {}
    for key, sequences in edits.items():
        records_of = [loaded.get(RECORD, (conversation.id, one)) for one in sequences]
        revisions[keys[key]] = [one for one in records_of if one is not None]
    return fold(records, revisions)


class Conversations:
    """The places, and what was said in them."""

    def __init__(self, store: Store, limits: Limits = LIMITS) -> None:
        self._store = store
        self._limits = limits

    async def ensure(
        self,
        ref: ConversationRef | str,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        caller: Caller = CONTROLLER,
    ) -> State:
        """Make the conversation known, or find it. Raises `KindMismatch`."""
        place = ConversationRef.parse(ref) if isinstance(ref, str) else ref
        authority.may_write(caller, place)
        return await self._store.run(
            Ensure(
                ref=place,
                title=_title(title),
                metadata=admission.metadata(metadata or {}, self._limits),
            )
        )

    async def change(
        self,
        where: ConversationRef | str,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        max_retained_entries: int | Keep | None = KEEP,
        max_age: timedelta | Keep | None = KEEP,
        caller: Caller = CONTROLLER,
    ) -> State:
        """Change title, metadata, retention; what is left out stays, None lifts a bound."""
        authority.may_control(caller)
        if isinstance(max_retained_entries, int) and max_retained_entries < 1:
            raise InvalidInput("max_retained_entries is at least 1, or None.")
        if isinstance(max_age, timedelta) and max_age <= timedelta(0):
            raise InvalidInput("max_age is a positive span, or None.")
        if isinstance(max_age, timedelta) and max_age > MAX_AGE:
            raise InvalidInput("max_age is at most a hundred years.", field="max_age")
        return await self._store.run(
            Change(
                where=where_of(where),
                caller=caller,
                title=None if title is None else _title(title),
                metadata=admission.metadata(metadata or {}, self._limits),
                max_retained_entries=max_retained_entries,
                max_age=max_age,
            )
        )

    async def show(self, where: ConversationRef | str, *, caller: Caller = CONTROLLER) -> State:
        """One conversation; a session has to read it. Raises `NotFound` and `Unauthorized`."""
        if isinstance(caller, SessionCaller):
            authority.may_read(caller, caller.session)
        return await self._store.read(Show(where=where_of(where), caller=caller))

    async def page(
        self, *, after: str = "", limit: int | None = None, caller: Caller = CONTROLLER
    ) -> tuple[list[State], str | None]:
        """A page of conversations by address, and what to pass as `after` for the next one."""
        authority.may_control(caller)
        size = clamp(limit, self._limits)
        scope = authority.scope_of(caller)
        return await self._store.read(ReadConversations(scope=scope, after=after, limit=size))

    async def transcript(
        self,
        where: ConversationRef | str,
        *,
        after: int | None = None,
        before: int | None = None,
        order: str = "asc",
        limit: int | None = None,
        view: str = "records",
        caller: Caller = CONTROLLER,
        session: str | None = None,
    ) -> TranscriptPage:
        """A page of records between two exclusive sequences, oldest first or newest first.

        `limit` is 100 where absent and at most 500. `view="messages"` also gives the folded
        messages. A session caller gets its own slice and nothing else; a controller may look
        through a `session`'s eyes.
        """
        if isinstance(caller, SessionCaller) and session is None:
            session = caller.session
        authority.may_read(caller, session)
        if order not in ("asc", "desc"):
            raise InvalidInput("order is `asc` or `desc`.", order=order)
        if view not in ("records", "messages"):
            raise InvalidInput("view is `records` or `messages`.", view=view)
        return await self._store.read(
            ReadTranscript(
                where=where_of(where),
                caller=caller,
                after=after,
                before=before,
                newest_first=order == "desc",
                limit=clamp(limit, self._limits),
                folded=view == "messages",
                session=session,
            )
        )


def _title(title: str) -> str:
    if len(title) > MAX_TITLE or "\x00" in title:
        raise InvalidInput(f"a title has at most {MAX_TITLE} characters and no NUL.")
    return title
