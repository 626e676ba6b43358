"""Edits, deletes and reactions: new records that refer to the one they revise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Store
from tests.speech import ADA, ROOM, deleted, edited, followed, handed, numbered, said, unread
from threadline import Threadline
from threadline.core.errors import InvalidInput
from threadline.core.model import (
    Actor,
    Attachment,
    ConversationRef,
    Event,
    Kind,
    SessionCaller,
    TranscriptRecord,
)

EVE = Actor("U666", "Ada")
THREAD = ConversationRef("slack", "T1", "root", "C1", kind=Kind.THREAD)
SECRET = "xyzzy"


@pytest.fixture
async def tl(store: Store) -> Threadline:
    """Everything, on a store whose room has one member that reads."""
    line = Threadline(store)
    await line.conversations.ensure(ROOM)
    await line.members.join(ROOM, "agent")
    return line


async def folded(line: Threadline, where: Any = ROOM) -> list[tuple[str, int, bool]]:
    """The messages as people see them: text, how often edited, whether deleted."""
    page = await line.conversations.transcript(where, view="messages")
    return [(one.record.text, one.revision, one.deleted) for one in page.messages]


async def records(line: Threadline, where: Any = ROOM) -> list[TranscriptRecord]:
    """The records as they are kept."""
    return (await line.conversations.transcript(where)).records


async def leaks(line: Threadline, *rooms: ConversationRef, word: str = SECRET) -> list[str]:
    """Every read path that still shows the word, by name."""
    await line.search.catch_up()
    found = []
    for room in rooms or (ROOM,):
        for view in ("records", "messages"):
            for order in ("asc", "desc"):
                page = await line.conversations.transcript(room, view=view, order=order)
                if word in repr(page):
                    found.append(f"{view} {order} {room}")
        page = await line.conversations.transcript(room, caller=SessionCaller("agent"))
        if word in repr(page):
            found.append(f"own list {room}")
        if word in repr(await line.replay.backfill(room, "agent", own=True)):
            found.append(f"backfill {room}")
    if word in repr(await followed(line, "agent", own=True)):
        found.append("stream")
    for caller in ({}, {"caller": SessionCaller("agent")}):
        if (await line.search.find(word, **caller)).hits:  # type: ignore[arg-type]
            found.append("search")
    return found


@pytest.mark.acceptance("I1")
async def test_an_edit_is_a_record_of_its_own_and_the_fold_shows_the_new_text(
    tl: Threadline,
) -> None:
    """I1: the original's record keeps its text and place."""
    await tl.inbound.receive(said("teh cat", "m1"))
    await tl.inbound.receive(said("a dog", "m2"))

    taken = await tl.inbound.receive(edited("m1", "the cat", "e1"))

    assert taken.sequence == 3
    assert taken.record is not None
    assert (taken.record.event, taken.record.revises) == (Event.EDIT, "m1")
    assert await folded(tl) == [("the cat", 1, False), ("a dog", 0, False)]
    assert [record.text for record in await records(tl)] == ["teh cat", "a dog", "the cat"]


@pytest.mark.acceptance("I1")
async def test_a_reader_that_is_past_the_original_still_learns_of_its_edit(
    tl: Threadline,
) -> None:
    """I1: the edit comes by the cursor, like everything."""
    await tl.inbound.receive(said("first", "m1"))
    await tl.replay.ack(ROOM, "agent", 1)

    await tl.inbound.receive(edited("m1", "second", "e1"))
    await tl.inbound.receive(deleted("m1", "d1"))

    page = await tl.replay.backfill(ROOM, "agent")
    told = [(one.record.event.value, one.record.revises) for one in page.records]
    assert told == [("edit", "m1"), ("delete", "m1")]


@pytest.mark.acceptance("I1")
async def test_the_latest_of_several_edits_counts(tl: Threadline) -> None:
    """I1: by sequence; the page may hold the message and not its edits."""
    await tl.inbound.receive(said("one", "m1"))
    for n, text in enumerate(["two", "three", "four"]):
        await tl.inbound.receive(edited("m1", text, f"e{n}"))

    page = await tl.conversations.transcript(ROOM, view="messages", limit=1)

    assert [(one.record.text, one.revision) for one in page.messages] == [("four", 3)]


@pytest.mark.acceptance("I1", "B13")
async def test_a_redelivered_revision_is_a_duplicate(tl: Threadline) -> None:
    """B13: edit, delete and reaction alike, by their event ids."""
    await tl.inbound.receive(said("one", "m1"))
    events = [
        edited("m1", "two", "e1"),
        said("+1", "r1", event=Event.REACTION, revises="m1"),
        deleted("m1", "d1"),
    ]
    first = [await tl.inbound.receive(event) for event in events]

    again = [await tl.inbound.receive(event) for event in events]

    assert [one.sequence for one in first] == [one.sequence for one in again] == [2, 3, 4]
    assert [one.duplicate for one in again] == [True] * 3
    assert len(await records(tl)) == 4


@pytest.mark.acceptance("I2")
async def test_a_delete_is_a_tombstone_in_the_fold_and_is_not_revived(tl: Threadline) -> None:
    """I2: a redelivered original stays deleted, live and imported."""
    await tl.inbound.receive(said(SECRET, "m1"))
    await tl.inbound.receive(said("stays", "m2"))
    await tl.inbound.receive(deleted("m1", "d1"))

    again = await tl.inbound.receive(said(SECRET, "m1"))
    window = await tl.hydration.begin(ROOM, owner="importer", mode="prepending")
    [imported] = await tl.hydration.records(ROOM, window.token or "", [said(SECRET, "m1")])

    assert (again.duplicate, imported.duplicate) == (True, True)
    assert again.record is not None
    assert (again.record.text, again.record.blanked) == ("", True)
    assert await folded(tl) == [("", 0, True), ("stays", 0, False)]
    assert await leaks(tl) == []


@pytest.mark.acceptance("I2", "I6")
async def test_after_a_delete_no_read_path_holds_text_attachments_or_metadata(
    tl: Threadline,
) -> None:
    """I2, I6: of the message and of all its edits; the place, the id and the author stay."""
    with_file = Attachment("F1", "image/png", f"{SECRET}.png", 3, f"https://x/{SECRET}")
    await tl.inbound.receive(
        said(f"a {SECRET}", "m1", attachments=(with_file,), metadata={"note": SECRET})
    )
    await tl.inbound.receive(edited("m1", f"b {SECRET}", "e1", attachments=(with_file,)))
    await tl.inbound.receive(edited("m1", f"c {SECRET}", "e2"))
    before = await leaks(tl)

    await tl.inbound.receive(deleted("m1", "d1"))

    assert "search" in before
    assert await leaks(tl) == []
    kept = await records(tl)
    assert [(one.sequence, one.message_id, one.actor.id) for one in kept] == [
        (1, "m1", "U1"),
        (2, "e1", "U1"),
        (3, "e2", "U1"),
        (4, "d1", "U1"),
    ]


@pytest.mark.acceptance("I2", "I6")
async def test_a_deletes_own_text_is_not_kept(tl: Threadline) -> None:
    """I6: providers repeat the old text in the delete event."""
    await tl.inbound.receive(said(SECRET, "m1"))

    await tl.inbound.receive(
        said(SECRET, "d1", event=Event.DELETE, revises="m1", metadata={"previous": SECRET})
    )

    assert await leaks(tl) == []
    assert (await records(tl))[1].event is Event.DELETE


@pytest.mark.acceptance("I6")
async def test_an_edit_that_comes_after_the_delete_brings_nothing_back(tl: Threadline) -> None:
    """I6: events overtake each other."""
    await tl.inbound.receive(said("one", "m1"))
    await tl.inbound.receive(deleted("m1", "d1"))

    await tl.inbound.receive(edited("m1", SECRET, "e1"))

    assert await leaks(tl) == []
    assert await folded(tl) == [("", 0, True)]


@pytest.mark.acceptance("I6")
@pytest.mark.parametrize("order", ["edit first", "delete first"])
async def test_an_edit_of_a_deleted_message_that_never_came_holds_no_text(
    tl: Threadline, order: str
) -> None:
    """I6: the original may never come; the edit is content all the same."""
    events = [edited("m1", SECRET, "e1"), deleted("m1", "d1")]
    for event in events if order == "edit first" else reversed(events):
        await tl.inbound.receive(event)

    assert await leaks(tl) == []


@pytest.mark.acceptance("I6", "B15")
async def test_a_delete_of_a_swept_message_blanks_the_edit_that_is_left(tl: Threadline) -> None:
    """I6: retention took the original, not its edit."""
    await tl.inbound.receive(said("one", "m1"))
    await tl.inbound.receive(edited("m1", SECRET, "e1"))
    await tl.conversations.change(ROOM, max_retained_entries=1)
    await tl.upkeep.sweep()

    await tl.inbound.receive(deleted("m1", "d1"))

    assert await leaks(tl) == []


@pytest.mark.acceptance("I6", "B16")
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
async def test_a_message_its_edit_and_its_delete_may_come_in_one_batch(
    tl: Threadline, known: bool
) -> None:
    """I6, B16: each sees what was decided before it, saved or not."""
    if known:
        await tl.inbound.receive(said(SECRET, "m1"))

    await tl.inbound.receive_all(
        [said(SECRET, "m1"), edited("m1", SECRET, "e1"), deleted("m1", "d1")]
    )

    assert await folded(tl) == [("", 0, True)]
    assert await leaks(tl) == []


@pytest.mark.acceptance("I6")
async def test_a_delete_reaches_the_copy_of_a_threads_root(tl: Threadline) -> None:
    """I6: the copy stands in another transcript, and is read there."""
    await tl.inbound.receive(said(SECRET, "root"))
    await tl.inbound.receive(said("reply", "m2", conversation=THREAD, thread_root="root"))
    await tl.members.join(THREAD, "agent")
    copied = (await records(tl, THREAD))[0].text

    await tl.inbound.receive(deleted("root", "d1"))

    assert copied == SECRET
    assert await leaks(tl, ROOM, THREAD) == []
    assert await folded(tl, THREAD) == [("", 0, True), ("reply", 0, False)]


@pytest.mark.acceptance("I6")
async def test_a_deleted_root_is_copied_into_a_later_thread_without_its_text(
    tl: Threadline,
) -> None:
    """I6: the thread opens after the delete."""
    await tl.inbound.receive(said(SECRET, "root"))
    await tl.inbound.receive(deleted("root", "d1"))

    await tl.inbound.receive(said("reply", "m2", conversation=THREAD, thread_root="root"))

    await tl.members.join(THREAD, "agent")
    assert await leaks(tl, ROOM, THREAD) == []


@pytest.mark.acceptance("I6", "D2")
async def test_a_delete_of_a_held_message_leaves_no_text_after_the_drain(tl: Threadline) -> None:
    """I6: message, edit and delete waited together."""
    window = await tl.hydration.begin(ROOM, owner="importer", mode="gated")
    for event in (said(SECRET, "m1"), edited("m1", SECRET, "e1"), deleted("m1", "d1")):
        await tl.inbound.receive(event)

    await tl.hydration.complete(ROOM, window.token or "")

    assert [one.event.value for one in await records(tl)] == ["message", "edit", "delete"]
    assert await leaks(tl) == []


@pytest.mark.acceptance("I6", "D8")
async def test_a_delete_heard_live_blanks_what_an_import_brings_later(tl: Threadline) -> None:
    """I6: the history in front still holds the text that was deleted since."""
    await tl.inbound.receive(deleted("m3", "d1"))
    window = await tl.hydration.begin(ROOM, owner="importer", mode="prepending")
    await tl.hydration.records(
        ROOM,
        window.token or "",
        [edited("m3", SECRET, "e1"), said(SECRET, "m3"), *numbered(2, 1)],
    )

    assert await leaks(tl) == []
    assert [text for text, _, _ in await folded(tl)] == ["1", "2", ""]


@pytest.mark.acceptance("I3")
@pytest.mark.parametrize("mode", ["live", "gated", "prepending"])
async def test_an_edit_before_its_message_is_kept_and_applied_when_it_comes(
    tl: Threadline, mode: str
) -> None:
    """I3: also within one chunk of an import, newest first."""
    events = [edited("m1", "right", "e1"), said("wrong", "m1")]

    if mode == "live":
        for event in events:
            await tl.inbound.receive(event)
    else:
        window = await tl.hydration.begin(ROOM, owner="importer", mode=mode)
        await tl.hydration.records(ROOM, window.token or "", events)
        await tl.hydration.complete(ROOM, window.token or "")

    assert await folded(tl) == [("right", 1, False)]


@pytest.mark.acceptance("I3")
@pytest.mark.parametrize("order", ["after", "before"])
@pytest.mark.parametrize("event", [Event.EDIT, Event.DELETE])
async def test_a_revision_by_another_author_is_recorded_as_refused(
    tl: Threadline, order: str, event: Event
) -> None:
    """I3: compared by id, not by name; it changes nothing, whenever the message comes."""
    forged = said("forged", "x1", event=event, revises="m1", actor=EVE)
    events = [said("mine", "m1"), forged]
    for one in events if order == "after" else reversed(events):
        await tl.inbound.receive(one)

    kept = {record.message_id: record for record in await records(tl)}
    assert kept["x1"].refused is not None
    assert (kept["m1"].text, kept["m1"].blanked) == ("mine", False)
    assert await folded(tl) == [("mine", 0, False)]


@pytest.mark.acceptance("I3")
async def test_a_forged_delete_does_not_swallow_the_authors_early_edit(tl: Threadline) -> None:
    """I3: nor does a forged edit survive under a real delete."""
    await tl.inbound.receive(deleted("m1", "x1", actor=EVE))
    await tl.inbound.receive(edited("m1", "right", "e1"))
    await tl.inbound.receive(said("wrong", "m1"))

    assert await folded(tl) == [("right", 1, False)]


@pytest.mark.acceptance("I3")
async def test_a_signed_delete_of_the_provider_needs_no_author(tl: Threadline) -> None:
    """I3: a moderator's delete comes without the author."""
    provider = Actor("slack", "Slack", is_bot=True)
    await tl.inbound.receive(said(SECRET, "m1"))
    await tl.inbound.receive(edited("m1", SECRET, "e1"))

    await tl.inbound.receive(deleted("m1", "d1", actor=provider, signed=True))

    assert await leaks(tl) == []
    assert await folded(tl) == [("", 0, True)]


@pytest.mark.acceptance("I3")
async def test_a_revision_that_names_no_message_is_refused(tl: Threadline) -> None:
    """I3: nothing is guessed, nothing is written."""
    for event in (Event.EDIT, Event.DELETE, Event.REACTION):
        with pytest.raises(InvalidInput):
            await tl.inbound.append(said("?", f"x-{event.value}", event=event))

    assert await records(tl) == []


@pytest.mark.acceptance("I4")
async def test_edits_deletes_reactions_joins_and_notices_start_no_turn(tl: Threadline) -> None:
    """I4: none has a target, none wakes, none moves the last-addressed cursor."""
    await tl.speakers.participant(ROOM, "alpha", "agent")
    await tl.speakers.participant(ROOM, "beta", "other")
    await tl.speakers.group(ROOM, default_handle="alpha")
    await tl.inbound.receive(said("hello", "m1"))
    events = [
        edited("m1", "@beta hello", "e1", explicit_target="beta"),
        said("@beta", "r1", event=Event.REACTION, revises="m1"),
        said("@beta joined", "j1", event=Event.MEMBER),
        said("topic: @beta", "n1", event=Event.NOTICE),
        deleted("m1", "d1"),
    ]

    for event in events:
        await tl.inbound.receive(event)

    kept = (await records(tl))[1:]
    assert len(kept) == 5
    assert [(one.target, one.wakes) for one in kept] == [(None, ())] * 5
    group = await tl.speakers.show_group(ROOM)
    assert group.last_addressed_handle is None
    assert handed(await followed(tl, "agent")) == [1, 2, 3, 4, 5, 6]


@pytest.mark.acceptance("I4")
async def test_a_reaction_changes_no_text(tl: Threadline) -> None:
    """I4: it is read like every record, and folded into nothing."""
    await tl.inbound.receive(said("hello", "m1"))
    await tl.inbound.receive(said("👍", "r1", event=Event.REACTION, revises="m1", actor=EVE))

    assert await folded(tl) == [("hello", 0, False)]
    assert await unread(tl, "agent") == [1, 2]
    assert (await records(tl))[1].actor == EVE
    assert (await records(tl))[0].actor == ADA
