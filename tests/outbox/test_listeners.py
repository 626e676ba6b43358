"""Who reads and may not speak: whatever it does, nobody else notices."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.outbox.conftest import HALL, ROOM, Platform, furnished, hears, records
from threadline import Threadline
from threadline.core.errors import ConsentRequired, NotFound, Unauthorized
from threadline.core.model import CONTROLLER, Attachment, SessionCaller
from threadline.core.sends import SendState
from threadline.testing.clock import StillClock

READER = SessionCaller("reader", scopes=frozenset({"read", "publish", "send"}))
GIVEN: list[dict[str, Any]] = [
    {},
    {"reply_to": 1},
    {"reply_to": "q1", "key": "k"},
    {"about": (str(HALL), 1)},
    {"explicit_target": "agent"},
    {"attachments": [Attachment(name="a.jpg", url="https://files.example/a.jpg")]},
    {"metadata": {"edits": "q1", "typing": True, "reaction": "+1"}},
]


@pytest.mark.acceptance("G4")
@pytest.mark.case("B071")
async def test_who_only_listens_causes_no_call_in_whatever_way(
    tl: Threadline, platform: Platform, clock: StillClock
) -> None:
    """B071: two doors lead to a platform, to answer and to write first, and both are shut before
    anything is written down. There is no third: nothing is streamed, typed, edited or reacted."""
    await furnished(tl, platform, attachments=True, answers_in_thread=True)
    await tl.consents.grant("reader", "chat", "A1")
    await hears(tl, "Is anybody there?", "q1")
    await hears(tl, "Here as well?", "q2", where=HALL)
    file = (await tl.uploads.give(b"a photo", name="a.jpg", caller=READER)).attachment
    before = await records(tl)

    for how in [*GIVEN, {"attachments": [file]}]:
        for caller in (READER, CONTROLLER):
            with pytest.raises(Unauthorized, match="does not speak there"):
                await tl.outbound.publish(ROOM, "reader", "psst", caller=caller, **how)
    with pytest.raises(ConsentRequired):
        await tl.initiative.send("reader", str(ROOM), "psst", caller=READER)
    at = clock() + timedelta(minutes=1)
    later = await tl.initiative.send("reader", str(ROOM), "psst", at=at, caller=READER)
    clock.move(minutes=1)
    await tl.initiative.round()
    await tl.outbox.round()

    assert (await tl.initiative.show(later.id)).state is SendState.FAILED
    assert platform.calls == 0
    assert (await tl.deliveries.page()).deliveries == []
    assert await records(tl) == before


@pytest.mark.case("B071")
async def test_who_only_listens_does_nothing_to_what_others_say(
    tl: Threadline, platform: Platform
) -> None:
    """B071: it neither sends it again nor takes it back."""
    theirs = await tl.outbound.publish(ROOM, "agent", "Here I am.")
    for act in (tl.deliveries.resend, tl.deliveries.drop, tl.deliveries.cancel):
        with pytest.raises((Unauthorized, NotFound)):
            await act(theirs.id, caller=READER)

    await tl.outbox.round()

    assert platform.said == ["Here I am."]
