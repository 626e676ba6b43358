"""Killed at every step of an attempt: nothing is lost, nothing is said twice (G5, I6, I7)."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.outbox.conftest import ROOM, Platform, furnished, texts
from threadline import Threadline
from threadline.core.deliveries import DeliveryState

NODE = Path(__file__).with_name("node.py")


class Installation:
    """A store on a disk, and nodes that come and go."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.key = folder / "shared.key"
        self.key.write_text(bytes(range(32)).hex())

    def open(self) -> AbstractAsyncContextManager[Threadline]:
        """The library on it, while no node runs."""
        return Threadline.open(self.url, key_file=self.key, indexing=False, allow_private=True)

    def start(self, step: str) -> subprocess.Popen[bytes]:
        """Start a node that dies at a step."""
        return subprocess.Popen(
            [sys.executable, str(NODE), self.url, str(self.key), step], stdin=subprocess.PIPE
        )

    def run(self, step: str) -> int:
        """Run a node to its end; its exit code."""
        return finish(self.start(step))


def finish(node: subprocess.Popen[bytes]) -> int:
    """Let a node begin, and wait for its end."""
    node.communicate(b"go\n", timeout=120)
    return node.returncode


@pytest.fixture
def installation(store_url: str, tmp_path: Path) -> Installation:
    """On each engine."""
    return Installation(store_url, tmp_path)


async def prepared(installation: Installation, platform: Platform, *said: str) -> list[str]:
    """Write intents down; their deliveries' ids."""
    async with installation.open() as line:
        await furnished(line, platform, settle_within=1)
        return [(await line.outbound.publish(ROOM, "agent", text)).id for text in said]


@pytest.mark.acceptance("G5", "G7")
@pytest.mark.parametrize(
    ("step", "certain", "effects"),
    [
        ("before-mark", True, ["one", "two", "three"]),
        ("after-mark", False, ["two", "three"]),
        ("after-answer", False, ["one", "two", "three"]),
        ("after-settle", True, ["one", "two", "three"]),
    ],
)
async def test_a_death_repeats_what_certainly_was_not_said_and_nothing_else(
    installation: Installation,
    platform: Platform,
    step: str,
    certain: bool,
    effects: list[str],
) -> None:
    """A death before the mark repeats, one behind it is uncertain; the others go on in order."""
    ids = await prepared(installation, platform, "one", "two", "three")
    assert installation.run(step) == -9

    assert installation.run("never") == 0

    async with installation.open() as line:
        first = await line.deliveries.show(ids[0])
        assert platform.said == effects
        said = ["one", "two", "three"] if certain else ["two", "three"]
        assert await texts(line) == said
        if certain:
            assert first.state is DeliveryState.DELIVERED
        else:
            assert (first.state, first.parked) == (DeliveryState.UNCERTAIN, True)


@pytest.mark.acceptance("G5")
@pytest.mark.parametrize("fault", ["kill", "say_and_kill"])
async def test_a_death_after_the_first_byte_is_uncertain_whether_it_was_said_or_not(
    installation: Installation, platform: Platform, fault: str
) -> None:
    """Killed by the platform while it reads: never repeated; the platform's echo settles it."""
    [one] = await prepared(installation, platform, "one")
    node = installation.start("never")
    platform.fault(fault, pid=node.pid)
    assert finish(node) == -9

    assert installation.run("never") == 0

    assert platform.calls == 1
    assert platform.said == (["one"] if fault == "say_and_kill" else [])
    async with installation.open() as line:
        assert (await line.deliveries.show(one)).state is DeliveryState.UNCERTAIN
        assert await texts(line) == []
