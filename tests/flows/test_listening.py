"""Who fetches an account's events: one that is replaced sets nothing back, none ends in silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.conftest import Store
from threadline import Threadline
from threadline.adapters.telegram import Telegram
from threadline.core.adapters import Account, Adapter, Capabilities
from threadline.core.errors import StaleToken
from threadline.core.wire import ApiCall, ApiResponse, Batch
from threadline.flows import listening
from threadline.flows.accounts import WriteAccount
from threadline.flows.adapters import Remove
from threadline.flows.listening import Advance, TakeListener
from threadline.flows.sealing import nonce
from threadline.testing.clock import StillClock

KEY = ("default", "telegram", "7001")


def write(token: str) -> WriteAccount:
    """The account, connected with this token."""
    account = Account(
        scope_id="default",
        provider="telegram",
        account_id="7001",
        capabilities=Capabilities(),
        installation="7001",
        credentials={"token": token},
    )
    return WriteAccount(key=KEY, account=account, fresh=nonce())


async def test_who_listened_before_a_removal_moves_no_cursor(
    store: Store, clock: StillClock
) -> None:
    """One node sleeps through a removal and a new connection: its fence is none of the new ones."""
    await store.run(write("old"))
    one = await store.run(TakeListener(key=KEY, owner="one"))
    await store.run(Remove(key=KEY, owner=None))
    clock.move(seconds=1)
    await store.run(write("new"))
    two = await store.run(TakeListener(key=KEY, owner="two"))
    assert one is not None
    assert two is not None
    await store.run(Advance(key=KEY, fence=two.fence, cursor="new place", heard=True))
    with pytest.raises(StaleToken):
        await store.run(Advance(key=KEY, fence=one.fence, cursor="old place", heard=True))


class Broken:
    """A platform whose wire fails in a way nobody thought of, three times; then it brings word."""

    def __init__(self) -> None:
        self.tries = 0
        self.heard = asyncio.Event()

    async def listen(self, account: Account, cursor: str | None) -> AsyncGenerator[Batch, None]:
        """See `core.adapters.Listener`."""
        self.tries += 1
        if self.tries <= 3:
            raise OverflowError("int too large for t0ken")
        yield Batch(cursor="7")
        self.heard.set()
        await asyncio.Event().wait()

    async def perform(self, call: ApiCall) -> ApiResponse:
        """Nothing is asked."""
        return ApiResponse(status=404)

    async def close(self) -> None:
        """Nothing is open."""

    def dialect(self, account: Account) -> Adapter:
        """Telegram's, which listens."""
        return Telegram(account)

    def files(self, seconds: float) -> Any:
        """Itself."""
        return self

    def transport(self, provider: str) -> Any:
        """Itself."""
        return self

    def connectable(self, provider: str) -> type[Telegram]:
        """Telegram's."""
        return Telegram


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_a_listener_that_fails_in_whatever_way_is_told_of_and_begins_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = Broken()
    line = Threadline(store, channels=platform)
    await store.run(write("t0ken"))
    told: list[str] = []
    pauses: list[int] = []

    async def seen(self: Any, key: Any, fence: int, trouble: str) -> None:
        await written(self, key, fence, trouble)
        state = await line.adapters.show("telegram", "7001")
        told.append(state.trouble)

    def pause(failures: int) -> float:
        pauses.append(failures)
        return 0.0

    written = listening.Listeners._told
    monkeypatch.setattr(listening.Listeners, "_told", seen)
    monkeypatch.setattr(listening, "_pause", pause)
    stopping = asyncio.Event()
    running = asyncio.create_task(line.listeners.run(stopping))
    await platform.heard.wait()
    stopping.set()
    await running

    assert told == ["an error of this program, to be reported: OverflowError."] * 3
    assert pauses == [1, 2, 3], "each wait is longer"
    state = await line.adapters.show("telegram", "7001")
    assert state.trouble == "", "and it is forgotten once something was heard"
