"""Full text finds what one may read, and nothing that was deleted, swept or hidden."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.speech import ROOM, deleted, edited, said
from threadline import ConversationRef, Threadline
from threadline.core.errors import InvalidInput, Unauthorized
from threadline.core.model import AdapterCaller, SessionCaller

OTHER = ConversationRef("slack", "T1", "C2")


async def found(line: Threadline, query: str, **how: object) -> list[int]:
    """The sequences of a whole search, page by page."""
    await line.search.catch_up()
    hits: list[int] = []
    after: str | None = None
    while True:
        page = await line.search.find(query, after=after, **how)  # type: ignore[arg-type]
        hits += [hit.record.sequence for hit in page.hits]
        if page.next is None:
            return hits
        after = page.next


async def test_all_words_have_to_be_there_and_the_newest_comes_first(tl: Threadline) -> None:
    for number, text in enumerate(["red apple", "green apple", "Red Äpfel", "apple, red!"], 1):
        await tl.inbound.receive(said(text, f"m{number}"))

    assert await found(tl, "apple red") == [4, 1]
    assert await found(tl, "APPLE") == [4, 2, 1]
    assert await found(tl, "pear") == []


async def test_pages_of_hits_join_without_gap_or_double(tl: Threadline) -> None:
    await tl.inbound.receive_all([said(f"needle {n}", f"m{n}") for n in range(30)])

    assert await found(tl, "needle", limit=7) == list(range(30, 0, -1))


async def test_a_session_finds_only_what_its_policy_shows(tl: Threadline) -> None:
    await tl.inbound.receive_all([said(f"needle {n}", f"m{n}") for n in range(1, 11)])
    await tl.inbound.receive(said("needle elsewhere", "x1", conversation=OTHER))
    await tl.members.join(ROOM, "late", policy="last_n", n=3)
    await tl.members.join(ROOM, "new", policy="since_join")
    await tl.inbound.receive(said("needle 11", "m11"))

    assert await found(tl, "needle", session="late") == [11, 10, 9, 8]
    assert await found(tl, "needle", session="new") == [11]
    assert await found(tl, "needle", caller=SessionCaller("new")) == [11]


async def test_who_left_or_is_gated_finds_nothing(tl: Threadline) -> None:
    await tl.inbound.receive(said("needle", "m1"))
    await tl.members.join(ROOM, "gone")
    await tl.members.join(ROOM, "here")
    await tl.members.leave(ROOM, "gone")

    assert await found(tl, "needle", session="gone") == []
    await tl.hydration.begin(ROOM, owner="importer", mode="gated")
    assert await found(tl, "needle", session="here") == []


async def test_imported_records_are_not_found_by_who_reads_since_joining(tl: Threadline) -> None:
    await tl.inbound.receive(said("live needle", "m1"))
    await tl.members.join(ROOM, "since", policy="since_join")
    await tl.members.join(ROOM, "all")
    window = await tl.hydration.begin(ROOM, owner="importer", mode="prepending")
    assert window.token is not None
    await tl.hydration.records(ROOM, window.token, [said("old needle", "m0")])
    await tl.hydration.complete(ROOM, window.token)

    assert sorted(await found(tl, "needle", session="all")) == [0, 1]
    assert await found(tl, "needle", session="since") == []


async def test_a_deleted_message_and_its_edits_leave_the_index_at_once(tl: Threadline) -> None:
    """I6: no index holds the text after a delete."""
    await tl.inbound.receive(said("secret plan", "m1"))
    await tl.inbound.receive(edited("m1", "secret plan, revised", "e1"))
    assert await found(tl, "secret") == [2, 1]

    await tl.inbound.receive(deleted("m1", "d1"))

    page = await tl.search.find("secret")
    assert page.hits == []
    raw = await tl.store.find("secret", None, None, 10)
    assert raw == [], "the index itself forgot the words"


async def test_what_was_swept_is_not_found(tl: Threadline) -> None:
    await tl.inbound.receive_all([said(f"needle {n}", f"m{n}") for n in range(1, 6)])
    await tl.search.catch_up()
    await tl.conversations.change(ROOM, max_retained_entries=2)
    await tl.upkeep.sweep()

    assert await found(tl, "needle") == [5, 4]
    assert len(await tl.store.find("needle", None, None, 10)) == 2


async def test_the_index_trails_behind_the_commits_of_this_process(tl: Threadline) -> None:
    tl.search.start()
    try:
        bell = tl.store.bell(everything=True)
        await tl.inbound.receive(said("needle", "m1"))
        hits: list[int] = []
        while not hits:
            # The index's own commit rings no bell of a conversation, so the answer is asked for.
            await bell.wait(0.01)
            hits = [hit.record.sequence for hit in (await tl.search.find("needle")).hits]
        bell.close()
    finally:
        await tl.search.stop()

    assert hits == [1]


@pytest.mark.parametrize(
    "hostile",
    ['"', "a OR b", "words : x", "needle*", "NEAR(a b)", "c1 AND place", "'; drop table x", "%_"],
)
async def test_a_query_is_words_and_never_syntax(tl: Threadline, hostile: str) -> None:
    await tl.inbound.receive(said("needle", "m1"))

    assert await found(tl, hostile) in ([], [1])


@pytest.mark.parametrize("query", ["", "   ", "x" * 501, "a\x00b"])
async def test_a_query_without_words_is_refused(tl: Threadline, query: str) -> None:
    with pytest.raises(InvalidInput):
        await tl.search.find(query)


async def test_a_made_up_cursor_is_refused(tl: Threadline) -> None:
    with pytest.raises(InvalidInput, match="next"):
        await tl.search.find("needle", after="nonsense")


async def test_an_adapter_does_not_search(tl: Threadline) -> None:
    with pytest.raises(Unauthorized):
        await tl.search.find("needle", caller=AdapterCaller("default", "slack", "T1"))


async def test_an_expired_binding_finds_nothing(tl: Threadline, clock: object) -> None:
    from threadline.testing.clock import StillClock

    assert isinstance(clock, StillClock)
    await tl.inbound.receive(said("needle", "m1"))
    await tl.speakers.bind(ROOM, "a", policy="all", expires_at=clock() + timedelta(minutes=5))
    assert await found(tl, "needle", session="a") == [1]

    clock.move(minutes=6)

    assert await found(tl, "needle", session="a") == []
