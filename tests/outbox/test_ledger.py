"""The ledger against the platform's own log, record by record, after a random life (I6, I7, I9)."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import Store
from tests.outbox.conftest import ROOM, Platform, furnished, records
from threadline import Threadline
from threadline.core.deliveries import DeliveryState
from threadline.core.model import Direction
from threadline.flows.statuses import DeliveryStatus
from threadline.testing.clock import StillClock

PLACES = [replace(ROOM, conversation_id=name) for name in ("r0", "r1", "r2")]
# After these nobody here can know whether it was said.
DOUBTFUL = {"drop", "late_error", "reset", "mute"}
EVENTS = ["say", "say", "long", "trouble", "trouble", "work", "time", "restart"]
TROUBLE: list[dict[str, Any]] = [
    {"fault": "drop"},
    {"fault": "late_error", "status": 500},
    {"fault": "reset"},
    {"fault": "mute"},
    {"fault": "status", "status": 400},
    {"fault": "status", "status": 503, "headers": {"retry-after": "7"}},
    {"fault": "status", "status": 429, "headers": {"retry-after": "40"}},
    {"fault": "refuse", "answer": {"refused": "rate_limited", "wait": 9, "bucket": "account"}},
    {"fault": "refuse", "answer": {"refused": "transient"}},
    {"fault": "refuse", "answer": {"refused": "rate_limited", "wait": 1e9}},
]


@pytest.mark.acceptance("G5", "G7", "G8", "G12", "G13")
@pytest.mark.parametrize("seed", [11, 12, 13, 14])
async def test_nothing_is_lost_nothing_is_doubled_and_doubt_is_only_where_nobody_can_know(
    store: Store, platform: Platform, clock: StillClock, seed: int
) -> None:
    """Any seed holds; these are run."""
    chance = random.Random(seed)
    line = await furnished(Threadline(store, allow_private=True), platform, max_length=160)
    for place in PLACES:
        await line.conversations.ensure(place)
        await line.speakers.bind(place, "agent")
    written: dict[str, str] = {}
    said = 0
    for _ in range(60):
        match chance.choice(
            ["say", "say", "long", "trouble", "trouble", "work", "time", "restart"]
        ):
            case "say" | "long" as how:
                said += 1
                text = f"{said}: " + ("word " * 90 if how == "long" else "short")
                sent = await line.outbound.publish(chance.choice(PLACES), "agent", text.strip())
                written[sent.id] = text.strip()
            case "trouble":
                fault = chance.choice(TROUBLE)
                platform.fault(**fault, times=chance.randint(1, 2))
            case "work":
                await line.outbox.round()
            case "time":
                clock.move(seconds=chance.choice([1, 10, 61]))
            case "restart":
                await line.outbox.close()
                line = Threadline(store, allow_private=True)
    await _until_quiet(line, platform, clock)

    shown = [await line.deliveries.show(one) for one in written]
    await _compare(line, platform, shown, written)
    await line.outbox.close()


async def _until_quiet(line: Threadline, platform: Platform, clock: StillClock) -> None:
    """When the trouble stops, everything settles with no person (I9)."""
    platform.say("calm")
    for _ in range(40):
        await line.outbox.round()
        clock.move(seconds=61)
    await line.outbox.round()


async def _compare(
    line: Threadline, platform: Platform, shown: list[DeliveryStatus], written: dict[str, str]
) -> None:
    effects = Counter(one["key"] for one in platform.entries("effect"))
    doubted = {one["key"] for one in platform.entries("fault") if one["fault"] in DOUBTFUL}
    known = set()
    for one in shown:
        keys = [f"{one.id}.{part}" for part in range(1, one.parts + 1)]
        known.update(keys)
        counts = [effects[key] for key in keys]
        assert all(count <= 1 for count in counts), "nothing is said twice"
        assert counts[: one.confirmed] == [1] * one.confirmed, "a receipt is proof"
        rest = counts[one.confirmed :]
        match one.state:
            case DeliveryState.DELIVERED:
                assert one.confirmed == one.parts
                assert one.sequence is not None
            case DeliveryState.UNCERTAIN:
                assert one.parked
                assert keys[one.confirmed] in doubted, "doubt only where nobody can know"
                assert not any(rest[1:])
            case DeliveryState.FAILED | DeliveryState.EXPIRED:
                assert not any(rest), "what ended was not said"
                assert (one.sequence is not None) == (one.confirmed > 0)
            case other:
                raise AssertionError(f"{one.id} is still {other}")
    assert set(effects) <= known
    for place in PLACES:
        here = sorted((one for one in shown if one.ref == place), key=lambda one: one.created_at)
        order = [one.id for one in here]
        said = [one["key"].rpartition(".")[0] for one in platform.entries("effect")]
        there = [name for name in dict.fromkeys(said) if name in order]
        assert there == [name for name in order if name in there], "first in, first out"
        own = [one for one in await records(line, place) if one.direction is Direction.OUTBOUND]
        texts = {one.sequence: one for one in here if one.sequence is not None}
        assert [one.sequence for one in own] == sorted(texts)
        for record in own:
            one = texts[record.sequence]
            whole = written[one.id]
            if one.confirmed == one.parts:
                assert record.text == whole
            else:
                assert whole.startswith(record.text)
                assert record.metadata["parts"] == f"{one.confirmed}/{one.parts}"
