"""A store is examined beside its writers: no false alarm, and an end."""

from __future__ import annotations

from typing import Any

from tests.conftest import Store
from tests.stores.stories import said
from threadline.stores import findings
from threadline.stores.codec import Codec


async def test_examining_beside_a_writer_finds_nothing_and_ends(store: Store, key: bytes) -> None:
    await store.run_all([said("C1", f"m{n}") for n in range(3)])
    written: list[str] = []

    class Beside:
        """The store, where somebody appends before each read of an examination."""

        pragma = store.pragma

        async def ask(self, statement: str, *args: Any) -> list[tuple[Any, ...]]:
            assert len(written) < 100, "the examination does not end"
            await store.run(said("C1", f"{statement} {len(written)}"))
            written.append(statement)
            return await store.ask(statement, *args)

    found = [one async for one in findings.examine(Beside(), Codec(key), None)]

    assert found == []
    assert "conversations.counters" in written
