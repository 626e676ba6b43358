"""Bytes on demand: who gets them, from where, once, and what is said where there are none."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Store
from tests.files.conftest import (
    ADA,
    BOUNDS,
    KIB,
    PICTURE,
    ROOM,
    TOKEN,
    Platform,
    Scene,
    http,
    scene_on,
    served,
)
from threadline import Threadline
from threadline.core.errors import (
    FileForbidden,
    FileGone,
    FileTooLarge,
    FileUnreachable,
    NoAdapter,
    NotFound,
    Unauthorized,
)
from threadline.core.model import (
    AdapterCaller,
    Attachment,
    Caller,
    InboundMessage,
    SessionCaller,
)
from threadline.core.wire import ApiCall, Unsent
from threadline.transports.http import HttpTransport


@pytest.mark.acceptance("I5")
async def test_the_bytes_come_from_the_platform_once_and_then_from_the_disk(scene: Scene) -> None:
    at = await scene.shares("/a/1", http(PICTURE), name="cat.png", type="image/png")

    assert await scene.line.files.read(ROOM, at) == PICTURE
    file = await scene.line.files.open(ROOM, at, 0)
    with file.content:
        assert file.content.read() == PICTURE
    assert (file.name, file.type, file.size) == ("cat.png", "image/png", len(PICTURE))
    assert file.sha256 == hashlib.sha256(PICTURE).hexdigest()
    assert scene.platform.paths() == ["/a/1"]


@pytest.mark.acceptance("I5")
async def test_what_many_ask_for_at_once_is_fetched_once(scene: Scene) -> None:
    asked, there = asyncio.Event(), asyncio.Event()

    async def slowly(writer: asyncio.StreamWriter) -> None:
        asked.set()
        await there.wait()
        writer.write(http(PICTURE))

    at = await scene.shares("/a/1", slowly)
    readers = [asyncio.create_task(scene.line.files.read(ROOM, at)) for _ in range(8)]
    await asked.wait()
    # Whoever asked first gives up; the others get it all the same.
    readers[0].cancel()
    there.set()
    found = await asyncio.gather(*readers, return_exceptions=True)

    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1:] == [PICTURE] * 7
    assert scene.platform.paths() == ["/a/1"]


@pytest.mark.acceptance("I5")
@pytest.mark.case("B100")
async def test_what_is_kept_is_named_by_its_hash_and_nobody_elses(scene: Scene) -> None:
    names = (
        *("../../keep.md", "..\\..\\x", "/etc/cron.d/x", "", ".", "CON", "x" * 300, "x/../../y"),
        "\u202egnp.exe",
    )
    before = set(scene.folder.parent.rglob("*"))
    for number, name in enumerate(names):
        at = await scene.shares(f"/a/{number}", http(PICTURE + bytes([number])), name=name)
        file = await scene.line.files.open(ROOM, at)
        file.content.close()
        [record] = (await scene.line.conversations.transcript(ROOM, after=at - 1)).records
        assert record.attachments[0].name == name

    made = {path for path in scene.folder.parent.rglob("*") if path.is_file()} - before
    made.remove(scene.folder / "lock")
    assert {path.parent.parent for path in made} == {scene.folder}
    assert all(set(path.name) <= set("0123456789abcdef") for path in made)
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}
    assert len(scene.kept()) == len(names)
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() == path.name for path in scene.kept())


async def test_what_was_not_asked_for_longest_makes_room(store: Store, tmp_path: Path) -> None:
    async with scene_on(store, tmp_path / "files", kept=64 * KIB) as scene:
        sizes = {}
        for number in range(4):
            body = bytes([number]) * 20 * KIB
            sizes[await scene.shares(f"/a/{number}", http(body))] = body
        first, second, third, fourth = sizes
        for at in (first, second, third):
            assert await scene.line.files.read(ROOM, at) == sizes[at]
        # Files of one instant are told apart by when they were asked for, not by a coarse clock.
        for age, path in enumerate(sorted(scene.kept(), key=lambda one: one.read_bytes()[:1])):
            os.utime(path, (1_000 + age, 1_000 + age))
        assert await scene.line.files.read(ROOM, first) == sizes[first]
        assert await scene.line.files.read(ROOM, fourth) == sizes[fourth]

        held = {path.read_bytes()[0] for path in scene.kept()}
        assert held >= {0, 3}
        assert 1 not in held
        assert sum(path.stat().st_size for path in scene.kept()) <= 64 * KIB
        assert await scene.line.files.read(ROOM, second) == sizes[second]
        assert scene.platform.paths().count("/a/1") == 2


async def test_another_process_finds_what_this_one_kept(store: Store, tmp_path: Path) -> None:
    async with scene_on(store, tmp_path / "files") as scene:
        at = await scene.shares("/a/1", http(PICTURE))
        await scene.line.files.read(ROOM, at)
        again = Threadline(
            store, allow_private=True, files=replace(BOUNDS, folder=str(scene.folder))
        )

        assert await again.files.read(ROOM, at) == PICTURE
        assert scene.platform.paths() == ["/a/1"]


@pytest.mark.acceptance("I5")
@pytest.mark.case("B067")
async def test_a_file_is_read_by_whoever_reads_its_record_and_by_nobody_else(scene: Scene) -> None:
    line = scene.line
    old = await scene.shares("/a/1", http(PICTURE))
    await line.members.join(ROOM, "all", policy="all")
    await line.members.join(ROOM, "late", policy="since_join")
    new = await scene.shares("/a/2", http(PICTURE))

    for session, at in (("all", old), ("all", new), ("late", new)):
        caller = SessionCaller(session, scopes=frozenset({"read"}))
        assert await line.files.read(ROOM, at, caller=caller) == PICTURE
    refused: list[tuple[Caller, type[Exception]]] = [
        (SessionCaller("late", scopes=frozenset({"read"})), NotFound),
        (SessionCaller("nobody", scopes=frozenset({"read"})), NotFound),
        (SessionCaller("all", scopes=frozenset({"publish"})), Unauthorized),
        (AdapterCaller("default", "discord", "700"), Unauthorized),
    ]
    for asker, error in refused:
        # Also what is on the disk already is read by right alone.
        with pytest.raises(error):
            await line.files.open(ROOM, old, caller=asker)
    for at, number in ((old, 1), (old, -1), (99, 0), (-(1 << 70), 0)):
        with pytest.raises(NotFound):
            await line.files.open(ROOM, at, number)


@pytest.mark.acceptance("I5")
async def test_a_deleted_message_has_no_files_and_what_was_kept_leaves(scene: Scene) -> None:
    line = scene.line
    at = await scene.shares("/a/1", http(PICTURE), name="a.png")
    other = await scene.shares("/a/2", http(PICTURE))
    last = await scene.shares("/a/3", http(b"alone"))
    texts = [await line.files.read(ROOM, one) for one in (at, other, last)]
    named = await scene.says(
        Attachment(id="x", url=scene.platform.url + "/a/1"), message_id="m1", text="named"
    )
    assert await line.files.read(ROOM, named) == texts[0]
    kept = len(scene.kept())
    await scene.deletes("m1")

    with pytest.raises(FileGone):
        await line.files.open(ROOM, named)
    assert (await line.upkeep.round()).files == 1
    # The same bytes came with another message, which is still there.
    assert len(scene.kept()) == kept
    assert await line.files.read(ROOM, at) == PICTURE


@pytest.mark.acceptance("I5")
async def test_the_only_copy_of_a_deleted_file_is_gone_from_the_disk(scene: Scene) -> None:
    line = scene.line
    scene.platform.answers["/a/1"] = http(PICTURE)
    url = scene.platform.url + "/a/1"
    at = await scene.says(Attachment(id="x", url=url), message_id="m1")
    await line.files.read(ROOM, at)
    assert len(scene.kept()) == 1
    await scene.deletes("m1")
    await line.upkeep.round()

    assert scene.kept() == []


@pytest.mark.acceptance("I5")
async def test_what_is_deleted_while_it_is_fetched_is_handed_to_nobody(scene: Scene) -> None:
    line = scene.line
    asked, go = asyncio.Event(), asyncio.Event()

    async def slowly(writer: asyncio.StreamWriter) -> None:
        asked.set()
        await go.wait()
        writer.write(http(PICTURE))

    scene.platform.answers["/a/1"] = slowly
    url = scene.platform.url + "/a/1"
    at = await scene.says(Attachment(id="x", url=url), message_id="m1")
    reading = asyncio.create_task(line.files.read(ROOM, at))
    await asked.wait()
    await scene.deletes("m1")
    go.set()

    with pytest.raises(FileGone):
        await reading
    await line.upkeep.round()
    assert scene.kept() == []


@pytest.mark.acceptance("I5")
async def test_each_way_of_having_no_file_has_its_own_name(scene: Scene) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
            await writer.drain()

    half = http(PICTURE, content_length=str(len(PICTURE) + 10))
    cases: list[tuple[Any, type[Exception]]] = [
        (http(b"no", "404 Not Found"), FileGone),
        (http(b"no", "410 Gone"), FileGone),
        (http(b"no", "401 Unauthorized"), FileForbidden),
        (http(b"no", "500 Broken"), FileUnreachable),
        (http(b"{}", "429 Too Many", retry_after="3"), FileUnreachable),
        (half, FileUnreachable),
        (http(b"x", content_length="999999999999"), FileTooLarge),
        (http(b"x" * 65 * KIB), FileTooLarge),
        (endless, FileTooLarge),
        (b"not http at all\r\n\r\n", FileUnreachable),
        (http(b"\x1f\x8b" + b"x" * 64, content_encoding="gzip"), FileUnreachable),
    ]
    for number, (answer, error) in enumerate(cases):
        at = await scene.shares(f"/a/{number}", answer)
        with pytest.raises(error) as raised:
            await scene.line.files.open(ROOM, at)
        assert scene.platform.url not in str(raised.value), number
        assert TOKEN not in str(raised.value)
    stated = await scene.shares("/a/big", http(PICTURE), size=10**9)
    with pytest.raises(FileTooLarge):
        await scene.line.files.open(ROOM, stated)
    assert "/a/big" not in scene.platform.paths()
    assert scene.kept() == []


async def test_a_platform_that_sleeps_is_waited_for_so_long(store: Store, tmp_path: Path) -> None:
    async def drips(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nx")
        await writer.drain()
        await asyncio.Event().wait()

    async with scene_on(store, tmp_path / "files", seconds=0.2) as scene:
        at = await scene.shares("/a/1", drips)
        with pytest.raises(FileUnreachable):
            await scene.line.files.open(ROOM, at)


@pytest.mark.acceptance("I5")
@pytest.mark.case("B138")
async def test_an_address_that_is_not_the_platforms_is_never_called(scene: Scene) -> None:
    async with served(Platform(answers={"/secret": http(b"secret")})) as other:
        for url in (
            other.url + "/secret",
            other.url.replace("127.0.0.1", "localhost") + "/secret",
            "http://169.254.169.254/latest/meta-data/",
            "http://[::1]/",
            "file:///etc/passwd",
            "/etc/passwd",
            scene.platform.url.replace("http://", "http://user@"),
            scene.platform.url + "@" + other.url.removeprefix("http://") + "/secret",
            "",
        ):
            at = await scene.says(Attachment(id="x", url=url))
            with pytest.raises(FileForbidden):
                await scene.line.files.open(ROOM, at)
        assert other.asked == []


@pytest.mark.acceptance("I5")
async def test_a_redirect_is_looked_at_at_each_hop(scene: Scene) -> None:
    async with served(Platform(answers={"/secret": http(b"secret")})) as other:
        for number, there in enumerate(
            (other.url + "/secret", "http://169.254.169.254/", "file:///etc/passwd", "//evil.test/")
        ):
            answer = http(b"", "302 Found", location=there)
            at = await scene.shares(f"/to/{number}", answer)
            with pytest.raises(FileForbidden):
                await scene.line.files.open(ROOM, at)
        assert other.asked == []
    scene.platform.answers["/there"] = http(PICTURE)
    at = await scene.shares("/to/here", http(b"", "307 Moved", location="/there"))
    assert await scene.line.files.read(ROOM, at) == PICTURE
    round_ = await scene.shares("/round", http(b"", "302 Found", location="/round"))
    with pytest.raises(FileUnreachable):
        await scene.line.files.open(ROOM, round_)
    assert scene.platform.paths().count("/round") <= 6


async def test_where_nothing_fetches_files_it_is_said(scene: Scene) -> None:
    for place in ("web/office/lobby", "slack/T1/C1"):
        ref = replace(ROOM, provider=place.split("/")[0])
        taken = await scene.line.inbound.append(
            InboundMessage(conversation=ref, actor=ADA, attachments=(Attachment(url="/x"),))
        )
        assert taken.record is not None
        with pytest.raises(NoAdapter):
            await scene.line.files.open(ref, taken.record.sequence)


async def test_a_name_that_changes_its_mind_is_judged_where_it_is_connected_to() -> None:
    """The first look-up is public, the second would be the cloud's metadata: there is no second,
    and a name that leads inside as well leads nowhere."""
    looked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        looked.append(host)
        return ["169.254.169.254", "93.184.216.34"]

    wire = HttpTransport(resolve=rebinding, patience=5)
    with pytest.raises(Unsent):
        await wire.perform(ApiCall(method="GET", url="https://cdn.discordapp.com/a"))
    assert looked == ["cdn.discordapp.com"]
    await wire.close()
