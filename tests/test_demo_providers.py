"""The demo on every platform keeps its promises, and leaves nothing running behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.told import OF_THE_CHAPTERS, places_of
from tests.warm import PROGRAM
from threadline.adapters.registry import providers
from threadline.core.errors import ConfigError
from threadline.entrypoints.cli.demo_means import ANSWERS
from threadline.entrypoints.cli.demo_platform import tell
from threadline.testing import scenes
from threadline.testing.scenes import SCENES, Simulated
from threadline.testing.simulation import Simulation

SECONDS = 120.0


def run(*words: str) -> subprocess.Popen[str]:
    """The command, started as a person does."""
    kept = {name: it for name, it in os.environ.items() if not name.startswith("THREADLINE_")}
    return subprocess.Popen(
        [PROGRAM, "demo", *words],
        env=kept | {"COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def still_running(told: str) -> list[int]:
    """The processes it spoke of that are there."""
    found = [int(pid) for pid in re.findall(r"process (\d+)", told)]
    assert len(found) >= 2, told
    return [pid for pid in found if Path(f"/proc/{pid}").exists()]


@pytest.mark.acceptance("B6", "G5", "G6", "H1", "H6", "L6")
@pytest.mark.parametrize("name", sorted(SCENES))
def test_the_story_is_told_on_the_platform_and_every_promise_is_kept(
    name: str, tmp_path: Path
) -> None:
    """The platform's own log is the judge: each message heard once, each answer said once."""
    demo = run(f"--{name}", "--folder", str(tmp_path / "home"))
    told, _ = demo.communicate(timeout=SECONDS)

    assert demo.returncode == 0, told
    assert "✗" not in told
    assert told.count("✓") == OF_THE_CHAPTERS + (6 if "arrive once more" in told else 5)
    assert "The server ended by signal 9." in told
    assert f"{len(ANSWERS)} answers said: 0 lost, 0 doubled" in told
    assert still_running(told) == []
    refs, said = asyncio.run(places_of(tmp_path / "home", name))
    if issubclass(SCENES[name], Simulated):
        seen = seen_by(tmp_path / "home" / "platform", name)
        for who, ref in refs.items():
            ours = [(one.message_id, one.text) for one in said[who] if one.source_session_id]
            assert seen[ref.conversation_id] == ours


def seen_by(folder: Path, name: str) -> dict[str, list[tuple[str, str]]]:
    """What people see of us in each place, asked of the platform as the demo left it."""
    found: dict[str, list[tuple[str, str]]] = {}
    with Simulation(SCENES[name].named, folder) as platform:
        for one in platform.effects("message"):
            known = str(one.get("id") or one.get("message_id"))
            found.setdefault(one["place"], []).append((known, one["text"]))
    return found


def test_interrupted_it_takes_everything_with_it(tmp_path: Path) -> None:
    """Ctrl-C in the middle of it."""
    demo = run("--whatsapp", "--folder", str(tmp_path / "home"))
    assert demo.stdout is not None
    told = ""
    while "kill -9" not in told:
        line = demo.stdout.readline()
        assert line, told
        told += line
    demo.send_signal(signal.SIGINT)
    rest, _ = demo.communicate(timeout=SECONDS)

    assert demo.returncode == 130, told + rest
    assert "Traceback" not in rest
    assert still_running(told) == []


def test_every_provider_of_ours_has_a_flag_and_a_scene_or_says_so(tmp_path: Path) -> None:
    for name in sorted(set(providers()) - set(SCENES)):
        demo = run(f"--{name}", "--folder", str(tmp_path / "home"))
        told, _ = demo.communicate(timeout=SECONDS)
        assert (demo.returncode, "is not simulated" in told) == (2, True), told
    with pytest.raises(ConfigError, match="there is no 'carrier-pigeon'"):
        tell("carrier-pigeon", tmp_path / "home")


def test_without_a_synapse_it_says_how_to_come_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenes, "PYTHON", tmp_path / "nothing")

    with pytest.raises(ConfigError, match="make setup"):
        tell("matrix", tmp_path / "home")


def test_it_never_writes_into_a_store_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "threadline.db").touch()

    with pytest.raises(ConfigError, match="exists already"):
        tell("telegram", tmp_path)
