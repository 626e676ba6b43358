"""Importing history: windows, what is written through them, and the drain that closes them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from threadline.core.draft import Draft
from threadline.core.errors import HistorySwept, InvalidInput, ThreadlineError
from threadline.core.model import (
    CONTROLLER,
    Caller,
    Conversation,
    ConversationRef,
    Held,
    InboundMessage,
    WindowMode,
)
from threadline.core.model import Hydration as State
from threadline.core.places import create
from threadline.core.ports import (
    GATED_MEMBERS,
    HELD,
    HELD_FIRST,
    KNOWN,
    MEMBER,
    NO_NEEDS,
    SESSION,
    Changes,
    Key,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
    together,
)
from threadline.core.publishing import settle
from threadline.core.recording import Door, Taken, more_needs, take
from threadline.core.revising import revision_needs
from threadline.core.rules import admission, authority, hydration
from threadline.core.rules.authority import Where
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.uploads import appended
from threadline.flows.looking import found, key_of, taking, where_of


@dataclass(frozen=True, slots=True)
class WindowState:
    """An import window as its owner sees it, and whether it has to be drained."""

    conversation: int
    hydration: State
    token: str | None = field(default=None, repr=False)
    mode: WindowMode | None = None
    lease_expires_at: datetime | None = None
    reason: str = ""
    draining: bool = False


def _state(conversation: Conversation) -> WindowState:
    about = conversation.about
    window = about.window
    if window is None:
        return WindowState(conversation.id, about.hydration, reason=about.reason)
    return WindowState(
        conversation.id,
        about.hydration,
        window.token,
        window.mode,
        window.lease_expires_at,
        window.reason,
        window.closing is not None,
    )


def _close_if_dry(draft: Draft, conversation: Conversation) -> Conversation:
    """Close at once where nothing waits and nobody joined meanwhile."""
    about = conversation.about
    if about.window is None or about.window.closing is None or about.held:
        return conversation
    if about.window.mode is WindowMode.GATED and draft.page(
        Page(GATED_MEMBERS, (conversation.id, 1))
    ):
        return conversation
    draft.changes.conversations.add(conversation.id)
    return replace(conversation, about=hydration.closed(about))


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin(Story[WindowState]):
    """Open an import window, or get the own open one again."""

    where: Where
    caller: Caller
    owner: str
    token: str = field(repr=False)
    mode: WindowMode | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    ensure: bool = False
    title: str = ""
    parent: ConversationRef | None = None
    thread_root: str | None = None
    limits: Limits = LIMITS

    def needs(self) -> Needs:
        """The conversation, and its room where it is a thread."""
        needs = taking(self.where)
        return needs if self.parent is None else replace(needs, peek=(self.parent.text,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, WindowState]:
        """See `rules.hydration.begin`."""
        draft = Draft(loaded)
        where = self.where
        conversation: Conversation | None = None
        if self.ensure and isinstance(where, ConversationRef):
            conversation = draft.taken(where.text)
            if conversation is None:
                conversation = create(
                    draft, where, now, parent=self.parent, root=self.thread_root, title=self.title
                )
        if conversation is None:
            conversation = found(draft, where, self.caller, take=True, strict=False)
        window = conversation.about.window
        if window is not None and (reason := hydration.is_over(window, now)):
            about = hydration.closing(conversation.about, State.FAILED, reason)
            conversation = _close_if_dry(draft, replace(conversation, about=about))
        if conversation.about.window is not None and conversation.about.window.closing is not None:
            draft.save(conversation)
            return draft.changes, _state(conversation)
        about = hydration.begin(
            conversation,
            owner=self.owner,
            token=self.token,
            mode=self.mode,
            now=now,
            limits=self.limits,
            metadata=self.metadata,
        )
        if self.title and not about.title:
            about = replace(about, title=self.title)
        conversation = replace(conversation, about=about)
        draft.save(conversation)
        return draft.changes, _state(conversation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(Story[list[Taken]]):
    """Write records through an open window, in the order given."""

    where: Where
    caller: Caller
    token: str = field(repr=False)
    messages: tuple[InboundMessage, ...]
    limits: Limits = LIMITS

    @property
    def repeatable(self) -> bool:
        """Only where every record has an id."""
        return all(message.message_id is not None for message in self.messages)

    def needs(self) -> Needs:
        """The conversation, and its room where it is a thread."""
        needs = taking(self.where)
        room = self.where.parent if isinstance(self.where, ConversationRef) else None
        return needs if room is None else replace(needs, peek=(room.text,))

    def more(self, loaded: Loaded) -> Needs:
        """Every id the records use."""
        conversation = loaded.taken(key_of(self.where))
        rows: list[Key] = []
        if conversation is not None:
            for message in self.messages:
                for one in (message.message_id, message.revises):
                    if one is not None:
                        key = loaded.id_key(message.id_space, one)
                        rows.append((KNOWN, (conversation.id, key)))
            together(loaded, rows)
            revision_needs(loaded, conversation.id, self.messages)
        return NO_NEEDS

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[Taken]]:
        """Known ids are skipped, unknown ones go where the mode puts them; nobody is woken."""
        draft = Draft(loaded)
        conversation = found(draft, self.where, self.caller, take=True, strict=False)
        window = hydration.held_by(conversation, self.token, now)
        in_front = window.mode is WindowMode.PREPENDING
        if in_front and conversation.earliest_sequence > conversation.lowest_sequence:
            raise HistorySwept(earliest=conversation.earliest_sequence)
        about = replace(conversation.about, window=hydration.renewed(window, now, self.limits))
        draft.save(replace(conversation, about=about))
        for message in self.messages:
            self._belongs(draft, conversation, message)
        taken = [
            take(draft, message, now, door=Door.IMPORTED, limits=self.limits)
            for message in self.messages
        ]
        return draft.changes, taken

    def _belongs(self, draft: Draft, conversation: Conversation, message: InboundMessage) -> None:
        """A window writes into its own conversation and into no other."""
        ref = message.conversation
        if ref == conversation.ref:
            return
        named = draft.taken(ref.text)
        if named is None or named.id != conversation.id:
            raise InvalidInput(
                f"this window imports into {conversation.ref}, the record is of {ref}.",
                field="conversation",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class End(Story[WindowState]):
    """Complete an import, or fail it with the reason."""

    where: Where
    caller: Caller
    token: str = field(repr=False)
    end: State
    reason: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def needs(self) -> Needs:
        """The conversation."""
        return taking(self.where)

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, WindowState]:
        """The window begins to close, and is closed at once where nothing waits."""
        draft = Draft(loaded)
        conversation = found(draft, self.where, self.caller, take=True, strict=False)
        hydration.held_by(conversation, self.token, now)
        about = hydration.closing(conversation.about, self.end, self.reason, self.metadata)
        conversation = _close_if_dry(draft, replace(conversation, about=about))
        draft.save(conversation)
        return draft.changes, _state(conversation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain(Story[bool]):
    """One chunk of a closing window: settle who joined meanwhile, then append what waited.

    Answers whether more is to do. The chunk that finds nothing more flips the state.
    """

    conversation: int
    limits: Limits = LIMITS

    def needs(self) -> Needs:
        """The conversation."""
        return Needs(take_ids=(self.conversation,))

    def more(self, loaded: Loaded) -> Needs:
        """Who joined while it was gated, what waits, and what that needs."""
        conversation = loaded.taken(self.conversation)
        if conversation is None or conversation.about.window is None:
            return Needs()
        gated, waiting = self._pages()
        loaded.page(gated)
        rows: list[Key] = []
        for held in loaded.page(waiting):
            rows += more_needs(loaded, held.message).rows
        together(loaded, rows)
        revision_needs(loaded, conversation.id, [held.message for held in loaded.page(waiting)])
        return Needs(rows=rows, pages=[gated, waiting])

    def _pages(self) -> tuple[Page[Any], Page[Any]]:
        chunk = self.limits.chunk
        return (
            Page(GATED_MEMBERS, (self.conversation, chunk)),
            Page(HELD_FIRST, (self.conversation, chunk)),
        )

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, bool]:
        """Each chunk is one transaction; newcomers queue behind until the last one."""
        draft = Draft(loaded)
        conversation = draft.taken(self.conversation)
        if conversation is None or conversation.about.window is None:
            return draft.changes, False
        window = conversation.about.window
        if window.closing is None:
            reason = hydration.is_over(window, now)
            if not reason:
                return draft.changes, False
            about = hydration.closing(conversation.about, State.FAILED, reason)
            conversation = replace(conversation, about=about)
            draft.save(conversation)
        gated, waiting = self._pages()
        joined = draft.page(gated)
        for member in joined:
            settled = replace(member, gate=None, joined_sequence=conversation.head)
            draft.put(MEMBER, (conversation.id, member.session), settled)
        if len(joined) == self.limits.chunk:
            return draft.changes, True
        held = draft.page(waiting)
        for one in held:
            draft.put(HELD, (conversation.id, one.key), None)
            self._append(draft, one, now)
        conversation = draft.taken(self.conversation)
        assert conversation is not None
        about = replace(
            conversation.about,
            held=max(0, conversation.about.held - len(held)),
            held_bytes=max(0, conversation.about.held_bytes - sum(one.size for one in held)),
        )
        last = len(held) < self.limits.chunk
        if last:
            about = hydration.closed(replace(about, held=0, held_bytes=0))
            draft.changes.conversations.add(conversation.id)
        draft.save(replace(conversation, about=about))
        return draft.changes, not last

    def _append(self, draft: Draft, held: Held, now: datetime) -> None:
        message = held.message
        said_by = None if held.said_by is None else draft.get(SESSION, held.said_by)
        try:
            taken = take(
                draft, message, now, door=Door.DRAINED, limits=self.limits, said_by=said_by
            )
            if held.delivery is not None:
                settle(draft, held.conversation, held.delivery, taken.sequence)
        except ThreadlineError as refusal:
            # It was acknowledged when it was held, so it must not vanish: it is kept as refused.
            kept = replace(
                message,
                metadata={**message.metadata, "refused": refusal.code},
                revises=None,
                event=type(message.event).NOTICE,
            )
            taken = take(draft, kept, now, door=Door.DRAINED, limits=self.limits)
        if message.attachments:
            appended(draft, message.attachments, held.conversation, taken.sequence)


class Hydration:
    """Import windows."""

    def __init__(self, store: Store, limits: Limits = LIMITS) -> None:
        self._store = store
        self._limits = limits

    async def begin(
        self,
        where: ConversationRef | str,
        *,
        owner: str,
        mode: WindowMode | str | None = None,
        caller: Caller = CONTROLLER,
        ensure: bool = False,
        title: str = "",
        parent: ConversationRef | None = None,
        thread_root: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> WindowState:
        """Open an import window for `owner`; while it is open the owner gets the same token.

        `ensure` makes an unknown conversation. Raises `HydrationPending` while another imports,
        `HistorySwept` where retention already took the beginning.
        """
        place = where_of(where)
        authority.may_write(caller, place)
        chosen: WindowMode | None = None if mode is None else WindowMode.of(mode)
        story = Begin(
            where=place,
            caller=caller,
            owner=owner,
            token=secrets.token_urlsafe(18),
            mode=chosen,
            metadata=admission.metadata(metadata or {}, self._limits),
            ensure=ensure,
            title=title,
            parent=parent,
            thread_root=thread_root,
            limits=self._limits,
        )
        state = await self._store.run(story)
        if state.draining:
            await self.drain(state.conversation)
            state = await self._store.run(story)
        return state

    async def records(
        self,
        where: ConversationRef | str,
        token: str,
        messages: Sequence[InboundMessage],
        *,
        caller: Caller = CONTROLLER,
    ) -> list[Taken]:
        """Write a chunk of history through the window `token` holds; one transaction.

        Gated: oldest first. Prepending: newest first. Raises `StaleToken`, `HydrationConflict`,
        `HistorySwept`, `InvalidInput`; then nothing of the chunk is written.
        """
        place = where_of(where)
        authority.may_write(caller, place)
        for message in messages:
            authority.may_bring(caller, message)
        checked = tuple(admission.checked(message, self._limits) for message in messages)
        story = Import(
            where=place, caller=caller, token=token, messages=checked, limits=self._limits
        )
        return await self._store.run(story)

    async def complete(
        self,
        where: ConversationRef | str,
        token: str,
        *,
        caller: Caller = CONTROLLER,
        metadata: Mapping[str, Any] | None = None,
    ) -> WindowState:
        """The history is there to its beginning; what waited is appended now."""
        return await self._end(where, token, State.COMPLETE, "", caller, metadata)

    async def fail(
        self,
        where: ConversationRef | str,
        token: str,
        reason: str,
        *,
        caller: Caller = CONTROLLER,
        metadata: Mapping[str, Any] | None = None,
    ) -> WindowState:
        """The import stopped; what came stays readable and says that it is partial, and why."""
        return await self._end(where, token, State.FAILED, reason, caller, metadata)

    async def _end(
        self,
        where: ConversationRef | str,
        token: str,
        end: State,
        reason: str,
        caller: Caller,
        metadata: Mapping[str, Any] | None,
    ) -> WindowState:
        place = where_of(where)
        authority.may_write(caller, place)
        state = await self._store.run(
            End(
                where=place,
                caller=caller,
                token=token,
                end=end,
                reason=reason,
                metadata=admission.metadata(metadata or {}, self._limits),
            )
        )
        if state.draining:
            await self.drain(state.conversation)
            state = replace(state, hydration=end, draining=False)
        return state

    async def drain(self, conversation: int) -> None:
        """Append what waited, chunk by chunk, and flip the state. Safe to run twice."""
        while await self._store.run(Drain(conversation=conversation, limits=self._limits)):
            pass
