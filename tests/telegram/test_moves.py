"""A send that is sent on to an address the conversation has already."""

from __future__ import annotations

import pytest

from threadline import Threadline
from threadline.core.draft import Draft
from threadline.core.model import Actor, ConversationRef, InboundMessage, Kind
from threadline.core.places import moved
from threadline.core.ports import Changes, Loaded, Needs, Story

OLD = ConversationRef("telegram", "7001", "-5", kind=Kind.ROOM)
NEW = ConversationRef("telegram", "7001", "-1000000000051", kind=Kind.ROOM)


class Move(Story[str]):
    """What settling such a send does to the conversation."""

    def needs(self) -> Needs:
        """Both addresses, locked."""
        return Needs(take=(OLD.text, NEW.text))

    def decide(self, loaded: Loaded, now: object) -> tuple[Changes, str]:
        """Its newest address afterwards."""
        draft = Draft(loaded)
        conversation = draft.taken(NEW.text)
        assert conversation is not None
        after = moved(draft, conversation, OLD, now)  # type: ignore[arg-type]
        return draft.changes, after.ref.text


@pytest.mark.acceptance("A9")
async def test_an_address_that_is_known_becomes_the_newest_once_more(tl: Threadline) -> None:
    """It is written down once, and both still lead to the one conversation."""
    for where, other in ((OLD, ()), (NEW, (OLD,))):
        said = InboundMessage(conversation=where, text="x", actor=Actor("42"), same_as=other)
        await tl.inbound.append(said)
    before = await tl.conversations.show(NEW)
    assert (str(before.ref), await tl.store.run(Move())) == (str(NEW), OLD.text)
    after = await tl.conversations.show(NEW)
    assert (after.id, str(after.ref)) == (before.id, str(OLD))
