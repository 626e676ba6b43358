"""One run of somebody's command: what it is given, what it may say, and that it ends.

It runs in a process group of its own, which ends with it: at its exit, at its time-out, when we
end, and, by a watcher, also when we are killed. It gets a pipe for its input, a pipe for its
answer, our standard error, and the environment it is meant to have; no other file of ours is open
in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

MAX_REPLY: Final = 100_000
# A character of a reply takes up to six bytes as JSON, and an escaped pair up to twelve.
MAX_OUTPUT: Final = 12 * MAX_REPLY + 4096
# For output that is under way when the command ends.
LAST_WORDS: Final = 1.0

_WATCH = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class Failed(Exception):
    """The command gave no answer that could be said; the text says why."""


def reply_of(output: bytes, *, plain: bool) -> str | None:
    """What a command's output says, None for nothing. Raises `Failed`.

    >>> reply_of(b'{"reply": "Hello"}', plain=False), reply_of(b" \\n", plain=False)
    ('Hello', None)
    """
    try:
        text = output.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise Failed("its output is no UTF-8 text") from None
    if not text:
        return None
    reply: object = text if plain else _said(text)
    if reply is None:
        return None
    if not isinstance(reply, str):
        raise Failed('"reply" is no text')
    reply = reply.strip()
    if not reply.isascii():
        try:
            reply.encode("utf-8")
        except UnicodeEncodeError:
            raise Failed("its reply holds half a character") from None
    if "\x00" in reply:
        raise Failed("its reply holds a NUL")
    if len(reply) > MAX_REPLY:
        raise Failed(f"its reply has {len(reply)} characters, {MAX_REPLY} are allowed")
    return reply or None


def _said(text: str) -> object:
    """The reply in the one JSON object of an output."""
    wanted = 'one JSON object such as {"reply": "Hello"}; with --plain it may be any text'
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise Failed(f"its output is not {wanted}") from None
    if not isinstance(answer, dict):
        raise Failed(f"its output is not {wanted}")
    unknown = sorted(set(answer) - {"reply"})
    if unknown:
        raise Failed(f'its answer has "{unknown[0]}", and only "reply" means something')
    return answer.get("reply")


class Watcher:
    """Ends the groups that are running should we be killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    def _tell(self, line: str) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        if not pipe.is_closing():
            pipe.write(line.encode())

    @contextlib.contextmanager
    def over(self, group: int) -> Iterator[None]:
        """Watch over a process group."""
        self._tell(f"+{group}\n")
        try:
            yield
        finally:
            self._tell(f"-{group}\n")


@asynccontextmanager
async def watching() -> AsyncIterator[Watcher]:
    """A watcher, in a session of its own so that what ends us does not end it first."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-S", "-c", _WATCH),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        cwd="/",
        start_new_session=True,
    )
    try:
        yield Watcher(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


class _Talk(asyncio.SubprocessProtocol):
    """What a command says, bounded, and when it ended."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.output = bytearray()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self.silent: asyncio.Future[None] = loop.create_future()
        self.talks_on = False

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep what is allowed; a command that goes on is not listened to any more."""
        if len(self.output) + len(data) > MAX_OUTPUT:
            self.talks_on = True
            self._end()
        elif not self.talks_on:
            self.output += data

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Standard output is closed, or standard input is: a command need not read it."""
        if fd == 1 and not self.silent.done():
            self.silent.set_result(None)

    def process_exited(self) -> None:
        """The command is over."""
        if not self.gone.done():
            self.gone.set_result(None)
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def run(
    command: Sequence[str],
    given: bytes,
    *,
    environment: Mapping[str, str],
    folder: str,
    seconds: float,
    watcher: Watcher,
) -> bytes:
    """Run a command once; the answer is its standard output. Raises `Failed`.

    Ends with the whole process group gone, however it ends.
    """
    try:
        transport, talk = await asyncio.get_running_loop().subprocess_exec(
            _Talk, *command, env=dict(environment), cwd=folder, start_new_session=True, stderr=None
        )
    except OSError as error:
        raise Failed(f"it cannot be started: {error.strerror or error}") from None
    group = transport.get_pid()
    try:
        with watcher.over(group):
            pipe = transport.get_pipe_transport(0)
            assert isinstance(pipe, asyncio.WriteTransport)
            pipe.write(given)
            pipe.close()
            try:
                async with asyncio.timeout(seconds):
                    await talk.ended
            except TimeoutError:
                raise Failed(f"it did not end within {seconds:g} seconds") from None
            finally:
                _kill(group)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LAST_WORDS):
                        await talk.gone
            if talk.talks_on:
                raise Failed(f"it said more than {MAX_OUTPUT} bytes")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS):
                    await talk.silent
            code = transport.get_returncode()
    finally:
        transport.close()
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        raise Failed(f"it was ended by {name}")
    if code:
        raise Failed(f"it ended with exit code {code}")
    return bytes(talk.output)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
