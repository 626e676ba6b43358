"""The long poll: what is confirmed when, and what a person is told when nothing can be heard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from tests.telegram.conftest import ACCOUNT
from threadline.core.adapters import Account
from threadline.core.errors import Conflict, Unauthenticated
from threadline.core.wire import ApiCall, ApiResponse, Batch, Lost, Unsent
from threadline.testing.simulation import Simulation
from threadline.transports.telegram import TelegramTransport

SIMULATOR = "tests.telegram.platform:Platform"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """One simulated Telegram for this file."""
    with Simulation(SIMULATOR, tmp_path_factory.mktemp("telegram")) as made:
        yield made


@pytest.fixture
def telegram(shared: Simulation) -> Simulation:
    """Nothing waits there, and no webhook is set."""
    shared.calm()
    shared.webhook("")
    return shared


@pytest.fixture
def account(telegram: Simulation) -> Account:
    """The simulated bot."""
    return replace(ACCOUNT, credentials=telegram.credentials, settings={"api": telegram.url})


@pytest.fixture
async def wire() -> AsyncIterator[TelegramTransport]:
    """A wire that waits for a second at most."""
    made = TelegramTransport(allow_private=True, patience=2)
    yield made
    await made.close()


async def told(batches: AsyncGenerator[Batch, None], chat: int) -> tuple[list[str], str | None]:
    """What the next batch with something of a chat holds, and where it goes on behind it."""
    async for batch in batches:
        found = [json.loads(one.body)["message"] for one in batch.requests]
        texts = [one["text"] for one in found if one["chat"]["id"] == chat]
        if texts:
            return texts, batch.cursor
    raise AssertionError("the poll ended")


async def polling(wire: TelegramTransport, account: Account) -> None:
    """Poll until something is wrong."""
    async for _ in wire.listen(account, None):
        pass


async def test_nothing_is_confirmed_before_whoever_listens_asks_for_more(
    telegram: Simulation, account: Account, wire: TelegramTransport
) -> None:
    """Who dies between hearing and storing hears it again; who stored goes on behind it."""
    telegram.do("write", chat=9, text="one")
    telegram.do("write", chat=9, text="two")
    async with aclosing(wire.listen(account, None)) as batches:
        first, cursor = await told(batches, 9)
    async with aclosing(wire.listen(account, None)) as batches:
        again, _ = await told(batches, 9)
    telegram.do("write", chat=9, text="three")
    async with aclosing(wire.listen(account, cursor)) as batches:
        then, end = await told(batches, 9)
        await batches.__anext__()

    assert (first, again, then) == (["one", "two"], ["one", "two"], ["three"])
    assert end != cursor
    confirmed = [one["state"] for one in telegram.settled() if one["place"] == "9"]
    assert confirmed == ["done"] * 3


async def test_a_poll_without_news_keeps_the_cursor(
    telegram: Simulation, account: Account, wire: TelegramTransport
) -> None:
    """An empty batch says that Telegram answered."""
    cursor: str | None = "4711"
    async for batch in wire.listen(account, cursor):
        if not batch.requests:
            assert batch == Batch(cursor=cursor)
            break
        cursor = batch.cursor


@pytest.mark.case("B033")
async def test_another_program_that_polls_is_named_and_what_to_do(
    telegram: Simulation, account: Account, wire: TelegramTransport
) -> None:
    """Telegram ends ours when another one asks."""
    other = TelegramTransport(allow_private=True, patience=2)
    polls = [asyncio.create_task(polling(one, account)) for one in (wire, other)]
    done, rest = await asyncio.wait(polls, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    for one in rest:
        one.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    await other.close()
    [ended] = done
    error = ended.exception()
    assert isinstance(error, Conflict)
    assert "another program asks" in str(error)
    assert "/revoke at @BotFather" in str(error)


async def test_a_webhook_that_is_set_is_named(
    telegram: Simulation, account: Account, wire: TelegramTransport
) -> None:
    """And how it goes away."""
    telegram.webhook("http://127.0.0.1:9/never")
    with pytest.raises(Conflict, match="a webhook is set"):
        await wire.listen(account, None).__anext__()


async def test_a_token_that_does_not_hold_is_named(
    telegram: Simulation, account: Account, wire: TelegramTransport
) -> None:
    """Only a person can help there; the words do not show it."""
    wrong = replace(account, credentials={"token": "7001:another"})
    with pytest.raises(Unauthenticated, match="connect the account again") as caught:
        await wire.listen(wrong, None).__anext__()
    assert "another" not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"fault": "reset"}, Lost),
        ({"fault": "status", "status": 502}, Lost),
        ({"fault": "answer", "body": {"ok": True, "result": "x"}}, Lost),
    ],
    ids=["reset", "502", "junk"],
)
async def test_what_waiting_may_cure_is_left_to_whoever_listens(
    telegram: Simulation,
    account: Account,
    wire: TelegramTransport,
    fault: dict[str, Any],
    error: type[Exception],
) -> None:
    """The next attempt hears what was missed."""
    telegram.do("write", chat=11, text="still there")
    telegram.fault(**fault, on="getUpdates")
    with pytest.raises(error):
        await wire.listen(account, None).__anext__()
    async with aclosing(wire.listen(account, None)) as batches:
        assert "still there" in (await told(batches, 11))[0]


async def test_a_limit_is_waited_for(
    telegram: Simulation, account: Account, wire: TelegramTransport
) -> None:
    """Inside the poll, as long as Telegram asks."""
    telegram.do("write", chat=12, text="late")
    telegram.fault("rate_limit", on="getUpdates", wait=1)
    async with aclosing(wire.listen(account, None)) as batches:
        assert "late" in (await told(batches, 12))[0]


async def test_where_nobody_answers_nothing_left(account: Account, wire: TelegramTransport) -> None:
    """So waiting may help."""
    nowhere = replace(account, settings={"api": "http://127.0.0.1:1"})
    with pytest.raises(Unsent):
        await wire.listen(nowhere, None).__anext__()


class Slow(TelegramTransport):
    """Says a wait beyond all numbers, once."""

    asked = 0

    async def perform(self, call: ApiCall) -> ApiResponse:
        """See above."""
        self.asked += 1
        if self.asked > 1:
            raise Lost("that was all")
        wait = b"1" + b"0" * 400
        return ApiResponse(status=429, body=b'{"parameters": {"retry_after": %s}}' % wait)


async def test_a_wait_beyond_all_numbers_is_waited_for_a_moment() -> None:
    """The poll goes on, whatever Telegram says."""
    with pytest.raises(Lost, match="that was all"):
        await anext(Slow().listen(ACCOUNT, None))
