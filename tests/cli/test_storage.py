"""A store that cannot be used: the code is 4, the words say why, and not a byte of it changes."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import LOBBY, Done, Shell
from threadline import Threadline
from threadline.core.rules.limits import Limits
from threadline.flows.sessions import Retire


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


def full_disk() -> None:
    """From here on no file of this process grows over 1.5 MB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))


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
    ready: Shell, harm: Callable[[Path], None], name: str, word: str
) -> None:
    harm(ready.store)
    before = ready.store.read_bytes()

    done = ready("append", LOBBY, "More", "--json")

    assert (done.code, done.error["code"]) == (4, name)
    assert ready.store.read_bytes() == before


@HARM
def test_the_doctor_says_what_is_wrong_with_it_and_what_to_do(
    ready: Shell, harm: Callable[[Path], None], name: str, word: str
) -> None:
    harm(ready.store)

    done = ready("doctor")

    assert done.code == 1
    assert str(ready.store) in done.out
    assert word in done.out


def test_a_store_that_another_process_holds_is_left_to_it_and_the_holder_is_named(
    ready: Shell,
) -> None:
    async def held() -> tuple[Done, Done]:
        async with Threadline.open(f"sqlite:{ready.store}"):
            return await asyncio.gather(
                asyncio.to_thread(ready, "append", LOBBY, "More", "--json"),
                asyncio.to_thread(ready, "doctor"),
            )

    refused, doctor = asyncio.run(held())

    assert (refused.code, refused.error["code"]) == (4, "store_busy")
    assert refused.error["facts"]["pid"] == os.getpid()
    assert doctor.code == 1
    assert str(os.getpid()) in doctor.out
    assert ready.texts() == ["Good morning"]


def test_a_full_disk_refuses_the_message_and_the_next_one_fits_again(ready: Shell) -> None:
    full = ready("append", LOBBY, "-", "--json", said=b"x" * 3_000_000, before=full_disk)
    fits = ready("append", LOBBY, "Small")

    assert (full.code, full.error["code"]) == (4, "store_full")
    assert fits.code == 0
    assert ready.texts() == ["Good morning", "Small"]
    assert ready.damage() == []


def test_a_store_that_is_not_there_is_not_begun_by_a_reader(shell: Shell) -> None:
    done = shell("conversations", "--json")

    assert (done.code, done.error["code"]) == (4, "store_unavailable")
    assert "threadline init" in done.error["message"]
    assert not shell.store.parent.exists()


def test_the_doctor_finds_a_record_that_was_changed_behind_our_back(ready: Shell) -> None:
    with closing(sqlite3.connect(ready.store)) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_schema")]
        assert "record" in tables or "records" in tables
        name = "records" if "records" in tables else "record"
        connection.execute(f"update {name} set digest = zeroblob(length(digest))")
        connection.commit()

    done = ready("doctor", "--json")

    assert done.code == 1
    assert done.json["well"] is False
    assert any(one["is_damage"] for one in done.json["findings"])


def test_the_doctor_finds_a_binding_to_a_session_that_was_retired(ready: Shell) -> None:
    """B133: the process was killed after the session ended and before its binding did."""
    ready("bind", LOBBY, "owner")

    async def retire(line: Threadline) -> None:
        await line.store.run(Retire(scope="default", name="owner"))

    ready.inside(retire)
    done = ready("doctor", "--json")

    [finding] = done.json["findings"]
    assert done.code == 1
    assert "'owner'" in finding["what"]
    assert "threadline unbind" in finding["advice"]


def test_the_doctor_finds_an_import_that_never_ended_and_repairs_it(ready: Shell) -> None:
    """Its importer was killed; a message that came meanwhile is waiting for it."""

    async def begin() -> None:
        limits = Limits(lease=timedelta(0), gate=timedelta(0))
        async with Threadline.open(f"sqlite:{ready.store}", limits=limits, indexing=False) as line:
            await line.hydration.begin(LOBBY, owner="import/slack.zip", mode="gated")

    asyncio.run(begin())
    found = ready("doctor", "--json")
    repaired = ready("doctor", "--repair", "--json")
    after = ready("doctor", "--json")

    assert (found.code, len(found.json["findings"])) == (1, 1)
    assert "'import/slack.zip' did not end" in found.json["findings"][0]["what"]
    assert "--repair" in found.json["findings"][0]["advice"]
    assert repaired.json["repaired"] == ["1 import window"]
    [partial] = after.json["findings"]
    assert "its history is partial" in partial["what"]
    assert "Import the export again" in partial["advice"]


def test_the_doctor_shows_a_message_that_was_put_aside(ready: Shell) -> None:
    with closing(sqlite3.connect(ready.store)) as connection:
        row = (7, 1_700_000_000_000_000, "Append", "DataError: no such character", "{}", 1)
        names = "id, parked_at, story, reason, body, attempts"
        connection.execute(f"insert into parked ({names}) values (?, ?, ?, ?, ?, ?)", row)
        connection.commit()

    done = ready("doctor", "--json")

    [finding] = done.json["findings"]
    assert done.code == 1
    assert "2023-11-14 22:13 UTC" in finding["what"]
    assert "no such character" in finding["what"]


def test_the_doctor_sees_a_key_that_others_may_read(ready: Shell) -> None:
    key = Path(f"{ready.store}.key")
    key.chmod(0o644)

    done = ready("doctor", "--json")

    [finding] = done.json["findings"]
    assert f"chmod 600 {key}" in finding["advice"]


def test_the_commands_of_one_script_wait_for_each_other(ready: Shell) -> None:
    """A file belongs to one process at a time; a moment's holder is waited for."""
    running = [ready.start("append", LOBBY, f"message {number}") for number in range(4)]

    ends = [(one.communicate(timeout=120), one.returncode) for one in running]

    assert [code for _, code in ends] == [0, 0, 0, 0]
    assert sorted(ready.texts()[1:]) == [f"message {number}" for number in range(4)]
