"""Writing first on Matrix, at a real homeserver: to people, into rooms and threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.conftest import Store
from tests.firsts import allowed, answered, said, silent, switched, until, welcome
from tests.matrix.conftest import People, Person
from tests.talk import at_work
from threadline import Threadline
from threadline.core.errors import NotFound, ReplyRouteConflict
from threadline.core.model import ConversationRef, Event, Kind
from threadline.core.sends import SendState
from threadline.testing.clock import StillClock
from threadline.testing.homeserver import Homeserver

SECONDS = 60


class Line:
    """A connected account whose two sessions may write first."""

    def __init__(self, tl: Threadline, user: str, token: str) -> None:
        self.tl, self.user, self.token = tl, user, token

    def at(self, room: str, root: str = "") -> ConversationRef:
        """A room's conversation, or that of a thread in it."""
        if root:
            return ConversationRef("matrix", self.user, root, room, kind=Kind.THREAD)
        return ConversationRef("matrix", self.user, room)

    async def enters(self, place: ConversationRef) -> None:
        """Wait until the account came into a room it was invited to."""
        bell = self.tl.store.bell(everything=True)
        try:
            async with asyncio.timeout(SECONDS):
                while not await self._is_in(place):
                    await bell.wait(1.0)
        finally:
            bell.close()

    async def _is_in(self, place: ConversationRef) -> bool:
        try:
            found = (await self.tl.conversations.transcript(place)).records
        except NotFound:
            return False
        return any(one.event is Event.MEMBER and one.actor.is_self for one in found)

    async def last(self, place: ConversationRef, text: str) -> str:
        """The id of the event in which somebody said this."""
        found = await until(self.tl, place, text)
        return next(one.message_id or "" for one in found if one.text == text)


@pytest.fixture
async def line(store: Store, synapse: Homeserver) -> AsyncIterator[Line]:
    """Listening and speaking."""
    tl = Threadline(store, allow_private=True)
    _, token = synapse.register("bot")
    made = await tl.accounts.connect("matrix", {"api": synapse.url, "access_token": token})
    user = made.state.account_id
    await allowed(tl, "matrix", user, "agent", "second")
    async with at_work(tl):
        yield Line(tl, user, token)
    await tl.outbox.close()


async def direct(who: Person) -> list[str]:
    """The rooms a person is invited to."""
    synced = await who.client.sync(timeout=0)
    return list(synced["rooms"].get("invite", {}))


@pytest.mark.acceptance("H1", "H2", "H4", "H6")
@pytest.mark.case("B072")
async def test_a_direct_room_is_made_for_who_never_wrote_and_is_the_only_one(
    line: Line, people: People, clock: StillClock
) -> None:
    """Ada is invited; she comes, answers hours later, is written to in the same room, and has
    enough of it."""
    tl, ada = line.tl, await people("ada")
    person = await welcome(tl, "Ada", f"matrix:{ada.user}", languages=["pl"])
    sent = await said(tl, "agent", f"person:{person.id}", "Shall I book Friday?")
    assert sent.delivery is not None
    room = sent.delivery.ref.conversation_id
    assert (sent.state, await direct(ada)) == (SendState.DELIVERED, [room])
    await ada.enters(room)
    clock.move(hours=5)
    await ada.says(room, "works for me")
    reply = await answered(tl, line.at(room), "agent", "Shall I book Friday?", "works for me")
    assert reply.person_id == person.id
    with pytest.raises(ReplyRouteConflict):
        await tl.initiative.send("second", f"person:{person.id}", "And me?")
    again = await said(tl, "agent", f"matrix:{ada.user}", "Booked.")
    assert again.delivery is not None
    assert again.delivery.ref == sent.delivery.ref
    await ada.says(room, "Wypisz")
    await silent(tl, line.at(room), "agent", f"person:{person.id}", "Wypisz")


@pytest.mark.acceptance("H1", "H5")
async def test_who_wrote_in_a_direct_room_is_answered_there_and_so_is_a_thread_below(
    line: Line, people: People
) -> None:
    """The room the person opened is taken, no second one is made; an answer in a thread of it is
    the person's too."""
    tl, ada = line.tl, await people("ada")
    room = await ada.room(line.user, direct=True)
    place = line.at(room)
    await line.enters(place)
    await ada.says(room, "hello")
    hello = (await until(tl, place, "hello"))[-1]
    sent = await said(tl, "agent", f"matrix:{ada.user}", "Shall I?")
    assert sent.delivery is not None
    assert (sent.delivery.ref, await direct(ada)) == (place, [])
    await ada.says(room, "do it")
    await answered(tl, place, "agent", "Shall I?", "do it")
    root = await line.last(place, "Shall I?")
    await ada.says(room, "but not now", thread=root)
    thread = line.at(room, root)
    reply = await answered(tl, thread, "agent", "Shall I?", "but not now")
    assert (await until(tl, thread, "but not now"))[0].text == "Shall I?"
    assert reply.person_id == hello.person_id is not None


@pytest.mark.acceptance("H1", "H4", "H5")
async def test_a_post_in_a_room_is_answered_beside_it_and_in_a_thread(
    line: Line, people: People, clock: StillClock
) -> None:
    tl, ada = line.tl, await people("ada")
    room = await ada.room(line.user)
    place = line.at(room)
    await line.enters(place)
    await switched(tl, place)
    assert (await said(tl, "agent", place, "Lunch at noon?")).state is SendState.DELIVERED
    with pytest.raises(ReplyRouteConflict):
        await tl.initiative.send("second", str(place), "Dinner?")
    clock.move(hours=2)
    await ada.says(room, "yes please")
    await answered(tl, place, "agent", "Lunch at noon?", "yes please")
    root = await line.last(place, "Lunch at noon?")
    await ada.says(room, "in the garden", thread=root)
    await answered(tl, line.at(room, root), "agent", "Lunch at noon?", "in the garden")


@pytest.mark.acceptance("H1", "H5")
async def test_a_send_into_a_thread_is_answered_there(line: Line, people: People) -> None:
    """Nobody was in the thread yet; what it hangs on stands first."""
    tl, ada = line.tl, await people("ada")
    room = await ada.room(line.user)
    place = line.at(room)
    await line.enters(place)
    await switched(tl, place)
    root = await ada.says(room, "Who takes the ferry?")
    await until(tl, place, "Who takes the ferry?")
    thread = line.at(room, root)
    assert (await said(tl, "agent", thread, "At six.")).state is SendState.DELIVERED
    await ada.says(room, "six it is", thread=root)
    await answered(tl, thread, "agent", "At six.", "six it is")
    texts = [one.text for one in await until(tl, thread, "six it is")]
    assert texts == ["Who takes the ferry?", "At six.", "six it is"]


@pytest.mark.acceptance("H4")
async def test_everybody_who_is_written_to_at_the_same_time_is_listed_as_direct(
    line: Line, synapse: Homeserver, people: People, clock: StillClock
) -> None:
    """The list is read and written as a whole, so openings of one account do not meet."""
    tl, them = line.tl, [await people("ada") for _ in range(6)]
    for one in them:
        await welcome(tl, "Ada", f"matrix:{one.user}")
    sent = [
        await tl.initiative.send(
            "agent", f"matrix:{one.user}", "Good morning", at=clock() + timedelta(hours=1)
        )
        for one in them
    ]
    clock.move(hours=1)
    await tl.initiative.round()
    done = [await tl.initiative.settled(one) for one in sent]

    kept = await asyncio.to_thread(synapse.direct, line.token, line.user)

    assert [one.state for one in done] == [SendState.DELIVERED] * len(them)
    rooms = [one.delivery.ref.conversation_id for one in done if one.delivery is not None]
    assert [kept.get(one.user) for one in them] == [[room] for room in rooms]
