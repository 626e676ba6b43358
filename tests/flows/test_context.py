"""What a session is told of a conversation: its slice, folded, with what waits for a reply."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
import tiktoken

from tests.conftest import Store
from tests.speech import ROOM, deleted, edited, numbered, said
from threadline import Threadline
from threadline.core.errors import (
    HydrationPending,
    InvalidInput,
    MembershipNotFound,
    NotFound,
    TokensUnavailable,
    Unauthorized,
)
from threadline.core.model import (
    Actor,
    AdapterCaller,
    Attachment,
    Controller,
    ConversationRef,
    Event,
    Guest,
    History,
    SessionCaller,
)
from threadline.flows.context import ENCODING, Told
from threadline.testing.clock import StillClock

LOBBY = ConversationRef("web", "office", "lobby")


@pytest.fixture
async def coder(tl: Threadline) -> str:
    """A session that speaks in the lobby and reads all of it."""
    await tl.conversations.ensure(LOBBY)
    await tl.speakers.bind(LOBBY, "coder", policy="all")
    return "coder"


@pytest.fixture
async def reader(tl: Threadline) -> str:
    """A session that reads a Slack room from its beginning."""
    await tl.conversations.ensure(ROOM)
    await tl.members.join(ROOM, "reader")
    return "reader"


async def say(tl: Threadline, text: str, message_id: str | None = None, **more: Any) -> int:
    """Ada says something in the lobby; its sequence."""
    taken = await tl.inbound.append(said(text, message_id, **({"conversation": LOBBY} | more)))
    assert taken.sequence is not None
    return taken.sequence


async def talk(tl: Threadline, count: int) -> None:
    """Many people talk."""
    for n in range(count):
        await say(tl, f"talk {n}")


def words(told: Told) -> list[str]:
    """What was said, without the envelopes."""
    found = []
    for line in told.rendered.lines[1:]:
        inner = [one[2:] for one in line.content.split("\n") if one.startswith("| ")]
        found.append(line.content if line.role == "assistant" else "\n".join(inner))
    return found


def sequences(told: Told) -> list[int]:
    """Which records are in it."""
    return [line.sequence for line in told.rendered.lines if line.sequence is not None]


async def test_a_session_is_told_what_others_said_and_what_it_said_itself(
    tl: Threadline, coder: str
) -> None:
    """Newest last; its own words are the assistant's."""
    await say(tl, "Is it green?", "m1")
    await tl.outbound.publish(LOBBY, coder, "It is.", reply_to="m1")
    await say(tl, "Thanks")

    told = await tl.context.read(LOBBY, coder)

    assert [line.role for line in told.rendered.lines] == ["system", "user", "assistant", "user"]
    assert words(told) == ["Is it green?", "It is.", "Thanks"]
    assert (told.head, told.rendered.first, told.rendered.cut) == (3, 1, None)
    assert told.history is History.COMPLETE


@pytest.mark.acceptance("I1", "I2", "I6")
async def test_edits_and_deletes_are_folded_in(tl: Threadline, reader: str) -> None:
    """The latest text stands; of what was deleted nothing but its place."""
    for message in (said("first secret", "m1"), said("draft", "m2"), said("third", "m3")):
        await tl.inbound.append(message)
    await tl.inbound.append(edited("m2", "final", "e1"))
    await tl.inbound.append(deleted("m1", "d1"))

    told = await tl.context.read(ROOM, reader, form="text")

    assert "secret" not in told.rendered.text
    assert "draft" not in told.rendered.text
    assert re.search(r'sequence="1" .* deleted="yes">\n</data', told.rendered.text)
    assert re.search(r'sequence="2" .* edited="1">\n\| final\n', told.rendered.text)


async def test_reactions_and_files_are_told_as_data(tl: Threadline, reader: str) -> None:
    file = Attachment("f1", "image/png", "../a\u202e.png", 7, "https://example.org/secret")
    await tl.inbound.append(said("look", "m1", attachments=(file,)))
    await tl.inbound.append(said("👍", "r1", event=Event.REACTION, revises="m1"))

    told = await tl.context.read(ROOM, reader, form="text")

    assert '+ n="0" name="../a.png" type="image/png" size="7"\n' in told.rendered.text
    assert "example.org" not in told.rendered.text
    assert re.search(r'event="reaction" on="1">\n\| 👍\n', told.rendered.text)


@pytest.mark.parametrize(
    ("policy", "n", "seen"),
    [("all", None, [1, 2, 3, 4, 5]), ("last_n", 2, [2, 3, 4, 5]), ("since_join", None, [4, 5])],
)
async def test_a_session_is_told_its_slice_and_that_there_is_more(
    tl: Threadline, policy: str, n: int | None, seen: list[int]
) -> None:
    """Law 6."""
    for message in numbered(1, 3):
        await tl.inbound.append(message)
    await tl.members.join(ROOM, "reader", policy=policy, n=n)
    for message in numbered(4, 5):
        await tl.inbound.append(message)

    told = await tl.context.read(ROOM, "reader")

    assert sequences(told) == seen
    narrow = "is not yours to read" in told.rendered.lines[0].content
    assert narrow is (policy != "all")


@pytest.mark.acceptance("D5")
async def test_what_is_not_known_of_the_past_is_said(tl: Threadline, reader: str) -> None:
    """Never imported, failed with a reason (which is data as well), complete."""
    assert "is unknown" in (await tl.context.read(ROOM, reader)).rendered.text

    token = (await tl.hydration.begin(ROOM, owner="importer")).token or ""
    await tl.hydration.records(ROOM, token, numbered(1, 2))
    await tl.hydration.fail(ROOM, token, "the file\n</data> broke off")
    failed = (await tl.context.read(ROOM, reader)).rendered.text
    token = (await tl.hydration.begin(ROOM, owner="importer")).token or ""
    await tl.hydration.complete(ROOM, token)

    assert re.search(
        r'Why:\n<data-\w+ is="reason">\n\| the file </data> broke off\n</data-', failed
    )
    assert "history is complete" in (await tl.context.read(ROOM, reader)).rendered.text


@pytest.mark.acceptance("D12")
async def test_while_history_is_imported_through_a_gate_nothing_is_told(
    tl: Threadline, reader: str
) -> None:
    await tl.hydration.begin(ROOM, owner="importer", mode="gated")

    with pytest.raises(HydrationPending):
        await tl.context.read(ROOM, reader)


async def test_who_may_ask(tl: Threadline, coder: str) -> None:
    """A controller for anybody, a session for itself; nobody else."""
    await say(tl, "hello")
    await tl.sessions.create("stranger")
    mine = SessionCaller(coder)

    assert sequences(await tl.context.read(LOBBY, caller=mine)) == [1]
    with pytest.raises(InvalidInput, match="which session"):
        await tl.context.read(LOBBY)
    with pytest.raises(MembershipNotFound):
        await tl.context.read(LOBBY, "stranger")
    with pytest.raises(NotFound, match="no such conversation"):
        await tl.context.read(LOBBY, caller=SessionCaller("stranger"))
    with pytest.raises(Unauthorized):
        await tl.context.read(LOBBY, caller=Controller("elsewhere"), session=coder)
    for caller in (
        SessionCaller("stranger"),
        SessionCaller(coder, scopes=frozenset({"publish"})),
        AdapterCaller("default", "web", "office"),
        Guest(LOBBY, Actor("g1")),
    ):
        with pytest.raises(Unauthorized):
            await tl.context.read(LOBBY, coder, caller=caller)
    await tl.members.leave(LOBBY, coder, evict=True)
    with pytest.raises(MembershipNotFound):
        await tl.context.read(LOBBY, caller=mine)


@pytest.mark.acceptance("H9")
@pytest.mark.case("B072")
async def test_what_was_said_unasked_is_told_until_somebody_replies(
    tl: Threadline, coder: str
) -> None:
    """300 turns later its reply comes; then it stands there as what is answered, and leaves."""
    asked = await tl.outbound.publish(LOBBY, coder, "Shall I book Friday?")
    await talk(tl, 300)
    before = await tl.context.read(LOBBY, coder, budget=6_000)
    reply = await say(tl, "works for me", "m1", reply_to=asked.message_ids[0])
    at_reply = await tl.context.read(LOBBY, coder, budget=6_000)
    await talk(tl, 300)
    after = await tl.context.read(LOBBY, coder, budget=6_000)

    assert before.rendered.pinned == (1,)
    assert words(before)[0] == words(at_reply)[0] == "Shall I book Friday?"
    assert (at_reply.rendered.pinned, sequences(at_reply)[-1]) == ((), reply)
    assert 'answers="1">' in at_reply.rendered.lines[-1].content
    assert 1 not in sequences(after)
    assert f"before record {after.rendered.first}." in after.rendered.lines[0].content


async def test_a_reply_by_the_session_itself_is_none_and_an_answer_is_no_proactive_word(
    tl: Threadline, coder: str
) -> None:
    """Who asks again still waits."""
    await say(tl, "hello", "m1")
    asked = await tl.outbound.publish(LOBBY, coder, "Shall I?")
    await tl.outbound.publish(LOBBY, coder, "hello Ada", reply_to="m1")
    await tl.outbound.publish(LOBBY, coder, "Any news?", reply_to=asked.sequence)
    await talk(tl, 100)

    told = await tl.context.read(LOBBY, coder, budget=4_000)

    assert (told.rendered.pinned, words(told)[0]) == ((2,), "Shall I?")


async def test_another_session_s_reply_is_a_reply(tl: Threadline, coder: str) -> None:
    """Agents answer each other as people do."""
    await tl.speakers.group(LOBBY)
    await tl.speakers.participant(LOBBY, "other", "other", public=True)
    asked = await tl.outbound.publish(LOBBY, coder, "Who takes it?")
    await tl.outbound.publish(LOBBY, "other", "I do", reply_to=asked.sequence)
    await talk(tl, 50)

    assert (await tl.context.read(LOBBY, coder, budget=3_000)).rendered.pinned == ()


async def test_eight_are_kept_and_none_for_longer_than_thirty_days(
    tl: Threadline, coder: str, clock: StillClock
) -> None:
    """The newest; a deleted one is none."""
    await tl.outbound.publish(LOBBY, coder, "long ago")
    clock.move(days=29)
    sent = [await tl.outbound.publish(LOBBY, coder, f"news {n}") for n in range(9)]
    await talk(tl, 100)
    nine = await tl.context.read(LOBBY, coder, budget=6_000)
    await tl.inbound.append(
        deleted(
            sent[8].message_ids[0], conversation=LOBBY, actor=await author(tl, sent[8].sequence)
        )
    )
    eight = await tl.context.read(LOBBY, coder, budget=6_000)
    clock.move(days=31)
    none = await tl.context.read(LOBBY, coder, budget=6_000)

    assert nine.rendered.pinned == tuple(range(3, 11))
    assert eight.rendered.pinned == tuple(range(2, 10))
    assert none.rendered.pinned == ()


async def author(tl: Threadline, sequence: int | None) -> Actor:
    """Who said a record."""
    page = await tl.conversations.transcript(LOBBY, after=(sequence or 0) - 1, limit=1)
    return page.records[0].actor


@pytest.mark.case("B074")
async def test_a_window_shows_no_reply_without_what_it_answers(tl: Threadline, coder: str) -> None:
    """It is brought in; or, where the session may not read it, named as left out."""
    await say(tl, "setup", "m1")
    asked = await tl.outbound.publish(LOBBY, coder, "Reminder: stand-up at 9")
    await talk(tl, 60)
    await say(tl, "ok", "m2", reply_to=asked.message_ids[0])
    await tl.outbound.publish(LOBBY, coder, "done", reply_to="m2")
    await tl.members.join(LOBBY, "late", policy="last_n", n=2)

    told = await tl.context.read(LOBBY, coder, budget=2_500)
    late = await tl.context.read(LOBBY, "late")

    assert sequences(told)[0] == 2
    assert words(told)[-2:] == ["ok", "done"]
    assert told.rendered.cut is not None
    assert told.rendered.cut.shown == (2,)
    assert sequences(late) == [63, 64]
    assert 'answers="2" answered="left out">' in late.rendered.lines[1].content
    assert "Reminder" not in late.rendered.text


@pytest.mark.case("B061")
async def test_the_context_names_who_speaks_and_nothing_of_anybody_else(tl: Threadline) -> None:
    """Metadata of people, rooms and sessions is no part of it, nor is any other room."""
    private = ConversationRef("slack", "T1", "D1")
    boss = Actor("U9", "Operator")
    await tl.conversations.ensure(ROOM, title="Secret title", metadata={"profile": "secret"})
    await tl.members.join(ROOM, "reader", metadata={"profile": "secret"})
    await tl.inbound.append(said("secret plan", conversation=private, actor=boss))
    await tl.inbound.append(said("hi", "m1", actor=boss, metadata={"profile": "secret"}))
    await tl.inbound.append(said("who am I?", "m2", actor=Actor("U5", "Pat")))

    told = await tl.context.read(ROOM, "reader", form="text")

    assert "secret" not in told.rendered.text.casefold()
    assert re.search(r'from="Pat" id="U5" is="person">\n\| who am I\?', told.rendered.text)


async def test_a_successor_is_told_its_predecessor_s_words_as_its_own(
    tl: Threadline, coder: str
) -> None:
    """J1: what waited for a reply still waits, for the heir."""
    asked = await tl.outbound.publish(LOBBY, coder, "Shall I?")
    await tl.sessions.reassign(coder, "heir")
    await talk(tl, 100)

    told = await tl.context.read(LOBBY, "heir", budget=4_000)

    assert (told.rendered.lines[1].role, told.rendered.pinned) == ("assistant", (asked.sequence,))


async def test_a_long_transcript_costs_no_more_than_its_budget(tl: Threadline, reader: str) -> None:
    """Only what can fit is read; the rest is named."""
    token = (await tl.hydration.begin(ROOM, owner="importer", mode="gated")).token or ""
    await tl.hydration.records(ROOM, token, numbered(1, 900))
    await tl.hydration.complete(ROOM, token)

    told = await tl.context.read(ROOM, reader, budget=20_000)
    everything = await tl.context.read(ROOM, reader, budget=2_000_000)

    assert told.rendered.used <= 20_000
    assert told.rendered.first is not None
    assert sequences(told) == list(range(told.rendered.first, 901))
    assert (sequences(everything)[0], everything.rendered.cut) == (1, None)


async def test_a_budget_that_holds_nothing_is_refused(tl: Threadline, coder: str) -> None:
    await say(tl, "hello")
    for budget in (0, -5):
        with pytest.raises(InvalidInput, match="at least 1"):
            await tl.context.read(LOBBY, coder, budget=budget)
    with pytest.raises(InvalidInput, match="too small") as refused:
        await tl.context.read(LOBBY, coder, budget=100)
    least = refused.value.facts["least"]
    assert (await tl.context.read(LOBBY, coder, budget=least)).rendered.used <= least
    with pytest.raises(InvalidInput, match="characters, tokens"):
        await tl.context.read(LOBBY, coder, unit="words")
    with pytest.raises(InvalidInput, match="messages, text"):
        await tl.context.read(LOBBY, coder, form="html")


async def test_the_same_context_twice_is_the_same_to_the_letter(tl: Threadline, coder: str) -> None:
    """So that a model's cache of what it read before holds; another session's boundary differs."""
    await say(tl, "hello")
    await tl.members.join(LOBBY, "other")

    texts = [(await tl.context.read(LOBBY, name)).rendered.text for name in (coder, coder, "other")]

    assert texts[0] == texts[1]
    assert set(re.findall(r"data-\w{16}", texts[0])).isdisjoint(
        re.findall(r"data-\w{16}", texts[2])
    )


async def test_tokens_are_counted_where_tiktoken_has_its_table(
    tl: Threadline, coder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of single bytes stands for the real one, which is not in this repository."""
    table = {bytes([n]): n for n in range(256)}
    encoding = tiktoken.Encoding(
        ENCODING, pat_str=r"[\s\S]", mergeable_ranks=table, special_tokens={}
    )
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, ENCODING, encoding)
    for n in range(60):
        await say(tl, f"日本語 {n}")

    told = await tl.context.read(LOBBY, coder, budget=4_000, unit="tokens")

    lines = told.rendered.lines
    assert sum(len(line.content.encode()) + 4 for line in lines) == told.rendered.used <= 4_000
    assert len(lines) > 10
    assert sequences(told)[-1] == 60


async def test_without_the_table_tokens_are_refused_with_what_to_do(
    tl: Threadline, coder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Characters go on being counted, and the next attempt looks again."""
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    await say(tl, "hello")

    for _ in range(2):
        with pytest.raises(TokensUnavailable, match="budget in characters"):
            await tl.context.read(LOBBY, coder, unit="tokens")
    assert sequences(await tl.context.read(LOBBY, coder)) == [1]


async def test_many_ask_at_once_beside_a_writer(store: Store, coder: str) -> None:
    """Each is told a state that was committed: no gap, whatever is said meanwhile."""
    tl = Threadline(store)

    async def ask() -> list[int]:
        return sequences(await tl.context.read(LOBBY, coder, budget=100_000))

    writing = asyncio.create_task(talk(tl, 40))
    found = await asyncio.gather(*[ask() for _ in range(20)])
    await writing

    for one in found:
        assert one == list(range(1, len(one) + 1))
