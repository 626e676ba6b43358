"""Speakers: who answers in public, chosen once at the commit, and never who reads."""

from __future__ import annotations

import asyncio
import unicodedata
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.speech import ADA, ROOM, followed, handed, said, spoken, transcript, unread
from threadline import Threadline
from threadline.core.errors import HandleConflict, InvalidInput, MembershipNotFound, NotFound
from threadline.core.model import (
    Actor,
    BackfillPolicy,
    ConversationRef,
    Direction,
    Event,
    FanOut,
    GroupMode,
    InboundMessage,
    Kind,
    Participant,
)
from threadline.core.recording import Taken
from threadline.core.rules import speaking
from threadline.flows.inbound import Append
from threadline.testing.clock import StillClock

BOT = Actor("B9", "Robot", is_bot=True)
DM = ConversationRef("slack", "T1", "D1", kind=Kind.DM)
THREAD = ConversationRef("slack", "T1", "m1", "C1", kind=Kind.THREAD)


@pytest.fixture
async def group(tl: Threadline) -> Threadline:
    """The room with the participants a (default), b and c."""
    await tl.conversations.ensure(ROOM)
    for handle in ("a", "b", "c"):
        await tl.speakers.participant(ROOM, handle, f"session-{handle}")
    await tl.speakers.group(ROOM, default_handle="a")
    return tl


async def asked(line: Threadline, text: str, **more: Any) -> str | None:
    """Who is to answer this: the last letter of the session's name."""
    taken = await line.inbound.receive(said(text, **more))
    return None if taken.target_session_id is None else taken.target_session_id[-1]


async def cursor(line: Threadline, where: ConversationRef = ROOM) -> str | None:
    """The handle that was last addressed."""
    return (await line.speakers.show_group(where)).last_addressed_handle


@pytest.mark.acceptance("F1")
async def test_untargeted_messages_go_to_the_default_until_somebody_is_addressed(
    group: Threadline,
) -> None:
    """F1: explicit moves the cursor; the next untargeted follows it; cleared is default again."""
    first = await asked(group, "hi")
    explicit = await asked(group, "hi", explicit_target="b")
    moved = await cursor(group)
    follows = [await asked(group, "and?"), await asked(group, "more?")]
    await group.speakers.group(ROOM, last_addressed_handle=None)

    assert (first, explicit, moved, follows) == ("a", "b", "b", ["b", "b"])
    assert await asked(group, "hi") == "a"


@pytest.mark.acceptance("F1")
async def test_a_redelivered_address_does_not_move_the_cursor_back(group: Threadline) -> None:
    """F1: only a message that is recorded moves it."""
    await asked(group, "hi", explicit_target="b", message_id="m1")
    await asked(group, "hi", explicit_target="c")

    await asked(group, "hi", explicit_target="b", message_id="m1")

    assert await cursor(group) == "c"


@pytest.mark.acceptance("F1")
@pytest.mark.parametrize("target", ["b", "B", "@b", " @B ", "b\u200b"])
async def test_a_target_field_is_compared_as_a_handle_is(group: Threadline, target: str) -> None:
    """F1: in any case, with or without the sign."""
    assert await asked(group, "hi", explicit_target=target) == "b"


@pytest.mark.acceptance("F2")
async def test_ensuring_a_group_again_changes_only_what_is_named(group: Threadline) -> None:
    """F2: default, cursor, mode, fan-out and metadata stay."""
    fan_out = FanOut(enabled=True, max_total_peer_deliveries=3)
    await group.speakers.group(
        ROOM, mode="mention", last_addressed_handle="b", fan_out=fan_out, metadata={"x": 1}
    )
    before = await group.speakers.show_group(ROOM)

    await group.speakers.group(ROOM)
    unchanged = await group.speakers.show_group(ROOM)
    await group.speakers.group(ROOM, default_handle="c", metadata={"y": 2})
    changed = await group.speakers.show_group(ROOM)
    await group.speakers.group(ROOM, default_handle=None, metadata={"x": None})
    cleared = await group.speakers.show_group(ROOM)

    assert unchanged == before
    assert (before.mode, before.default_handle, before.last_addressed_handle) == (
        GroupMode.MENTION,
        "a",
        "b",
    )
    assert before.fan_out == changed.fan_out == fan_out
    assert (changed.default_handle, changed.last_addressed_handle) == ("c", "b")
    assert (changed.mode, changed.metadata) == (GroupMode.MENTION, {"x": 1, "y": 2})
    assert (cleared.default_handle, cleared.metadata) == (None, {"y": 2})


@pytest.mark.acceptance("F2")
async def test_a_group_points_only_at_who_is_there(group: Threadline) -> None:
    """F2: a cursor on a stranger, or an unknown mode, is refused and changes nothing."""
    before = await group.speakers.show_group(ROOM)

    for wrong in ({"last_addressed_handle": "zz"}, {"mode": "loud"}, {"default_handle": "a b"}):
        with pytest.raises(InvalidInput):
            await group.speakers.group(ROOM, **wrong)  # type: ignore[arg-type]

    assert await group.speakers.show_group(ROOM) == before


@pytest.mark.acceptance("F3")
async def test_a_handle_is_unique_in_its_group_in_any_case(group: Threadline) -> None:
    """F3: putting it again under another spelling is the same handle; moving it moves the grant."""
    await group.speakers.participant(ROOM, "A", "session-a")
    same = (await group.speakers.show_group(ROOM)).participants
    await group.speakers.participant(ROOM, "A", "session-x")

    seats = {
        one.handle.casefold(): one.session_id
        for one in (await group.speakers.show_group(ROOM)).participants
    }
    assert len(same) == 3
    assert seats == {"a": "session-x", "b": "session-b", "c": "session-c"}
    assert (await group.members.show(ROOM, "session-x")).grants.keys() == {"group"}
    with pytest.raises(MembershipNotFound):
        await group.members.show(ROOM, "session-a")
    assert await asked(group, "hi") == "x"


@pytest.mark.acceptance("F3")
async def test_a_grant_stays_until_the_last_handle_goes(group: Threadline) -> None:
    """F3: one session under two handles."""
    await group.speakers.participant(ROOM, "second", "session-a")

    await group.speakers.remove_participant(ROOM, "@A")
    still = await group.members.show(ROOM, "session-a")
    await group.speakers.remove_participant(ROOM, "Second")

    assert (still.active, still.handles) == (True, ("second",))
    with pytest.raises(MembershipNotFound):
        await group.members.show(ROOM, "session-a")
    with pytest.raises(NotFound):
        await group.speakers.remove_participant(ROOM, "a")


@pytest.mark.acceptance("F3")
async def test_another_reason_outlives_the_last_handle(group: Threadline) -> None:
    """F3: only the group's grant goes with it."""
    await group.members.join(ROOM, "session-a")

    await group.speakers.remove_participant(ROOM, "a")

    assert (await group.members.show(ROOM, "session-a")).grants.keys() == {"manual"}


@pytest.mark.acceptance("F3")
async def test_an_alias_is_as_unique_as_a_handle(group: Threadline) -> None:
    """F3: what means one participant never means another; it goes with its handle."""
    await group.speakers.participant(ROOM, "a", "session-a", aliases=("desk", "Front"))

    with pytest.raises(HandleConflict):
        await group.speakers.participant(ROOM, "desk", "session-x")
    with pytest.raises(HandleConflict):
        await group.speakers.participant(ROOM, "b", "session-b", aliases=("FRONT",))
    with pytest.raises(HandleConflict):
        await group.speakers.participant(ROOM, "b", "session-b", aliases=("a",))
    by_alias = await asked(group, "@front hi")
    await group.speakers.participant(ROOM, "a", "session-a", aliases=("desk",))
    dropped = await asked(group, "@front hi")
    await group.speakers.remove_participant(ROOM, "a")

    assert (by_alias, dropped) == ("a", None)
    assert await asked(group, "@desk hi") is None


@pytest.mark.acceptance("F3")
@pytest.mark.parametrize("handle", ["", " ", "@", "a b", "-a", "a/b", "x" * 65, "a\x00", "<b>"])
async def test_a_handle_nobody_could_address_is_refused(group: Threadline, handle: str) -> None:
    """F3: and seats nobody."""
    with pytest.raises(InvalidInput):
        await group.speakers.participant(ROOM, handle, "session-x")

    assert len((await group.speakers.show_group(ROOM)).participants) == 3


@pytest.mark.acceptance("F4")
async def test_what_pointed_at_a_removed_handle_points_at_nobody(group: Threadline) -> None:
    """F4: last addressed removed → default; default removed → none."""
    await asked(group, "@b hi")
    await group.speakers.remove_participant(ROOM, "b")
    after_last = await asked(group, "and?")
    await group.speakers.remove_participant(ROOM, "a")
    after_default = await asked(group, "and?")
    await group.speakers.participant(ROOM, "a", "session-a")
    await group.speakers.participant(ROOM, "b", "session-b")

    assert (after_last, after_default) == ("a", None)
    assert await asked(group, "hello again") is None


@pytest.mark.acceptance("F4")
async def test_a_cursor_that_an_alias_set_goes_with_its_participant(group: Threadline) -> None:
    """F4: the cursor is the participant's, whatever it was called by."""
    await group.speakers.participant(ROOM, "b", "session-b", aliases=("bee",))
    by_alias = await asked(group, "@bee hi")

    await group.speakers.remove_participant(ROOM, "bee")

    assert by_alias == "b"
    assert await asked(group, "and?") == "a"


@pytest.mark.acceptance("F5")
@pytest.mark.parametrize(
    "how", [{"explicit_target": "b"}, {}, {"explicit_target": "zz"}, {"actor": BOT}]
)
async def test_whoever_is_to_speak_all_read(group: Threadline, how: dict[str, Any]) -> None:
    """F5: target b, and a, b, c and a plain member all read."""
    await group.members.join(ROOM, "plain")

    await group.inbound.receive(said("hi", **how))

    for session in ("session-a", "session-b", "session-c", "plain"):
        assert await unread(group, session) == [1]
        assert handed(await followed(group, session)) == [1]


@pytest.mark.acceptance("F6")
async def test_only_the_speaker_is_told_to_speak_and_only_once(group: Threadline) -> None:
    """F6: the same on every path; the duplicate tells nobody anything new."""
    first = await group.inbound.receive(said("@b hi", "m1"))
    again = await group.inbound.receive(said("@c hi", "m1"))

    told: dict[str, tuple[bool, bool]] = {}
    for letter in "abc":
        [one] = (await group.replay.backfill(ROOM, f"session-{letter}")).records
        [streamed, _] = await followed(group, f"session-{letter}")
        assert streamed == one
        told[letter] = (one.speaker, one.wake)
    assert told == {"a": (False, False), "b": (True, True), "c": (False, False)}
    assert (again.duplicate, again.target_session_id) == (True, "session-b")
    assert first.record is not None
    assert len(first.record.wakes) == 1
    assert await cursor(group) == "b"


@pytest.mark.acceptance("F6")
async def test_a_session_under_two_handles_is_told_once(group: Threadline) -> None:
    """F6: at most one speaker per message."""
    await group.speakers.participant(ROOM, "a2", "session-a")

    taken = await group.inbound.receive(said("@a @a2 @b hi"))

    assert taken.record is not None
    assert len(taken.record.wakes) == 1
    assert taken.target_session_id == "session-a"


@pytest.mark.acceptance("F7")
async def test_of_several_named_the_last_addressed_speaks_else_the_first(
    group: Threadline,
) -> None:
    """F7: cursor unmoved, exactly one speaker."""
    first = await asked(group, "@c and @b, please")
    unset = await cursor(group)
    await asked(group, "@b hi")
    among = await asked(group, "@c and @b, please")
    not_among = await asked(group, "@c and @a, please")
    strangers = await asked(group, "@zz and @c, please")

    assert (first, unset, among, not_among) == ("c", None, "b", "c")
    assert strangers == "c"
    assert await asked(group, "@c, @c, @C: hi") == "c"


@pytest.mark.acceptance("F7")
async def test_naming_several_leaves_the_cursor_where_it_was(group: Threadline) -> None:
    """F7: naming one moves it."""
    await asked(group, "@b hi")

    await asked(group, "@c and @a, please")
    several = await cursor(group)
    await asked(group, "@c please")

    assert (several, await cursor(group)) == ("b", "c")


@pytest.mark.acceptance("F10")
async def test_in_a_mention_group_an_unaddressed_message_has_no_speaker(
    group: Threadline,
) -> None:
    """F10: not the default, not the last addressed; all is recorded and read."""
    await group.speakers.group(ROOM, mode="mention")

    spoken_to = [await asked(group, text) for text in ("lunch?", "@b lunch?", "and dinner?")]

    assert spoken_to == [None, "b", None]
    assert await unread(group, "session-c") == [1, 2, 3]


@pytest.mark.acceptance("F10", "F5")
async def test_in_a_mention_group_a_reply_to_what_a_session_said_is_for_it(
    group: Threadline,
) -> None:
    """F10: a reply addresses without a word."""
    await group.speakers.group(ROOM, mode="mention")
    await group.store.run(Append(spoken("soup", "o1"), said_by="session-c"))

    assert await asked(group, "which?", reply_to="o1") == "c"
    assert await cursor(group) == "c"


ADDRESSES = {
    "@will come": "w",
    "hi @will": "w",
    "(@will)": "w",
    "@WILL!": "w",
    "will: come": "w",
    "Will, come": "w",
    "  will: come": "w",
    "@will.": "w",
    "@will, @will": "w",
    "＠will come": "w",
    "@wi\u200bll come": "w",
    "@jose\u0301 come": "j",
    "JOSE\u0301: come": "j",
    "\u200bjosé, come": "j",
    "＠JOSÉ": "j",
    "@jose come": None,
    "jose: come": "d",
    "will you come": "d",
    "I will: come": "d",
    "goodwill: come": "d",
    "a@will.example": "d",
    "will:come": "d",
    "@willing come": None,
    "@will-not come": None,
    "@@will": "d",
    "will": "d",
    "http://will/": "d",
}


@pytest.mark.acceptance("F11")
@pytest.mark.parametrize("text", ADDRESSES)
async def test_only_an_address_addresses(tl: Threadline, text: str) -> None:
    """F11: `@handle` at a word border and `handle:` at the start do; a bare word does not."""
    await tl.conversations.ensure(ROOM)
    for handle in ("will", "josé", "d"):
        await tl.speakers.participant(ROOM, handle, f"session-{handle[0]}")
    await tl.speakers.group(ROOM, default_handle="d")

    found = await asked(tl, text)

    assert found == ADDRESSES[text]


@pytest.mark.acceptance("F11")
@given(st.text(max_size=60))
def test_whatever_is_said_names_only_what_stands_in_it(text: str) -> None:
    """F11: no text crashes the search for addresses, and no handle comes from nowhere."""
    message = InboundMessage(conversation=ROOM, actor=ADA, text=text)

    handles = speaking.named(message).handles()

    folded = speaking.fold(text)
    assert all(handle and handle in folded for handle in handles)


@pytest.mark.acceptance("F11")
@given(
    st.sampled_from(["will", "José", "a.b", "x-1", "ß", "Straße", "Ωmega", "名前"]),
    st.sampled_from(["@{}", "＠{}", "hi @{} there", "{}: hi", "{}, hi", "(@{})"]),
    st.sampled_from([str, str.upper, str.casefold, str.swapcase]),
    st.sampled_from(["NFC", "NFD"]),
)
def test_an_address_is_found_in_every_spelling(
    handle: str, shape: str, case: Any, form: Any
) -> None:
    """F11: one comparison for all, after NFC and casefold."""
    text = unicodedata.normalize(form, shape.format(case(handle)))

    handles = speaking.named(InboundMessage(conversation=ROOM, actor=ADA, text=text)).handles()

    assert speaking.fold(handle) in handles


@pytest.mark.acceptance("F11")
async def test_a_mention_of_a_stranger_alone_is_for_nobody(group: Threadline) -> None:
    """F11: neither the default nor the last addressed answers for somebody else."""
    await asked(group, "@b hi")

    assert await asked(group, "hi", mentions=("U999",)) is None
    assert await asked(group, "hi", mentions=("U999", "b")) == "b"
    assert await asked(group, "@zz: hi") is None


@pytest.mark.acceptance("F12")
async def test_a_thread_begins_with_its_root_and_borrows_its_rooms_speakers(
    group: Threadline,
) -> None:
    """F12: routed by the room's group, participants enrolled, the first record a copy."""
    await group.inbound.receive(said("root", "m1", metadata={"x": 1}))

    reply = await group.inbound.receive(
        said("@b reply", "m2", conversation=THREAD, thread_root="m1")
    )
    more = await group.inbound.receive(said("more", "m3", conversation=THREAD, thread_root="m1"))

    [root, first, second] = (await group.conversations.transcript(THREAD)).records
    [original] = (await group.conversations.transcript(ROOM)).records
    assert (root.sequence, root.copied_from) == (1, 1)
    assert (root.message_id, root.actor, root.text) == ("m1", original.actor, "root")
    assert (root.wakes, root.target_session_id, root.source_session_id) == ((), None, None)
    assert (reply.sequence, reply.target_session_id) == (2, "session-b")
    assert (more.target_session_id, more.route) == ("session-b", "thread")
    assert (first.text, second.text) == ("@b reply", "more")
    for letter in "abc":
        assert await unread(group, f"session-{letter}", THREAD) == [1, 2, 3]
    assert await cursor(group) is None
    state = await group.conversations.show(THREAD)
    assert state.parent == (await group.conversations.show(ROOM)).id


@pytest.mark.acceptance("F12")
async def test_a_root_that_comes_again_in_its_thread_is_a_duplicate(group: Threadline) -> None:
    """F12: the copy has the root's id, and is made once."""
    await group.inbound.receive(said("root", "m1"))

    again = await group.inbound.receive(said("root", "m1", conversation=THREAD, thread_root="m1"))
    await group.inbound.receive(said("2", "m2", conversation=THREAD, thread_root="m1"))
    once_more = await group.inbound.receive(
        said("root", "m1", conversation=THREAD, thread_root="m1")
    )

    assert (again.duplicate, again.sequence) == (True, 1)
    assert (once_more.duplicate, once_more.sequence) == (True, 1)
    assert await transcript(group, THREAD) == [(1, "root"), (2, "2")]


@pytest.mark.acceptance("F12")
async def test_a_thread_under_an_unknown_root_begins_with_what_was_said(
    group: Threadline,
) -> None:
    """F12: nothing is invented; the room's participants are enrolled all the same."""
    taken = await group.inbound.receive(said("2", "m2", conversation=THREAD, thread_root="m1"))

    assert taken.sequence == 1
    assert await transcript(group, THREAD) == [(1, "2")]
    assert await unread(group, "session-c", THREAD) == [1]


@pytest.mark.acceptance("F12")
async def test_a_thread_answers_to_the_session_that_said_its_root(group: Threadline) -> None:
    """F12: step 4; a thread's own last addressed comes before it."""
    await group.store.run(Append(spoken("soup?", "m1"), said_by="session-c"))

    first = await asked(group, "yes", conversation=THREAD, thread_root="m1")
    other = await asked(group, "@b no", conversation=THREAD, thread_root="m1")
    then = await asked(group, "well", conversation=THREAD, thread_root="m1")

    assert (first, other, then) == ("c", "b", "b")
    [root] = [one for one in (await group.conversations.transcript(THREAD)).records if one.source]
    assert root.source_session_id == "session-c"


@pytest.mark.acceptance("F12")
async def test_a_thread_in_a_bound_room_is_the_bound_sessions(tl: Threadline) -> None:
    """F12: without a group the binding is borrowed, with the membership that goes with it."""
    await tl.conversations.ensure(ROOM)
    await tl.speakers.bind(ROOM, "agent")
    await tl.inbound.receive(said("root", "m1"))

    taken = await tl.inbound.receive(said("2", "m2", conversation=THREAD, thread_root="m1"))

    assert (taken.target_session_id, taken.route) == ("agent", "binding")
    assert (await tl.members.show(THREAD, "agent")).grants.keys() == {"binding"}
    assert await unread(tl, "agent", THREAD) == [1, 2]


@pytest.mark.acceptance("F12")
async def test_a_newcomer_to_the_room_is_enrolled_by_the_next_append(group: Threadline) -> None:
    """F12: missing enrolment is repaired; who was removed from the thread is not put back."""
    await group.inbound.receive(said("root", "m1"))
    await group.inbound.receive(said("2", "m2", conversation=THREAD, thread_root="m1"))
    await group.members.leave(THREAD, "session-a")

    await group.speakers.participant(ROOM, "n", "session-n")
    await group.inbound.receive(said("3", "m3", conversation=THREAD, thread_root="m1"))

    assert await unread(group, "session-n", THREAD) == [1, 2, 3]
    with pytest.raises(MembershipNotFound):
        await group.replay.backfill(THREAD, "session-a")


@pytest.mark.acceptance("F12")
async def test_a_thread_enrols_everybody_however_many_there_are(tl: Threadline) -> None:
    """F12: 70 participants with 16 names each, all of them capital."""
    await tl.conversations.ensure(ROOM)
    for n in range(70):
        names = tuple(f"Z{n}x{m}" for m in range(16))
        await tl.speakers.participant(ROOM, f"A{n}", f"session{n}", aliases=names)
    await tl.inbound.receive(said("root", "m1"))

    await tl.inbound.receive(said("2", "m2", conversation=THREAD, thread_root="m1"))

    assert (await tl.conversations.show(THREAD)).members == 70


@pytest.mark.acceptance("F13")
async def test_a_routed_account_binds_its_direct_chats_at_their_first_message(
    tl: Threadline,
) -> None:
    """F13: binding, membership with `all`, speaker and wake in the append's transaction."""
    await tl.speakers.default_route("slack", "T1", "agent")

    taken = await tl.inbound.receive(said("hello", "m1", conversation=DM))
    second = await tl.inbound.receive(said("again", "m2", conversation=DM))

    bound = await tl.speakers.binding(DM)
    assert bound is not None
    assert (bound.session_id, bound.generation) == ("agent", 1)
    assert (taken.target_session_id, taken.route) == ("agent", "default_route")
    assert (second.target_session_id, second.route) == ("agent", "binding")
    member = await tl.members.show(DM, "agent")
    assert member.grants["binding"].backfill is BackfillPolicy.ALL
    [first, _] = (await tl.replay.backfill(DM, "agent")).records
    assert (first.record.sequence, first.speaker, first.wake) == (1, True, True)


@pytest.mark.acceptance("F13")
async def test_a_default_route_is_for_direct_chats_of_its_account_alone(tl: Threadline) -> None:
    """F13: rooms, threads, other accounts, and chats that have a speaker are left alone."""
    await tl.speakers.default_route("slack", "T1", "agent")
    other = ConversationRef("slack", "T2", "D1", kind=Kind.DM)
    room = ConversationRef("slack", "T1", "C7", kind=Kind.ROOM)
    held = ConversationRef("slack", "T1", "D2", kind=Kind.DM)
    await tl.conversations.ensure(held)
    await tl.speakers.bind(held, "holder")

    assert await asked(tl, "x", conversation=other) is None
    assert await asked(tl, "x", conversation=room) is None
    taken = await tl.inbound.receive(said("x", conversation=held))
    bot = await tl.inbound.receive(said("x", conversation=DM, actor=BOT))

    assert taken.target_session_id == "holder"
    assert bot.target_session_id is None
    assert await tl.speakers.binding(DM) is None
    assert await tl.speakers.binding(room) is None


@pytest.mark.acceptance("F13")
async def test_many_first_messages_at_once_make_one_binding(tl: Threadline) -> None:
    """F13: one generation, whoever was first."""
    await tl.speakers.default_route("slack", "T1", "agent")

    answers = await asyncio.gather(
        *(tl.inbound.receive(said(str(n), f"m{n}", conversation=DM)) for n in range(20))
    )

    assert {one.target_session_id for one in answers} == {"agent"}
    assert sum(one.route == "default_route" for one in answers) == 1
    bound = await tl.speakers.binding(DM)
    assert bound is not None
    assert bound.generation == 1


@pytest.mark.acceptance("F13")
async def test_an_expired_binding_gives_way_to_the_default_route(
    tl: Threadline, clock: StillClock
) -> None:
    """F13: with a new generation, and without the old holder among the members."""
    await tl.conversations.ensure(DM)
    await tl.speakers.bind(DM, "guest", expires_at=clock() + timedelta(hours=1))
    await tl.speakers.default_route("slack", "T1", "agent")
    clock.move(hours=1)

    taken = await tl.inbound.receive(said("hello", conversation=DM))
    await tl.upkeep.round()

    bound = await tl.speakers.binding(DM)
    assert bound is not None
    assert (taken.target_session_id, bound.session_id, bound.generation) == ("agent", "agent", 2)
    assert [one.session_id for one in (await tl.members.of(DM))[0]] == ["agent"]
    assert (await tl.conversations.show(DM)).members == 1


@pytest.mark.acceptance("F14")
@pytest.mark.parametrize(
    ("age", "awake"),
    [
        (timedelta(hours=2), False),
        (timedelta(hours=1, microseconds=1), False),
        (timedelta(hours=1), True),
        (timedelta(0), True),
        (timedelta(days=-2), True),
        (None, True),
    ],
)
async def test_old_news_wakes_nobody_and_the_future_counts_as_now(
    group: Threadline, clock: StillClock, age: timedelta | None, awake: bool
) -> None:
    """F14: by the provider's clock; it is stored and has its speaker all the same."""
    sent_at = None if age is None else clock() - age

    taken = await group.inbound.receive(said("hi", sent_at=sent_at))

    assert taken.record is not None
    assert (taken.sequence, taken.target_session_id) == (1, "session-a")
    assert bool(taken.record.wakes) == awake
    [read] = (await group.replay.backfill(ROOM, "session-a")).records
    assert (read.speaker, read.wake) == (True, awake)


@pytest.mark.acceptance("F6")
@pytest.mark.parametrize("event", [Event.EDIT, Event.REACTION, Event.MEMBER, Event.NOTICE])
async def test_what_is_no_message_wakes_nobody(group: Threadline, event: Event) -> None:
    """F6: and moves no cursor, whom it may name."""
    await group.inbound.receive(said("@b hi", "m1"))

    taken = await group.inbound.receive(said("@c hi", "e1", event=event, revises="m1"))

    assert taken.record is not None
    assert (taken.record.wakes, taken.target_session_id) == ((), None)
    assert await cursor(group) == "b"


@pytest.mark.acceptance("F5")
async def test_a_speaker_that_was_retired_is_nobody(group: Threadline) -> None:
    """F5: the message is recorded and the others read it."""
    await group.sessions.retire("session-a")

    taken = await group.inbound.receive(said("hi"))

    assert (taken.sequence, taken.target_session_id) == (1, None)
    assert await unread(group, "session-b") == [1]


def test_a_handle_and_its_participant_are_values() -> None:
    """What the rules compare has no life of its own."""
    assert Participant(1, "a", 2) == Participant(1, "a", 2)
    assert Taken(conversation=1, ref=ROOM) == Taken(conversation=1, ref=ROOM)
    assert Direction.of("INBOUND") is Direction.INBOUND
