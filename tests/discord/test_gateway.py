"""The gateway's listener against the simulated one: sessions, resumes, gaps, who may come in."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Self

import pytest
from aiohttp import web

from tests.discord.frames import ACCOUNT
from threadline.adapters.discord import Discord
from threadline.core.adapters import Account
from threadline.core.errors import ConfigError, Unauthenticated
from threadline.core.wire import Batch, Lost, Unsent
from threadline.testing.simulation import Simulation
from threadline.transports.discord import DiscordTransport, Spot


@pytest.fixture
async def wire() -> AsyncIterator[DiscordTransport]:
    """What performs calls and listens."""
    made = DiscordTransport(allow_private=True)
    yield made
    await made.close()


@pytest.fixture
def account(discord: Simulation) -> Account:
    """The bot's account there."""
    api = f"{discord.url}/api/v10"
    return replace(
        ACCOUNT, credentials={"token": discord.credentials["token"]}, settings={"api": api}
    )


class Ear:
    """One listening: what came, by the names of its events, and where it stands."""

    def __init__(self, wire: DiscordTransport, account: Account, cursor: str | None = None) -> None:
        self.batches = wire.listen(account, cursor)
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.bodies: list[dict[str, Any]] = []
        self.gaps: list[bool] = []
        self.cursor = cursor

    def take(self, batch: Batch) -> None:
        """Write down what a batch brought."""
        for one in batch.requests:
            body = json.loads(one.body)
            self.bodies.append(body)
            self.heard.append((body["t"], body["d"]))
        self.gaps.append(batch.gap)
        self.cursor = batch.cursor

    async def until(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        """Listen until there are so many events of a name; what was to be resumed is resumed."""
        while len(found := [data for it, data in self.heard if it == name]) < count:
            assert name == "READY" or not any(self.gaps), "a new session"
            self.take(await anext(self.batches))
        return found

    async def rest(self, most: int = 100) -> None:
        """Listen until the connection ends by itself, or so many sessions were met."""
        async for batch in self.batches:
            self.take(batch)
            if self.names.count("READY") >= most:
                return

    @property
    def names(self) -> list[str]:
        """The events in their order."""
        return [name for name, _ in self.heard]

    async def __aenter__(self) -> Ear:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.batches.aclose()


async def test_a_new_session_hears_what_happens_from_then_on(
    discord: Simulation, wire: DiscordTransport, account: Account, room: dict[str, Any]
) -> None:
    """The first session of an account is no gap: its past is a matter of history."""
    discord.do("say", text="before", channel=room["id"])
    async with Ear(wire, account) as ear:
        await ear.until("GUILD_CREATE")
        discord.do("say", text="one", channel=room["id"])
        discord.do("say", text="two", channel=room["id"])
        said = await ear.until("MESSAGE_CREATE", 2)

        assert ear.names[:2] == ["READY", "GUILD_CREATE"]
        assert [it["content"] for it in said] == ["one", "two"]
        assert not any(ear.gaps)
        assert ear.cursor is not None
        assert json.loads(ear.cursor).keys() == {"session", "seq", "url"}


async def test_who_stops_and_comes_again_is_told_what_was_missed(
    discord: Simulation, wire: DiscordTransport, account: Account, room: dict[str, Any]
) -> None:
    """The session outlives the listening, so a restart is a resume, which is no gap."""
    async with Ear(wire, account) as ear:
        await ear.until("GUILD_CREATE")
    discord.do("say", text="meanwhile", channel=room["id"])
    async with Ear(wire, account, ear.cursor) as again:
        await again.until("RESUMED")

        assert again.names == ["MESSAGE_CREATE", "RESUMED"]
        assert not any(again.gaps)
        assert Spot.of(again.cursor) != Spot.of(ear.cursor)
        assert json.loads(again.cursor or "")["session"] == json.loads(ear.cursor or "")["session"]


async def test_a_sign_put_on_again_has_a_place_of_its_own(
    discord: Simulation, wire: DiscordTransport, account: Account, room: dict[str, Any]
) -> None:
    """Taken off in between it is another event; delivered twice in a row it is the same one."""
    async with Ear(wire, account) as ear:
        await ear.until("GUILD_CREATE")
        sign = {"channel": room["id"], "emoji": "👍"}
        sign["message"] = discord.do("say", text="hi", channel=room["id"])["id"]
        for remove in (False, False, True, False):
            discord.do("react", **sign, remove=remove)
        await ear.until("MESSAGE_REACTION_ADD", 3)
        places = [one["at"] for one in ear.bodies if one["t"].startswith("MESSAGE_REACTION_")]

    assert places[0] == places[1]
    assert len(set(places)) == 3


async def test_what_was_not_stored_is_told_again(
    discord: Simulation, wire: DiscordTransport, account: Account, room: dict[str, Any]
) -> None:
    """Whoever dies between hearing and storing resumes at what was stored."""
    async with Ear(wire, account) as ear:
        await ear.until("GUILD_CREATE")
        stored = ear.cursor
        discord.do("say", text="heard and lost", channel=room["id"])
        await ear.until("MESSAGE_CREATE")
    async with Ear(wire, account, stored) as again:
        [said] = await again.until("MESSAGE_CREATE")

        assert said["content"] == "heard and lost"


async def test_an_order_to_reconnect_ends_the_listening_and_loses_nothing(
    discord: Simulation, wire: DiscordTransport, account: Account, room: dict[str, Any]
) -> None:
    async with Ear(wire, account) as ear:
        await ear.until("GUILD_CREATE")
        discord.do("reconnect")
        await ear.rest()
    discord.do("say", text="meanwhile", channel=room["id"])
    async with Ear(wire, account, ear.cursor) as again:
        await again.until("RESUMED")

        assert "MESSAGE_CREATE" in again.names
        assert not any(again.gaps)


async def test_a_session_that_is_over_is_a_gap_everywhere(
    discord: Simulation, wire: DiscordTransport, account: Account, room: dict[str, Any]
) -> None:
    """What was said in between is not dispatched any more: history has to tell."""
    async with Ear(wire, account) as ear:
        await ear.until("GUILD_CREATE")
        discord.do("invalidate")
        await ear.rest()
    discord.do("say", text="lost", channel=room["id"])
    async with Ear(wire, account, ear.cursor) as again:
        await again.until("READY")

        assert again.names[0] == "READY"
        assert again.gaps[0] is True
        assert "MESSAGE_CREATE" not in again.names


async def test_a_session_that_ends_while_nobody_reads_is_a_gap_as_well(
    discord: Simulation, wire: DiscordTransport, account: Account, room: dict[str, Any]
) -> None:
    """The store may be slow; whether the new session is met by this listening or by the next."""
    async with Ear(wire, account) as ear:
        await ear.until("GUILD_CREATE")
        opened = discord.do("attended")["opened"]
        discord.do("invalidate")
        await asyncio.to_thread(discord.do, "attended", opened=opened + 1)
        await ear.rest(most=2)
    async with Ear(wire, account, ear.cursor) as again:
        await again.until("READY" if not any(ear.gaps) else "RESUMED")

        assert sum([*ear.gaps, *again.gaps]) == 1


async def test_a_cursor_that_says_nothing_is_a_gap_and_no_error(
    discord: Simulation, wire: DiscordTransport, account: Account
) -> None:
    async with Ear(wire, account, '{"session":1}') as ear:
        await ear.until("READY")

        assert ear.gaps == [True]


async def test_a_session_that_goes_on_where_nobody_may_call_is_over(
    wire: DiscordTransport, account: Account
) -> None:
    """The address to resume at is judged like the first one: our token would go there."""
    knocked: list[bytes] = []

    async def inside(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        knocked.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(inside, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        cursor = Spot("session", 5, f"ws://0.0.0.0:{port}").cursor
        async with Ear(wire, account, cursor) as ear:
            await ear.until("READY")

    assert (ear.gaps, knocked) == ([True], [])


async def test_a_gateway_that_does_not_answer_heartbeats_is_left(
    discord: Simulation, wire: DiscordTransport, account: Account
) -> None:
    discord.do("beat", millis=50, deaf=True)
    async with Ear(wire, account) as ear:
        await ear.rest()

        assert ear.names[0] == "READY"


async def test_a_thread_s_messages_say_where_it_hangs(
    discord: Simulation, wire: DiscordTransport, account: Account, room: dict[str, Any]
) -> None:
    """Known from the server's list, from its creation, or asked for: the messages do not tell."""
    old = discord.do("thread", channel=room["id"], name="old")["id"]
    async with Ear(wire, account) as ear:
        await ear.until("GUILD_CREATE")
        discord.do("say", text="old", channel=old)
        new = discord.do("thread", channel=room["id"], name="new")["id"]
        discord.do("say", text="new", channel=new)
        await ear.until("MESSAGE_CREATE", 2)
        known = discord.calls("GET channel")
    missed = discord.do("thread", channel=room["id"], name="missed")["id"]
    discord.do("say", text="missed", channel=missed)
    async with Ear(wire, account, ear.cursor) as again:
        await again.until("RESUMED")
        discord.do("say", text="old again", channel=old)
        await again.until("MESSAGE_CREATE", 2)

        said = [it for it in ear.bodies + again.bodies if it["t"] == "MESSAGE_CREATE"]
        assert [it["parent_id"] for it in said] == [room["id"]] * 4
        # A resume brings no list of the server's threads, so the old one has to be asked for.
        asked = [it["place"] for it in discord.calls("GET channel")]
        assert [asked.count(one) for one in (old, new, missed)] == [1, 0, 0]
        assert old not in [it["place"] for it in known]


async def test_a_thread_that_cannot_be_asked_for_is_heard_without_its_room(
    discord: Simulation, wire: DiscordTransport, account: Account, room: dict[str, Any]
) -> None:
    async with Ear(wire, account) as ear:
        await ear.until("GUILD_CREATE")
    thread = discord.do("thread", channel=room["id"])["id"]
    discord.do("say", text="hi", channel=thread)
    body = {"message": "Missing Access", "code": 50001}
    discord.fault("answer", on="GET channel", status=403, body=body)
    dialect = Discord(account)
    async with aclosing(wire.listen(account, _behind_one(ear.cursor))) as batches:
        async for batch in batches:
            heard = [it for one in batch.requests for it in dialect.parse(one).messages]
            if heard:
                break

    assert [(it.text, it.conversation.conversation_id) for it in heard] == [("hi", thread)]


def _behind_one(cursor: str | None) -> str | None:
    """The place behind the thread's creation, as it is after that event was stored."""
    spot = Spot.of(cursor)
    assert spot is not None
    return replace(spot, seq=spot.seq + 1).cursor


async def test_a_token_that_is_not_taken_needs_a_person(
    discord: Simulation, wire: DiscordTransport, account: Account
) -> None:
    wrong = replace(account, credentials={"token": "OTAw.wrong.token"})
    with pytest.raises(Unauthenticated):
        await anext(wire.listen(wrong, None))


async def test_a_missing_intent_is_named(
    discord: Simulation, wire: DiscordTransport, account: Account
) -> None:
    discord.do("content", allowed=False)
    with pytest.raises(ConfigError, match="Message Content Intent"):
        await anext(wire.listen(account, None))


async def test_the_last_session_of_the_day_is_not_overdrawn(
    discord: Simulation, wire: DiscordTransport, account: Account
) -> None:
    """Whoever identifies too often loses the bot's token."""
    discord.do("left", sessions=0)
    with pytest.raises(Unsent, match="no session may be started"):
        await anext(wire.listen(account, None))


async def test_a_gateway_that_cannot_be_reached_is_tried_again_later(
    discord: Simulation, wire: DiscordTransport, account: Account
) -> None:
    discord.fault("status", on="GET gateway bot", status=502)
    with pytest.raises(Unsent, match="HTTP 502"):
        await anext(wire.listen(account, None))
    nowhere = replace(account, settings={"api": "http://127.0.0.1:9/api"})
    with pytest.raises((Unsent, Lost)):
        await anext(wire.listen(nowhere, None))


async def test_the_gateway_s_address_is_judged_before_it_is_called(
    discord: Simulation, account: Account
) -> None:
    careful = DiscordTransport(allow_private=False)
    with pytest.raises(Unsent, match="may not be called"):
        await anext(careful.listen(account, None))
    await careful.close()


class Gate:
    """A gateway that sends a bot elsewhere: by a redirect, or by what READY names before it asks
    for a new connection."""

    def __init__(self, *, redirect: str = "", resume: str = "") -> None:
        self._redirect, self._resume = redirect, resume
        self.tokens: list[str] = []
        self.asked = asyncio.Event()

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/api/v10/gateway/bot", self._where)
        app.router.add_get("/", self._talk)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _where(self, _: web.Request) -> web.Response:
        return web.json_response({"url": f"ws://127.0.0.1:{self.port}"})

    async def _talk(self, request: web.Request) -> web.StreamResponse:
        self.asked.set()
        if self._redirect:
            raise web.HTTPFound(self._redirect)
        socket, squeeze = web.WebSocketResponse(), zlib.compressobj()
        await socket.prepare(request)

        async def say(what: dict[str, Any]) -> None:
            data = squeeze.compress(json.dumps(what).encode())
            await socket.send_bytes(data + squeeze.flush(zlib.Z_SYNC_FLUSH))

        await say({"op": 10, "d": {"heartbeat_interval": 45_000}})
        async for frame in socket:
            said = json.loads(frame.data)
            if said["op"] == 1:
                continue
            self.tokens.append(said["d"]["token"])
            ready = {"session_id": "s", "resume_gateway_url": self._resume, "guilds": [], "v": 10}
            user = {"id": "1", "username": "bot", "discriminator": "0"}
            await say({"op": 0, "t": "READY", "s": 1, "d": {**ready, "user": user}})
            await say({"op": 7, "d": None})
        return socket


async def test_our_token_is_said_nowhere_a_redirect_leads(
    wire: DiscordTransport, account: Account
) -> None:
    async with Gate() as inside, Gate(redirect=f"http://127.0.0.1:{inside.port}/") as gate:
        asked = replace(account, settings={"api": f"http://127.0.0.1:{gate.port}/api/v10"})
        with pytest.raises(Lost):
            await anext(wire.listen(asked, None))

        assert inside.asked.is_set()
        assert inside.tokens == []


async def test_a_connection_that_is_over_is_not_made_again_while_its_last_words_wait(
    wire: DiscordTransport, account: Account
) -> None:
    """The address it would be made to is judged by the next listening."""
    async with Gate() as inside, Gate(resume=f"ws://127.0.0.1:{inside.port}/") as gate:
        asked = replace(account, settings={"api": f"http://127.0.0.1:{gate.port}/api/v10"})
        async with aclosing(wire.listen(asked, None)) as batches:
            await anext(batches)
            [shard] = [it for it in asyncio.all_tasks() if "_keep_alive" in repr(it.get_coro())]
            again = asyncio.create_task(inside.asked.wait())
            await asyncio.wait({shard, again}, return_when=asyncio.FIRST_COMPLETED)
            again.cancel()

            assert shard.done()
            assert [it async for it in batches] == []
        assert gate.tokens == [account.credentials["token"]]
        assert not inside.asked.is_set()
