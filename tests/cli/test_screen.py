"""The screen: light to start, plain to read, and deaf to what strangers write."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.conftest import LOBBY, Shell
from threadline import Actor, ConversationRef, InboundMessage, Threadline
from threadline.entrypoints.cli import app

COMMANDS = (
    "init", "import", "conversations", "history", "join", "leave", "members", "tail", "ack",
    "append", "bind", "unbind", "group", "sessions", "search", "doctor", "demo",
)  # fmt: skip
HOSTILE = "[bold red]big[/] \x1b[2J\x1b]0;title\x07 \u202egnp.exe \r\x9b31m[/nothing]"


def test_the_help_needs_no_driver_and_no_flow() -> None:
    check = (
        "import sys, threadline.entrypoints.cli;"
        "print([m for m in sys.modules if m in {'apsw', 'asyncpg', 'ijson', 'msgspec'}"
        " or m.startswith(('threadline.flows', 'threadline.stores', 'threadline.archives'))])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


# What it writes is for people, and what it writes is a protocol.
NO_JSON = {"demo", "mcp"}


def test_every_command_is_there_with_help_and_nearly_all_give_json() -> None:
    known = {one.name: one.callback for one in app.registered_commands}

    assert set(COMMANDS) <= set(known)
    for name, function in known.items():
        assert function is not None
        assert function.__doc__
        assert ("as_json" in function.__annotations__) == (name not in NO_JSON), name


@pytest.mark.parametrize(
    "words",
    [["history", LOBBY], ["tail", "helper", "--once"], ["search", "big"]],
    ids=["history", "tail", "search"],
)
def test_what_strangers_write_never_reaches_the_terminal_as_a_command(
    ready: Shell, words: list[str]
) -> None:
    async def say(line: Threadline) -> None:
        await line.inbound.append(
            InboundMessage(
                conversation=ConversationRef.parse(LOBBY), actor=Actor("U1", HOSTILE), text=HOSTILE
            )
        )
        await line.members.join(LOBBY, "helper")

    ready.inside(say)

    done = ready.good(*words)

    assert all(one.isprintable() for one in done.out.replace("\n", ""))
    assert "[bold red]big[/]" in done.out
    assert "[/nothing]" in done.out


def test_an_error_repeats_nothing_that_steers_the_terminal(ready: Shell) -> None:
    done = ready("history", "slack/\x1b[2J/C9\x07")

    assert done.code == 3
    assert all(one.isprintable() for one in done.err.replace("\n", ""))
