"""Who fetches an account's events: one that is replaced sets nothing back, none ends in silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from tests.conftest import Store
from threadline import Threadline
from threadline.adapters.discord import Discord
from threadline.adapters.slack import Slack
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

    def connectable(self, provider: str) -> type[Any]:
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


DIALECTS = {"telegram": Telegram, "slack": Slack, "discord": Discord}


class Connections(Broken):
    """Platforms that know who is connected to them, and with which token."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, str]] = []
        self.changed = asyncio.Condition()

    async def listen(self, account: Account, cursor: str | None) -> AsyncGenerator[Batch, None]:
        """A connection that stays until whoever has it lets go."""
        mine = (account.provider, account.credentials["token"])
        await self._now(self.open.append, mine)
        try:
            yield Batch(cursor="1")
            await asyncio.Event().wait()
        finally:
            await self._now(self.open.remove, mine)

    async def _now(self, change: Any, mine: tuple[str, str]) -> None:
        change(mine)
        async with self.changed:
            self.changed.notify_all()

    async def until(self, *wanted: tuple[str, str]) -> None:
        """Wait until exactly these are connected."""
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(lambda: sorted(self.open) == sorted(wanted))

    def dialect(self, account: Account) -> Any:
        """Each platform's own."""
        return DIALECTS[account.provider](account)


def connect(provider: str, token: str) -> WriteAccount:
    """An account of a platform, connected with this token."""
    key = ("default", provider, "7001")
    account = Account(
        scope_id="default",
        provider=provider,
        account_id="7001",
        installation="7001",
        credentials={"token": token, "bot_token": token, "app_token": "xapp-1"},
    )
    return WriteAccount(key=key, account=account, fresh=nonce())


@pytest.mark.case("B149")
async def test_what_is_connected_anew_added_or_removed_is_what_runs_without_a_restart(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B149: a new token is used, what was removed is let go of, what was added begins."""
    monkeypatch.setattr(listening, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(listening, "RENEW_SECONDS", 0.05)
    platform = Connections()
    line = Threadline(store, channels=platform)
    stopping = asyncio.Event()
    running = asyncio.create_task(line.listeners.run(stopping))
    await store.run(connect("slack", "old"))
    await store.run(connect("telegram", "bot"))
    await platform.until(("slack", "old"), ("telegram", "bot"))

    await store.run(connect("slack", "new"))
    await line.adapters.remove("telegram", "7001")
    await store.run(connect("discord", "added"))
    await platform.until(("slack", "new"), ("discord", "added"))

    shown, _ = await line.adapters.page()
    assert {one.provider for one in shown} == {provider for provider, _ in platform.open}
    stopping.set()
    await running
    assert platform.open == []


class Overtaken:
    """A store on which an account is connected anew, or removed, just before its lease is taken."""

    def __init__(self, below: Any, story: Any) -> None:
        self._below, self._story = below, story
        self.kind = below.kind

    async def run(self, story: Any) -> Any:
        """Somebody else's change first."""
        if isinstance(story, TakeListener) and self._story is not None:
            first, self._story = self._story, None
            await self._below.run(first)
        return await self._below.run(story)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)


@pytest.mark.case("B149")
@pytest.mark.parametrize("removed", [False, True])
async def test_a_change_between_the_look_and_the_lease_is_not_missed(
    store: Store, monkeypatch: pytest.MonkeyPatch, removed: bool
) -> None:
    """B149: else the old token would be listened with until the next restart."""
    monkeypatch.setattr(listening, "LOOK_SECONDS", 0.05)
    platform = Connections()
    await store.run(connect("slack", "old"))
    await store.run(connect("telegram", "bot"))
    change: Any = connect("slack", "new")
    if removed:
        change = Remove(key=change.key, owner=None)
    line = Threadline(cast(Any, Overtaken(store, change)), channels=platform)
    stopping = asyncio.Event()
    running = asyncio.create_task(line.listeners.run(stopping))

    await platform.until(("telegram", "bot"), *(() if removed else (("slack", "new"),)))
    stopping.set()
    await running
