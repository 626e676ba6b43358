"""A person on a real client and an agent of ours, with a real homeserver that dies in between."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from mautrix.types import ContentURI, RoomID

from tests.conftest import Store, open_at
from tests.http.conftest import SECONDS as SERVER_SECONDS
from tests.matrix.conftest import Bot, People, Person, records
from threadline import Threadline
from threadline.core.deliveries import DeliveryState
from threadline.core.errors import NotFound
from threadline.core.model import ConversationRef, Direction, Event, Kind, TranscriptRecord
from threadline.core.rules.pacing import Pace
from threadline.entrypoints.http.server import Server, ServerSettings, make_app
from threadline.flows.listening import ReadConnected
from threadline.testing.homeserver import AS_TOKEN, HS_TOKEN, PUSHED, Homeserver

SECONDS = 60
PACE = Pace(first_wait=timedelta(milliseconds=200), longest_wait=timedelta(seconds=1))


class Line:
    """A store with a connected account on it, and the workers of one process."""

    def __init__(self, url: str, key: bytes) -> None:
        self.url, self.key = url, key
        self.tl: Threadline
        self._store: Store
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Open the store, as a process that starts does."""
        self._store = await open_at(self.url, self.key)
        self.tl = Threadline(self._store, allow_private=True, pace=PACE)

    def work(self, *, listening: bool = True) -> None:
        """Listen and send, or only send."""
        self._stopping.clear()
        runs = [self.tl.outbox.run, *([self.tl.listeners.run] if listening else [])]
        self._tasks += [asyncio.create_task(run(self._stopping)) for run in runs]

    async def rest(self) -> None:
        """Stop listening and sending."""
        self._stopping.set()
        await asyncio.gather(*self._tasks)
        self._tasks.clear()

    async def close(self) -> None:
        """End the process."""
        await self.rest()
        await self.tl.outbox.close()
        await self._store.close()

    async def connect(self, api: str, token: str, **given: str) -> str:
        """Connect an account; its id."""
        asked = {"api": api, "access_token": token, **given}
        made = await self.tl.accounts.connect(
            "matrix", asked, installation="pushed" if given else None
        )
        return made.state.account_id

    async def until(
        self, where: ConversationRef, done: Callable[[list[TranscriptRecord]], bool]
    ) -> list[TranscriptRecord]:
        """The transcript, once it is as wanted."""
        found: list[TranscriptRecord] = []
        bell = self.tl.store.bell(everything=True)
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    with suppress(NotFound):
                        found = await records(self.tl, where)
                    if done(found):
                        return found
                    await bell.wait(1.0)
        except TimeoutError:
            raise AssertionError([(one.event, one.text) for one in found]) from None
        finally:
            bell.close()

    async def hears(self, where: ConversationRef, text: str) -> list[TranscriptRecord]:
        """The transcript, once somebody said this there."""
        return await self.until(where, lambda found: any(one.text == text for one in found))

    async def says(self, where: ConversationRef, text: str, **more: Any) -> str:
        """The delivery of what the agent says there."""
        return (await self.tl.outbound.publish(where, "agent", text, **more)).id

    async def settled(self, delivery: str) -> Any:
        """A delivery that came to its end."""
        async with asyncio.timeout(SECONDS):
            bell = self.tl.store.bell(everything=True)
            try:
                while True:
                    found = await self.tl.deliveries.show(delivery)
                    if found.state not in ("pending", "sending", "uncertain"):
                        return found
                    await bell.wait(0.5)
            finally:
                bell.close()


@pytest.fixture
async def line(store_url: str, key: bytes) -> AsyncIterator[Line]:
    """On each engine, under a clock that goes."""
    made = Line(store_url, key)
    await made.open()
    yield made
    await made.close()


Meeting = tuple[Person, str, ConversationRef]


async def meeting(
    line: Line, people: People, synapse: Homeserver, api: str = "", direct: bool = False
) -> Meeting:
    """Ada, a room she invited the bot into, and its address; the agent is bound to it."""
    _, token = synapse.register("bot")
    user = await line.connect(api or synapse.url, token)
    line.work()
    ada = await people("ada")
    room = await ada.room(user, direct=direct)
    where = ConversationRef("matrix", user, room)

    def entered(found: list[TranscriptRecord]) -> bool:
        return any(one.event is Event.MEMBER and one.actor.is_self for one in found)

    await line.until(where, entered)
    await line.tl.speakers.bind(where, "agent")
    await line.tl.members.join(where, "reader", policy="all")
    return ada, room, where


def said(found: list[TranscriptRecord]) -> list[str]:
    """The messages of a transcript."""
    return [one.text for one in found if one.event is Event.MESSAGE]


@pytest.mark.acceptance("G1", "G6", "G10", "H1", "H5", "F12")
async def test_a_person_and_an_agent_talk_and_every_word_is_there_once(
    line: Line, people: People, synapse: Homeserver
) -> None:
    ada, room, where = await meeting(line, people, synapse, direct=True)
    asked = await ada.says(room, "When do we open?")
    heard = await line.hears(where, "When do we open?")

    question = heard[-1]
    answer = await line.settled(await line.says(where, "At **nine**.", reply_to=question.sequence))
    [answer_id] = answer.message_ids
    inside = await ada.says(room, "Sharp?", thread=answer_id)
    thread = ConversationRef("matrix", where.account_id, answer_id, parent_conversation_id=room)
    await line.hears(thread, "Sharp?")
    sharp = await line.settled(await line.says(thread, "Sharp."))
    await ada.says(room, "Until then!", edits=inside)
    slip = await ada.says(room, "oops", thread=answer_id)
    await line.hears(thread, "oops")
    await ada.redacts(room, slip)
    await ada.says(room, "Bye")
    found = await line.hears(where, "Bye")
    below = await line.until(thread, lambda rows: any(one.event is Event.DELETE for one in rows))

    assert question.target_session_id == "agent"
    assert said(found) == ["When do we open?", "At **nine**.", "Bye"]
    # What was taken back is blank, also in the thread that its redaction does not name.
    assert said(below) == ["At **nine**.", "Sharp?", "Sharp.", ""]
    assert [one.event for one in below].count(Event.EDIT) == 1
    ours = next(one for one in found if one.message_id == answer_id)
    assert (ours.source_session_id, ours.reply_to) == ("agent", asked)
    assert (ours.direction, ours.actor.is_self) == (Direction.OUTBOUND, True)
    assert synapse.bodies(ada.token, room).count("At **nine**.") == 1
    shown = {one["event_id"]: one["content"] for one in synapse.events(ada.token, room)}
    assert shown[answer_id]["m.relates_to"] == {"m.in_reply_to": {"event_id": asked}}
    assert shown[answer_id]["formatted_body"] == "At <strong>nine</strong>."
    assert shown[sharp.message_ids[0]]["m.relates_to"]["event_id"] == answer_id
    state = await line.tl.conversations.show(where)
    assert state.kind is Kind.DM


@pytest.mark.case("B091")
async def test_another_name_is_no_coming_and_no_going(
    line: Line, people: People, synapse: Homeserver
) -> None:
    """B091: neither a person's nor ours; who really goes and comes is told of once each."""
    ada, room, where = await meeting(line, people, synapse)
    opened = synapse.web.put(
        f"/_matrix/client/v3/rooms/{room}/state/m.room.join_rules",
        json={"join_rule": "public"},
        headers={"authorization": f"Bearer {ada.token}"},
    )
    opened.raise_for_status()
    [account] = await line.tl.store.read(ReadConnected())
    us = Person(synapse, account.account_id, account.credentials["access_token"])
    await ada.says(room, "one")
    await line.hears(where, "one")
    members, _ = await line.tl.members.of(where)
    for client, name in ((ada.client, "Ada the Second"), (us.client, "Our New Name")):
        await client.set_displayname(name)
        await client.set_avatar_url(ContentURI(f"mxc://localhost/{name[:3]}"))
    await us.close()
    await ada.says(room, "two")
    renamed = await line.hears(where, "two")
    after, _ = await line.tl.members.of(where)
    await ada.client.leave_room(RoomID(room))
    await ada.enters(room)
    await ada.says(room, "three")
    found = await line.hears(where, "three")

    assert said(found) == ["one", "two", "three"]
    assert [(one.session_id, one.grants, one.joined_sequence) for one in after] == [
        (one.session_id, one.grants, one.joined_sequence) for one in members
    ]
    first, second = (one for one in renamed if one.event is Event.MESSAGE)
    assert first.actor.id == second.actor.id == ada.user
    assert second.actor.name == "Ada the Second"
    between = renamed[renamed.index(first) + 1 : -1]
    assert {one.event for one in between} <= {Event.NOTICE}
    assert [one.wakes for one in found if one.event is not Event.MESSAGE and one.wakes] == []
    moved = [one for one in found[len(renamed) :] if one.event is Event.MEMBER]
    assert [one.metadata["membership"] for one in moved] == ["leave", "join"]
    ours = [one for one in found if one.actor.is_self and one.event is Event.MEMBER]
    assert len(ours) == 1, "we came in once"
    assert (await line.tl.deliveries.page()).deliveries == []


@pytest.mark.acceptance("G5", "B6")
@pytest.mark.case("B118")
async def test_neither_a_killed_homeserver_nor_a_restart_of_ours_loses_or_doubles_a_word(
    line: Line, people: People, synapse: Homeserver
) -> None:
    """The homeserver's own count of events is the judge."""
    ada, room, where = await meeting(line, people, synapse)
    await ada.says(room, "one")
    await line.hears(where, "one")
    await ada.says(room, "two")
    synapse.kill()
    away = await line.says(where, "said while it was away")
    synapse.start()
    await ada.says(room, "three")
    there = await line.settled(away)
    await line.hears(where, "three")
    await line.close()
    waited = [await ada.says(room, f"n{number}") for number in range(3)]
    await line.open()
    line.work()
    last = await line.settled(await line.says(where, "back again"))

    found = await line.until(where, lambda rows: {*waited} <= {one.message_id for one in rows})

    assert {there.state, last.state} == {DeliveryState.DELIVERED}
    bodies = synapse.bodies(ada.token, room)
    assert sorted(said(found)) == sorted(bodies)
    assert len(bodies) == 8
    ids = [one.message_id for one in found]
    assert len(ids) == len({*ids})


class Dropping:
    """Passes everything on, and loses the answer to the next things that are said."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self.drops = 0
        self.dropped = 0

    async def serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """One connection, which carries one call."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        far, ahead = await asyncio.open_connection("127.0.0.1", self._port)
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await near.readuntil(b"\r\n\r\n")
            ahead.write(head)
            doomed = self.drops > 0 and b"/send/m.room.message/" in head.partition(b"\r\n")[0]
            self.drops, self.dropped = self.drops - doomed, self.dropped + doomed
            asking = asyncio.create_task(_pump(near, ahead))
            telling = asyncio.create_task(_first(far) if doomed else _pump(far, back))
            both: list[asyncio.Task[Any]] = [asking, telling]
            # Whoever hangs up first ends it: the other side would keep the connection for more.
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for writer in (back, ahead):
                writer.close()
            await asyncio.gather(*both)
        for writer in (back, ahead):
            writer.close()
        self._tasks.discard(task)

    async def close(self) -> None:
        """Wait for what is under way; whoever called has hung up."""
        async with asyncio.timeout(SECONDS):
            while self._tasks:
                await asyncio.wait(self._tasks)


async def _first(source: asyncio.StreamReader) -> None:
    with suppress(OSError):
        await source.read(1)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()


@asynccontextmanager
async def dropping(port: int) -> AsyncIterator[tuple[Dropping, str]]:
    """Such a thing in front of the homeserver, and its address."""
    made = Dropping(port)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    async with server:
        yield made, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await made.close()


@pytest.mark.acceptance("G5")
@pytest.mark.case("B025", "B024")
async def test_what_was_taken_and_never_answered_is_said_once(
    line: Line, people: People, synapse: Homeserver
) -> None:
    """The homeserver takes it, and twice the connection is lost before its answer."""
    async with dropping(synapse.port) as (proxy, api), AsyncExitStack() as stack:
        stack.push_async_callback(line.rest)
        ada, room, where = await meeting(line, people, synapse, api=api)
        # Nobody listens, so no echo settles it before it is said again.
        await line.rest()
        line.work(listening=False)
        proxy.drops = 2

        done = await line.settled(await line.says(where, "exactly once"))
        await line.rest()
        line.work()
        await ada.says(room, "seen")
        found = await line.hears(where, "seen")

    assert done.state is DeliveryState.DELIVERED
    assert proxy.dropped == 2
    assert synapse.bodies(ada.token, room) == ["exactly once", "seen"]
    assert said(found) == ["exactly once", "seen"]
    [ours] = [one for one in found if one.text == "exactly once"]
    assert ours.source_session_id == "agent"


@pytest.mark.acceptance("B2", "B13")
async def test_an_answer_that_is_handed_on_twice_is_recorded_once(
    line: Line, people: People, bot: Bot
) -> None:
    """As after a death between the records and the cursor."""
    ada = await people("ada")
    room = await ada.room(bot.user)
    root = await ada.says(room, "root")
    await ada.says(room, "below", thread=root)
    await ada.says(room, "root!", edits=root)
    await ada.reacts(room, root, "+1")
    gone = await ada.says(room, "gone")
    await ada.redacts(room, gone)
    await bot.hears(await ada.says(room, "end"))
    requests = [request for batch in bot.batches for request in batch.requests]

    first = await line.tl.hearing.requests(bot.account, bot.dialect, requests)
    again = await line.tl.hearing.requests(bot.account, bot.dialect, requests)

    assert first.recorded >= 7
    assert (again.recorded, again.duplicates) == (0, first.recorded + first.duplicates)


@pytest.mark.acceptance("C1")
async def test_what_was_said_before_the_agent_came_is_there(
    line: Line, people: People, synapse: Homeserver
) -> None:
    ada = await people("ada")
    _, token = synapse.register("bot")
    user = await line.connect(synapse.url, token)
    line.work()
    room = await ada.room()
    where = ConversationRef("matrix", user, room)
    root = await ada.says(room, "old 0")
    await ada.says(room, "old 1")
    await ada.says(room, "old below", thread=root)
    await line.until(where, lambda rows: True)
    await ada.invites(room, user)
    await line.until(where, lambda rows: any(one.actor.is_self for one in rows))
    await ada.says(room, "new")
    await line.hears(where, "new")

    told = await line.tl.histories.hydrate(where)
    again = await line.tl.histories.hydrate(where)
    found = await records(line.tl, where)
    thread = ConversationRef("matrix", user, root, parent_conversation_id=room)

    assert (told.partial, again.total) == ("", 0)
    assert said(found) == ["old 0", "old 1", "new"]
    assert "old below" in said(await records(line.tl, thread))
    assert [one.sequence for one in found] == sorted(one.sequence for one in found)


@asynccontextmanager
async def serving(tl: Threadline, port: int) -> AsyncIterator[None]:
    """A server in this process at a port that others were told of."""
    settings = ServerSettings(port=port)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen()
        started = asyncio.Event()
        server = Server(make_app(tl, settings=settings), settings, started.set)
        task = asyncio.create_task(server._serve([sock]))
        await asyncio.wait_for(started.wait(), SERVER_SECONDS)
        try:
            yield
        finally:
            server.should_exit = True
            await task


@pytest.mark.acceptance("A8")
async def test_a_homeserver_pushes_to_an_application_service_and_nobody_else_may(
    line: Line, people: People, synapse: Homeserver
) -> None:
    user = await line.connect(synapse.url, AS_TOKEN, hs_token=HS_TOKEN)
    ada = await people("ada")
    forged = {"events": [{"type": "m.room.message", "room_id": "!x", "event_id": "$f"}]}
    url = f"http://127.0.0.1:{synapse.push_port}/v1/webhooks/matrix/pushed"
    path = f"{url}/_matrix/app/v1/transactions/1"
    async with serving(line.tl, synapse.push_port):
        room = await ada.room(user)
        where = ConversationRef("matrix", user, room)
        await line.until(where, lambda rows: any(one.event is Event.MEMBER for one in rows))
        head = {"authorization": f"Bearer {AS_TOKEN}"}
        join = f"/_matrix/client/v3/rooms/{room}/join"
        await asyncio.to_thread(synapse.web.post, join, headers=head, json={})
        await line.tl.speakers.bind(where, "agent")
        await ada.says(room, "pushed")
        await line.hears(where, "pushed")
        done = await line.settled(await line.says(where, "and answered"))
        await ada.says(room, "thanks")
        found = await line.hears(where, "thanks")
        refused = [
            await asyncio.to_thread(synapse.web.put, path, json=forged, headers=one)
            for one in ({}, {"authorization": f"Bearer {HS_TOKEN}x"})
        ]

    assert user == f"@{PUSHED}:localhost"
    assert said(found) == ["pushed", "and answered", "thanks"]
    assert done.message_ids == tuple(one.message_id for one in found if one.text == "and answered")
    assert [one.status_code for one in refused] == [401, 401]
