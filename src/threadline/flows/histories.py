"""What was said before we listened, or while we did not, read from the provider.

An import goes in front of what is live, newest first, and is complete only when its beginning was
reached; whatever stops it earlier is written down as the reason it is partial. A gap is ordinary
inbound: pages are read backwards to the last message we heard, then recorded oldest first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from threadline.core.adapters import Account, Channels, Past, Remembering
from threadline.core.deliveries import Failure
from threadline.core.draft import Draft
from threadline.core.errors import NoAdapter, StaleToken, ThreadlineError
from threadline.core.model import (
    CONTROLLER,
    AdapterCaller,
    Caller,
    ConversationRef,
    Direction,
    Event,
    InboundMessage,
    TranscriptRecord,
    WindowMode,
)
from threadline.core.moving import notice
from threadline.core.ports import (
    CONVERSATIONS,
    RECORDS_BEFORE,
    Changes,
    Loaded,
    Needs,
    Page,
    Store,
    Story,
)
from threadline.core.rules import authority
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.wire import ApiCall, Doubt, Lost, Refused, Unsent
from threadline.flows.accounts import OpenAccount
from threadline.flows.adapters import ReadAccount
from threadline.flows.hearing import Hearing
from threadline.flows.hydration import Hydration
from threadline.flows.looking import where_of

OWNER = "history"
CHUNK = 500
TRIES = 5
LONGEST_WAIT = 120.0
GAP_PAGES = 10
GAP_ROOMS = 1_000
LAST = 100


@dataclass(slots=True)
class Told:
    """What an import of one conversation brought. `partial` says why it is not all of it."""

    conversation: ConversationRef
    written: int = 0
    known: int = 0
    refused: int = 0
    partial: str = ""
    children: list[Told] = field(default_factory=list)

    @property
    def total(self) -> int:
        """New records, with those of its threads."""
        return self.written + sum(one.total for one in self.children)


class _Stopped(Exception):
    """The provider gives no more; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRooms(Story[list[ConversationRef]]):
    """The conversations of an account that have records, up to a bound."""

    account: Account

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[ConversationRef]]:
        """By address."""
        account = self.account
        first = ConversationRef(
            account.provider, account.account_id, "-", scope_id=account.scope_id
        ).text.partition("?")[0]
        prefix = after = first[:-1]
        found: list[ConversationRef] = []
        while len(found) < GAP_ROOMS:
            rows = loaded.page(Page(CONVERSATIONS, (account.scope_id, after, 500)))
            here = [one for one in rows if one.ref.text.startswith(prefix)]
            found += [one.ref for one in here if one.about.has_live]
            if len(here) < 500:
                break
            after = here[-1].ref.text
        return Changes(), found[:GAP_ROOMS]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLast(Story[list[TranscriptRecord]]):
    """The last records of a conversation, newest first."""

    ref: ConversationRef

    def needs(self) -> Needs:
        """The conversation, only read."""
        return Needs(peek=(self.ref.text,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[TranscriptRecord]]:
        """None of them where the conversation is not known."""
        conversation = loaded.peeked(self.ref.text)
        if conversation is None:
            return Changes(), []
        bounds = (conversation.earliest_sequence - 1, conversation.next_sequence)
        # Without what was imported: only what was heard as it was said tells how far we heard.
        return Changes(), loaded.page(Page(RECORDS_BEFORE, (conversation.id, *bounds, 1, -1, LAST)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SayGap(Story[None]):
    """Say in the transcript that something may be missing here."""

    ref: ConversationRef
    text: str

    def needs(self) -> Needs:
        """The conversation, locked."""
        return Needs(take=(self.ref.text,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, None]:
        """It wakes nobody."""
        draft = Draft(loaded)
        conversation = draft.taken(self.ref.text)
        if conversation is not None:
            notice(draft, conversation, self.text, now, gap=True)
        return draft.changes, None


class Histories:
    """The past of connected accounts."""

    def __init__(
        self,
        store: Store,
        hydration: Hydration,
        hearing: Hearing,
        channels: Channels | None,
        limits: Limits = LIMITS,
    ) -> None:
        self._store = store
        self._hydration = hydration
        self._hearing = hearing
        self._channels = channels
        self._limits = limits

    async def hydrate(
        self,
        where: ConversationRef | str,
        *,
        most: int | None = None,
        caller: Caller = CONTROLLER,
    ) -> Told:
        """Import what was said in a conversation, and in its threads, from the provider.

        At most `most` messages each; None is all of them. What stops it (a limit that lasts, a
        missing right) leaves it partial, with the reason. Asking again adds only what is new.
        Raises `NotFound` where the account is not connected, `NoAdapter` where its provider keeps
        no history, `HydrationPending` while another import is under way, `HistorySwept`.
        """
        place = where_of(where)
        authority.may_write(caller, place)
        if isinstance(place, ConversationRef):
            # Also one that nobody has heard of here yet: its past is where it begins.
            key = (place.scope_id, place.provider, place.account_id)
            account, ref = await self._store.read(OpenAccount(key=key)), place
        else:
            account, ref = await self._store.read(ReadAccount(where=place, caller=caller))
        dialect: object = None if self._channels is None else self._channels.dialect(account)
        if not isinstance(dialect, Remembering):
            raise NoAdapter(f"{ref.provider} keeps no history that could be asked for.")
        return await self._import(account, dialect, ref, most, None)

    async def _import(
        self,
        account: Account,
        dialect: Remembering,
        ref: ConversationRef,
        most: int | None,
        parent: ConversationRef | None,
    ) -> Told:
        caller = AdapterCaller(account.scope_id, account.provider, account.account_id)
        told = Told(ref)
        try:
            page = await self._page(account, dialect, ref, dialect.history(ref))
        except _Stopped as stop:
            # Nothing came, so nothing is begun: a room that is not there is not made here.
            told.partial = str(stop)
            return told
        window = await self._hydration.begin(
            ref,
            owner=f"{OWNER}:{account.provider}/{account.account_id}",
            mode=WindowMode.PREPENDING,
            caller=caller,
            ensure=True,
            parent=parent,
            thread_root=None if parent is None else ref.conversation_id,
        )
        assert window.token is not None
        children: dict[ConversationRef, None] = {}
        try:
            while True:
                children.update(dict.fromkeys(page.children))
                await self._written(ref, window.token, page.messages, told, caller)
                if page.older is None:
                    break
                if most is not None and told.written + told.known >= most:
                    raise _Stopped(f"{most} messages were asked for")
                page = await self._page(account, dialect, ref, page.older)
        except _Stopped as stop:
            told.partial = str(stop)
            await self._hydration.fail(ref, window.token, told.partial, caller=caller)
        except StaleToken:
            told.partial = "the import took too long, and another began"
        except BaseException:
            await asyncio.shield(
                self._hydration.fail(ref, window.token, "the import was interrupted", caller=caller)
            )
            raise
        else:
            await self._hydration.complete(ref, window.token, caller=caller)
        for child in children:
            told.children.append(await self._import(account, dialect, child, most, ref))
        return told

    async def _written(
        self,
        ref: ConversationRef,
        token: str,
        messages: Sequence[InboundMessage],
        told: Told,
        caller: Caller,
    ) -> None:
        """A page in front of what is there: newest first, one bad message alone."""
        newest = list(reversed(messages))
        for start in range(0, len(newest), CHUNK):
            chunk = newest[start : start + CHUNK]
            try:
                taken = await self._hydration.records(ref, token, chunk, caller=caller)
            except ThreadlineError as error:
                if error.status >= 500 or error.status == 409:
                    raise
                if len(chunk) == 1:
                    told.refused += 1
                    continue
                for one in chunk:
                    await self._written(ref, token, [one], told, caller)
                continue
            known = sum(one.duplicate for one in taken)
            told.known += known
            told.written += len(taken) - known

    async def _page(
        self, account: Account, dialect: Remembering, ref: ConversationRef, call: ApiCall
    ) -> Past:
        """One page, however often it has to be asked for. Raises `_Stopped`."""
        assert self._channels is not None
        wire = self._channels.transport(account.provider)
        reason = ""
        for tries in range(TRIES):
            wait = min(2.0**tries, LONGEST_WAIT)
            try:
                page = dialect.read_history(ref, call, await wire.perform(call))
            except (Unsent, Lost) as error:
                page = Doubt(reason=str(error))
            match page:
                case Past():
                    return page
                case Refused(failure=Failure.RATE_LIMITED | Failure.TRANSIENT) as refused:
                    reason = refused.reason
                    wait = wait if refused.wait is None else refused.wait
                    if wait > LONGEST_WAIT:
                        raise _Stopped(f"{reason}: to be asked again in {wait:.0f} seconds")
                case Refused(reason=reason):
                    raise _Stopped(reason)
                case Doubt(reason=reason):
                    pass
            await asyncio.sleep(wait)
        raise _Stopped(reason)

    async def repair(
        self,
        account: Account,
        dialect: object,
        rooms: Iterable[ConversationRef] | None = None,
    ) -> int:
        """Read what may be missing since we last heard something; answers how many records came.

        In these conversations, or in all of the account that were ever live. Where the provider
        cannot be asked, or not back to what is known, a notice in the transcript says so.
        """
        if rooms is None:
            rooms = await self._store.read(ReadRooms(account=account))
        found = 0
        for ref in rooms:
            found += await self._repair(account, dialect, ref)
        return found

    async def _repair(
        self,
        account: Account,
        dialect: object,
        ref: ConversationRef,
        since: datetime | None = None,
    ) -> int:
        if not isinstance(dialect, Remembering):
            await self._say(ref, "The connection was away; messages from then may be missing.")
            return 0
        anchor, last = await self._last_heard(ref)
        since = last or since
        if since is None:
            return 0
        missing: list[InboundMessage] = []
        stirred: dict[ConversationRef, datetime] = {}
        call = dialect.history(ref)
        trouble = "too much was said meanwhile"
        for _ in range(GAP_PAGES):
            try:
                page = await self._page(account, dialect, ref, call)
            except _Stopped as stop:
                trouble = str(stop)
                break
            stirred.update(page.stirred)
            begins = _after(page.messages, anchor, since)
            missing = [*page.messages[begins:], *missing]
            if begins or page.older is None:
                trouble = ""
                break
            call = page.older
        if trouble:
            await self._say(ref, f"Messages may be missing before this: {trouble}.")
        found = (await self._hearing.messages(account, missing)).recorded
        for child, at in stirred.items():
            # What was heard of is repaired for itself; this was begun, or answered, meanwhile.
            if at > since and (await self._last_heard(child))[0] is None:
                found += await self._repair(account, dialect, child, since)
        return found

    async def _last_heard(self, ref: ConversationRef) -> tuple[str | None, datetime | None]:
        """The newest message that somebody else said and we heard, and when it was said.

        What we said ourselves proves nothing about what was said before it: it was settled while
        nobody listened. Where nobody else was heard yet, our own first words are the time from
        which somebody may have answered.
        """
        rows = await self._store.read(ReadLast(ref=ref))
        said = [one for one in rows if one.event is Event.MESSAGE and one.copied_from is None]
        for record in said:
            if record.direction is Direction.INBOUND and record.message_id is not None:
                return record.message_id, record.sent_at or record.recorded_at
        return None, said[-1].sent_at or said[-1].recorded_at if said else None

    async def _say(self, ref: ConversationRef, text: str) -> None:
        await self._store.run(SayGap(ref=ref, text=text))


def _after(messages: Sequence[InboundMessage], anchor: str | None, since: datetime) -> int:
    """How many of a page's messages are known: up to the one we heard last, else up to a time."""
    if anchor is not None:
        names = [one.message_id for one in messages]
        return names.index(anchor) + 1 if anchor in names else 0
    old = [one.sent_at is not None and one.sent_at <= since for one in messages]
    return max((number for number, is_old in enumerate(old, 1) if is_old), default=0)
