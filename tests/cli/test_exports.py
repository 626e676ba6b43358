"""Exports that are broken or hostile: refused by name, and nothing half-written is called whole."""

from __future__ import annotations

import io
import signal
import time
import zipfile
from pathlib import Path

import pytest

from tests.cli.conftest import EXPORTS, Shell


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    """A zip with these files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return path


def test_an_export_cut_in_the_middle_is_partial_and_the_whole_one_completes_it(
    shell: Shell, tmp_path: Path
) -> None:
    whole = EXPORTS / "telegram-single-tgparser-1.json"
    body = whole.read_bytes()
    cut = tmp_path / whole.name
    cut.write_bytes(body[: len(body) * 2 // 3])

    broken = shell("import", cut, "--as", "telegram/7001", "--json")
    between = shell("conversations", "--json").json["conversations"]
    full = shell("import", whole, "--as", "telegram/7001", "--json")
    after = shell("conversations", "--json").json["conversations"]

    assert (broken.code, broken.error["code"]) == (1, "archive_error")
    assert whole.name in broken.error["message"]
    assert all(one["history"] != "complete" for one in between)
    assert full.code == 0
    assert [one["history"] for one in after] == ["complete"]
    assert shell.damage() == []


def test_a_zip_bomb_is_refused_before_it_swells(shell: Shell, tmp_path: Path) -> None:
    channels = b'[{"id": "C1", "name": "help", "created": 1, "creator": "U1"}]'
    bomb = zipped(
        tmp_path / "bomb.zip",
        {
            "channels.json": channels,
            "users.json": b'[{"id": "U1", "name": "ada"}]',
            "help/2024-03-01.json": b"[" + b" " * 60_000_000 + b"]",
        },
    )

    done = shell("import", bomb, "--as", "slack/T1", "--json")

    assert (done.code, done.error["code"]) == (1, "archive_error")
    assert "help/2024-03-01.json" in done.error["message"]
    assert all(
        one["history"] != "complete"
        for one in shell.good("conversations", "--json").json["conversations"]
    )


def test_a_zip_that_would_write_elsewhere_is_refused(shell: Shell, tmp_path: Path) -> None:
    sly = zipped(
        tmp_path / "sly.zip", {"channels.json": b"[]", "users.json": b"[]", "../../evil": b"x"}
    )

    done = shell("import", sly, "--as", "slack/T1", "--json")

    assert (done.code, done.error["code"]) == (1, "archive_error")
    assert "evil" in done.error["message"]
    assert shell.content() == []
    assert not list(tmp_path.parent.rglob("evil"))


def test_a_file_of_no_known_format_is_refused(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "notes.bin").write_bytes(io.BytesIO(bytes(range(256))).read())

    done = shell("import", tmp_path / "notes.bin", "--as", "slack/T1", "--json")

    assert (done.code, done.error["code"]) == (1, "archive_error")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_an_import_that_was_ended_is_partial_and_importing_again_completes_it(
    shell: Shell, tmp_path: Path, how: signal.Signals
) -> None:
    log = tmp_path / "big.log"
    lines = [f"{n // 3600:02}:{n // 60 % 60:02} <ada> line {n}" for n in range(40_000)]
    log.write_text("\n".join(["--- Log opened Fri Mar 01 00:00:00 2024", *lines, ""]))
    words = ("import", str(log), "--as", "irc/libera", "--conversation", "big")
    running = shell.start(*words)
    wal = Path(f"{shell.store}-wal")
    while running.poll() is None and not (wal.exists() and wal.stat().st_size > 1_000_000):
        time.sleep(0.005)
    running.send_signal(how)
    _, said = running.communicate(timeout=60)

    between = shell.good("show", "irc/libera/big", "--json").json
    again = shell.good(*words, "--json").json
    after = shell.good("show", "irc/libera/big", "--json").json

    assert running.returncode == (130 if how is signal.SIGINT else -how)
    assert said == ""
    assert between["history"] == "partial"
    assert between["reason"] in {"the import was interrupted", "an import is under way"}
    assert (again["written"] + again["known"], again["refused"]) == (40_000, 0)
    assert again["known"] > 0
    assert (after["history"], after["next_sequence"]) == ("complete", 40_001)
    assert shell.damage() == []
