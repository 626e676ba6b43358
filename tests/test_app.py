"""Opening everything: what a URL may be, and how the key is kept."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.speech import ROOM, said
from threadline import Threadline
from threadline.app import load_key
from threadline.core.errors import ConfigError, StoreBusy, StoreUnavailable, WrongKey


async def test_a_store_and_its_key_are_made_where_there_is_none(tmp_path: Path) -> None:
    async with Threadline.open(f"sqlite:{tmp_path}/team.db") as tl:
        await tl.inbound.receive(said("hello", "m1"))

    key = tmp_path / "team.db.key"
    assert len(bytes.fromhex(key.read_text().strip())) == 32
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


async def test_what_was_said_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/team.db"
    async with Threadline.open(url) as tl:
        await tl.inbound.receive(said("hello", "m1"))

    async with Threadline.open(url) as tl:
        again = await tl.inbound.receive(said("hello", "m1"))

    assert (again.sequence, again.duplicate) == (1, True)


async def test_a_store_without_its_key_is_refused_and_none_is_made(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/team.db"
    async with Threadline.open(url):
        pass
    key = tmp_path / "team.db.key"
    kept = key.read_bytes()
    key.unlink()

    with pytest.raises(WrongKey, match="Put it back"):
        async with Threadline.open(url):
            pass

    assert not key.exists()
    key.write_bytes(kept)
    async with Threadline.open(url):
        pass


async def test_another_stores_key_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/team.db"
    async with Threadline.open(url):
        pass
    (tmp_path / "team.db.key").write_text("00" * 32)

    with pytest.raises(WrongKey):
        async with Threadline.open(url):
            pass


@pytest.mark.parametrize("text", ["", "nonsense", "00" * 31, "zz" * 32])
def test_a_damaged_key_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "key"
    file.write_text(text)

    with pytest.raises(ConfigError, match="32 bytes"):
        load_key(file, in_use=True)


async def test_a_second_server_on_the_file_is_told_who_holds_it(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/team.db"
    async with Threadline.open(url):
        with pytest.raises(StoreBusy, match="process"):
            async with Threadline.open(url):
                pass


@pytest.mark.parametrize("url", ["mysql://x", "team.db", ""])
async def test_an_unknown_kind_of_store_is_named(url: str) -> None:
    with pytest.raises(ConfigError, match="neither"):
        async with Threadline.open(url):
            pass


async def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="does not exist"):
        async with Threadline.open(f"sqlite:{tmp_path}/nowhere/team.db", key=b"k" * 32):
            pass


async def test_postgresql_needs_a_key_that_all_nodes_share(postgres_url: str) -> None:
    with pytest.raises(ConfigError, match="all nodes share"):
        async with Threadline.open(postgres_url):
            pass


async def test_a_closed_store_refuses_and_does_not_hang(tmp_path: Path) -> None:
    async with Threadline.open(f"sqlite:{tmp_path}/team.db") as tl:
        await tl.inbound.receive(said("hello", "m1"))

    with pytest.raises(StoreUnavailable, match="closed"):
        await tl.inbound.receive(said("late", "m2"))
    with pytest.raises(StoreUnavailable, match="closed"):
        await tl.conversations.show(ROOM)
