"""`threadline simulate`: a platform on this machine, to try an account without having one."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
from pathlib import Path
from typing import Annotated, Any

import typer

from threadline.entrypoints.cli.door import leave
from threadline.entrypoints.cli.options import Json
from threadline.entrypoints.cli.shown import hint, inert, say, write_json
from threadline.testing.simulators import SIMULATORS

NAMES = sorted(SIMULATORS)
NO_PORT = (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL)
# Where a server is, unless it was told otherwise.
SERVER = "http://127.0.0.1:8080"


def simulate(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", show_default=False, help=f"{', '.join(NAMES[:-1])} or {NAMES[-1]}."
        ),
    ],
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="N", help="0 takes a free one.")
    ] = 0,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", metavar="FILE", show_default=False, help="Keep what was said in this file."
        ),
    ] = None,
    webhook: Annotated[
        str,
        typer.Option(
            "--webhook", metavar="URL", show_default=False, help="Where it sends its events."
        ),
    ] = "",
    speed: Annotated[
        float,
        typer.Option(
            "--speed", min=0.001, metavar="N", help="How many times quicker its clocks run."
        ),
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Simulate a platform on this machine: real HTTP, real signatures, and no account anywhere.

    It takes the calls of the platform's own SDK. What people do there, and what goes wrong, is
    asked for at `/_sim/`; it ends with Ctrl-C.

      threadline simulate telegram --port 8181
      threadline connect telegram --set api=http://127.0.0.1:8181 --set token=@token.txt
    """

    def work() -> None:
        needed()
        from threadline.adapters.registry import load, providers
        from threadline.testing.simulators.serving import serve

        if name not in SIMULATORS:
            from threadline.core.errors import InvalidInput

            known = ", ".join(NAMES)
            raise InvalidInput(f"{name!r} is not simulated; these are: {known}.", field="name")

        def announce(about: dict[str, Any]) -> None:
            if as_json:
                write_json(about)
                return
            say(f"A simulated {inert(name)} listens at {about['url']}", "bold")
            known = {"api": about["api"], "public_url": SERVER, **about["credentials"]}
            asked = [one.name for one in load(providers()[name].dialect).asks()]
            words = (f"--set {one}={inert(str(known[one]))}" for one in asked if one in known)
            say(f"threadline connect {inert(name)} {' '.join(words)}")
            hint("Both that and the server need THREADLINE_ADAPTERS_ALLOW_PRIVATE=true.")

        try:
            asyncio.run(serve(name, announce, port=port, state=state, webhook=webhook, speed=speed))
        except sqlite3.Error as error:
            from threadline.core.errors import ConfigError

            raise ConfigError(f"cannot keep its state in {state}: {error}.") from None
        except OSError as error:
            if error.errno not in NO_PORT:
                raise
            from threadline.core.errors import ConfigError

            raise ConfigError(
                f"cannot listen on port {port}: {os.strerror(error.errno or 0)}. Choose another "
                "with --port."
            ) from None

    leave(work, as_json=as_json)


def needed() -> None:
    """Raise `ConfigError` where what simulators run on is not installed."""
    try:
        import threadline.testing.simulators.serving  # noqa: F401
    except ModuleNotFoundError as missing:
        from threadline.core.errors import ConfigError

        raise ConfigError(
            f"{missing.name} is not installed. Run: pip install 'threadline[simulators]'"
        ) from None
