"""Batches may be cut between any two stories at conversation borders: the answers are the same.

And whoever joins and follows while others append reads its slice, contiguous, each record once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import Store, open_at
from tests.model.machine import ACTORS, LIMITS
from threadline import Threadline
from threadline.core.errors import ThreadlineError
from threadline.core.model import (
    Controller,
    ConversationRef,
    Event,
    InboundMessage,
    Kind,
    Provenance,
    TranscriptRecord,
)
from threadline.flows.replay import CaughtUp, Gap, Handed
from threadline.testing.clock import StillClock

ROOMS = 4
QUICK = settings(
    max_examples=15,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def refs(scope: str) -> list[ConversationRef]:
    """Three rooms, and a thread in the first one."""
    rooms = [ConversationRef("slack", "T1", f"C{n}", None, scope) for n in range(ROOMS - 1)]
    thread = ConversationRef("slack", "T1", "root", "C0", scope, Kind.THREAD)
    return [*rooms, thread]


@dataclass
class Cuts:
    """A store's `cut`: it cuts where the next drawn bit says so.

    Borders within one conversation are among them: there the answers are the same as well.
    """

    bits: list[bool] = field(default_factory=list)
    made: int = 0

    def __call__(self, items: list[Any]) -> list[list[Any]]:
        """The parts, in order."""
        parts: list[list[Any]] = [[]]
        for item in items:
            if parts[-1] and self.bits and self.bits.pop():
                self.made += 1
                parts.append([])
            parts[-1].append(item)
        return parts


words: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    at=st.integers(0, ROOMS - 1),
    message_id=st.sampled_from([None, "root", *(f"m{n}" for n in range(6))]),
    actor=st.sampled_from(["human", "human", "other", "bot"]),
    text=st.sampled_from(["hello", "@alpha hello", "@beta @alpha hello", "bye"]),
    reply_to=st.sampled_from([None, None, "m1", "m2"]),
)
events: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    at=st.integers(0, ROOMS - 1),
    message_id=st.sampled_from([f"e{n}" for n in range(4)]),
    actor=st.sampled_from(["human", "other"]),
    text=st.just("edited"),
    event=st.sampled_from([Event.EDIT, Event.DELETE]),
    revises=st.sampled_from(["root", *(f"m{n}" for n in range(6))]),
)
batches = st.lists(st.one_of(words, words, events), min_size=5, max_size=40)


def heard(scope: str, fact: dict[str, Any]) -> InboundMessage:
    """One drawn fact as a message."""
    rest = dict(fact)
    at, actor = rest.pop("at"), rest.pop("actor")
    root = "root" if at == ROOMS - 1 else None
    return InboundMessage(
        conversation=refs(scope)[at], actor=ACTORS[actor], thread_root=root, **rest
    )


async def told(line: Threadline, scope: str, batch: list[dict[str, Any]]) -> list[Any]:
    """What a batch answers and leaves behind, without what is random by nature."""
    caller = Controller(scope)
    where = refs(scope)
    for ref in where:
        await line.conversations.ensure(ref, caller=caller)
    await line.speakers.participant(where[0], "alpha", "ann", caller=caller)
    await line.speakers.participant(where[0], "beta", "bob", caller=caller)
    await line.speakers.bind(where[1], "ann", caller=caller)
    answers = await line.inbound.receive_all([heard(scope, it) for it in batch], caller=caller)
    left: list[Any] = [
        one.code
        if isinstance(one, ThreadlineError)
        else (one.sequence, one.duplicate, one.target_session_id, one.route, one.readers)
        for one in answers
    ]
    for ref in where:
        page = await line.conversations.transcript(ref, limit=500, caller=caller)
        left.append([plain(record) for record in page.records])
        for name in ("ann", "bob"):
            try:
                got = await line.replay.backfill(ref, name, limit=500, caller=caller)
            except ThreadlineError as refusal:
                left.append(refusal.code)
            else:
                left.append([(i.record.sequence, i.speaker, i.wake) for i in got.records])
    return left


def plain(record: TranscriptRecord) -> tuple[Any, ...]:
    """A record without surrogate ids."""
    return (
        record.sequence,
        record.event,
        record.message_id,
        record.text,
        record.blanked,
        record.refused,
        record.copied_from,
        record.target_session_id,
        len(record.wakes),
    )


@pytest.mark.acceptance("B16")
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_cutting_a_batch_anywhere_gives_the_same_answers(
    engine: str, request: pytest.FixtureRequest, key: bytes, tmp_path: Path
) -> None:
    """B16: whole, cut at drawn borders, and one by one."""
    url = (
        f"sqlite:{tmp_path / 'cut.db'}"
        if engine == "sqlite"
        else request.getfixturevalue("postgres_url")
    )
    options = {"synchronous": "OFF"} if engine == "sqlite" else {}
    cuts = Cuts()
    numbers = iter(range(1_000_000))
    with asyncio.Runner() as runner:
        store = runner.run(open_at(url, key, clock=StillClock(), cut=cuts, **options))
        line = Threadline(store, LIMITS)

        def run(batch: list[dict[str, Any]], bits: list[bool]) -> list[Any]:
            cuts.bits = bits
            return runner.run(told(line, f"scope-{next(numbers)}", batch))

        @QUICK
        @given(batch=batches, bits=st.lists(st.booleans(), min_size=60, max_size=60))
        def same(batch: list[dict[str, Any]], bits: list[bool]) -> None:
            whole = run(batch, [])
            assert run(batch, list(bits)) == whole
            assert run(batch, [True] * 1_000) == whole

        try:
            same()
        finally:
            runner.run(store.close())
    assert cuts.made > 100


async def shuffled(rng: random.Random, *actors: Callable[[], Any]) -> None:
    """Run actors side by side, each yielding the turn as often as the dice say."""

    async def act(actor: Callable[[], Any]) -> None:
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        await actor()

    await asyncio.gather(*(act(actor) for actor in actors))


@pytest.mark.acceptance("C10", "B12")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("policy", ["all", "since_join", "last_n"])
async def test_whoever_joins_and_follows_during_appends_reads_its_slice_once(
    store: Store, seed: int, policy: str
) -> None:
    """C10: for every interleaving tried, with pages of three, acks and an import in front."""
    rng = random.Random(seed)
    line = Threadline(store, LIMITS)
    room = ConversationRef("slack", "T1", "C1")
    await line.conversations.ensure(room)
    last, joined = "the last word", asyncio.Event()
    connections: list[list[Handed]] = []
    caught_up: list[int] = []
    acked: list[tuple[int, int]] = []

    async def append() -> None:
        for n in range(rng.randrange(15, 30)):
            message = InboundMessage(
                conversation=room, text=str(n), actor=ACTORS["human"], message_id=f"m{n}"
            )
            await line.inbound.receive(message)
            for _ in range(rng.randrange(3)):
                await asyncio.sleep(0)
            if rng.random() < 0.1:
                await line.inbound.receive(message)
        await joined.wait()
        await line.inbound.receive(
            InboundMessage(conversation=room, text=last, actor=ACTORS["human"])
        )

    async def import_() -> None:
        state = await line.hydration.begin(room, owner="importer", mode="prepending")
        for n in range(rng.randrange(1, 6)):
            message = InboundMessage(
                conversation=room, text="old", actor=ACTORS["human"], message_id=f"h{n}"
            )
            await line.hydration.records(room, state.token or "", [message])
        await line.hydration.complete(room, state.token or "")

    async def follow() -> None:
        n = 4 if policy == "last_n" else None
        await line.members.join(room, "agent", policy=policy, n=n)
        joined.set()
        while not ended(connections):
            # A connection breaks at random; what was not acknowledged comes again.
            handed: list[Handed] = []
            connections.append(handed)
            breaks_after = rng.randrange(1, 12)
            stream = line.replay.follow("agent")
            async for item in stream:
                assert not isinstance(item, Gap)
                if isinstance(item, CaughtUp):
                    caught_up.append(len(connections))
                    continue
                handed.append(item)
                if rng.random() < 0.7 or ended(connections):
                    await line.replay.ack(room, "agent", item.record.sequence)
                    acked.append((len(connections), item.record.sequence))
                if ended(connections) or len(handed) == breaks_after:
                    break
            await stream.aclose()  # type: ignore[attr-defined]

    def ended(connections: list[list[Handed]]) -> bool:
        return bool(connections and connections[-1]) and connections[-1][-1].record.text == last

    await asyncio.wait_for(shuffled(rng, append, follow, import_), 60)

    state = await line.conversations.show(room)
    everything = (await line.conversations.transcript(room, limit=500)).records
    assert [r.sequence for r in everything] == list(range(state.lowest_sequence, state.head + 1))
    hidden = Provenance.HYDRATED if policy == "since_join" else None
    readable = [record.sequence for record in everything if record.provenance is not hidden]
    assert len(caught_up) == len(set(caught_up))
    for number, connection in enumerate(connections, 1):
        got = [item.record.sequence for item in connection]
        begins = readable.index(got[0])
        assert got == readable[begins : begins + len(got)]
        before = [sequence for at, sequence in acked if at < number]
        if before:
            # It goes on behind the last acknowledgement, neither before nor after.
            assert begins == readable.index(before[-1]) + 1
    member = await line.members.show(room, "agent")
    first = connections[0][0].record.sequence
    if policy == "since_join":
        assert first == member.joined_sequence + 1
    assert first >= (member.visible_from if policy != "all" else state.lowest_sequence)
    assert (member.last_read, member.cursor) == (state.head, state.head)
