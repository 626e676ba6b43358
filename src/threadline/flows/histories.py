"""What was said before we listened, or while we did not, read from the provider.

An import goes in front of what is live, newest first, and is complete only when its beginning was
reached; whatever stops it earlier is written down as the reason it is partial. A gap is ordinary
inbound: pages are read backwards to the last message we heard, then recorded oldest first. Where
that is no longer there, its time is where the gap begins: what is older was never missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

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
from threadline.core.rules.recordable import recordable
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
LOOKS = 10  # pages of records, of our own words alone, before the oldest of them has to do
EMPTY_PAGES = 50
# Where the provider says no time: a message may be recorded after a later one was said.
MARGIN = timedelta(minutes=5)


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
    """The conversations of an account that were ever live, or hold nothing yet, up to a bound."""

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
            found += [one.ref for one in here if one.about.has_live or one.next_sequence == 1]
            if len(here) < 500:
                break
            after = here[-1].ref.text
        return Changes(), found[:GAP_ROOMS]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLast(Story[list[TranscriptRecord]]):
    """The last records of a conversation before a sequence, newest first; None: from its end."""

    ref: ConversationRef
    before: int | None = None

    def needs(self) -> Needs:
        """The conversation, only read."""
        return Needs(peek=(self.ref.text,))

    def decide(self, loaded: Loaded, now: datetime) -> tuple[Changes, list[TranscriptRecord]]:
        """None of them where the conversation is not known."""
        conversation = loaded.peeked(self.ref.text)
        if conversation is None:
            return Changes(), []
        end = conversation.next_sequence if self.before is None else self.before
        bounds = (conversation.earliest_sequence - 1, end)
        # Without what was imported: only what was heard as it was said tells how far we heard.
        return Changes(), loaded.page(Page(RECORDS_BEFORE, (conversation.id, *bounds, 1, -1, LAST)))


@dataclass(frozen=True, slots=True)
class Anchor:
    """How far we heard: the last messages others said, and when nothing was missing yet."""

    ids: frozenset[str]
    since: datetime

    def behind(self, messages: Sequence[InboundMessage]) -> int | None:
        """Where in a page we heard the last one of it; None where it holds none we heard."""
        for number in range(len(messages), 0, -1):
            if messages[number - 1].message_id in self.ids:
                return number
        return None

    def passed(self, messages: Sequence[InboundMessage]) -> bool:
        """Whether all of a page was said before the gap."""
        return bool(messages) and all(map(self.is_older, messages))

    def is_older(self, message: InboundMessage) -> bool:
        """Whether it was said before the gap."""
        return message.sent_at is not None and message.sent_at < self.since


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
        empty = 0
        try:
            while True:
                children.update(dict.fromkeys(page.children))
                await self._written(ref, window.token, page.messages, told, caller)
                if page.older is None:
                    break
                empty = 0 if page.messages else empty + 1
                if empty > EMPTY_PAGES:
                    raise _Stopped("the provider goes on with empty pages")
                if most is not None and told.written + told.known >= most:
                    raise _Stopped(f"{most} messages were asked for")
                page = await self._page(account, dialect, ref, page.older)
            if told.refused:
                raise _Stopped(f"{told.refused} of the messages could not be recorded")
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
        newest = [recordable(message, self._limits) for message in reversed(messages)]
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
        *,
        heard_at: datetime | None = None,
    ) -> int:
        """Read what may be missing since we last heard something; answers how many records came.

        In these conversations, or in all of the account that we know, and in what began below them
        meanwhile. `heard_at` is when the account was last heard at all: where nobody has spoken
        yet, the gap begins there. Where the provider cannot be asked, or not back to what is known,
        a notice in the transcript says so.
        """
        if rooms is None:
            rooms = await self._store.read(ReadRooms(account=account))
        found = 0
        done: set[ConversationRef] = set()
        for ref in rooms:
            since = None if heard_at is None else heard_at - MARGIN
            found += await self._repair(account, dialect, ref, done, since)
        return found

    async def _repair(
        self,
        account: Account,
        dialect: object,
        ref: ConversationRef,
        done: set[ConversationRef],
        since: datetime | None,
    ) -> int:
        """One conversation, once, and those below it. `since` is when the gap began where nothing
        in the conversation says so."""
        if ref in done:
            return 0
        done.add(ref)
        if not isinstance(dialect, Remembering):
            await self._say(ref, "The connection was away; messages from then may be missing.")
            return 0
        anchor = await self._last_heard(ref)
        if anchor is None and since is not None:
            anchor = Anchor(frozenset(), since)
        if anchor is None:
            return 0
        missing: list[InboundMessage] = []
        children: dict[ConversationRef, datetime | None] = {}
        call = dialect.history(ref)
        trouble, met = "too much was said meanwhile", False
        for _ in range(GAP_PAGES):
            try:
                page = await self._page(account, dialect, ref, call)
            except _Stopped as stop:
                trouble = str(stop)
                break
            begins = anchor.behind(page.messages)
            met = begins is not None
            missing = [*page.messages[begins or 0 :], *missing]
            children.update({child: page.stirred.get(child) for child in page.children})
            if met or page.older is None or anchor.passed(page.messages):
                trouble = ""
                break
            call = page.older
        if trouble:
            await self._say(ref, f"Messages may be missing before this: {trouble}.")
        if not met:
            # A clock decides only where no id does.
            missing = [one for one in missing if not anchor.is_older(one)]
        found = (await self._hearing.messages(account, missing)).recorded
        for child, stirred in children.items():
            if stirred is None or stirred > anchor.since:
                found += await self._repair(account, dialect, child, done, anchor.since)
        return found

    async def _last_heard(self, ref: ConversationRef) -> Anchor | None:
        """The last messages that somebody else said and we heard; None where nothing is known.

        What we said ourselves proves nothing about what was said before it: it was settled while
        nobody listened. Where we heard nobody else, the gap begins with the oldest of our words.
        """
        oldest: TranscriptRecord | None = None
        for _ in range(LOOKS):
            before = None if oldest is None else oldest.sequence
            rows = await self._store.read(ReadLast(ref=ref, before=before))
            heard = [
                one
                for one in rows
                if one.event is Event.MESSAGE
                and one.direction is Direction.INBOUND
                and one.message_id is not None
                and one.copied_from is None
            ]
            if heard:
                ids = frozenset(one.message_id for one in heard if one.message_id is not None)
                return Anchor(ids, _said_at(heard[0]))
            if not rows:
                break
            oldest = rows[-1]
        return None if oldest is None else Anchor(frozenset(), _said_at(oldest))

    async def _say(self, ref: ConversationRef, text: str) -> None:
        await self._store.run(SayGap(ref=ref, text=text))


def _said_at(record: TranscriptRecord) -> datetime:
    """When it was said, as far as that is known; never later than it was recorded."""
    at = record.recorded_at - MARGIN if record.sent_at is None else record.sent_at
    return min(at, record.recorded_at)
