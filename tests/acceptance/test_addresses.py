"""Addresses and callers: what names a conversation, and whose token reaches it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.speech import ADA, ROOM, said, spoken, transcript, unread
from threadline import Threadline
from threadline.core.errors import (
    InvalidConversation,
    KindMismatch,
    NotFound,
    ThreadlineError,
    Unauthorized,
)
from threadline.core.model import (
    AdapterCaller,
    Controller,
    ConversationRef,
    Event,
    InboundMessage,
    Kind,
    Origin,
    SessionCaller,
)
from threadline.core.recording import Door, Taken
from threadline.flows.inbound import Append
from threadline.testing.clock import StillClock

SLACK = AdapterCaller("default", "slack", "T1")
FOREIGN = {
    "another account": AdapterCaller("default", "slack", "T2"),
    "another provider": AdapterCaller("default", "discord", "T1"),
    "another scope": AdapterCaller("acme", "slack", "T1"),
}
GROUP = ConversationRef("telegram", "7001", "-51", kind=Kind.ROOM)
SUPERGROUP = ConversationRef("telegram", "7001", "-10051", kind=Kind.ROOM)


def parts() -> st.SearchStrategy[str]:
    """Anything that may stand in a part of a ref."""
    return st.text(
        st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=60
    ).filter(lambda text: bool(text.strip()))


@pytest.fixture(params=FOREIGN)
def foreign(request: pytest.FixtureRequest) -> AdapterCaller:
    """An adapter that is somebody else's."""
    return FOREIGN[request.param]


@pytest.mark.acceptance("A1")
@given(parts(), parts(), parts(), st.none() | parts(), st.just("default") | parts())
def test_a_ref_reads_back_from_its_text(
    provider: str, account: str, conversation: str, parent: str | None, scope: str
) -> None:
    """A1: whatever the characters of its parts."""
    ref = ConversationRef(provider, account, conversation, parent, scope)

    again = ConversationRef.parse(str(ref))

    assert again == ref
    assert [getattr(again, it.name) for it in fields(ref)[:5]] == [
        getattr(ref, it.name) for it in fields(ref)[:5]
    ]
    assert str(again) == str(ref)
    assert str(ref).isascii()


@pytest.mark.acceptance("A1")
@pytest.mark.parametrize(
    "part",
    [
        "a/b",
        "a?scope=b",
        "%2F",
        "%",
        "..",
        " a ",
        "ünï",
        "🎈",
        "a\nb",
        "a#b",
        "1.10",
        "-100",
        "\u200b",
    ],
)
def test_a_part_that_looks_like_the_text_form_is_only_a_part(part: str) -> None:
    """A1: separators, escapes and dots in a part change nothing around it."""
    ref = ConversationRef("slack", part, part, part, part)

    again = ConversationRef.parse(str(ref))

    assert again == ref
    assert (again.account_id, again.conversation_id, again.scope_id) == (part, part, part)


@pytest.mark.acceptance("A1", "A4")
def test_a_provider_that_grows_when_folded_is_refused_and_not_half_known() -> None:
    """A1, A4: what is accepted can be read back, also at the longest."""
    longest = "\u0390" * 512

    with pytest.raises(InvalidConversation):
        ConversationRef(longest, "T1", "C1")


@pytest.mark.acceptance("A1")
@pytest.mark.parametrize(
    "text", ["slack", "slack/T1", "a/b/c/d/e", "", "slack//C1", "/T1/C1", "a/b/"]
)
def test_another_text_form_is_refused(text: str) -> None:
    """A1: nothing is guessed from a text that is no ref."""
    with pytest.raises(InvalidConversation):
        ConversationRef.parse(text)


OTHERS = {
    "scope": ConversationRef("slack", "T1", "C1", scope_id="acme"),
    "provider": ConversationRef("discord", "T1", "C1"),
    "account": ConversationRef("slack", "T2", "C1"),
    "conversation": ConversationRef("slack", "T1", "C2"),
    "parent": ConversationRef("slack", "T1", "C1", "C0"),
    "case": ConversationRef("slack", "T1", "c1"),
}


@pytest.mark.acceptance("A2")
@pytest.mark.parametrize("part", OTHERS)
async def test_refs_that_differ_in_one_part_share_nothing(tl: Threadline, part: str) -> None:
    """A2: sequences, ids, bindings, groups, members are each conversation's own."""
    other = OTHERS[part]
    all_scopes = Controller(None)
    there = Controller(other.scope_id)

    first = [await tl.inbound.append(said(text, text)) for text in ("m1", "m2")]
    second = await tl.inbound.append(said("m1", "m1", conversation=other), caller=all_scopes)
    bound = await tl.speakers.bind(ROOM, "here")
    await tl.speakers.group(ROOM, default_handle="desk")

    assert [one.sequence for one in first] == [1, 2]
    assert (second.sequence, second.duplicate) == (1, False)
    assert bound.session_id == "here"
    assert await tl.speakers.binding(other, caller=there) is None
    with pytest.raises(NotFound):
        await tl.speakers.show_group(other, caller=there)
    assert (await tl.conversations.show(other, caller=there)).members == 0
    assert (await tl.conversations.show(ROOM)).members == 1


@pytest.mark.acceptance("A2")
async def test_refs_that_differ_in_kind_alone_are_one_conversation(tl: Threadline) -> None:
    """A2: the kind is no part of the identity."""
    first = await tl.inbound.receive(said("one", conversation=ROOM))
    as_dm = ConversationRef("slack", "T1", "C1", kind=Kind.DM)
    second = await tl.inbound.receive(said("two", conversation=as_dm))

    assert (first.conversation, second.sequence) == (second.conversation, 2)
    assert as_dm == ROOM


@pytest.mark.acceptance("A3")
async def test_a_caller_who_names_another_kind_is_refused_and_nothing_is_written(
    tl: Threadline,
) -> None:
    """A3: neither the record, nor an address, nor a member, nor a voice."""
    await tl.inbound.append(said("one", "m1"))
    before = await tl.conversations.show(ROOM)
    dm = ConversationRef("slack", "T1", "C1", kind=Kind.DM)
    moved = ConversationRef("slack", "T1", "C9")

    attempts: list[Awaitable[Any]] = [
        tl.inbound.append(said("two", "m2", conversation=dm, same_as=(moved,))),
        tl.conversations.ensure(dm, title="other"),
        tl.members.join(dm, "agent"),
        tl.speakers.bind(dm, "agent"),
        tl.speakers.group(dm, default_handle="agent"),
        tl.speakers.participant(dm, "agent", "agent"),
    ]
    for attempt in attempts:
        with pytest.raises(KindMismatch):
            await attempt

    assert await tl.conversations.show(ROOM) == before
    assert await transcript(tl) == [(1, "one")]
    assert (await tl.sessions.page())[0] == []
    with pytest.raises(NotFound):
        await tl.conversations.show(moved)


@pytest.mark.acceptance("A3")
async def test_a_provider_that_names_another_kind_is_recorded_and_counted(tl: Threadline) -> None:
    """A3: the stored kind stays."""
    room = ConversationRef("slack", "T1", "C1", kind=Kind.ROOM)
    dm = ConversationRef("slack", "T1", "C1", kind=Kind.DM)
    await tl.inbound.receive(said("one", conversation=room))

    second = await tl.inbound.receive(said("two", conversation=dm), caller=SLACK)
    third = await tl.inbound.receive(said("three", conversation=dm), caller=SLACK)

    state = await tl.conversations.show(ROOM)
    assert (second.sequence, third.sequence) == (2, 3)
    assert (state.kind, state.kind_mismatches) == (Kind.ROOM, 2)


@pytest.mark.acceptance("A4")
@pytest.mark.parametrize("part", ["provider", "account_id", "conversation_id", "scope_id"])
@pytest.mark.parametrize(
    "value", ["", "   ", "\t\n", None, 42, 1.5, b"C1", True, "a\x00b", "\ud800"]
)
def test_a_part_that_is_missing_blank_or_no_string_is_refused(part: str, value: Any) -> None:
    """A4: `invalid_conversation`, naming the part."""
    given: dict[str, Any] = {"provider": "slack", "account_id": "T1", "conversation_id": "C1"}

    with pytest.raises(InvalidConversation) as refused:
        ConversationRef(**(given | {part: value}))

    assert refused.value.code == "invalid_conversation"
    assert refused.value.facts["part"] == part


@pytest.mark.acceptance("A4")
@pytest.mark.parametrize("value", ["", "  ", 7])
def test_a_parent_that_is_given_is_never_empty(value: Any) -> None:
    """A4: absent is None and nothing else."""
    with pytest.raises(InvalidConversation):
        ConversationRef("slack", "T1", "C1", value)


@pytest.mark.acceptance("A5")
async def test_a_provider_is_found_in_any_case_and_its_ids_only_in_theirs(tl: Threadline) -> None:
    """A5: `Slack` finds `slack`; `t1` is not `T1`."""
    first = await tl.inbound.append(said("one", conversation=ConversationRef("Slack", "T1", "C1")))
    second = await tl.inbound.append(said("two", conversation=ConversationRef("SLACK", "T1", "C1")))
    other = await tl.inbound.append(said("x", conversation=ConversationRef("slack", "t1", "C1")))

    assert first.conversation == second.conversation != other.conversation
    assert (await tl.conversations.show("sLaCk/T1/C1")).head == 2
    assert str(second.ref) == "slack/T1/C1"


@pytest.mark.acceptance("A5")
async def test_a_provider_is_folded_in_tokens_and_routes_too(tl: Threadline) -> None:
    """A5: everywhere, also where an adapter's token or a default route names it."""
    dm = ConversationRef("slack", "T1", "D1", kind=Kind.DM)
    await tl.speakers.default_route("Slack", "T1", "desk")

    taken = await tl.inbound.receive(
        said("hi", conversation=dm), caller=AdapterCaller("default", "SLACK", "T1")
    )

    assert taken.target_session_id == "desk"


@pytest.mark.acceptance("A5")
@pytest.mark.parametrize(
    "identifier", ["1700000000.001700", "0012", "9007199254740993", "1e3", "-100", "٣"]
)
async def test_an_id_that_looks_like_a_number_stays_a_string(
    tl: Threadline, identifier: str
) -> None:
    """A5: a ts with trailing zeros survives storing, listing and addressing."""
    where = ConversationRef("slack", identifier, identifier, identifier)
    await tl.inbound.append(
        said("one", identifier, conversation=where, reply_to=identifier, actor=ADA)
    )

    state = await tl.conversations.show(str(where))
    [record] = (await tl.conversations.transcript(where)).records

    assert (state.ref.account_id, state.ref.conversation_id) == (identifier, identifier)
    assert state.ref.parent_conversation_id == identifier
    assert (record.message_id, record.reply_to) == (identifier, identifier)


Call = Callable[[Threadline, Any, Any], Awaitable[Any]]

ADAPTERS_MAY: dict[str, Call] = {
    "bind": lambda tl, where, who: tl.speakers.bind(where, "agent", caller=who),
    "unbind": lambda tl, where, who: tl.speakers.unbind(where, caller=who),
    "binding": lambda tl, where, who: tl.speakers.binding(where, caller=who),
    "hydrate": lambda tl, where, who: tl.hydration.begin(where, owner="x", caller=who),
    "import": lambda tl, where, who: tl.hydration.records(where, "token", [], caller=who),
    "complete": lambda tl, where, who: tl.hydration.complete(where, "token", caller=who),
    "fail": lambda tl, where, who: tl.hydration.fail(where, "token", "reason", caller=who),
    "group": lambda tl, where, who: tl.speakers.group(where, caller=who),
    "show group": lambda tl, where, who: tl.speakers.show_group(where, caller=who),
    "participant": lambda tl, where, who: tl.speakers.participant(
        where, "agent", "agent", caller=who
    ),
    "remove participant": lambda tl, where, who: tl.speakers.remove_participant(
        where, "agent", caller=who
    ),
    "state": lambda tl, where, who: tl.conversations.show(where, caller=who),
}


@pytest.mark.acceptance("A6")
@pytest.mark.parametrize("operation", ADAPTERS_MAY)
async def test_an_adapter_outside_its_account_is_unauthorized_by_ref_and_finds_nothing_by_id(
    tl: Threadline, operation: str, foreign: AdapterCaller
) -> None:
    """A6: bind, hydrate, participants, state; scope counts."""
    call = ADAPTERS_MAY[operation]
    await tl.inbound.append(said("one", "m1"))
    before = await tl.conversations.show(ROOM)

    with pytest.raises(Unauthorized):
        await call(tl, ROOM, foreign)
    with pytest.raises(NotFound) as unseen:
        await call(tl, before.id, foreign)
    with pytest.raises(NotFound) as unknown:
        await call(tl, "0000000000009", foreign)

    assert unseen.value.code == unknown.value.code == "not_found"
    assert await tl.conversations.show(ROOM) == before


@pytest.mark.acceptance("A6")
async def test_an_adapter_appends_only_to_its_account(
    tl: Threadline, foreign: AdapterCaller
) -> None:
    """A6: also through the address a chat moved from, or the room above a thread."""
    theirs = ConversationRef(foreign.provider, foreign.account_id, "C1", scope_id=foreign.scope_id)
    attempts = [
        said("x"),
        said("x", conversation=theirs, same_as=(ROOM,)),
        said("x", conversation=theirs, parent=ROOM),
    ]

    for message in attempts:
        with pytest.raises(Unauthorized):
            await tl.inbound.append(message, caller=foreign)
        with pytest.raises(Unauthorized):
            await tl.inbound.receive(message, caller=foreign)
    with pytest.raises(NotFound):
        await tl.conversations.show(ROOM)


@pytest.mark.acceptance("A6")
async def test_a_controller_of_one_scope_reaches_no_other_by_any_field(tl: Threadline) -> None:
    """A6: an address or a room of another scope is refused wherever it stands."""
    there = ConversationRef("slack", "T1", "C1", scope_id="acme")
    await tl.inbound.append(said("secret", "root", conversation=there), caller=Controller("acme"))
    thread = ConversationRef("slack", "T1", "root", "C1", kind=Kind.THREAD)

    for message in (
        said("x", conversation=there),
        said("x", same_as=(there,)),
        said("x", conversation=thread, parent=there, thread_root="root"),
    ):
        with pytest.raises(Unauthorized):
            await tl.inbound.append(message)

    assert await transcript(tl, there, caller=Controller("acme")) == [(1, "secret")]


@pytest.mark.acceptance("A6")
async def test_an_adapter_does_everything_it_may_on_its_own_account(tl: Threadline) -> None:
    """A6: the refusals above are not for want of an operation that works."""
    await tl.sessions.create("agent")
    await tl.inbound.receive(said("one", "m1"), caller=SLACK)
    number = (await tl.conversations.show(ROOM, caller=SLACK)).id

    begun = await tl.hydration.begin(number, owner="slack", mode="prepending", caller=SLACK)
    assert begun.token is not None
    await tl.hydration.records(number, begun.token, [said("zero", "m0")], caller=SLACK)
    await tl.hydration.complete(number, begun.token, caller=SLACK)
    await tl.speakers.participant(number, "agent", "agent", caller=SLACK)
    await tl.speakers.bind(ROOM, "agent", caller=SLACK)
    await tl.speakers.unbind(number, caller=SLACK)

    assert await transcript(tl) == [(0, "zero"), (1, "one")]


READERS_MAY: dict[str, Call] = {
    "join": lambda tl, where, who: tl.members.join(where, "agent", caller=who),
    "leave": lambda tl, where, who: tl.members.leave(where, "agent", caller=who),
    "evict": lambda tl, where, who: tl.members.leave(where, "agent", evict=True, caller=who),
    "override": lambda tl, where, who: tl.members.update(
        where, "agent", override="all", caller=who
    ),
    "member": lambda tl, where, who: tl.members.show(where, "agent", caller=who),
    "members": lambda tl, where, who: tl.members.of(where, caller=who),
    "conversations": lambda tl, where, who: tl.members.conversations_of("agent", caller=who),
    "backfill": lambda tl, where, who: tl.replay.backfill(where, "agent", caller=who),
    "ack": lambda tl, where, who: tl.replay.ack(where, "agent", 1, caller=who),
    "lag": lambda tl, where, who: tl.replay.lag(where, "agent", caller=who),
    "follow": lambda tl, where, who: anext(tl.replay.follow("agent", caller=who)),
    "list": lambda tl, where, who: tl.conversations.transcript(where, caller=who),
    "list as": lambda tl, where, who: tl.conversations.transcript(
        where, session="agent", caller=who
    ),
    "search": lambda tl, where, who: tl.search.find("one", caller=who),
    "search as": lambda tl, where, who: tl.search.find("one", session="agent", caller=who),
    "sessions": lambda tl, where, who: tl.sessions.page(caller=who),
    "session": lambda tl, where, who: tl.sessions.show("agent", caller=who),
    "create session": lambda tl, where, who: tl.sessions.create("new", caller=who),
    "retire": lambda tl, where, who: tl.sessions.retire("agent", caller=who),
    "reassign": lambda tl, where, who: tl.sessions.reassign("agent", "new", caller=who),
    "default route": lambda tl, where, who: tl.speakers.default_route(
        "slack", "T1", "agent", caller=who
    ),
    "end bindings": lambda tl, where, who: tl.speakers.unbind_session("agent", caller=who),
    "all conversations": lambda tl, where, who: tl.conversations.page(caller=who),
    "retention": lambda tl, where, who: tl.conversations.change(where, title="x", caller=who),
}

ITS_OWN = {"member", "conversations", "backfill", "ack", "lag", "follow", "leave"} | {
    "list as",
    "search as",
    "session",
}
ITSELF_INSTEAD = {"list", "search"}


@pytest.mark.acceptance("A7")
@pytest.mark.parametrize("operation", READERS_MAY)
async def test_an_adapter_manages_no_reader_and_reads_nothing(
    tl: Threadline, operation: str
) -> None:
    """A7: membership, replay, ack and lists are refused even on its own account."""
    await tl.inbound.append(said("one", "m1"))
    await tl.members.join(ROOM, "agent")
    before = await tl.members.show(ROOM, "agent")

    with pytest.raises(Unauthorized):
        await READERS_MAY[operation](tl, ROOM, SLACK)

    assert await tl.members.show(ROOM, "agent") == before
    assert [one.session_id for one in (await tl.sessions.page())[0]] == ["agent"]


@pytest.mark.acceptance("A7")
@pytest.mark.parametrize("operation", sorted(set(READERS_MAY) - ITSELF_INSTEAD))
async def test_a_session_reaches_only_itself(tl: Threadline, operation: str) -> None:
    """A7: another member of the same room is as far away as a stranger."""
    await tl.inbound.append(said("one", "m1"))
    await tl.members.join(ROOM, "agent")
    await tl.members.join(ROOM, "other")
    before = await tl.members.show(ROOM, "agent")

    with pytest.raises(Unauthorized):
        await READERS_MAY[operation](tl, ROOM, SessionCaller("other"))

    assert await tl.members.show(ROOM, "agent") == before


@pytest.mark.acceptance("A7")
@pytest.mark.parametrize("operation", sorted(ITS_OWN))
async def test_a_session_does_its_own_business(tl: Threadline, operation: str) -> None:
    """A7: the refusals above are not for want of an operation that works."""
    await tl.inbound.append(said("one", "m1"))
    await tl.members.join(ROOM, "agent")

    answer = await READERS_MAY[operation](tl, ROOM, SessionCaller("agent"))

    assert answer is not None


@pytest.mark.acceptance("A7")
@pytest.mark.parametrize("operation", sorted(ADAPTERS_MAY.keys() - {"state"}))
async def test_a_session_changes_nothing_of_a_conversation(tl: Threadline, operation: str) -> None:
    """A7: never joins, binds, imports or changes who speaks."""
    await tl.inbound.append(said("one", "m1"))
    await tl.members.join(ROOM, "agent")
    before = await tl.conversations.show(ROOM)

    for where in (ROOM, before.id):
        with pytest.raises(Unauthorized):
            await ADAPTERS_MAY[operation](tl, where, SessionCaller("agent"))
        with pytest.raises(Unauthorized):
            await tl.inbound.append(said("x"), caller=SessionCaller("agent"))

    assert await tl.conversations.show(ROOM) == before


@pytest.mark.acceptance("A7")
async def test_a_session_in_another_scope_is_not_the_session_of_that_name(tl: Threadline) -> None:
    """A7: names belong to a scope."""
    await tl.inbound.append(said("one", "m1"))
    member = await tl.members.join(ROOM, "agent")
    await tl.sessions.create("agent", caller=Controller("acme"))
    stranger = SessionCaller("agent", scope_id="acme")

    with pytest.raises(Unauthorized):
        await tl.replay.backfill(ROOM, "agent", caller=stranger)
    with pytest.raises(NotFound):
        await tl.replay.backfill(member.conversation, "agent", caller=stranger)

    assert (await tl.members.conversations_of("agent", caller=stranger))[0] == []


@pytest.mark.acceptance("A7")
@pytest.mark.parametrize(
    "operation", ["member", "backfill", "ack", "lag", "list", "list as", "leave"]
)
async def test_a_session_cannot_try_out_which_conversations_there_are(
    tl: Threadline, operation: str
) -> None:
    """A7: one it never was in answers as one that does not exist, word for word."""
    known = (await tl.conversations.ensure(ROOM)).id
    await tl.sessions.create("agent")
    answers = []

    for where in (ROOM, known, "slack/T1/C404", "0000000000009"):
        with pytest.raises(NotFound) as refused:
            await READERS_MAY[operation](tl, where, SessionCaller("agent"))
        answers.append((refused.value.code, str(refused.value), refused.value.facts))

    assert answers == [answers[0]] * 4
    assert answers[0][0] == "not_found"


@pytest.mark.acceptance("A6")
@pytest.mark.parametrize("by", ["ref", "id"])
async def test_a_session_belongs_to_the_scope_of_its_conversation(tl: Threadline, by: str) -> None:
    """A6: also where a controller of all scopes lets it in, binds it or seats it."""
    there = ConversationRef("slack", "T1", "C1", scope_id="acme")
    everywhere = Controller(None)
    where = (await tl.conversations.ensure(there, caller=everywhere)).id if by == "id" else there
    await tl.conversations.ensure(there, caller=everywhere)

    await tl.members.join(where, "joined", caller=everywhere)
    await tl.speakers.bind(where, "bound", caller=everywhere)
    await tl.speakers.participant(where, "desk", "seated", caller=everywhere)

    names = {one.session_id for one in (await tl.sessions.page(caller=Controller("acme")))[0]}
    assert names == {"joined", "bound", "seated"}
    assert (await tl.sessions.page())[0] == []
    mine = SessionCaller("joined", scope_id="acme")
    assert (await tl.replay.backfill(where, "joined", caller=mine)).records == []
    assert (await tl.members.show(where, "joined", caller=everywhere)).active


@pytest.mark.acceptance("A8")
async def test_a_body_that_claims_another_account_than_its_token_is_refused(
    tl: Threadline,
) -> None:
    """A8: alone and in a batch; what is the token's own passes."""
    claims = [
        said("x", conversation=ConversationRef("slack", "T2", "C1")),
        said("x", conversation=ConversationRef("discord", "T1", "C1")),
        said("x", conversation=ConversationRef("slack", "T1", "C1", scope_id="acme")),
    ]

    answers = await tl.inbound.receive_all([*claims, said("mine")], caller=SLACK)
    for claim in claims:
        with pytest.raises(Unauthorized):
            await tl.inbound.receive(claim, caller=SLACK)

    assert [type(one) for one in answers] == [Unauthorized, Unauthorized, Unauthorized, Taken]
    for claim in claims:
        with pytest.raises(NotFound):
            await tl.conversations.show(claim.conversation, caller=Controller(None))


@pytest.mark.acceptance("A9")
async def test_a_moved_chat_keeps_its_transcript_members_and_binding(tl: Threadline) -> None:
    """A9: both addresses resolve to it, and the newest is the one that is shown."""
    await tl.inbound.receive(said("before", "m1", conversation=GROUP))
    await tl.members.join(GROUP, "reader")
    bound = await tl.speakers.bind(GROUP, "agent")

    moved = await tl.inbound.receive(said("after", "m2", conversation=SUPERGROUP, same_as=(GROUP,)))
    late = await tl.inbound.receive(said("late", "m3", conversation=GROUP))

    assert (moved.sequence, late.sequence) == (2, 3)
    assert moved.target_session_id == "agent"
    assert await transcript(tl, SUPERGROUP) == await transcript(tl, GROUP)
    assert await unread(tl, "reader", SUPERGROUP) == [1, 2, 3]
    assert await tl.speakers.binding(SUPERGROUP) == await tl.speakers.binding(GROUP)
    shown = await tl.speakers.binding(GROUP)
    assert shown is not None
    assert (shown.generation, str(shown.ref)) == (bound.generation, str(SUPERGROUP))


@pytest.mark.acceptance("A9")
async def test_a_known_address_stays_the_newest_when_an_old_one_is_mentioned_again(
    tl: Threadline,
) -> None:
    """A9: sends use the newest address, also after a redelivery of the move."""
    await tl.inbound.receive(said("before", "m1", conversation=GROUP))
    move = said("after", "m2", conversation=SUPERGROUP, same_as=(GROUP,))
    await tl.inbound.receive(move)

    again = await tl.inbound.receive(move)
    await tl.inbound.receive(said("x", "m3", conversation=SUPERGROUP, same_as=(GROUP,)))

    assert again.duplicate
    assert str((await tl.conversations.show(GROUP)).ref) == str(SUPERGROUP)


@pytest.mark.acceptance("A9")
async def test_two_chats_with_a_past_are_linked_and_never_merged(
    tl: Threadline, clock: StillClock
) -> None:
    """A9: a notice in each; binding, group, handles and members belong to the newer."""
    old = await tl.inbound.receive(said("old", "m1", conversation=GROUP))
    await tl.members.join(GROUP, "reader")
    await tl.speakers.participant(GROUP, "desk", "agent")
    await tl.speakers.group(GROUP, default_handle="desk")
    await tl.speakers.bind(GROUP, "holder")
    clock.move(minutes=1)
    new = await tl.inbound.receive(said("new", "m2", conversation=SUPERGROUP))

    met = await tl.inbound.receive(said("hello?", "m3", conversation=SUPERGROUP, same_as=(GROUP,)))
    again = await tl.inbound.receive(said("again", "m4", conversation=SUPERGROUP, same_as=(GROUP,)))

    before, after = await tl.conversations.show(GROUP), await tl.conversations.show(SUPERGROUP)
    assert before.id != after.id
    assert before.moved_to == after.id
    [said_there, notice_there] = (await tl.conversations.transcript(GROUP)).records
    here = (await tl.conversations.transcript(SUPERGROUP)).records
    assert (said_there.text, notice_there.event) == ("old", Event.NOTICE)
    assert [one.event for one in here] == [
        Event.MESSAGE,
        Event.NOTICE,
        Event.MESSAGE,
        Event.MESSAGE,
    ]
    assert (old.conversation, new.conversation) != (new.conversation, old.conversation)
    assert (met.sequence, again.sequence) == (3, 4)
    assert (met.target_session_id, met.route) == ("agent", "default")
    bound = await tl.speakers.binding(SUPERGROUP)
    assert bound is not None
    assert bound.session_id == "holder"
    assert await tl.speakers.binding(GROUP) is None
    seats = (await tl.speakers.show_group(SUPERGROUP)).participants
    assert [(one.handle, one.session_id) for one in seats] == [("desk", "agent")]
    readers = {one.session_id for one in (await tl.members.of(SUPERGROUP))[0]}
    assert readers == {"reader", "agent", "holder"}
    assert 3 in await unread(tl, "reader", SUPERGROUP)
    assert after.members == 3


@pytest.mark.acceptance("A10")
async def test_an_adapter_speaks_for_no_session(tl: Threadline) -> None:
    """A10: there is no field for it, and nothing in the metadata becomes one."""
    await tl.members.join(await _known(tl), "agent")
    faked = {"source_session_id": "agent", "source": "agent", "origin": {"conversation": "x"}}

    taken = await tl.inbound.receive(said("x", "m1", metadata=faked), caller=SLACK)

    assert {it.name for it in fields(InboundMessage)} & {"source_session_id", "source"} == set()
    assert taken.record is not None
    assert (taken.record.source_session_id, taken.record.origin) == (None, None)
    assert await unread(tl, "agent") == [1]


@pytest.mark.acceptance("A10")
async def test_an_adapter_sets_no_origin(tl: Threadline) -> None:
    """A10: where a message comes from is the core's to say."""
    with pytest.raises(Unauthorized):
        await tl.inbound.receive(said("x", origin=Origin("0000000000001", 1)), caller=SLACK)
    with pytest.raises(NotFound):
        await tl.conversations.show(ROOM)


@pytest.mark.acceptance("A10")
async def test_what_an_adapter_calls_our_own_is_an_echo_that_wakes_nobody(tl: Threadline) -> None:
    """A10: recorded as outbound without a session, in nobody's name, addressed to nobody."""
    await tl.speakers.bind(await _known(tl), "agent")

    echoes = [
        await tl.inbound.receive(spoken("note", "w10"), caller=SLACK),
        await tl.inbound.receive(
            said("note", "w11", actor=spoken("").actor, explicit_target="agent"), caller=SLACK
        ),
    ]

    for echo in echoes:
        assert echo.record is not None
        assert echo.record.source_session_id is None
        assert echo.record.wakes == ()
        assert echo.target_session_id is None


@pytest.mark.acceptance("A10")
async def test_the_echo_of_what_a_session_said_leaves_that_record_as_it_is(tl: Threadline) -> None:
    """A10: it is a duplicate of the record that has the source session."""
    await tl.members.join(await _known(tl), "agent")
    story = Append(spoken("hello", "w9"), Door.HEARD, said_by="agent")
    first = await tl.store.run(story)

    echo = await tl.inbound.receive(spoken("hello!", "w9"), caller=SLACK)

    assert (echo.duplicate, echo.record) == (True, first.record)
    assert echo.record is not None
    assert (echo.record.source_session_id, echo.record.text) == ("agent", "hello")


async def _known(line: Threadline) -> ConversationRef:
    await line.conversations.ensure(ROOM)
    return ROOM


def test_every_refusal_here_is_one_of_ours() -> None:
    """The classes the tests above wait for are refusals with a code and a status."""
    for refusal in (InvalidConversation, KindMismatch, NotFound, Unauthorized):
        assert issubclass(refusal, ThreadlineError)
        assert 400 <= refusal.status < 500
