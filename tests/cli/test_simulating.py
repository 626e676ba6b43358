"""A platform without an account: what `simulate` prints is the command that connects it."""

from __future__ import annotations

import shlex
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.conftest import Shell
from threadline.testing.simulators import SIMULATORS


@contextmanager
def simulated(shell: Shell, name: str) -> Iterator[list[str]]:
    """A platform somebody started, and the command that it told them."""
    running: subprocess.Popen[str] = shell.start("simulate", name)
    assert running.stdout is not None
    try:
        told = next(line for line in running.stdout if line.startswith("threadline connect "))
        yield shlex.split(told)[1:]
    finally:
        running.kill()
        running.communicate()


@pytest.mark.parametrize("name", sorted(SIMULATORS))
def test_the_command_that_a_simulator_prints_connects_it(shell: Shell, name: str) -> None:
    shell.settings["THREADLINE_ADAPTERS_ALLOW_PRIVATE"] = "true"
    with simulated(shell, name) as command:
        made = shell.good(*command, "--json").json

    assert made["state"]["provider"] in (name, "whatsapp")


def test_where_this_machine_may_not_be_called_it_says_what_allows_it(shell: Shell) -> None:
    with simulated(shell, "telegram") as command:
        refused = shell(*command, "--json")

    assert refused.error["code"] == "callback_failed"
    assert "THREADLINE_ADAPTERS_ALLOW_PRIVATE=true" in refused.error["message"]
    assert command[-1].partition("=")[2] not in refused.err


def test_a_port_that_is_taken_is_said_with_what_to_do(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = shell("simulate", "telegram", "--port", port)

    assert (refused.code, refused.out) == (2, "")
    assert f"cannot listen on port {port}: Address already in use" in refused.err
    assert "--port" in refused.err


@pytest.mark.parametrize("state", ["nowhere/state", "words.txt", "."])
def test_a_state_that_cannot_be_kept_is_said(shell: Shell, state: str) -> None:
    (shell.folder / "words.txt").write_text("These are words and no state. " * 50)

    refused = shell("simulate", "telegram", "--state", state)

    assert (refused.code, refused.out) == (2, "")
    assert f"cannot keep its state in {state}: " in refused.err
