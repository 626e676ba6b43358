"""Sessions write first from the command line, as far as people and operators let them."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.cli.conftest import LOBBY, Done, Shell

ROOM = ("--room", LOBBY)
DAILY = ("--daily", "08:30", "--zone", "Europe/Berlin")


@pytest.fixture
def allowed(ready: Shell) -> Shell:
    """A session that may write first in the lobby."""
    ready.good("grant", "coder", "web/office")
    ready.good("consent", "on", *ROOM, "--why", "the team asked for it")
    return ready


def actions(shell: Shell, *words: str) -> list[str]:
    """What the audit holds, oldest first."""
    entries = shell.good("audit", *words, "--json").json["entries"]
    return [one["action"] for one in reversed(entries)]


def changed(shell: Shell, sql: str) -> None:
    """Somebody changes the database by hand."""
    with closing(sqlite3.connect(shell.store)) as connection, connection:
        connection.execute(sql)


@pytest.mark.acceptance("H1", "H6", "H12")
def test_a_session_writes_first_and_its_answer_comes_back(ready: Shell) -> None:
    """The whole way: an account, the room's switch, the words, the answer in one transcript."""
    ready.joined("reader")
    words = ("send", "coder", LOBBY, "The build is red.", "--json")

    unknown = ready(*words)
    ready.good("grant", "coder", "web/office")
    unasked = ready(*words)
    ready.good("consent", "on", *ROOM)
    sent = ready.good(*words).json
    answer = ready.good("append", LOBBY, "I am looking.", "--from", "Ann", "--json").json

    assert (unknown.code, unknown.error["code"]) == (3, "session_not_found")
    assert (unasked.code, unasked.error["code"]) == (1, "consent_required")
    assert "threadline consent on" in unasked.error["advice"]
    assert (sent["state"], sent["delivery"]["sequence"]) == ("delivered", 2)
    assert (sent["to"], sent["tried"][0]["outcome"]) == (LOBBY, "delivered")
    assert answer["target_session_id"] == "coder"
    told = ready.good("context", LOBBY, "--session", "coder").out
    assert told.index("The build is red.") < told.index("I am looking.")
    assert ready.texts() == ["Good morning", "The build is red.", "I am looking."]


@pytest.mark.acceptance("H12")
def test_an_account_that_is_taken_away_is_not_used(allowed: Shell) -> None:
    """And whoever lacks one is told how it is granted."""
    [own] = allowed.good("grants", "coder", "--json").json["grants"]
    allowed.good("grant", "coder", "web/office", "--withdraw")

    refused = allowed("send", "coder", LOBBY, "Hello", "--json")
    again = allowed("grant", "coder", "web/office", "--withdraw", "--json")

    assert (own["provider"], own["account_id"], own["by"]) == ("web", "office", "human")
    assert (refused.code, refused.error["code"]) == (1, "unauthorized")
    assert "threadline grant" in refused.error["advice"]
    assert (again.code, again.error["code"]) == (3, "not_found")
    assert "Grant one" in allowed.good("grants", "coder").out
    assert allowed.texts() == ["Good morning"]


@pytest.mark.acceptance("H6")
def test_what_is_turned_off_is_refused_with_who_did_it_and_why(allowed: Shell) -> None:
    allowed.good("consent", "off", *ROOM, "--about", "session:coder", "--why", "too loud")

    refused = allowed("send", "coder", LOBBY, "Hello", "--json")
    shown = allowed.good("consent", "show", *ROOM).out

    assert (refused.code, refused.error["code"]) == (1, "consent_required")
    assert "by human" in refused.error["message"]
    assert "too loud" in refused.error["message"]
    assert "the team asked for it" in shown
    assert "too loud" in shown
    assert actions(allowed)[-2:] == ["consent.off", "send.refused"]


@pytest.mark.acceptance("H7")
def test_a_limit_is_named_with_when_it_frees_and_changed_at_once(allowed: Shell) -> None:
    allowed.good("limits", "recipient_per_hour=1", "session-per-day=9")
    allowed.good("send", "coder", LOBBY, "One")

    refused = allowed("send", "coder", LOBBY, "Two", "--json")
    allowed.good("limits", "recipient_per_hour=0")
    allowed.good("send", "coder", LOBBY, "Two")

    assert (refused.code, refused.error["code"]) == (1, "limit_reached")
    assert refused.error["facts"]["limit"] == "recipient_per_hour"
    found = allowed.good("limits", "--json").json
    assert (found["limits"]["recipient_per_hour"], found["limits"]["session_per_day"]) == (0, 9)
    assert found["by"] == "human"
    assert "unlimited" in allowed.good("limits").out
    assert allowed.texts() == ["Good morning", "One", "Two"]


def test_a_key_and_an_intent_say_it_once(allowed: Shell) -> None:
    """The key is the same request again; the intent is the same thing by somebody else."""
    allowed.good("grant", "guide", "web/office")
    allowed.good("send", "coder", LOBBY, "Red!", "--key", "k", "--intent", "build-7")

    again = allowed.good("send", "coder", LOBBY, "Red!", "--key", "k", "--intent", "build-7")
    other = allowed("send", "coder", LOBBY, "Blue!", "--key", "k", "--json")
    twice = allowed.good("send", "coder", LOBBY, "It is red", "--intent", "build-7", "--json").json

    assert "Asked for before under this key" in again.out
    assert (other.code, other.error["code"]) == (1, "idempotency_conflict")
    assert (twice["state"], twice["first"]["session_id"]) == ("suppressed", "coder")
    assert actions(allowed)[-1] == "send.suppressed"
    assert [text for text in allowed.texts() if "red" in text.casefold()] == ["Red!"]


def test_a_send_of_every_day_is_listed_told_and_taken_back(allowed: Shell) -> None:
    made = allowed.good("send", "coder", LOBBY, "Good morning", *DAILY, "--json").json

    listed = allowed.good("sends", "--session", "coder").out
    told = allowed.good("why", made["id"]).out
    cancelled = allowed.good("sends", "cancel", made["id"], "--json").json

    assert (made["state"], made["repeat"]["zone"]) == ("scheduled", "Europe/Berlin")
    assert "daily at 08:30 Europe/Berlin" in " ".join(listed.split())
    assert "scheduled for" in told
    assert (cancelled["state"], cancelled["reason"]) == ("cancelled", "taken back.")
    assert "cancelled: taken back." in " ".join(allowed.good("sends").out.split())
    assert allowed.texts() == ["Good morning"]


def test_a_delivery_says_which_send_it_belongs_to(allowed: Shell) -> None:
    """And either leads to the other."""
    sent = allowed.good("send", "coder", LOBBY, "Hello", "--wait", "--json").json

    [delivery] = allowed.good("deliveries", "--json").json["deliveries"]
    by_record = allowed.good("why", f"{LOBBY}:2", "--json").json
    by_send = allowed.good("why", sent["id"], "--json").json

    assert (delivery["send"], delivery["id"]) == (sent["id"], sent["delivery"]["id"])
    assert by_record == by_send
    assert by_send["send"]["tried"][0]["delivery"] == by_send["delivery"]["id"]
    assert sent["id"] in allowed.good("deliveries").out
    assert "web/office" in allowed.good("why", sent["id"]).out


def test_people_are_added_found_merged_split_and_given_codes(ready: Shell) -> None:
    """Every command takes whatever finds the person."""
    ann = ("person", "show", "email:ann@example.org", "--json")
    ready.good("person", "add", "Ann", "--contact", "email:ann@example.org", "--language", "de")
    ready.good("person", "add", "A. Lee", "--contact", "telegram:4711", "--verified")

    merged = ready.good("person", "merge", "email:ann@example.org", "telegram:4711", "--json").json
    changed = ready.good(
        *("person", "change", "telegram:4711", "--name", "Ann Lee", "--contact", "slack:U1"),
        *("--contact", "alias:ann", "--realm", "T1", "--without", "email:ann@example.org"),
        "--json",
    ).json
    split = ready.good("person", "split", "alias:ann", "telegram:4711", "--json").json
    code = ready.good("person", "code", "alias:ann", "--provider", "telegram").out

    assert [one["verified_at"] is None for one in merged["contacts"]] == [True, False]
    assert len(merged["merged"]) == 1
    assert [(one["provider"], one["realm"]) for one in changed["contacts"]] == [
        ("alias", ""),
        ("slack", "T1"),
        ("telegram", ""),
    ]
    assert (changed["id"], changed["name"]) == (merged["id"], "Ann Lee")
    assert (ready(*ann).code, ready(*ann).error["code"]) == (3, "not_found")
    assert split["id"] != merged["id"]
    assert [one["address"] for one in split["contacts"]] == ["4711"]
    assert len(code.split()[0]) == 9
    people = ready.good("person", "list", "--json").json["people"]
    assert sorted(one["name"] for one in people) == ["4711", "Ann Lee"]


@pytest.mark.acceptance("H6")
def test_a_persons_consent_is_decided_by_whatever_finds_them(ready: Shell) -> None:
    ready.good("person", "add", "Ann", "--contact", "email:ann@example.org")
    ready.good("consent", "on", "--person", "email:ann@example.org", "--about", "telegram")

    [row] = ready.good("consent", "show", "--person", "email:ann@example.org", "--json").json[
        "consents"
    ]

    assert (row["about"], row["state"], row["by"]) == ("telegram", "on", "human")
    assert ready("consent", "on", "--json").error["facts"] == {"field": "person"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--daily", "08:30"], "--zone"),
        (["--daily", "8:30", "--zone", "Europe/Berlin"], "08:30"),
        (["--daily", "08:30", "--zone", "Berlin"], "time zone"),
        (["--at", "tomorrow"], "2030-01-31"),
        (["--at", "2030-01-31T12:00"], "at has no zone"),
        (["--at", "2020-01-31T12:00Z"], "at is past"),
        (["--template", "name"], "JSON"),
        (["--template", "[]"], "JSON object"),
    ],
)
def test_what_is_mistyped_is_said_and_nothing_is_written(
    allowed: Shell, words: list[str], said: str
) -> None:
    refused = allowed("send", "coder", LOBBY, "Hello", *words, "--json")

    assert (refused.code, refused.error["code"]) == (2, "invalid_input")
    assert said in refused.error["message"]
    assert allowed.good("sends", "--json").json["sends"] == []


def test_the_other_commands_say_what_is_wrong_too(allowed: Shell) -> None:
    def refusal(*words: str) -> tuple[int, str]:
        done: Done = allowed(*words, "--json")
        return done.code, done.error["code"]

    assert refusal("grant", "coder", "web") == (2, "invalid_input")
    assert refusal("limits", "recipient_per_hour=many") == (2, "invalid_input")
    assert refusal("limits", "nothing=1") == (2, "invalid_input")
    assert refusal("send", "coder", "somebody", "Hello") == (2, "invalid_input")
    assert refusal("audit", "--since", "2026-01-31") == (2, "invalid_input")
    assert refusal("sends", "cancel", "none") == (3, "not_found")
    assert refusal("person", "show", "none") == (3, "not_found")
    assert refusal("consent", "on", "--room", "web/office/none") == (3, "not_found")


def test_the_audit_tells_what_was_allowed_refused_and_done(allowed: Shell) -> None:
    """Without a word of what was said."""
    allowed.good("send", "coder", LOBBY, "The secret word", "--json")
    allowed("send", "coder", LOBBY, "-", said="")

    assert actions(allowed)[:4] == ["account.granted", "consent.on", "send", "send.delivered"]
    assert actions(allowed, "--action", "send") == ["send"]
    assert actions(allowed, "--since", "2200-01-01T00:00Z") == []
    assert actions(allowed, "--before", "2") == ["account.granted"]
    assert "secret" not in allowed.good("audit", "--json").out
    assert "consent.on" in allowed.good("audit").out
    assert "Whole" in allowed.good("audit", "verify").out


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("update audit set body = replace(body, 'human', 'nobody') where number = 2", 2),
        ("delete from audit where number = 1", 1),
        ("delete from audit where number = 2", 2),
    ],
    ids=["changed", "taken out", "cut off"],
)
def test_an_audit_that_was_changed_by_hand_is_found(allowed: Shell, sql: str, place: int) -> None:
    """The code is 1, and the entry is named."""
    before = allowed.good("audit", "verify", "--json").json
    changed(allowed, sql)

    after = allowed("audit", "verify", "--json")

    assert before == {"whole": True, "entries": 2, "broken_at": None, "reason": ""}
    assert after.code == 1
    assert (after.json["whole"], after.json["broken_at"]) == (False, place)
    assert f"entry {place}" in allowed("audit", "verify").out
