"""The dialect's calls, performed: threads, direct messages, files, the past, interactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.discord.conftest import ref
from tests.discord.frames import ACCOUNT, said
from tests.http.conftest import running
from threadline import Threadline
from threadline.adapters.discord import Discord
from threadline.core.errors import CallbackFailed
from threadline.core.model import Attachment, ConversationRef, Event, History, Kind
from threadline.core.wire import ApiCall, Refused
from threadline.testing.simulation import Simulation
from threadline.transports.discord import DiscordTransport


@pytest.fixture
async def wire() -> AsyncIterator[DiscordTransport]:
    """What performs calls."""
    made = DiscordTransport(allow_private=True)
    yield made
    await made.close()


@pytest.fixture
def dialect(discord: Simulation) -> Discord:
    """The bot's dialect for the simulator."""
    credentials = {"token": discord.credentials["token"]}
    settings = {"api": f"{discord.url}/api/v10"}
    return Discord(replace(ACCOUNT, credentials=credentials, settings=settings))


async def test_a_thread_is_opened_below_its_room_and_found_again(
    line: Threadline, discord: Simulation, room: dict[str, Any]
) -> None:
    root = discord.do("say", text="Lunch?", channel=room["id"])["id"]
    await line.conversations.ensure(ref(room["id"]))

    made = await line.adapters.open_child(ref(room["id"]), root=root, title="Lunch")
    again = await line.adapters.open_child(ref(room["id"]), root=root, title="Lunch")
    free = await line.adapters.open_child(ref(room["id"]), title="Elsewhere")

    assert made.ref == again.ref == ref(root)
    assert (made.kind, made.parent is not None) == (Kind.THREAD, True)
    threads = discord.effects("thread", place=room["id"])
    assert [(it["text"], it["root"]) for it in threads] == [("Lunch", root), ("Elsewhere", None)]
    assert free.ref.conversation_id == threads[1]["id"]
    with pytest.raises(CallbackFailed, match="Unknown Message"):
        await line.adapters.open_child(ref(room["id"]), root="404", title="Nowhere")


async def test_a_person_has_one_direct_message(
    discord: Simulation, wire: DiscordTransport, dialect: Discord
) -> None:
    direct = discord.do("dm", user="ada")
    address = direct["recipients"][0]["id"]
    call = dialect.open_direct(address, "key")
    opened = dialect.read_direct(address, call, await wire.perform(call))
    nobody = dialect.open_direct("404", "key")

    assert opened == ref(direct["id"])
    assert isinstance(opened, ConversationRef)
    assert opened.kind is Kind.DM
    refused = dialect.read_direct("404", nobody, await wire.perform(nobody))
    assert isinstance(refused, Refused)


async def test_a_file_is_fetched_and_an_expired_link_renewed(
    discord: Simulation, wire: DiscordTransport, dialect: Discord, room: dict[str, Any]
) -> None:
    [file] = discord.do("say", channel=room["id"], file="notes.txt")["attachments"]
    old = file["url"].partition("?")[0] + "?ex=1"

    async def fetched(url: str) -> object:
        attachment = Attachment(url=url)
        step: object = dialect.file(attachment)
        while isinstance(step, ApiCall):
            step = dialect.read_file(attachment, step, await wire.perform(step))
        return step

    assert await fetched(file["url"]) == b"notes.txt"
    assert await fetched(old) == b"notes.txt"
    assert isinstance(await fetched(f"{discord.url}/elsewhere"), Refused)


async def test_the_past_is_imported_with_its_threads(
    line: Threadline, discord: Simulation, room: dict[str, Any]
) -> None:
    """More than a page of it, and large ones."""
    where = room["id"]
    ids = [discord.do("say", text=f"{n} " + "x" * 900, channel=where)["id"] for n in range(120)]
    discord.do("thread", channel=where, message=ids[7])
    discord.do("say", text="below", channel=ids[7])
    await line.conversations.ensure(ref(where))

    told = await line.histories.hydrate(ref(where))
    again = await line.histories.hydrate(ref(where))
    page = await line.conversations.transcript(ref(where), limit=500)

    assert (told.written, told.partial, again.written) == (120, "", 0)
    assert [it.message_id for it in page.records] == ids
    assert page.history is History.COMPLETE
    [thread] = told.children
    assert (thread.conversation, thread.written) == (ref(ids[7]), 1)
    below = (await line.conversations.transcript(ref(ids[7]), limit=10)).records
    assert [it.text for it in below] == ["below"]


async def test_a_past_that_is_kept_from_us_is_partial_and_says_so(
    line: Threadline, discord: Simulation, room: dict[str, Any]
) -> None:
    await line.conversations.ensure(ref(room["id"]))
    body = {"message": "Missing Access", "code": 50001}
    discord.fault("answer", on="GET messages", status=403, body=body)

    told = await line.histories.hydrate(ref(room["id"]))

    assert told.partial == "Missing Access (HTTP 403, code 50001)"


async def test_interactions_are_answered_once_their_signature_holds(
    line: Threadline, discord: Simulation
) -> None:
    """Discord probes with a bad signature, and takes away an endpoint that lets it in."""
    async with running(line) as site:
        url = f"{site.url}/v1/webhooks/discord/700"
        for kind in (1, 3):
            discord.do("interact", url=url, kind=kind)
        discord.do("interact", url=url, kind=1, forged=True)
        settled = await asyncio.to_thread(discord.idle)

    answers = [it["text"] for it in discord.effects("interaction")]
    assert sorted(answers) == ['{"type":1}', '{"type":6}']
    tried = {(it["what"]["_forged"], it["state"], it["error"]) for it in settled if it["url"]}
    assert tried == {(False, "done", ""), (True, "given_up", "HTTP 401")}


async def test_a_thread_learns_late_where_it_hangs(
    line: Threadline, discord: Simulation, dialect: Discord, room: dict[str, Any]
) -> None:
    """Heard first without its room; from the first message on that names it, it belongs there."""
    place = ref(room["id"])
    await line.conversations.ensure(place)
    await line.speakers.bind(place, "agent")
    thread = ConversationRef("discord", "700", "4999", kind=Kind.THREAD)
    early, late = (message_in("4999", str(number)) for number in (1, 2))

    await line.hearing.messages(ACCOUNT, [early])
    before = await line.conversations.show(thread)
    await line.hearing.messages(ACCOUNT, [replace(late, parent=place)])
    after = await line.conversations.show(thread)
    records = (await line.conversations.transcript(thread, limit=10)).records

    assert before.parent is None
    assert after.parent == (await line.conversations.show(place)).id
    assert [it.target_session_id for it in records] == [None, "agent"]
    assert [it.event for it in records] == [Event.MESSAGE, Event.MESSAGE]


def message_in(thread: str, number: str) -> Any:
    """What the dialect hears of somebody in a thread."""
    return said(id=number, channel_id=thread, channel_type=11)
