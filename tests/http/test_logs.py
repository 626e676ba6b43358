"""What a server says on standard error: an event a line, and never a secret or what people said."""

from __future__ import annotations

import io
import json
import logging
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.http.conftest import LOBBY, Served, Site, message
from threadline.core.errors import ConfigError
from threadline.entrypoints import logs

SAID = (
    "the merger is on Friday",
    "a quiet reply nobody may read in a log",
    "room title: severance plans",
    "Ada Lovelace-Byron",
    "private-note-4711",
    "search for the salary list",
)
NAMES = ("confidential-room", "agent-of-the-board")


def lines(log: Path) -> list[dict[str, Any]]:
    """Every line, each one JSON object."""
    found = [json.loads(line) for line in log.read_text().splitlines()]
    assert all(isinstance(one, dict) and one["event"] and one["timestamp"] for one in found)
    return found


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Logs of this process as text in memory, put back as they were afterwards."""
    names = (None, "uvicorn", "uvicorn.error", "uvicorn.access", "litestar", "httpx", "threadline")
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in names]
    handlers, lines_before = logging.getLogger().handlers[:], logs._lines
    made = io.StringIO()
    logs.configure(level="debug", form="json", stream=made)
    yield made
    logging.captureWarnings(False)
    logging.getLogger().handlers[:], logs._lines = handlers, lines_before
    for logger, level in before:
        logger.setLevel(level)


def busy(served: Served) -> list[str]:
    """A day of a server: right and wrong, with every kind of token. The answer is its secrets."""
    secrets = [served.token]
    with served.client() as boss:
        room = LOBBY | {"conversation_id": NAMES[0], "title": SAID[2]}
        lobby = boss.post("/v1/conversations", json=room).json()["id"]
        base = f"/v1/conversations/{lobby}"
        boss.put(f"{base}/members/{NAMES[1]}", json={"policy": "all"})
        boss.put(f"{base}/binding", json={"session_id": NAMES[1]})
        for kind in (
            {"kind": "session", "session_id": NAMES[1], "name": SAID[4]},
            {"kind": "adapter", "provider": "web", "account_id": "office"},
            {"kind": "controller"},
        ):
            secrets.append(boss.post("/v1/tokens", json=kind).json()["token"])
        said = {"text": SAID[0], "actor": {"id": "ada", "name": SAID[3]}}
        for _ in range(2):
            boss.post(f"{base}/transcript", json=said | {"message_id": SAID[4]})
        boss.post(f"{base}/transcript", json=said | {"unknown": SAID[0]})
        boss.post(f"{base}/transcript", content=SAID[0].encode())
        boss.get("/v1/search", params={"q": SAID[5]})
        boss.get(f"/chat/{secrets[1]}", params={"note": SAID[0]})
        boss.post(f"/chat/{secrets[2]}", json=said)
        boss.get("/nowhere/" + SAID[0])
        boss.get("/health", headers={"X-Request-ID": secrets[1]})
        boss.get(base, headers={"Cookie": f"session={secrets[1]}", "Referer": SAID[0]})
        boss.get(base, headers={"Origin": "https://" + secrets[1]})
    with served.client(secrets[1]) as agent:
        agent.get(f"/v1/sessions/{NAMES[1]}/inbox")
        words = {"session_id": NAMES[1], "text": SAID[1]}
        agent.post(f"{base}/messages", json=words, headers={"Idempotency-Key": SAID[4]})
        agent.post(f"{base}/messages", json=words | {"text": SAID[0] * 100_000})
        with agent.stream("GET", f"/v1/sessions/{NAMES[1]}/stream") as events:
            next(events.iter_lines())
    with served.client(secrets[2]) as adapter:
        item = message(SAID[0]) | {"conversation": {"conversation_id": NAMES[0], "kind": "room"}}
        adapter.post("/v1/inbound", json={"messages": [item, {"text": SAID[1]}]})
    with served.client("tl_" + "wrong" * 8) as stranger:
        stranger.get(base)
        secrets.append("wrong" * 8)
    return secrets


@pytest.mark.parametrize("level", ["info", "debug"])
def test_a_busy_server_logs_no_secret_and_nothing_that_was_said(served: Served, level: str) -> None:
    """At every level, whatever went wrong; also not by standard output."""
    served.stop()
    (served.folder / "log").write_text("")
    served.settings["THREADLINE_LOG_LEVEL"] = level
    served.start()

    secrets = busy(served)
    served.stop()

    text = (served.folder / "log").read_text()
    assert len(lines(served.folder / "log")) > 20
    assert len(secrets) == 5
    for unsaid in (*secrets, *SAID, *NAMES, "Traceback"):
        assert unsaid not in text, unsaid
        assert unsaid.replace(" ", "%20") not in text, unsaid


def test_every_request_is_one_line_with_its_route_its_caller_and_its_id(served: Served) -> None:
    """The path itself is in no line: it may hold a link that opens a room."""
    with served.client() as boss:
        made = boss.post("/v1/conversations", json=LOBBY)
        given = boss.get("/v1/conversations/nowhere", headers={"X-Request-ID": "trace-7"})
        away = boss.get("/v1/conversations", headers={"Host": "evil.example"})
        token = boss.get("/v1/tokens").json()["tokens"][0]["id"]
    urllib.request.urlopen(served.url + "/health").read()
    served.stop()

    found = [one for one in lines(served.folder / "log") if one["event"] == "request"]

    shown = [(one["method"], one["route"], one["status"]) for one in found]
    assert shown == [
        ("POST", "/v1/conversations", 200),
        ("GET", "/v1/conversations/{conversation}", 404),
        ("GET", "(none)", 421),
        ("GET", "/v1/tokens", 200),
    ]
    ids = [answer.headers["x-request-id"] for answer in (made, given, away)]
    assert [one["request_id"] for one in found[:3]] == ids
    assert ids[1] == "trace-7"
    assert (found[0]["caller"], found[0]["token_id"]) == ("controller", token)
    assert "token_id" not in found[2]
    assert all(one["milliseconds"] >= 0 for one in found)


def test_start_and_stop_are_told(served: Served) -> None:
    """Where it listens, on which kind of store, and that it ended by itself."""
    served.stop()

    found = [one for one in lines(served.folder / "log") if one["logger"] == "threadline.server"]

    assert [one["event"] for one in found] == [
        "server.started",
        "server.stopping",
        "server.stopped",
    ]
    assert (found[0]["url"], found[0]["store"]) == (served.url, "sqlite")


async def test_a_harmful_request_id_is_replaced(site: Site) -> None:
    """A line break, a secret or a novel is no id."""
    nobody = site.client()

    for given in ("a b", "x" * 65, "tl_abcdefghijkl", "whsec_abcdef", "é", "a;b", ""):
        answer = await nobody.get("/health", headers=[(b"X-Request-ID", given.encode("latin-1"))])
        assert re.fullmatch(r"[0-9a-f]{16}", answer.headers["x-request-id"]), given


@pytest.mark.parametrize(
    "secret",
    [
        "tl_2Yx81qLmNo3",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzqqgy",
        "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw",
        "Bearer abcdefgh12345678",
        "Basic dXNlcjpwYXNzd29yZA==",
        "ada:hush@",
        "/chat/0123456789abcdefghij",
    ],
)
def test_what_looks_like_a_secret_is_blanked_wherever_it_stands(
    stream: io.StringIO, secret: str
) -> None:
    """In an event's name, in a fact, deep inside one, and in what another library says."""
    around = f"postgresql://{secret}host/db" if secret.endswith("@") else f"it is {secret} here"
    log = logs.logger("test")

    log.info(around, one=around, many=[around], deep={"a": {"b": around}})
    logging.getLogger("asyncpg").error("failed with %s", around)
    logging.getLogger("uvicorn.error").warning(around)

    assert len(stream.getvalue().splitlines()) == 3
    assert secret.removesuffix("@") not in stream.getvalue()
    assert logs.BLANK in stream.getvalue()


@pytest.mark.parametrize(
    "name",
    ["authorization", "Cookie", "set-cookie", "token", "csrf", "password", "text", "body",
     "payload", "locals", "api_key", "webhook_secret", "access_token", "headers"],
)  # fmt: skip
def test_a_fact_that_holds_a_secret_or_words_is_blanked_by_its_name(
    stream: io.StringIO, name: str
) -> None:
    """Whatever it holds."""
    logs.logger("test").warning("happened", **{name: "harmless"}, deep={name: "harmless"})

    assert "harmless" not in stream.getvalue()
    [line] = stream.getvalue().splitlines()
    assert json.loads(line)[name] == logs.BLANK


def test_an_exception_is_told_by_its_class_and_its_place_only(stream: io.StringIO) -> None:
    """Its words quote what it was about, and its frames hold it."""
    words = "the merger is on Friday"
    try:
        raise ValueError(words)
    except ValueError:
        logs.logger("test").exception("failed")
        logging.getLogger("asyncio").exception("Task failed\nfuture: ValueError(%r)", words)

    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert words not in stream.getvalue()
    for line in (first, second):
        assert line["error"] == "ValueError"
        assert re.fullmatch(r"test_logs\.py:\d+", line["at"][-1])
    assert second["event"] == "Task failed"


def test_a_line_stays_one_line_and_bounded(stream: io.StringIO) -> None:
    """Nobody writes a second line into the log, nor a novel."""
    logs.logger("test").info("event", name="a\r\nb\x1b[31m" + "x" * 10_000)

    [line] = stream.getvalue().splitlines()
    assert len(line) < 500
    assert "\x1b" not in line


def test_a_word_that_is_no_level_or_form_is_refused_with_those_there_are() -> None:
    """At the start, not at the first line."""
    with pytest.raises(ConfigError, match="debug, info, warning, error"):
        logs.configure(level="loud")
    with pytest.raises(ConfigError, match="auto, json, text"):
        logs.configure(form="xml")


def test_a_level_that_is_not_asked_for_says_nothing(served: Served) -> None:
    """`warning` leaves out requests and the server's own story."""
    served.stop()
    (served.folder / "log").write_text("")
    served.settings["THREADLINE_LOG_LEVEL"] = "warning"
    served.start()

    with served.client() as boss:
        assert boss.get("/v1/conversations").status_code == 200
    served.stop()

    assert (served.folder / "log").read_text() == ""


def test_a_person_gets_text(served: Served) -> None:
    """With the same facts."""
    served.stop()
    (served.folder / "log").write_text("")
    served.settings["THREADLINE_LOG_FORMAT"] = "text"
    served.start()

    with served.client() as boss:
        boss.get("/v1/conversations")
    served.stop()

    text = (served.folder / "log").read_text()
    assert "request" in text
    assert "route=/v1/conversations" in text
    assert served.token not in text
    assert not text.startswith("{")
