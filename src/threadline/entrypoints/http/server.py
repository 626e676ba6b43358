"""The application: every route, one guard, one way to refuse; and how it starts and stops."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.handlers.base import BaseRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import ASGIApp

from threadline.core.errors import ConfigError
from threadline.core.ports import Outcome
from threadline.entrypoints.http import (
    adapters,
    asked,
    attaching,
    attachments,
    auditing,
    auth,
    chat,
    context,
    conversations,
    document,
    health,
    inbound,
    initiative,
    links,
    login,
    mcp,
    me,
    members,
    origins,
    page,
    people,
    publishing,
    push,
    searching,
    sessions,
    speakers,
    streams,
    tokens,
    webhooks,
)
from threadline.entrypoints.http.buckets import Buckets, GuestLimits
from threadline.entrypoints.http.limits import BODY_BYTES, Bodies, Segments, hurried
from threadline.entrypoints.http.loops import LONGEST_PAUSE, Pulse, every, kept
from threadline.entrypoints.http.metrics import Metrics
from threadline.entrypoints.http.problems import HANDLERS
from threadline.entrypoints.http.requests import Requests
from threadline.entrypoints.http.tracing import Tracing
from threadline.entrypoints.logs import logger
from threadline.flows.every import Flows

MODULES: tuple[Any, ...] = (
    conversations,
    context,
    members,
    speakers,
    sessions,
    publishing,
    initiative,
    people,
    auditing,
    inbound,
    searching,
    streams,
    tokens,
    me,
    attaching,
    health,
    links,
    chat,
    login,
    adapters,
    webhooks,
    push,
    attachments,
    mcp,
    page,
)

Loop = Callable[[Flows, asyncio.Event], Coroutine[Any, Any, None]]

UPKEEP_SECONDS = 30.0
# Together under the ten seconds after which a supervisor loses its patience.
GOODBYE_SECONDS = 6
LOOP_SECONDS = 2.0
SENT_BYTES = 256 * 1024

_log = logger("server")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where the server listens. `allowed_hosts` are further names it may be called by, `public_url`
    is where people reach it where that is another place, such as a proxy with a certificate.

    A client has `header_seconds` for the head of a request and `body_seconds` for its body; one
    that does not read what it is sent for `slow_reader_seconds` is cut.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    allowed_hosts: tuple[str, ...] = field(default=())
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    slow_reader_seconds: float = 30.0
    public_url: str = ""
    guests: GuestLimits = field(default_factory=GuestLimits)

    @property
    def url(self) -> str:
        """Where a browser on this machine finds it."""
        host = "127.0.0.1" if self.host in origins.ANYWHERE else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def names(self) -> frozenset[str]:
        """Every name the server answers to."""
        named = {self.host, *self.allowed_hosts} - origins.ANYWHERE
        public = origins.parted(self.public_url)
        return (
            origins.LOOPBACK
            | {origins.split(name)[0] for name in named}
            | ({public[1]} if public is not None else set())
        )


async def upkeep(line: Flows, stopping: asyncio.Event) -> None:
    """Tidy from time to time: windows, expired bindings, floors, keys."""
    await every(UPKEEP_SECONDS, stopping, line.upkeep.round)


class Witness:
    """Counts and traces what the store commits, whichever way it came in."""

    def __init__(self, metrics: Metrics, tracing: Tracing) -> None:
        self.asked = tracing.asked
        self._metrics = metrics
        self._tracing = tracing

    def settled(self, outcomes: Sequence[Outcome], nanoseconds: int) -> None:
        """See `core.ports.Witness.settled`."""
        self._metrics.settled(outcomes, nanoseconds)
        if self._tracing.active:
            self._tracing.settled(outcomes, nanoseconds)


@contextlib.asynccontextmanager
async def living(app: Litestar) -> AsyncIterator[None]:
    """The loops run beside the requests, and the store is watched."""
    line: Flows = app.state.line
    metrics: Metrics = app.state.metrics
    stopping = app.state.stopping = asyncio.Event()

    async def doorman() -> None:
        """Cut the streams of tokens that were revoked."""
        await every(auth.LOOK_SECONDS, stopping, app.state.doorman.look)

    loops: list[Loop] = [upkeep]
    for module in MODULES:
        loops += getattr(module, "LOOPS", [])
    running: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
        loop.__name__: functools.partial(loop, line, stopping) for loop in loops
    }
    running["doorman"] = doorman
    for name, work in running.items():
        pulse = Pulse(name, metrics)
        app.state.pulses.append(pulse)
        # A token revoked while the store was away is to be noticed as soon as it is back.
        longest = 1.0 if work is doorman else LONGEST_PAUSE
        keeping = kept(pulse, work, stopping, longest=longest)
        app.state.tasks.append(asyncio.create_task(keeping, name=name))
    line.store.witness = Witness(metrics, app.state.tracing)
    try:
        yield
    finally:
        stopping.set()
        line.store.witness = None
        _, late = await asyncio.wait(app.state.tasks, timeout=LOOP_SECONDS)
        for task in late:
            _log.warning("loop.late", loop=task.get_name())
            task.cancel()
        await asyncio.gather(*app.state.tasks, return_exceptions=True)


async def guard(connection: auth.Connection, handler: BaseRouteHandler) -> None:
    """Who may come, then what may be asked. One guard: the framework copies the route for each.

    Raises `Unauthenticated`, `Unauthorized`, `InvalidInput`, `UnsupportedMediaType`.
    """
    await auth.guard(connection, handler)
    await asked.guard(connection, handler)


def routed() -> Litestar:
    """Every route, on no store yet. This is nearly all the work of making an application."""
    return Litestar(
        [document.openapi, *(route for module in MODULES for route in module.ROUTES)],
        guards=[guard],
        dependencies={
            "line": Provide(auth.provide_line),
            "caller": Provide(auth.provide_caller),
        },
        middleware=[Segments],
        request_class=asked.Asked,
        exception_handlers=HANDLERS,
        lifespan=[living],
        request_max_body_size=BODY_BYTES,
        openapi_config=OpenAPIConfig(
            title="threadline",
            version="1",
            openapi_router=Router(
                "/openapi", route_handlers=[], opt=auth.callers(auth.OPEN), include_in_schema=False
            ),
            use_handler_docstrings=True,
            render_plugins=[JsonRenderPlugin()],
            components=Components(
                security_schemes={"bearer": SecurityScheme(type="http", scheme="bearer")}
            ),
            security=[{"bearer": []}],
        ),
        logging_config=None,
    )


def make_app(
    line: Flows,
    *,
    settings: ServerSettings,
    tracing: Tracing | None = None,
    app: Litestar | None = None,
) -> Litestar:
    """The application on an open store. `tracing` is what OpenTelemetry is configured for; `app`
    is one from `routed`, or one whose server has ended: nothing of that is left in it.
    """
    app = app or routed()
    metrics = Metrics(line.store.kind)
    metrics.state(line.census)
    metrics.webhooks(line.webhooks.counts)
    app.state = State()
    app.state.line = line
    app.state.parameters = asked.parameters(app)
    app.state.settings = settings
    app.state.doorman = auth.Doorman(line)
    app.state.buckets = Buckets(settings.guests)
    app.state.streams = app.state.slow_readers = 0
    app.state.metrics = metrics
    app.state.tracing = tracing or Tracing()
    app.state.readiness = health.Readiness(line)
    app.state.pulses, app.state.tasks = [], []
    metrics.follow("streams", "Streams that are open.", lambda: float(app.state.streams))
    metrics.follow(
        "slow_readers", "Streams closed as not read.", lambda: float(app.state.slow_readers)
    )
    return app


def guarded(app: Litestar, settings: ServerSettings) -> ASGIApp:
    """The application behind what is judged before it: foreign hosts and pages, slow bodies.

    Around all of it every request is counted and logged, also one that is turned away.
    """
    inside = origins.Origins(
        Bodies(app, settings.body_seconds), settings.names, settings.public_url
    )
    return Requests(inside, app.state.metrics, app.state.tracing)


class Server(uvicorn.Server):
    """Tells streams and loops to end before it waits for its connections."""

    def __init__(
        self, app: Litestar, settings: ServerSettings, told: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(
            uvicorn.Config(
                guarded(app, settings),
                host=settings.host,
                port=settings.port,
                http=hurried(settings.header_seconds),
                ws="none",
                lifespan="on",
                access_log=False,
                log_config=None,
                proxy_headers=False,
                server_header=False,
                date_header=True,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=GOODBYE_SECONDS,
            )
        )
        self._app = app
        self._told = told

    async def startup(self, sockets: list[Any] | None = None) -> None:
        """See `uvicorn.Server.startup`."""
        await super().startup(sockets)
        if self.started:
            self._told()

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        """See `uvicorn.Server.shutdown`."""
        _log.info("server.stopping", streams=self._app.state.streams)
        self._app.state.stopping.set()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are listened to by `heeding`, and from before the store is opened."""
        yield


@contextlib.contextmanager
def heeding() -> Iterator[asyncio.Event]:
    """Set at the first SIGTERM or SIGINT. Further ones change nothing: what was begun is ended,
    within seconds, and the process leaves by itself."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, asked.set)
    try:
        yield asked
    finally:
        for number in signals:
            # From here on the process ends by itself: a late signal must not spoil its exit code.
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def listening(settings: ServerSettings) -> Iterator[socket.socket]:
    """The socket the server will answer on. Raises `ConfigError` where it cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sends small answers at once only where it is told that this is TCP: otherwise the body
    # of each waits some 40 ms for the other side to acknowledge its head.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What a reader does not take is kept by the kernel up to this, and no further.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_BYTES)
        try:
            sock.bind((settings.host, settings.port))
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {settings.host} port {settings.port}: "
                f"{error.strerror or error}. Choose another with --port or THREADLINE_PORT."
            ) from None
        yield sock


async def served(
    line: Flows,
    settings: ServerSettings,
    sock: socket.socket,
    started: Callable[[], None],
    asked: asyncio.Event,
) -> None:
    """Serve until `asked` is set (see `heeding`); `started` is called when it answers."""
    server = Server(make_app(line, settings=settings), settings, started)

    async def watch() -> None:
        await asked.wait()
        server.should_exit = True

    watching = asyncio.create_task(watch())
    try:
        await server.serve(sockets=[sock])
    finally:
        watching.cancel()
