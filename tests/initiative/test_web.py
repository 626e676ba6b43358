"""Writing first on our own page: a direct chat is a person's, and that person decides."""

from __future__ import annotations

import pytest

from threadline import Actor, ConversationRef, InboundMessage, Threadline
from threadline.core.errors import ConsentRequired
from threadline.core.model import Kind
from threadline.core.ports import Store
from threadline.core.sends import SendState

CHAT = ConversationRef("web", "office", "ada", kind=Kind.DM)
ADA = Actor("guest-1", "Ada")


@pytest.mark.acceptance("H1", "H6")
async def test_who_wrote_in_a_direct_chat_is_written_to_until_they_say_stop(store: Store) -> None:
    """There is no room's switch in it: the first words grant, the word "stop" ends it."""
    line = Threadline(store)
    await line.conversations.ensure(CHAT)
    await line.consents.grant("agent", "web", "office")

    async def says(text: str, number: int) -> InboundMessage:
        said = InboundMessage(conversation=CHAT, actor=ADA, text=text, message_id=f"m{number}")
        await line.inbound.receive(said)
        return said

    with pytest.raises(ConsentRequired):
        await line.initiative.send("agent", str(CHAT), "Too early.")
    await says("hello", 1)
    sent = await line.initiative.send("agent", str(CHAT), "Shall I?")
    await says("yes, do it", 2)
    await says("stop", 3)
    with pytest.raises(ConsentRequired):
        await line.initiative.send("agent", str(CHAT), "Too late.")

    page = await line.conversations.transcript(CHAT, limit=100)
    said = [one for one in page.records if one.event.value == "message"]
    assert sent.state is SendState.DELIVERED
    assert [one.text for one in said] == ["hello", "Shall I?", "yes, do it", "stop"]
    assert (said[2].target_session_id, bool(said[2].wakes), said[3].wakes) == ("agent", True, ())
    assert said[0].person_id == said[2].person_id is not None
    await line.outbox.close()
