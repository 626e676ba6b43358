"""What comes together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import Store
from tests.flows.test_gaps import ACCOUNT, CALLER, ROOM, THREAD, said
from threadline import Threadline
from threadline.core.model import Event

pytestmark = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)


@pytest.mark.parametrize("together", [True, False])
async def test_a_delete_that_comes_with_its_message(store: Store, together: bool) -> None:
    line = Threadline(store)
    await line.inbound.receive_all([said(2)], caller=CALLER)
    inside = said(3, where=THREAD, thread_root="m2", parent=ROOM)
    gone = replace(said(4), event=Event.DELETE, revises="m3", text="", signed=True)
    if together:
        await line.hearing.messages(ACCOUNT, [inside, gone])
    else:
        await line.hearing.messages(ACCOUNT, [inside])
        await line.hearing.messages(ACCOUNT, [gone])
    records = (await line.conversations.transcript(THREAD)).records
    print(records)
    assert "number 3" not in [one.text for one in records]
