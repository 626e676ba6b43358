"""`kill -9` while Discord is listened to and spoken to: nothing is lost, nothing is said twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.discord.conftest import connected, ref
from tests.talk import before_and_after, killed_while_it_spoke
from threadline.testing.simulation import Simulation


@pytest.mark.acceptance("B6", "G5", "G6")
async def test_a_killed_server_hears_what_it_missed_and_says_nothing_twice(
    tmp_path: Path, discord: Simulation, room: dict[str, Any]
) -> None:
    """It dies while Discord has taken its message and not answered; its next life resumes."""
    found = await killed_while_it_spoke(tmp_path, discord, connected, ref(room["id"]), 20)

    theirs = [it.text for it in found if it.source_session_id is None]
    assert theirs == before_and_after(20)
    assert [it.sequence for it in found] == list(range(1, 42))
