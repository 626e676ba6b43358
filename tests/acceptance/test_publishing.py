"""What sessions say: one record with proof, never twice, only by right, and traceable."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.conftest import OpenStore, Store
from tests.speech import ADA, said, transcript, unread
from threadline import Threadline
from threadline.core.deliveries import DeliveryState, Failure
from threadline.core.errors import (
    BindingMismatch,
    HydrationPending,
    IdempotencyConflict,
    InvalidInput,
    MembershipNotFound,
    NoAdapter,
    NotFound,
    SessionRetired,
    Unauthorized,
)
from threadline.core.model import (
    AdapterCaller,
    Attachment,
    ConversationRef,
    Direction,
    Event,
    FanOut,
    Guest,
    Kind,
    SessionCaller,
    TranscriptRecord,
)
from threadline.core.recording import Taken
from threadline.testing.clock import StillClock

LOBBY = ConversationRef("web", "office", "lobby")
GARDEN = ConversationRef("web", "office", "garden")
THREAD = ConversationRef("web", "office", "m1", "lobby", kind=Kind.THREAD)
MAY = frozenset({"read", "publish", "send"})


@pytest.fixture
async def tl(store: Store) -> Threadline:
    """A lobby bound to `agent`, which `reader` reads as well, and an empty garden."""
    return await furnished(Threadline(store))


async def furnished(line: Threadline) -> Threadline:
    """Lobby and garden in a store."""
    await line.conversations.ensure(LOBBY)
    await line.conversations.ensure(GARDEN)
    await line.speakers.bind(LOBBY, "agent")
    await line.members.join(LOBBY, "reader", policy="all")
    return line


async def records(line: Threadline, where: Any = LOBBY) -> list[TranscriptRecord]:
    """All records of a short transcript."""
    return (await line.conversations.transcript(where, limit=500)).records


async def hears(
    line: Threadline, text: str, message_id: str, where: Any = LOBBY, **how: Any
) -> int:
    """Ada says something in a room of ours; the sequence."""
    taken = await line.inbound.receive(said(text, message_id, conversation=where, **how))
    assert taken.sequence is not None
    return taken.sequence


@pytest.mark.acceptance("G1")
async def test_what_is_published_is_one_record_that_peers_see_and_the_sender_does_not(
    tl: Threadline,
) -> None:
    """G1: actor, answered record and source are kept; delivery and record name each other."""
    question = await hears(tl, "When do we open?", "q1")

    sent = await tl.outbound.publish(LOBBY, "agent", "At nine.", reply_to=question)

    [asked, answer] = await records(tl)
    assert (answer.sequence, answer.direction, answer.text) == (2, Direction.OUTBOUND, "At nine.")
    assert (answer.actor.name, answer.actor.is_bot, answer.actor.is_self) == ("agent", True, True)
    assert (answer.source_session_id, answer.reply_to) == ("agent", asked.message_id)
    assert (sent.state, sent.sequence, sent.reply_to) == (DeliveryState.DELIVERED, 2, 1)
    assert sent.message_ids == (answer.message_id,)
    assert (sent.failure, sent.reason, sent.attempts, sent.repeated) == (None, "", 1, False)
    assert await unread(tl, "reader", LOBBY) == [1, 2]
    assert await unread(tl, "agent", LOBBY) == [1]
    assert await tl.deliveries.show(sent.id) == sent


@pytest.mark.acceptance("G1", "F9")
async def test_a_reply_of_a_person_to_a_sessions_message_wakes_that_session(
    tl: Threadline,
) -> None:
    """F9: also where another participant was addressed last."""
    await tl.speakers.unbind(LOBBY)
    for handle in ("a", "b"):
        await tl.speakers.participant(LOBBY, handle, f"session-{handle}", public=True)
    sent = await tl.outbound.publish(LOBBY, "session-a", "I am here.")
    await hears(tl, "@b hello", "m1")

    taken = await tl.inbound.receive(
        said("And you?", "m2", conversation=LOBBY, reply_to=sent.message_ids[0])
    )

    assert (taken.target_session_id, taken.route) == ("session-a", "reply")
    assert taken.record is not None
    assert len(taken.record.wakes) == 1


@pytest.mark.acceptance("G2")
async def test_what_is_refused_leaves_no_record_and_says_why(tl: Threadline) -> None:
    """G2: the class, the reason and the attempts are in the delivery."""
    sent = await tl.outbound.publish(LOBBY, "agent", "x" * 100_001, key="long")

    assert (sent.state, sent.failure, sent.attempts) == (
        DeliveryState.FAILED,
        Failure.PERMANENT,
        1,
    )
    assert "100001 characters" in sent.reason
    assert (sent.sequence, sent.message_ids) == (None, ())
    assert await records(tl) == []
    again = await tl.outbound.publish(LOBBY, "agent", "x" * 100_001, key="long")
    assert (again.id, again.state, again.repeated) == (sent.id, DeliveryState.FAILED, True)


@pytest.mark.acceptance("G2")
async def test_a_place_that_nobody_speaks_for_is_refused_before_anything_is_written(
    tl: Threadline,
) -> None:
    """G2: an intent that nobody could carry out is none."""
    slack = ConversationRef("slack", "T1", "C1")
    await tl.conversations.ensure(slack)
    await tl.speakers.bind(slack, "agent")

    with pytest.raises(NoAdapter, match="slack/T1"):
        await tl.outbound.publish(slack, "agent", "Hello", key="k")

    assert (await tl.deliveries.page()).deliveries == []
    assert await records(tl, slack) == []
    # Nothing was written, so the key is still free.
    assert not (await tl.outbound.publish(LOBBY, "agent", "Hello", key="k")).repeated


@pytest.mark.acceptance("G3")
async def test_a_key_is_said_once_however_often_it_is_asked(tl: Threadline) -> None:
    """G3: in a row and at once; one record and one delivery."""
    first = await tl.outbound.publish(LOBBY, "agent", "Once.", key="k1")

    several = await asyncio.gather(
        *(tl.outbound.publish(LOBBY, "agent", "Once.", key="k1") for _ in range(8))
    )
    many = await asyncio.gather(
        *(tl.outbound.publish(LOBBY, "agent", "Twice?", key="k2") for _ in range(8))
    )

    assert {one.id for one in several} == {first.id}
    assert all(one.repeated for one in several)
    assert len({one.id for one in many}) == 1
    assert sorted(one.repeated for one in many) == [False] + [True] * 7
    assert await transcript(tl, LOBBY) == [(1, "Once."), (2, "Twice?")]
    assert len((await tl.deliveries.page(where=LOBBY)).deliveries) == 2


@pytest.mark.acceptance("G3")
async def test_two_processes_with_one_key_say_it_once(open_store: OpenStore) -> None:
    """G3: on one PostgreSQL, at the same time."""
    lines = [Threadline(node) for node in await open_store(2)]
    await furnished(lines[0])

    for round_ in range(5):
        sent = await asyncio.gather(
            *(
                line.outbound.publish(LOBBY, "agent", f"Round {round_}", key=f"k{round_}")
                for line in lines * 3
            )
        )
        assert len({one.id for one in sent}) == 1

    assert await transcript(lines[1], LOBBY) == [(n + 1, f"Round {n}") for n in range(5)]


@pytest.mark.acceptance("G3")
@pytest.mark.parametrize(
    "other",
    [
        {"text": "Else."},
        {"where": GARDEN},
        {"reply_to": 1},
        {"attachments": [Attachment(name="a.txt")]},
        {"metadata": {"mood": "calm"}},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_a_key_that_stands_for_something_else_is_refused(
    tl: Threadline, other: dict[str, Any]
) -> None:
    """G3: other words, another place, another record: nothing is said."""
    await hears(tl, "Well?", "q1")
    await tl.speakers.bind(GARDEN, "agent")
    asked: dict[str, Any] = {"where": LOBBY, "session": "agent", "text": "Once.", "key": "k"}
    await tl.outbound.publish(**asked)

    with pytest.raises(IdempotencyConflict):
        await tl.outbound.publish(**(asked | other))

    assert await transcript(tl, LOBBY) == [(1, "Well?"), (2, "Once.")]
    assert await transcript(tl, GARDEN) == []


@pytest.mark.acceptance("G3")
async def test_a_key_is_a_sessions_own_and_is_kept_for_thirty_days(
    tl: Threadline, clock: StillClock
) -> None:
    """G3: two sessions may use the same key; after a month it stands for nothing any more."""
    await tl.speakers.participant(GARDEN, "a", "agent", public=True)
    await tl.speakers.participant(GARDEN, "r", "reader", public=True)
    one = await tl.outbound.publish(GARDEN, "agent", "Mine.", key="k")
    two = await tl.outbound.publish(GARDEN, "reader", "Mine.", key="k")
    assert one.id != two.id

    clock.move(days=29)
    assert (await tl.upkeep.round()).keys == 0
    assert (await tl.outbound.publish(GARDEN, "agent", "Mine.", key="k")).id == one.id
    clock.move(days=2)
    assert (await tl.upkeep.round()).keys == 2
    assert (await tl.outbound.publish(GARDEN, "agent", "Mine.", key="k")).id != one.id


@pytest.mark.acceptance("G4")
async def test_a_public_participant_speaks_and_a_mere_member_does_not(tl: Threadline) -> None:
    """G4: membership is reading; a refusal writes nothing."""
    await tl.speakers.participant(GARDEN, "p", "public", public=True)
    await tl.speakers.participant(GARDEN, "q", "quiet")
    await tl.members.join(GARDEN, "reader", policy="all")

    sent = await tl.outbound.publish(GARDEN, "public", "Good morning.")
    for session in ("quiet", "reader"):
        with pytest.raises(Unauthorized, match="does not speak"):
            await tl.outbound.publish(GARDEN, session, "Me too.", key="k")

    assert sent.state is DeliveryState.DELIVERED
    assert await transcript(tl, GARDEN) == [(1, "Good morning.")]
    assert len((await tl.deliveries.page()).deliveries) == 1


@pytest.mark.acceptance("G4")
async def test_who_left_or_was_removed_says_nothing(tl: Threadline) -> None:
    """G4: leaving takes the binding with it, and a session that never was there learns nothing."""
    caller = SessionCaller("agent", scopes=MAY)
    stranger = SessionCaller("stranger", scopes=MAY)
    await tl.sessions.create("stranger")
    await tl.members.leave(LOBBY, "agent", evict=True)

    with pytest.raises(MembershipNotFound):
        await tl.outbound.publish(LOBBY, "agent", "Still here?", caller=caller)
    with pytest.raises(NotFound, match="no such conversation"):
        await tl.outbound.publish(LOBBY, "stranger", "Is it there?", caller=stranger)

    assert await records(tl) == []


@pytest.mark.acceptance("G4")
@pytest.mark.parametrize(
    "caller",
    [
        SessionCaller("agent"),
        SessionCaller("reader", scopes=MAY),
        AdapterCaller("default", "web", "office"),
        Guest(LOBBY, ADA),
    ],
    ids=["without scope", "another session", "adapter", "guest"],
)
async def test_a_token_speaks_for_its_own_session_and_only_with_the_scope(
    tl: Threadline, caller: Any
) -> None:
    """G4: judged by the token alone."""
    with pytest.raises(Unauthorized):
        await tl.outbound.publish(LOBBY, "agent", "Hello", caller=caller)

    assert await records(tl) == []


@pytest.mark.acceptance("G4")
async def test_the_right_of_a_room_holds_in_its_threads(tl: Threadline) -> None:
    """G4: the bound session may open a thread that nobody wrote in yet; a reader may not."""
    await hears(tl, "Let us plan.", "m1")
    await tl.conversations.ensure(THREAD)

    with pytest.raises((Unauthorized, MembershipNotFound)):
        await tl.outbound.publish(THREAD, "reader", "I plan.")
    sent = await tl.outbound.publish(THREAD, "agent", "Here is a plan.")

    assert sent.state is DeliveryState.DELIVERED
    assert await transcript(tl, THREAD) == [(1, "Here is a plan.")]
    assert (await tl.members.show(THREAD, "agent")).active


@pytest.mark.acceptance("G10")
async def test_a_reply_stands_where_the_record_it_answers_stands(tl: Threadline) -> None:
    """G10: whatever the session was asked since, and wherever."""
    await tl.speakers.bind(GARDEN, "agent")
    first = await hears(tl, "In the lobby", "l1")
    await hears(tl, "In the garden", "g1", GARDEN)

    await tl.outbound.publish(LOBBY, "agent", "Answer", reply_to=first)

    assert [record.reply_to for record in await records(tl)] == [None, "l1"]
    assert await transcript(tl, GARDEN) == [(1, "In the garden")]


@pytest.mark.acceptance("G10")
@pytest.mark.parametrize("given", [9, "nothing", 1, "m1"], ids=str)
async def test_nobody_answers_what_it_cannot_read(tl: Threadline, given: int | str) -> None:
    """G10, law 5: a record before a newcomer's time is not there for it."""
    await hears(tl, "Before", "m1", GARDEN)
    await tl.speakers.bind(GARDEN, "late")

    with pytest.raises(NotFound, match="no record"):
        await tl.outbound.publish(GARDEN, "late", "About that", reply_to=given)

    assert await transcript(tl, GARDEN) == [(1, "Before")]


@pytest.mark.acceptance("E4")
async def test_unbinding_closes_the_delivery_context(tl: Threadline) -> None:
    """E4: by conversation and by session; what was said stays said."""
    await tl.speakers.bind(GARDEN, "agent")
    for where in (LOBBY, GARDEN):
        await tl.outbound.publish(where, "agent", "Here")
    context = await tl.deliveries.context(LOBBY, "agent")
    assert context is not None
    assert (context.generation, context.sequence, context.session_id) == (1, 1, "agent")

    ended = await tl.speakers.unbind(LOBBY)
    assert ended is not None
    assert (ended.session_id, ended.generation) == ("agent", 1)
    assert await tl.deliveries.context(LOBBY, "agent") is None
    assert await tl.deliveries.context(GARDEN, "agent") is not None
    assert [one.ref for one in await tl.speakers.unbind_session("agent")] == [GARDEN]
    assert await tl.deliveries.context(GARDEN, "agent") is None
    assert await transcript(tl, LOBBY) == [(1, "Here")]


@pytest.mark.acceptance("E5")
async def test_the_context_of_an_old_generation_does_not_come_back(tl: Threadline) -> None:
    """E5: bound again is another right, and there is no context until it was used."""
    await tl.outbound.publish(LOBBY, "agent", "First")
    await tl.speakers.unbind(LOBBY)
    await tl.speakers.bind(LOBBY, "agent")
    assert await tl.deliveries.context(LOBBY, "agent") is None

    await tl.outbound.publish(LOBBY, "agent", "Second", generation=2)

    context = await tl.deliveries.context(LOBBY, "agent")
    assert context is not None
    assert (context.generation, context.sequence) == (2, 2)


@pytest.mark.acceptance("E5")
@pytest.mark.parametrize("stated", [0, 1, 3])
async def test_words_made_under_another_generation_are_not_said(
    tl: Threadline, stated: int
) -> None:
    """E5: the refusal names the current one; nothing is written and the key stays free."""
    await tl.speakers.unbind(LOBBY)
    await tl.speakers.bind(LOBBY, "agent")

    with pytest.raises(BindingMismatch) as refused:
        await tl.outbound.publish(LOBBY, "agent", "Stale", generation=stated, key="k")

    assert refused.value.facts["generation"] == 2
    assert await records(tl) == []
    assert (await tl.deliveries.page()).deliveries == []
    assert not (await tl.outbound.publish(LOBBY, "agent", "Fresh", key="k")).repeated


@pytest.mark.acceptance("E5")
async def test_a_binding_that_ran_out_gives_no_right(tl: Threadline, clock: StillClock) -> None:
    """E5: judged at the intent, whatever a sweep has done."""
    end = clock.at.replace(microsecond=0)
    clock.move(minutes=-5)
    await tl.speakers.bind(LOBBY, "agent", expires_at=end)
    await tl.members.join(LOBBY, "agent", policy="all")
    clock.move(minutes=10)

    with pytest.raises(Unauthorized):
        await tl.outbound.publish(LOBBY, "agent", "Too late")


@pytest.mark.acceptance("D3")
async def test_what_is_published_while_history_is_imported_is_recorded_after_it(
    tl: Threadline,
) -> None:
    """D3: delivered at once, held, and its record follows the history with its source."""
    window = await tl.hydration.begin(LOBBY, owner="importer", mode="gated")
    assert window.token is not None
    sent = await tl.outbound.publish(LOBBY, "agent", "Meanwhile", key="k")
    again = await tl.outbound.publish(LOBBY, "agent", "Meanwhile", key="k")
    assert (sent.state, sent.sequence) == (DeliveryState.DELIVERED, None)
    assert (again.id, again.repeated) == (sent.id, True)
    with pytest.raises(HydrationPending):
        await unread(tl, "reader", LOBBY)

    await tl.hydration.records(LOBBY, window.token, [said("Long ago", "h1", conversation=LOBBY)])
    await tl.hydration.complete(LOBBY, window.token)

    assert await transcript(tl, LOBBY) == [(1, "Long ago"), (2, "Meanwhile")]
    assert (await records(tl))[1].source_session_id == "agent"
    assert (await tl.deliveries.show(sent.id)).sequence == 2


async def woken_until_quiet(line: Threadline, where: ConversationRef, first: Taken) -> int:
    """Let whoever is woken answer and name the next of ten; how many answered."""
    answers, record = 0, first.record
    names = {one.id: one.session_id for one in (await line.sessions.page())[0]}
    while record is not None and record.wakes:
        assert answers < 100, "the exchange does not end"
        [session] = [names[one] for one in record.wakes]
        following = (int(session[-1]) + 1) % 10
        sent = await line.outbound.publish(
            where, session, f"@h{following} what do you say?", reply_to=record.sequence
        )
        page = await line.conversations.transcript(where, after=(sent.sequence or 0) - 1, limit=1)
        answers, record = answers + 1, page.records[0]
    return answers


@pytest.mark.acceptance("F8")
async def test_ten_agents_that_answer_each_other_stop_at_the_bound(
    tl: Threadline, store: Store
) -> None:
    """F8: the last record is the notice, a person starts it anew, a restart forgets nothing."""
    room = ConversationRef("web", "office", "party")
    await tl.conversations.ensure(room)
    for number in range(10):
        await tl.speakers.participant(room, f"h{number}", f"bot-{number}", public=True)
    fan = FanOut(enabled=True, max_peer_triggered_publishes=50)
    await tl.speakers.group(room, default_handle="h0", fan_out=fan)
    first = await tl.inbound.receive(said("Begin!", "m1", conversation=room))

    answers = await woken_until_quiet(tl, room, first)

    events = [one.event for one in await records(tl, room)]
    assert events == [Event.MESSAGE] * (answers + 1) + [Event.NOTICE]
    assert answers == 9
    assert "nobody was woken" in (await records(tl, room))[-1].text
    restarted = Threadline(store)
    chained = await restarted.outbound.publish(
        room, "bot-3", "@h4 and you?", reply_to=len(events) - 1
    )
    for answered in [None, len(events)] * 8:
        await restarted.outbound.publish(room, "bot-3", "@h4 and you?", reply_to=answered)
    later = (await records(restarted, room))[(chained.sequence or 0) - 1 :]
    # What answers nobody's words has a budget of its own, and an end as well.
    assert [len(one.wakes) for one in later if one.event is Event.MESSAGE] == [0] + [1] * 8 + [
        0
    ] * 8
    assert [one.event for one in later].count(Event.NOTICE) == 1
    again = await restarted.inbound.receive(said("Once more", "m2", conversation=room))
    assert await woken_until_quiet(restarted, room, again) == 9


@pytest.mark.acceptance("F8")
async def test_a_published_record_wakes_no_peer_unless_the_group_allows_it(
    tl: Threadline,
) -> None:
    """F8: everybody reads it through the cursor; fan-out is off until it is asked for."""
    for handle in ("a", "b"):
        await tl.speakers.participant(GARDEN, handle, f"session-{handle}", public=True)

    off = await tl.outbound.publish(GARDEN, "session-a", "@b are you there?")
    await tl.speakers.group(GARDEN, fan_out=FanOut(enabled=True))
    untargeted = await tl.outbound.publish(GARDEN, "session-a", "Anybody?")
    named = await tl.outbound.publish(GARDEN, "session-a", "@b are you there?")

    wakes = {one.sequence: one.wakes for one in await records(tl, GARDEN)}
    assert wakes[off.sequence or 0] == ()
    assert wakes[untargeted.sequence or 0] == ()
    assert wakes[named.sequence or 0] == ((await tl.sessions.show("session-b")).id,)
    assert await unread(tl, "session-b", GARDEN) == [1, 2, 3]


@pytest.mark.acceptance("F8")
async def test_two_sessions_that_talk_to_each_other_stop_at_the_bound(tl: Threadline) -> None:
    """F8: between sessions there is no person, so the hour counts."""
    sent = await tl.outbound.tell("agent", "reader", "Hello")
    here = sent.conversation
    turn, count = ["reader", "agent"], 1
    while (await records(tl, here))[-1].wakes:
        assert count < 50
        head = (await tl.conversations.show(here)).head
        sent = await tl.outbound.tell(turn[0], turn[1], "Hello", reply_to=head)
        turn.reverse()
        count += 1

    assert (await records(tl, here))[-1].event is Event.NOTICE
    assert count == 9


@pytest.mark.acceptance("J4")
async def test_a_chain_over_two_agents_is_traceable_record_by_record(tl: Threadline) -> None:
    """J4: heard on one provider, told from agent to agent, said in another room."""
    discord = ConversationRef("discord", "G1", "C1")
    await tl.conversations.ensure(discord)
    await tl.speakers.bind(discord, "a")
    await tl.speakers.bind(GARDEN, "b")
    heard = await tl.inbound.receive(said("Server down?", "d1", conversation=discord))
    here = (await tl.conversations.show(discord)).id

    told = await tl.outbound.tell("a", "b", "Please tell them", about=(here, heard.sequence or 0))
    final = await tl.outbound.publish(
        GARDEN, "b", "It is down", about=(told.conversation, told.sequence or 0)
    )

    [first] = await records(tl, told.conversation)
    [last] = await records(tl, GARDEN)
    assert first.origin is not None
    assert last.origin is not None
    assert (first.origin.conversation, first.origin.sequence) == (here, heard.sequence)
    assert (last.origin.conversation, last.origin.sequence) == (told.conversation, told.sequence)
    assert {first.origin.root, last.origin.root, final.origin.root if final.origin else ""} == {
        f"{here}:{heard.sequence}"
    }
    assert (first.origin.hops, last.origin.hops) == (1, 2)
    assert first.wakes == ((await tl.sessions.show("b")).id,)


@pytest.mark.acceptance("J4")
async def test_two_sessions_have_one_conversation_whoever_begins(tl: Threadline) -> None:
    """J4: both are members, each reads the other's words and not its own."""
    one, two = await asyncio.gather(
        tl.outbound.tell("agent", "reader", "You first"),
        tl.outbound.tell("reader", "agent", "No, you"),
    )

    assert one.conversation == two.conversation
    assert len(await unread(tl, "agent", one.conversation)) == 1
    assert len(await unread(tl, "reader", one.conversation)) == 1
    with pytest.raises(InvalidInput):
        await tl.outbound.tell("agent", "agent", "Hm")
    with pytest.raises(Unauthorized):
        await tl.outbound.tell(
            "agent", "reader", "Hm", caller=SessionCaller("agent", scopes=frozenset({"publish"}))
        )


@pytest.mark.acceptance("J1")
async def test_keys_deliveries_and_contexts_are_the_successors(tl: Threadline) -> None:
    """J1: what was said under the old name is not said again under the new one."""
    before = await tl.outbound.publish(LOBBY, "agent", "Once", key="k")
    await tl.sessions.reassign("agent", "heir")

    again = await tl.outbound.publish(LOBBY, "heir", "Once", key="k")
    later = await tl.outbound.publish(LOBBY, "heir", "More")

    assert (again.id, again.repeated) == (before.id, True)
    page = await tl.deliveries.page(session="heir")
    assert [one.id for one in page.deliveries] == [later.id, before.id]
    context = await tl.deliveries.context(LOBBY, "heir")
    assert context is not None
    assert context.delivery == later.id
    assert await transcript(tl, LOBBY) == [(1, "Once"), (2, "More")]


@pytest.mark.acceptance("J2")
async def test_a_retired_session_says_nothing_more(tl: Threadline) -> None:
    """J2: neither under its key nor under its name."""
    await tl.outbound.publish(LOBBY, "agent", "Bye")
    await tl.sessions.retire("agent")

    with pytest.raises(SessionRetired):
        await tl.outbound.publish(LOBBY, "agent", "Hello again")

    assert await transcript(tl, LOBBY) == [(1, "Bye")]


async def test_deliveries_are_paged_newest_first_and_each_session_sees_its_own(
    tl: Threadline, clock: StillClock
) -> None:
    """Cursors reach every delivery once; what is another's does not exist."""
    await tl.speakers.participant(GARDEN, "a", "agent", public=True)
    await tl.speakers.participant(GARDEN, "r", "reader", public=True)
    made: list[str] = []
    for number in range(7):
        clock.move(seconds=number % 2)
        speaker = "reader" if number % 3 == 0 else "agent"
        made.append((await tl.outbound.publish(GARDEN, speaker, f"{number}")).id)

    async def every(**how: Any) -> list[str]:
        found: list[str] = []
        after: str | None = None
        while True:
            page = await tl.deliveries.page(limit=2, after=after, **how)
            found += [one.id for one in page.deliveries]
            if page.next is None:
                return found
            after = page.next

    mine = SessionCaller("reader", scopes=MAY)
    own = [one for n, one in enumerate(made) if n % 3 == 0]
    assert sorted(await every()) == sorted(await every(where=GARDEN)) == sorted(made)
    assert sorted(await every(caller=mine)) == sorted(own)
    assert sorted(await every(where=GARDEN, caller=mine)) == sorted(own)
    assert (await tl.deliveries.show(own[0], caller=mine)).session_id == "reader"
    for nothing in (made[1], "x", f"{made[1]}x"):
        with pytest.raises(NotFound):
            await tl.deliveries.show(nothing, caller=mine)
    with pytest.raises(Unauthorized):
        await tl.deliveries.page(session="agent", caller=mine)
    with pytest.raises(InvalidInput, match="cursor"):
        await tl.deliveries.page(after="yesterday")


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_a_message_that_says_nothing_is_refused(tl: Threadline, text: str) -> None:
    """Unless something is attached."""
    with pytest.raises(InvalidInput, match="empty"):
        await tl.outbound.publish(LOBBY, "agent", text)

    sent = await tl.outbound.publish(LOBBY, "agent", text, attachments=[Attachment(name="a.txt")])
    assert [one.attachments[0].name for one in await records(tl)] == ["a.txt"]
    assert sent.sequence == 1
