"""Every command works beside a running server, and after one that was killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from tests.http.conftest import Served, message
from threadline.entrypoints.cli.program import app

LOBBY = "web/office/lobby"
NEWS = "web/office/news"
# They serve, wait for what is said, look at no store, or need a platform and are proven with one.
APART = {"serve", "demo", "attach", "config", "connect", "hydrate", "mcp", "save", "simulate"}
HATCH = "threadline.db.hatch"
MAIL = """From a@b Thu Jan  1 00:00:00 2026
From: a@b
Message-ID: <1@b>
Subject: x
Date: Thu, 1 Jan 2026 00:00:00 +0000

hello

"""


def leaves(command: Any, name: str = "") -> Iterator[str]:
    """Every command a person can type."""
    if hasattr(command, "commands"):
        if command.invoke_without_command and name:
            yield name
        for word, below in command.commands.items():
            yield from leaves(below, f"{name} {word}".strip())
    else:
        yield name


def beside(served: Served) -> dict[str, list[str]]:
    """How each command is run."""
    mail = served.folder / "mail.mbox"
    mail.write_text(MAIL)
    spare = served.command("token", "create", "--kind", "session", "--session", "x", "--json")
    assert spare.returncode == 0, spare.stderr
    later = served.command(
        *["send", "coder", NEWS, "Good morning", "--daily", "08:30", "--zone", "UTC", "--json"]
    )
    assert later.returncode == 0, later.stderr
    return {
        "init": [],
        "import": [str(mail), "--as", "mail/list"],
        "append": [LOBBY, "hello", "--from", "ada"],
        "conversations": [],
        "show": [LOBBY],
        "history": [LOBBY],
        "search": ["hello"],
        "members": [LOBBY],
        "sessions": [],
        "join": [LOBBY, "reader"],
        "leave": [LOBBY, "reader"],
        "tail": ["coder", "--once"],
        "ack": [LOBBY, "coder", "1"],
        "bind": [LOBBY, "coder"],
        "publish": [LOBBY, "done", "--as", "coder"],
        "tell": ["other", "look", "--as", "coder"],
        "send": ["coder", NEWS, "The build is red", "--wait"],
        "sends": [],
        "sends cancel": [json.loads(later.stdout)["id"]],
        "grant": ["other", "web/office"],
        "grants": ["other"],
        "consent on": ["--room", NEWS],
        "consent show": ["--room", NEWS],
        "consent off": ["--room", NEWS, "--about", "session:other"],
        "person add": ["Ann", "--contact", "email:ann@example.org", "--contact", "alias:ann"],
        "person show": ["email:ann@example.org"],
        "person list": [],
        "person change": ["alias:ann", "--language", "de"],
        "person split": ["email:ann@example.org", "alias:ann"],
        "person merge": ["email:ann@example.org", "alias:ann"],
        "person code": ["alias:ann"],
        "limits": ["recipient_per_day=30"],
        "audit": [],
        "audit verify": [],
        "unbind": [LOBBY],
        "group": [LOBBY],
        "deliveries": [],
        "token create": ["--kind", "controller"],
        "token list": [],
        "token revoke": [json.loads(spare.stdout)["id"]],
        "files": [LOBBY, "1"],
        "context": [LOBBY, "--session", "other"],
        "why": [f"{LOBBY}:3"],
        "link": [LOBBY],
        "accounts": [],
        "doctor": [],
    }


def prepare(served: Served) -> None:
    """A conversation with a speaker and something in it."""
    with served.client() as boss:
        place = {"provider": "web", "account_id": "office", "conversation_id": "lobby"}
        made = boss.post("/v1/conversations", json=place | {"kind": "room"}).json()["id"]
        boss.put(f"/v1/conversations/{made}/binding", json={"session_id": "coder"})
        boss.put(f"/v1/conversations/{made}/group", json={})
        boss.put(f"/v1/conversations/{made}/members/other", json={})
        boss.post(f"/v1/conversations/{made}/transcript", json=message("hello"))
        boss.post("/v1/conversations", json=place | {"conversation_id": "news", "kind": "room"})
    for words in (["grant", "coder", "web/office"], ["consent", "on", "--room", NEWS]):
        assert served.command(*words).returncode == 0


def test_every_command_works_beside_a_running_server(served: Served) -> None:
    """Each is named here, so that a new one is not forgotten."""
    prepare(served)
    ways = beside(served)
    known = set(leaves(typer.main.get_command(app)))
    assert known - APART == set(ways), "say here how it is run beside a server"

    failed: dict[str, Any] = {}
    for name, words in ways.items():
        done = served.command(*name.split(), *words)
        if done.returncode != 0:
            failed[name] = done.stderr or done.stdout

    assert failed == {}
    with served.client() as boss:
        assert boss.get("/v1/conversations").status_code == 200


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["show", "web/office/none"], "not_found"),
        (["ack", LOBBY, "coder", "99"], "invalid_input"),
        (["bind", LOBBY, "other"], "binding_conflict"),
        (["join", LOBBY, "a/b"], "invalid_input"),
    ],
)
def test_what_is_refused_beside_a_server_is_refused_as_ever(
    served: Served, words: list[str], code: str
) -> None:
    prepare(served)

    done = served.command(*words, "--json")

    assert done.returncode != 0
    assert json.loads(done.stderr)["error"]["code"] == code


def test_a_server_that_stops_takes_its_hatch_with_it(served: Served) -> None:
    """A killed one leaves it, which stops neither a command nor the next server."""
    hatch = served.home / HATCH
    assert hatch.exists()
    served.kill()
    assert hatch.exists()
    assert served.command("conversations").returncode == 0
    served.start()
    assert served.command("conversations").returncode == 0
    assert served.stop() == 0
    assert not hatch.exists()
