"""The same commands on PostgreSQL, where several may be at work at the same time."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import LOBBY, Shell


@pytest.fixture
def node(shell: Shell, postgres_url: str) -> Shell:
    """Settings that name a database; the key is made by the first command."""
    shell.settings["THREADLINE_STORE"] = postgres_url
    shell.settings["THREADLINE_KEY_FILE"] = str(shell.folder / "key")
    return shell


def test_a_tail_follows_while_others_append(node: Shell) -> None:
    node.good("init")
    node.good("append", LOBBY, "one")
    node.good("join", LOBBY, "helper")
    running = node.start("tail", "helper", "--json")
    assert running.stdout is not None
    backlog = [json.loads(running.stdout.readline()) for _ in range(2)]

    node.good("append", LOBBY, "two")
    followed = json.loads(running.stdout.readline())
    running.terminate()
    running.communicate(timeout=60)

    assert [one["event"] for one in backlog] == ["record", "caught_up"]
    assert followed["record"]["text"] == "two"


def test_the_doctor_examines_it_and_never_shows_the_password(node: Shell) -> None:
    node.good("append", LOBBY, "one", "--json")

    done = node.good("doctor", "--json")

    assert done.json["well"]
    assert done.json["facts"]["check"] == "every number and digest is right"


def test_a_password_is_never_shown(node: Shell) -> None:
    node.settings["THREADLINE_STORE"] = "postgresql://ada:hush@127.0.0.1:1/none"

    told = node("doctor")
    given = node("conversations", "--json")

    assert (told.code, given.code) == (1, 4)
    assert "hush" not in told.out + told.err + given.out + given.err
    assert given.error["code"] == "store_unavailable"


def test_a_database_without_a_key_file_is_refused_with_what_to_set(node: Shell) -> None:
    del node.settings["THREADLINE_KEY_FILE"]

    done = node("init", "--json")

    assert (done.code, done.error["code"]) == (2, "config_error")
    assert "KEY_FILE" in done.error["message"].upper()
