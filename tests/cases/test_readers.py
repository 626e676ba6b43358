"""Reported failures: readers that got nothing, too much, or somebody else's."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import apsw
import asyncpg
import pytest

from tests.conftest import Store, open_at
from tests.speech import ROOM, followed, handed, numbered, said, spoken, transcript, unread
from threadline import Threadline
from threadline.core.archive import Account, Place, Tally
from threadline.core.deliveries import DeliveryState
from threadline.core.errors import (
    InvalidConversation,
    MembershipNotFound,
    NotFound,
    ThreadlineError,
    Unauthorized,
)
from threadline.core.model import Actor, ConversationRef, SessionCaller
from threadline.flows.inbound import Append
from threadline.flows.replay import Handed
from threadline.flows.sessions import Retire
from threadline.flows.statuses import DeliveryStatus
from threadline.flows.uploads import RecordFile

BOT = Actor("B9", "Robot", is_bot=True)
SIDE = ConversationRef("slack", "T1", "C2")

Damage = Callable[[str], Awaitable[Threadline]]


@pytest.fixture
async def damage(store_url: str, key: bytes) -> AsyncIterator[Damage]:
    """Closes the store, does harm to its tables as a crash of another program would, reopens it."""
    opened: list[Store] = []

    async def harm(sql: str) -> Threadline:
        if opened:
            await opened.pop().close()
        if sql and store_url.startswith("sqlite:"):
            connection = apsw.Connection(store_url.removeprefix("sqlite:"))
            connection.execute(sql)
            connection.close()
        elif sql:
            outside = await asyncpg.connect(store_url)
            await outside.execute(sql)
            await outside.close()
        opened.append(await open_at(store_url, key))
        return Threadline(opened[-1])

    yield harm
    for store in opened:
        await store.close()


@pytest.mark.case("B062")
async def test_a_lost_membership_of_a_binding_is_repaired_and_a_removal_is_not_undone(
    damage: Damage,
) -> None:
    """B062: what is said after the repair reaches the session."""
    line = await damage("")
    room = (await line.inbound.receive(said("1", "m1"))).conversation
    await line.speakers.bind(ROOM, "agent")
    line = await damage("delete from members")

    found = await line.upkeep.reconcile(room)
    again = await line.upkeep.reconcile(room)
    taken = await line.inbound.receive(said("2", "m2"))
    reached = await unread(line, "agent")
    await line.members.leave(ROOM, "agent", evict=True)
    after = await line.upkeep.reconcile(room)

    assert len(found) >= 1
    assert again == []
    assert (taken.target_session_id, taken.readers) == ("agent", 1)
    assert reached == [2]
    assert after == []
    with pytest.raises(MembershipNotFound):
        await line.replay.backfill(ROOM, "agent")


@pytest.mark.case("B062")
async def test_a_message_that_reaches_nobody_says_so(tl: Threadline) -> None:
    """B062: readers 0 is in the answer; it is no silent success."""
    taken = await tl.inbound.receive(said("1", "m1"))

    assert taken.readers == 0


@pytest.mark.case("B064")
async def test_the_position_moves_by_acknowledgement_and_by_nothing_else(
    damage: Damage,
) -> None:
    """B064: 50 records, 20 received, died, 20 acknowledged, died; own words are not unread."""
    line = await damage("")
    await line.store.run_all([Append(one) for one in numbered(1, 50)])
    await line.members.join(ROOM, "agent", policy="all")
    stream = line.replay.follow("agent", patience=30)
    received = [await anext(stream) for _ in range(20)]
    await stream.aclose()  # type: ignore[attr-defined]
    assert handed(received) == list(range(1, 21))

    line = await damage("")
    first = await unread(line, "agent")
    await line.replay.ack(ROOM, "agent", 20)
    line = await damage("")
    second = await unread(line, "agent")
    before = (await line.replay.lag(ROOM, "agent")).unread
    for n in range(3):
        await line.store.run(Append(spoken(f"mine {n}", f"o{n}"), said_by="agent"))
    after = await line.replay.lag(ROOM, "agent")

    assert (first[0], second[0]) == (1, 21)
    assert (before, after.unread, after.head) == (30, 30, 53)
    assert await unread(line, "agent") == list(range(21, 51))


GIVEN: dict[str, Any] = {
    "send_id": "nothing",
    "who": "nobody",
    "contact": "telegram:4711",
    "other": "somebody",
    "keep": "nobody",
    "person": "nobody",
    "state": "off",
    "session": "stranger",
    "sequence": 1,
    "token": "token",
    "owner": "importer",
    "reason": None,
    "handle": "desk",
    "name": "stranger",
    "alias": "other",
    "old": "agent",
    "new": "stranger",
    "provider": "slack",
    "account_id": "T1",
    "query": "secret",
    "messages": [said("x")],
    "message": said("x"),
    "items": [Place(ROOM), said("x", "new")],
    "tally": Tally(),
    "kind": "session",
    "given": {},
    "text": "words",
    "to": "agent",
    "token_id": "nothing",
    "holder": "a secret word",
    "callback": "https://adapter.example/",
    "url": "https://agent.example/",
    "link_id": "nothing",
    "client_id": "c1",
    "secret": "nothing",
    "fence": 1,
    "seconds": 60.0,
    "first": 1,
    "last": 1,
    "account": Account(provider="slack", account_id="T1"),
    "content": b"bytes",
    "part": RecordFile(conversation=str(ROOM), sequence=1),
}
OWN_PLACE = {"where", "ref", "conversation"}
WITHOUT_CALLER = {
    "census.complete",
    "census.step",
    "files.close",
    "files.refuse_large",
    "files.tidy",
    "guests.door",
    "guests.enter",
    "guests.recognise",
    "guests.show",
    "hearing",
    "histories.repair",
    "hydration.drain",
    "initiative.forget_intents",
    "initiative.round",
    "initiative.run",
    "links.tidy",
    "listeners",
    "logins",
    "outbox",
    "outbound.forget_keys",
    "people.forget_codes",
    "search.catch_up",
    "search.start",
    "search.stop",
    "tokens.recognise",
    "upkeep",
    "uploads.filled",
    "uploads.lent",
    "uploads.tidy",
    "webhooks",
}
"""Run by the process itself, or for whoever shows a secret; never for a caller."""
ITS_OWN = {
    "attaching.attach",
    "attaching.detach",
    "attaching.show",
    "consents.granted",
    "initiative.list",
    "members.conversations_of",
    "search.find",
    "sessions.show",
    "uploads.give",
}
"""About the session itself: answered, without a word of the conversation."""


def operations(line: Threadline) -> dict[str, Any]:
    """Every public operation, from the code."""
    found: dict[str, Any] = {}
    for noun, flow in vars(line).items():
        if noun == "store" or noun.startswith("_"):
            continue
        for verb, method in inspect.getmembers(flow, inspect.ismethod):
            if not verb.startswith("_"):
                found[f"{noun}.{verb}"] = method
    return found


async def answer_of(method: Any, place: Any, session: str, delivery: DeliveryStatus) -> Any:
    """Call an operation about this place as a session that is no member of it."""
    arguments: dict[str, Any] = {"caller": SessionCaller(session)}
    for name, parameter in inspect.signature(method).parameters.items():
        if name in arguments:
            continue
        if name in OWN_PLACE:
            arguments[name] = place
        elif name == "delivery_id":
            arguments[name] = delivery.id
        elif name == "sent":
            arguments[name] = replace(delivery, state=DeliveryState.PENDING)
        elif parameter.default is inspect.Parameter.empty or name == "session":
            arguments[name] = GIVEN[name]
        elif name == "once":
            arguments[name] = True
    if inspect.isasyncgenfunction(method):
        return [item async for item in method(**arguments)]
    answer = await method(**arguments)
    for one in answer if method.__name__ == "receive_all" else ():
        raise one
    return answer


@pytest.mark.case("B067")
async def test_every_operation_is_refused_to_a_session_that_is_no_member(tl: Threadline) -> None:
    """B067: enumerated from the code, so that a new one without a check fails."""
    await tl.inbound.receive(said("the secret", "m1"))
    member = await tl.members.join(ROOM, "agent")
    await tl.speakers.participant(ROOM, "desk", "agent")
    await tl.speakers.bind(ROOM, "agent")
    await tl.sessions.create("stranger")
    await tl.conversations.ensure("web/office/lobby")
    await tl.speakers.bind("web/office/lobby", "agent")
    delivery = await tl.outbound.publish("web/office/lobby", "agent", "the secret's answer")
    await tl.search.catch_up()
    before = await tl.conversations.show(ROOM)

    checked = []
    for name, method in operations(tl).items():
        if name in WITHOUT_CALLER or name.split(".")[0] in WITHOUT_CALLER:
            assert "caller" not in inspect.signature(method).parameters, name
            continue
        assert "caller" in inspect.signature(method).parameters, name
        for place in (ROOM, str(ROOM), member.conversation):
            if name in ITS_OWN:
                try:
                    answer = repr(await answer_of(method, place, "stranger", delivery))
                except ThreadlineError as error:
                    answer = str(error)
                assert "the secret" not in answer, name
                assert member.conversation not in answer, name
            else:
                with pytest.raises((Unauthorized, NotFound, InvalidConversation)) as refused:
                    await answer_of(method, place, "stranger", delivery)
                by_id = place == member.conversation
                assert by_id or not isinstance(refused.value, InvalidConversation), name
        checked.append(name)

    assert len(checked) > 30
    assert await tl.conversations.show(ROOM) == before
    assert await transcript(tl) == [(1, "the secret")]


@pytest.mark.case("B069")
async def test_memberships_equal_participants_and_bindings_after_a_reconciliation(
    damage: Damage,
) -> None:
    """B069: an added one gets its seat, a removed one loses it, the second time nothing happens."""
    line = await damage("")
    room = (await line.inbound.receive(said("1", "m1"))).conversation
    for letter in "abc":
        await line.speakers.participant(ROOM, letter, f"session-{letter}")
    await line.speakers.bind(ROOM, "bound")
    await line.members.join(ROOM, "plain", policy="since_join")
    await line.members.leave(ROOM, "session-c", evict=True)
    lost = (await line.members.show(ROOM, "session-a")).session_id
    line = await damage("delete from participants where handle = 'b'")
    line = await damage(
        "delete from members where session = (select session from names where name = 'session-a')"
    )

    first = await line.upkeep.reconcile(room)
    second = await line.upkeep.reconcile(room)

    readers = {one.session_id: one for one in (await line.members.of(ROOM))[0]}
    assert set(readers) == {lost, "bound", "plain"}
    assert readers["session-a"].grants.keys() == {"group"}
    assert readers["session-a"].handles == ("a",)
    assert readers["plain"].grants.keys() == {"manual"}
    assert (await line.conversations.show(ROOM)).members == 3
    assert len(first) >= 2
    assert second == []


@pytest.mark.case("B133")
async def test_a_binding_to_a_session_that_is_gone_loses_no_message(tl: Threadline) -> None:
    """B133: a retirement that was killed after its first step is found, and ended by the next."""
    room = (await tl.inbound.receive(said("1", "m1"))).conversation
    await tl.speakers.bind(ROOM, "old")
    await tl.store.run(Retire(scope="default", name="old"))

    taken = await tl.inbound.receive(said("2", "m2"))
    found = await tl.upkeep.reconcile(room)
    await tl.sessions.retire("old")
    await tl.speakers.bind(ROOM, "new", policy="all")
    after = await tl.inbound.receive(said("3", "m3"))

    assert (taken.sequence, taken.target_session_id, taken.route) == (2, None, "dangling")
    assert any("gone session" in finding for finding in found)
    assert await tl.upkeep.reconcile(room) == []
    assert await unread(tl, "new") == [1, 2, 3]
    assert after.target_session_id == "new"


@pytest.fixture
async def group(tl: Threadline) -> Threadline:
    """The room with a (default), b and c."""
    await tl.conversations.ensure(ROOM)
    for handle in ("a", "b", "c"):
        await tl.speakers.participant(ROOM, handle, f"session-{handle}")
    await tl.speakers.group(ROOM, default_handle="a")
    return tl


async def asked(line: Threadline, text: str, **more: Any) -> str | None:
    """The letter of who is to answer this."""
    taken = await line.inbound.receive(said(text, **more))
    return None if taken.target_session_id is None else taken.target_session_id[-1]


@pytest.mark.case("B083")
async def test_a_mention_only_group_answers_what_is_addressed_to_it(group: Threadline) -> None:
    """B083: by name or by a reply; everything is stored and readable."""
    await group.speakers.group(ROOM, mode="mention")
    await group.store.run(Append(spoken("soup today", "o1"), said_by="session-a"))

    answers = [
        await asked(group, "lunch?"),
        await asked(group, "@a lunch?"),
        await asked(group, "with bread?", reply_to="o1"),
    ]

    assert answers == [None, "a", "a"]
    assert await unread(group, "session-c") == [1, 2, 3, 4]


@pytest.mark.case("B085")
@pytest.mark.parametrize("everyone", ["@everyone", "@here", "@channel", "@room", "@all"])
async def test_a_word_for_all_addresses_nobody(group: Threadline, everyone: str) -> None:
    """B085: beside it, who is mentioned is addressed."""
    await group.speakers.group(ROOM, mode="mention")

    assert await asked(group, f"{everyone} lunch") is None
    assert await asked(group, f"{everyone} and @b please read") == "b"
    assert await asked(group, f"{everyone} please read", mentions=("b",)) == "b"


@pytest.mark.case("B089")
async def test_speaker_choice_and_readership_are_different_questions(group: Threadline) -> None:
    """B089: the targets in order; every message is readable by all who are there."""
    targets = [await asked(group, text) for text in ("hi", "@b hi", "and more?", "@zz hi")]
    await group.speakers.remove_participant(ROOM, "b")
    targets += [await asked(group, text) for text in ("@b hi", "still there?", "@C hi", "and?")]
    await group.speakers.remove_participant(ROOM, "c")
    targets.append(await asked(group, "hello?"))

    assert targets == ["a", "b", "b", None, None, "a", "c", "c", "a"]
    assert await unread(group, "session-a") == list(range(1, 10))
    assert handed(await followed(group, "session-a")) == list(range(1, 10))


@pytest.mark.case("B143")
async def test_a_bot_wakes_only_whom_it_names_and_not_for_ever(group: Threadline) -> None:
    """B143: a reply alone is no address of a bot's; a person's is; a bound ends the rest."""
    await group.store.run(Append(spoken("done", "o1"), said_by="session-a"))
    noted = await group.inbound.receive(said("noted", "m1", actor=BOT, reply_to="o1"))
    named = await group.inbound.receive(said("@a please run tests", "m2", actor=BOT))
    human = await group.inbound.receive(said("and?", "m3", reply_to="o1"))

    loop = [await group.inbound.receive(said("@a again", f"l{n}", actor=BOT)) for n in range(30)]
    await group.inbound.receive(said("stop it", "m4"))
    anew = await group.inbound.receive(said("@a again", "m5", actor=BOT))

    assert [bool(one.record and one.record.wakes) for one in (noted, named, human, anew)] == [
        False,
        True,
        True,
        True,
    ]
    awake = [bool(one.record and one.record.wakes) for one in loop]
    assert awake == sorted(awake, reverse=True)
    assert 0 < sum(awake) < 30
    records = (await group.conversations.transcript(ROOM)).records
    assert sum(one.event.value == "notice" for one in records) == 1


async def test_a_session_in_two_rooms_reads_each_in_its_own(tl: Threadline) -> None:
    """What two rooms have in common is a reader, and nothing else."""
    for where in (ROOM, SIDE):
        await tl.conversations.ensure(where)
        await tl.members.join(where, "agent")
    await tl.inbound.receive(said("here", "m1"))
    await tl.inbound.receive(said("there", "m1", conversation=SIDE))

    items = [one for one in await followed(tl, "agent") if isinstance(one, Handed)]

    assert {(one.ref, one.record.text) for one in items} == {(ROOM, "here"), (SIDE, "there")}
