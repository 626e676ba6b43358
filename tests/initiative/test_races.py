"""Two nodes on one PostgreSQL at the same moment: no limit is passed, nothing is said twice."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.conftest import OpenStore
from tests.initiative.conftest import met, said
from threadline import ConversationRef, Threadline
from threadline.core.errors import LimitReached
from threadline.core.model import CONTROLLER
from threadline.core.ports import CHAIN
from threadline.core.sends import Channel, Repeat, Send, SendState
from threadline.flows.send_status import SendStatus
from threadline.flows.sends import WriteSend
from threadline.testing.clock import StillClock
from threadline.testing.simulation import Simulation

PEOPLE = itertools.count(80_000)
ROUNDS = 5
WAITING = """select count(*) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'"""


async def together(
    url: str, table: str, *work: Awaitable[Any], in_order: bool = False
) -> list[Any]:
    """Let all of it come as far as these rows before any of it goes on; what came of each. Who
    waits there `in_order` goes on in it."""
    holder = await asyncpg.connect(url)
    try:
        async with holder.transaction():
            await holder.execute(f"select from {table} for update")
            begun: list[asyncio.Future[Any]] = []
            for number, one in enumerate(work, 1):
                begun.append(asyncio.ensure_future(one))
                while (in_order or number == len(work)) and await holder.fetchval(WAITING) < number:
                    # Whoever ends before it came so far waits for nobody.
                    assert not any(one.done() for one in begun)
        return await asyncio.gather(*begun, return_exceptions=True)
    finally:
        await holder.close()


@pytest.mark.acceptance("H7")
async def test_two_nodes_that_count_at_the_same_moment_count_each_other(
    open_store: OpenStore, postgres_url: str, telegram: Simulation
) -> None:
    """One is left of a session's limit and two nodes ask for it, to different people."""
    nodes = [Threadline(one, allow_private=True) for one in await open_store(2)]
    line = nodes[0]
    await line.accounts.connect("telegram", {**telegram.credentials, "api": telegram.url})
    await line.sessions.create("agent")
    await line.consents.grant("agent", "telegram", "7001")
    people = [next(PEOPLE) for _ in range(4)]
    await met(line, telegram, *people)
    await line.consents.set_limits({"recipient_per_hour": 0, "recipient_per_day": 0})
    for number in range(ROUNDS):
        await line.consents.set_limits({"session_per_hour": number + 1})
        pair = people[:2] if number % 2 else people[2:]
        sends = (
            node.initiative.send("agent", f"telegram:{person}", f"{number}")
            for node, person in zip(nodes, pair, strict=True)
        )
        answers = await together(postgres_url, "chains", *sends)
        assert {type(one) for one in answers} == {SendStatus, LimitReached}, number
    for one in nodes:
        await one.outbox.close()


@pytest.mark.acceptance("H7")
def test_who_counts_holds_the_chain_before_anything_is_read() -> None:
    """What one node counted stands in the chain before another one reads a count."""
    ref = ConversationRef("telegram", "7001", "1")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    send = Send(id=0, scope_id="s", session=1, to="", via="", text="", created_at=at)
    channel = Channel(provider="telegram", account_id="7001")
    asked = WriteSend(send=send, channel=channel, left=(), ref=ref, caller=CONTROLLER).needs()

    assert (CHAIN, "s") in asked.hold


async def test_two_nodes_that_look_at_the_same_moment_begin_a_day_once(
    open_store: OpenStore, postgres_url: str, telegram: Simulation, clock: StillClock
) -> None:
    """Each of them finds the daily send due; one of them begins it."""
    nodes = [Threadline(one, allow_private=True) for one in await open_store(2)]
    line = nodes[0]
    await line.accounts.connect("telegram", {**telegram.credentials, "api": telegram.url})
    await line.sessions.create("agent")
    await line.consents.grant("agent", "telegram", "7001")
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    daily = Repeat(at=f"{clock():%H:%M}", zone="UTC")
    await line.initiative.send("agent", f"telegram:{ada}", "daily", repeat=daily)
    for day in range(1, ROUNDS + 1):
        clock.move(days=1)
        await together(postgres_url, "sends", *(one.initiative.round() for one in nodes))
        await line.outbox.round()
        assert len(said(telegram, ada)) == day
    for one in nodes:
        await one.outbox.close()


@pytest.mark.parametrize("every", ["day", "once"])
async def test_what_is_taken_back_while_another_node_begins_it_is_not_said_again(
    open_store: OpenStore, postgres_url: str, telegram: Simulation, clock: StillClock, every: str
) -> None:
    """The other node takes the step first; who takes it back then takes back what became of it."""
    nodes = [Threadline(one, allow_private=True) for one in await open_store(2)]
    line, other = nodes
    await line.accounts.connect("telegram", {**telegram.credentials, "api": telegram.url})
    await line.sessions.create("agent")
    await line.consents.grant("agent", "telegram", "7001")
    ada = next(PEOPLE)
    await met(line, telegram, ada)
    at = clock() + timedelta(hours=1)
    when: dict[str, Any] = {"repeat": Repeat(at=f"{at:%H:%M}", zone="UTC")}
    sent = await line.initiative.send(
        "agent", f"telegram:{ada}", "due", **(when if every == "day" else {"at": at})
    )
    clock.move(hours=1)
    table = "sends" if every == "day" else "chains"
    _, answer = await together(
        postgres_url,
        table,
        other.initiative.round(),
        line.initiative.cancel(sent.id),
        in_order=True,
    )
    assert answer.state is SendState.CANCELLED
    for _ in range(2):
        await line.outbox.round()
        clock.move(days=1)
        await line.initiative.round()
    assert len(said(telegram, ada)) == (1 if every == "day" else 0)
    for one in nodes:
        await one.outbox.close()
