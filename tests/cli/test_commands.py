"""Each command does what its help says, in words and as JSON."""

from __future__ import annotations

import pytest

from tests.cli.conftest import EXPORTS, LOBBY, Shell

SLACK = EXPORTS / "slack-export-hfaran-1.zip"
CHAT = EXPORTS / "whatsapp-made-ios-en-gb.txt"


def test_init_makes_a_store_with_its_key_and_may_be_said_again(shell: Shell) -> None:
    first = shell.good("init")
    again = shell.good("init", "--json")

    assert "The store is ready" in first.out
    assert again.json["store"] == f"sqlite:{shell.store}"
    assert shell.store.exists()
    assert (shell.folder / "home" / "threadline.db.key").stat().st_mode & 0o777 == 0o600


def test_a_store_may_be_named_on_the_command_line(shell: Shell) -> None:
    shell.good("init", "--store", "sqlite:team.db")

    assert (shell.folder / "team.db").exists()
    assert not shell.store.exists()


def test_a_home_may_be_named_and_brings_its_own_store(shell: Shell) -> None:
    shell.settings["THREADLINE_STORE"] = "sqlite:elsewhere.db"

    shell.good("init", "--home", "other")

    assert (shell.folder / "other" / "threadline.db").exists()
    assert not (shell.folder / "elsewhere.db").exists()


def test_a_message_is_appended_and_known_the_second_time(ready: Shell) -> None:
    words = ("append", LOBBY, "How are you?", "--from", "Ben", "--actor", "U2", "--id", "m2")

    first = ready.good(*words, "--json")
    again = ready.good(*words, "--json")

    assert not first.json["duplicate"]
    assert again.json["duplicate"]
    assert again.json["record"] == first.json["record"]
    record = first.json["record"]
    assert (record["sequence"], record["text"], record["message_id"]) == (2, "How are you?", "m2")
    assert record["actor"] == {"id": "U2", "name": "Ben", "is_bot": False, "is_self": False}
    assert "Nothing was written" in ready.good(*words).out


def test_a_text_is_read_from_standard_input(ready: Shell) -> None:
    done = ready.good("append", LOBBY, "-", "--json", said="two\nlines, “ü”\n")

    assert done.json["record"]["text"] == "two\nlines, “ü”"


def test_an_edit_and_a_delete_are_shown_in_the_messages(ready: Shell) -> None:
    ready.good(
        "append", LOBBY, "Good evening", "--from", "Ada", "--event", "edit", "--revises", "m1"
    )
    ready.good("append", LOBBY, "secret", "--from", "Ada", "--id", "m2")
    ready.good("append", LOBBY, "", "--from", "Ada", "--event", "delete", "--revises", "m2")

    messages = ready.good("history", LOBBY, "--messages", "--json").json["messages"]
    words = ready.good("history", LOBBY, "--messages").out

    assert [(one["record"]["text"], one["deleted"]) for one in messages] == [
        ("Good evening", False),
        ("", True),
    ]
    assert "Good evening" in words
    assert "(deleted)" in words
    assert "secret" not in words


def test_a_conversation_is_found_by_its_id_as_by_its_address(ready: Shell) -> None:
    [state] = ready.good("conversations", "--json").json["conversations"]

    by_ref = ready.good("history", LOBBY, "--json").json
    by_id = ready.good("history", state["id"], "--json").json

    assert state["text"] == LOBBY
    assert by_id == by_ref


def test_conversations_are_listed_in_pages(ready: Shell) -> None:
    ready.heard("Anybody here?", where="web/office/attic")

    first = ready.good("conversations", "-n", "1", "--json").json
    second = ready.good("conversations", "-n", "1", "--after", first["next"], "--json").json
    words = ready.good("conversations").out

    assert [one["text"] for one in first["conversations"]] == ["web/office/attic"]
    assert [one["text"] for one in second["conversations"]] == [LOBBY]
    assert second["next"] is None
    assert "web/office/attic" in words
    assert LOBBY in words


def test_history_shows_the_newest_and_pages_both_ways(ready: Shell) -> None:
    ready.heard(*(f"message {number}" for number in range(2, 6)))

    newest = ready.good("history", LOBBY, "-n", "2", "--json").json
    older = ready.good("history", LOBBY, "-n", "2", "--before", newest["next"], "--json").json
    forward = ready.good("history", LOBBY, "-n", "2", "--after", "1", "--json").json
    words = ready.good("history", LOBBY, "-n", "2").out

    assert [one["sequence"] for one in newest["records"]] == [4, 5]
    assert [one["sequence"] for one in older["records"]] == [2, 3]
    assert [one["sequence"] for one in forward["records"]] == [2, 3]
    assert words.index("message 4") < words.index("message 5")
    assert "--before 4" in words


def test_sessions_join_read_acknowledge_and_leave(ready: Shell) -> None:
    joined = ready.good("join", LOBBY, "helper", "--json").json
    ready.joined("late", "since_join")
    ready.heard("Anybody?")
    acked = ready.good("ack", LOBBY, "helper", 1, "--json").json
    members = ready.good("members", LOBBY, "--json").json["members"]
    own = ready.good("conversations", "--session", "helper", "--json").json["conversations"]
    left = ready.good("leave", LOBBY, "late", "--json").json
    sessions = ready.good("sessions", "--json").json["sessions"]

    assert (joined["policy"]["backfill"], joined["unread"]) == ("all", 1)
    assert (acked["cursor"], acked["head"], acked["unread"]) == (1, 2, 1)
    assert {one["session_id"]: one["visible_from"] for one in members} == {"helper": 1, "late": 2}
    assert [(one["text"], one["cursor"]) for one in own] == [(LOBBY, 1)]
    assert not left["active"]
    assert [one["session_id"] for one in sessions] == ["helper", "late"]


def test_a_session_reads_only_what_its_policy_allows(ready: Shell) -> None:
    ready.joined("late", "since_join")
    ready.heard("after it joined")

    seen = ready.good("history", LOBBY, "--session", "late", "--json").json["records"]

    assert [one["text"] for one in seen] == ["after it joined"]


def test_a_binding_is_made_shown_and_ended(ready: Shell) -> None:
    bound = ready.good("bind", LOBBY, "helper", "--until", "2090-01-31T12:00+01:00", "--json").json
    spoken = ready.good("append", LOBBY, "Who answers?", "--json").json
    shown = ready.good("show", LOBBY, "--json").json
    ended = ready.good("unbind", LOBBY)
    nothing = ready.good("bind", LOBBY, "--json").json

    assert bound["binding"]["session_id"] == "helper"
    assert bound["binding"]["expires_at"] == "2090-01-31T11:00:00Z"
    assert spoken["target_session_id"] == "helper"
    assert shown["binding"]["generation"] == 1
    assert "no longer belongs to helper" in ended.out
    assert nothing["binding"] is None


def test_a_group_gives_handles_and_the_named_one_is_chosen(ready: Shell) -> None:
    empty = ready.good("group", LOBBY, "--json").json
    ready.good("group", LOBBY, "--participant", "coder=build-bot", "--participant", "guide=docs")
    spoken = ready.good("append", LOBBY, "@guide where is the manual?", "--json").json
    group = ready.good("group", LOBBY, "--default", "coder", "--json").json["group"]
    words = ready.good("group", LOBBY, "--remove", "coder").out

    assert empty == {"group": None}
    assert (spoken["target_session_id"], spoken["readers"]) == ("docs", 2)
    assert group["last_addressed_handle"] == "guide"
    assert group["default_handle"] == "coder"
    assert "@guide" in words
    assert "@coder" not in words


def test_an_import_says_what_it_took_and_adds_nothing_the_second_time(shell: Shell) -> None:
    first = shell.good("import", SLACK, "--as", "slack/T1")
    again = shell.good("import", SLACK, "--as", "slack/T1", "--json").json
    [room] = shell.good("conversations", "--json").json["conversations"]

    assert "102 records written" in first.out
    assert "96 messages" in first.out
    assert (again["written"], again["known"], again["refused"]) == (0, 102, 0)
    assert (room["history"], room["next_sequence"]) == ("complete", 103)
    assert room["ref"]["account_id"] == "T1"


def test_an_import_may_go_to_another_scope(shell: Shell) -> None:
    shell.good("import", CHAT, "--as", "whatsapp/me", "--conversation", "f", "--scope", "acme")

    assert shell.good("conversations", "--json").json["conversations"] == []
    [room] = shell.good("conversations", "--scope", "acme", "--json").json["conversations"]
    assert room["text"] == "whatsapp/me/f?scope=acme"


def test_times_are_shown_in_utc_and_recent_ones_by_their_age(ready: Shell) -> None:
    ready.good("append", LOBBY, "Late", "--at", "2024-03-01T08:30+09:00")
    ready.joined("helper")

    assert "2024-02-29 23:30 UTC" in ready.good("history", LOBBY).out
    assert "just now" in ready.good("sessions").out


def test_an_import_takes_what_the_file_does_not_say(shell: Shell) -> None:
    told = ("--conversation", "family", "--title", "The family", "--zone", "Europe/Berlin")

    shell.good("import", CHAT, "--as", "whatsapp/me", *told)

    state = shell.good("show", "whatsapp/me/family", "--json").json
    page = shell.good("history", "whatsapp/me/family", "--after", "0", "--json").json
    first = next(one for one in page["records"] if one["event"] == "message")
    assert state["title"] == "The family"
    assert first["sent_at"] == "2024-05-04T16:06:07Z"


def test_words_are_found_at_once_and_only_where_a_session_may_read(ready: Shell) -> None:
    ready.heard("a good place", where="web/office/attic")
    ready.joined("helper", where="web/office/attic")

    everywhere = ready.good("search", "good", "--json").json
    own = ready.good("search", "good", "--session", "helper", "--json").json
    none = ready.good("search", "penguin")

    assert {hit["text"] for hit in everywhere["hits"]} == {LOBBY, "web/office/attic"}
    assert [hit["record"]["text"] for hit in own["hits"]] == ["a good place"]
    assert everywhere["indexed_through"]
    assert "Nothing with 'penguin'" in none.out


@pytest.mark.parametrize("named", ["web/office/lobby?scope=acme", "web/office/lobby"])
def test_a_scope_is_named_in_the_ref_or_in_the_settings(ready: Shell, named: str) -> None:
    ready.settings["THREADLINE_SCOPE"] = "acme"

    ready.good("append", named, "in the other house")

    [state] = ready.good("conversations", "--json").json["conversations"]
    assert state["text"] == "web/office/lobby?scope=acme"
    assert state["next_sequence"] == 2
    [other] = ready.good("conversations", "--scope", "default", "--json").json["conversations"]
    assert other["text"] == LOBBY


def test_outside_words_reach_the_terminal_as_text_only(ready: Shell) -> None:
    ready.good(
        "append", LOBBY, "\x1b[2J[bold]x[/bold] :smile: \x07", "--from", "E\x1b]0;pwned\x07ve"
    )

    words = ready.good("history", LOBBY).out

    assert "\x1b" not in words
    assert "\x07" not in words
    assert "[bold]x[/bold] :smile:" in words


def test_output_that_nobody_reads_any_more_is_no_error(shell: Shell) -> None:
    shell.good("import", SLACK, "--as", "slack/T1")
    [room] = shell.good("conversations", "--json").json["conversations"]

    running = shell.start("history", room["id"], "-n", "500")
    assert running.stdout is not None
    running.stdout.close()
    running.wait(30)

    assert running.stderr is not None
    assert running.stderr.read() == ""
    running.stderr.close()
    assert running.returncode == 0
