"""The audit is a chain: who holds the database alone changes nothing in it unseen."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.conftest import open_at
from threadline import Threadline
from threadline.testing.clock import StillClock


@pytest.mark.parametrize(
    ("deed", "at"),
    [
        (
            "update audit set body = replace(body, 'account.granted', 'account.withdrawn') "
            "where number = 3",
            3,
        ),
        ("delete from audit where number = 2", 2),
        ("delete from audit where number = 6", 6),
        (
            "insert into audit select scope, 7, at, action, digest, body from audit"
            " where number = 6; update chains set count = 7",
            7,
        ),
        (
            "delete from audit where number > 4; update chains set count = 4,"
            " digest = (select digest from audit where number = 4)",
            4,
        ),
        (
            "update chains set count = 4, digest = (select digest from audit where number = 4)",
            6,
        ),
        (
            "update audit set digest = (select digest from audit where number = 4)"
            " where number = 5",
            5,
        ),
    ],
)
async def test_a_changed_a_missing_and_an_added_entry_are_found(
    tmp_path: Path, key: bytes, clock: StillClock, deed: str, at: int
) -> None:
    """Without the store's key no entry can be made to fit."""
    url = f"sqlite:{tmp_path / 'audit.db'}"
    store = await open_at(url, key, clock=clock)
    line = Threadline(store)
    for number in range(6):
        await line.consents.grant("agent", "telegram", str(number + 1))
    assert (await line.audits.verify()).whole
    await store.close()
    file = apsw.Connection(str(tmp_path / "audit.db"))
    file.execute(deed)
    file.close()
    store = await open_at(url, key, clock=clock)
    verdict = await Threadline(store).audits.verify()
    await store.close()
    assert verdict.broken_at == at


async def test_evictions_and_limits_are_in_the_audit(line: Threadline) -> None:
    """And an entry holds ids and reasons, never what was said."""
    await line.conversations.ensure("web/office/lobby")
    await line.members.join("web/office/lobby", "agent", policy="all")
    await line.members.leave("web/office/lobby", "agent", evict=True)
    await line.consents.set_limits({"session_per_hour": 7})
    found = {one.action: one for one in await line.audits.list()}
    assert {"member.evicted", "limits.changed", "account.granted"} <= set(found)
    assert found["limits.changed"].facts == {"session_per_hour": 7}
    assert [one.action for one in await line.audits.list(action="member.evicted")] == [
        "member.evicted"
    ]
