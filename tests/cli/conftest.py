"""The real script, in a process of its own, on a store of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(sys.executable).with_name("threadline"))
EXPORTS = Path(__file__).parent.parent / "data" / "exports"
LOBBY = "web/office/lobby"


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> Any:
        """The JSON object on standard error; nothing else may stand there."""
        [line] = self.err.splitlines()
        return json.loads(line)


@dataclass
class Shell:
    """Runs `threadline` as a person would, in an empty home."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def store(self) -> Path:
        """Where the store is, unless it is named elsewhere."""
        return self.folder / "home" / "threadline.db"

    @property
    def environment(self) -> dict[str, str]:
        """Ours, without anybody's settings."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("THREADLINE_")}
        home = {"THREADLINE_HOME": str(self.folder / "home"), "NO_COLOR": "1", "TZ": "UTC"}
        return kept | home | self.settings

    def __call__(
        self,
        *words: str | Path | int,
        said: str | bytes = b"",
        before: Callable[[], None] | None = None,
    ) -> Done:
        """Run one command to its end. `before` runs in its process first."""
        done = subprocess.run(
            [PROGRAM, *map(os.fspath, map(_word, words))],
            input=said.encode() if isinstance(said, str) else said,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            timeout=120,
            preexec_fn=before,
        )
        answer = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert "Traceback" not in answer.err, answer.err
        return answer

    def good(self, *words: str | Path | int, said: str | bytes = b"") -> Done:
        """Run one command that has to succeed."""
        done = self(*words, said=said)
        assert done.code == 0, done
        return done

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start one command and let it run."""
        return subprocess.Popen(
            [PROGRAM, *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def _word(word: str | Path | int) -> str | Path:
    return str(word) if isinstance(word, int) else word


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """An empty home: no store yet."""
    return Shell(tmp_path)


@pytest.fixture
def ready(shell: Shell) -> Shell:
    """A store with one conversation of one record, which has the id m1."""
    shell.good("init")
    shell.good("append", LOBBY, "Good morning", "--from", "Ada", "--id", "m1")
    return shell
