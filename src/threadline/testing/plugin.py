"""The fixtures that pytest has wherever threadline is installed. None costs anything unused.

| fixture | what it is |
|---|---|
| `ledger` | opens a ledger of one's own: `async with ledger() as line`; again, and it remembers |
| `threadline_server` | `threadline serve` in an empty home: `url`, `token`, `bind`, `transcript` |
| `telegram_simulator`, … | a simulated platform, one fixture for each that `simulate` knows |
| `connected_account` | connects one of those: `account = connected_account(telegram_simulator)` |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from threadline.testing.simulators import SIMULATORS

if TYPE_CHECKING:
    from threadline import Threadline
    from threadline.testing.server import Connected, Server
    from threadline.testing.simulation import Simulation


@pytest.fixture
def ledger(tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Threadline]]:
    """Opens everything on an SQLite file of this test. Options are those of `Threadline.open`."""

    def opened(**options: Any) -> AbstractAsyncContextManager[Threadline]:
        from threadline import Threadline

        return Threadline.open(f"sqlite:{tmp_path / 'ledger.db'}", **options)

    return opened


@pytest.fixture
def threadline_server(tmp_path: Path) -> Iterator[Server]:
    """A server of this test's own."""
    from threadline.testing.server import Server

    folder = tmp_path / "server"
    folder.mkdir()
    with Server(folder, os.environ) as server:
        yield server


@pytest.fixture
def connected_account(threadline_server: Server) -> Callable[..., Connected]:
    """Connects the account of a simulated platform to this test's server."""
    return threadline_server.connect


def _simulator(name: str) -> Any:
    def made(tmp_path: Path) -> Iterator[Simulation]:
        from threadline.testing.simulation import Simulation

        folder = tmp_path / f"{name}-simulator"
        folder.mkdir()
        with Simulation(name, folder) as simulation:
            yield simulation

    made.__doc__ = f"A simulated {name} of this test's own."
    return pytest.fixture(name=f"{name}_simulator")(made)


for _name in SIMULATORS:
    globals()[f"{_name}_simulator"] = _simulator(_name)
