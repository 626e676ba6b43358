"""Whether a server lives, is ready, how it does: for orchestrators, for Prometheus, for people."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import httpx
import pytest

from tests.conftest import Databases, open_at
from tests.http.conftest import LOBBY, Site, message, problem, running
from tests.proxies import proxy
from threadline import Threadline
from threadline.adapters.http import Http
from threadline.core.adapters import Account
from threadline.core.attempts import Attempt
from threadline.core.deliveries import Delivery, DeliveryState, Failure
from threadline.core.model import Controller, ConversationRef
from threadline.core.outside import Fault
from threadline.core.ports import Story
from threadline.core.push import PACE, PushTarget
from threadline.core.wire import ApiCall, Receipt, Refused
from threadline.entrypoints.http.loops import Pulse, beat, kept
from threadline.entrypoints.http.metrics import Metrics
from threadline.flows import batches
from threadline.flows.hearing import About, HearReceipt
from threadline.flows.outbox import Settle
from threadline.stores.postgres import open_postgres


def figures(text: str) -> dict[str, float]:
    """Prometheus' lines as numbers."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


@dataclass
class Settled:
    """A story and its answer, as a store tells of them."""

    story: Story[Any]
    answer: Any
    mark: Any


async def metrics(site: Site) -> dict[str, float]:
    """What a scraper on this machine gets."""
    answer = await site.client().get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return figures(answer.text)


async def said(client: httpx.AsyncClient, lobby: str, *texts: str, **more: Any) -> None:
    """Append messages."""
    for text in texts:
        path = f"/v1/conversations/{lobby}/transcript"
        assert (await client.post(path, json=message(text, **more))).status_code == 200


async def test_a_server_that_can_work_says_so_to_anybody(site: Site) -> None:
    """An orchestrator has no token."""
    nobody = site.client()

    alive, ready = await nobody.get("/health"), await nobody.get("/ready")

    assert (alive.status_code, alive.json()) == (200, {"status": "ok", "service": "threadline"})
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "failing_loops": []})


async def test_a_stopping_server_lives_and_is_not_ready(site: Site) -> None:
    """A load balancer takes it out while it ends what it began."""
    site.app.state.stopping.set()
    nobody = site.client()

    ready = problem(await nobody.get("/ready"), 503, "not_ready")

    assert [one["code"] for one in ready["facts"]["reasons"]] == ["stopping"]
    assert (await nobody.get("/health")).status_code == 200


class Failing(apsw.VFS):
    """A disk whose writes fail from when it is told to."""

    def __init__(self) -> None:
        self.fails = False
        super().__init__("failing", "")

    def xOpen(self, name: Any, flags: list[int]) -> FailingFile:
        """Every file fails together."""
        file = FailingFile("", name, flags)
        file.disk = self
        return file


class FailingFile(apsw.VFSFile):
    """A file on that disk."""

    disk: Failing

    def xWrite(self, data: Any, offset: int) -> None:
        """Write, unless the disk failed."""
        if self.disk.fails:
            raise apsw.IOError("as asked")
        super().xWrite(data, offset)


async def test_a_disk_that_failed_a_write_is_not_ready_though_it_can_be_read(
    tmp_path: Path, key: bytes
) -> None:
    """Nothing is written to it any more, so nothing may be sent here."""
    disk = Failing()
    store = await open_at(f"sqlite:{tmp_path / 'a.db'}", key, vfs="failing")
    async with running(Threadline(store)) as site:
        boss = await site.controller()
        assert (await boss.post("/v1/conversations", json=LOBBY)).status_code == 200

        disk.fails = True
        other = LOBBY | {"conversation_id": "other"}
        refused = await boss.post("/v1/conversations", json=other)
        ready = problem(await site.client().get("/ready"), 503, "not_ready")
        shown = (await boss.get("/v1/status")).json()

        assert refused.status_code == 503
        assert [one["code"] for one in ready["facts"]["reasons"]] == ["store_unavailable"]
        assert str(tmp_path) not in str(ready)
        assert "the disk failed" in shown["store"]["fault"]["detail"]
        disk.fails = False
    await store.close()


async def test_a_database_that_is_gone_makes_it_unready_until_it_is_back(
    databases: Databases, postgres_url: str, key: bytes
) -> None:
    """By a real read, not by whether a connection seems open."""
    port = databases.server.port
    async with proxy(port) as near:
        store = await open_postgres(postgres_url.replace(f":{port}/", f":{near.port}/"), key)
        async with running(Threadline(store)) as site:
            nobody = site.client()
            assert (await nobody.get("/ready")).status_code == 200

            await near.leave()
            gone = problem(await nobody.get("/ready"), 503, "not_ready")
            await near.come_back()
            while (back := await nobody.get("/ready")).status_code != 200:
                pass

        assert [one["code"] for one in gone["facts"]["reasons"]] == ["store_unavailable"]
        assert str(near.port) not in str(gone)
        assert back.json()["status"] == "ready"
        await store.close()


async def test_a_database_that_a_newer_threadline_changed_is_not_ours(
    postgres_url: str, key: bytes
) -> None:
    """A node that was left behind is taken out."""
    store = await open_postgres(postgres_url, key)
    async with running(Threadline(store)) as site:
        newer = await asyncpg.connect(postgres_url)
        await newer.execute("update meta set value = '9999' where name = 'schema'")
        await newer.close()

        ready = problem(await site.client().get("/ready"), 503, "not_ready")

        assert [one["code"] for one in ready["facts"]["reasons"]] == ["schema_newer"]
    await store.close()


@pytest.mark.parametrize(
    "header", ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP"]
)
async def test_figures_are_for_a_scraper_here_and_for_nobody_a_proxy_speaks_for(
    site: Site, header: str
) -> None:
    """It looks as if there were no such route, whatever token is shown."""
    boss = await site.controller(None)

    assert (await boss.get("/metrics")).status_code == 200
    problem(await boss.get("/metrics", headers={header: "127.0.0.1"}), 404, "not_found")


@pytest.mark.parametrize("address", ["10.1.2.3", "203.0.113.9", "fe80::1", "::ffff:10.0.0.1"])
async def test_figures_are_for_no_other_machine(site: Site, address: str) -> None:
    """By the peer of the connection."""
    away = httpx.ASGITransport(site.app, client=(address, 50_000))
    here = httpx.ASGITransport(site.app, client=("127.0.0.9", 50_000))
    async with (
        httpx.AsyncClient(transport=away, base_url="http://localhost") as other,
        httpx.AsyncClient(transport=here, base_url="http://localhost") as own,
    ):
        problem(await other.get("/metrics"), 404, "not_found")
        assert (await own.get("/metrics")).status_code == 200


async def test_what_is_decided_is_counted_and_nobody_is_named(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """Appends, duplicates, what nobody reads, publications, acknowledgements, requests, streams."""
    await said(boss, lobby, "to nobody")
    await boss.put(f"/v1/conversations/{lobby}/members/coder", json={"policy": "all"})
    await boss.put(f"/v1/conversations/{lobby}/binding", json={"session_id": "coder"})
    coder = await site.session("coder")
    for _ in range(3):
        await said(boss, lobby, "the same", message_id="m1")
    answer = await coder.post(
        f"/v1/conversations/{lobby}/messages", json={"session_id": "coder", "text": "hello"}
    )
    assert answer.status_code in (200, 202), answer.text
    await coder.post(f"/v1/conversations/{lobby}/members/coder/ack", json={"sequence": 2})
    async with site.stream(coder, "/v1/sessions/coder/stream") as events:
        await events.next()
        found = await metrics(site)

    assert found['threadline_appends_total{direction="inbound",outcome="appended"}'] == 2
    assert found['threadline_appends_total{direction="inbound",outcome="duplicate"}'] == 2
    assert found['threadline_appends_total{direction="outbound",outcome="appended"}'] == 1
    assert found["threadline_unread_total"] == 1
    assert found['threadline_publishes_total{state="delivered"}'] == 1
    assert found["threadline_acks_total"] == 1
    assert found["threadline_streams"] == 1
    transcript = 'route="/v1/conversations/{conversation}/transcript",status="200"'
    assert found[f'threadline_http_requests_total{{method="POST",{transcript}}}'] == 4
    assert found["threadline_commit_seconds_count"] >= 5
    for name in found:
        for secret in (lobby, "lobby", "office", "coder", "hello", "ada", "Ada", "m1"):
            assert secret not in name, name


async def test_an_unknown_path_or_method_makes_no_new_figure(
    site: Site, boss: httpx.AsyncClient
) -> None:
    """Whoever calls a thousand made-up paths fills no memory."""
    for number in range(5):
        await boss.get(f"/nowhere/{number}")
        await boss.request(f"MADE{number}", "/health")

    found = await metrics(site)

    made = [name for name in found if "nowhere" in name or "MADE" in name]
    assert made == []
    assert found['threadline_http_requests_total{method="GET",route="(none)",status="404"}'] == 5


def pushed(fault: Fault | None, *, arrived: bool = False) -> batches.Settle:
    """What became of a batch."""
    return batches.Settle(
        session=1,
        fence=1,
        room=1,
        ack=None,
        fault=fault,
        arrived=arrived,
        chance=0.5,
        retry_after=None,
        pace=PACE,
    )


@pytest.mark.case("B185")
async def test_what_failed_is_counted_by_its_account_and_webhooks_by_what_came_of_them(
    site: Site, boss: httpx.AsyncClient
) -> None:
    """A path that anybody may make up makes no figure of its own."""
    counted = Metrics("sqlite")
    failed = Delivery(
        conversation=1,
        id=1,
        session=1,
        state=DeliveryState.FAILED,
        right="group",
        created_at=datetime.now(UTC),
        text="",
    )
    attempt = Attempt(
        conversation=1,
        delivery=1,
        part=1,
        number=1,
        fence=1,
        provider="slack",
        account="T1",
        adapter=Http(Account(scope_id="default", provider="slack", account_id="T1")),
        call=ApiCall(method="POST", url="https://example.org"),
    )
    ref = ConversationRef("twilio", "AC1:+1555", "+1556")
    refusal = Refused(failure=Failure.PERMANENT)
    settle = Settle(attempt=attempt, outcome=refusal, chance=0.5)
    receipt = HearReceipt(receipt=Receipt(conversation=ref, message_id="m", refused=refusal))
    pairs: list[tuple[Any, Any]] = [(settle, failed)]
    pairs += [(receipt, About(True, True)), (receipt, About(True, False))]
    target = PushTarget(
        session=1,
        url="https://example.org",
        sealed="",
        set_by="session",
        created_at=datetime.now(UTC),
    )
    pairs += [(pushed(Fault.TIMEOUT), target), (pushed(None, arrived=True), target)]
    # The target was set anew meanwhile, or its session retired: the call failed all the same.
    pairs += [(pushed(Fault.GONE), None)]
    counted.settled([Settled(story, answer, None) for story, answer in pairs], 1)
    shown = figures(counted.text().decode())
    assert shown['threadline_deliveries_failed_total{account="T1",provider="slack"}'] == 1
    assert shown['threadline_deliveries_failed_total{account="AC1:+1555",provider="twilio"}'] == 1

    assert {name: value for name, value in shown.items() if "push_failures_total" in name} == {
        'threadline_push_failures_total{reason="timeout"}': 1,
        'threadline_push_failures_total{reason="gone"}': 1,
    }

    for number in range(3):
        await boss.post(f"/v1/webhooks/made-up-{number}/x", content=b"{}")
    await boss.post("/v1/webhooks/telegram/nobody", content=b"{}")
    found = await metrics(site)
    assert found['threadline_webhooks_total{outcome="unknown",provider="other"}'] == 3
    assert found['threadline_webhooks_total{outcome="unknown",provider="telegram"}'] == 1
    assert not any("made-up" in name for name in found)


async def test_the_status_says_how_much_there_is_and_who_lags(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """In the scope of whoever asks."""
    await boss.put(f"/v1/conversations/{lobby}/members/quick", json={"policy": "all"})
    await boss.put(f"/v1/conversations/{lobby}/members/slow", json={"policy": "all"})
    await said(boss, lobby, "one", "two", "three")
    await boss.post(f"/v1/conversations/{lobby}/members/quick/ack", json={"sequence": 3})
    await boss.post(f"/v1/conversations/{lobby}/members/slow/ack", json={"sequence": 1})
    empty = await site.controller("elsewhere")

    own = (await boss.get("/v1/status")).json()
    other = (await empty.get("/v1/status")).json()

    counted = ("conversations", "records", "sessions", "members", "members_behind", "lag")
    assert [own[name] for name in counted] == [1, 3, 2, 2, 1, 2]
    assert own["lagging"] == [
        {"conversation": lobby, "ref": "web/office/lobby", "session_id": "slow", "behind": 2}
    ]
    assert [other[name] for name in counted] == [0] * 6
    assert (other["lagging"], other["deliveries"]) == ([], {"open": {}, "last_day": {}})
    assert own["complete"] is True
    assert own["store"] == {
        "kind": site.line.store.kind,
        "schema": site.line.store.schema,
        "fault": None,
    }
    assert {"upkeep", "census", "doorman"} <= {one["name"] for one in own["loops"]}


async def test_the_status_is_for_controllers(site: Site) -> None:
    """A session learns nothing of others by it."""
    problem(await (await site.session("coder")).get("/v1/status"), 403, "unauthorized")
    problem(await (await site.adapter()).get("/v1/status"), 403, "unauthorized")
    problem(await site.client().get("/v1/status"), 401, "unauthenticated")


async def test_what_waits_for_an_import_is_shown_as_held(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """Held, not lost."""
    begun = await boss.post(
        f"/v1/conversations/{lobby}/hydration", json={"action": "begin", "mode": "gated"}
    )
    assert begun.status_code == 200, begun.text
    adapter = await site.adapter()
    item = message("early") | {"conversation": {"conversation_id": "lobby", "kind": "room"}}
    assert (await adapter.post("/v1/inbound", json=item)).json()["held"] is True

    assert (await boss.get("/v1/status")).json()["held"] == 1
    await site.line.census.step()
    assert (await metrics(site))["threadline_held"] == 1


async def test_a_census_of_many_pages_counts_everything_once(tl: Threadline) -> None:
    """It goes on where it stopped, and tells a whole walk only."""
    for number in range(7):
        await tl.conversations.ensure(f"web/office/room{number}")
        await tl.members.join(f"web/office/room{number}", f"reader{number % 3}")

    ends = [await tl.census.step(1) for _ in range(3)]
    found = await tl.census.summary(caller=Controller(None))

    assert ends == [False, False, True]
    assert (found.counts.conversations, found.counts.members, found.counts.sessions) == (7, 7, 3)


async def test_a_loop_that_raises_is_counted_shown_and_goes_on() -> None:
    """It never dies silently, and a round that went well forgets the failures."""
    stopping = asyncio.Event()
    counted = Metrics("sqlite")
    pulse = Pulse("fragile", counted)
    seen: list[bool] = []

    async def fragile() -> None:
        seen.append(pulse.failing)
        if len(seen) == 3:
            return
        if len(seen) < 5:
            raise ValueError("words that may quote a message")
        beat()
        stopping.set()

    await asyncio.wait_for(kept(pulse, fragile, stopping, first=0.0), 60)

    found = figures(counted.text().decode())
    assert seen == [False, True, True, True, True]
    assert found['threadline_loop_failures_total{loop="fragile"}'] == 4
    assert 'threadline_loop_last_success_timestamp_seconds{loop="fragile"}' in found
    assert (pulse.failures, pulse.failing, pulse.last_error) == (0, False, "ValueError")


async def test_every_loop_says_when_it_last_did_well(site: Site, boss: httpx.AsyncClient) -> None:
    """Those that wait for something as well as those that tidy from time to time."""
    silent = {"?"}
    while silent:
        shown = (await boss.get("/v1/status")).json()["loops"]
        silent = {one["name"] for one in shown if one["last_success"] is None}

    assert {"outbox", "sends", "pushing", "listeners"} <= {one["name"] for one in shown}


async def test_a_failing_loop_is_named_by_ready_and_by_the_status(
    site: Site, boss: httpx.AsyncClient
) -> None:
    """Requests are answered all the same."""
    [upkeep] = [pulse for pulse in site.app.state.pulses if pulse.name == "upkeep"]
    await site.tidied()
    upkeep.failed(OSError("words"))

    ready = await site.client().get("/ready")
    shown = (await boss.get("/v1/status")).json()

    assert (ready.status_code, ready.json()["failing_loops"]) == (200, ["upkeep"])
    [loop] = [one for one in shown["loops"] if one["name"] == "upkeep"]
    assert (loop["last_error"], loop["failures"]) == ("OSError", 1)
    assert "words" not in str(shown)
