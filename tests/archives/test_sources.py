"""Where exports lie: a file, a folder, a zip. What lies about itself or leads astray is refused."""

from __future__ import annotations

import os
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from tests.archives.conftest import Held
from threadline.archives.documents import Document
from threadline.core.archive import Source
from threadline.core.errors import ArchiveError
from threadline.entrypoints.files import (
    MIB,
    Bounds,
    FileSource,
    FolderSource,
    ZipSource,
    open_source,
)

SMALL = Bounds(
    file=4 * MIB, zipped_file=4 * MIB, zipped_total=6 * MIB, ratio=200, free=MIB, names=5
)
HOSTILE = [
    "/etc/passwd",
    "../up.json",
    "a/../../up.json",
    "a\\b.json",
    "..\\up.json",
    "C:/boot.json",
    "c:up.json",
    "a//b.json",
    "./a.json",
    "a/./b.json",
]


def zipped(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def all_of(source: Source, name: str) -> bytes:
    with source.open(name) as stream:
        return stream.read()


def everything(path: Path, bounds: Bounds = SMALL) -> dict[str, bytes]:
    with open_source(path, bounds) as source:
        return {name: all_of(source, name) for name in source.names()}


def test_a_file_is_a_source_with_one_name(tmp_path: Path) -> None:
    (tmp_path / "list.mbox").write_bytes(b"From")

    with open_source(tmp_path / "list.mbox") as source:
        assert isinstance(source, FileSource)
        assert (source.title, source.names()) == ("list.mbox", ["list.mbox"])
        with source.open("list.mbox") as one, source.open("list.mbox") as two:
            assert one.read(2) == b"Fr"
            assert two.read() == b"From"


def test_a_folder_gives_all_its_files_under_their_names(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "2024-03-01.json").write_bytes(b"[]")
    (tmp_path / "users.json").write_bytes(b"[1]")
    (tmp_path / ".DS_Store").write_bytes(b"x")

    assert isinstance(open_source(tmp_path), FolderSource)
    assert everything(tmp_path) == {"ops/2024-03-01.json": b"[]", "users.json": b"[1]"}


@pytest.mark.parametrize("name", ["export.zip", "export.bin"])
def test_a_zip_is_known_by_its_beginning_and_gives_all_its_files(tmp_path: Path, name: str) -> None:
    path = zipped(
        tmp_path / name, **{"b/x.json": b"[]", "a.json": b"1", "__MACOSX/a": b"", "b/": b""}
    )

    with open_source(path) as source:
        assert isinstance(source, ZipSource)
        assert source.names() == ["a.json", "b/x.json"]
    assert everything(path) == {"a.json": b"1", "b/x.json": b"[]"}


def test_lines_can_be_read_from_a_zip_one_by_one(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", log=b"one\ntwo\n" * 100_000)

    with open_source(path) as source, source.open("log") as stream:
        assert sum(1 for _ in stream) == 200_000


@pytest.mark.parametrize("name", HOSTILE)
def test_a_zips_hostile_name_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = zipped(tmp_path / "a.zip", **{"ok.json": b"[]", name: b"[]"})

    with pytest.raises(ArchiveError) as refused:
        open_source(path)
    assert refused.value.facts["entry"] == name
    assert repr(name) in str(refused.value)


def test_a_name_with_a_nul_is_refused_although_its_beginning_is_harmless(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", **{"aXb.json": b"[]"})
    path.write_bytes(path.read_bytes().replace(b"aXb", b"a\0b"))

    with pytest.raises(ArchiveError, match="NUL"):
        open_source(path)


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_a_link_or_device_in_a_zip_is_refused(tmp_path: Path, mode: int) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("users.json")
        info.create_system = 3
        info.external_attr = (mode | 0o777) << 16
        archive.writestr(info, "/etc/passwd")

    with pytest.raises(ArchiveError, match=r"users\.json"):
        open_source(tmp_path / "a.zip")


def test_a_zip_that_holds_a_name_twice_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.json", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.json", "2")

    with pytest.raises(ArchiveError, match="twice"):
        open_source(tmp_path / "a.zip")


@pytest.mark.parametrize("leads_to", ["inside.json", "/etc/passwd", "nowhere", "."])
def test_a_link_in_a_folder_is_refused(tmp_path: Path, leads_to: str) -> None:
    (tmp_path / "inside.json").write_bytes(b"[]")
    (tmp_path / "link.json").symlink_to(leads_to)

    with pytest.raises(ArchiveError, match=r"link\.json.*link"):
        open_source(tmp_path)


def test_a_pipe_in_a_folder_or_in_its_place_is_refused_and_nobody_waits_for_it(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "pipe")

    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ArchiveError):
            open_source(path)


def test_a_name_outside_a_source_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "a.json").write_bytes(b"[]")
    path = zipped(tmp_path / "a.zip", **{"a.json": b"[]"})

    for source in (
        open_source(tmp_path / "export"),
        open_source(path),
        open_source(tmp_path / "secret"),
    ):
        with source, pytest.raises(ArchiveError):
            source.open("../secret")


def test_a_file_that_became_a_link_is_still_read_only_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"[]")
    source = open_source(tmp_path)
    (tmp_path / "a.json").unlink()
    (tmp_path / "a.json").symlink_to("/etc/passwd")

    with pytest.raises(ArchiveError, match=r"a\.json"):
        source.open("a.json")


def test_a_zip_bomb_is_stopped_while_it_comes_out(tmp_path: Path) -> None:
    path = zipped(tmp_path / "bomb.zip", **{"users.json": b"0" * 3 * MIB})

    came_out: list[int] = []
    with open_source(path, SMALL) as source, source.open("users.json") as stream:
        blocks = iter(lambda: stream.read(64 * 1024), b"")
        with pytest.raises(ArchiveError, match="zip bomb") as refused:
            came_out.extend(len(block) for block in blocks)
    assert sum(came_out) <= 2 * MIB
    assert refused.value.facts["entry"] == "users.json"


def test_what_a_zip_says_of_its_sizes_is_not_believed(tmp_path: Path) -> None:
    path = zipped(tmp_path / "lies.zip", a=b"0" * 3 * MIB)
    size = struct.pack("<L", 3 * MIB)
    path.write_bytes(path.read_bytes().replace(size, struct.pack("<L", 10)))

    with pytest.raises(ArchiveError):
        everything(path)


def test_many_small_bombs_are_one_bomb(tmp_path: Path) -> None:
    path = zipped(tmp_path / "bombs.zip", **{f"{n}.json": b"0" * (MIB - 1) for n in range(4)})

    with pytest.raises(ArchiveError, match="zip bomb"):
        everything(path)


def test_a_zip_is_bounded_even_where_it_hardly_shrinks(tmp_path: Path) -> None:
    noise = os.urandom(3 * MIB)
    large = zipped(tmp_path / "large.zip", a=noise + noise)
    many = zipped(tmp_path / "many.zip", a=noise, b=noise, c=noise)

    for path in (large, many):
        with pytest.raises(ArchiveError, match="more than allowed"):
            everything(path)


def test_reading_a_file_twice_does_not_count_twice(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", a=os.urandom(3 * MIB))

    with open_source(path, SMALL) as source:
        for _ in range(4):
            assert len(all_of(source, "a")) == 3 * MIB


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for number in range(6):
        (tmp_path / "folder" / str(number)).touch()
    path = zipped(tmp_path / "a.zip", **{str(number): b"" for number in range(6)})

    for where in (path, tmp_path / "folder"):
        with pytest.raises(ArchiveError, match="more than 5 files"):
            open_source(where, SMALL)


def test_a_file_larger_than_allowed_is_refused_while_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_bytes(b"0" * 5 * MIB)

    with pytest.raises(ArchiveError, match="larger"):
        everything(tmp_path / "large.json")


@pytest.mark.parametrize("name", ["slack-export-made-2.zip", "rocketchat-mongoexport-made-1.zip"])
def test_a_zip_cut_anywhere_says_so(exports: Path, tmp_path: Path, name: str) -> None:
    whole = (exports / name).read_bytes()
    cut = tmp_path / "cut.zip"

    for size in range(0, len(whole), len(whole) // 25):
        cut.write_bytes(whole[:size])
        with pytest.raises(ArchiveError, match=r"damaged or breaks off.*again"):
            everything(cut)


def test_a_damaged_zip_gives_what_was_in_it_or_an_error_and_nothing_else(
    exports: Path, tmp_path: Path
) -> None:
    path = exports / "slack-export-made-2.zip"
    whole, held = path.read_bytes(), everything(path, Bounds())
    damaged = tmp_path / "damaged.zip"
    refused = 0

    for place in range(100, len(whole), len(whole) // 25):
        changed = bytearray(whole)
        changed[place] ^= 0xFF
        damaged.write_bytes(changed)
        try:
            assert everything(damaged, Bounds()) == held
        except ArchiveError:
            refused += 1
    assert refused >= 20


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", **{"a.json": b"[]"})
    data = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + place] |= 1
    path.write_bytes(data)

    with pytest.raises(ArchiveError, match="encrypted"):
        everything(path)


@pytest.mark.parametrize("path", ["missing.zip", "missing/folder", "nul\0byte"])
def test_what_is_not_there_is_said_to_be_missing(tmp_path: Path, path: str) -> None:
    with pytest.raises(ArchiveError, match=r"check the path|is no path"):
        open_source(tmp_path / path)


def test_a_folder_that_is_a_file_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "a").touch()

    with pytest.raises(ArchiveError, match="cannot be read"):
        open_source(tmp_path / "a" / "b")


@pytest.mark.parametrize("size", range(40))
def test_a_document_is_the_same_whatever_the_blocks_it_comes_in(size: int) -> None:
    data = '{"a": {"b": "]\\"}"}, "ü": [12345, [1, {"x": "\\u00fc🙂"}]], "n": 67}'.encode()

    document = Document(_Trickle(data, size + 1), "a.json")
    found = []
    for key in document.members():
        if key == "ü":
            found += [document.value() for _ in document.elements()]
        elif key == "n":
            found.append(document.value())
    document.end()

    assert found == [12345, [1, {"x": "ü🙂"}], 67]
    assert document.offset == len(data)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b'{"a"', b'{"a":', b'{"a": [1', b'{"a" 1}', b"{'a': 1}", b"[1]"],
)
def test_a_document_that_is_no_whole_object_is_refused(data: bytes) -> None:
    document = Document(Held({"a": data}).open("a"), "a.json")

    with pytest.raises(ArchiveError, match=r"a\.json: offset \d+"):
        list(document.members())


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b'{"a": "\xff"}', "UTF-8"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "deep"),
        (b'{"a": ' + b"1" * 5_000 + b"}", "damaged"),
        (b'{"a": "' + b"x" * 17 * MIB + b'"}', "larger"),
    ],
)
def test_a_value_that_cannot_be_taken_is_refused_with_its_offset(data: bytes, what: str) -> None:
    document = Document(_Trickle(data, 256 * 1024), "a.json")

    with pytest.raises(ArchiveError, match=what) as refused:
        [document.value() for _ in document.members()]
    assert 0 <= refused.value.facts["offset"] <= 10


def test_what_is_passed_over_may_be_of_any_size_and_depth() -> None:
    deep = b'{"a": ' + b'[{"b": ' * 50_000 + b"1" + b"}]" * 50_000 + b', "c": 7}'
    document = Document(_Trickle(deep, 1_000), "a.json")

    assert [document.value() for key in document.members() if key == "c"] == [7]


class _Trickle:
    """A stream that gives a few bytes at a time, whatever is asked of it."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size, self._at = data, size, 0

    def read(self, size: int, /) -> bytes:
        self._at += self._size
        return self._data[self._at - self._size : self._at]
