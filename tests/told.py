"""What a demo left behind: the judge of what it told."""

from __future__ import annotations

from pathlib import Path

from threadline import Threadline
from threadline.core.model import ConversationRef, Event, TranscriptRecord
from threadline.entrypoints.cli import demo_tools
from threadline.entrypoints.cli.demo_writing import (
    ANSWER_HOURS,
    ASKS,
    DONE,
    FIRST_HOURS,
    HELLO,
    STOP,
    TOMORROW,
    TOO_LATE,
    YES,
)

OF_THE_CHAPTERS = 4


async def places_of(
    home: Path, provider: str
) -> tuple[dict[str, ConversationRef], dict[str, list[TranscriptRecord]]]:
    """Where somebody was alone with the account, by who, and what stands there.

    Everything the chapters promise of the ledger holds, or this fails.
    """
    refs: dict[str, ConversationRef] = {}
    said: dict[str, list[TranscriptRecord]] = {}
    async with Threadline.open(f"sqlite:{home / 'threadline.db'}", indexing=False) as line:
        states, following = await line.conversations.page(limit=500)
        assert following is None
        for state in states:
            if state.ref.provider != provider:
                continue
            page = await line.conversations.transcript(state.id, limit=500)
            records = [one for one in page.records if one.event is Event.MESSAGE]
            texts = [one.text for one in records]
            for who, first in (("Ada", HELLO), ("Ben", demo_tools.GREETS)):
                if first in texts:
                    assert who not in refs, "a second conversation with the same person"
                    refs[who], said[who] = state.ref, records
        sends = [one for one in await line.initiative.list() if one.session_id == "reminder"]
        actions = [(one.action, one.facts.get("code")) for one in await line.audits.list(limit=500)]
        whole = (await line.audits.verify()).whole
        context = str(await line.context.read(refs["Ada"], "reminder", budget=20_000))
    assert [one.text for one in said["Ada"]] == [HELLO, ASKS, YES, DONE, STOP]
    assert [one.state.value for one in sends] == ["cancelled", "delivered"]
    assert "said stop" in sends[0].reason
    hello, asks, yes, done, stop = said["Ada"]
    passed = [
        round((b.recorded_at - a.recorded_at).total_seconds() / 3600)
        for a, b in ((hello, asks), (asks, yes))
    ]
    assert passed == [FIRST_HOURS, ANSWER_HOURS]
    assert asks.source_session_id == done.source_session_id == "reminder"
    assert (yes.target_session_id, bool(yes.wakes), stop.wakes) == ("reminder", True, ())
    assert hello.person_id == asks.person_id == yes.person_id is not None
    assert context.index(HELLO) < context.index(ASKS) < context.index(YES)
    assert ("send.refused", "consent_required") in actions
    assert ("send.refused", "unauthorized") in actions
    assert whole
    assert [(one.text, one.source_session_id) for one in said["Ben"]] == [
        (demo_tools.GREETS, None),
        (demo_tools.ASKS, None),
        (demo_tools.ANSWER, "clerk"),
        (demo_tools.NEWS, "clerk"),
    ]
    assert said["Ben"][2].reply_to == said["Ben"][1].message_id
    assert TOO_LATE not in context
    assert TOMORROW not in context
    return refs, said
