"""A store that cannot be used: the code is 4, the words say why, and not a byte of it changes."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import ROOM, SAID, Cli
from threadline import Threadline


def scribble(file: Path) -> None:
    """The first page is overwritten."""
    file.write_bytes(b"\xff" * 8192 + file.read_bytes()[8192:])


def cut(file: Path) -> None:
    """Only the first two pages are left."""
    file.write_bytes(file.read_bytes()[:16384])


def outdate_us(file: Path) -> None:
    """A newer threadline was here."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("pragma user_version=9999")


def lose_key(file: Path) -> None:
    """The key file is gone."""
    Path(f"{file}.key").unlink()


def swap_key(file: Path) -> None:
    """Another store's key lies there."""
    Path(f"{file}.key").write_text("ab" * 32)


HARM = pytest.mark.parametrize(
    ("harm", "name", "word"),
    [
        pytest.param(scribble, "store_damaged", "backup", id="damaged"),
        pytest.param(cut, "store_damaged", "backup", id="cut off"),
        pytest.param(outdate_us, "schema_newer", "Upgrade", id="newer"),
        pytest.param(lose_key, "wrong_key", "missing", id="without its key"),
        pytest.param(swap_key, "wrong_key", "key", id="with another key"),
    ],
)


@HARM
def test_a_store_that_is_not_right_is_refused_and_left_as_it_is(
    cli: Cli, harm: Callable[[Path], None], name: str, word: str
) -> None:
    harm(cli.file)
    before = cli.file.read_bytes()

    done = cli("append", ROOM, "More", "--json")

    assert (done.code, done.error["code"]) == (4, name)
    assert cli.file.read_bytes() == before


@HARM
def test_the_doctor_says_what_is_wrong_with_it_and_what_to_do(
    cli: Cli, harm: Callable[[Path], None], name: str, word: str
) -> None:
    harm(cli.file)

    done = cli("doctor")

    assert done.code == 1
    assert str(cli.file) in done.out
    assert word in done.out


def test_a_store_that_another_process_holds_is_left_to_it_and_the_holder_is_named(
    cli: Cli,
) -> None:
    async def held() -> tuple[object, object]:
        async with Threadline.open(f"sqlite:{cli.file}"):
            return await asyncio.gather(
                asyncio.to_thread(cli, "append", ROOM, "More", "--json"),
                asyncio.to_thread(cli, "doctor"),
            )

    refused, doctor = asyncio.run(held())

    assert (refused.code, refused.error["code"]) == (4, "store_busy")  # type: ignore[attr-defined]
    assert refused.error["facts"]["pid"] == os.getpid()  # type: ignore[attr-defined]
    assert doctor.code == 4  # type: ignore[attr-defined]
    assert str(os.getpid()) in doctor.err  # type: ignore[attr-defined]
    assert cli.texts() == list(SAID)


def test_a_full_disk_refuses_the_message_and_the_next_one_fits_again(cli: Cli) -> None:
    full = cli("append", ROOM, "-", "--json", said=b"x" * 3_000_000, blocks=3000)
    fits = cli("append", ROOM, "Small")

    assert (full.code, full.error["code"]) == (4, "store_full")
    assert fits.code == 0
    assert cli.texts() == [*SAID, "Small"]
    assert cli.everything()[2] == []


def test_a_store_that_is_not_there_is_not_begun_by_a_reader(bare: Cli) -> None:
    done = bare("conversations", "--json")

    assert (done.code, done.error["code"]) == (4, "store_unavailable")
    assert "threadline init" in done.error["message"]
    assert list(bare.home.iterdir()) == []


def test_the_doctor_finds_a_record_that_was_changed_behind_our_back(cli: Cli) -> None:
    with closing(sqlite3.connect(cli.file)) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_schema")]
        assert "record" in tables or "records" in tables
        name = "records" if "records" in tables else "record"
        connection.execute(f"update {name} set digest = zeroblob(length(digest))")
        connection.commit()

    done = cli("doctor", "--json")

    assert done.code == 1
    assert done.json["well"] is False
    assert any(one["is_damage"] for one in done.json["findings"])


def test_the_doctor_finds_a_binding_to_a_session_that_was_retired(cli: Cli) -> None:
    cli("bind", ROOM, "owner")

    async def retire(line: Threadline) -> None:
        await line.sessions.retire("owner")

    cli.inside(retire)
    done = cli("doctor", "--json")

    [finding] = done.json["findings"]
    assert done.code == 1
    assert "'owner'" in finding["what"]
    assert "threadline unbind" in finding["advice"]
