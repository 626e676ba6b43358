"""Sessions speak from the command line as they do from a program."""

from __future__ import annotations

import pytest

from tests.cli.conftest import LOBBY, Shell


@pytest.fixture
def bound(ready: Shell) -> Shell:
    """The lobby, bound to `coder`."""
    ready.good("bind", LOBBY, "coder", "--policy", "all")
    return ready


@pytest.mark.acceptance("G1", "G3")
def test_a_session_says_something_once_under_a_key(bound: Shell) -> None:
    """The answer's record is told, and a second time nothing is said."""
    words = ("publish", LOBBY, "Good evening", "--as", "coder", "--reply-to", "1", "--key", "k1")

    first = bound.good(*words, "--json")
    again = bound.good(*words, "--json")

    assert (first.json["state"], first.json["sequence"]) == ("delivered", 2)
    assert (again.json["id"], again.json["repeated"]) == (first.json["id"], True)
    assert "Said before" in bound.good(*words).out
    [record] = bound.good("history", LOBBY, "--after", "1", "--json").json["records"]
    assert (record["text"], record["reply_to"], record["source_session_id"]) == (
        "Good evening",
        "m1",
        "coder",
    )


@pytest.mark.acceptance("G4")
def test_a_reader_is_told_that_it_does_not_speak(bound: Shell) -> None:
    """And nothing is written."""
    bound.good("join", LOBBY, "reader")

    refused = bound("publish", LOBBY, "Me too", "--as", "reader", "--json")

    assert (refused.code, refused.error["code"]) == (1, "unauthorized")
    assert bound.good("deliveries").out.strip() == "Nothing was said yet."


@pytest.mark.acceptance("G2")
def test_what_is_refused_says_why_and_is_listed(bound: Shell) -> None:
    """The exit code is a refusal's."""
    refused = bound("publish", LOBBY, "-", "--as", "coder", said="x" * 100_001)

    assert refused.code == 1
    assert "100001 characters" in refused.out
    [listed] = bound.good("deliveries", LOBBY, "--of", "coder", "--json").json["deliveries"]
    assert (listed["state"], listed["failure"], listed["sequence"]) == ("failed", "permanent", None)
    assert "failed: the text has" in " ".join(bound.good("deliveries").out.split())


@pytest.mark.acceptance("J4")
def test_one_session_writes_to_another(bound: Shell) -> None:
    """In the conversation of the two, which is made at the first word."""
    bound.good("join", LOBBY, "reviewer")

    sent = bound.good("tell", "reviewer", "Please look", "--as", "coder", "--json").json

    assert sent["ref"]["provider"] == "internal"
    tail = bound.good("tail", "reviewer", "--once", "--json")
    assert "Please look" in tail.out
