"""`threadline mcp`: the tools for an agent that starts its servers itself.

It holds nothing: every message goes to the running server and back, so it may be killed at any
moment, and the server may be started anew beneath it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Annotated

import typer

from threadline.entrypoints.cli.door import leave, settings_of
from threadline.entrypoints.cli.options import Home


def mcp(
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            show_default=False,
            help="The server; left out, THREADLINE_URL, or the one of this machine.",
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            show_default=False,
            help="The session's token; left out, THREADLINE_TOKEN.",
        ),
    ] = None,
    home: Home = None,
) -> None:
    """Give an agent the conversations of one session as tools, on standard input and output.

    It speaks the Model Context Protocol and is started by the agent itself. Which tools there are
    depends on the scopes of the session's token. `threadline serve` has to run.

      threadline mcp --token-file helper.token
      threadline mcp --url https://chat.example --token-file helper.token
    """

    def run() -> int:
        from threadline.core.errors import ConfigError, McpUnavailable
        from threadline.entrypoints.cli.attaching import door_of

        settings = settings_of(None, None, home)
        asked = url or os.environ.get("THREADLINE_URL", "").strip() or None
        if token_file is None and not os.environ.get("THREADLINE_TOKEN", "").strip():
            raise ConfigError(
                "give a session's token with THREADLINE_TOKEN or --token-file. Make one with "
                "`threadline token create --kind session --session NAME`."
            )
        where, token = door_of(settings, asked, token_file)
        try:
            from threadline.entrypoints.cli.bridged import bridge
        except ModuleNotFoundError as missing:
            if missing.name is None or missing.name.startswith("threadline"):
                raise
            raise McpUnavailable("run: pip install 'threadline[mcp]'") from None
        # It holds nothing, and whoever reads standard input cannot be woken from it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        asyncio.run(bridge(where, token))
        return 0

    leave(run)
