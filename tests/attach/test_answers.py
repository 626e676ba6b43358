"""What a command's answer may be, and that anything else says nothing and blocks nothing."""

from __future__ import annotations

import pytest

from tests.attach.conftest import Office, Running
from threadline.entrypoints.cli.child import MAX_OUTPUT, MAX_REPLY, Failed, reply_of

pytestmark = pytest.mark.acceptance("L4")

# One command for all of these tests: it does what the message says.
DOES = f"""
def noise():
    print("Loading the model ...")
    say(reply="x")


def does(asked):
    match asked:
        case "noise": noise()
        case "prose": print("Certainly!")
        case "a list": print("[]")
        case "another key": say(Reply="x")
        case "a number": say(reply=7)
        case "half a character": print('{{"reply": "\\\\ud800"}}')
        case "bytes": sys.stdout.buffer.write(bytes([255, 254]))
        case "NUL": say(reply="a" + chr(0))
        case "exit 3": say(reply="x"); sys.stdout.flush(); sys.exit(3)
        case "a signal": say(reply="x"); sys.stdout.flush(); os.kill(os.getpid(), signal.SIGKILL)
        case "long": say(reply="x" * ({MAX_REPLY} + 1))
        case "endless":
            while True: print("x" * 65536)
        case "hang": say(reply="x"); sys.stdout.flush(); signal.pause()
        case "a deaf grandchild":
            subprocess.Popen(["sleep", "20"], start_new_session=True)
            print("x")
            sys.exit(4)
        case "nothing": pass
        case "spaces": print("  \\n")
        case "an empty object": say()
        case "null": say(reply=None)
        case "an empty reply": say(reply=" ")
        case _: say(reply=asked)


does(asked)
"""

FAILS = {
    "noise": "is not one JSON object",
    "prose": "is not one JSON object",
    "a list": "is not one JSON object",
    "another key": '"Reply"',
    "a number": "no text",
    "half a character": "half a character",
    "bytes": "UTF-8",
    "NUL": "NUL",
    "exit 3": "exit code 3",
    "a signal": "SIGKILL",
    "long": "100001 characters",
    "endless": f"more than {MAX_OUTPUT} bytes",
    "hang": "did not end within 2 seconds",
    "a deaf grandchild": "exit code 4",
}
ENDS = ("replied", "silent", "failed")
SILENT = ("nothing", "spaces", "an empty object", "null", "an empty reply")


@pytest.fixture(scope="module")
def running(shared_office: Office) -> Running:
    """One attach for all tests of this file."""
    shared_office.room("first")
    command = shared_office.script(DOES)
    return shared_office.attach(command, "--timeout", "2", "--tries", "1", "--parallel", "1")


@pytest.mark.parametrize("asked", FAILS)
def test_what_is_no_answer_says_nothing_and_the_conversation_goes_on(
    shared_office: Office, running: Running, asked: str
) -> None:
    """It is said why, the record is passed over, and the next one is answered."""
    room = shared_office.room(asked)

    room.say(asked)
    failed = running.until(*ENDS)
    assert failed["event"] == "failed"
    given_up = running.until("given_up")
    room.say("Are you well?")
    running.until("replied")

    assert FAILS[asked] in failed["reason"]
    assert given_up["conversation"] == room.id
    assert failed["reason"] in running.log.read_text()
    assert room.replies == ["Are you well?"]


@pytest.mark.parametrize("asked", SILENT)
def test_an_empty_answer_says_nothing_and_is_no_failure(
    shared_office: Office, running: Running, asked: str
) -> None:
    """An agent may keep silent; the record is read."""
    room = shared_office.room(asked)

    room.say(asked)
    silent = running.until(*ENDS)
    room.say("Are you well?")
    running.until("replied")

    assert (silent["event"], silent["conversation"]) == ("silent", room.id)
    assert room.replies == ["Are you well?"]


@pytest.mark.case("B145")
@pytest.mark.parametrize("asked", ["exit 3", "prose", "hang", "nothing", "an empty reply"])
def test_a_bot_gets_no_word_about_a_run_that_failed_or_said_nothing(
    shared_office: Office, running: Running, asked: str
) -> None:
    """B145: a notice in the room would wake the bot again; why is told to who runs the command."""
    room = shared_office.room(f"bots {asked}", speaker=None)
    path = f"/v1/conversations/{room.id}"
    shared_office.post("put", f"{path}/group", {})
    shared_office.post(
        "put", f"{path}/group/participants/helper", {"session_id": "helper", "public": True}
    )

    bot = {"id": "B2", "name": "Other bot", "is_bot": True}
    room.say(asked, actor=bot, explicit_target="helper")
    ended = running.until(*ENDS)
    if asked in FAILS:
        assert running.until("given_up")["conversation"] == room.id
        assert ended["reason"] in running.log.read_text()
    empty = room.client.post(f"{path}/messages", json={"session_id": "helper", "text": " "})

    assert (ended["conversation"], ended["event"]) == (
        room.id,
        "failed" if asked in FAILS else "silent",
    )
    assert (empty.status_code, empty.json()["code"]) == (400, "invalid_input")
    room.say("Are you well?", explicit_target="helper")
    running.until("replied")
    assert [one["text"] for one in room.records] == [asked, "Are you well?", "Are you well?"]


@pytest.mark.parametrize(
    ("output", "plain", "reply"),
    [
        (b'{"reply": "Hello"}\n', False, "Hello"),
        (b'{"reply": "\\ud83d\\ude00"}', False, "\N{GRINNING FACE}"),
        (b"{}", False, None),
        (b"Two\nlines\n", True, "Two\nlines"),
        (b'{"reply": "x"}', True, '{"reply": "x"}'),
        (b"\n", True, None),
        (b"x" * MAX_REPLY, True, "x" * MAX_REPLY),
    ],
)
def test_an_output_is_read_as_it_was_agreed(output: bytes, plain: bool, reply: str | None) -> None:
    """As JSON, or with --plain as it is."""
    assert reply_of(output, plain=plain) == reply


@pytest.mark.parametrize("output", [b"\xff", b"x" * (MAX_REPLY + 1), b"a\x00b"])
def test_plain_output_that_is_no_message_is_refused(output: bytes) -> None:
    """Nothing is cut, nothing is guessed."""
    with pytest.raises(Failed):
        reply_of(output, plain=True)
