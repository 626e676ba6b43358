"""A simulated Discord for each module, calm and with fresh rooms for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from threadline.testing.simulation import Simulation


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """The simulator's process."""
    with Simulation("discord", tmp_path_factory.mktemp("discord")) as made:
        yield made


@pytest.fixture
def discord(platform: Simulation) -> Simulation:
    """The simulator without trouble."""
    platform.calm()
    platform.do("content", allowed=True)
    platform.do("left", sessions=1000)
    platform.do("beat", millis=41_250)
    return platform


@pytest.fixture
def room(discord: Simulation) -> dict[str, Any]:
    """A channel of one's own."""
    made: dict[str, Any] = discord.do("channel")
    return made
