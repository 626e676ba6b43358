"""How the nodes of one PostgreSQL ring each other: NOTIFY, on a connection of its own.

A notification says which conversations and sessions were concerned and no more. It is sent after
the commit and off its path: what could not be sent in time is gathered into the next one, and what
is too long becomes `*`, ring everybody. A lost connection loses rings, so everybody is rung when
it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from threadline.stores.wakeups import Wakeups

PAYLOAD_BYTES = 7_999
EVERYBODY = "*"
BACK_OFF_SECONDS = (0.05, 5.0)
ALIVE_SECONDS = 30.0


def payload(conversations: set[int], sessions: set[int]) -> str:
    """What one notification says.

    >>> payload({7}, {3})
    '7,s3'
    """
    words = ",".join([*map(str, conversations), *(f"s{number}" for number in sessions)])
    return words if len(words) <= PAYLOAD_BYTES else EVERYBODY


class Intercom:
    """One node's line to the others."""

    def __init__(
        self, connect: Callable[[], Awaitable[asyncpg.Connection]], wakeups: Wakeups
    ) -> None:
        self._connect = connect
        self._wakeups = wakeups
        self._connection: asyncpg.Connection | None = None
        self._channel = ""
        self._conversations: set[int] = set()
        self._sessions: set[int] = set()
        self._everybody = False
        self._stirred = asyncio.Event()
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen; whatever is committed from now on is heard."""
        await self._listen()
        self._task = asyncio.create_task(self._run())

    def announce(self, conversations: set[int], sessions: set[int]) -> None:
        """Tell the other nodes what was committed, soon."""
        self._conversations |= conversations
        self._sessions |= sessions
        self._stirred.set()

    async def close(self) -> None:
        """Say what is still to be said, then hang up."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._connection is not None:
            with contextlib.suppress(Exception):
                await self._say()
            await hang_up(self._connection)

    async def _run(self) -> None:
        delay, longest = BACK_OFF_SECONDS
        while not self._closed:
            try:
                if self._connection is None or self._connection.is_closed():
                    await self._listen()
                    self._wakeups.ring_all()
                await self._say()
                delay = BACK_OFF_SECONDS[0]
                try:
                    async with asyncio.timeout(ALIVE_SECONDS):
                        await self._stirred.wait()
                except TimeoutError:
                    await self._still_there()
            except Exception:
                if self._connection is not None:
                    self._connection.terminate()
                await asyncio.sleep(delay * random.uniform(0.5, 1.5))
                delay = min(delay * 2, longest)

    async def _listen(self) -> None:
        connection = await self._connect()
        try:
            schema = await connection.fetchval("select current_schema()")
            self._channel = f"threadline:{schema}".encode()[:63].decode(errors="ignore")
            await connection.add_listener(self._channel, self._hear)
        except BaseException:
            # Nobody else knows of it yet, also where the store is closed in this moment.
            connection.terminate()
            raise
        connection.add_termination_listener(lambda _: self._stirred.set())
        self._connection = connection

    async def _still_there(self) -> None:
        assert self._connection is not None
        await self._connection.fetchval("select 1")

    async def _say(self) -> None:
        self._stirred.clear()
        words = EVERYBODY if self._everybody else payload(self._conversations, self._sessions)
        self._conversations, self._sessions = set(), set()
        if words and self._connection is not None:
            # Until it is known to be sent, everybody else may have missed something.
            self._everybody = True
            await self._connection.fetchval("select pg_notify($1, $2)", self._channel, words)
            self._everybody = False

    def _hear(self, connection: Any, pid: int, channel: str, words: Any) -> None:
        if pid == connection.get_server_pid():
            return
        conversations, sessions = [], []
        try:
            for word in str(words).split(","):
                if word.startswith("s"):
                    sessions.append(int(word[1:]))
                else:
                    conversations.append(int(word))
        except ValueError:
            self._wakeups.ring_all()
            return
        self._wakeups.ring(conversations, sessions)


async def hang_up(connection: asyncpg.Connection) -> None:
    """Close a connection, politely if the server is still there."""
    try:
        await connection.close(timeout=2.0)
    except Exception:
        connection.terminate()
