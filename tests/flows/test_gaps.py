"""What a gap hides is read from history: no word is lost, nothing ancient is heard as new.

The platform here is a list of messages, both a dialect and the wire to it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conftest import Store
from threadline import Threadline
from threadline.core.adapters import Account, Capabilities, Past
from threadline.core.model import (
    Actor,
    AdapterCaller,
    ConversationRef,
    Direction,
    History,
    InboundMessage,
    Kind,
)
from threadline.core.wire import ApiCall, ApiResponse
from threadline.flows.gaps import GAP_ROOMS
from threadline.flows.histories import TOO_MANY

AT = datetime(2025, 12, 1, tzinfo=UTC)
ACCOUNT = Account(
    scope_id="default",
    provider="discord",
    account_id="700",
    capabilities=Capabilities(history=True),
)
CALLER = AdapterCaller("default", "discord", "700")
ROOM = ConversationRef("discord", "700", "800", kind=Kind.ROOM)
THREAD = ConversationRef("discord", "700", "m2", "800", kind=Kind.THREAD)

pytestmark = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)


def said(number: int, *, own: bool = False, where: ConversationRef = ROOM, **more: Any) -> Any:
    """The message that was said so many minutes after the beginning."""
    return InboundMessage(
        conversation=where,
        text=f"number {number}",
        message_id=f"m{number}",
        direction=Direction.OUTBOUND if own else Direction.INBOUND,
        **{
            "actor": Actor("700", "bot", True, True) if own else Actor("42", "Ada"),
            "sent_at": AT + timedelta(minutes=number),
            **more,
        },
    )


class Listed:
    """A platform that gives a hundred messages a page, after so many empty ones."""

    def __init__(self, *messages: InboundMessage, empty: int = 0) -> None:
        self.messages = messages
        self.empty = empty

    def history(self, ref: ConversationRef, before: str | None = None) -> ApiCall:
        """The newest page."""
        return ApiCall(method="GET", url=str(len(self._of(ref)) + self.empty))

    def read_history(self, ref: ConversationRef, call: ApiCall, answer: ApiResponse) -> Past:
        """A page of this conversation, and the thread that hangs in the room."""
        here, end = self._of(ref), int(call.url)
        begin = end - 1 if end > len(here) else max(0, end - 100)
        children = (THREAD,) if ref == ROOM and self._of(THREAD) else ()
        older = ApiCall(method="GET", url=str(begin)) if begin else None
        return Past(messages=here[begin:end], older=older, children=children)

    def _of(self, ref: ConversationRef) -> tuple[InboundMessage, ...]:
        return tuple(one for one in self.messages if one.conversation == ref)

    async def perform(self, call: ApiCall) -> ApiResponse:
        """What a page is, the dialect knows."""
        return ApiResponse(status=200)

    async def close(self) -> None:
        """Nothing is open."""

    def dialect(self, account: Account) -> Any:
        """Itself."""
        return self

    def files(self, seconds: float) -> Any:
        """Itself."""
        return self

    def transport(self, provider: str) -> Any:
        """Itself."""
        return self

    def connectable(self, provider: str) -> None:
        """Nobody connects to it."""


async def repaired(
    store: Store, platform: Listed, *known: InboundMessage, where: ConversationRef = ROOM
) -> list[str]:
    """What stands in a transcript of which this was known, once the gap was read."""
    line = Threadline(store, channels=platform)
    await line.inbound.receive_all(known, caller=CALLER)
    await line.histories.repair(ACCOUNT, platform)
    records = []
    page = await line.conversations.transcript(where, limit=500)
    records += page.records
    return [one.text for one in records]


async def test_an_answer_to_our_first_word_is_heard(store: Store) -> None:
    """We wrote first, and the person answered while the connection was away."""
    ours = said(1, own=True)
    assert await repaired(store, Listed(ours, said(2)), ours) == ["number 1", "number 2"]


async def test_the_first_word_in_a_room_that_was_silent_is_heard(store: Store) -> None:
    """We know the room, nobody had spoken in it, and the account was heard all the while."""
    platform = Listed(said(1), said(60), said(61))
    line = Threadline(store, channels=platform)
    await line.conversations.ensure(ROOM)
    heard_at = AT + timedelta(minutes=50)

    await line.histories.repair(ACCOUNT, platform, heard_at=heard_at)

    records = (await line.conversations.transcript(ROOM)).records
    assert [one.text for one in records] == ["number 60", "number 61"]


async def test_what_was_said_before_our_first_word_is_no_gap(store: Store) -> None:
    ours = said(50, own=True)
    platform = Listed(said(1), said(2), ours, said(60))
    assert await repaired(store, platform, ours) == ["number 50", "number 60"]


async def test_an_answer_behind_many_words_of_ours_is_heard(store: Store) -> None:
    """The last word of somebody else stands behind more of ours than are looked at together."""
    ours = [said(number, own=True) for number in range(3, 105)]
    platform = Listed(said(1), said(2), *ours, said(200))
    heard = await repaired(store, platform, said(1), *ours)
    assert heard[0] == "number 1"
    assert heard[-2:] == ["number 2", "number 200"]
    assert len(heard) == 105


async def test_what_is_ancient_is_not_heard_as_new(store: Store) -> None:
    """The one message that we heard was deleted over there meanwhile."""
    ancient = [said(number) for number in range(1, 301)]
    heard = await repaired(store, Listed(*ancient, said(401)), said(400))
    assert heard == ["number 400", "number 401"]


async def test_a_clock_decides_only_where_no_id_does(store: Store) -> None:
    """Somebody's clock is a day behind; what follows the last word we heard is heard."""
    late = said(401, sent_at=AT - timedelta(days=1))
    heard = await repaired(store, Listed(said(1), said(400), late), said(400))
    assert heard == ["number 400", "number 401"]


async def test_the_one_before_is_where_a_gap_begins_when_the_last_is_gone(store: Store) -> None:
    known = [said(1), said(2)]
    heard = await repaired(store, Listed(said(1), said(3, sent_at=None)), *known)
    assert heard == ["number 1", "number 2", "number 3"]


async def test_a_thread_that_began_in_the_gap_is_heard(store: Store) -> None:
    inside = said(3, where=THREAD, thread_root="m2", parent=ROOM)
    platform = Listed(said(1), said(2), inside, said(4))
    heard = await repaired(store, platform, said(1), where=THREAD)
    assert heard == ["number 2", "number 3"], "its root is copied in front"


class Breaking(Listed):
    """Says with each page which threads hang on its messages, and goes away in the thread."""

    def __init__(self, *messages: InboundMessage) -> None:
        super().__init__(*messages)
        self.reached, self.stays = asyncio.Event(), asyncio.Event()

    def history(self, ref: ConversationRef, before: str | None = None) -> ApiCall:
        """The newest page, and whose it is."""
        return replace(super().history(ref, before), route=ref.conversation_id)

    def read_history(self, ref: ConversationRef, call: ApiCall, answer: ApiResponse) -> Past:
        """A page with the threads of its own messages."""
        page = super().read_history(ref, call, answer)
        older = page.older and replace(page.older, route=ref.conversation_id)
        page = replace(page, older=older)
        if not any(one.message_id == "m2" for one in page.messages):
            return replace(page, children=())
        last = self._of(THREAD)[-1].sent_at
        assert last is not None
        return replace(page, stirred={THREAD: last})

    async def perform(self, call: ApiCall) -> ApiResponse:
        """It waits where a thread is asked for."""
        if call.route == THREAD.conversation_id:
            self.reached.set()
            await self.stays.wait()
        return await super().perform(call)


@pytest.mark.parametrize("following", [4, 300])
async def test_what_an_interrupted_repair_did_not_reach_is_read_by_the_next(
    store: Store, following: int
) -> None:
    inside = said(3, where=THREAD, thread_root="m2", parent=ROOM)
    later = [said(number) for number in range(4, following + 1)]
    platform = Breaking(said(1), said(2), inside, *later)
    line = Threadline(store, channels=platform)
    await line.inbound.receive_all([said(1)], caller=CALLER)
    heard_at = AT + timedelta(minutes=1)

    dying = asyncio.create_task(line.histories.repair(ACCOUNT, platform, heard_at=heard_at))
    await platform.reached.wait()
    dying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dying
    platform.stays.set()
    await line.histories.repair(ACCOUNT, platform, heard_at=heard_at)

    records = (await line.conversations.transcript(THREAD)).records
    assert [one.text for one in records] == ["number 2", "number 3"]


async def test_old_threads_keep_no_room_from_being_asked(store: Store) -> None:
    """There are more threads every day; those that began last are asked, the others say so once."""
    place = ConversationRef("discord", "700", "500")
    threads = [
        said(
            number,
            where=ConversationRef("discord", "700", f"t{number:04}", "500"),
            thread_root=f"t{number:04}",
            parent=place,
        )
        for number in range(1, GAP_ROOMS + 1)
    ]
    platform = Listed(said(2001), said(2002))
    line = Threadline(store, channels=platform)
    await line.inbound.receive_all([*threads, said(2001)], caller=CALLER)

    for _ in range(2):
        await line.histories.repair(ACCOUNT, platform)

    records = (await line.conversations.transcript(ROOM)).records
    assert [one.text for one in records] == ["number 2001", "number 2002"]
    oldest, next_one = [threads[number].conversation for number in (0, 1)]
    notices = (await line.conversations.transcript(oldest)).records[1:]
    assert [one.text for one in notices] == [TOO_MANY]
    assert len((await line.conversations.transcript(next_one)).records) == 1


async def test_an_import_that_left_something_out_is_partial_and_says_so(store: Store) -> None:
    """What nobody said cannot be recorded, and the transcript is not called complete."""
    platform = Listed(said(1), said(2, actor=Actor(" ")), said(3))
    line = Threadline(store, channels=platform)
    told = await line.histories._import(ACCOUNT, platform, ROOM, None, None)
    page = await line.conversations.transcript(ROOM)

    assert (told.written, told.refused) == (2, 1)
    assert told.partial == "1 of the messages could not be recorded"
    assert page.history is History.PARTIAL


async def test_empty_pages_are_not_the_end_of_a_past(store: Store) -> None:
    """A provider may leave pages empty, though not without end."""
    platform = Listed(said(1), empty=3)
    line = Threadline(store, channels=platform)
    told = await line.histories._import(ACCOUNT, platform, ROOM, None, None)
    assert (told.written, told.partial) == (1, "")

    other = ConversationRef("discord", "700", "801", kind=Kind.ROOM)
    told = await line.histories._import(ACCOUNT, Listed(empty=10_000), other, None, None)
    assert told.partial == "the provider goes on with empty pages"
