"""Threadline in processes of their own: one that appends beside us, and some that are killed.

    python -m tests.acceptance.apart append URL FIRST LAST
    python -m tests.acceptance.apart kill URL
    python -m tests.acceptance.apart make URL

`append` says `ready`, waits for a line, appends its messages all at once and prints the sequences.
`kill` runs one story again and again, each time in a forked process that ends itself with `kill -9`
at the first, second, third … write, until a run survives; every run prints what it was killed at
and what had been acknowledged by then. `make` does the same to the making of a store.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import signal
import sys
import traceback
from asyncio import selector_events
from pathlib import Path
from typing import Any

import apsw

from tests.conftest import KEY, open_at
from tests.speech import numbered, said
from threadline import Threadline
from threadline.core.model import ConversationRef

SAID = 4


def room(point: int) -> ConversationRef:
    """Where the run that is killed at this write says something."""
    return ConversationRef("slack", "T1", f"C{point}")


class Fuse:
    """Ends the process at a chosen write, halfway through it."""

    def __init__(self, left: int) -> None:
        self.left = left

    def burn(self) -> bool:
        """Whether this is the last write."""
        self.left -= 1
        return self.left == 0


def die() -> None:
    """End as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


class DyingFile(apsw.VFSFile):
    """A file whose writing and syncing may be the last thing its process does."""

    fuse: Fuse

    def xWrite(self, data: Any, offset: int) -> None:
        """Write, or write half of it and die."""
        if self.fuse.burn():
            super().xWrite(bytes(data)[: len(data) // 2], offset)
            die()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        """Sync, or die before it."""
        if self.fuse.burn():
            die()
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:
        """Truncate, or die before it."""
        if self.fuse.burn():
            die()
        super().xTruncate(size)


class DyingDisk(apsw.VFS):
    """The file system under a process that will not live long; gone when nobody keeps it."""

    name = "dying"

    def __init__(self, fuse: Fuse) -> None:
        self.fuse = fuse
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> DyingFile:
        """Every file of the store burns the same fuse."""
        file = DyingFile("", name, flags)
        file.fuse = self.fuse
        return file


def die_while_sending(fuse: Fuse) -> None:
    """Let the fuse burn with everything the process sends to its database."""
    transport: Any = selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
    send = transport.write

    def write(self: Any, data: bytes) -> None:
        if fuse.burn():
            os.write(self.get_extra_info("socket").fileno(), bytes(data)[: len(data) // 2])
            die()
        send(self, data)

    transport.write = write


async def tell(url: str, point: int, acknowledged: int) -> None:
    """Say something, join, bind and move on, each after the other; report what was answered."""
    fuse = Fuse(point)
    options: dict[str, Any] = {}
    if url.startswith("sqlite:"):
        disk = DyingDisk(fuse)
        options["vfs"] = disk.name
    line = Threadline(await open_at(url, KEY, **options))
    if not options:
        die_while_sending(fuse)
    where = room(point)
    for message in numbered(1, SAID, conversation=where):
        taken = await line.inbound.receive(message)
        os.write(acknowledged, f"{taken.sequence}\n".encode())
    both = [said("both", f"b{n}", conversation=where) for n in (1, 2)]
    for answer in await line.inbound.receive_all(both):
        os.write(acknowledged, f"{answer.sequence}\n".encode())  # type: ignore[union-attr]
    await line.members.join(where, "reader")
    await line.speakers.bind(where, "agent")
    await line.replay.ack(where, "reader", 2)
    os.write(acknowledged, b"bound\n")
    if options:
        await line.store.close()  # type: ignore[attr-defined]


async def make(url: str, point: int, acknowledged: int) -> None:
    """Make a store."""
    disk = DyingDisk(Fuse(point))
    await (await open_at(url, KEY, vfs=disk.name)).close()
    os.write(acknowledged, b"made\n")


def kill(url: str, story: Any) -> None:
    """Kill at every write in turn; a SQLite store is begun from the same file each time."""
    base = Path(url.removeprefix("sqlite:"))
    for point in itertools.count(1):
        at = url
        if url.startswith("sqlite:"):
            copy = base.with_name(f"killed-{point}.db")
            if base.exists():
                shutil.copy(base, copy)
            at = f"sqlite:{copy}"
        heard, said_by_child = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(heard)
            code = 1
            try:
                asyncio.run(story(at, point, said_by_child))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(said_by_child)
        with os.fdopen(heard) as file:
            acknowledged = file.read().split()
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        ended = os.waitstatus_to_exitcode(status)
        run = {"point": point, "url": at, "killed": killed, "code": ended, "answers": acknowledged}
        print(json.dumps(run), flush=True)
        if not killed:
            return


async def append(url: str, first: int, last: int) -> None:
    """Append all at once, when told to."""
    line = Threadline(await open_at(url, KEY))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    messages = numbered(first, last)
    answers = await asyncio.gather(*(line.inbound.receive(one) for one in messages))
    print(json.dumps([answer.sequence for answer in answers]), flush=True)
    await line.store.close()  # type: ignore[attr-defined]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["append", where, start, end]:
            asyncio.run(append(where, int(start), int(end)))
        case ["kill", where]:
            kill(where, tell)
        case ["make", where]:
            kill(where, make)
