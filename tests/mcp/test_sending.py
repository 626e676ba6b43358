"""Writing first by a tool: only where it was granted and allowed, once, and in the transcript."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.http.conftest import Site
from tests.mcp.conftest import over_http, refused, text_of, used
from threadline.core.model import Controller
from threadline.testing.clock import StillClock

LOBBY = "web/office/lobby"
HUMAN = Controller(human=True)


async def agent_of(site: Site, *scopes: str, allowed: bool = True) -> str:
    """The token of a session that is bound in the lobby, with the account granted."""
    await site.line.conversations.ensure(LOBBY)
    await site.line.speakers.bind(LOBBY, "agent", policy="all")
    if allowed:
        await site.line.consents.grant("agent", "web", "office")
        await site.line.consents.set("on", room=LOBBY, caller=HUMAN)
    made = await site.line.tokens.create(
        "session", session="agent", scopes=scopes or ("read", "send")
    )
    assert made.token is not None
    return made.token


@pytest.mark.acceptance("L6")
async def test_what_is_sent_first_stands_in_the_transcript_once(site: Site) -> None:
    """On both stores; the same key says it once, other words under it are refused."""
    token = await agent_of(site)
    words = {"to": LOBBY, "text": "Shall I book Friday?", "key": "k"}

    async with over_http(site, token) as agent:
        first = await used(agent, "send_message", **words)
        again = await used(agent, "send_message", **words)
        other = await refused(agent, "send_message", **{**words, "text": "Or Monday?"})
        thread = await used(agent, "read_thread", conversation=first["conversation"])

    assert (first["state"], first["sequence"], first["repeated"]) == ("delivered", 1, False)
    assert (again["send"], again["repeated"]) == (first["send"], True)
    assert other["code"] == "idempotency_conflict"
    assert [(one["text"], one["who"]) for one in thread["records"]] == [
        ("Shall I book Friday?", "you")
    ]


@pytest.mark.acceptance("L6")
async def test_without_a_grant_or_consent_nothing_is_sent(site: Site) -> None:
    """And the refusal says what to do, without a word of whom it was about."""
    token = await agent_of(site, allowed=False)
    words = {"to": LOBBY, "text": "hello", "key": "k"}

    async with over_http(site, token) as agent:
        ungranted = await refused(agent, "send_message", **words)
        await site.line.consents.grant("agent", "web", "office")
        silent = await refused(agent, "send_message", **words)
        nobody = await refused(agent, "send_message", **{**words, "to": "email:eve@evil.example"})
        wrong = await agent.call_tool("send_message", {**words, "to": "http://evil.example/"})

    assert [one["code"] for one in (ungranted, silent, nobody)] == [
        "unauthorized",
        "consent_required",
        "no_address",
    ]
    assert wrong.is_error
    assert "evil" not in text_of(wrong) + str(nobody)
    assert (await site.line.conversations.transcript(LOBBY)).records == []


async def test_a_message_for_later_waits_for_its_time(site: Site, clock: StillClock) -> None:
    token = await agent_of(site)
    later = (clock() + timedelta(hours=2)).isoformat()

    async with over_http(site, token) as agent:
        sent = await used(agent, "send_message", to=LOBBY, text="Time.", key="k", at=later)
        naive = await refused(
            agent, "send_message", to=LOBBY, text="Time.", key="n", at="2030-01-01T00:00:00"
        )
    before = (await site.line.conversations.transcript(LOBBY)).records

    assert (sent["state"], sent["delivery"]) == ("scheduled", None)
    assert naive["code"] == "arguments_wrong"
    assert before == []
