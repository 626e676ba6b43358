"""The demo keeps its promises, and what it tells to try next works as printed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from threadline.core.errors import ConfigError
from threadline.entrypoints.cli.demo import SAMPLE
from threadline.entrypoints.cli.demo_import import files_in
from threadline.entrypoints.cli.demo_story import tell

EXPORTS = Path(__file__).parent / "data" / "exports"


@pytest.mark.parametrize("exports", [EXPORTS, SAMPLE], ids=["the exports", "the shipped sample"])
def test_the_story_is_told_and_every_promise_is_kept(
    exports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tell(tmp_path / "home", exports) == 0

    told = capsys.readouterr().out
    assert told.count("✓") == 6
    assert "✗" not in told
    assert f"{len(files_in(exports))}/{len(files_in(exports))} files" in told
    assert "ended by signal 9" in told


def test_what_to_try_next_works_as_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(tmp_path / "home", SAMPLE)
    told = capsys.readouterr().out.partition("What to try next")[2]
    lines = re.findall(r"^  (\S.*)$", told, re.M)

    script = "set -e\n" + "\n".join(lines)
    done = subprocess.run(
        ["sh", "-c", script], env=os.environ.copy(), capture_output=True, text=True, timeout=60
    )

    assert len(lines) > 3
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"


def test_the_demo_never_writes_into_a_store_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "threadline.db").touch()

    with pytest.raises(ConfigError, match="exists already"):
        tell(tmp_path, SAMPLE)
