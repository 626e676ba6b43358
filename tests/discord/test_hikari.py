"""The simulator is real: hikari, as it is installed, takes it for Discord."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import hikari
import pytest

from threadline.testing.simulation import Simulation

INTENTS = hikari.Intents.ALL_UNPRIVILEGED | hikari.Intents.MESSAGE_CONTENT


@pytest.fixture
async def rest(discord: Simulation) -> AsyncIterator[hikari.impl.RESTClientImpl]:
    """hikari's client of the REST API."""
    app = hikari.RESTApp(url=f"{discord.url}/api/v10", max_retries=0)
    await app.start()
    async with app.acquire(discord.credentials["token"], hikari.TokenType.BOT) as client:
        yield client
    await app.close()


@pytest.fixture
async def bot(discord: Simulation) -> AsyncIterator[tuple[hikari.GatewayBot, asyncio.Queue[Any]]]:
    """A bot of hikari that has started, and the events it hears."""
    made = hikari.GatewayBot(
        discord.credentials["token"],
        banner=None,
        logs=None,
        suppress_optimization_warning=True,
        intents=INTENTS,
        rest_url=f"{discord.url}/api/v10",
        auto_chunk_members=False,
    )
    heard: asyncio.Queue[Any] = asyncio.Queue()
    kinds: list[Any] = [
        *(hikari.MessageCreateEvent, hikari.MessageUpdateEvent, hikari.MessageDeleteEvent),
        *(hikari.ReactionAddEvent, hikari.GuildThreadCreateEvent, hikari.GuildAvailableEvent),
        *(hikari.ShardReadyEvent, hikari.ShardResumedEvent, hikari.GuildBulkMessageDeleteEvent),
    ]

    async def hear(event: hikari.Event) -> None:
        await heard.put(event)

    for kind in kinds:
        made.subscribe(kind, hear)
    await made.start(check_for_updates=False)
    assert isinstance(await heard.get(), hikari.ShardReadyEvent)
    assert isinstance(await heard.get(), hikari.GuildAvailableEvent)
    yield made, heard
    await made.close()


async def test_its_client_speaks_reads_and_opens(
    discord: Simulation, rest: hikari.impl.RESTClientImpl, room: dict[str, Any]
) -> None:
    channel = int(room["id"])
    me = await rest.fetch_my_user()
    application = await rest.fetch_application()
    first = await rest.create_message(channel, "one @everyone", nonce="n-1")
    same = await rest.create_message(channel, "one @everyone", nonce="n-1")
    answer = await rest.create_message(channel, "two", reply=first.id, mentions_reply=True)
    thread = await rest.create_message_thread(channel, first.id, "on it")
    ada = discord.do("say", text="I am here", channel=room["id"])["author"]
    direct = await rest.create_dm_channel(int(ada["id"]))
    listed = [it.content async for it in rest.fetch_messages(channel).limit(2)]

    assert (me.username, application.id, me.is_bot) == ("simbot", 700, True)
    assert first.id == same.id == thread.id
    assert answer.referenced_message is not None
    assert answer.referenced_message.id == first.id
    assert direct.recipient.username == "ada"
    assert listed == ["I am here", "two"]
    said = discord.effects("message", place=room["id"])
    assert [(it["text"], it["nonce"], it["pings"]) for it in said] == [
        ("one @everyone", "n-1", []),
        ("two", None, []),
    ]


async def test_its_client_is_refused_in_words_it_knows(
    discord: Simulation, rest: hikari.impl.RESTClientImpl, room: dict[str, Any]
) -> None:
    channel = int(room["id"])
    with pytest.raises(hikari.NotFoundError, match="Unknown Channel"):
        await rest.create_message(404, "hello")
    with pytest.raises(hikari.BadRequestError):
        await rest.create_message(channel, "x" * 2001)
    discord.do("close", channel=room["id"])
    with pytest.raises(hikari.ForbiddenError) as refused:
        await rest.create_message(channel, "hello")
    discord.do("close", channel=room["id"], code=0)
    discord.fault("rate_limit", wait=0.05)
    said = await rest.create_message(channel, "after a while")

    assert refused.value.code == 50007
    assert said.content == "after a while"


async def test_its_bot_hears_what_happens_and_resumes(
    discord: Simulation, bot: tuple[hikari.GatewayBot, asyncio.Queue[Any]], room: dict[str, Any]
) -> None:
    """Opcode 7 asks it to come again: it resumes, and what happened meanwhile is replayed."""
    made, heard = bot
    where = room["id"]
    first = discord.do("say", text="one", channel=where)["id"]
    discord.do("edit", channel=where, message=first, text="uno")
    discord.do("react", channel=where, message=first, emoji="👍")
    discord.do("thread", channel=where, message=first, name="on one")
    created, edited, reacted, thread, starter = [await heard.get() for _ in range(5)]

    assert (created.content, created.author.username) == ("one", "ada")
    assert edited.content == "uno"
    assert reacted.emoji_name == "👍"
    assert (thread.thread.id, thread.thread.parent_id) == (int(first), int(where))
    assert starter.message.type is hikari.MessageType.THREAD_STARTER_MESSAGE

    discord.do("reconnect")
    discord.do("delete", channel=where, messages=[first])
    discord.do("say", text="two", channel=where, user="bob")
    after = [await heard.get() for _ in range(3)]

    assert {type(it) for it in after} >= {hikari.ShardResumedEvent}
    assert [it.content for it in after if isinstance(it, hikari.MessageCreateEvent)] == ["two"]
    assert made.is_alive
