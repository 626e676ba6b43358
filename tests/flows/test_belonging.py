"""What is done to a thread's message belongs to the thread, also where only the room is told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Store
from threadline import Threadline
from threadline.core.adapters import Account
from threadline.core.model import Actor, ConversationRef, Event, InboundMessage, Kind

ACCOUNT = Account(scope_id="default", provider="matrix", account_id="@bot:hs")
ROOM = ConversationRef("matrix", "@bot:hs", "!room:hs", kind=Kind.ROOM)
THREAD = ConversationRef("matrix", "@bot:hs", "$root", "!room:hs", kind=Kind.THREAD)
ADA = Actor("@ada:hs", "Ada")


def heard(name: str, text: str = "", **more: Any) -> InboundMessage:
    """Ada does something in the room."""
    where = {"conversation": ROOM, **more}
    return InboundMessage(actor=ADA, message_id=name, text=text, **where)


async def entries(line: Threadline, ref: ConversationRef) -> list[tuple[str, str]]:
    """What stands in a transcript."""
    page = await line.conversations.transcript(ref)
    return [(one.event.value, one.text) for one in page.records]


@pytest.fixture
async def line(store: Store) -> Threadline:
    """A room with a thread, as a restarted listener finds them."""
    made = Threadline(store)
    inside = {"conversation": THREAD, "parent": ROOM, "thread_root": "$root"}
    said = [heard("$root", "the root"), heard("$1", "a secret", **inside)]
    await made.hearing.messages(ACCOUNT, said)
    return made


async def test_a_redaction_that_names_only_the_room_takes_the_threads_words_away(
    line: Threadline,
) -> None:
    gone = heard("delete:$1", event=Event.DELETE, revises="$1", signed=True)
    await line.hearing.messages(ACCOUNT, [gone])
    assert await entries(line, THREAD) == [("message", "the root"), ("message", ""), ("delete", "")]
    assert await entries(line, ROOM) == [("message", "the root")]


async def test_edits_and_reactions_go_where_their_message_is(line: Threadline) -> None:
    edit = heard("$2", "no secret", event=Event.EDIT, revises="$1")
    thumb = heard("$3", "+1", event=Event.REACTION, revises="$root")
    lost = heard("$4", "+1", event=Event.REACTION, revises="$nobody-knows")
    await line.hearing.messages(ACCOUNT, [edit, thumb, lost])
    assert (await entries(line, THREAD))[-1] == ("edit", "no secret")
    assert (await entries(line, ROOM))[1:] == [("reaction", "+1"), ("reaction", "+1")]


async def test_what_comes_together_with_its_message_belongs_where_that_is(
    line: Threadline,
) -> None:
    inside = {"conversation": THREAD, "parent": ROOM, "thread_root": "$root"}
    together = [
        heard("$5", "a second secret", **inside),
        heard("$6", "a word", **inside),
        heard("$7", "a better word", event=Event.EDIT, revises="$6"),
        heard("delete:$5", event=Event.DELETE, revises="$5", signed=True),
    ]
    await line.hearing.messages(ACCOUNT, together)
    assert (await entries(line, THREAD))[2:] == [
        ("message", ""),
        ("message", "a word"),
        ("edit", "a better word"),
        ("delete", ""),
    ]
    assert await entries(line, ROOM) == [("message", "the root")]
