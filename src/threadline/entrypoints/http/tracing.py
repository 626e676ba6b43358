"""One message as OpenTelemetry spans: request, story, commit, hand-out.

The request's span goes on where the caller's `traceparent` left off. A story that writes has a span
from its asking to its answer, and in it the commit it shared with others. Whoever the record is
handed to later has a span under the same trace, as long as this process remembers it. Spans carry
a conversation's id and a sequence, never a name and never what was said.

Where no SDK is configured nothing of this happens: `active` is looked at once, when the server is
made.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from opentelemetry import trace
from opentelemetry.propagate import extract
from opentelemetry.trace import NoOpTracerProvider, ProxyTracerProvider, SpanKind, StatusCode

from threadline.core.errors import ThreadlineError
from threadline.core.ids import public
from threadline.core.ports import Outcome, Story
from threadline.core.recording import Taken
from threadline.entrypoints.http.metrics import decision
from threadline.flows.statuses import DeliveryStatus

REMEMBERED = 4_096
CONVERSATION = "threadline.conversation"
SEQUENCE = "threadline.sequence"

Place = tuple[str, int]
Headers = Iterable[tuple[bytes, bytes]]


class Tracing:
    """The spans of one server."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        found = provider or trace.get_tracer_provider()
        self.active = not isinstance(found, (NoOpTracerProvider, ProxyTracerProvider))
        self._tracer = found.get_tracer("threadline", version("threadline"))
        self._places: OrderedDict[Place, trace.SpanContext] = OrderedDict()

    @contextmanager
    def request(self, method: str, sent: Headers) -> Iterator[trace.Span | None]:
        """The span of a request, under the caller's. None where nobody traces."""
        if not self.active:
            yield None
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in sent}
        with self._tracer.start_as_current_span(
            method,
            context=extract(headers),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield span

    def answered(self, span: trace.Span, method: str, route: str, status: int) -> None:
        """What the request turned out to be."""
        span.update_name(f"{method} {route}")
        span.set_attribute("http.route", route)
        span.set_attribute("http.response.status_code", status)
        if status >= 500:
            span.set_status(StatusCode.ERROR)

    def asked(self, story: Story[Any]) -> trace.Span | None:
        """The span of a story that may write, under the one of whoever asks."""
        if not self.active:
            return None
        return self._tracer.start_span(type(story).__name__)

    def settled(self, outcomes: Sequence[Outcome], nanoseconds: int) -> None:
        """End the stories' spans; each has the commit it shared."""
        end = time.time_ns()
        for outcome in outcomes:
            span: trace.Span | None = outcome.mark
            if span is not None:
                self._settle(span, outcome.answer, len(outcomes), end - nanoseconds, end)

    def _settle(self, span: trace.Span, answer: Any, size: int, began: int, end: int) -> None:
        parent = trace.set_span_in_context(span)
        commit = self._tracer.start_span("commit", context=parent, start_time=began)
        commit.set_attribute("threadline.batch", size)
        commit.end(end)
        match answer:
            case Taken() as taken:
                span.set_attribute(CONVERSATION, public(taken.conversation))
                span.set_attribute("threadline.decision", decision(taken) or "again")
                span.set_attribute("threadline.readers", taken.readers)
                if taken.route is not None:
                    span.set_attribute("threadline.route", taken.route)
                if taken.sequence is not None:
                    span.set_attribute(SEQUENCE, taken.sequence)
                    if not taken.duplicate:
                        self._remember(public(taken.conversation), taken.sequence, span)
            case DeliveryStatus() as status:
                span.set_attribute(CONVERSATION, status.conversation)
                span.set_attribute("threadline.decision", status.state.value)
                if status.sequence is not None:
                    span.set_attribute(SEQUENCE, status.sequence)
                    self._remember(status.conversation, status.sequence, span)
            case ThreadlineError() as refusal:
                span.set_attribute("threadline.decision", refusal.code)
                if refusal.status >= 500:
                    span.set_status(StatusCode.ERROR)
            case Exception():
                span.set_status(StatusCode.ERROR)
        span.end(end)

    def _remember(self, conversation: str, sequence: int, span: trace.Span) -> None:
        self._places[conversation, sequence] = span.get_span_context()
        if len(self._places) > REMEMBERED:
            self._places.popitem(last=False)

    def handed(self, way: str, conversation: str, sequence: int) -> None:
        """A record was handed to a reader: under the trace that brought it, where it is known."""
        if not self.active:
            return
        origin = self._places.get((conversation, sequence))
        parent = None
        if origin is not None:
            parent = trace.set_span_in_context(trace.NonRecordingSpan(origin))
        span = self._tracer.start_span(
            f"hand out to {way}",
            context=parent,
            attributes={CONVERSATION: conversation, SEQUENCE: sequence, "threadline.way": way},
        )
        span.end()
