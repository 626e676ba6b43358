"""Limits: exactly N over processes, exact to the microsecond, given back once, closed in doubt."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.conftest import OpenStore, open_at
from tests.http.conftest import Served
from tests.initiative.conftest import met, said
from threadline import Threadline
from threadline.core.errors import LimitReached, ThreadlineError
from threadline.core.sends import SendState
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation

PEOPLE = itertools.count(60_000)
N = 10
NO_LIMIT = {
    f"{subject}_per_{window}": 0
    for subject in ("recipient", "session", "account")
    for window in ("hour", "day")
}
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WINDOWS = {"hour": HOUR, "day": DAY}
ROOT = Path(__file__).parent.parent.parent


def at_once(asked: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What came of all these sends, each list of them in a process of its own."""
    command = [sys.executable, "-m", "tests.initiative.sender"]
    children = [
        subprocess.Popen(
            [*command, json.dumps(one)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for one in asked
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        found: list[dict[str, Any]] = []
        for child in children:
            out, _ = child.communicate(timeout=120)
            found += json.loads(out)
        return found
    finally:
        for child in children:
            child.kill()
            child.wait()


def shared(name: str, people: Sequence[int]) -> list[list[dict[str, str]]]:
    """N sends for each of two processes, with in common what a limit of this name counts."""
    found = []
    for process in range(2):
        sends = []
        for number in range(N):
            person = people[0] if name.startswith("recipient") else people[number]
            if name.startswith("account"):
                person = people[process * N + number]
            session = f"agent-{process}" if name.startswith("account") else "agent-0"
            text = f"{process}.{number}"
            sends.append({"session": session, "to": f"telegram:{person}", "text": text})
        found.append(sends)
    return found


async def furnished(line: Threadline, telegram: Simulation, people: Sequence[int]) -> None:
    """A bot that two agents may write through, and people who wrote to it."""
    await line.accounts.connect("telegram", {**telegram.credentials, "api": telegram.url})
    for session in ("agent-0", "agent-1"):
        await line.sessions.create(session)
        await line.consents.grant(session, "telegram", "7001")
    await met(line, telegram, *people)


@pytest.mark.acceptance("H7")
@pytest.mark.parametrize("name", NO_LIMIT)
async def test_over_two_processes_exactly_so_many_leave_and_the_others_are_told_when(
    open_store: OpenStore,
    postgres_url: str,
    key: bytes,
    clock: StillClock,
    telegram: Simulation,
    name: str,
) -> None:
    """Two nodes on one PostgreSQL, a limit of N, 2N sends at once."""
    [node] = await open_store(1)
    line = Threadline(node, allow_private=True)
    people = [next(PEOPLE) for _ in range(2 * N)]
    await furnished(line, telegram, people)
    await line.consents.set_limits({**NO_LIMIT, name: N})
    common = {"store": postgres_url, "key": key.hex(), "now": clock().isoformat()}
    asked = [common | {"sends": sends} for sends in shared(name, people)]
    found = await asyncio.to_thread(at_once, asked)
    passed = [one for one in found if "id" in one]
    refused = [one for one in found if "id" not in one]
    assert (len(passed), len(refused)) == (N, N)
    frees = (clock() + WINDOWS[name.rpartition("_")[2]]).isoformat()
    for one in refused:
        assert (one["code"], one["limit"], one["number"]) == ("limit_reached", name, N)
        assert one["frees_at"] == frees
    while await line.outbox.round():
        pass
    assert sum(len(said(telegram, person)) for person in people) == N
    entries = [one.action for one in await line.audits.list(limit=500)]
    assert (entries.count("send"), entries.count("send.refused")) == (N, N)
    assert (await line.audits.verify()).whole
    await line.outbox.close()


@pytest.mark.acceptance("H7")
async def test_two_processes_at_one_server_get_exactly_so_many_and_a_change_holds_at_once(
    tmp_path: Path, telegram: Simulation
) -> None:
    """SQLite behind `threadline serve`; the limit is raised while it runs, and that is audited."""
    served = Served(tmp_path, settings={"THREADLINE_ADAPTERS_ALLOW_PRIVATE": "true"})
    served.home.mkdir()
    key = bytes(range(32))
    (served.home / "threadline.db.key").write_text(key.hex() + "\n")
    store = await open_at(f"sqlite:{served.home / 'threadline.db'}", key)
    line = Threadline(store, allow_private=True)
    ada = next(PEOPLE)
    await furnished(line, telegram, [ada])
    await line.outbox.close()
    await store.close()
    served.start()
    try:
        with served.client() as boss:

            def limited(number: int) -> None:
                given = {**NO_LIMIT, "recipient_per_hour": number}
                answer = boss.put("/v1/limits", json=given)
                assert answer.status_code == 200, answer.text

            def tried() -> tuple[int, list[dict[str, Any]]]:
                common = {"server": served.url, "token": served.token}
                sends = shared("recipient_per_hour", [ada])
                found = at_once([common | {"sends": one} for one in sends])
                return sum("id" in one for one in found), [one for one in found if "id" not in one]

            limited(N)
            began = boss.get("/v1/limits").json()
            first, refused = await asyncio.to_thread(tried)
            limited(N + 3)
            second, refused_again = await asyncio.to_thread(tried)
            audit = boss.get("/v1/audit").json()["entries"]
        for one in refused:
            assert (one["status"], one["code"], one["number"]) == (429, "limit_reached", N)
            assert datetime.fromisoformat(one["frees_at"]).tzinfo is not None
            assert 0 < one["retry_after"] <= 3600
        assert began["limits"]["recipient_per_hour"] == N
        assert (first, len(refused), second, len(refused_again)) == (N, N, 3, 2 * N - 3)
        await asyncio.to_thread(telegram.effects, "message", place=str(ada), at_least=N + 3)
        assert len(said(telegram, ada)) == N + 3
        changes = [one["facts"] for one in audit if one["action"] == "limits.changed"]
        assert [one["recipient_per_hour"] for one in reversed(changes)] == [N, N + 3]
    finally:
        served.kill()


@pytest.mark.acceptance("H7")
@pytest.mark.parametrize("name", NO_LIMIT)
async def test_a_window_ends_to_the_microsecond(
    line: Threadline, telegram: Simulation, clock: StillClock, name: str
) -> None:
    """One of two frees when the older of them is as old as the window, not before."""
    window = WINDOWS[name.rpartition("_")[2]]
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    await line.consents.set_limits({**NO_LIMIT, name: 2})
    to = f"telegram:{ada}"
    began = clock()
    await line.initiative.send("agent", to, "one")
    clock.move(minutes=7)
    await line.initiative.send("agent", to, "two")
    clock.at = began + window - timedelta(microseconds=1)
    with pytest.raises(LimitReached) as full:
        await line.initiative.send("agent", to, "early")
    assert full.value.facts["frees_at"] == (began + window).isoformat()
    assert (full.value.facts["limit"], full.value.facts["number"]) == (name, 2)
    assert full.value.facts["retry_after"] == 1
    clock.at = began + window
    await line.initiative.send("agent", to, "three")
    with pytest.raises(LimitReached) as full:
        await line.initiative.send("agent", to, "four")
    assert full.value.facts["frees_at"] == (began + timedelta(minutes=7) + window).isoformat()


async def free(line: Threadline, to: str, most: int) -> int:
    """How many of a limit of `most` are left: so many more leave."""
    left = 0
    while left <= most:
        try:
            await line.initiative.send("agent", to, f"one of the rest, {left}")
        except LimitReached:
            break
        left += 1
    return left


@pytest.mark.acceptance("H7", "H3")
@pytest.mark.parametrize("end", ["refused", "cancelled", "expired", "delivered"])
async def test_what_did_not_leave_is_given_back_once(
    line: Threadline, telegram: Simulation, clock: StillClock, end: str
) -> None:
    """Three of a limit of five are taken and one of them ends: that one is free again, or, if it
    was said, is not. Further rounds change nothing."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    await line.consents.set_limits({**NO_LIMIT, "recipient_per_day": 5})
    to = f"telegram:{ada}"
    for text in ("one", "two"):
        await line.initiative.send("agent", to, text)
    await line.outbox.round()
    if end == "refused":
        telegram.do("block", user=ada)
    sent = await line.initiative.send("agent", to, "three")
    if end == "cancelled":
        await line.initiative.cancel(sent.id)
    if end == "expired":
        clock.move(hours=5)
    for _ in range(3):
        await line.outbox.round()
        await line.initiative.round()
        await line.upkeep.round()
    done = await line.initiative.show(sent.id)
    wanted = {"refused": SendState.FAILED, "cancelled": SendState.CANCELLED}
    wanted |= {"expired": SendState.EXPIRED, "delivered": SendState.DELIVERED}
    assert done.state is wanted[end]
    telegram.do("unblock", user=ada)
    assert await free(line, to, 5) == (2 if end == "delivered" else 3)


@pytest.mark.acceptance("H7")
async def test_what_one_limit_refused_is_counted_by_none(
    line: Threadline, telegram: Simulation
) -> None:
    """The session's limit refuses: nothing of the recipient's is taken."""
    ada, bob = next(PEOPLE), next(PEOPLE)
    await met(line, telegram, ada, bob)
    await line.consents.set_limits({**NO_LIMIT, "recipient_per_hour": 1, "account_per_hour": 1})
    await line.initiative.send("agent", f"telegram:{ada}", "one")
    for _ in range(3):
        with pytest.raises(LimitReached) as full:
            await line.initiative.send("agent", f"telegram:{bob}", "refused")
        assert full.value.facts["limit"] == "account_per_hour"
    await line.consents.set_limits({"account_per_hour": 0})
    await line.initiative.send("agent", f"telegram:{bob}", "two")


@pytest.mark.acceptance("H7")
async def test_a_limit_that_is_lowered_below_what_was_said_frees_when_enough_is_old(
    line: Threadline, telegram: Simulation, clock: StillClock
) -> None:
    """Without a restart; and 0 lifts it."""
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    to = f"telegram:{ada}"
    began = clock()
    await line.consents.set_limits(NO_LIMIT)
    for number in range(4):
        await line.initiative.send("agent", to, f"{number}")
        clock.move(minutes=5)
    await line.consents.set_limits({"recipient_per_hour": 2})
    with pytest.raises(LimitReached) as full:
        await line.initiative.send("agent", to, "more")
    assert full.value.facts["frees_at"] == (began + timedelta(minutes=10) + HOUR).isoformat()
    await line.consents.set_limits({"recipient_per_hour": 0})
    await line.initiative.send("agent", to, "more")
    changes = [one.facts for one in await line.audits.list() if one.action == "limits.changed"]
    assert [one["recipient_per_hour"] for one in reversed(changes)] == [0, 2, 0]


BROKEN = {
    "a limit that is none": "update settings set body = replace(body, ':3', ':-3')",
    "limits that cannot be read": "update settings set body = '{'",
    "a count that cannot be read": "update quotas set body = '['",
    "no counts at all": "drop table quotas",
}


@pytest.mark.acceptance("H7")
@pytest.mark.parametrize("what", BROKEN)
async def test_where_the_count_is_in_doubt_nothing_leaves(
    sqlite_url: str, key: bytes, clock: StillClock, telegram: Simulation, what: str
) -> None:
    """It fails closed: an error, no intent, nothing at the platform."""
    store = await open_at(sqlite_url, key, clock=clock)
    line = Threadline(store, allow_private=True)
    ada = next(PEOPLE)
    await furnished(line, telegram, [ada])
    await line.consents.set_limits({"recipient_per_hour": 3})
    await line.initiative.send("agent-0", f"telegram:{ada}", "one")
    await line.outbox.round()
    apsw.Connection(sqlite_url.removeprefix("sqlite:")).execute(BROKEN[what])
    for _ in range(2):
        with pytest.raises(ThreadlineError):
            await line.initiative.send("agent-0", f"telegram:{ada}", "two")
    await line.outbox.round()
    assert said(telegram, ada) == ["one"]
    assert len(await line.initiative.list()) == 1
    await line.outbox.close()
    await store.close()
