"""Files that are said: given first, carried where the platform takes them, said once."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import Store
from tests.files.conftest import KIB, PICTURE
from tests.http.conftest import problem, running
from tests.http.guests import came_in, link
from threadline import Threadline
from threadline.adapters.http import Http
from threadline.core.adapters import Account
from threadline.core.deliveries import DeliveryState, Failure
from threadline.core.errors import (
    Conflict,
    FileGone,
    FileNotCarried,
    FilesFull,
    FileTooLarge,
    IdempotencyConflict,
    InvalidInput,
    NotFound,
    Unauthorized,
)
from threadline.core.files import Bounds, pinned
from threadline.core.model import (
    Actor,
    Attachment,
    ConversationRef,
    Event,
    InboundMessage,
    SessionCaller,
)
from threadline.core.uploads import link_of
from threadline.core.wire import ApiResponse, Doubt, Refused
from threadline.flows.statuses import DeliveryStatus
from threadline.flows.uploads import RecordFile
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation

LOBBY = "web/office/lobby"
PEOPLE = itertools.count(20_000)
AGENT = SessionCaller("agent", scopes=frozenset({"read", "publish"}))
OTHER = SessionCaller("other", scopes=frozenset({"read", "publish"}))


@pytest.fixture
async def line(store: Store, tmp_path: Path) -> AsyncIterator[Threadline]:
    """A line whose files are in a folder of the test, with a room where `agent` speaks."""
    bounds = Bounds(file=256 * KIB, given=512 * KIB, folder=str(tmp_path / "files"))
    made = Threadline(store, allow_private=True, files=bounds)
    await made.conversations.ensure(LOBBY)
    await made.speakers.bind(LOBBY, "agent", policy="all")
    await made.members.join(LOBBY, "other", policy="all")
    yield made
    await made.outbox.close()


async def given(line: Threadline, content: bytes = PICTURE, **more: Any) -> Attachment:
    """A file the agent gave."""
    about = {"name": "cat.png", "type": "image/png", "session": "agent", **more}
    return (await line.uploads.give(content, **about)).attachment


async def place(line: Threadline, provider: str, api: str, known: dict[str, str], to: str) -> str:
    """A conversation of a connected account where `agent` speaks."""
    made = await line.accounts.connect(provider, {**known, "api": api})
    ref = ConversationRef(provider, made.state.account_id, to)
    await line.conversations.ensure(ref)
    await line.speakers.bind(ref, "agent", policy="all")
    return ref.text


async def said(line: Threadline, where: str, text: str = "", **more: Any) -> DeliveryStatus:
    """The agent says something, and all that is due leaves."""
    sent = await line.outbound.publish(where, "agent", text, **more)
    await line.outbox.round()
    return await line.deliveries.show(sent.id)


async def test_a_file_said_in_a_room_of_ours_is_read_there_and_leaves_with_its_record(
    line: Threadline, tmp_path: Path
) -> None:
    file = await given(line, name="../../cat.png")
    sent = await line.outbound.publish(LOBBY, "agent", "look", attachments=[file], caller=AGENT)
    assert sent.sequence is not None
    [record] = (await line.conversations.transcript(LOBBY)).records

    assert record.attachments == (
        Attachment(id=file.id, type="image/png", name="cat.png", size=len(PICTURE)),
    )
    assert await line.files.read(LOBBY, sent.sequence, caller=OTHER) == PICTURE
    assert await line.uploads.tidy() == 0
    await line.inbound.append(
        InboundMessage(
            conversation=record_ref(),
            actor=record.actor,
            event=Event.DELETE,
            revises=record.message_id,
            message_id="gone",
            signed=True,
        )
    )
    with pytest.raises(FileGone):
        await line.files.open(LOBBY, sent.sequence)
    assert (await line.upkeep.round()).files == 1
    assert list((tmp_path / "files" / "given" / "blobs").iterdir()) == []


def record_ref() -> ConversationRef:
    """The room."""
    return ConversationRef.parse(LOBBY)


@pytest.mark.case("B138")
async def test_only_its_owner_says_a_file_and_once(line: Threadline) -> None:
    file = await given(line)
    await line.speakers.participant(LOBBY, "other", "other", public=True)
    for session, attachment, error in (
        ("other", file, InvalidInput),
        ("agent", Attachment(id="file:0000000000001"), InvalidInput),
        ("agent", Attachment(id="file:../../etc/passwd"), InvalidInput),
        ("agent", Attachment(id="file:"), InvalidInput),
    ):
        with pytest.raises(error):
            await line.outbound.publish(LOBBY, session, "x", attachments=[attachment])
    with pytest.raises(InvalidInput):
        await line.outbound.publish(LOBBY, "agent", "x", attachments=[file, file])
    assert (await line.conversations.transcript(LOBBY)).records == []
    await line.outbound.publish(LOBBY, "agent", "x", attachments=[file])
    with pytest.raises(Conflict):
        await line.outbound.publish(LOBBY, "agent", "again", attachments=[file])
    # Who writes the id into a message of another room gets nothing by it.
    taken = await line.inbound.append(
        InboundMessage(
            conversation=ConversationRef.parse("web/office/cellar"),
            actor=Actor("eve", "Eve"),
            attachments=(file,),
        )
    )
    assert taken.record is not None
    with pytest.raises(FileGone):
        await line.files.open("web/office/cellar", taken.record.sequence)


async def test_the_same_key_says_a_file_once(line: Threadline) -> None:
    file, second = await given(line), await given(line)
    first = await line.outbound.publish(LOBBY, "agent", "x", attachments=[file], key="k")
    again = await line.outbound.publish(LOBBY, "agent", "x", attachments=[file], key="k")

    assert (again.id, again.repeated) == (first.id, True)
    with pytest.raises(IdempotencyConflict):
        await line.outbound.publish(LOBBY, "agent", "x", attachments=[second], key="k")
    assert len((await line.conversations.transcript(LOBBY)).records) == 1


async def test_a_file_of_a_record_is_said_elsewhere_by_who_reads_it(
    line: Threadline, telegram: Simulation
) -> None:
    chat = next(PEOPLE)
    where = await place(line, "telegram", telegram.url, telegram.credentials, str(chat))
    file = await given(line)
    sent = await line.outbound.publish(LOBBY, "agent", "look", attachments=[file])
    shared = RecordFile(conversation=LOBBY, sequence=sent.sequence or 0)
    telegram.do("chat", chat=chat)

    done = await said(line, where, "see", attachments=[shared], key="k")
    again = await line.outbound.publish(where, "agent", "see", attachments=[shared], key="k")
    assert (done.state, again.id) == (DeliveryState.DELIVERED, done.id)
    [effect] = [one for one in telegram.effects("message") if one["place"] == str(chat)]
    assert (effect["text"], effect["file"]["file_size"]) == ("see", len(PICTURE))
    with pytest.raises(NotFound):
        await line.outbound.publish(
            where, "agent", "x", attachments=[RecordFile(conversation="web/office/no", sequence=1)]
        )


async def test_what_is_given_is_bounded_and_waits_for_a_day(
    store: Store, clock: StillClock, tmp_path: Path
) -> None:
    bounds = Bounds(file=64 * KIB, given=100 * KIB, folder=str(tmp_path / "files"))
    line = Threadline(store, files=bounds)
    await line.conversations.ensure(LOBBY)
    await line.speakers.bind(LOBBY, "agent")
    blobs = tmp_path / "files" / "given" / "blobs"

    with pytest.raises(FileTooLarge):
        await given(line, b"x" * 65 * KIB)
    with pytest.raises(InvalidInput):
        await given(line, b"")
    with pytest.raises(Unauthorized):
        await line.uploads.give(b"x", caller=SessionCaller("agent", scopes=frozenset({"read"})))
    kept = await given(line, b"a" * 50 * KIB)
    await line.outbound.publish(LOBBY, "agent", "kept", attachments=[kept])
    await given(line, b"b" * 40 * KIB)
    with pytest.raises(FilesFull):
        await given(line, b"c" * 20 * KIB)
    assert len(list(blobs.iterdir())) == 2
    clock.move(hours=25)
    assert await line.uploads.tidy() == 1
    assert [one.read_bytes()[:1] for one in blobs.iterdir()] == [b"a"]
    await given(line, b"c" * 20 * KIB)


async def test_what_a_platform_has_makes_room_for_new_files(
    store: Store, tmp_path: Path, telegram: Simulation
) -> None:
    bounds = Bounds(file=64 * KIB, given=100 * KIB, folder=str(tmp_path / "files"))
    line = Threadline(store, allow_private=True, files=bounds)
    chat = next(PEOPLE)
    where = await place(line, "telegram", telegram.url, telegram.credentials, str(chat))
    telegram.do("chat", chat=chat)
    first = await given(line, b"a" * 60 * KIB, name="a.bin", type="")
    waiting = await line.outbound.publish(where, "agent", "a", attachments=[first])
    with pytest.raises(FilesFull):
        await given(line, b"b" * 60 * KIB)
    await line.outbox.round()
    record = (await line.deliveries.show(waiting.id)).sequence or 0
    assert await line.files.read(where, record) == b"a" * 60 * KIB

    await given(line, b"b" * 60 * KIB)
    with pytest.raises(FileGone):
        await line.files.open(where, record)
    await line.outbox.close()


async def test_telegram_gets_documents_and_photos_with_their_words(
    line: Threadline, telegram: Simulation
) -> None:
    chat = next(PEOPLE)
    telegram.do("chat", chat=chat)
    where = await place(line, "telegram", telegram.url, telegram.credentials, str(chat))
    photo = await said(line, where, "**look** <b>", attachments=[await given(line)])
    plain = await given(line, b"hello", name='naïve\r\n"x".txt', type="text/plain")
    document = await said(line, where, "", attachments=[plain])
    long = await said(line, where, "word " * 400, attachments=[await given(line)])

    found = [one for one in telegram.effects("message") if one["place"] == str(chat)]
    assert [one.state for one in (photo, document, long)] == [DeliveryState.DELIVERED] * 3
    assert [(one["text"], one.get("file", {}).get("as")) for one in found[:2]] == [
        ("look <b>", "photo"),
        ("", "document"),
    ]
    assert found[1]["file"]["file_name"] == "naïve_x_.txt"
    assert found[1]["file"]["mime_type"] == "text/plain"
    assert ["file" in one for one in found[2:]] == [True, False]
    assert "".join(one["text"] + " " for one in found[2:]).split() == ["word"] * 400
    assert len(long.message_ids) == 2
    record = (await line.conversations.transcript(where)).records[1]
    assert await line.files.read(where, record.sequence) == b"hello"
    with pytest.raises(FileNotCarried):
        await line.outbound.publish(
            where, "agent", "x", attachments=[await given(line), await given(line)]
        )


async def test_a_file_in_doubt_is_not_said_again_and_one_refused_is(
    line: Threadline, telegram: Simulation
) -> None:
    chat = next(PEOPLE)
    telegram.do("chat", chat=chat)
    where = await place(line, "telegram", telegram.url, telegram.credentials, str(chat))
    telegram.fault("drop", place=str(chat))
    lost = await said(line, where, "once", attachments=[await given(line)])
    telegram.calm()
    await line.outbox.round()

    assert lost.state is DeliveryState.UNCERTAIN
    found = [one for one in telegram.effects("message") if one["place"] == str(chat)]
    assert [one["text"] for one in found] == ["once"]


async def test_discord_gets_several_files_in_one_message(
    line: Threadline, discord: Simulation
) -> None:
    room = discord.do("channel")["id"]
    known = {"token": discord.credentials["token"]}
    where = await place(line, "discord", f"{discord.url}/api/v10", known, room)
    files = [await given(line), await given(line, b"hello", name="a b.txt", type="text/plain")]
    done = await said(line, where, "two", attachments=files)
    alone = await said(line, where, "", attachments=[await given(line)], reply_to=1)

    assert (done.state, alone.state) == (DeliveryState.DELIVERED, DeliveryState.DELIVERED)
    first, second = discord.effects("message", place=room)
    assert (first["text"], first["files"]) == (
        "two",
        [
            ["cat.png", "image/png", PICTURE.decode("latin-1")],
            ["a b.txt", "text/plain", "hello"],
        ],
    )
    assert (second["text"], len(second["files"])) == ("", 1)


@pytest.mark.acceptance("I5")
async def test_discord_gives_a_new_link_where_one_has_expired(
    line: Threadline, discord: Simulation
) -> None:
    room = discord.do("channel")["id"]
    known = {"token": discord.credentials["token"]}
    where = await place(line, "discord", f"{discord.url}/api/v10", known, room)
    old = f"{discord.url}/attachments/77/notes.txt?ex=1"
    taken = await line.inbound.append(
        InboundMessage(
            conversation=ConversationRef.parse(where),
            actor=Actor("ada"),
            attachments=(Attachment(id="77", name="notes.txt", url=old),),
        )
    )
    assert taken.record is not None

    assert await line.files.read(where, taken.record.sequence) == b"notes.txt"
    assert [one["route"] for one in discord.calls("POST refresh")][-1:] == ["POST refresh"]


async def test_whatsapp_takes_the_file_first_and_then_the_message(
    line: Threadline, meta: Simulation
) -> None:
    person = f"US.{next(PEOPLE)}"
    meta.do("say", text="hi", user_id=person, phone="")
    where = await place(line, "whatsapp", f"{meta.url}/v26.0", meta.credentials, person)
    picture = await said(line, where, "*look*", attachments=[await given(line)])
    sound = await given(line, b"tone", name="a.ogg", type="audio/ogg")
    spoken = await said(line, where, "listen", attachments=[sound])
    # The upload is lost on its way: nobody saw anything, so it is simply done again.
    meta.fault("drop", on="media")
    again = await line.outbound.publish(where, "agent", "once", attachments=[await given(line)])
    await line.outbox.round()
    waiting = await line.deliveries.show(again.id)

    found = [one for one in meta.effects("message") if one["place"] == person]
    assert [one.state for one in (picture, spoken)] == [DeliveryState.DELIVERED] * 2
    assert [(one["body"]["type"], one["text"]) for one in found] == [
        ("image", "*look*"),
        ("document", "listen"),
    ]
    assert found[0]["file"] == {"type": "image/png", "content": PICTURE.decode("latin-1")}
    assert (waiting.state, waiting.failure) == (DeliveryState.PENDING, Failure.TRANSIENT)
    meta.calm()


async def test_whatsapp_and_twilio_files_are_fetched_as_they_came(
    line: Threadline, meta: Simulation
) -> None:
    person = f"US.{next(PEOPLE)}"
    where = await place(line, "whatsapp", f"{meta.url}/v26.0", meta.credentials, person)
    media = meta.do("file", content="a photo")["media"]
    taken = await line.inbound.append(
        InboundMessage(
            conversation=ConversationRef.parse(where),
            actor=Actor("ann"),
            attachments=(Attachment(id=media, type="image/jpeg"),),
        )
    )
    assert taken.record is not None

    assert await line.files.read(where, taken.record.sequence) == b"a photo"


async def test_twilio_fetches_a_file_from_a_short_lived_address(
    line: Threadline, twilio: Simulation, clock: StillClock
) -> None:
    async with running(line) as site:
        phone = f"whatsapp:+1555{next(PEOPLE)}"
        twilio.do("say", text="hi", phone=phone.partition("+")[2].join(("+", "")))
        known = {**twilio.credentials, "public_url": site.url}
        where = await place(line, "twilio", twilio.url, known, phone)
        file = await given(line)
        sent = await line.outbound.publish(where, "agent", "look", attachments=[file])
        done = await line.outbound.settled(sent, patience=60)
        assert done.state is DeliveryState.DELIVERED
        [effect] = twilio.effects("message", place=phone, at_least=1)

        assert effect["fetched"] == [["image/png", PICTURE.decode("latin-1")]]
        [url] = effect["files"]
        assert url.startswith(site.url + "/v1/files/")
        stranger = site.client()
        assert (await stranger.get(url)).content == PICTURE
        for wrong in (
            url[:-1] + ("0" if url[-1] != "0" else "1"),
            url + "0",
            url.rpartition(".")[0],
        ):
            problem(await stranger.get(wrong), 404, "not_found")
        clock.move(minutes=16)
        problem(await stranger.get(url), 404, "not_found")


@pytest.mark.case("B138")
async def test_what_cannot_be_carried_is_refused_before_anything_is_written(
    line: Threadline, telegram: Simulation, twilio: Simulation, tmp_path: Path
) -> None:
    chat = next(PEOPLE)
    there = await place(line, "telegram", telegram.url, telegram.credentials, str(chat))
    known = {**twilio.credentials, "public_url": "https://bot.example.org"}
    sms = await place(line, "twilio", twilio.url, known, "whatsapp:+15550001")
    (tmp_path / "secret").write_text("secret")
    for where, attachment in (
        (there, Attachment(url="https://example.org/a.png")),
        (there, Attachment(id="/etc/passwd", name="../../x")),
        (there, Attachment(url=str(tmp_path / "secret"))),
        (sms, Attachment(url="http://127.0.0.1:9/secret")),
        (sms, Attachment(url="https://169.254.169.254/x")),
        (sms, Attachment(url="file:///etc/passwd")),
        (sms, Attachment(name="../../x")),
    ):
        with pytest.raises(FileNotCarried):
            await line.outbound.publish(where, "agent", "x", attachments=[attachment])
    assert (await line.deliveries.page()).deliveries == []


@pytest.mark.acceptance("L1")
async def test_a_file_is_given_and_said_over_http(line: Threadline) -> None:
    async with running(line) as site:
        agent, boss = await site.session("agent"), await site.controller()
        other = await site.session("other")
        room = (await line.conversations.show(LOBBY)).id
        large = b"x" * 256 * KIB
        made = await agent.post(
            "/v1/files",
            params={"name": "a\r\nb.png"},
            content=large,
            headers={"Content-Type": "image/png"},
        )
        assert made.status_code == 200, made.text
        told = made.json()
        assert (told["name"], told["type"], told["size"]) == ("ab.png", "image/png", len(large))
        body = {"session_id": "agent", "text": "look", "attachments": [{"id": told["id"]}]}
        sent = await agent.post(f"/v1/conversations/{room}/messages", json=body)
        assert sent.status_code == 202, sent.text
        at = sent.json()["sequence"]
        path = f"/v1/conversations/{room}/records/{at}/attachments/0"
        assert (await other.get(path)).content == large
        shared = {"conversation": room, "sequence": at}
        again = {"session_id": "agent", "text": "again", "attachments": [shared]}
        copied = await agent.post(f"/v1/conversations/{room}/messages", json=again)
        assert copied.status_code == 202, copied.text

        problem(await agent.post("/v1/files", content=b"x" * 257 * KIB), 413, "file_too_large")
        problem(await agent.post("/v1/files", content=b""), 400, "invalid_input")
        problem(await boss.post("/v1/files", content=b"x"), 400, "invalid_input")
        problem(
            await other.post("/v1/files", params={"session": "agent"}, content=b"x"),
            403,
            "unauthorized",
        )


async def test_a_guest_gives_a_file_and_everybody_in_the_room_has_it(line: Threadline) -> None:
    async with running(line) as site:
        boss, other = await site.controller(), await site.session("other")
        room = (await line.conversations.show(LOBBY)).id
        path = (await link(boss, room))["url_path"]
        ann, ben = await came_in(site, path, "Ann"), await came_in(site, path, "Ben")
        made = await ann.client.post("/chat/files", params={"name": "cat.png"}, content=PICTURE)
        assert made.status_code == 200, made.text
        file = made.json()["id"]

        problem(await ben.say("mine", files=[file]), 400, "invalid_input")
        said_ = await ann.say("look", files=[file])
        assert said_.status_code == 200, said_.text
        again = await ann.say("look", files=[file])
        assert again.json()["duplicate"]
        at = said_.json()["record"]["sequence"]
        assert (await ben.client.get(f"/chat/messages/{at}/attachments/0")).content == PICTURE
        assert (
            await other.get(f"/v1/conversations/{room}/records/{at}/attachments/0")
        ).content == PICTURE
        problem(await site.client().post("/chat/files", content=b"x"), 401, "unauthenticated")
        bare = httpx.AsyncClient(base_url=site.url, cookies=ann.client.cookies, verify=False)
        # A page elsewhere cannot make a browser give us files.
        problem(await bare.post("/chat/files", content=b"x"), 403, "csrf_mismatch")
        await bare.aclose()


async def test_a_guest_fills_no_more_than_its_share(line: Threadline) -> None:
    async with running(line) as site:
        boss = await site.controller()
        path = (await link(boss, (await line.conversations.show(LOBBY)).id))["url_path"]
        ann, ben = await came_in(site, path, "Ann"), await came_in(site, path, "Ben")
        for number in range(2):
            made = await ann.client.post("/chat/files", content=bytes([number]) * 25 * KIB)
            assert made.status_code == 200, made.text
        problem(await ann.client.post("/chat/files", content=b"x" * 25 * KIB), 507, "files_full")
        assert (await ben.client.post("/chat/files", content=b"x")).status_code == 200


async def test_the_same_bytes_under_a_key_are_the_same_file(line: Threadline) -> None:
    first = await given(line, key="report")
    again = await given(line, key="report")
    other = await given(line, b"other", key="report")

    assert first.id == again.id != other.id
    for _ in range(2):
        sent = await line.outbound.publish(LOBBY, "agent", "x", attachments=[first], key="k")
        assert (await given(line, key="report")).id == first.id
    assert await line.files.read(LOBBY, sent.sequence or 0) == PICTURE


def test_an_adapter_elsewhere_is_asked_for_bytes_at_its_callback_and_nowhere_else() -> None:
    account = Account(
        scope_id="default",
        provider="chat",
        account_id="A1",
        callback="https://chat.example.org/hooks",
        secret="whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ=",
    )
    dialect, file = Http(account), Attachment(id="F1", url="http://169.254.169.254/", size=10)
    call = dialect.file(file)

    assert pinned(call.url, dialect.hosts).target == "/hooks/file"
    assert (call.secret, call.most) == (account.secret, 10)
    assert json.loads(call.body)["attachment"]["id"] == "F1"
    assert dialect.read_file(file, call, ApiResponse(status=200, body=b"bytes")) == b"bytes"
    means = {404: Failure.NOT_FOUND, 410: Failure.NOT_FOUND, 403: Failure.AUTH}
    for status, failure in means.items():
        refused = dialect.read_file(file, call, ApiResponse(status=status))
        assert isinstance(refused, Refused)
        assert refused.failure is failure
    assert isinstance(dialect.read_file(file, call, ApiResponse(status=503)), Doubt)


async def test_a_file_larger_than_a_message_may_be_is_taken_in(
    store: Store, tmp_path: Path
) -> None:
    line = Threadline(store, files=Bounds(folder=str(tmp_path / "files")))
    await line.conversations.ensure(LOBBY)
    await line.speakers.bind(LOBBY, "agent")
    large = bytes(range(256)) * 36 * KIB
    async with running(line) as site:
        agent = await site.session("agent")
        made = await agent.post("/v1/files", content=large)
        assert made.status_code == 200, made.text
        sent = await line.outbound.publish(
            LOBBY, "agent", "", attachments=[Attachment(id=made.json()["id"])]
        )
        room = (await line.conversations.show(LOBBY)).id
        path = f"/v1/conversations/{room}/records/{sent.sequence}/attachments/0"
        assert (await agent.get(path)).content == large


async def test_bytes_that_a_death_left_without_an_owner_leave(
    line: Threadline, tmp_path: Path
) -> None:
    kept = await given(line)
    await line.outbound.publish(LOBBY, "agent", "x", attachments=[kept])
    line.uploads.cabinet.keep(link_of(77), io.BytesIO(b"orphan"))[1].close()
    blobs = tmp_path / "files" / "given" / "blobs"

    assert await line.uploads.tidy() == 0
    assert len(list(blobs.iterdir())) == 2
    assert await line.uploads.tidy() == 1
    assert [one.read_bytes() for one in blobs.iterdir()] == [PICTURE]


async def test_a_file_that_is_not_on_this_disk_is_not_said_without_it(
    line: Threadline, telegram: Simulation
) -> None:
    chat = next(PEOPLE)
    telegram.do("chat", chat=chat)
    where = await place(line, "telegram", telegram.url, telegram.credentials, str(chat))
    file = await given(line)
    line.uploads.cabinet.drop([one.key for one in line.uploads.cabinet.links()])
    waiting = await said(line, where, "with it", attachments=[file])

    assert (waiting.state, waiting.failure) == (DeliveryState.PENDING, Failure.TRANSIENT)
    assert "THREADLINE_FILES" in waiting.reason
    assert [one for one in telegram.effects("message") if one["place"] == str(chat)] == []
