"""Append and order: one dense order, one record per id, whatever happens around it."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.acceptance.apart import SAID, room
from tests.conftest import Databases, Store, open_at
from tests.proxies import Cut, proxy
from tests.speech import (
    ROOM,
    deleted,
    edited,
    followed,
    handed,
    numbered,
    said,
    spoken,
    transcript,
    unread,
)
from threadline import Threadline
from threadline.core.errors import (
    InvalidInput,
    NotFound,
    OutcomeUnknown,
    ThreadlineError,
    TooLarge,
)
from threadline.core.model import ConversationRef, Direction, Event, Kind, Provenance
from threadline.core.recording import Door, Taken
from threadline.flows.inbound import Append
from threadline.testing.clock import StillClock

ROOT = Path(__file__).parents[2]
GROUP = ConversationRef("telegram", "7001", "-51")
SUPERGROUP = ConversationRef("telegram", "7001", "-10051")
SIDE = ConversationRef("slack", "T1", "C2")


@pytest.mark.acceptance("B1")
async def test_the_first_message_makes_the_conversation_and_the_list_is_in_order(
    tl: Threadline,
) -> None:
    """B1: sequence 1, then 2."""
    with pytest.raises(NotFound):
        await tl.conversations.show(ROOM)

    first = await tl.inbound.append(said("one"))
    second = await tl.inbound.append(said("two"))

    state = await tl.conversations.show(ROOM)
    assert (first.sequence, second.sequence, state.next_sequence) == (1, 2, 3)
    assert await transcript(tl) == [(1, "one"), (2, "two")]


@pytest.mark.acceptance("B2")
@pytest.mark.parametrize("door", ["append", "receive"])
async def test_the_same_id_again_is_the_stored_record_and_silence(
    tl: Threadline, door: str
) -> None:
    """B2: first text kept, no wake, no event, whatever the second one says."""
    await tl.speakers.participant(await _known(tl), "desk", "agent")
    await tl.speakers.group(ROOM, default_handle="desk")
    first = await tl.inbound.receive(said("first", "m1"))
    read = await followed(tl, "agent")
    bell = tl.store.bell(everything=True)

    bring = getattr(tl.inbound, door)
    again = await bring(said("second", "m1", explicit_target="desk", reply_to="m1"))
    await tl.inbound.receive(said("elsewhere", conversation=SIDE))

    assert (again.duplicate, again.sequence, again.record) == (True, 1, first.record)
    assert handed(read) == [1]
    number = (await tl.inbound.receive(said("x", conversation=SIDE))).conversation
    assert set(await bell.wait(30)) == {number}
    assert await transcript(tl) == [(1, "first")]
    assert (await tl.speakers.show_group(ROOM)).last_addressed_handle is None
    bell.close()


@pytest.mark.acceptance("B2")
async def test_an_id_is_one_record_inbound_or_outbound(tl: Threadline) -> None:
    """B2: the direction is no part of the identity."""
    await tl.inbound.receive(said("heard", "m1"))
    await tl.inbound.receive(spoken("said", "m2"))

    second = await tl.inbound.receive(spoken("echo", "m1"))
    third = await tl.inbound.receive(said("echo", "m2"))

    assert [(one.sequence, one.duplicate) for one in (second, third)] == [(1, True), (2, True)]
    assert second.record is not None
    assert third.record is not None
    assert (second.record.direction, third.record.direction) == (
        Direction.INBOUND,
        Direction.OUTBOUND,
    )


@pytest.mark.acceptance("B2")
async def test_an_id_is_one_record_live_or_imported(tl: Threadline) -> None:
    """B2: whichever was first stays what it is."""
    await tl.inbound.receive(said("live", "m2"))
    begun = await tl.hydration.begin(ROOM, owner="importer")
    assert begun.token is not None

    imported = await tl.hydration.records(
        ROOM, begun.token, [said("again", "m2"), said("imported", "m1")]
    )
    await tl.hydration.complete(ROOM, begun.token)
    again = await tl.inbound.receive(said("live now", "m1"))

    assert [(one.sequence, one.duplicate) for one in imported] == [(1, True), (0, False)]
    assert (again.sequence, again.duplicate) == (0, True)
    assert again.record is not None
    assert (again.record.provenance, again.record.text) == (Provenance.HYDRATED, "imported")
    assert await transcript(tl) == [(0, "imported"), (1, "live")]


@pytest.mark.acceptance("B2")
async def test_many_who_bring_one_message_at_once_get_one_record(tl: Threadline) -> None:
    """B2: exactly one of them is told that it is new."""
    texts = [f"copy {n}" for n in range(40)]

    answers = await asyncio.gather(*(tl.inbound.receive(said(text, "m1")) for text in texts))

    assert sum(not one.duplicate for one in answers) == 1
    assert {one.sequence for one in answers} == {1}
    assert len({one.record.text for one in answers if one.record is not None}) == 1
    assert len(await transcript(tl)) == 1


@pytest.mark.acceptance("B3")
async def test_a_stored_message_that_comes_again_during_a_gated_import_is_no_error(
    tl: Threadline,
) -> None:
    """B3: through every door, and nothing is held for it."""
    await tl.inbound.receive(said("first", "m1"))
    begun = await tl.hydration.begin(ROOM, owner="importer", mode="gated")
    assert begun.token is not None

    answers = [
        await tl.inbound.append(said("again", "m1")),
        await tl.inbound.receive(said("again", "m1")),
        *await tl.inbound.receive_all([said("again", "m1")]),
        *await tl.hydration.records(ROOM, begun.token, [said("again", "m1")]),
    ]

    taken = [one for one in answers if isinstance(one, Taken)]
    assert [(one.sequence, one.duplicate, one.held) for one in taken] == [(1, True, False)] * 4
    assert (await tl.conversations.show(ROOM)).held == 0


@pytest.mark.acceptance("B4")
async def test_equal_texts_without_an_id_are_different_messages(
    tl: Threadline, clock: StillClock
) -> None:
    """B4: at the same instant, by the same person."""
    first = await tl.inbound.append(said("ok", sent_at=clock()))
    second = await tl.inbound.append(said("ok", sent_at=clock()))
    both = await tl.inbound.receive_all([said("ok"), said("ok")])

    assert (first.sequence, second.sequence) == (1, 2)
    assert [one.sequence for one in both if isinstance(one, Taken)] == [3, 4]
    assert await transcript(tl) == [(n, "ok") for n in (1, 2, 3, 4)]


@pytest.mark.acceptance("B5")
async def test_two_processes_on_one_database_get_one_order(postgres_url: str, key: bytes) -> None:
    """B5: 64 appends, 32 from each of two processes, are 1…64."""
    children = [await _apart("append", postgres_url, first, first + 31) for first in (1, 33)]
    for child in children:
        assert child.stdout is not None
        assert await child.stdout.readline() == b"ready\n"

    heard = await asyncio.gather(*(child.communicate(b"go\n") for child in children))

    sequences = [number for out, _ in heard for number in json.loads(out)]
    assert sorted(sequences) == list(range(1, 65))
    store = await open_at(postgres_url, key)
    listed = await transcript(Threadline(store))
    assert [sequence for sequence, _ in listed] == list(range(1, 65))
    assert {text for _, text in listed} == {str(n) for n in range(1, 65)}
    await store.close()


@pytest.mark.acceptance("B5")
async def test_two_clients_of_the_process_that_holds_a_file_get_one_order(
    sqlite_url: str, key: bytes
) -> None:
    """B5: one process owns a SQLite file; clients in other threads go through it."""
    store = await open_at(sqlite_url, key)
    line = Threadline(store)
    loop = asyncio.get_running_loop()
    answers: list[Taken] = []

    def client(first: int) -> None:
        futures = [
            asyncio.run_coroutine_threadsafe(line.inbound.receive(one), loop)
            for one in numbered(first, first + 31)
        ]
        answers.extend(future.result() for future in futures)

    threads = [threading.Thread(target=client, args=(first,)) for first in (1, 33)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)

    assert sorted(one.sequence or 0 for one in answers) == list(range(1, 65))
    assert [sequence for sequence, _ in await transcript(line)] == list(range(1, 65))
    await store.close()


@pytest.mark.acceptance("B6")
async def test_a_kill_at_any_write_loses_nothing_that_was_acknowledged(
    store_url: str, key: bytes
) -> None:
    """B6: after the restart no gap, no repeated sequence, everything acknowledged is there."""
    await (await open_at(store_url, key)).close()
    child = await _apart("kill", store_url)

    out, _ = await child.communicate()

    runs = [json.loads(line) for line in out.splitlines()]
    assert [run["killed"] for run in runs] == [True] * (len(runs) - 1) + [False]
    assert runs[-1]["code"] == 0
    assert len(runs) > 12
    for url, same in itertools.groupby(runs, key=lambda run: run["url"]):
        store = await open_at(url, key)
        for run in same:
            await _check_what_is_left(Threadline(store), run)
        async with store.check() as findings:
            assert [finding async for finding in findings] == []
        await store.close()


async def _check_what_is_left(line: Threadline, run: dict[str, Any]) -> None:
    where = room(run["point"])
    left = [] if not await _is_known(line, where) else await transcript(line, where)
    acknowledged = [int(word) for word in run["answers"] if word != "bound"]
    assert [sequence for sequence, _ in left] == list(range(1, len(left) + 1)), run
    assert acknowledged == list(range(1, len(acknowledged) + 1)), run
    assert len(acknowledged) <= len(left), run
    messages = [
        *numbered(1, SAID, conversation=where),
        *(said("both", f"b{n}", conversation=where) for n in (1, 2)),
    ]
    for message in messages:
        again = await line.inbound.receive(message)
        assert again.duplicate == ((again.sequence or 0) <= len(left)), run
    whole = await transcript(line, where)
    assert whole == [*((n, str(n)) for n in range(1, SAID + 1)), (5, "both"), (6, "both")], run
    if "bound" in run["answers"]:
        assert (await line.members.show(where, "reader")).last_read == 2
        assert (await line.members.show(where, "agent")).grants.keys() == {"binding"}


async def _is_known(line: Threadline, where: ConversationRef) -> bool:
    try:
        await line.conversations.show(where)
    except NotFound:
        return False
    return True


@pytest.mark.acceptance("B7")
async def test_a_message_nobody_is_bound_to_is_recorded_and_read(tl: Threadline) -> None:
    """B7: no binding, no group, no speaker; a member reads it."""
    await tl.members.join(await _known(tl), "reader")

    taken = await tl.inbound.receive(said("hello", "m1"))

    assert (taken.sequence, taken.target_session_id, taken.readers) == (1, None, 1)
    [read] = (await tl.replay.backfill(ROOM, "reader")).records
    assert (read.record.text, read.speaker, read.wake) == ("hello", False, False)


@pytest.mark.acceptance("B7")
async def test_a_message_nobody_reads_is_recorded_and_says_so(tl: Threadline) -> None:
    """B7: readers 0 is an answer, and who joins later reads it."""
    taken = await tl.inbound.receive(said("hello", "m1"))

    await tl.members.join(ROOM, "late")

    assert taken.readers == 0
    assert await unread(tl, "late") == [1]


@pytest.mark.acceptance("B8")
@pytest.mark.parametrize(
    "how",
    [{"explicit_target": "zz"}, {"text": "@zz hello"}, {"mentions": ("zz",)}],
    ids=["field", "text", "entity"],
)
async def test_a_message_to_somebody_unknown_is_read_by_all_and_spoken_for_by_none(
    tl: Threadline, how: dict[str, Any]
) -> None:
    """B8: not the default, not the last addressed, not the binding."""
    await _known(tl)
    for handle in ("a", "b", "c"):
        await tl.speakers.participant(ROOM, handle, f"session-{handle}")
    await tl.speakers.group(ROOM, default_handle="a", last_addressed_handle="b")

    taken = await tl.inbound.receive(said(**({"text": "hello"} | how)))

    assert taken.record is not None
    assert (taken.sequence, taken.target_session_id, taken.route) == (1, None, "no_match")
    assert taken.record.wakes == ()
    for handle in ("a", "b", "c"):
        [read] = (await tl.replay.backfill(ROOM, f"session-{handle}")).records
        assert (read.speaker, read.wake) == (False, False)
    assert (await tl.speakers.show_group(ROOM)).last_addressed_handle == "b"


POISON: dict[str, dict[str, Any]] = {
    "a NUL in the text": {"text": "a\x00b"},
    "a NUL in the name": {"metadata": {"note": "\x00"}},
    "too long": {"text": "x" * (4 * 1024 * 1024 + 1)},
    "an edit of nothing": {"event": Event.EDIT},
    "metadata without end": {"metadata": {"n": 1 << 80}},
    "an empty id": {"message_id": ""},
}


@pytest.mark.acceptance("B9")
@pytest.mark.parametrize("poison", POISON)
async def test_one_poisoned_message_of_fifty_fails_alone_with_its_reason(
    tl: Threadline, poison: str
) -> None:
    """B9: the 49 others are recorded in their order, without a gap where it would have been."""
    messages = numbered(1, 50)
    bad = {"text": "bad", "message_id": "m25"} | POISON[poison]
    messages[24] = said(bad.pop("text"), bad.pop("message_id"), **bad)

    answers = await tl.inbound.receive_all(messages)

    [error] = [one for one in answers if not isinstance(one, Taken)]
    assert answers.index(error) == 24
    assert isinstance(error, InvalidInput | TooLarge)
    assert error.detail
    assert await transcript(tl) == [
        (n, str(text)) for n, text in enumerate([*range(1, 25), *range(26, 51)], 1)
    ]


@pytest.mark.acceptance("B9")
async def test_what_only_the_database_refuses_spares_its_neighbours(tl: Threadline) -> None:
    """B9: where saving fails through one item's data, the batch is run item by item."""
    stories = [Append(one) for one in numbered(1, 50)]
    stories[24] = Append(said("\x00\ud800", "m25"), Door.HEARD)

    answers = await tl.store.run_all(stories)

    bad = [at for at, one in enumerate(answers) if not isinstance(one, Taken)]
    assert bad in ([24], [])
    if bad:
        assert isinstance(answers[24], ThreadlineError)
    listed = await transcript(tl)
    assert [n for n, _ in listed] == list(range(1, 51 - len(bad)))


TEXTS = {
    "white space around": "  \t hello \r\n\r\n ",
    "only white space": " \n ",
    "nothing": "",
    "combining": "e\u0301 \u00e9",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 \U0001f600",
    "right to left": "\u202eevil\u202c \u200f",
    "no characters": "\ufffe\uffff\U0010ffff",
    "control": "\x01\x07\x1b[31m\x7f\x85\u2028\u2029",
    "byte order mark": "\ufeffstart",
    "json": '{"a": "\\u0000"} \\ \\\\ " \'',
    "sql": "'; drop table records; --",
    "markup": "<script>alert(1)</script> &amp; %00 %s {0}",
    "one MB": "x" * 1_000_000,
    "one MB of marks": "e" + "\u0301" * 500_000,
}


@pytest.mark.acceptance("B10")
@pytest.mark.parametrize("title", TEXTS)
async def test_text_comes_back_exactly(tl: Threadline, title: str) -> None:
    """B10: nothing is trimmed, folded or normalised."""
    text = TEXTS[title]

    taken = await tl.inbound.append(said(text, "m1"))

    [record] = (await tl.conversations.transcript(ROOM)).records
    assert record == taken.record
    assert record.text == text


@pytest.mark.acceptance("B10")
async def test_a_nul_is_refused_by_name(tl: Threadline) -> None:
    """B10: the error says NUL and which field."""
    with pytest.raises(InvalidInput, match="text holds a NUL") as refused:
        await tl.inbound.append(said("a\x00b"))

    assert refused.value.facts["field"] == "text"
    with pytest.raises(NotFound):
        await tl.conversations.show(ROOM)


@pytest.mark.acceptance("B10")
@pytest.mark.parametrize(
    ("half", "kept"),
    [
        ("a\ud83d", "a\ufffd"),
        ("\ude00b", "\ufffdb"),
        ("a\ud83db", "a\ufffdb"),
        ("\ud83d\ud83d\ude00!", "\ufffd😀!"),
        ("\ud83d\ude00", "😀"),
        ("\ufeff\ud800 é", "\ufeff\ufffd é"),
    ],
)
async def test_half_a_pair_becomes_the_replacement_character(
    tl: Threadline, half: str, kept: str
) -> None:
    """B10: and costs none of its neighbours."""
    await tl.inbound.append(said(half, "m1"))

    assert await transcript(tl) == [(1, kept)]


@pytest.mark.acceptance("B10")
async def test_ids_that_differ_in_half_a_pair_are_never_taken_for_one(tl: Threadline) -> None:
    """B10, B2: an id that cannot be kept exactly is refused, not bent into another's."""
    await tl.inbound.append(said("one", "m\ufffd"))

    for field in ("message_id", "reply_to"):
        with pytest.raises(InvalidInput, match=field):
            await tl.inbound.append(said(**{"text": "two", field: "m\ud800"}))

    assert await transcript(tl) == [(1, "one")]


@pytest.mark.acceptance("B10")
@pytest.mark.parametrize("letter", ["x", "é", "😀"])
async def test_the_limit_of_a_text_is_counted_in_bytes_and_named(
    tl: Threadline, letter: str
) -> None:
    """B10: 4 MiB pass, a byte more is refused."""
    limit = 4 * 1024 * 1024
    longest = letter * (limit // len(letter.encode()))

    taken = await tl.inbound.append(said(longest))
    with pytest.raises(TooLarge, match=str(limit)) as refused:
        await tl.inbound.append(said(longest + "x"))

    assert taken.record is not None
    assert taken.record.text == longest
    assert refused.value.facts["limit"] == limit


@pytest.mark.acceptance("B13")
@pytest.mark.parametrize("event", [Event.EDIT, Event.DELETE, Event.REACTION])
async def test_a_revision_that_comes_again_is_a_duplicate(tl: Threadline, event: Event) -> None:
    """B13: by its event id, with the sequence it had."""
    await tl.inbound.receive(said("one", "m1"))
    revision = said("two", "e1", event=event, revises="m1")
    first = await tl.inbound.receive(revision)

    again = await tl.inbound.receive(revision)

    assert (first.sequence, again.sequence) == (2, 2)
    assert (first.duplicate, again.duplicate) == (False, True)
    assert len(await transcript(tl)) == 2


@pytest.mark.acceptance("B14")
async def test_an_old_number_on_the_new_address_is_a_new_message(tl: Threadline) -> None:
    """B14: the provider numbers anew after the move, so the id space is the chat's."""
    await tl.inbound.receive(said("old five", "5", conversation=GROUP, id_space="-51"))
    moved: dict[str, Any] = {"conversation": SUPERGROUP, "same_as": (GROUP,), "id_space": "-10051"}

    new = await tl.inbound.receive(said("new five", "5", **moved))
    reply = await tl.inbound.receive(edited("5", "new five!", "e1", **moved))
    again = [
        await tl.inbound.receive(said("x", "5", conversation=GROUP, id_space="-51")),
        await tl.inbound.receive(said("x", "5", **moved)),
    ]

    assert (new.sequence, new.duplicate) == (2, False)
    assert [(one.sequence, one.duplicate) for one in again] == [(1, True), (2, True)]
    assert reply.sequence == 3
    page = await tl.conversations.transcript(SUPERGROUP, view="messages")
    assert [one.record.text for one in page.messages] == ["old five", "new five!"]


@pytest.mark.acceptance("B15")
async def test_what_was_swept_stays_a_duplicate_and_does_not_come_back(tl: Threadline) -> None:
    """B15: ids outlive retention."""
    for message in numbered(1, 5):
        await tl.inbound.receive(message)
    await tl.members.join(ROOM, "late")
    await tl.conversations.change(ROOM, max_retained_entries=2)
    swept = await tl.upkeep.sweep()

    again = await tl.inbound.receive(said("1", "m1"))

    assert swept == 3
    assert (again.duplicate, again.sequence, again.record) == (True, 1, None)
    assert await transcript(tl) == [(4, "4"), (5, "5")]
    assert await unread(tl, "late") == [4, 5]
    assert (await tl.conversations.show(ROOM)).head == 5


@pytest.mark.acceptance("B15")
async def test_what_was_deleted_stays_a_duplicate_and_does_not_come_back(tl: Threadline) -> None:
    """B15: the answer holds no word of it."""
    await tl.inbound.receive(said("secret", "m1", metadata={"also": "secret"}))
    await tl.inbound.receive(deleted("m1", "d1"))

    again = await tl.inbound.receive(said("secret", "m1"))

    assert (again.duplicate, again.sequence) == (True, 1)
    assert again.record is not None
    assert "secret" not in repr(again)
    assert await transcript(tl) == [(1, ""), (2, "")]


class Knife:
    """Cuts a batch at random borders between conversations, while it is sharp."""

    def __init__(self) -> None:
        self.random = random.Random(0)
        self.sharp = False
        self.cuts = 0

    def __call__(self, items: list[Any]) -> list[list[Any]]:
        parts: list[list[Any]] = [[]]
        for item in items:
            last = parts[-1][-1] if parts[-1] else item
            border = _place(last) != _place(item)
            if self.sharp and border and self.random.random() < 0.5:
                self.cuts += 1
                parts.append([])
            parts[-1].append(item)
        return parts


def _place(item: Any) -> Any:
    message = getattr(item.story, "message", None)
    return None if message is None else message.conversation


@pytest.fixture
def knife() -> Knife:
    """Sharp as soon as a test says so."""
    return Knife()


@pytest.fixture
async def cut_store(
    store_url: str, key: bytes, clock: StillClock, knife: Knife
) -> AsyncIterator[Store]:
    """A store whose batches may be cut, once on each engine."""
    opened = await open_at(store_url, key, clock=clock, cut=knife)
    yield opened
    await opened.close()


@pytest.mark.acceptance("B16")
@pytest.mark.parametrize("seed", range(6))
async def test_a_batch_that_is_cut_between_conversations_gives_the_same_answers(
    cut_store: Store, knife: Knife, seed: int
) -> None:
    """B16: duplicates, groups, threads and edits included; the seed is the test's parameter."""
    line = Threadline(cut_store)

    outcomes = []
    for scope in ("whole", "cut"):
        knife.sharp = scope == "cut"
        knife.random.seed(seed)
        outcomes.append(await _told(line, scope, random.Random(seed)))

    assert outcomes[0] == outcomes[1]
    assert knife.cuts > 0


async def _told(line: Threadline, scope: str, dice: random.Random) -> Any:
    rooms = [ConversationRef("slack", account, "C1", None, scope) for account in ("T1", "T2", "T3")]
    threads = [
        ConversationRef("slack", one.account_id, "m1", "C1", scope, Kind.THREAD) for one in rooms
    ]
    stories = []
    for n in range(80):
        where = dice.choice([*rooms, *threads])
        root = "m1" if where in threads else None
        number = f"m{dice.randrange(1, 12)}"
        text = dice.choice(["hi", "@a hi", "@a @b hi", "b: hi"])
        if dice.random() < 0.2:
            message = edited(number, f"edit {n}", f"e{n}", conversation=where, thread_root=root)
        else:
            message = said(text, number, conversation=where, thread_root=root)
        stories.append(Append(message))
    answers = await line.store.run_all(stories)
    told = []
    for answer in answers:
        assert isinstance(answer, Taken), answer
        told.append((answer.ref.text.partition("?")[0], answer.sequence, answer.duplicate))
    return told


@pytest.mark.acceptance("B16")
@pytest.mark.parametrize("state", ["40001", "40P01"], ids=["serialization", "deadlock"])
async def test_a_transaction_the_database_gave_up_is_run_again_unseen(
    postgres_url: str, key: bytes, state: str
) -> None:
    """B16: with and without ids; nobody learns of it."""
    store = await open_at(postgres_url, key)
    outside = await asyncpg.connect(postgres_url)
    await outside.execute(f"""
        create sequence failures;
        create function fail() returns trigger language plpgsql as $$ begin
            if nextval('failures') <= 2 then raise 'as asked' using errcode = '{state}'; end if;
            return new;
        end $$;
        create trigger fail before insert on records for each row execute function fail();
    """)

    line = Threadline(store)
    answers = await line.inbound.receive_all([said("one", "m1"), said("two")])

    assert [one.sequence for one in answers if isinstance(one, Taken)] == [1, 2]
    assert await transcript(line) == [(1, "one"), (2, "two")]
    assert int(await outside.fetchval("select last_value from failures")) > 2
    await outside.close()
    await store.close()


@pytest.mark.acceptance("B16")
@pytest.mark.parametrize("cut", Cut)
async def test_an_identified_message_whose_commit_was_lost_is_recorded_once(
    postgres_url: str, databases: Databases, key: bytes, cut: Cut
) -> None:
    """B16: before or while committing, with an id it is run again unseen."""
    async with proxy(databases.server.port) as wire:
        url = postgres_url.replace(str(databases.server.port), str(wire.port))
        store = await open_at(url, key)
        line = Threadline(store)

        wire.cut(cut)
        taken = await line.inbound.receive(said("one", "m1"))

        assert (wire.lost, taken.sequence) == (1, 1)
        assert await transcript(line) == [(1, "one")]
        await store.close()


@pytest.mark.acceptance("B16")
async def test_an_unidentified_message_whose_commit_was_lost_is_in_doubt(
    postgres_url: str, databases: Databases, key: bytes
) -> None:
    """B16: `outcome_unknown`, and it is there at most once."""
    async with proxy(databases.server.port) as wire:
        url = postgres_url.replace(str(databases.server.port), str(wire.port))
        store = await open_at(url, key)
        line = Threadline(store)

        wire.cut(Cut.AFTER)
        with pytest.raises(OutcomeUnknown) as doubt:
            await line.inbound.receive(said("one"))

        assert doubt.value.code == "outcome_unknown"
        assert await transcript(line) == [(1, "one")]
        await store.close()


@pytest.fixture
async def thousand(tl: Threadline) -> Threadline:
    """1,010 messages in the room."""
    await tl.store.run_all([Append(one) for one in numbered(1, 1010)])
    return tl


@pytest.mark.acceptance("B11")
@pytest.mark.parametrize(
    ("asked", "given"),
    [(None, 100), (0, 100), (-5, 100), (1, 1), (500, 500), (501, 500), (10**9, 500)],
)
async def test_a_list_is_clamped(thousand: Threadline, asked: int | None, given: int) -> None:
    """B11: transcript and backfill alike; what follows is named."""
    await thousand.members.join(ROOM, "reader")

    page = await thousand.conversations.transcript(ROOM, limit=asked)
    backfill = await thousand.replay.backfill(ROOM, "reader", limit=asked)

    assert [one.sequence for one in page.records] == list(range(1, given + 1))
    assert page.next == given
    assert [one.record.sequence for one in backfill.records] == list(range(1, given + 1))
    assert backfill.more


@pytest.mark.acceptance("B11")
async def test_cursors_are_exclusive_and_every_entry_is_reached(thousand: Threadline) -> None:
    """B11: after, before and order together; the 101st entry is on the second page."""
    line = thousand.conversations

    second = await line.transcript(ROOM, after=100)
    newest = await line.transcript(ROOM, order="desc", limit=2)
    older = await line.transcript(ROOM, order="desc", before=newest.next, limit=2)
    between = await line.transcript(ROOM, after=10, before=13)
    beyond = await line.transcript(ROOM, after=1010)
    nothing = await line.transcript(ROOM, after=5, before=6)

    assert second.records[0].sequence == 101
    assert [one.sequence for one in newest.records] == [1010, 1009]
    assert [one.sequence for one in older.records] == [1008, 1007]
    assert [one.sequence for one in between.records] == [11, 12]
    assert between.next is None
    assert (beyond.records, beyond.next, nothing.records) == ([], None, [])
    assert [n for n, _ in await transcript(thousand)] == list(range(1, 1011))


@pytest.mark.acceptance("B11")
async def test_zero_is_an_ordinary_cursor(tl: Threadline) -> None:
    """B11: imported history stands at 0 and below."""
    await tl.inbound.receive(said("1", "m1"))
    begun = await tl.hydration.begin(ROOM, owner="importer")
    assert begun.token is not None
    await tl.hydration.records(ROOM, begun.token, [said("0", "h0"), said("-1", "h1")])
    await tl.hydration.complete(ROOM, begun.token)

    async def listed(**how: Any) -> list[int]:
        page = await tl.conversations.transcript(ROOM, **how)
        return [one.sequence for one in page.records]

    assert await listed() == [-1, 0, 1]
    assert await listed(after=0) == [1]
    assert await listed(before=0) == [-1]
    assert await listed(after=-1, before=1) == [0]
    assert await listed(order="desc", before=0) == [-1]
    assert await listed(limit=2, order="desc") == [1, 0]


@pytest.mark.acceptance("B11")
@pytest.mark.parametrize("how", [{"order": "up"}, {"view": "all"}])
async def test_a_list_in_no_known_way_is_refused(tl: Threadline, how: dict[str, Any]) -> None:
    """B11: a misspelt parameter is not another list."""
    await _known(tl)

    with pytest.raises(InvalidInput):
        await tl.conversations.transcript(ROOM, **how)


@pytest.mark.acceptance("B12")
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_paging_while_others_write_shows_every_record_once(
    tl: Threadline, order: str, clock: StillClock
) -> None:
    """B12: all at one instant, in both directions; new ones only at the end."""
    await tl.store.run_all([Append(one) for one in numbered(1, 100)])
    seen: list[int] = []
    cursor: dict[str, Any] = {}
    news = iter(numbered(101, 200))

    while True:
        await tl.inbound.receive(next(news))
        page = await tl.conversations.transcript(ROOM, order=order, limit=7, **cursor)
        seen += [one.sequence for one in page.records]
        assert {one.recorded_at for one in page.records} <= {clock()}
        if page.next is None or len(seen) > 300:
            break
        cursor = {"after" if order == "asc" else "before": page.next}

    head = (await tl.conversations.show(ROOM)).head
    expected = list(range(1, head + 1)) if order == "asc" else list(range(101, 0, -1))
    assert seen == expected


@pytest.mark.acceptance("B12")
async def test_backfilling_while_others_write_hands_every_record_once(tl: Threadline) -> None:
    """B12: page, acknowledge, page."""
    await tl.store.run_all([Append(one) for one in numbered(1, 50)])
    await tl.members.join(ROOM, "reader")
    seen: list[int] = []
    news = iter(numbered(51, 80))

    while len(seen) < 80:
        if (message := next(news, None)) is not None:
            await tl.inbound.receive(message)
        page = await tl.replay.backfill(ROOM, "reader", limit=4)
        seen += [one.record.sequence for one in page.records]
        await tl.replay.ack(ROOM, "reader", seen[-1])

    assert seen == list(range(1, 81))


async def _known(line: Threadline) -> ConversationRef:
    await line.conversations.ensure(ROOM)
    return ROOM


async def _apart(*words: object) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.acceptance.apart",
        *(str(word) for word in words),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
