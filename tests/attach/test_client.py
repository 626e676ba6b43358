"""`threadline.client.Session`: what a program in Python hears and says, whatever the connection."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import httpx
import pytest

from tests.attach.conftest import Office, Room
from tests.http.conftest import LOBBY, SECONDS, Site, message
from threadline.client import Record, Session
from threadline.core.errors import (
    ConfigError,
    IdempotencyConflict,
    NotFound,
    ServerUnreachable,
    Unauthenticated,
    Unauthorized,
)

pytestmark = pytest.mark.acceptance("L4")


@pytest.fixture
async def token(site: Site) -> str:
    """The token of `helper`, whose room the lobby is."""
    boss = await site.controller()
    room = (await boss.post("/v1/conversations", json=LOBBY)).json()["id"]
    bound = await boss.put(f"/v1/conversations/{room}/binding", json={"session_id": "helper"})
    assert bound.status_code == 200, bound.text
    made = await site.line.tokens.create("session", session="helper")
    return made.token or ""


async def say(site: Site, *texts: str) -> None:
    """Somebody says something in the lobby."""
    boss = await site.controller()
    [room] = (await boss.get("/v1/conversations")).json()["conversations"]
    for text in texts:
        path = f"/v1/conversations/{room['id']}/transcript"
        assert (await boss.post(path, json=message(text))).status_code == 200


async def texts(site: Site) -> list[str]:
    """The transcript of the lobby."""
    page = await site.line.conversations.transcript("web/office/lobby", limit=500)
    return [record.text for record in page.records]


async def test_five_lines_are_an_agent(site: Site, token: str) -> None:
    """Each record is answered once, and acknowledged when the next is asked for."""
    await say(site, "one", "two\u2028and a half", "three")
    heard: list[Record] = []

    async with Session(site.url, token) as session, aclosing(session.inbox()) as inbox:
        async for record in inbox:
            heard.append(record)
            await session.reply(record, f"You said: {record.text}")
            if len(heard) == 3:
                break

    assert [one.text for one in heard] == ["one", "two\u2028and a half", "three"]
    assert (heard[0].actor.name, str(heard[0].ref), heard[0].speaker) == (
        "Ada",
        "web/office/lobby",
        True,
    )
    assert (await texts(site))[3:] == [f"You said: {one.text}" for one in heard]
    member = await site.line.members.show("web/office/lobby", "helper")
    assert member.last_read == 2


async def test_an_answer_to_the_same_record_is_said_once_whatever_its_words(
    site: Site, token: str
) -> None:
    """Who wants to say more names a key; then other words under it are a conflict."""
    await say(site, "one")

    async with Session(site.url, token) as session:
        async with aclosing(session.inbox()) as inbox:
            record = await anext(inbox)
        first = await session.reply(record, "Hello")
        same = await session.reply(record, "Hello")
        other = await session.reply(record, "Good day")
        await session.reply(record, "And more", key="more")
        with pytest.raises(IdempotencyConflict):
            await session.reply(record, "Something else", key="more")
        await session.say(record.conversation, "By the way")
        await session.say(record.conversation, "By the way")

    assert (first.state, first.repeated) == ("delivered", False)
    assert (same.id, same.repeated) == (other.id, other.repeated) == (first.id, True)
    assert (await texts(site))[1:] == ["Hello", "And more", "By the way", "By the way"]


async def test_what_is_not_for_the_session_to_answer_is_passed_over_and_read(
    site: Site, token: str
) -> None:
    """By default; with `every` it is handed on as well."""
    room = (await site.line.conversations.show("web/office/lobby")).id
    reader = (await site.line.tokens.create("session", session="reader")).token or ""
    await site.line.members.join(room, "reader")
    await say(site, "one", "two")
    boss = await site.controller()

    async with Session(site.url, reader) as session:
        async with aclosing(session.inbox(every=True, acknowledge=False)) as inbox:
            assert [(await anext(inbox)).text for _ in range(2)] == ["one", "two"]
        async with aclosing(session.inbox()) as inbox:
            coming = asyncio.ensure_future(anext(inbox))
            async with asyncio.timeout(SECONDS):
                while (await site.line.members.show(room, "reader")).last_read != 2:
                    await boss.get("/health")
            await site.line.conversations.ensure("web/office/annex")
            await site.line.speakers.bind("web/office/annex", "reader")
            annex = (await site.line.conversations.show("web/office/annex")).id
            await boss.post(f"/v1/conversations/{annex}/transcript", json=message("three"))
            assert (await coming).text == "three"


async def test_a_restart_of_the_server_neither_loses_nor_doubles(office: Office) -> None:
    """What was not acknowledged comes again, though not in the same iteration."""
    lobby = office.room("lobby")
    body = {"kind": "session", "session_id": "helper"}
    token = office.post("post", "/v1/tokens", body)["token"]
    heard: list[str] = []
    lobby.say("one", "two")

    async with Session(office.served.url, token) as session:
        inbox = session.inbox(acknowledge=False)
        async with aclosing(inbox) as records:
            heard += [(await anext(records)).text for _ in range(2)]
            coming = asyncio.ensure_future(anext(records))
            office.served.kill()
            office.served.start()
            await asyncio.to_thread(lobby.say, "three")
            heard.append((await coming).text)
            said = await session.say(lobby.id, "Well")
        async with aclosing(session.inbox()) as again:
            anew = [(await anext(again)).text for _ in range(3)]

    assert heard == anew == ["one", "two", "three"]
    assert said.state == "delivered"


async def test_a_call_waits_for_a_server_that_is_away(office: Office) -> None:
    """As long as its patience lasts, and it is made once."""
    lobby = office.room("lobby")
    token = office.served.token

    async with Session(office.served.url, token, session="helper") as session:
        office.served.kill()
        saying = asyncio.create_task(session.say(lobby.id, "Hello"))
        await asyncio.to_thread(office.served.start)
        assert (await saying).state == "delivered"
        assert replies(lobby) == ["Hello"]
    async with Session(office.served.url, token, session="helper", patience=0) as session:
        office.served.kill()
        with pytest.raises(ServerUnreachable, match="threadline serve"):
            await session.say(lobby.id, "Hello")


def replies(room: Room) -> list[str]:
    """What was said by sessions."""
    return room.replies


async def test_a_refusal_is_the_error_it_is_in_the_library(site: Site, token: str) -> None:
    """With its sentence once, and its facts."""
    room = (await site.line.conversations.show("web/office/lobby")).id
    reader = (await site.line.tokens.create("session", session="reader")).token or ""
    await site.line.members.join(room, "reader")

    async with Session(site.url, reader) as session:
        with pytest.raises(Unauthorized) as refused:
            await session.say(room, "Hello")
        with pytest.raises(NotFound):
            await session.ack("nowhere", 1)

    with pytest.raises(Unauthorized) as known:
        await site.line.outbound.publish(room, "reader", "Hello")
    assert str(refused.value) == str(known.value)
    assert refused.value.facts == known.value.facts == {"session_id": "reader"}


async def test_a_revoked_token_ends_the_inbox(site: Site, token: str) -> None:
    """Instead of a silence for ever."""
    made = await site.line.tokens.create("session", session="helper")

    async with (
        Session(site.url, made.token or "") as session,
        aclosing(session.inbox()) as inbox,
    ):
        coming = asyncio.ensure_future(anext(inbox))
        await say(site, "one")
        await coming
        coming = asyncio.ensure_future(anext(inbox))
        await site.line.tokens.revoke(made.id)
        with pytest.raises(Unauthenticated):
            await coming


async def test_who_cannot_be_a_session_is_told_at_the_door(site: Site, token: str) -> None:
    """Before anything is read."""
    boss = (await site.line.tokens.create("controller")).token or ""
    adapter = await site.line.tokens.create("adapter", provider="web", account_id="office")

    for given, name, refusal in (
        (boss, None, ConfigError),
        (boss, "nobody", NotFound),
        (token, "other", ConfigError),
        (adapter.token or "", None, ConfigError),
        ("tl_s_unknown", None, Unauthenticated),
    ):
        with pytest.raises(refusal):
            async with Session(site.url, given, session=name):
                pass
    with pytest.raises(ServerUnreachable):
        async with Session("http://127.0.0.1:1", token):
            pass
    for url in ("127.0.0.1:8080", "ftp://host", "http://", ""):
        with pytest.raises(ConfigError):
            Session(url, token)


@pytest.mark.parametrize("kind", ["controller", "adapter", "session", "nobody"])
async def test_every_caller_may_ask_who_it_is(site: Site, token: str, kind: str) -> None:
    """And nobody else."""
    clients = {
        "controller": await site.controller(None),
        "adapter": await site.adapter(),
        "session": site.client(token),
        "nobody": site.client(),
    }
    session: dict[str, object] = {
        "session_id": "helper",
        "scopes": ["publish", "read"],
        "conversation_id": None,
        "scope_id": "default",
    }
    about: dict[str, dict[str, object]] = {
        "controller": {"scope_id": None, "human": False},
        "adapter": {"scope_id": "default", "provider": "web", "account_id": "office"},
        "session": session,
    }

    answer: httpx.Response = await clients[kind].get("/v1/me")

    if kind == "nobody":
        assert answer.status_code == 401
    else:
        assert answer.json() == {"kind": kind, **about[kind]}
