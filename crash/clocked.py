"""A server whose clock is ahead by what a file says: `python -m crash.clocked JSON`.

It opens the store in `folder`, listens on `port`, and says its address and a controller's token as
one line of JSON. It ends when it is killed, or when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from crash.workload import KEY
from threadline import Threadline
from threadline.core.model import Controller
from threadline.entrypoints.http.server import Server, ServerSettings, listening, make_app


class Clock:
    """The time of this machine and as many seconds more as stand in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._ahead = 0.0

    def __call__(self) -> datetime:
        with suppress(OSError, ValueError):
            self._ahead = float(self._file.read_text("ascii"))
        return datetime.now(UTC) + timedelta(seconds=self._ahead)

    def set(self, ahead: float) -> None:
        """Let it be so far ahead, for everybody who reads the file, from one moment on."""
        beside = self._file.with_suffix(".new")
        beside.write_text(f"{ahead}", "ascii")
        beside.replace(self._file)


async def serve(asked: dict[str, Any]) -> None:
    """Serve until the end."""
    folder = Path(asked["folder"])
    settings = ServerSettings(port=asked["port"])
    ended = asyncio.Event()
    # It ends when whoever started it does, however that ends.
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    async with Threadline.open(
        f"sqlite:{folder / 't.db'}",
        key=KEY,
        indexing=False,
        allow_private=True,
        clock=Clock(folder / "clock"),
    ) as line:
        made = await line.tokens.create("controller", scope="default", caller=Controller(None))
        with listening(settings) as sock:
            settings = ServerSettings(port=sock.getsockname()[1])

            def started() -> None:
                print(json.dumps({"url": settings.url, "token": made.token}), flush=True)

            server = Server(make_app(line, settings=settings), settings, started)
            serving = asyncio.create_task(server._serve([sock]))
            await ended.wait()
            server.should_exit = True
            await serving


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
