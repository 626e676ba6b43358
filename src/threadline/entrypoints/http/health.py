"""Is it alive, is it ready, how is it, in figures and for Prometheus.

`/health` and `/ready` are open: an orchestrator has no token. `/metrics` is for a scraper on this
machine and for nobody a proxy speaks for. `/v1/status` is for whoever may see everything.
"""

from __future__ import annotations

import asyncio
import time
from ipaddress import ip_address
from typing import Any

from litestar import Request, Response, get

from threadline.core.errors import NotFound, SchemaNewer, StoreUnavailable, ThreadlineError
from threadline.entrypoints.http.auth import CONTROLLER, OPEN, Asker, Connection, Line, callers
from threadline.entrypoints.http.conversations import Answer
from threadline.entrypoints.http.loops import Pulse, every
from threadline.entrypoints.http.metrics import Metrics
from threadline.entrypoints.http.problems import problem
from threadline.entrypoints.shapes import plain
from threadline.flows.census import ReadSchema
from threadline.flows.every import Flows

PATIENCE = 2.0
CENSUS_SECONDS = 15.0
# Whoever comes through a proxy comes from somewhere else, whatever the socket says.
FORWARDED = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
)
TEXT = "text/plain; version=0.0.4; charset=utf-8"


class NotReady(ThreadlineError):
    """The server cannot take requests at the moment."""

    status = 503


class Readiness:
    """Whether requests can be answered. Those who ask at the same time share one look."""

    def __init__(self, line: Flows, *, patience: float = PATIENCE) -> None:
        self._line = line
        self._patience = patience
        self._look: asyncio.Task[ThreadlineError | None] | None = None

    async def fault(self) -> ThreadlineError | None:
        """Why not, None where it is ready."""
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._looked())
        return await asyncio.shield(self._look)

    async def _looked(self) -> ThreadlineError | None:
        store = self._line.store
        if store.broken is not None:
            return store.broken
        try:
            async with asyncio.timeout(self._patience):
                schema = await store.read(ReadSchema())
        except TimeoutError:
            return StoreUnavailable(f"it did not answer within {self._patience:g} seconds.")
        except ThreadlineError as error:
            return error
        if schema is not None and schema > store.schema:
            return SchemaNewer(f"(schema {schema}, this threadline knows {store.schema})")
        return None


def is_here(connection: Connection) -> bool:
    """Whether a request comes from this machine and from nobody behind it."""
    client = connection.client
    if client is None or any(name in connection.headers for name in FORWARDED):
        return False
    try:
        return ip_address(client.host).is_loopback
    except ValueError:
        return False


@get("/health", opt=callers(OPEN))
async def health() -> Answer:
    """The process lives. Says nothing about the store."""
    return {"status": "ok", "service": "threadline"}


@get("/ready", opt=callers(OPEN))
async def ready(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
    """The store answers and this threadline knows its schema; 503 with the reasons otherwise."""
    state = request.app.state
    reasons: list[dict[str, str]] = []
    if state.stopping.is_set():
        reasons.append({"code": "stopping", "detail": "The server is stopping."})
    elif (fault := await state.readiness.fault()) is not None:
        # Anybody may ask, so it is said in general; `/v1/status` names the place.
        sentence = (type(fault).__doc__ or "").strip().split("\n")[0]
        reasons.append({"code": fault.code, "detail": sentence})
    failing = [pulse.name for pulse in pulses_of(request) if pulse.failing]
    if reasons:
        words = " ".join(one["detail"] for one in reasons)
        return problem(NotReady(words, reasons=reasons, failing_loops=failing))
    return Response({"status": "ready", "failing_loops": failing})


@get("/metrics", opt=callers(OPEN), media_type=TEXT)
async def metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Figures in Prometheus' text form, for a scraper on this machine."""
    if not is_here(request):
        raise NotFound("there is no such route.")
    counted: Metrics = request.app.state.metrics
    return Response(counted.text(), media_type=TEXT)


@get("/v1/status", opt=callers(CONTROLLER))
async def status(request: Request[Any, Any, Any], line: Line, caller: Asker) -> Answer:
    """How much there is, what waits, who lags, how the background work does.

    Conversations, records, sessions, lags and deliveries are those of the caller's scope; what is
    held or parked, streams and loops are the server's. `as_of` says how old the figures are, and
    `complete` is false before a large store was looked through for the first time.
    """
    from importlib.metadata import version

    state = request.app.state
    summary = await line.census.summary(caller=caller)
    fault = await state.readiness.fault()
    counts = summary.counts
    return {
        "version": version("threadline"),
        "store": {
            "kind": line.store.kind,
            "schema": line.store.schema,
            "fault": None if fault is None else {"code": fault.code, "detail": str(fault)},
        },
        "uptime_seconds": round(time.time() - state.metrics.started, 3),
        "as_of": plain(summary.as_of),
        "complete": summary.complete,
        "conversations": counts.conversations,
        "records": counts.records,
        "sessions": counts.sessions,
        "members": counts.members,
        "members_behind": counts.behind,
        "lag": counts.lag,
        "conversations_nobody_reads": counts.unread,
        "lagging": [plain(one) for one in summary.lagging],
        "held": summary.held,
        "parked": summary.parked,
        "deliveries": {"open": summary.deliveries, "last_day": summary.recent},
        "streams": state.streams,
        "slow_readers": state.slow_readers,
        "stopping": state.stopping.is_set(),
        "search": {"last_error": line.search.trouble},
        "loops": [pulse.shown() for pulse in pulses_of(request)],
    }


def pulses_of(request: Connection) -> list[Pulse]:
    """How the loops do."""
    pulses: list[Pulse] = request.app.state.pulses
    return pulses


async def census(line: Flows, stopping: asyncio.Event) -> None:
    """Count the store for the gauges, some pages at a time."""
    await every(CENSUS_SECONDS, stopping, line.census.step)


ROUTES = [health, ready, metrics, status]
LOOPS = [census]
