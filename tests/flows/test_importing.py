"""Exports become history: gated or in front, once, and never complete when they broke off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.speech import ROOM, numbered, said, transcript
from threadline import ConversationRef, InboundMessage, Threadline
from threadline.core.archive import Account, Ended, Item, Place, Tally, broken
from threadline.core.errors import ArchiveError, HydrationPending
from threadline.core.model import Actor, History, Hydration, WindowMode

ACCOUNT = Account(provider="slack", account_id="T1")
OTHER = ConversationRef("slack", "T1", "C2")


def archive(*messages: InboundMessage, title: str = "general") -> list[Item]:
    """An archive of one room, oldest first."""
    return [Place(ROOM, title), *messages, Ended(ROOM)]


async def imported(line: Threadline, items: Iterator[Item] | list[Item]) -> object:
    """Import the items."""
    return await line.importing.run(items, Tally(), owner="test", account=ACCOUNT)


async def test_a_room_nobody_used_is_imported_oldest_first_and_is_complete(tl: Threadline) -> None:
    await imported(tl, archive(*numbered(1, 1203)))

    state = await tl.conversations.show(ROOM)
    assert (state.hydration, state.title) == (Hydration.COMPLETE, "general")
    assert await transcript(tl) == [(n, str(n)) for n in range(1, 1204)]


async def test_where_people_talk_already_the_history_goes_in_front(tl: Threadline) -> None:
    await tl.inbound.receive(said("live", "live1"))

    await imported(tl, archive(*numbered(1, 1203)))

    assert await transcript(tl) == [(n - 1203, str(n)) for n in range(1, 1204)] + [(1, "live")]
    assert (await tl.conversations.show(ROOM)).history is History.COMPLETE


async def test_importing_the_same_export_again_adds_nothing(tl: Threadline) -> None:
    await imported(tl, archive(*numbered(1, 700)))
    before = await transcript(tl)

    summary = await tl.importing.run(
        archive(*numbered(1, 700)), Tally(), owner="again", account=ACCOUNT
    )

    assert await transcript(tl) == before
    assert (summary.written, summary.known) == (0, 700)


async def test_a_longer_export_adds_only_what_is_new(tl: Threadline) -> None:
    await imported(tl, archive(*numbered(1, 10)))

    await imported(tl, archive(*numbered(1, 15)))

    assert [text for _, text in await transcript(tl)] == [str(n) for n in range(1, 16)]


async def test_an_export_that_breaks_off_is_partial_and_says_why(tl: Threadline) -> None:
    def cut() -> Iterator[Item]:
        yield from archive(*numbered(1, 600))[:-1]
        raise broken("export.json, byte 4711", "the file ends inside a message")

    with pytest.raises(ArchiveError, match="byte 4711"):
        await imported(tl, cut())

    state = await tl.conversations.show(ROOM)
    assert (state.hydration, state.history) == (Hydration.FAILED, History.PARTIAL)
    assert "byte 4711" in state.reason


async def test_a_broken_import_resumes_without_doubles(tl: Threadline) -> None:
    def cut() -> Iterator[Item]:
        yield from archive(*numbered(1, 900))[:-1]
        raise broken("export.json", "cut")

    with pytest.raises(ArchiveError):
        await imported(tl, cut())

    await imported(tl, archive(*numbered(1, 1000)))

    assert await transcript(tl) == [(n, str(n)) for n in range(1, 1001)]
    assert (await tl.conversations.show(ROOM)).history is History.COMPLETE


async def test_one_refused_record_does_not_take_its_neighbours(tl: Threadline) -> None:
    bad = replace(said("by nobody", "bad"), actor=Actor(" "))

    summary = await tl.importing.run(
        archive(said("1", "m1"), bad, said("2", "m2")), Tally(), owner="test", account=ACCOUNT
    )

    assert [text for _, text in await transcript(tl)] == ["1", "2"]
    assert summary.refused == 1
    assert "actor.id is missing" in summary.refusals[0]


async def test_conversations_that_alternate_in_the_export_keep_their_own_order(
    tl: Threadline,
) -> None:
    items: list[Item] = [Place(ROOM), Place(OTHER)]
    for n in range(1, 400):
        items += [said(str(n), f"a{n}"), said(str(-n), f"b{n}", conversation=OTHER)]

    summary = await tl.importing.run(items, Tally(), owner="test", account=ACCOUNT)

    assert [text for _, text in await transcript(tl)] == [str(n) for n in range(1, 400)]
    assert [text for _, text in await transcript(tl, OTHER)] == [str(-n) for n in range(1, 400)]
    assert (summary.conversations, summary.written) == (2, 798)


async def test_another_importer_at_work_is_named(tl: Threadline) -> None:
    await tl.conversations.ensure(ROOM)
    await tl.hydration.begin(ROOM, owner="somebody else", mode=WindowMode.GATED)

    with pytest.raises(HydrationPending, match="somebody else"):
        await imported(tl, archive(*numbered(1, 3)))


async def test_progress_counts_every_record(tl: Threadline) -> None:
    steps: list[int] = []

    await tl.importing.run(
        archive(*numbered(1, 1300)),
        Tally(),
        owner="test",
        account=ACCOUNT,
        progress=steps.append,
    )

    assert steps == sorted(steps)
    assert steps[-1] == 1300


async def test_the_thread_of_an_export_begins_with_a_copy_of_its_root(tl: Threadline) -> None:
    thread = ConversationRef("slack", "T1", "m1", "C1")
    items: list[Item] = [
        Place(ROOM),
        said("root", "m1"),
        said("later", "m2"),
        Ended(ROOM),
        Place(thread, parent=ROOM, thread_root="m1"),
        said("reply", "m3", conversation=thread, thread_root="m1"),
    ]

    summary = await tl.importing.run(items, Tally(), owner="test", account=ACCOUNT)

    page = await tl.conversations.transcript(thread)
    assert [(one.text, one.copied_from) for one in page.records] == [("root", 1), ("reply", None)]
    assert (summary.conversations, summary.threads, summary.written) == (1, 1, 3)
