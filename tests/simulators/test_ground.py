"""What every simulator stands on, shown on the smallest one."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import select
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
from aiohttp import web

from threadline.core.wire import ApiCall, Lost
from threadline.testing.simulation import Refusal, Simulation
from threadline.transports.http import HttpTransport

PARROT = "tests.simulators.parrot:Parrot"
SECRET = "hush"


@pytest.fixture
def parrot(tmp_path: Path) -> Iterator[Simulation]:
    """A platform where a minute passes in six milliseconds."""
    with Simulation(PARROT, tmp_path, speed=10_000) as made:
        yield made


def say(parrot: Simulation, text: str, room: str = "r") -> httpx.Response:
    """Say something through the API."""
    url = f"{parrot.url}/say"
    with httpx.Client(trust_env=False) as client:
        return client.post(url, params={"room": room}, json={"text": text})


@asynccontextmanager
async def hook(*statuses: int) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """A webhook that answers with these, then with 200; what came, its signature checked."""
    came: list[dict[str, Any]] = []

    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        made = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        assert hmac.compare_digest(made, request.headers["x-parrot"])
        came.append(json.loads(body))
        return web.Response(status=statuses[len(came) - 1] if len(came) <= len(statuses) else 200)

    app = web.Application()
    app.router.add_post("/", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/", came
    await runner.cleanup()


@pytest.mark.parametrize(("fault", "said"), [("drop", ["hi"]), ("reset", [])])
async def test_a_connection_ends_without_an_answer(
    parrot: Simulation, fault: str, said: list[str]
) -> None:
    """As our own wire sees it: nobody knows whether it was said, the platform does."""
    wire = HttpTransport(allow_private=True)
    parrot.fault(fault)

    with pytest.raises(Lost):
        await wire.perform(
            ApiCall(
                method="POST",
                url=f"{parrot.url}/say?room=r",
                body=b'{"text": "hi"}',
                headers={"content-type": "application/json"},
            )
        )
    await wire.close()

    assert [one["text"] for one in parrot.effects()] == said
    assert [(one["status"], one["fault"]) for one in parrot.calls()] == [(None, fault)]


def test_refusals_come_in_the_platforms_own_shape_and_only_where_they_were_ordered(
    parrot: Simulation,
) -> None:
    parrot.fault("rate_limit", wait=3, place="r")
    parrot.fault("status", status=503)
    parrot.fault("late_status", status=502)
    parrot.fault("answer", status=418, body={"tea": 1}, headers={"x-pot": "blue"})

    answers = [say(parrot, "a", "other"), *(say(parrot, text) for text in "bcde")]

    assert [one.status_code for one in answers] == [503, 429, 502, 418, 200]
    assert answers[1].json() == {"slow_down": 3}
    assert answers[3].headers["x-pot"] == "blue"
    assert [one["text"] for one in parrot.effects()] == ["c", "e"]


async def test_a_slow_answer_waits_until_it_is_let_go(parrot: Simulation) -> None:
    parrot.fault("slow")

    asked = asyncio.create_task(asyncio.to_thread(say, parrot, "hi"))
    await asyncio.to_thread(parrot.effects, at_least=1)
    assert not asked.done()
    parrot.release()

    assert (await asked).status_code == 200


def test_a_killed_simulator_goes_on_where_it_was(parrot: Simulation) -> None:
    say(parrot, "before")
    parrot.fault("drop")
    url = parrot.url

    parrot.kill()
    parrot.start()
    with pytest.raises(httpx.HTTPError):
        say(parrot, "meanwhile")

    assert parrot.url == url
    assert say(parrot, "after").json() == {"id": 3}
    assert [one["text"] for one in parrot.effects()] == ["before", "meanwhile", "after"]


def test_time_passes_there_when_it_is_told_to_and_stays_passed(parrot: Simulation) -> None:
    say(parrot, "early")
    parrot.move(hours=5)
    parrot.kill()
    parrot.start()
    say(parrot, "late")

    early, late = [one["at"] for one in parrot.effects()]
    assert 5 * 3600 <= late - early < 6 * 3600


async def test_a_webhook_is_called_again_on_the_platforms_schedule_and_in_order(
    parrot: Simulation,
) -> None:
    async with hook(500, 404) as (url, came):
        parrot.webhook(url, SECRET)
        for text in ("one", "two"):
            parrot.do("say", text=text, room="r")
        settled = await asyncio.to_thread(parrot.idle)

    assert [(one["text"], one["attempt"]) for one in came] == [
        *(("one", attempt) for attempt in (1, 2, 3)),
        ("two", 1),
    ]
    assert [one["state"] for one in settled] == ["done", "done"]


async def test_an_event_is_given_up_where_the_platform_gives_it_up(parrot: Simulation) -> None:
    async with hook(*[500] * 4) as (url, came):
        parrot.webhook(url, SECRET)
        parrot.do("say", text="one")
        [settled] = await asyncio.to_thread(parrot.idle)

    assert (settled["state"], settled["attempts"], settled["error"]) == ("given_up", 4, "HTTP 500")
    assert len(came) == 4


async def test_events_wait_over_a_kill_for_a_webhook(parrot: Simulation) -> None:
    parrot.do("say", text="kept")
    parrot.kill()
    parrot.start()

    async with hook() as (url, came):
        parrot.webhook(url, SECRET)
        await asyncio.to_thread(parrot.idle)
        again = parrot.redeliver()
        await asyncio.to_thread(parrot.idle)

    assert again == 1
    assert [one["text"] for one in came] == ["kept", "kept"]


async def test_events_are_doubled_swapped_late_and_lost_on_command(parrot: Simulation) -> None:
    async with hook() as (url, came):
        parrot.webhook(url, SECRET)
        for fault, text in (
            ("duplicate", "twice"),
            ("reorder", "second"),
            ("", "first"),
            ("lose", "never"),
            ("delay", "late"),
        ):
            if fault:
                parrot.fault(fault, **({"wait": 600} if fault == "delay" else {}))
            parrot.do("say", text=text, room="r")
        settled = await asyncio.to_thread(parrot.idle)

    assert [one["text"] for one in came] == ["twice", "twice", "first", "second", "late"]
    assert [one["what"]["text"] for one in settled if one["state"] == "lost"] == ["never"]


async def test_a_socket_hears_is_cut_and_finds_a_gap(parrot: Simulation) -> None:
    url = f"{parrot.url}/listen?token=polly"
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await client.ws_connect(f"{parrot.url}/listen")
        async with client.ws_connect(url) as socket:
            await asyncio.to_thread(parrot.do, "say", text="one")
            heard = [(await socket.receive_json())["text"]]
            await socket.send_str("got it")
            await asyncio.to_thread(parrot.idle)
            closing = asyncio.create_task(asyncio.to_thread(parrot.disconnect, 4009))
            end = await socket.receive()
            assert await closing == 1
        parrot.fault("lose")
        await asyncio.to_thread(parrot.do, "say", text="missed")
        await asyncio.to_thread(parrot.do, "say", text="two")
        async with client.ws_connect(url) as socket:
            heard.append((await socket.receive_json())["text"])
            await socket.send_str("got it")
            await asyncio.to_thread(parrot.idle)

    assert (end.type, end.data) == (aiohttp.WSMsgType.CLOSE, 4009)
    assert heard == ["one", "two"]


@pytest.mark.parametrize(
    ("order", "facts", "said"),
    [
        ("fly", {}, "GET /_sim lists them"),
        ("say", {"txt": "x"}, "missing a required argument: 'text'"),
        ("faults", {"fault": "flood"}, "a fault is one of"),
        ("faults", {"fault": "drop", "tims": 2}, "a fault has no tims"),
    ],
)
def test_an_order_that_is_not_understood_says_why(
    parrot: Simulation, order: str, facts: dict[str, Any], said: str
) -> None:
    with pytest.raises(Refusal, match=said):
        parrot.do(order, **facts)


ORPHAN = """
import os, sys
from pathlib import Path
from threadline.testing.simulation import Simulation

made = Simulation("tests.simulators.parrot:Parrot", Path(sys.argv[1]))
made.start()
print(made.pid, flush=True)
sys.stdin.read()
"""


def test_a_simulator_does_not_outlive_who_started_it(tmp_path: Path) -> None:
    """Whoever tests is sometimes killed; nothing of it stays to take the machine's time."""
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        simulator = os.pidfd_open(int(starter.stdout.readline()))
        starter.kill()
    try:
        ended, _, _ = select.select([simulator], [], [], 60)
    finally:
        os.close(simulator)

    assert ended


def test_what_does_not_start_leaves_no_process_and_what_runs_is_not_begun_twice(
    tmp_path: Path,
) -> None:
    with pytest.raises(Refusal, match="does not start"), Simulation("nothing:Such", tmp_path):
        raise AssertionError("it cannot start")

    class Half(Simulation):
        """What starts more than one thing, and fails at the second."""

        begun = 0

        def start(self) -> None:
            super().start()
            Half.begun = self.pid
            raise Refusal("the second does not start.")

    with pytest.raises(Refusal, match="the second"), Half(PARROT, tmp_path):
        raise AssertionError("it cannot start")
    with pytest.raises(ProcessLookupError):
        os.kill(Half.begun, 0)
    with Simulation(PARROT, tmp_path) as made:
        before = made.pid
        with pytest.raises(Refusal, match="is running"):
            made.start()
        assert made.pid == before
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
