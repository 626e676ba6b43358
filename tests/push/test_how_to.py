"""The receiver of the page on pushing, as printed, at a real server."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.http.conftest import Served

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "push.md"


@pytest.mark.acceptance("L3")
def test_the_receiver_of_the_page_proves_itself_and_acknowledges(tmp_path: Path) -> None:
    [program] = re.findall(r"^```python receiver\.py\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    (tmp_path / "receiver.py").write_text(program)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    served = Served(tmp_path, settings={"THREADLINE_PUSH_ALLOW_PRIVATE": "1"})
    served.start()
    client = served.client()
    about = {"provider": "web", "account_id": "office", "conversation_id": "x", "kind": "room"}
    room = f"/v1/conversations/{client.post('/v1/conversations', json=about).json()['id']}"
    client.put(f"{room}/members/coder", json={"policy": "all"})
    target = "/v1/sessions/coder/push"
    made = client.put(target, json={"url": f"http://127.0.0.1:{port}/"}).json()
    said = {"text": "Hello", "actor": {"id": "ada", "name": "Ada"}}

    with subprocess.Popen(
        [sys.executable, "receiver.py"],
        cwd=tmp_path,
        env=served.environment | {"PORT": port, "PUSH_SECRET": made["secret"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as receiver:
        while client.post(f"{target}/prove").json().get("state") != "proven":
            assert receiver.poll() is None
        assert receiver.stdout is not None
        heard = []
        for text in ("Hello", "again"):
            client.post(f"{room}/transcript", json=said | {"text": text})
            heard.append(receiver.stdout.readline())
        receiver.terminate()
    read = client.get(f"{room}/members/coder").json()["last_read"]
    client.close()
    served.kill()

    assert heard == ["Ada said: Hello\n", "Ada said: again\n"]
    assert read is not None
