"""The hatch: a store of another process, for the same user and for nobody else."""

from __future__ import annotations

import asyncio
import os
import pickle
import stat
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import KEY, open_at
from threadline import Threadline
from threadline.core.errors import BindingConflict, NotFound, StoreUnavailable, ThreadlineError
from threadline.core.ports import Changes, Story
from threadline.flows.replay import Handed
from threadline.stores.hatch import MAX_BYTES, MAX_PATH, Hatch, HatchStore, hatch_of

LOBBY = "web/office/lobby"
SOMEBODY_ELSE = os.getuid() + 1


class Bomb:
    """Whoever unpickles it makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


class Broken(Story[None]):
    """A story with a defect."""

    def decide(self, loaded: Any, now: Any) -> tuple[Changes, None]:
        raise ZeroDivisionError


def framed(body: bytes) -> bytes:
    """A frame of the hatch."""
    return struct.pack(">Q", len(body)) + body


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[Path]:
    """A store with an open hatch."""
    store = await open_at(f"sqlite:{folder / 'a.db'}", KEY)
    path = hatch_of(folder / "a.db")
    hatch = Hatch(store, path, **options)
    await hatch.open()
    try:
        yield path
    finally:
        await hatch.close()
        await store.close()


async def said(path: Path, words: bytes, *, end: bool = True) -> bytes:
    """What the hatch answers to these bytes before it hangs up."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(words)
        if end:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 60)
    except (ConnectionError, OSError):
        return b""
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def works(path: Path) -> None:
    """The hatch serves."""
    line = Threadline(await HatchStore(path).connect())
    assert (await line.conversations.ensure(LOBBY)).head >= 0


async def test_everything_goes_through_it_and_errors_come_typed_with_their_facts(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as path:
        line = Threadline(await HatchStore(path).connect())
        room = await line.conversations.ensure(LOBBY)
        await line.speakers.bind(room.id, "coder", policy="all")
        with pytest.raises(BindingConflict) as refused:
            await line.speakers.bind(room.id, "other")
        with pytest.raises(NotFound):
            await line.conversations.show("web/office/none")
        sent = await line.outbound.publish(room.id, "coder", "hello")
        own = [
            item
            async for item in line.replay.follow("coder", own=True, once=True)
            if isinstance(item, Handed)
        ]
        async with HatchStore(path).check() as findings:
            assert [finding async for finding in findings] == []

    assert refused.value.code == "binding_conflict"
    assert refused.value.facts
    assert [item.record.sequence for item in own] == [sent.sequence]


async def test_a_defect_in_a_story_is_told_and_ends_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as path:
        store = await HatchStore(path).connect()
        with pytest.raises(ThreadlineError):
            await store.run(Broken())
        await works(path)


async def test_the_socket_is_its_users_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as path:
        mode = path.stat()
        assert stat.S_ISSOCK(mode.st_mode)
        assert stat.S_IMODE(mode.st_mode) == 0o600
        assert mode.st_uid == os.getuid()
    assert not path.exists()


async def test_another_user_is_hung_up_on_before_a_byte_is_unpickled(tmp_path: Path) -> None:
    """Who it is says the kernel, whatever the mode of the socket."""
    bomb = tmp_path / "bomb"
    async with opened(tmp_path, user=SOMEBODY_ELSE) as path:
        path.chmod(0o666)
        assert await said(path, framed(pickle.dumps(Bomb(bomb)))) == b""
        with pytest.raises(StoreUnavailable):
            await HatchStore(path).connect()
    assert not bomb.exists()


async def test_a_hatch_of_another_user_is_not_spoken_to(tmp_path: Path) -> None:
    """Neither is what it sends unpickled, nor is anything sent to it."""
    bomb, heard = tmp_path / "bomb", bytearray()
    path = tmp_path / "a.db.hatch"

    async def trap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(framed(pickle.dumps(("ok", Bomb(bomb)))))
        heard.extend(await reader.read())
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_unix_server(trap, path)
    async with server:
        with pytest.raises(StoreUnavailable, match="another user"):
            await HatchStore(path, user=SOMEBODY_ELSE).connect()
    assert not bomb.exists()
    assert not heard


async def test_the_check_would_notice_a_bomb(tmp_path: Path) -> None:
    """The two tests before this one can fail: for the same user it goes off."""
    bomb = tmp_path / "bomb"
    async with opened(tmp_path) as path:
        await said(path, framed(pickle.dumps(Bomb(bomb))))
    assert bomb.exists()


HELLO = framed(pickle.dumps(version("threadline")))


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"\x00",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">Q", MAX_BYTES + 1),
        struct.pack(">Q", 1 << 63),
        struct.pack(">Q", 100) + b"half",
        framed(b"garbage"),
        framed(b""),
        framed(pickle.dumps(None)),
        HELLO + framed(b"\x80\x05garbage"),
        HELLO + framed(pickle.dumps("no pair")),
        HELLO + framed(pickle.dumps(("launch", None))),
        HELLO + framed(pickle.dumps(("wait", 1.0))),
        HELLO + framed(pickle.dumps(("run", 7))),
        HELLO + framed(pickle.dumps(("find", None))),
        HELLO + framed(pickle.dumps((1, 2, 3))),
        HELLO[:-1],
    ],
)
async def test_garbage_harms_nobody(
    tmp_path: Path, words: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It is hung up on, or answered with an error, and the next one is served."""
    async with opened(tmp_path) as path:
        await said(path, words)
        await works(path)
    assert caplog.records == []


async def test_half_a_question_waits_without_stopping_the_others(tmp_path: Path) -> None:
    async with opened(tmp_path) as path:
        half = HELLO + struct.pack(">Q", 1_000)
        waiting = asyncio.create_task(said(path, half, end=False))
        await works(path)
        assert not waiting.done()
    await waiting


async def test_another_threadline_is_told_which_one_the_server_is(tmp_path: Path) -> None:
    async with opened(tmp_path) as path:
        answer = await said(path, framed(pickle.dumps("0.0.1")))
    kind, refusal = pickle.loads(answer[8:])
    assert (kind, type(refusal)) == ("error", StoreUnavailable)
    assert "Restart the server" in str(refusal)


async def test_a_hatch_that_was_left_is_replaced(tmp_path: Path) -> None:
    path = hatch_of(tmp_path / "a.db")
    path.touch()
    with pytest.raises(StoreUnavailable, match="nobody answers"):
        await HatchStore(path).connect()

    async with opened(tmp_path) as found:
        assert found == path
        await works(path)


async def test_a_folder_may_lie_as_deep_as_it_likes(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    async with opened(deep) as path:
        assert len(str(path)) > MAX_PATH
        await works(path)
