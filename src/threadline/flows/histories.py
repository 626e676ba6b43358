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
from threadline.core.ports import (
    Store,
)
from threadline.core.rules import authority
from threadline.core.rules.limits import LIMITS, Limits
from threadline.core.rules.recordable import recordable
from threadline.core.wire import ApiCall, Doubt, Lost, Refused, Unsent
from threadline.flows.accounts import OpenAccount
from threadline.flows.adapters import ReadAccount
from threadline.flows.gaps import Anchor, ReadLast, ReadRooms, SayGap, passed
from threadline.flows.hearing import Hearing
from threadline.flows.hydration import Hydration
from threadline.flows.looking import where_of

OWNER = "history"
CHUNK = 500
TRIES = 5
LONGEST_WAIT = 120.0
GAP_PAGES = 10
LOOKS = 10  # pages of records, of our own words alone, before the oldest of them has to do
EMPTY_PAGES = 50
TOO_MANY = "Messages may be missing before this: there are more conversations than are asked about."
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
            known = await self._store.read(ReadRooms(account=account))
            rooms = known.asked
            for start in range(0, len(known.left_out), CHUNK):
                chunk = known.left_out[start : start + CHUNK]
                await asyncio.gather(*(self._say(one, TOO_MANY) for one in chunk))
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
        in the conversation says so; a repair that was interrupted may have got further there than
        in the threads, so these are looked for from the earlier of both on."""
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
        begun = anchor.since
        if since is not None and ref.parent_conversation_id is None:
            begun = min(begun, since)
        missing: list[InboundMessage] = []
        edits: list[InboundMessage] = []
        children: dict[ConversationRef, datetime | None] = {}
        call = dialect.history(ref)
        trouble, begins = "too much was said meanwhile", None
        for _ in range(GAP_PAGES):
            try:
                page = await self._page(account, dialect, ref, call)
            except _Stopped as stop:
                trouble = str(stop)
                break
            if begins is None:
                begins = anchor.behind(page.messages)
                missing = [*page.messages[begins or 0 :], *missing]
            edits = [*page.edits, *edits]
            children.update({child: page.stirred.get(child) for child in page.children})
            everything = begins is not None and begun == anchor.since
            if everything or page.older is None or passed(page.messages, begun):
                trouble = ""
                break
            call = page.older
        if trouble:
            await self._say(ref, f"Messages may be missing before this: {trouble}.")
        if begins is None:
            # A clock decides only where no id does.
            missing = [one for one in missing if not anchor.is_older(one)]
        missing += anchor.during(edits)
        found = (await self._hearing.messages(account, missing)).recorded
        for child, stirred in children.items():
            if stirred is None or stirred > begun:
                found += await self._repair(account, dialect, child, done, begun)
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
