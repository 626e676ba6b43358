"""`python -m threadline.testing.simulators '{"name": "telegram", "port": 0}'`: for programs.

People use `threadline simulate`. The argument is what `serving.served` takes; the answer is one
line of JSON with the URL. It ends when its input does, so that it never outlives who started it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from threadline.testing.simulators.serving import as_line, serve


def announce(about: dict[str, Any]) -> None:
    """Say where it is."""
    sys.stdout.write(as_line(about))
    sys.stdout.flush()


async def main(asked: dict[str, Any]) -> None:
    """Serve until told to stop, or until nobody holds the other end of our input."""
    state = asked.pop("state", None)
    held = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(held), sys.stdin
    )
    serving = asyncio.create_task(serve(announce=announce, state=state and Path(state), **asked))
    holding = asyncio.create_task(held.read())
    await asyncio.wait([serving, holding], return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        serving.result()
    else:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
