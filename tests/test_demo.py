"""The demo keeps its promises, and what it tells to try next works as printed."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.told import OF_THE_CHAPTERS, places_of
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
    assert told.count("✓") == 6 + OF_THE_CHAPTERS
    assert "✗" not in told
    assert f"{len(files_in(exports))}/{len(files_in(exports))} files" in told
    assert "ended by signal 9" in told


@pytest.mark.acceptance("H1", "H6", "L6")
def test_an_agent_writes_first_and_a_client_has_its_tools_in_the_web_chat(
    tmp_path: Path,
) -> None:
    """Judged by what the ledger holds afterwards, not by what was printed."""
    assert tell(tmp_path / "home", SAMPLE) == 0

    refs, said = asyncio.run(places_of(tmp_path / "home", "web"))

    assert {who: str(ref) for who, ref in refs.items()} == {
        "Ada": "web/demo/chat-ada",
        "Ben": "web/demo/chat-ben",
    }
    assert {one.person_id for one in said["Ada"]} != {one.person_id for one in said["Ben"]}


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
