"""One attach a session, runs that are written down, tokens for one conversation: on both stores."""

from __future__ import annotations

from datetime import timedelta

import pytest

from threadline import Actor, ConversationRef, InboundMessage, Threadline
from threadline.core.errors import (
    AlreadyAttached,
    AttachmentLost,
    InvalidInput,
    MembershipNotFound,
    NotFound,
    Unauthorized,
)
from threadline.core.model import SessionCaller
from threadline.testing.clock import StillClock

pytestmark = pytest.mark.acceptance("L4")

LOBBY = "web/office/lobby"
ANNEX = "web/office/annex"


async def said(tl: Threadline, *texts: str, where: str = LOBBY) -> None:
    """Somebody says something."""
    for text in texts:
        await tl.inbound.append(
            InboundMessage(
                conversation=ConversationRef.parse(where), actor=Actor("ada", "Ada"), text=text
            )
        )


@pytest.fixture
async def bound(tl: Threadline) -> str:
    """The id of a conversation of the session `helper`, with three messages."""
    state = await tl.conversations.ensure(LOBBY)
    await tl.speakers.bind(LOBBY, "helper")
    await said(tl, "one", "two", "three")
    return state.id


async def test_a_session_is_attached_to_once_until_the_lease_ends(
    tl: Threadline, bound: str, clock: StillClock
) -> None:
    """The second is told who and until when; what ran out is taken over, and its fence is lost."""
    first = await tl.attaching.attach("helper", holder="a", name="this one")

    with pytest.raises(AlreadyAttached, match="this one") as refused:
        await tl.attaching.attach("helper", holder="b", name="that one")
    assert refused.value.facts["until"] == first.expires_at
    clock.move(seconds=20)
    kept = await tl.attaching.attach("helper", holder="a", name="this one", fence=first.fence)
    assert kept.expires_at == first.expires_at + timedelta(seconds=20)
    clock.move(seconds=31)
    second = await tl.attaching.attach("helper", holder="b", name="that one")

    assert second.fence > first.fence
    for late in (
        tl.attaching.attach("helper", holder="a", name="this one", fence=first.fence),
        tl.attaching.begin("helper", bound, fence=first.fence, first=1, last=3),
        tl.attaching.detach("helper", first.fence),
    ):
        with pytest.raises(AttachmentLost, match="that one"):
            await late


async def test_who_crashed_is_known_again_at_once(tl: Threadline, bound: str) -> None:
    """By its own word, under a new fence; what it gave back is anybody's."""
    first = await tl.attaching.attach("helper", holder="a", name="one")
    again = await tl.attaching.attach("helper", holder="a", name="one")

    assert again.fence == first.fence + 1
    await tl.attaching.detach("helper", again.fence)
    assert await tl.attaching.show("helper") is None
    other = await tl.attaching.attach("helper", holder="b", name="two")
    assert await tl.attaching.show("helper") == other


async def test_an_open_run_is_begun_again_with_its_own_records(tl: Threadline, bound: str) -> None:
    """However much came since; once it was answered, that is said instead."""
    lease = await tl.attaching.attach("helper", holder="a", name="one")
    fence = lease.fence
    begun = await tl.attaching.begin("helper", bound, fence=fence, first=1, last=3)
    await said(tl, "four")

    again = await tl.attaching.begin("helper", bound, fence=fence, first=1, last=4, failures=2)

    assert (begun.first, begun.last, begun.delivery, begun.starts) == (1, 3, None, 1)
    assert (again.first, again.last, again.key) == (1, 3, f"attach/{bound}/1")
    assert (again.starts, again.failures) == (2, 2)
    sent = await tl.outbound.publish(LOBBY, "helper", "Well", key=again.key)
    answered = await tl.attaching.begin("helper", bound, fence=fence, first=1, last=5)
    assert (answered.last, answered.delivery) == (3, sent.id)
    await tl.replay.ack(LOBBY, "helper", 3)
    fresh = await tl.attaching.begin("helper", bound, fence=fence, first=4, last=4)
    assert (fresh.first, fresh.last, fresh.starts, fresh.failures) == (4, 4, 1, 0)


async def test_a_run_is_about_unread_records_of_a_member(tl: Threadline, bound: str) -> None:
    """Nothing else can be written down."""
    await tl.conversations.ensure(ANNEX)
    lease = await tl.attaching.attach("helper", holder="a", name="one")
    await tl.replay.ack(LOBBY, "helper", 1)

    for first, last in ((1, 3), (3, 2), (2, 4)):
        with pytest.raises(InvalidInput):
            await tl.attaching.begin("helper", bound, fence=lease.fence, first=first, last=last)
    with pytest.raises(MembershipNotFound):
        await tl.attaching.begin("helper", ANNEX, fence=lease.fence, first=1, last=1)
    with pytest.raises(Unauthorized):
        await tl.attaching.attach("helper", holder="a", name="a", caller=SessionCaller("other"))
    with pytest.raises(InvalidInput):
        await tl.attaching.attach("helper", holder="", name="a")
    with pytest.raises(InvalidInput):
        await tl.attaching.attach("helper", holder="a", name="a", seconds=1)


async def test_a_lent_token_ends_by_time_by_word_and_with_the_token_it_was_made_with(
    tl: Threadline, bound: str, clock: StillClock
) -> None:
    """It never outlives whoever lent it."""
    parent = await tl.tokens.create("session", session="helper")
    lender = SessionCaller("helper", scopes=frozenset({"read", "publish"}))

    async def lend(seconds: float = 60) -> str:
        made = await tl.tokens.lend(
            "helper", bound, seconds=seconds, parent=parent.id, caller=lender
        )
        assert made.conversation_id == bound
        ids.append(made.id)
        return made.token or ""

    ids: list[str] = []
    by_time, by_word, by_parent = [await lend(one) for one in (30, 600, 600)]
    clock.move(seconds=31)
    assert await tl.tokens.recognise(by_time) is None
    await tl.tokens.revoke(ids[1], caller=lender)
    assert await tl.tokens.recognise(by_word) is None
    assert await tl.tokens.recognise(by_parent) is not None
    await tl.tokens.revoke(parent.id)
    assert await tl.tokens.recognise(by_parent) is None


async def test_a_token_lends_no_more_than_it_has(tl: Threadline, bound: str) -> None:
    """Neither other scopes, nor other sessions, nor conversations it is not in, nor for long."""
    await tl.conversations.ensure(ANNEX)
    await tl.sessions.create("other")
    reader = SessionCaller("helper", scopes=frozenset({"read"}))

    for session, where, options, refusal in (
        ("helper", bound, {}, Unauthorized),
        ("other", bound, {"scopes": ["read"]}, Unauthorized),
        ("helper", ANNEX, {"scopes": ["read"]}, NotFound),
        ("helper", bound, {"scopes": ["send"]}, InvalidInput),
        ("helper", bound, {"scopes": ["read"], "seconds": 10**6}, InvalidInput),
        ("helper", bound, {"scopes": ["read"], "seconds": 0}, InvalidInput),
    ):
        with pytest.raises(refusal):
            await tl.tokens.lend(session, where, caller=reader, **({"seconds": 60} | options))


async def test_a_session_ends_only_the_tokens_it_lent(tl: Threadline, bound: str) -> None:
    """Not its own, and none of another session."""
    own = await tl.tokens.create("session", session="helper")
    await tl.sessions.create("other")
    lent = await tl.tokens.lend("helper", bound, seconds=60)

    for caller, token in (("helper", own.id), ("other", lent.id)):
        with pytest.raises(NotFound):
            await tl.tokens.revoke(token, caller=SessionCaller(caller))
    assert (await tl.tokens.revoke(lent.id, caller=SessionCaller("helper"))).revoked_at


async def test_a_caller_of_one_conversation_reaches_no_other(tl: Threadline, bound: str) -> None:
    """Also where no server stands in front: each flow that reaches further refuses it."""
    await tl.conversations.ensure(ANNEX)
    await tl.speakers.bind(ANNEX, "helper")
    lent = await tl.tokens.lend("helper", bound, seconds=60)
    bearer = await tl.tokens.recognise(lent.token or "")
    assert bearer is not None
    caller = bearer.caller

    assert (await tl.conversations.show(bound, caller=caller)).id == bound
    assert (await tl.replay.backfill(bound, "helper", caller=caller)).head == 3
    for refused in (
        tl.conversations.show(ANNEX, caller=caller),
        tl.replay.backfill(ANNEX, "helper", caller=caller),
        tl.outbound.publish(ANNEX, "helper", "x", caller=caller),
    ):
        with pytest.raises(NotFound):
            await refused
    for farther in (
        tl.members.conversations_of("helper", caller=caller),
        tl.search.find("one", caller=caller),
        tl.deliveries.page(caller=caller),
        tl.attaching.attach("helper", holder="a", name="a", caller=caller),
        tl.attaching.show("helper", caller=caller),
        tl.tokens.lend("helper", bound, seconds=60, caller=caller),
        tl.tokens.revoke(lent.id, caller=caller),
        anext(tl.replay.follow("helper", caller=caller)),
    ):
        with pytest.raises(Unauthorized):
            await farther
