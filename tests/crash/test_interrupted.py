"""What takes several transactions and was cut short between two of them."""

from __future__ import annotations

import pytest

from tests.speech import said
from threadline import Threadline
from threadline.core.model import ConversationRef
from threadline.flows.sessions import AT_ONCE, Reassign


@pytest.mark.acceptance("J1")
async def test_a_reassignment_that_was_cut_short_is_finished_by_asking_for_it_again(
    tl: Threadline,
) -> None:
    """Killed after its first transaction; what is left is moved, and a third time does nothing."""
    rooms = [ConversationRef("slack", "T1", f"R{n}") for n in range(AT_ONCE + 10)]
    await tl.inbound.receive_all([said("hello", "m1", conversation=room) for room in rooms])
    for room in rooms:
        await tl.speakers.bind(room, "old")
    await tl.store.run(Reassign(scope="default", old="old", new="new"))

    await tl.sessions.reassign("old", "new")
    await tl.sessions.reassign("old", "new")

    bound = [await tl.speakers.binding(room) for room in rooms]
    assert {one and one.session_id for one in bound} == {"new"}
    assert {(await tl.conversations.show(room)).members for room in rooms} == {1}
