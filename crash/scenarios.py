"""What is done while somebody kills it at every step: each is short, and safe to do again.

`prepare` makes the store a scenario begins with; `act` says what was acknowledged; `check` looks at
the end, after `act` was done again on what the kill left: then everything is as if nothing was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from crash.ledger import CHIEF, Journal
from crash.workload import LIMITS, SPOKEN, VOICE, said
from threadline import Threadline
from threadline.core.errors import LimitReached, SessionRetired
from threadline.core.model import Controller, Event

ROOM = "slack/T1/C1"
HUMAN = Controller(human=True)
MANY = [f"slack/T1/M{n}" for n in range(110)]

Prepare = Callable[[Threadline], Awaitable[None]]
Act = Callable[[Threadline, Journal], Awaitable[None]]
Check = Callable[[Threadline], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """`unclosed`: the store it begins with was left by a kill, its log not yet in the database."""

    prepare: Prepare | None
    act: Act
    check: Check
    unclosed: bool = False
    ahead_minutes: int = 0


async def _some(line: Threadline, room: str = ROOM, count: int = 10) -> None:
    await line.inbound.receive_all([said(room, f"old{n}") for n in range(count)])


async def _receive(line: Threadline, journal: Journal, *names: str, room: str = ROOM) -> None:
    answers = await line.inbound.receive_all([said(room, name) for name in names])
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, Exception):
            raise answer
        journal.said(room, name, answer)


async def _listed(line: Threadline, room: str = ROOM) -> list[str]:
    page = await line.conversations.transcript(room, limit=500)
    return [record.text for record in page.records]


def _expect(wanted: object, found: object) -> list[str]:
    return [] if wanted == found else [f"in the end there is {found}, not {wanted}"]


# --- append -------------------------------------------------------------------------------------


async def _append(line: Threadline, journal: Journal) -> None:
    journal.ok("open", True)
    await _receive(line, journal, "m1")
    await _receive(line, journal, "m2")
    await _receive(line, journal, "m3", "m4", "m5")


async def _appended(line: Threadline) -> list[str]:
    listed = await _listed(line)
    return _expect(["m1", "m2", "m3", "m4", "m5"], listed[-5:])


# --- membership and cursor ----------------------------------------------------------------------


async def _join(line: Threadline, journal: Journal) -> None:
    for name in ("anna", "bert"):
        journal.attempt(f"seat {ROOM} {name}", True)
        await line.members.join(ROOM, name, policy="all")
        journal.ok(f"seat {ROOM} {name}", True)
    journal.attempt(f"seat {ROOM} bert", None)
    await line.members.leave(ROOM, "bert")
    journal.ok(f"seat {ROOM} bert", None)


async def _joined(line: Threadline) -> list[str]:
    members, _ = await line.members.of(ROOM)
    return _expect(["anna"], [one.session_id for one in members])


async def _with_reader(line: Threadline) -> None:
    await _some(line)
    await line.members.join(ROOM, "anna")


async def _ack(line: Threadline, journal: Journal) -> None:
    for sequence in (3, 7, 5, 10):
        await line.replay.ack(ROOM, "anna", sequence)
        journal.read(ROOM, "anna", sequence)


async def _acked(line: Threadline) -> list[str]:
    return _expect(10, (await line.members.show(ROOM, "anna")).last_read)


# --- importing ----------------------------------------------------------------------------------


async def _gated(line: Threadline, journal: Journal) -> None:
    journal.attempt(f"window {ROOM}", True)
    state = await line.hydration.begin(ROOM, owner="importer", mode="gated", ensure=True)
    assert state.token is not None
    journal.ok(f"window {ROOM}", True)
    for chunk in (("h1", "h2"), ("h3",)):
        records = [said(ROOM, name) for name in chunk]
        for name, answer in zip(
            chunk, await line.hydration.records(ROOM, state.token, records), strict=True
        ):
            journal.said(ROOM, name, answer)
    await _receive(line, journal, "l1", "l2", "l3", "l4", "l5", "l6")
    await line.members.join(ROOM, "anna", policy="last_n", n=2)
    journal.attempt(f"window {ROOM}", None)
    await line.hydration.complete(ROOM, state.token)
    journal.ok(f"window {ROOM}", None)


async def _gated_done(line: Threadline) -> list[str]:
    listed = await _listed(line)
    wanted = sorted(["h1", "h2", "h3", "l1", "l2", "l3", "l4", "l5", "l6"])
    return _expect(wanted, sorted(listed)) + _expect(
        ["l1", "l2", "l3", "l4", "l5", "l6"], [one for one in listed if one[0] == "l"]
    )


async def _front(line: Threadline, journal: Journal) -> None:
    journal.attempt(f"window {ROOM}", True)
    state = await line.hydration.begin(ROOM, owner="importer", mode="prepending")
    assert state.token is not None
    journal.ok(f"window {ROOM}", True)
    for chunk in (("h6", "h5", "h4"), ("h3", "h2")):
        records = [said(ROOM, name) for name in chunk]
        for name, answer in zip(
            chunk, await line.hydration.records(ROOM, state.token, records), strict=True
        ):
            journal.said(ROOM, name, answer)
        await _receive(line, journal, f"live-{chunk[0]}")
    journal.attempt(f"window {ROOM}", None)
    await line.hydration.complete(ROOM, state.token)
    journal.ok(f"window {ROOM}", None)


async def _front_done(line: Threadline) -> list[str]:
    old = [f"old{n}" for n in range(10)]
    wanted = ["h2", "h3", "h4", "h5", "h6", *old, "live-h6", "live-h3"]
    return _expect(wanted, await _listed(line))


async def _with_open_window(line: Threadline) -> None:
    await _some(line, count=2)
    await line.hydration.begin(ROOM, owner="importer", mode="gated")
    await line.inbound.receive_all([said(ROOM, f"l{n}") for n in range(LIMITS.chunk * 2 + 1)])


async def _expire(line: Threadline, journal: Journal) -> None:
    for n in range(LIMITS.chunk * 2 + 1):
        journal.line("said", ROOM, f"l{n}", None, True, True)
    await line.upkeep.round()
    journal.ok(f"window {ROOM}", None)


async def _expired(line: Threadline) -> list[str]:
    held = [f"l{n}" for n in range(LIMITS.chunk * 2 + 1)]
    return _expect(["old0", "old1", *held], await _listed(line))


# --- speaking -----------------------------------------------------------------------------------


async def _speak(line: Threadline, journal: Journal) -> None:
    for name in ("anna", "bert"):
        bound = await line.speakers.binding(ROOM)
        if bound is not None and bound.session_id != name:
            journal.attempt(f"bind {ROOM}", None)
            await line.speakers.unbind(ROOM)
        journal.attempt(f"bind {ROOM}", name)
        await line.speakers.bind(ROOM, name)
        journal.ok(f"bind {ROOM}", name)
    for owner in ("anna", "bert"):
        journal.attempt(f"handle {ROOM} helper", owner)
        await line.speakers.participant(ROOM, "helper", owner)
        journal.ok(f"handle {ROOM} helper", owner)


async def _spoke(line: Threadline) -> list[str]:
    bound = await line.speakers.binding(ROOM)
    group = await line.speakers.show_group(ROOM)
    found = (bound.session_id if bound else None, [one.session_id for one in group.participants])
    return _expect(("bert", ["bert"]), found)


async def _with_voice(line: Threadline) -> None:
    await line.conversations.ensure(SPOKEN)
    await line.speakers.bind(SPOKEN, VOICE)


async def _publish(line: Threadline, journal: Journal) -> None:
    for words in ("one", "two"):
        journal.saying(words)
        sent = await line.outbound.publish(SPOKEN, VOICE, words, key=words)
        journal.plain(SPOKEN, words, sent.sequence)


async def _published(line: Threadline) -> list[str]:
    sent = (await line.deliveries.page(where=SPOKEN)).deliveries
    found = (await _listed(line, SPOKEN), sorted(one.sequence or 0 for one in sent))
    return _expect((["one", "two"], [1, 2]), found)


async def _with_rooms(line: Threadline) -> None:
    first = f"{CHIEF}-0"
    await line.inbound.receive_all([said(room, "hello") for room in MANY])
    for room in MANY:
        await line.members.join(room, first)
    await line.replay.ack(MANY[0], first, 1)
    await line.speakers.bind(MANY[1], first)
    await line.speakers.bind(MANY[-1], first)
    await line.speakers.participant(MANY[2], "chief", first)


async def _reassign(line: Threadline, journal: Journal) -> None:
    journal.line("read", MANY[0], CHIEF, 1)
    journal.attempt("chief", f"{CHIEF}-0")
    journal.attempt("chief", f"{CHIEF}-1")
    await line.sessions.reassign(f"{CHIEF}-0", f"{CHIEF}-1")
    journal.ok("chief", f"{CHIEF}-1")


async def _reassigned(line: Threadline) -> list[str]:
    new = f"{CHIEF}-1"
    found = []
    for room in MANY:
        members, _ = await line.members.of(room)
        found += _expect([new], [one.session_id for one in members])
    for room in (MANY[1], MANY[-1]):
        bound = await line.speakers.binding(room)
        found += _expect(new, bound and bound.session_id)
    group = await line.speakers.show_group(MANY[2])
    found += _expect([new], [one.session_id for one in group.participants])
    with suppress(SessionRetired):
        await line.members.conversations_of(f"{CHIEF}-0")
        found.append("the old session still reads")
    return found


# --- writing first ------------------------------------------------------------------------------


async def _with_agent(line: Threadline) -> None:
    """An agent that may write first in a room of ours, two in an hour, and one send for later."""
    await line.conversations.ensure(SPOKEN)
    await line.speakers.bind(SPOKEN, VOICE)
    await line.consents.grant(VOICE, *SPOKEN.split("/")[:2])
    await line.consents.set("on", room=SPOKEN, caller=HUMAN)
    await line.consents.set_limits({"recipient_per_hour": 3})
    soon = datetime.now(UTC) + timedelta(minutes=5)
    await line.initiative.send(VOICE, SPOKEN, "later", at=soon, key="later")


async def _send(line: Threadline, journal: Journal) -> None:
    journal.saying("now")
    sent = await line.initiative.send(VOICE, SPOKEN, "now", key="now", intent="now")
    assert sent.delivery is not None
    journal.plain(SPOKEN, "now", sent.delivery.sequence)
    await line.initiative.send(VOICE, SPOKEN, "now, again", key="again", intent="now")
    await line.initiative.round()
    [later] = [one for one in await line.initiative.list() if one.at is not None]
    assert later.delivery is not None
    journal.plain(SPOKEN, "later", later.delivery.sequence)


async def _sent(line: Threadline) -> list[str]:
    """Each was said once; exactly one place in the limit is left."""
    states = sorted(one.state.value for one in await line.initiative.list())
    found = _expect(["delivered", "delivered", "suppressed"], states)
    said_there = [one for one in await _listed(line, SPOKEN) if not one.startswith("Not said")]
    found += _expect(["later", "now"], sorted(said_there))
    await line.initiative.send(VOICE, SPOKEN, "the last")
    with suppress(LimitReached):
        await line.initiative.send(VOICE, SPOKEN, "too much")
        found.append("the limit leaks")
    if not (await line.audits.verify()).whole:
        found.append("the audit's chain does not hold")
    return found


# --- keeping and forgetting ---------------------------------------------------------------------


async def _with_retention(line: Threadline) -> None:
    await _some(line, count=60)
    await line.search.catch_up()
    await line.conversations.change(ROOM, max_retained_entries=20)


async def _sweep(line: Threadline, journal: Journal) -> None:
    for n in range(60):
        journal.line("said", ROOM, f"old{n}", n + 1, False, True)
    await line.upkeep.sweep()
    await _receive(line, journal, "old3", "new1")
    await line.upkeep.sweep()


async def _swept(line: Threadline) -> list[str]:
    wanted = [*(f"old{n}" for n in range(41, 60)), "new1"]
    return _expect(wanted, await _listed(line))


async def _delete(line: Threadline, journal: Journal) -> None:
    gone = said(ROOM, "gone", "", event=Event.DELETE, revises="old4")
    journal.said(ROOM, "gone", await line.inbound.receive(gone))


async def _with_index(line: Threadline) -> None:
    await _some(line)
    await line.search.catch_up()


async def _deleted(line: Threadline) -> list[str]:
    listed = await _listed(line)
    found = await line.search.find("old4")
    return _expect(["old3", "", "old5"], listed[3:6]) + _expect([], found.hits)


async def _index(line: Threadline, journal: Journal) -> None:
    await _receive(line, journal, "needle one", "needle two")
    await line.search.catch_up()


async def _indexed(line: Threadline) -> list[str]:
    results = await line.search.find("needle")
    return _expect(["needle two", "needle one"], [hit.record.text for hit in results.hits])


SCENARIOS = {
    "create": Scenario(None, _append, _appended),
    "append": Scenario(_some, _append, _appended),
    "recover": Scenario(_some, _append, _appended, unclosed=True),
    "join": Scenario(_some, _join, _joined),
    "ack": Scenario(_with_reader, _ack, _acked),
    "import gated": Scenario(None, _gated, _gated_done),
    "import in front": Scenario(_some, _front, _front_done),
    "expire": Scenario(_with_open_window, _expire, _expired, ahead_minutes=16),
    "speak": Scenario(_some, _speak, _spoke),
    "publish": Scenario(_with_voice, _publish, _published),
    "send": Scenario(_with_agent, _send, _sent, ahead_minutes=16),
    "reassign": Scenario(_with_rooms, _reassign, _reassigned),
    "sweep": Scenario(_with_retention, _sweep, _swept),
    "delete": Scenario(_with_index, _delete, _deleted),
    "index": Scenario(_with_index, _index, _indexed),
}
