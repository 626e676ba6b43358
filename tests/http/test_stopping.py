"""A server that is told to stop ends what it began, says so to its readers, and leaves with 0."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from pathlib import Path

import httpx
import pytest

from tests.http.conftest import LOBBY, SECONDS, Events, Served, message
from threadline import Threadline


async def texts(served: Served) -> list[str]:
    """What the store of a stopped server holds."""
    async with Threadline.open(f"sqlite:{served.home / 'threadline.db'}") as line:
        async with line.store.check() as damage:
            assert [sentence async for sentence in damage] == []
        page = await line.conversations.transcript("web/office/lobby", order="asc", limit=500)
        return [record.text for record in page.records]


async def ended(stream: httpx.Response) -> str:
    """Why a stream ended; it has to say so."""
    events = Events(stream)
    while (event := await events.next()).name != "end":
        pass
    with pytest.raises(StopAsyncIteration):
        await events.next()
    reason: str = event.data["reason"]
    return reason


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_whoever_stops_it_gets_0_and_every_acknowledged_message_is_there(
    served: Served, how: signal.Signals
) -> None:
    """With streams open and appends under way; further signals change nothing."""
    process = served.process
    assert process is not None
    bearer = {"Authorization": f"Bearer {served.token}"}
    acknowledged: list[str] = []
    many = asyncio.Event()

    async with httpx.AsyncClient(base_url=served.url, headers=bearer, timeout=SECONDS) as boss:
        lobby = (await boss.post("/v1/conversations", json=LOBBY)).json()["id"]
        base = f"/v1/conversations/{lobby}"
        await boss.put(f"{base}/members/coder", json={"policy": "all"})

        async def talk(who: int) -> None:
            number = 0
            while True:
                text = f"{who}-{number}"
                try:
                    answer = await boss.post(f"{base}/transcript", json=message(text))
                except httpx.HTTPError:
                    return  # Not answered, so nothing was promised.
                if answer.status_code != 200:
                    return
                acknowledged.append(text)
                number += 1
                if number == 10:
                    many.set()

        async with (
            boss.stream("GET", "/v1/sessions/coder/stream") as session,
            boss.stream("GET", f"{base}/stream") as operator,
        ):
            talking = [asyncio.create_task(talk(who)) for who in range(4)]
            await asyncio.wait_for(many.wait(), SECONDS)
            process.send_signal(how)
            reasons = await asyncio.gather(ended(session), ended(operator))
            process.send_signal(signal.SIGTERM)
            process.send_signal(how)
            await asyncio.gather(*talking)
    code = await asyncio.to_thread(process.wait, SECONDS)

    kept = await texts(served)
    assert code == 0
    assert list(reasons) == ["stopping", "stopping"]
    assert set(acknowledged) <= set(kept)
    assert len(acknowledged) >= 10
    assert not (served.home / "threadline.db.hatch").exists()


async def test_a_client_that_never_ends_its_request_does_not_keep_it_from_stopping(
    served: Served,
) -> None:
    """Half a body, and a waiting inbox."""
    bearer = {"Authorization": f"Bearer {served.token}"}
    async with httpx.AsyncClient(base_url=served.url, headers=bearer, timeout=SECONDS) as boss:
        lobby = (await boss.post("/v1/conversations", json=LOBBY)).json()["id"]
        await boss.put(f"/v1/conversations/{lobby}/members/coder", json={"policy": "all"})
        waiting = asyncio.create_task(boss.get("/v1/sessions/coder/inbox", params={"wait": 60}))
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(
            b"POST /v1/conversations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n"
            b"Content-Type: application/json\r\nAuthorization: Bearer "
            + served.token.encode()
            + b"\r\n\r\n{"
        )
        await writer.drain()
        await boss.get("/health")

        code = await asyncio.to_thread(served.stop)
        answer = (await asyncio.gather(waiting, return_exceptions=True))[0]
        writer.close()
        del reader

    assert code == 0
    assert isinstance(answer, httpx.Response)
    assert answer.json()["records"] == []


def test_a_server_that_was_stopped_starts_again_on_the_same_port(served: Served) -> None:
    """Nothing of it is left."""
    codes = []
    for _ in range(2):
        codes.append(served.stop())
        served.start()
        with served.client() as boss:
            assert boss.get("/ready").status_code == 200

    assert codes == [0, 0]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_what_it_makes_is_for_its_owner_only_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """The home folder, and every file in it while it runs."""
    made = Served(tmp_path)
    before = os.umask(umask)
    try:
        made.start()
    finally:
        os.umask(before)
    try:
        with made.client() as boss:
            assert boss.post("/v1/conversations", json=LOBBY).status_code == 200
        found = {one.name: stat.S_IMODE(one.lstat().st_mode) for one in made.home.iterdir()}
    finally:
        made.stop()

    assert stat.S_IMODE(made.home.stat().st_mode) == 0o700
    assert {"threadline.db", "threadline.db-wal", "threadline.db.key", "admin.token"} <= set(found)
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
