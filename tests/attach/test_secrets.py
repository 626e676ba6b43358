"""What a command gets to know of us: nothing, or a token for one conversation and one run."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.attach.conftest import Office

pytestmark = pytest.mark.acceptance("L4")

LOOK = """
folder = "/proc/self/fd"
opened = [fd for fd in os.listdir(folder) if os.path.lexists(f"{folder}/{fd}")]
files = {fd: os.readlink(f"{folder}/{fd}") for fd in opened}
seen = {
    "env": dict(os.environ),
    "argv": open("/proc/self/cmdline").read(),
    "files": files,
    "cwd": os.getcwd(),
    "given": given,
}
print(json.dumps(seen))
"""


def secrets_of(office: Office) -> list[str]:
    """Everything of ours that nobody else is to see."""
    home = office.served.home
    files = [home / "admin.token", home / "threadline.db.key", *(home / "attach").iterdir()]
    return [file.read_text().strip() for file in files]


def seen_by_a_command(office: Office, *options: str, **env: str) -> tuple[Any, str]:
    """What a command sees, and the same as it said it."""
    room = office.room("lobby")
    running = office.attach(office.script(LOOK), "--plain", *options, env=env)
    room.say("What do you see?")
    running.until("replied")
    [reply] = room.replies
    return json.loads(reply), reply


def test_a_command_sees_no_secret_of_ours(office: Office) -> None:
    """Not in its environment, its arguments, its files, or what it is given."""
    ours = {
        "THREADLINE_TOKEN": office.served.token,
        "OPENAI_API_KEY": "sk-mine",
        "AGENT_KEY": "sk-its",
        "LANG": "C.UTF-8",
    }

    seen, said = seen_by_a_command(office, "--env", "AGENT_KEY", **ours)

    # LC_CTYPE is what Python itself sets at its start.
    assert set(seen["env"]) - {"LC_CTYPE"} == {"PATH", "HOME", "LANG", "AGENT_KEY"}
    assert seen["env"]["AGENT_KEY"] == "sk-its"
    assert [secret for secret in (*secrets_of(office), "sk-mine") if secret in said] == []
    assert "What do you see?" not in seen["argv"]
    assert seen["cwd"] == str(office.folder)
    kept = {fd: target for fd, target in seen["files"].items() if not target.startswith("/proc")}
    assert set(kept) == {"0", "1", "2"}, kept
    assert not any(str(office.served.home) in target for target in kept.values())


TRY = """
import urllib.request


def ask(method, path, body=None):
    request = urllib.request.Request(os.environ["THREADLINE_URL"] + path, method=method)
    request.add_header("Authorization", "Bearer " + os.environ["THREADLINE_TOKEN"])
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, json.dumps(body).encode() if body else None) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code


here, other = os.environ["THREADLINE_CONVERSATION"], sys.argv[1]
name = os.environ["THREADLINE_SESSION"]
words = {"session_id": name, "text": "On my way."}
print(json.dumps({
    "token": os.environ["THREADLINE_TOKEN"],
    "me": ask("GET", "/v1/me"),
    "read": ask("GET", f"/v1/conversations/{here}/transcript"),
    "say": ask("POST", f"/v1/conversations/{here}/messages", words),
    "read elsewhere": ask("GET", f"/v1/conversations/{other}/transcript"),
    "say elsewhere": ask("POST", f"/v1/conversations/{other}/messages", words),
    "about elsewhere": ask(
        "POST",
        f"/v1/conversations/{here}/messages",
        {**words, "about": {"conversation": other, "sequence": 1}},
    ),
    "list": ask("GET", f"/v1/sessions/{name}/conversations"),
    "follow": ask("GET", f"/v1/sessions/{name}/stream"),
    "search": ask("GET", "/v1/search?q=hello"),
    "deliveries": ask("GET", "/v1/deliveries"),
    "write to another": ask("POST", "/v1/send", {**words, "to": {"session_id": "other"}}),
    "leave": ask("DELETE", f"/v1/conversations/{here}/members/{name}"),
    "lend on": ask("POST", f"/v1/conversations/{here}/tokens", {"session_id": name, "seconds": 9}),
    "attach": ask(
        "PUT", f"/v1/sessions/{name}/attachment", {"holder": "x", "name": "x", "fence": 1}
    ),
}))
"""


def test_a_lent_token_is_for_this_conversation_and_this_run_only(office: Office) -> None:
    """It reads and says there, reaches nothing else, and is over with the run."""
    room, other = office.room("lobby"), office.room("other")
    other.say("A secret")
    made = office.post("post", "/v1/tokens", {"kind": "session", "session_id": "helper"})
    running = office.attach(
        [*office.script(TRY), other.id],
        *("--plain", "--with-token", "--url", office.served.url),
        env={"THREADLINE_TOKEN": made["token"]},
    )

    room.say("Try it")
    while running.until("replied")["conversation"] != room.id:
        pass
    [on_my_way, reply] = room.replies
    tried = json.loads(reply)
    lent = tried.pop("token")
    later = httpx.get(f"{office.served.url}/v1/me", headers={"Authorization": f"Bearer {lent}"})

    assert on_my_way == "On my way."
    assert lent != made["token"]
    assert {name for name, status in tried.items() if status < 300} == {"me", "read", "say"}
    assert {name for name, status in tried.items() if status == 404} == {
        "read elsewhere",
        "say elsewhere",
        "about elsewhere",
    }
    assert all(status in (403, 404) for status in tried.values() if status >= 300)
    assert later.status_code == 401


def test_the_administrators_token_goes_to_no_other_server(office: Office) -> None:
    """Who names a server names its token as well."""
    running = office.attach(["true"], "--url", office.served.url, ready=False)

    assert running.end() == 2
    assert "--token-file" in running.log.read_text()
