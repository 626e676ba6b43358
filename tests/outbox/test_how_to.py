"""The adapter of the how-to page works as printed, beside a server a person started."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.conftest import Served
from tests.outbox.conftest import SECRET

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "adapters.md"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server that may call this machine."""
    made = Served(tmp_path, settings={"THREADLINE_ADAPTERS_ALLOW_PRIVATE": "1"})
    made.start()
    yield made
    if made.process is not None:
        made.kill()


def test_the_adapter_of_the_page_hears_and_speaks(served: Served, tmp_path: Path) -> None:
    """Typed, recorded; published, printed; and again after the server was killed."""
    [code] = re.findall(r"^```python adapter\.py\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    (tmp_path / "adapter.py").write_text(code)
    made = served.command("token", "create", "--kind", "adapter", "--provider", "tty",
                          "--account", "desk")  # fmt: skip
    environment = dict(os.environ) | {
        "THREADLINE_URL": served.url,
        "TOKEN": made.stdout.splitlines()[0],
        "SECRET": SECRET,
    }
    adapter = subprocess.Popen(
        [sys.executable, "adapter.py"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert adapter.stdin is not None
    assert adapter.stdout is not None
    assert adapter.stdout.readline() == "registered\n"
    assert served.command("conversations", "--json").returncode == 0
    with served.client() as boss:
        place = {"provider": "tty", "account_id": "desk", "conversation_id": "tty", "kind": "room"}
        room = boss.post("/v1/conversations", json=place).json()["id"]

    assert served.command("bind", "tty/desk/tty", "coder").returncode == 0
    said = served.command("publish", "tty/desk/tty", "Hello, desk.", "--as", "coder", "--json")
    assert said.returncode == 0, said.stderr
    assert adapter.stdout.readline() == "coder: Hello, desk.\n"
    served.kill()
    served.start()
    with served.client() as boss:
        words = {"session_id": "coder", "text": "Back again.", "wait": True}
        sent = boss.post(f"/v1/conversations/{room}/messages", json=words).json()
        assert adapter.stdout.readline() == "coder: Back again.\n"
        adapter.stdin.write("Good to see you.\n")
        adapter.stdin.close()
        assert adapter.wait(timeout=60) == 0
        page = boss.get(f"/v1/conversations/{room}/transcript").json()["records"]
    why = served.command("why", sent["id"])
    one = served.command("why", "tty/desk/tty:1", "--json")
    adapter.stdout.close()

    assert sent["state"] == "delivered"
    assert [record["text"] for record in page] == [
        "Hello, desk.",
        "Back again.",
        "Good to see you.",
    ]
    assert "delivered" in why.stdout
    assert '"delivered"' in one.stdout
    served.stop()
