"""One message as OpenTelemetry spans, from the request that brings it to whoever gets it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from tests.http.conftest import LOBBY, Site, message, running
from threadline import Threadline
from threadline.entrypoints.http.tracing import CONVERSATION, SEQUENCE, Tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TEXT = "the merger is on Friday"


@pytest.fixture
def exported() -> InMemorySpanExporter:
    """Where finished spans end up."""
    return InMemorySpanExporter()


@pytest.fixture
async def traced(tl: Threadline, exported: InMemorySpanExporter) -> AsyncIterator[Site]:
    """A server whose spans are exported, once on each store."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    async with running(tl, tracing=Tracing(provider)) as site:
        yield site
    provider.shutdown()


def named(exported: InMemorySpanExporter, name: str) -> ReadableSpan:
    """The newest span of this name in the trace of the test."""
    found = [span for span in of_the_trace(exported) if span.name == name]
    assert found, [span.name for span in exported.get_finished_spans()]
    return found[-1]


def of_the_trace(exported: InMemorySpanExporter) -> list[ReadableSpan]:
    """The spans of the caller's trace."""
    spans = exported.get_finished_spans()
    return [span for span in spans if span.context and f"{span.context.trace_id:032x}" == TRACE]


def parent(span: ReadableSpan) -> str:
    """The id of the span above it."""
    assert span.parent is not None
    return f"{span.parent.span_id:016x}"


def own(span: ReadableSpan) -> str:
    """Its own id."""
    assert span.context is not None
    return f"{span.context.span_id:016x}"


async def test_a_message_is_one_trace_from_its_request_to_its_reader(
    traced: Site, exported: InMemorySpanExporter
) -> None:
    """Request, story, commit, hand-out, under the caller's `traceparent`."""
    boss = await traced.controller()
    lobby = (await boss.post("/v1/conversations", json=LOBBY)).json()["id"]
    await boss.put(f"/v1/conversations/{lobby}/members/coder", json={"policy": "all"})
    coder = await traced.session("coder")

    async with traced.stream(coder, "/v1/sessions/coder/stream") as events:
        await boss.post(
            f"/v1/conversations/{lobby}/transcript",
            json=message(TEXT),
            headers={"traceparent": f"00-{TRACE}-{PARENT}-01"},
        )
        assert await events.records(1) == [TEXT]

    request = named(exported, "POST /v1/conversations/{conversation}/transcript")
    story, commit = named(exported, "Append"), named(exported, "commit")
    handed = named(exported, "hand out to stream")
    assert request.kind is SpanKind.SERVER
    chain = [parent(request), parent(story), parent(commit), parent(handed)]
    assert chain == [PARENT, own(request), own(story), own(story)]
    for span in (story, handed):
        assert span.attributes is not None
        assert (span.attributes[CONVERSATION], span.attributes[SEQUENCE]) == (lobby, 1)
    assert story.attributes is not None
    assert story.attributes["threadline.decision"] == "appended"


async def test_a_duplicate_and_a_refusal_say_what_they_are(
    traced: Site, exported: InMemorySpanExporter
) -> None:
    """The decision stands on the story's span."""
    boss = await traced.controller()
    lobby = (await boss.post("/v1/conversations", json=LOBBY)).json()["id"]
    path = f"/v1/conversations/{lobby}/transcript"
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    await boss.post(path, json=message(TEXT, message_id="m1"))

    await boss.post(path, json=message(TEXT, message_id="m1"), headers=headers)
    duplicate = named(exported, "Append")
    await boss.post(
        f"/v1/conversations/{lobby}/messages",
        json={"session_id": "nobody", "text": TEXT},
        headers=headers,
    )
    refused = named(exported, "Publish")

    assert duplicate.attributes is not None
    assert refused.attributes is not None
    assert duplicate.attributes["threadline.decision"] == "duplicate"
    assert refused.attributes["threadline.decision"] == "session_not_found"


async def test_no_span_holds_a_name_a_secret_or_what_was_said(
    traced: Site, exported: InMemorySpanExporter
) -> None:
    """Ids and numbers only."""
    boss = await traced.controller()
    lobby = (await boss.post("/v1/conversations", json=LOBBY)).json()["id"]
    await boss.put(f"/v1/conversations/{lobby}/members/coder", json={"policy": "all"})
    await boss.put(f"/v1/conversations/{lobby}/binding", json={"session_id": "coder"})
    coder = await traced.session("coder")
    await boss.post(f"/v1/conversations/{lobby}/transcript", json=message(TEXT, message_id="m-77"))
    await coder.post(
        f"/v1/conversations/{lobby}/messages", json={"session_id": "coder", "text": TEXT}
    )
    await coder.get("/v1/sessions/coder/inbox", headers={"Cookie": "session=hush"})

    told = "\n".join(span.to_json() for span in exported.get_finished_spans())

    assert "commit" in told
    for secret in (TEXT, "coder", "lobby", "office", "Ada", "m-77", "hush", "tl_"):
        assert secret not in told, secret


async def test_where_nobody_traces_nothing_is_remembered(
    site: Site, boss: httpx.AsyncClient, lobby: str
) -> None:
    """No span is made, and no place is kept for one."""
    await boss.post(f"/v1/conversations/{lobby}/transcript", json=message(TEXT))

    tracing: Tracing = site.app.state.tracing
    assert tracing.active is False
    assert len(tracing._places) == 0
