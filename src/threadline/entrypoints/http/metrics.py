"""What is counted, for Prometheus: one registry a server, and no name of anybody in a label.

Counters move where something was decided: the store's batches tell what was appended, said and
acknowledged, whichever way it came in; requests, streams and loops are told by the server. What is
a state of the store (lag, held, parked) is a gauge of the newest census.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from threadline.core.deliveries import Delivery, DeliveryState
from threadline.core.errors import ThreadlineError
from threadline.core.outside import Fault
from threadline.core.ports import Outcome
from threadline.core.recording import Taken
from threadline.flows import batches
from threadline.flows.census import Census
from threadline.flows.hearing import About, HearReceipt
from threadline.flows.outbox import Settle
from threadline.flows.replay import Acknowledge
from threadline.flows.statuses import DeliveryStatus

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
COMMIT_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
BATCH = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def decision(taken: Taken) -> str | None:
    """What was decided about a message; None where it has to be taken once more."""
    if taken.duplicate:
        return "duplicate"
    if taken.held:
        return "held"
    return None if taken.record is None else "appended"


class Metrics:
    """The counters of one server."""

    def __init__(self, kind: str) -> None:
        self.registry = registry = CollectorRegistry()
        self.started = time.time()
        ProcessCollector(registry=registry)
        build = self._gauge("build", "Which threadline on which store.", "version", "store")
        build.labels(version("threadline"), kind).set(1)
        self._gauge("start_time_seconds", "When the server started.").set(self.started)
        self._appends = self._counter(
            "appends", "Messages: appended, duplicate, held or imported.", "direction", "outcome"
        )
        self._unread = self._counter("unread", "Messages of conversations that nobody reads.")
        self._publishes = self._counter(
            "publishes", "What sessions said, by the state it was answered with.", "state"
        )
        self._failed = self._counter(
            "deliveries_failed", "What was not said or reached nobody.", "provider", "account"
        )
        self._acks = self._counter("acks", "Acknowledgements.")
        self._refusals = self._counter(
            "refusals", "What was refused or failed in the store, by its code.", "code"
        )
        self._parked = self._counter("messages_parked", "Messages that could not be saved.")
        self._batch = self._histogram("batch_stories", "Stories a commit.", BATCH)
        self._commit = self._histogram("commit_seconds", "How long a commit took.", COMMIT_SECONDS)
        self._requests = self._counter(
            "http_requests", "Requests by route and status.", "method", "route", "status"
        )
        self._seconds = self._histogram(
            "http_request_seconds", "How long requests took, streams apart.", REQUEST_SECONDS
        )
        self._answered: dict[tuple[str, str, int], Counter] = {}
        self._pushes = self._counter("push_failures", "Pushes that failed.", "reason")
        self._handed = self._counter("handed", "Records handed to readers.", "way")
        self._loop_failures = self._counter("loop_failures", "Background loops.", "loop")
        self._loop_seen = self._gauge(
            "loop_last_success_timestamp_seconds", "When a background loop last did well.", "loop"
        )

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"threadline_{name}", about, labels, registry=self.registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(f"threadline_{name}", about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(f"threadline_{name}", about, buckets=buckets, registry=self.registry)

    def follow(self, name: str, about: str, value: Callable[[], float]) -> None:
        """A gauge that is read when it is asked for."""
        self._gauge(name, about).set_function(value)

    # --- told by the store -------------------------------------------------------------------

    def settled(self, outcomes: Sequence[Outcome], nanoseconds: int) -> None:
        """A batch was committed or refused. Summed up first: a counter is a lock."""
        self._batch.observe(len(outcomes))
        self._commit.observe(nanoseconds / 1e9)
        appends: dict[tuple[str, str], int] = {}
        unread = acks = 0
        for outcome in outcomes:
            answer = outcome.answer
            if type(answer) is Taken:
                if (decided := decision(answer)) is not None:
                    direction = "inbound" if answer.record is None else answer.record.direction
                    appends[direction, decided] = appends.get((direction, decided), 0) + 1
                    unread += decided == "appended" and not answer.readers
            elif isinstance(outcome.story, Acknowledge):
                acks += not isinstance(answer, Exception)
            if type(answer) is not Taken:
                self._rarer(answer, appends)
                self._failing(outcome)
        for (direction, decided), number in appends.items():
            self._appends.labels(str(direction), decided).inc(number)
        if unread:
            self._unread.inc(unread)
        if acks:
            self._acks.inc(acks)

    def _rarer(self, answer: Any, appends: dict[tuple[str, str], int]) -> None:
        match answer:
            case DeliveryStatus(repeated=False, state=state, sequence=sequence):
                self._publishes.labels(state.value).inc()
                if sequence is not None:
                    appends["outbound", "appended"] = appends.get(("outbound", "appended"), 0) + 1
            case ThreadlineError() as refusal:
                self._refusals.labels(refusal.code).inc()
                if "parked" in refusal.facts:
                    self._parked.inc()
            case list() as answers:
                for one in answers:
                    if type(one) is Taken and one.record is not None:
                        decided = "duplicate" if one.duplicate else "imported"
                        key = (one.record.direction, decided)
                        appends[key] = appends.get(key, 0) + 1

    def _failing(self, outcome: Outcome) -> None:
        """Count a delivery that failed, by the account it was to go through, and a push that did
        not arrive, by one of few words: never an address or a text."""
        match outcome.story, outcome.answer:
            case Settle(attempt=attempt), Delivery(state=DeliveryState.FAILED):
                self._failed.labels(attempt.provider, attempt.account).inc()
            case HearReceipt(receipt=receipt), About(failed=True):
                ref = receipt.conversation
                self._failed.labels(ref.provider, ref.account_id).inc()
            case batches.Settle(arrived=False, fault=fault), _:
                self._pushes.labels((fault or Fault.UNREACHABLE).value).inc()

    # --- told by the server ------------------------------------------------------------------

    def request(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """A request was answered; `seconds` is None for a stream."""
        known = method if method in METHODS else "other"
        counter = self._answered.get((known, route, status))
        if counter is None:
            counter = self._requests.labels(known, route, str(status))
            self._answered[known, route, status] = counter
        counter.inc()
        if seconds is not None:
            self._seconds.observe(seconds)

    def handed(self, way: str) -> None:
        """A record was handed to a reader: `stream`, `watch`, `inbox`."""
        self._handed.labels(way).inc()

    def loop_failed(self, name: str) -> None:
        """A background loop raised."""
        self._loop_failures.labels(name).inc()

    def loop_did_well(self, name: str) -> None:
        """A background loop finished a round."""
        self._loop_seen.labels(name).set_to_current_time()

    def state(self, census: Census) -> None:
        """Gauges of what the newest census found; nothing of it is counted for the answer."""
        for name, about, value in _of_the_store():
            self.follow(name, about, functools.partial(_number, value, census))

    def webhooks(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Count what comes in through webhooks, as its entrance does."""
        self.registry.register(_Webhooks(counts))

    def text(self) -> bytes:
        """Everything in Prometheus' text form, without when each counter was made."""
        lines = generate_latest(self.registry).splitlines(keepends=True)
        return b"".join(line for line in lines if b"_created" not in line)


class _Webhooks(Collector):
    """What came of what providers sent, read when it is asked for."""

    def __init__(self, counts: Mapping[tuple[str, str], int]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[CounterMetricFamily]:
        """One figure for each provider and outcome."""
        about = "What providers sent, by what came of it."
        family = CounterMetricFamily("threadline_webhooks", about, labels=("provider", "outcome"))
        for (provider, outcome), number in sorted(self._counts.items()):
            family.add_metric((provider, outcome), number)
        yield family


def _number(value: Callable[[Census], float], census: Census) -> float:
    return float(value(census))


def _of_the_store() -> Iterator[tuple[str, str, Callable[[Census], float]]]:
    yield "conversations", "Conversations.", lambda it: it.total.conversations
    yield "records", "Records that are kept.", lambda it: it.total.records
    yield "sessions", "Sessions that are members somewhere.", lambda it: it.total.sessions
    yield "members_behind", "Memberships with something unread.", lambda it: it.total.behind
    yield "lag_sum", "Entries not read, over all memberships.", lambda it: it.total.lag
    yield "lag_max", "Entries not read by the slowest membership.", lambda it: it.total.lag_max
    yield "nobody_reads", "Conversations with records and no reader.", lambda it: it.total.unread
    yield "held", "Messages that wait for an import.", lambda it: it.waiting.held
    yield "parked", "Messages that were put aside.", lambda it: it.waiting.parked
    yield "deliveries_open", "Deliveries not at their end.", lambda it: it.waiting.open
    yield "census_timestamp_seconds", "When this was counted.", lambda it: it.timestamp
