"""A command-line agent replies once a wake, whatever happens to whom in between."""

from __future__ import annotations

import json
import select

import pytest

from tests.attach.conftest import Office
from tests.warm import PROGRAM, run

pytestmark = pytest.mark.acceptance("L4")

ECHO = 'say(reply=f"{count(sys.argv[1])}: {asked}")'


def test_a_command_replies_once_to_what_its_session_is_to_answer(office: Office) -> None:
    """To the room and under the record that woke it; both are acknowledged."""
    lobby = office.room("lobby")
    running = office.attach([*office.script(ECHO), "runs"])

    lobby.say("Hello")
    replied = running.until("replied")

    asked, answer = lobby.records
    assert answer["text"] == "1: Hello"
    assert answer["sequence"] == replied["sequence"] == 2
    assert answer["reply_to"] == asked["message_id"]
    assert (answer["source_session_id"], answer["origin"]["sequence"]) == ("helper", 1)
    assert running.stop() == 0
    assert lobby.read_up_to("helper") == 1


def test_a_command_gets_what_was_said_where_and_to_whom(office: Office) -> None:
    """One JSON object on standard input."""
    lobby = office.room("lobby")
    running = office.attach(office.script("print(json.dumps(given))"), "--plain")

    lobby.say("Hello")
    running.until("replied")

    given = json.loads(lobby.replies[0])
    [record] = given["records"]
    assert (record["text"], record["actor"]["name"], record["wake"]) == ("Hello", "Ada", True)
    assert (given["conversation"], given["session"]) == (lobby.id, "helper")
    assert given["ref"]["conversation_id"] == "lobby"
    assert given["context"]["conversation"] == lobby.id
    assert "Hello" in str(given["context"]["messages"])


def test_killed_between_the_reply_and_the_acknowledgement_it_has_replied_once(
    office: Office,
) -> None:
    """The run was written down, and its key says that it was answered."""
    lobby = office.room("lobby")
    gate = office.gate()
    command = [*office.script(ECHO), "runs"]
    gate.hold = r"POST /v1/conversations/\w+/members/helper/ack"
    first = office.attach(command, "--url", gate.url, "--token-file", "home/admin.token")
    lobby.say("Hello")
    assert gate.reached.wait(60)
    first.kill()
    lobby.say("Are you there?")

    second = office.attach(command)
    answered = second.until("answered")
    second.until("replied")

    assert answered["records"] == 1
    assert lobby.replies == ["1: Hello", "2: Are you there?"]


def test_killed_before_the_reply_the_run_is_done_again_and_said_once(office: Office) -> None:
    """And the command that was running is gone with its attach."""
    lobby = office.room("lobby")
    pipe = office.pipe("running")
    command = office.script(
        f"""
if count("runs") == 1:
    held = open({pipe!r}, "w")
    held.write("here")
    held.flush()
    subprocess.run(["sleep", "60"], pass_fds=[held.fileno()])
say(reply=" and ".join(texts))
"""
    )
    first = office.attach(command)
    lobby.say("Hello")
    with open(pipe) as running:
        assert running.read(4) == "here"
        first.kill()
        # The end of the pipe comes when nobody holds it any more: command and grandchild are gone.
        assert select.select([running], [], [], 30)[0], "it outlived its attach"
        assert running.read() == ""
    lobby.say("Are you there?")

    second = office.attach(command)
    second.until("replied")
    second.until("replied")

    # What was written down for the first run is what it is done again with.
    assert lobby.replies == ["Hello", "Are you there?"]


def test_what_is_said_during_a_run_is_gathered_into_the_next(office: Office) -> None:
    """One at a time in a conversation; another one is answered meanwhile."""
    lobby, annex = office.room("lobby"), office.room("annex")
    pipe = office.pipe("go on")
    command = office.script(
        f"""
if asked == "Hello":
    open({pipe!r}).read()
say(reply=" and ".join(texts))
"""
    )
    running = office.attach(command)
    lobby.say("Hello")
    running.until("run")

    lobby.say("one", "two", "three")
    annex.say("Meanwhile")
    running.until("replied")
    assert (annex.replies, lobby.replies) == (["Meanwhile"], [])
    with open(pipe, "w"):
        pass
    running.until("replied")
    running.until("replied")

    assert lobby.replies == ["Hello", "one and two and three"]


@pytest.mark.case("B046")
def test_what_waits_during_a_run_in_one_thread_is_answered_in_its_own(office: Office) -> None:
    """B046: one run at a time in all, so another thread's word waits for this one's run."""
    lobby = office.room("lobby")
    lobby.say("A", message_id="a0")
    lobby.say("B", message_id="b0")
    threads = {name: office.thread(lobby, f"{name}0") for name in "ab"}
    pipe = office.pipe("go on")
    command = office.script(
        f"""
if asked == "a1":
    open({pipe!r}).read()
say(reply="to " + asked)
"""
    )
    running = office.attach(command, "--parallel", "1")
    running.until("replied")
    threads["a"].say("a1", message_id="a1")
    running.until("run")

    threads["b"].say("b1", message_id="b1")
    threads["a"].say("a2", message_id="a2")
    with open(pipe, "w"):
        pass
    for _ in range(3):
        running.until("replied")

    said = {
        name: [
            (one["text"], one["reply_to"])
            for one in thread.records
            if one["direction"] == "outbound"
        ]
        for name, thread in threads.items()
    }
    assert said == {"a": [("to a1", "a1"), ("to a2", "a2")], "b": [("to b1", "b1")]}
    assert lobby.replies == ["to B"]


def test_a_run_that_fails_is_tried_again(office: Office) -> None:
    """Nothing is lost to one that fails now and then."""
    lobby = office.room("lobby")
    running = office.attach(
        office.script('sys.exit(1) if count("runs") == 1 else say(reply=asked)')
    )

    lobby.say("Hello")
    failed = running.until("failed")
    running.until("replied")

    assert (failed["failures"], lobby.replies) == (1, ["Hello"])
    assert "exit code 1" in running.log.read_text()


def test_a_second_attach_is_told_who_holds_the_session_and_until_when(office: Office) -> None:
    """Whoever it is that may call: one at a time."""
    office.room("lobby")
    command = office.script(ECHO)
    first = office.attach(command)

    second = office.attach(command, ready=False)

    assert second.end() == 1
    error = json.loads(second.log.read_text())["error"]
    assert error["code"] == "already_attached"
    assert f"process {first.process.pid}" in error["message"]
    assert "UTC" in error["message"]
    assert first.stop() == 0
    office.attach(command)


def test_who_lost_the_lease_runs_nothing_more(office: Office) -> None:
    """The fence stops it before its command starts."""
    lobby = office.room("lobby")
    running = office.attach([*office.script(ECHO), "runs"])
    path = "/v1/sessions/helper/attachment"
    fence = running.told[0]["fence"]
    assert office.client.delete(path, params={"fence": fence}).status_code == 200
    office.post("put", path, {"holder": "somebody", "name": "another machine"})

    lobby.say("Hello")

    assert running.end() == 1
    assert "another machine" in running.log.read_text()
    assert lobby.replies == []
    assert not (office.folder / "runs").exists()


def test_a_restart_of_the_server_is_outlived(office: Office) -> None:
    """Between two wakes, and while a command runs."""
    lobby = office.room("lobby")
    pipe = office.pipe("go on")
    running = office.attach(office.script(f"open({pipe!r}).read()\nsay(reply=asked)"))
    office.served.kill()
    office.served.start()
    lobby.say("Hello")
    running.until("run")
    office.served.kill()
    with open(pipe, "w"):
        pass

    office.served.start()
    running.until("replied")

    assert lobby.replies == ["Hello"]


def test_what_does_not_wake_the_speaker_runs_nothing_and_is_read(office: Office) -> None:
    """By default."""
    lobby = office.room("lobby", speaker=None)
    office.post("put", f"/v1/conversations/{lobby.id}/members/reader", {"policy": "all"})
    running = office.attach(office.script('say(reply="x")'), session="reader")

    lobby.say("one", "two")
    office.post("put", f"/v1/conversations/{lobby.id}/binding", {"session_id": "reader"})
    lobby.say("three")

    assert running.until("replied")["sequence"] == 4
    assert [one["event"] for one in running.told] == ["attached", "run", "replied"]


def test_with_all_a_command_runs_for_every_message_of_a_person(office: Office) -> None:
    """Where it may not speak it listens; what a machine says runs it only with a wake."""
    lobby = office.room("lobby", speaker="other")
    office.post("put", f"/v1/conversations/{lobby.id}/members/reader", {"policy": "all"})
    running = office.attach(office.script('count("runs")'), "--all", session="reader")
    office.post(
        "post",
        f"/v1/conversations/{lobby.id}/messages",
        {"session_id": "other", "text": "I am a machine."},
    )

    lobby.say("Hello")
    silent = running.until("silent")

    assert silent["records"] in (1, 2)
    assert (office.folder / "runs").stat().st_size == 1


@pytest.mark.case("B071")
def test_a_listener_whose_run_fails_or_answers_says_nothing_to_the_others(office: Office) -> None:
    """B071: that it failed, and that it may not speak, is told where it runs and nowhere else."""
    lobby = office.room("lobby", speaker="other")
    office.post("put", f"/v1/conversations/{lobby.id}/members/reader", {"policy": "all"})
    script = office.script('sys.exit(1) if count("runs") == 1 else say(reply="psst")')
    running = office.attach(script, "--all", "--tries", "2", session="reader")

    lobby.say("Hello")
    reasons = [running.until("failed")["reason"] for _ in range(2)]
    running.until("given_up")

    assert "exit code 1" in reasons[0]
    assert "may not do that" in reasons[1]
    assert [one["text"] for one in lobby.records] == ["Hello"]
    deliveries = office.client.get("/v1/deliveries", params={"conversation": lobby.id})
    assert deliveries.json()["deliveries"] == []


def test_at_its_end_the_command_ends_too_and_the_session_is_free(office: Office) -> None:
    """Asked to stop in the middle of a run."""
    lobby = office.room("lobby")
    pipe = office.pipe("running")
    command = office.script(
        f"held = open({pipe!r}, 'w')\nheld.write('x')\nheld.flush()\nsignal.pause()"
    )
    running = office.attach(command)
    lobby.say("Hello")

    with open(pipe) as alive:
        assert alive.read(1) == "x"
        assert running.stop() == 0
        assert alive.read() == ""

    assert office.client.get("/v1/sessions/helper/attachment").status_code == 404
    assert lobby.replies == []


NOWHERE = ("--url", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--session", "nobody"], "session_not_found"),
        (["--session", "helper", "--cwd", "home"], "keys"),
        (["--session", "helper", "--env", "THREADLINE_TOKEN"], "--with-token"),
        (["--session", "helper", "--env", "NOT_SET"], "NOT_SET"),
        (["--session", "helper", *NOWHERE], "--token-file"),
        (["--session", "helper", "--token-file", "gone"], "gone"),
        (["--session", "helper", "--url", "nonsense", "--token-file", "t"], "address"),
        (["--session", "helper", *NOWHERE, "--token-file", "t"], "threadline serve"),
        (["--session", "helper", "--token-file", "t"], "unauthenticated"),
        (["--session", "helper", "--token-file", "two"], "holds no token"),
    ],
)
def test_what_cannot_work_is_said_at_once(
    shared_office: Office, options: list[str], said: str
) -> None:
    """In one sentence, and the program ends."""
    shared_office.room("lobby")
    (shared_office.folder / "t").write_text("tl_s_unknown")
    (shared_office.folder / "two").write_text("tl_s_unknown\nIt is shown only now.\n")

    done = run(
        [PROGRAM, "attach", "--json", *options, "--", "true"],
        cwd=shared_office.folder,
        env=shared_office.served.environment,
        text=True,
    )

    assert done.returncode in (1, 2, 3, 4), done
    assert said in done.stderr
    assert "Traceback" not in done.stderr
