"""Reported failures: what is one conversation, and what is two."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.speech import ROOM, numbered, said, transcript, unread
from threadline import Threadline
from threadline.core.errors import InvalidConversation, InvalidInput, NotFound
from threadline.core.model import ConversationRef, Kind
from threadline.core.recording import Taken

CHANNEL = ConversationRef("slack", "T1", "CH", kind=Kind.ROOM)
FIRST = ConversationRef("slack", "T1", "100.1", "CH", kind=Kind.THREAD)
SECOND = ConversationRef("slack", "T1", "200.1", "CH", kind=Kind.THREAD)


@pytest.mark.case("B001")
async def test_two_threads_of_one_user_in_one_channel_share_no_history(tl: Threadline) -> None:
    """B001: each has its own key and its own sequence."""
    await tl.inbound.receive(said("list open invoices", "100.1", conversation=CHANNEL))
    await tl.inbound.receive(said("best route to Porto", "200.1", conversation=CHANNEL))
    await tl.conversations.ensure(FIRST)
    await tl.members.join(FIRST, "agent")

    there = await tl.inbound.receive(
        said("by train", "200.2", conversation=SECOND, thread_root="200.1")
    )
    here = await tl.inbound.receive(
        said("now in Spanish", "100.2", conversation=FIRST, thread_root="100.1")
    )

    assert here.conversation != there.conversation
    assert await transcript(tl, FIRST) == [(1, "list open invoices"), (2, "now in Spanish")]
    assert await transcript(tl, SECOND) == [(1, "best route to Porto"), (2, "by train")]
    assert [text for _, text in await transcript(tl, FIRST, session="agent")] == [
        "list open invoices",
        "now in Spanish",
    ]


@pytest.mark.case("B006")
@pytest.mark.parametrize("chat", [None, "", "  ", "\t"])
async def test_a_chat_without_an_id_is_refused_and_never_a_catch_all(
    tl: Threadline, chat: Any
) -> None:
    """B006: no part becomes empty in silence, wherever it is built."""
    for parts in (("123", chat), (chat, "ann"), ("123", "t1", chat or " ")):
        with pytest.raises(InvalidConversation):
            ConversationRef("whatsapp", *parts)
    for text in ("whatsapp/123/", "whatsapp//ann", "whatsapp/123/%20"):
        with pytest.raises(InvalidConversation):
            await tl.conversations.ensure(text)

    assert (await tl.conversations.page())[0] == []


@pytest.mark.case("B012")
@pytest.mark.parametrize(
    "pair",
    [
        ("1700000000.001700", "1700000000.0017"),
        ("1700000001.000389", "1700000001.0003889"),
        ("9007199254740993", "9007199254740992"),
        ("1234567890123456789", "1234567890123456800"),
        ("007", "7"),
    ],
)
async def test_ids_that_are_equal_as_numbers_are_different_ids(
    tl: Threadline, pair: tuple[str, str]
) -> None:
    """B012: byte for byte, as message, as thread and as what is replied to."""
    refs = [ConversationRef("slack", "T1", one, "CH", kind=Kind.THREAD) for one in pair]

    messages = [await tl.inbound.receive(said(one, one, reply_to=one)) for one in pair]
    threads = [
        await tl.inbound.receive(said(one, one, conversation=ref))
        for one, ref in zip(pair, refs, strict=True)
    ]

    assert [one.duplicate for one in messages] == [False, False]
    assert threads[0].conversation != threads[1].conversation
    for sent, taken, thread in zip(pair, messages, threads, strict=True):
        assert taken.record is not None
        assert (taken.record.message_id, taken.record.reply_to) == (sent, sent)
        state = await tl.conversations.show(thread.ref.text)
        assert state.ref.conversation_id == sent


@pytest.mark.case("B016")
async def test_one_group_is_one_conversation_however_its_kind_is_spelt(tl: Threadline) -> None:
    """B016: through every way in; unknown kinds are refused by name."""
    spellings = [ConversationRef("qq", "1", "g", kind=word) for word in ("room", "Room", "ROOM")]  # type: ignore[arg-type]

    states = [
        (await tl.inbound.append(said("1", "m1", conversation=spellings[0]))).conversation,
        (await tl.inbound.receive(said("2", "m2", conversation=spellings[1]))).conversation,
        (await tl.hydration.begin(spellings[2], owner="x", ensure=True)).conversation,
    ]
    shown = await tl.conversations.ensure(spellings[2])

    assert len(set(states)) == 1
    assert (shown.kind, shown.kind_mismatches) == (Kind.ROOM, 0)
    assert len((await tl.conversations.page())[0]) == 1
    for unknown in ("group", "Group", "", "dm room"):
        with pytest.raises(InvalidInput, match="dm, room, thread"):
            ConversationRef("qq", "1", "g", kind=unknown)  # type: ignore[arg-type]


@pytest.mark.case("B018")
async def test_a_topic_that_is_renamed_goes_on_and_one_that_is_split_begins_anew(
    tl: Threadline,
) -> None:
    """B018: a rename is the same conversation under a further address; a part of it is not."""
    before = ConversationRef("zulip", "org", "A", "5")
    after = ConversationRef("zulip", "org", "B", "5")
    split = ConversationRef("zulip", "org", "C", "5")
    for message in numbered(1, 3, conversation=before):
        await tl.inbound.receive(message)
    await tl.members.join(before, "agent")

    renamed = await tl.inbound.receive(said("4", "m4", conversation=after, same_as=(before,)))
    moved = await tl.inbound.receive(said("5", "m5", conversation=split))

    assert (renamed.sequence, str(renamed.ref)) == (4, str(after))
    assert (await tl.conversations.show(before)).id == (await tl.conversations.show(after)).id
    assert await unread(tl, "agent", after) == [1, 2, 3, 4]
    assert (moved.sequence, moved.conversation == renamed.conversation) == (1, False)
    assert len(await transcript(tl, after)) == 4


@pytest.mark.case("B018")
async def test_a_renamed_channel_changes_only_its_title(tl: Threadline) -> None:
    """B018: where ids are stable a name is nothing but a name."""
    first = await tl.conversations.ensure(ROOM, title="general")

    second = await tl.conversations.ensure(ROOM, title="lobby")

    assert (first.id, second.id, second.title) == (second.id, first.id, "lobby")


Operation = Callable[[Threadline, Any], Awaitable[Any]]

OPERATIONS: dict[str, Operation] = {
    "show": lambda tl, where: tl.conversations.show(where),
    "transcript": lambda tl, where: tl.conversations.transcript(where),
    "change": lambda tl, where: tl.conversations.change(where, title="x"),
    "join": lambda tl, where: tl.members.join(where, "agent"),
    "update": lambda tl, where: tl.members.update(where, "agent", override=None),
    "member": lambda tl, where: tl.members.show(where, "agent"),
    "members": lambda tl, where: tl.members.of(where),
    "backfill": lambda tl, where: tl.replay.backfill(where, "agent"),
    "ack": lambda tl, where: tl.replay.ack(where, "agent", 0),
    "lag": lambda tl, where: tl.replay.lag(where, "agent"),
    "group": lambda tl, where: tl.speakers.group(where),
    "show group": lambda tl, where: tl.speakers.show_group(where),
    "participant": lambda tl, where: tl.speakers.participant(where, "desk", "agent"),
    "remove participant": lambda tl, where: tl.speakers.remove_participant(where, "desk"),
    "bind": lambda tl, where: tl.speakers.bind(where, "agent"),
    "binding": lambda tl, where: tl.speakers.binding(where),
    "unbind": lambda tl, where: tl.speakers.unbind(where),
    "begin": lambda tl, where: tl.hydration.begin(where, owner="me"),
    "leave": lambda tl, where: tl.members.leave(where, "agent"),
}


@pytest.mark.case("B019")
@pytest.mark.parametrize("form", ["ref", "text", "upper", "scope", "id"])
async def test_every_documented_form_is_the_same_conversation(tl: Threadline, form: str) -> None:
    """B019: the structured form, the printed one, the id."""
    state = await tl.conversations.ensure(ROOM)
    forms = {
        "ref": ROOM,
        "text": str(ROOM),
        "upper": "SLACK/T1/C1",
        "scope": "slack/T1/C1?scope=default",
        "id": state.id,
    }

    for operation in OPERATIONS.values():
        answer = await operation(tl, forms[form])
        if form != "ref" and operation is OPERATIONS["binding"]:
            assert answer is not None

    assert len((await tl.conversations.page())[0]) == 1


@pytest.mark.case("B019")
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_form_that_names_nothing_is_an_error_and_never_success(
    tl: Threadline, operation: str
) -> None:
    """B019: a prefix that was added twice finds nobody, and says so."""
    await tl.conversations.ensure(ROOM)

    for wrong in ("slack/slack/T1/C1", "slack/T1/C1%20", "C1", "0000000000000", "slack/T1/c1"):
        with pytest.raises(NotFound):
            await OPERATIONS[operation](tl, wrong)
    for malformed in ("slack/slack/slack/T1/C1", "slack/T1", "/slack/T1/C1"):
        with pytest.raises(InvalidConversation):
            await OPERATIONS[operation](tl, malformed)

    assert (await tl.sessions.page())[0] == []


@pytest.mark.case("B019")
async def test_what_ends_something_says_what_it_ended(tl: Threadline) -> None:
    """B019: and the second time that there was nothing."""
    await tl.conversations.ensure(ROOM)
    await tl.speakers.bind(ROOM, "agent")

    ended, nothing = await tl.speakers.unbind(ROOM), await tl.speakers.unbind(ROOM)

    assert ended is not None
    assert (ended.session_id, nothing) == ("agent", None)


@pytest.mark.case("B016")
async def test_many_ways_in_at_once_make_one_conversation(tl: Threadline) -> None:
    """B016: whoever is first makes it, the others find it."""
    answers: list[Any] = await asyncio.gather(
        *(tl.inbound.receive(one) for one in numbered(1, 10)),
        *(tl.conversations.ensure(ROOM) for _ in range(10)),
        tl.hydration.begin(ROOM, owner="x", ensure=True, mode="prepending"),
    )

    assert len({one.conversation for one in answers if isinstance(one, Taken)}) == 1
    assert len((await tl.conversations.page())[0]) == 1
