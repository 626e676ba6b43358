"""The demo that serves: agents answer, the killed come back, and nothing is lost or said twice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.warm import PROGRAM
from threadline.entrypoints.cli.demo import SAMPLE
from threadline.entrypoints.cli.demo_agents import asked_for, minutes_of, words_of

SECONDS = 60.0
ASKED = r"kill -9 (\d+)\s+# (the server|@\w+)"


@dataclass
class Demo:
    """A demo somebody started."""

    folder: Path
    process: subprocess.Popen[str] | None = None
    told: str = ""
    pids: dict[str, int] = field(default_factory=dict)
    url: str = ""

    def start(self) -> None:
        """Start it and wait until it says what can be done with it."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("THREADLINE_")}
        words = ["demo", "--folder", str(self.folder), "--exports", str(SAMPLE), "--port", "0"]
        self.process = subprocess.Popen(
            [PROGRAM, *words], env=kept, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        self.told = self.until("Stop with Ctrl-C")
        self.pids = {name: int(pid) for pid, name in re.findall(ASKED, self.told)}
        self.url = re.findall(r"(http://\S+)/chat/", self.told)[0]

    def until(self, words: str) -> str:
        """What it tells up to these words."""
        assert self.process is not None
        assert self.process.stdout is not None
        lines: list[str] = []
        for line in self.process.stdout:
            lines.append(line)
            if words in line:
                return "".join(lines)
        raise AssertionError("".join(lines))

    def stop(self) -> int:
        """End it as Ctrl-C would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        assert self.process.stdout is not None
        self.process.stdout.read()
        self.process.stdout.close()
        code = self.process.wait(SECONDS)
        self.process = None
        return code

    def client(self) -> httpx.Client:
        """The administrator."""
        token = (self.folder / "admin.token").read_text().strip()
        return httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=SECONDS
        )


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    """A demo in a fresh folder."""
    made = Demo(tmp_path / "demo")
    made.start()
    yield made
    if made.process is not None:
        made.stop()


class Lobby:
    """The demo's room, seen from outside; it writes until it is answered."""

    def __init__(self, demo: Demo, ref: str = "web/demo/lobby") -> None:
        self._client = demo.client()
        [found] = self.ask("GET", "/v1/conversations", params={"ref": ref})["conversations"]
        self.path = f"/v1/conversations/{found['id']}/transcript"

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """Ask until somebody answers, as any client does whose server was restarted."""
        until = time.monotonic() + SECONDS
        while True:
            try:
                answer = self._client.request(method, path, **more)
            except httpx.TransportError:
                assert time.monotonic() < until
                continue
            assert answer.status_code == 200, answer.text
            return answer.json()

    def say(self, text: str, number: int) -> None:
        """Say something once."""
        actor = {"id": "ada", "name": "Ada"}
        body = {"text": text, "message_id": f"m{number}", "actor": actor}
        self.ask("POST", self.path, json=body)

    def sends(self) -> list[dict[str, Any]]:
        """What sessions said first, or want to, newest first."""
        found: list[dict[str, Any]] = self.ask("GET", "/v1/sends")["sends"]
        return found

    def texts(self) -> list[str]:
        """What stands in the room."""
        page = self.ask("GET", self.path, params={"limit": 500})
        return [one["text"] for one in page["records"] if one["event"] == "message"]

    def wait_for(self, words: str) -> None:
        """Until somebody says this."""
        until = time.monotonic() + SECONDS
        while not any(words in text for text in self.texts()):
            assert time.monotonic() < until, self.texts()

    def close(self) -> None:
        """Go."""
        self._client.close()


def test_agents_answer_and_whatever_is_killed_comes_back(demo: Demo) -> None:
    """The server and an agent are killed in the middle; each answer comes once."""
    assert set(demo.pids) == {"the server", "@archive", "@minutes", "@reminder"}
    lobby = Lobby(demo)
    lobby.say("We decided to ship on Friday.", 1)
    lobby.say("Good.", 2)

    os.kill(demo.pids["@archive"], signal.SIGKILL)
    os.kill(demo.pids["the server"], signal.SIGKILL)
    lobby.say("@minutes please", 3)
    lobby.say("@archive ubuntu", 4)

    lobby.wait_for("Minutes of ")
    lobby.wait_for("About “ubuntu”")
    texts = lobby.texts()
    lobby.close()
    assert len(texts) == len(set(texts)) == 6
    assert "Ada: We decided to ship on Friday." in next(one for one in texts if "Minutes" in one)
    assert demo.stop() == 0


@pytest.mark.acceptance("H1", "H6")
def test_an_agent_writes_first_in_the_chat_is_answered_and_told_to_stop(demo: Demo) -> None:
    """What it planned outlives its process and the server; after "stop" nothing of it is said."""
    assert len(re.findall(r"/chat/\S+", demo.told)) == 2
    chat = Lobby(demo, "web/demo/reminders")
    chat.say("in 2 seconds: look at the oven", 1)
    chat.wait_for("I will come back in 2 seconds")
    os.kill(demo.pids["@reminder"], signal.SIGKILL)
    os.kill(demo.pids["the server"], signal.SIGKILL)

    first = "Ada, you asked me 2 seconds ago to come back: look at the oven."
    chat.wait_for(first)
    chat.say("yes, do it", 2)
    chat.wait_for("Done: look at the oven.")
    chat.say("in 3 seconds: look again", 3)
    chat.wait_for("I will come back in 3 seconds")
    chat.say("Stop!", 4)
    until = time.monotonic() + SECONDS
    while (last := chat.sends()[0])["state"] == "scheduled":
        assert time.monotonic() < until, last
    texts = chat.texts()
    sends = chat.sends()
    chat.close()

    assert [(one["state"], one["session_id"]) for one in sends] == [
        ("cancelled", "reminder"),
        ("delivered", "reminder"),
    ]
    assert "said stop" in sends[0]["reason"]
    assert texts[-1] == "Stop!"
    assert texts[2:5] == [first, "yes, do it", "Done: look at the oven."]
    assert len(texts) == 8
    assert demo.stop() == 0


def test_a_demo_goes_on_in_its_folder(demo: Demo) -> None:
    """The room's link is the one it was."""
    lobby = Lobby(demo)
    lobby.say("Good morning", 1)
    lobby.close()
    link = re.findall(r"/chat/\S+", demo.told)
    assert demo.stop() == 0

    demo.start()

    assert re.findall(r"/chat/\S+", demo.told) == link
    lobby = Lobby(demo)
    assert lobby.texts() == ["Good morning"]
    lobby.close()


def test_a_folder_with_another_store_is_refused(tmp_path: Path) -> None:
    """Nothing is written into it."""
    (tmp_path / "threadline.db").touch()

    done = subprocess.run(
        [PROGRAM, "demo", "--folder", str(tmp_path)], capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 2
    assert "name another folder" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["threadline.db"]


def test_a_demo_of_another_version_is_not_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "demo.json").write_text('{"room": "1", "link": "/chat/x"}')

    done = subprocess.run(
        [PROGRAM, "demo", "--folder", str(tmp_path)], capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 2
    assert "of another version: delete that folder" in " ".join(done.stderr.split())
    assert [one.name for one in tmp_path.iterdir()] == ["demo.json"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@reminder in 20 seconds: look at the oven", (20, "look at the oven")),
        ("in a minute to call Ben, @reminder.", (60, "call Ben")),
        ("@reminder in 2 hours", (7_200, "")),
        ("@reminder tomorrow", None),
    ],
)
def test_a_delay_is_understood(text: str, found: tuple[int, str] | None) -> None:
    """Or said not to be."""
    asked = asked_for(text)

    assert found == (None if asked is None else (asked[0].total_seconds(), asked[1]))


def test_a_question_is_asked_in_the_words_that_mean_something() -> None:
    """The handle and small words are left out."""
    assert words_of("@archive who talked about the Ubuntu upgrade?") == [
        "talked",
        "ubuntu",
        "upgrade",
    ]


def test_minutes_of_silence_say_so() -> None:
    """Nothing is made up."""
    assert "Nobody has said anything" in minutes_of([])


def test_a_second_demo_in_a_folder_says_in_words_why_it_does_not_start(demo: Demo) -> None:
    """The first one holds the store, and goes on."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("THREADLINE_")}
    second = subprocess.run(
        [PROGRAM, "demo", "--folder", str(demo.folder), "--port", "0"],
        env=kept,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )

    assert second.returncode == 4
    assert second.stderr.startswith("threadline: Another threadline server holds this store.")
    assert len(second.stderr.splitlines()) <= 2
    Lobby(demo).close()
    assert demo.stop() == 0
