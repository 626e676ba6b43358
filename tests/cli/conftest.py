"""The real script, in a process of its own, on a store of its own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.warm import PROGRAM, Popen, run
from threadline import Actor, ConversationRef, InboundMessage, Threadline

T = TypeVar("T")

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
        """The refusal on standard error; nothing else may stand there."""
        [line] = self.err.splitlines()
        [(name, found)] = json.loads(line).items()
        assert name == "error"
        return found


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
        home = {"THREADLINE_HOME": str(self.folder / "home"), "NO_COLOR": "1", "TZ": "Asia/Tokyo"}
        return kept | home | self.settings

    def __call__(
        self,
        *words: str | Path | int,
        said: str | bytes = b"",
        before: Callable[[], None] | None = None,
    ) -> Done:
        """Run one command to its end. `before` runs in its process first."""
        done = run(
            [PROGRAM, *map(str, words)],
            said=said.encode() if isinstance(said, str) else said,
            cwd=self.folder,
            env=self.environment,
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

    def inside(self, work: Callable[[Threadline], Coroutine[Any, Any, T]]) -> T:
        """Do something with the store itself, in this process."""

        async def opened() -> T:
            async with Threadline.open(f"sqlite:{self.store}", indexing=False) as line:
                return await work(line)

        return asyncio.run(opened())

    def heard(self, *texts: str, where: str = LOBBY) -> None:
        """Somebody says something; no process is started for it."""

        async def say(line: Threadline) -> None:
            for text in texts:
                await line.inbound.append(
                    InboundMessage(
                        conversation=ConversationRef.parse(where), actor=Actor("Ada"), text=text
                    )
                )

        self.inside(say)

    def joined(self, session: str, policy: str = "all", where: str = LOBBY) -> None:
        """A session joins; no process is started for it."""

        async def join(line: Threadline) -> None:
            await line.members.join(where, session, policy=policy)

        self.inside(join)

    def damage(self) -> list[str]:
        """What the store's own check finds."""

        async def read(line: Threadline) -> list[str]:
            async with line.store.check() as found:
                return [sentence async for sentence in found]

        return self.inside(read)

    def texts(self, where: str = LOBBY) -> list[str]:
        """What the transcript of a conversation holds, oldest first."""

        async def read(line: Threadline) -> list[str]:
            page = await line.conversations.transcript(where, order="asc", limit=500)
            return [record.text for record in page.records]

        return self.inside(read)

    def content(self) -> list[str]:
        """Every conversation with its head, every member and session, every damage."""

        async def read(line: Threadline) -> list[str]:
            states, _ = await line.conversations.page(limit=500)
            sessions, _ = await line.sessions.page(limit=500)
            found = [f"{one.session_id} {one.retired_at}" for one in sessions]
            for one in states:
                members, _ = await line.members.of(one.ref, limit=500)
                found.append(f"{one.ref} {one.kind} {one.head} {one.bound} {one.grouped}")
                found += [f"{it.session_id} {it.cursor} {it.grants}" for it in members]
            async with line.store.check() as damage:
                return found + [sentence async for sentence in damage]

        return self.inside(read)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start one command and let it run."""
        return Popen(
            [PROGRAM, *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """An empty home: no store yet."""
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose store has one conversation of one record, which has the id m1."""
    shell = Shell(tmp_path_factory.mktemp("made"))
    shell.good("init")
    shell.good("append", LOBBY, "Good morning", "--from", "Ada", "--id", "m1")
    return shell.folder


@pytest.fixture
def ready(shell: Shell, made: Path) -> Shell:
    """A copy of that store."""
    shutil.copytree(made / "home", shell.folder / "home")
    return shell
