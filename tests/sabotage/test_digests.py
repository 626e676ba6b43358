"""A record that was changed behind threadline's back is found."""

from __future__ import annotations

from pathlib import Path

import apsw

from tests.conftest import open_at
from tests.speech import said
from threadline import Threadline


async def test_a_word_changed_by_hand_is_found_and_named(sqlite_url: str, key: bytes) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:"))
    store = await open_at(sqlite_url, key)
    await Threadline(store).inbound.receive(said("pay 10 to Ada", "m1"))
    await store.close()
    with apsw.Connection(str(path)) as connection:
        connection.execute("update records set body = replace(body, 'pay 10', 'pay 99')")

    store = await open_at(sqlite_url, key)
    async with store.check() as findings:
        found = [finding async for finding in findings]
    await store.close()

    assert [sentence.split(": ")[1] for sentence in found] == ["record 1 is not what was written"]
