"""What stories of writing first have in common, whatever the provider."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from threadline import Threadline
from threadline.core.errors import ConsentRequired, NotFound
from threadline.core.model import Controller, ConversationRef, Event, TranscriptRecord
from threadline.flows.persons import PersonState
from threadline.flows.send_status import SendStatus

HUMAN = Controller(human=True)
SECONDS = 60


async def allowed(line: Threadline, provider: str, account: str, *sessions: str) -> None:
    """Sessions that may start conversations through an account."""
    for name in sessions:
        await line.sessions.create(name)
        await line.consents.grant(name, provider, account)


async def welcome(
    line: Threadline, name: str, way: str, *, realm: str = "", languages: Sequence[str] = ()
) -> PersonState:
    """Somebody whom a human vouches for, and who is content to be written to."""
    made = await line.people.make(
        name, contacts=[way], realm=realm, verified=True, languages=languages, caller=HUMAN
    )
    await line.consents.set("on", person=made.id, why="said so on paper", caller=HUMAN)
    return made


async def switched(line: Threadline, place: ConversationRef) -> None:
    """A room in which a human lets sessions write."""
    await line.conversations.ensure(place)
    await line.consents.set("on", room=place, caller=HUMAN)


async def said(line: Threadline, session: str, to: object, text: str) -> SendStatus:
    """A send at its end."""
    sent = await line.initiative.send(session, str(to), text)
    return await line.initiative.settled(sent, patience=SECONDS)


async def until(line: Threadline, place: ConversationRef, text: str) -> list[TranscriptRecord]:
    """The transcript, once somebody said this there."""
    found: list[TranscriptRecord] = []
    bell = line.store.bell(everything=True)
    try:
        async with asyncio.timeout(SECONDS):
            while not any(one.text == text for one in found):
                with suppress(NotFound):
                    found = (await line.conversations.transcript(place, limit=100)).records
                if not any(one.text == text for one in found):
                    await bell.wait(1.0)
    except TimeoutError:
        raise AssertionError([(one.event, one.text) for one in found]) from None
    finally:
        bell.close()
    return found


async def answered(
    line: Threadline,
    place: ConversationRef,
    session: str,
    words: str,
    reply: str,
    *,
    asked: bool = True,
) -> TranscriptRecord:
    """The first story: both stand in one transcript in this order, said by the session and by
    somebody else; the session is woken, and has both in its context. Answers the reply."""
    found = await until(line, place, reply)
    spoken = [one for one in found if one.event is Event.MESSAGE]
    texts = [one.text for one in spoken]
    assert texts.count(words) == texts.count(reply) == 1, texts
    mine, theirs = spoken[texts.index(words)], spoken[texts.index(reply)]
    assert mine.sequence < theirs.sequence
    assert (mine.source_session_id, theirs.source_session_id) == (session, None)
    if asked:
        assert theirs.target_session_id == session, theirs.route
        assert theirs.wakes == (mine.source,)
        context = str(await line.context.read(place, session, budget=4000))
        assert context.index(words) < context.index(reply)
    return theirs


async def silent(
    line: Threadline, place: ConversationRef, session: str, to: str, word: str
) -> None:
    """After a person's word: it wakes nobody, a notice of it stands below, and nothing more may be
    said, neither first nor by who is bound."""
    found = await until(line, place, word)
    spoken = next(one for one in found if one.text == word)
    assert spoken.wakes == ()
    below = [one for one in found if one.sequence > spoken.sequence]
    assert [(one.event, one.wakes) for one in below] == [(Event.NOTICE, ())]
    assert "asked not to be written to any more" in below[0].text
    for one in (to, str(place)):
        with pytest.raises(ConsentRequired):
            await line.initiative.send(session, one, "One more thing!")
    with pytest.raises(ConsentRequired):
        await line.outbound.publish(place, session, "Are you there?")
