"""What its deliveries became is what a send says and what its limits count, in whatever order."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.initiative.conftest import said
from tests.initiative.test_channels import Both, both, discord, outcomes
from tests.initiative.test_doubt import in_doubt
from tests.whatsapp.test_story import Scene, meta, scene
from threadline import Threadline
from threadline.core.errors import LimitReached, NotSent
from threadline.core.sends import SendState
from threadline.flows.send_status import SendStatus
from threadline.testing.clock import StillClock

__all__ = ["both", "discord", "meta", "scene"]
LONG = "word " * 900 + "end"


@pytest.mark.acceptance("H10")
async def test_what_is_resent_holds_up_the_channel_that_was_next(both: Both) -> None:
    """It failed, and before the next one is tried a person lets it be said once more."""
    both.telegram.do("block", user=both.user)
    sent = await both.line.initiative.send("agent", both.to, "once")
    await both.line.outbox.round()
    both.telegram.do("unblock", user=both.user)
    await both.line.deliveries.resend(await delivery_of(both.line, sent))
    done = await both.ended(sent)
    assert (said(both.telegram, both.user), both.seen()) == (["once"], [])
    assert (done.state, outcomes(done)) == (SendState.DELIVERED, [("telegram", "delivered")])


@pytest.mark.acceptance("H7", "H10")
async def test_a_channel_that_fails_again_ends_nothing_while_another_is_under_way(
    both: Both, clock: StillClock
) -> None:
    """The send stays open and counted, and is what the other one becomes."""
    await both.line.consents.set_limits({"recipient_per_hour": 1})
    both.telegram.do("block", user=both.user)
    both.discord.fault("rate_limit", wait=60, place=both.dm)
    sent = await both.ended(await both.line.initiative.send("agent", both.to, "once"))
    assert outcomes(sent) == [("telegram", "failed"), ("discord", "pending")]
    await both.line.deliveries.resend(sent.tried[0]["delivery"])
    again = await both.ended(sent)
    assert again.state is SendState.OPEN
    with pytest.raises(NotSent, match="recipient_per_hour is 1"):
        await both.line.initiative.send("agent", both.to, "more")
    clock.move(minutes=2)
    done = await both.ended(sent)
    assert (done.state, both.seen()) == (SendState.DELIVERED, ["once"])
    with pytest.raises(NotSent, match="recipient_per_hour is 1"):
        await both.line.initiative.send("agent", both.to, "more")


@pytest.mark.acceptance("H7")
async def test_what_is_resent_counts_for_the_account_it_leaves_through(both: Both) -> None:
    """Both channels failed; the first is let be said once more, and is the first one's."""
    both.telegram.do("block", user=both.user)
    both.discord.fault("status", status=403, place=both.dm)
    sent = await both.ended(await both.line.initiative.send("agent", both.to, "once"))
    assert outcomes(sent) == [("telegram", "failed"), ("discord", "failed")]
    both.telegram.do("unblock", user=both.user)
    await both.line.deliveries.resend(sent.tried[0]["delivery"])
    assert (await both.ended(sent)).state is SendState.DELIVERED
    await both.line.consents.set_limits({"account_per_hour": 1})
    with pytest.raises(LimitReached, match="account_per_hour is 1"):
        await both.line.initiative.send("agent", both.to, "more", via="telegram")
    await both.line.initiative.send("agent", both.to, "more", via="discord")


@pytest.mark.acceptance("H10", "G13")
async def test_what_was_begun_is_not_given_up_for_a_channel_that_would_not_be_tried(
    both: Both, clock: StillClock
) -> None:
    """A part is out, so no other channel is tried: the rest waits as long as it may live."""
    place = str(both.user)
    both.telegram.fault("slow", place=place)
    sent = await both.line.initiative.send("agent", both.to, LONG)
    begun = asyncio.create_task(both.line.outbox.round())
    await asyncio.to_thread(both.telegram.effects, "message", at_least=1, place=place)
    both.telegram.fault("status", status=409, times=12, place=place)
    both.telegram.release()
    await begun
    for number in range(14):
        await both.ended(sent)
        clock.move(seconds=min(2**number, 300))
    done = await both.ended(sent)
    assert done.state is SendState.DELIVERED
    assert "".join(said(both.telegram, both.user)).count("word") == 900
    assert both.seen() == []


@pytest.mark.parametrize("via", ["discord", "auto"])
async def test_an_outage_when_it_is_due_drops_nothing_that_may_still_live(
    both: Both, clock: StillClock, via: str
) -> None:
    """No channel can be opened at the moment; half an hour later it leaves, once."""
    if via == "auto":
        await both.line.adapters.remove("telegram", "7001")
    at = clock() + timedelta(hours=1)
    sent = await both.line.initiative.send("agent", both.to, "once", via=via, at=at)
    both.discord.fault("status", status=503, on="POST direct")
    both.discord.fault("rate_limit", wait=60, on="POST direct")
    clock.move(hours=1)
    assert (await both.ended(sent)).state is SendState.SCHEDULED
    clock.move(minutes=10)
    assert (await both.ended(sent)).state is SendState.SCHEDULED
    clock.move(minutes=10)
    assert (await both.ended(sent)).state is SendState.DELIVERED
    assert both.seen() == ["once"]


@pytest.mark.acceptance("H10")
@pytest.mark.parametrize("taken_back", [False, True], ids=["it waits", "it is taken back"])
async def test_the_next_channel_waits_for_its_platform_and_can_be_taken_back(
    both: Both, clock: StillClock, taken_back: bool
) -> None:
    """The first certainly did not say it, and the second cannot be opened at the moment."""
    both.telegram.do("block", user=both.user)
    sent = await both.line.initiative.send("agent", both.to, "once")
    both.discord.fault("status", status=503, on="POST direct")
    assert (await both.ended(sent)).state is SendState.OPEN
    if taken_back:
        assert (await both.line.initiative.cancel(sent.id)).state is SendState.CANCELLED
    clock.move(minutes=1)
    done = await both.ended(sent)
    assert done.state is (SendState.CANCELLED if taken_back else SendState.DELIVERED)
    assert both.seen() == ([] if taken_back else ["once"])


@pytest.mark.acceptance("H7")
async def test_what_turns_out_to_be_said_counts_again(scene: Scene, clock: StillClock) -> None:
    """Given up, it is given back; who then sees it there says so, and it is counted."""
    line, to = scene.line, f"whatsapp:{scene.user}"
    sent = await in_doubt(scene, clock, "Hello?")
    await line.deliveries.drop(await delivery_of(line, sent))
    assert (await line.initiative.show(sent.id)).state is SendState.CANCELLED
    await line.deliveries.confirm(await delivery_of(line, sent))
    assert (await line.initiative.show(sent.id)).state is SendState.DELIVERED
    with pytest.raises(LimitReached):
        await line.initiative.send("agent", to, "Still there?")


@pytest.mark.acceptance("H7", "G13")
async def test_a_part_that_turns_out_to_be_said_makes_its_send_a_delivered_one(
    scene: Scene, clock: StillClock
) -> None:
    """The first part was in doubt and given up; what is then proven of it is in the transcript."""
    line, to = scene.line, f"whatsapp:{scene.user}"
    sent = await in_doubt(scene, clock, LONG)
    await line.deliveries.drop(await delivery_of(line, sent))
    await line.deliveries.confirm(await delivery_of(line, sent))
    found = await line.initiative.show(sent.id)
    assert found.delivery is not None
    assert found.delivery.sequence is not None
    assert found.state is SendState.DELIVERED
    with pytest.raises(LimitReached):
        await line.initiative.send("agent", to, "Still there?")


@pytest.mark.acceptance("G13")
async def test_a_send_whose_delivery_goes_on_is_open_again(scene: Scene, clock: StillClock) -> None:
    """The first part was in doubt and set aside; proven, it leaves the second to be said."""
    line = scene.line
    sent = await in_doubt(scene, clock, LONG)
    await line.deliveries.confirm(await delivery_of(line, sent))
    found = await line.initiative.show(sent.id)
    assert found.delivery is not None
    assert (found.delivery.state.value, found.state) == ("pending", SendState.OPEN)


@pytest.mark.acceptance("H7")
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
async def test_what_was_resent_is_what_is_shown_and_taken_back(both: Both, beside: bool) -> None:
    """The first channel waits again after the second one was tried."""
    await both.line.consents.set_limits({"recipient_per_hour": 1})
    both.telegram.do("block", user=both.user)
    if beside:
        both.discord.fault("rate_limit", wait=60, place=both.dm)
    else:
        both.discord.fault("status", status=403, place=both.dm)
    sent = await both.ended(await both.line.initiative.send("agent", both.to, "once"))
    assert outcomes(sent) == [
        ("telegram", "failed"),
        ("discord", "pending" if beside else "failed"),
    ]
    both.telegram.do("unblock", user=both.user)
    await both.line.deliveries.resend(sent.tried[0]["delivery"])
    if not beside:
        assert await delivery_of(both.line, sent) == sent.tried[0]["delivery"]
    gone = await both.line.initiative.cancel(sent.id)
    assert gone.state is SendState.CANCELLED
    assert {one for _, one in outcomes(gone)} <= {"cancelled", "failed"}
    await both.ended(sent)
    assert (said(both.telegram, both.user), both.seen()) == ([], [])
    await both.line.initiative.send("agent", both.to, "more")


async def delivery_of(line: Threadline, sent: SendStatus) -> str:
    """The newest delivery of a send."""
    found = (await line.initiative.show(sent.id)).delivery
    assert found is not None
    return found.id
