"""A Synapse for all tests of a process; people on a real Matrix client, and a bot of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any

import pytest
from mautrix.client import ClientAPI
from mautrix.types import (
    EventID,
    EventType,
    MessageType,
    RelatesTo,
    RelationType,
    RoomID,
    TextMessageEventContent,
    UserID,
)

from tests.conftest import Store
from threadline import Threadline
from threadline.adapters.matrix import Matrix
from threadline.core.adapters import Account
from threadline.core.model import ConversationRef, InboundMessage, TranscriptRecord
from threadline.core.wire import Batch
from threadline.testing.homeserver import Homeserver
from threadline.transports.matrix import MatrixTransport

SECONDS = 60


@pytest.fixture(scope="session")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Homeserver]:
    """The homeserver of this test process."""
    server = Homeserver(tmp_path_factory.mktemp("synapse"))
    server.start()
    yield server
    server.close()


class Person:
    """Somebody on a Matrix client that is not ours."""

    def __init__(self, server: Homeserver, user: str, token: str) -> None:
        self.user, self.token = user, token
        self.server = server
        self.client = ClientAPI(UserID(user), base_url=server.url, token=token)

    async def room(self, *others: str, direct: bool = False, **more: Any) -> str:
        """A new room these were invited to."""
        invited = [UserID(one) for one in others]
        return await self.client.create_room(invitees=invited, is_direct=direct, **more)

    async def says(self, room: str, text: str, **more: Any) -> str:
        """The event id of a text. `thread` and `reply_to` are event ids, `edits` one of one's own,
        `mentions` user ids."""
        content = TextMessageEventContent(msgtype=MessageType.TEXT, body=text)
        if root := more.get("thread"):
            content.set_thread_parent(root, more.get("last") or root)
        if answered := more.get("reply_to"):
            content.set_reply(answered)
        if edited := more.get("edits"):
            content.set_edit(edited)
        raw = content.serialize()
        if "mentions" in more:
            raw["m.mentions"] = {"user_ids": list(more["mentions"])}
        return await self.sends(room, "m.room.message", raw)

    async def sends(self, room: str, kind: str, content: dict[str, Any]) -> str:
        """The event id of any event."""
        event = EventType.find(kind, EventType.Class.MESSAGE)
        return str(await self.client.send_message_event(RoomID(room), event, content))  # type: ignore[arg-type]

    async def reacts(self, room: str, target: str, key: str) -> str:
        """The event id of a reaction."""
        related = RelatesTo(rel_type=RelationType.ANNOTATION, event_id=target, key=key)  # type: ignore[arg-type]
        return await self.sends(room, "m.reaction", {"m.relates_to": related.serialize()})

    async def enters(self, room: str) -> None:
        """Come in."""
        await self.client.join_room(RoomID(room))

    async def invites(self, room: str, user: str) -> None:
        """Ask somebody in."""
        await self.client.invite_user(RoomID(room), UserID(user))

    async def redacts(self, room: str, target: str, reason: str = "") -> None:
        """Take something back."""
        await self.client.redact(RoomID(room), EventID(target), reason=reason or None)

    async def close(self) -> None:
        """Close the client's connections."""
        await self.client.api.session.close()


People = Callable[..., Awaitable[Person]]


@pytest.fixture
async def people(synapse: Homeserver) -> AsyncIterator[People]:
    """Makes people: `ada = await people("ada")`."""
    async with AsyncExitStack() as stack:

        async def make(name: str, **more: Any) -> Person:
            person = Person(synapse, *synapse.register(name, **more))
            stack.push_async_callback(person.close)
            return person

        yield make


@dataclass
class Bot:
    """An account of ours: its dialect, its wire, and a listener read by hand."""

    account: Account
    token: str
    wire: MatrixTransport
    cursor: str | None = None
    batches: list[Batch] = field(default_factory=list)

    @property
    def dialect(self) -> Matrix:
        """What it speaks."""
        return Matrix(self.account)

    @property
    def user(self) -> str:
        """Its id."""
        return self.account.account_id

    async def hears(self, *ids: str) -> list[InboundMessage]:
        """Listen until all of these ids were heard; all that came, in order."""
        found: list[InboundMessage] = []
        async with asyncio.timeout(SECONDS), aclosing(self.listen()) as batches:
            async for batch in batches:
                self.cursor = batch.cursor
                self.batches.append(batch)
                for request in batch.requests:
                    found += self.dialect.parse(request).messages
                if {*ids} <= {one.message_id for one in found}:
                    return found
        raise AssertionError("the listener ended")

    def listen(self) -> Any:
        """Where it stopped."""
        return self.wire.listen(self.account, self.cursor)

    async def call(self, call: Any) -> Any:
        """The homeserver's answer."""
        return await self.wire.perform(call)


@pytest.fixture
async def wire() -> AsyncIterator[MatrixTransport]:
    """A wire that may reach this machine."""
    made = MatrixTransport(allow_private=True)
    yield made
    await made.close()


def account_of(server: Homeserver, user: str, token: str, **settings: Any) -> Account:
    """A connected account."""
    return Account(
        scope_id="default",
        provider="matrix",
        account_id=user,
        credentials={"access_token": token},
        settings={"api": server.url, "join": "invites", **settings},
    )


@pytest.fixture
async def bot(synapse: Homeserver, wire: MatrixTransport) -> Bot:
    """A bot that enters rooms it is invited to and has heard nothing yet."""
    user, token = synapse.register("bot")
    made = Bot(account_of(synapse, user, token), token, wire)
    await made.hears()
    return made


@pytest.fixture
async def tl(store: Store) -> AsyncIterator[Threadline]:
    """A line that may reach this machine, once on each engine."""
    line = Threadline(store, allow_private=True)
    yield line
    await line.outbox.close()


async def records(line: Threadline, where: ConversationRef) -> list[TranscriptRecord]:
    """All records of a short transcript."""
    return (await line.conversations.transcript(where, limit=500)).records
