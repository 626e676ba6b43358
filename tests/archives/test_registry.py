"""Which reader a file gets: every format its own, and what has none is refused by its name."""

from __future__ import annotations

import ast
import gzip
import io
import sys
import tarfile
from pathlib import Path

import pytest

import threadline.archives
from tests.archives.conftest import DATA, Held, ReadAll, Rows
from threadline.archives import READERS, identify
from threadline.core.archive import Place
from threadline.core.errors import ArchiveError
from threadline.core.model import Event, InboundMessage
from threadline.entrypoints.files import open_source

NAMES = {
    "discord": "DiscordChatExporter JSON",
    "irc": "IRC log",
    "matrix": "Matrix export",
    "mbox": "mbox",
    "slack": "Slack export",
    "telegram": "Telegram Desktop JSON",
    "whatsapp": "WhatsApp text",
}
UNSUPPORTED = {"mattermost": "Mattermost", "rocketchat": "Rocket.Chat", "zulip": "Zulip"}

ALL = sorted(path.name for path in (DATA / "exports").iterdir())
SUPPORTED = [name for name in ALL if name.split("-")[0] in NAMES]
REFUSED = [name for name in ALL if name.split("-")[0] in UNSUPPORTED]
WEBHOOKS = sorted(path.name for path in (DATA / "webhooks").iterdir())


def test_every_sample_is_either_read_or_refused() -> None:
    assert sorted([*SUPPORTED, *REFUSED]) == ALL
    assert len(READERS) == len(NAMES)


@pytest.mark.acceptance("D11")
@pytest.mark.parametrize("name", SUPPORTED)
def test_every_file_gets_the_reader_of_its_format(exports: Path, name: str) -> None:
    with open_source(exports / name) as source:
        assert identify(source).format == NAMES[name.split("-")[0]]


@pytest.mark.parametrize("name", SUPPORTED)
def test_only_one_reader_claims_a_file(exports: Path, name: str) -> None:
    with open_source(exports / name) as source:
        assert [reader.format for reader in READERS if reader.recognises(source)] == [
            NAMES[name.split("-")[0]]
        ]


@pytest.mark.acceptance("D11")
@pytest.mark.parametrize("name", SUPPORTED)
def test_every_file_reads_to_the_number_of_messages_counted_in_it(
    exports: Path, rows: Rows, read_all: ReadAll, name: str
) -> None:
    row = rows[f"exports/{name}"]

    items, tally = read_all(exports / name)

    assert (tally.counts["messages"], len(tally.authors)) == (row["messages"], row["authors"])
    told = [item for item in items if isinstance(item, InboundMessage)]
    assert sum(item.event is Event.MESSAGE for item in told) == row["messages"]
    places = {item.ref for item in items if isinstance(item, Place)}
    assert {item.conversation for item in told} <= places


@pytest.mark.acceptance("D11")
@pytest.mark.parametrize("name", REFUSED)
def test_a_format_without_a_reader_is_refused_by_name(exports: Path, name: str) -> None:
    known = UNSUPPORTED[name.split("-")[0]]

    with (
        open_source(exports / name) as source,
        pytest.raises(ArchiveError, match=f"{known} exports are not supported yet") as refused,
    ):
        identify(source)
    assert refused.value.facts["format"] == known
    assert name in str(refused.value)


@pytest.mark.acceptance("D11")
@pytest.mark.parametrize("name", WEBHOOKS)
def test_recorded_events_are_no_export(exports: Path, name: str) -> None:
    with (
        open_source(exports.parent / "webhooks" / name) as source,
        pytest.raises(ArchiveError, match="recorded webhook events"),
    ):
        identify(source)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"hello",
        b"\x00\x01\x02\xff" * 100,
        b"%PDF-1.7\n",
        b"\x89PNG\r\n\x1a\n",
        b'{"messages": []}',
        b"a,b,c\n1,2,3\n",
        b"Lorem ipsum dolor sit amet.\n" * 100,
        gzip.compress(b"hello", mtime=0),
        b"\x1f\x8bbroken",
        b"{" * 70_000,
    ],
)
def test_an_unknown_file_is_told_what_is_known(data: bytes) -> None:
    with pytest.raises(ArchiveError) as refused:
        identify(Held({"thing": data}, "thing"))

    assert str(refused.value).count("thing") >= 1
    for reader in READERS:
        assert reader.format in str(refused.value)


def test_a_folder_of_unknown_files_and_an_empty_one_are_refused() -> None:
    with pytest.raises(ArchiveError, match="no known export"):
        identify(Held({"a.txt": b"hello", "b.png": b"\x89PNG"}))
    with pytest.raises(ArchiveError, match="empty"):
        identify(Held({}, "folder"))


def test_zulips_folder_and_mattermosts_zip_are_refused_by_name() -> None:
    with pytest.raises(ArchiveError, match="Zulip"):
        identify(Held({"z/realm.json": b"{}", "z/messages-000001.json": b"{}"}))
    line = b'{"type":"version","version":1}\n'
    with pytest.raises(ArchiveError, match="Mattermost"):
        identify(
            Held({"data/files/a.png": b"", "import.jsonl": line, "b": b"", "c": b"", "d": b""})
        )


def test_another_tar_is_not_called_zulips() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("notes.txt"))

    with pytest.raises(ArchiveError, match="gzip file; unpack it"):
        identify(Held({"notes.tar.gz": buffer.getvalue()}))


def test_a_reader_opens_onto_the_core_and_a_few_pure_libraries() -> None:
    pure = {"ijson", "msgspec", "threadline.archives", "threadline.core"}
    doing = {"os", "pathlib", "socket", "subprocess", "logging", "tempfile", "shutil", "time"}

    for path in Path(threadline.archives.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import(names=names):
                    modules = [alias.name for alias in names]
                case ast.ImportFrom(module=str(module)):
                    modules = [module]
                case ast.Call(func=ast.Name(id="open")):
                    pytest.fail(f"{path.name} opens a file")
                case _:
                    continue
            for module in modules:
                is_pure = module in sys.stdlib_module_names - doing or module.split(".")[0] in (
                    sys.stdlib_module_names - doing
                )
                assert is_pure or any(module.startswith(each) for each in pure), module
