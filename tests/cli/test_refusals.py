"""What is refused: a typed error, an exit code that means something, and what to do about it."""

from __future__ import annotations

import pytest

from tests.cli.conftest import LOBBY, Shell
from threadline import Threadline

BAD: list[tuple[list[str], int, str, str]] = [
    (["history", "slack/T1"], 2, "invalid_conversation", "provider/account/conversation"),
    (["history", "slack//C9"], 2, "invalid_conversation", "account_id is missing or blank"),
    (["history", "slack/T1/%20"], 2, "invalid_conversation", "conversation_id is missing or blank"),
    (["history", "slack/T1/a/b/c"], 2, "invalid_conversation", "provider/account/conversation"),
    (["append", "slack/T1/%00", "x"], 2, "invalid_conversation", "NUL"),
    (["history", "slack/T1/C9"], 3, "not_found", "there is no conversation slack/T1/C9"),
    (["history", "penguin"], 3, "not_found", "there is no conversation 'penguin'"),
    (["append", LOBBY, "x", "--kind", "cave"], 2, "invalid_input", "dm, room, thread"),
    (["append", LOBBY, "x", "--kind", "dm"], 1, "kind_mismatch", "known under another kind"),
    (["append", LOBBY, "x", "--event", "sigh"], 2, "invalid_input", "message, edit, delete"),
    (["append", LOBBY, "x", "--event", "edit"], 2, "invalid_input", "--revises"),
    (["append", LOBBY, "x", "--at", "noon"], 2, "invalid_input", "2030-01-31T12:00"),
    (["append", LOBBY, "x", "--at", "2024-01-01T12:00"], 2, "invalid_input", "has no zone"),
    (["append", LOBBY, "x", "--from", " "], 2, "invalid_input", "actor.id is missing or blank"),
    (["ack", LOBBY, "helper", "-1"], 2, "invalid_input", "the lowest acknowledgement here is 0"),
    (["ack", LOBBY, "helper", "9"], 2, "invalid_input", "the newest sequence is 1"),
    (["ack", LOBBY, "stranger", "1"], 3, "session_not_found", "No session has this name"),
    (["ack", LOBBY, "idle", "1"], 3, "membership_not_found", "not a member"),
    (["leave", LOBBY, "idle"], 3, "membership_not_found", "not a member"),
    (["tail", "stranger", "--once"], 3, "session_not_found", "No session has this name"),
    (["tail", "gone", "--once"], 1, "session_retired", "was retired"),
    (["join", LOBBY, ""], 2, "invalid_input", "session"),
    (["join", LOBBY, "a\nb"], 2, "invalid_input", "session"),
    (
        ["join", LOBBY, "x", "--policy", "most"],
        2,
        "invalid_input",
        "backfill policy 'most' is unknown",
    ),
    (["join", LOBBY, "x", "--policy", "last_n"], 2, "invalid_input", "last_n needs n"),
    (["join", LOBBY, "x", "-n", "0"], 2, "invalid_input", "at least 1"),
    (["leave", LOBBY, "helper", "--reason", "whim"], 2, "invalid_input", "manual, binding, group"),
    (["bind", LOBBY, "other"], 1, "binding_conflict", "'helper'"),
    (["bind", LOBBY, "helper", "--until", "soon"], 2, "invalid_input", "2030-01-31T12:00"),
    (["group", LOBBY, "--participant", "coder"], 2, "invalid_input", "HANDLE=SESSION"),
    (["group", LOBBY, "--participant", "a b=x"], 2, "invalid_input", "must begin with a letter"),
    (["group", LOBBY, "--mode", "loud"], 2, "invalid_input", "open, mention"),
    (["group", LOBBY, "--remove", "nobody"], 3, "not_found", "nobody is 'nobody' here"),
    (["search", " "], 2, "invalid_input", "a query has"),
    (["search", "x", "--after", "later"], 2, "invalid_input", "`next`"),
    (["conversations", "--store", "mysql://x/y"], 2, "config_error", "sqlite:PATH"),
    (["conversations", "--store", "sqlite:"], 2, "config_error", "names no file"),
    (["conversations", "--store", "sqlite:/"], 2, "config_error", "names no file"),
    (["init", "--store", "sqlite:."], 2, "config_error", "names no file"),
    (["doctor", "--store", "sqlite:/dev/null"], 2, "config_error", "names no file"),
    (["conversations", "--session", "helper", "--after", "?"], 2, "invalid_input", "`next`"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A store where LOBBY is a room bound to `helper`; `idle` is in no room, `gone` is retired."""
    shell = Shell(tmp_path_factory.mktemp("refusals"))
    shell.good("init")
    shell.good("append", LOBBY, "Good morning", "--from", "Ada", "--id", "m1")
    shell.good("bind", LOBBY, "helper")

    async def more(line: Threadline) -> None:
        for name in ("idle", "gone"):
            await line.sessions.create(name)
        await line.sessions.retire("gone")

    shell.inside(more)
    return shell


@pytest.mark.parametrize(
    ("words", "code", "name", "says"), BAD, ids=[" ".join(words)[:50] for words, *_ in BAD]
)
def test_bad_input_is_refused_with_what_to_do(
    store: Shell, words: list[str], code: int, name: str, says: str
) -> None:
    before = store.content()

    refused = store(*words, "--json")

    assert (refused.code, refused.out) == (code, "")
    assert refused.error["code"] == name
    assert says in refused.error["message"]
    assert store.content() == before


def test_a_refusal_in_words_is_a_line_or_two_on_standard_error(store: Shell) -> None:
    refused = store("ack", LOBBY, "idle", 1)

    assert (refused.code, refused.out) == (3, "")
    assert len(refused.err.splitlines()) == 2
    assert refused.err.startswith("threadline: The session is not a member")
    assert "threadline join REF SESSION" in refused.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["history", "slack/T1/C9"], "threadline conversations"),
        (["why", "0000000000007.0000000000007"], "threadline deliveries"),
        (["why", "penguin"], "threadline sends"),
        (["why", f"{LOBBY}:1"], "threadline deliveries"),
        (["sends", "cancel", "0000000000007"], "threadline sends"),
        (["token", "revoke", "0000000000007"], "threadline token list"),
        (["token", "revoke", "penguin"], "threadline token list"),
        (["link", LOBBY, "--revoke", "0000000000007"], "threadline link REF --list"),
        (["link", LOBBY, "--revoke", "penguin"], "threadline link REF --list"),
        (["group", LOBBY, "--remove", "nobody"], "threadline group REF"),
        (["person", "show", "0000000000007"], "threadline person list"),
        (["person", "show", "telegram:7"], "threadline person list"),
        (["save", LOBBY, "7"], "threadline history REF"),
        (["grant", "helper", "web/office", "--withdraw"], "threadline grants SESSION"),
        (["accounts", "--remove", "telegram/7001"], "threadline accounts"),
        (["tail", "stranger", "--once"], "threadline sessions"),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, list) else "",
)
def test_what_is_not_there_says_where_those_are_listed_that_are(
    store: Shell, words: list[str], says: str
) -> None:
    """And that command is one, and answers."""
    refused = store(*words)

    assert refused.code == 3
    advice = refused.err.splitlines()[-1].strip()
    assert f"`{says}`" in advice
    store.good(*says.replace("REF", LOBBY).replace("SESSION", "helper").split()[1:])


@pytest.mark.parametrize(
    "words",
    [
        ["join", LOBBY, "helpre"],
        ["bind", "web/office/other", "helpre"],
        ["group", "web/office/other", "--participant", "coder=helpre"],
        ["grant", "helpre", "web/office"],
        ["token", "create", "--session", "helpre"],
    ],
    ids=lambda it: it[0],
)
def test_a_session_that_is_made_by_being_named_is_told(shell: Shell, words: list[str]) -> None:
    """It may be a typing mistake; named again it is no news, and a program is not disturbed."""
    shell.good("init")
    for room in (LOBBY, "web/office/other"):
        shell.good("append", room, "Good morning", "--from", "Ada")

    first, again = shell.good(*words), shell.good(*words)
    program = shell.good("join", LOBBY, "hepler", "--json")

    assert "helpre is a new session; `threadline sessions` lists all of them." in first.err
    assert "new session" not in again.err + program.err


@pytest.mark.parametrize(
    "words",
    [["wander"], ["history"], ["ack", LOBBY, "helper", "many"], ["history", LOBBY, "-n", "0"]],
    ids=" ".join,
)
def test_wrong_usage_ends_with_two_and_shows_how(store: Shell, words: list[str]) -> None:
    told, given = store(*words), store(*words, "--json")

    assert (told.code, told.out) == (given.code, given.out) == (2, "")
    assert len(told.err.splitlines()) == 2
    assert "--help" in told.err
    assert given.error["code"] == "usage"


@pytest.mark.parametrize("name", ["consent", "person", "token"])
def test_a_name_for_several_commands_without_one_of_them_is_told_so(
    store: Shell, name: str
) -> None:
    told = store(name)

    assert told.code == 2
    assert "Commands" in told.out
    assert told.err.splitlines()[0] == "threadline: Missing command."


def test_who_may_not_write_first_is_told_the_command_that_allows_it(ready: Shell) -> None:
    ready.good("grant", "helper", "web/office")
    refused = ready("send", "helper", LOBBY, "hello")

    assert refused.code == 1
    assert "threadline consent on --person WHO, or --room REF" in refused.err
    ready.good("consent", "on", "--room", LOBBY)


def test_a_text_with_a_nul_is_refused(store: Shell) -> None:
    """A NUL cannot stand in an argument, so it comes by standard input."""
    refused = store("append", LOBBY, "-", "--json", said=b"a\0b")

    assert (refused.code, refused.error["code"]) == (2, "invalid_input")
    assert "NUL" in refused.error["message"]


def test_bytes_that_are_no_text_are_refused_with_their_place(store: Shell) -> None:
    refused = store("append", LOBBY, "-", said=b"abc\xff")

    assert refused.code == 2
    assert "byte 3" in refused.err


@pytest.mark.parametrize("size", [4 * 1024 * 1024 + 1, 20_000_000])
def test_a_text_that_is_too_long_is_refused_and_nothing_is_written(store: Shell, size: int) -> None:
    refused = store("append", LOBBY, "-", "--json", said=b"x" * size)

    assert (refused.code, refused.error["code"]) == (1, "too_large")
    assert "4194304" in refused.error["message"]
    assert store.texts() == ["Good morning"]


def test_the_longest_text_is_kept_whole(ready: Shell) -> None:
    done = ready.good("append", LOBBY, "-", "--json", said=b"x" * 4 * 1024 * 1024)

    assert len(done.json["record"]["text"]) == 4 * 1024 * 1024


def test_an_argument_that_is_no_utf8_is_refused_or_made_visible(ready: Shell) -> None:
    """The operating system hands on any bytes; none of them may break the output."""
    broken = b"b\xffd".decode("utf-8", "surrogateescape")

    refused = ready("history", f"slack/T1/{broken}", "--json")
    kept = ready.good("append", LOBBY, broken, "--json")

    assert (refused.code, refused.error["code"]) == (2, "invalid_conversation")
    assert kept.json["record"]["text"] == "b\ufffdd"


def test_wrong_settings_end_with_two(ready: Shell) -> None:
    (ready.folder / "home" / "threadline.toml").write_text('stroe = "sqlite:x.db"\n')

    refused = ready("conversations", "--json")

    assert (refused.code, refused.error["code"]) == (2, "config_error")
    assert "stroe" in refused.error["message"]


def test_nobody_makes_a_controller_by_leaving_something_out(ready: Shell) -> None:
    refused = ready("token", "create", "--json")

    assert (refused.code, refused.error["code"]) == (2, "invalid_input")
    assert "--session NAME" in refused.error["message"]
    assert ready.good("token", "list", "--json").json == {"tokens": []}
    assert ready.good("token", "create", "--kind", "controller").out.startswith("tl_c_")
