"""`python -m threadline.testing.simulators '{"name": "telegram", "port": 0}'`: for programs.

People use `threadline simulate`. The argument is what `serving.served` takes; the answer is one
line of JSON with the URL.
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


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    state = asked.pop("state", None)
    asyncio.run(serve(announce=announce, state=state and Path(state), **asked))
