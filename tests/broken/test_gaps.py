"""What a gap hides."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.conftest import Store
from tests.flows.test_gaps import ACCOUNT, AT, CALLER, ROOM, THREAD, Listed, said
from threadline import Threadline
from threadline.core.adapters import Past
from threadline.core.model import ConversationRef, InboundMessage
from threadline.core.wire import ApiCall, ApiResponse
from threadline.flows import histories

pytestmark = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)


class Breaking(Listed):
    """Says with each page which threads hang on its messages, and goes away in the thread."""

    def __init__(self, *messages: InboundMessage) -> None:
        super().__init__(*messages)
        self.reached, self.stays = asyncio.Event(), asyncio.Event()

    def history(self, ref: ConversationRef, before: str | None = None) -> ApiCall:
        return replace(super().history(ref, before), route=ref.conversation_id)

    def read_history(self, ref: ConversationRef, call: ApiCall, answer: ApiResponse) -> Past:
        page = super().read_history(ref, call, answer)
        older = page.older and replace(page.older, route=ref.conversation_id)
        page = replace(page, older=older)
        if not any(one.message_id == "m2" for one in page.messages):
            return replace(page, children=())
        last = self._of(THREAD)[-1].sent_at
        assert last is not None
        return replace(page, stirred={THREAD: last})

    async def perform(self, call: ApiCall) -> ApiResponse:
        if call.route == THREAD.conversation_id:
            self.reached.set()
            await self.stays.wait()
        return await super().perform(call)


@pytest.mark.parametrize("following", [4, 300])
async def test_a_repair_that_was_interrupted_is_done_again(store: Store, following: int) -> None:
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


async def test_many_threads(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    old = [
        said(number, where=ConversationRef("discord", "700", f"t{number}", "500"), thread_root=f"t{number}",
             parent=ConversationRef("discord", "700", "500"))
        for number in range(1, 1001)
    ]
    platform = Listed(said(2001), said(2002))
    line = Threadline(store, channels=platform)
    await line.inbound.receive_all([*old, said(2001)], caller=CALLER)
    await line.histories.repair(ACCOUNT, platform, heard_at=AT + timedelta(minutes=2001))
    records = (await line.conversations.transcript(ROOM)).records
    assert [one.text for one in records] == ["number 2001", "number 2002"]
