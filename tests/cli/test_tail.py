"""`tail` hands on what a session has not read, each once, and follows."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

from tests.cli.conftest import LOBBY, Shell


def line_of(running: subprocess.Popen[str]) -> Any:
    """The next JSON line."""
    assert running.stdout is not None
    return json.loads(running.stdout.readline())


def test_a_tail_ends_when_dry_and_repeats_what_was_not_acknowledged(ready: Shell) -> None:
    ready.joined("helper")

    first = ready.good("tail", "helper", "--once", "--json").lines
    again = ready.good("tail", "helper", LOBBY, "--once", "--ack", "--json").lines
    last = ready.good("tail", "helper", "--once", "--json").lines

    assert [one["event"] for one in first] == ["record", "caught_up"]
    assert first[0]["record"]["text"] == "Good morning"
    assert first[0]["text"] == LOBBY
    assert again[0]["record"] == first[0]["record"]
    assert [one["event"] for one in last] == ["caught_up"]


def test_a_tail_follows_what_other_commands_say_and_ends_by_ctrl_c(ready: Shell) -> None:
    """A SQLite file belongs to one process at a time; the tail lets the others in."""
    ready.joined("helper")
    running = ready.start("tail", "helper", "--json")
    backlog = [line_of(running), line_of(running)]

    ready.good("append", LOBBY, "one")
    ready.good("append", "web/office/attic", "two")
    ready.good("join", "web/office/attic", "helper")
    ready.good("append", LOBBY, "three")
    followed = [line_of(running) for _ in range(4)]
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)

    assert [one["event"] for one in backlog] == ["record", "caught_up"]
    said = [one["record"]["text"] for one in followed if one["event"] == "record"]
    assert sorted(said) == ["one", "three", "two"]
    assert said.index("one") < said.index("three")
    assert (running.returncode, out, err) == (130, "", "")


def test_a_tail_shows_the_words_below_their_conversation(ready: Shell) -> None:
    ready.joined("helper")

    words = ready.good("tail", "helper", "--once")

    assert words.out.splitlines()[0] == LOBBY
    assert "Good morning" in words.out
    assert "nothing more for now" in words.err
